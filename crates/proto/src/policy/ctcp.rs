//! CTCP: new data travels in blocks, and what is lost of a block is made up for by random combinations of it (sections 3.6 and 3.7).
//!
//! The policy only says how large blocks are. Which block the next packet is from is decided by
//! [`recovery::ctcp_blocks::BlockSchedule`] whenever the window lets a packet go, ahead of new data; `connection/blocks.rs` carries it out.
//! Spare window is left alone: Algorithm 3 has asked for as much as it wants by then.

use recovery::{UnackedView, ctcp_blocks::Limits};
use units::Instant;

use super::{RecoveryAction, RecoveryPolicy};
use crate::{config::RepairConfig, snapshot::PathSnapshot};

#[derive(Debug)]
pub(super) struct Ctcp {
    limits: Limits,
}

impl Ctcp {
    /// `config` within what the peer decodes. Equations over a block take as much of the peer's memory as the block itself, hence the half.
    pub(super) fn new(config: &RepairConfig) -> Self {
        let limits = Limits {
            block_size: u16::from(config.block_size.min(config.k_max)),
            max_blocks: usize::from(config.max_blocks),
            memory: config.source_memory.min(config.decoder_memory / 2),
            ..Limits::default()
        };
        Self { limits }
    }
}

impl RecoveryPolicy for Ctcp {
    fn codes(&self) -> bool {
        true
    }

    fn block_limits(&self) -> Option<Limits> {
        Some(self.limits)
    }

    fn on_opportunity(
        &mut self,
        _now: Instant,
        _paths: &[PathSnapshot],
        _unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        RecoveryAction::Nothing
    }
}
