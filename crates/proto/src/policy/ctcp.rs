//! CTCP: new data travels in blocks, and what is lost of a block is made up for by random
//! combinations of it (sections 3.6 and 3.7).
//!
//! [`BlockSchedule`] decides which block the next packet is from, ahead of new data whenever the
//! window lets a packet go; this file tells it what becomes of packets. Spare window is left alone:
//! Algorithm 3 has asked for as much as it wants by then.
//!
//! # Departures
//! - p is averaged per path, with the losses that loss detection declares: no ACK has counted them.
//! - A block ends with the write whose data it holds: what comes later begins another.

use recovery::{
    UnackedView,
    ctcp_blocks::{BlockSchedule, Limits, Packet},
    ctcp_loss::ShortTermLoss,
};
use units::Instant;

use super::{
    Ahead, Built, CodeScheme, Coding, PathSnapshot, RecoveryAction, RecoveryEvent, RecoveryPolicy,
    RepairConfig, Scheme, SentData, Terms, none,
};
use crate::by_path::ByPath;

pub(super) const SCHEME: Scheme = Scheme { name: "ctcp", build };

fn build(terms: &Terms<'_>) -> Built {
    if terms.decodes.contains(CodeScheme::RandomLinear) {
        Built::new(Ctcp::new(terms.repair))
    } else {
        Built::instead(none::None, "as none")
    }
}

#[derive(Debug)]
struct Ctcp {
    schedule: BlockSchedule,
    loss: ByPath<LossRate>,
}

/// p of a path, with the losses that no ACK has counted yet.
#[derive(Debug, Default)]
struct LossRate {
    average: ShortTermLoss,
    gap: u64,
}

impl LossRate {
    fn on_acked(&mut self) {
        let gap = core::mem::take(&mut self.gap);
        self.average.on_ack(self.average.expected() + gap);
    }
}

impl Ctcp {
    /// `config` within what the peer decodes. Equations over a block take as much of the peer's
    /// memory as the block itself, hence the half.
    fn new(config: &RepairConfig) -> Self {
        let limits = Limits {
            block_size: u16::from(config.block_size.min(config.k_max)),
            max_blocks: usize::from(config.max_blocks),
            memory: config.source_memory.min(config.decoder_memory / 2),
            ..Limits::default()
        };
        Self { schedule: BlockSchedule::new(limits), loss: ByPath::new() }
    }
}

impl RecoveryPolicy for Ctcp {
    fn coding(&self) -> Coding {
        Coding::Blocks
    }

    fn ahead_of_data(&mut self, now: Instant, waiting: Option<u64>) -> Ahead {
        if waiting.is_none()
            && let Some(block) = self.schedule.open_block()
        {
            self.schedule.close_block();
            return Ahead::Close { block };
        }
        let loss = &self.loss;
        let rate = |path| loss.get(&path).map_or(0.0, |l| l.average.estimate());
        match self.schedule.next(now, waiting, rate) {
            None => Ahead::Nothing,
            Some(Packet::Source { block, index }) => {
                Ahead::Source { block, last: index + 1 >= self.schedule.block_size() }
            }
            Some(Packet::Coded { block, index }) => Ahead::Combination { block, index },
        }
    }

    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }

    fn on_data(&mut self, now: Instant, packet: &SentData, _paths: &[PathSnapshot]) {
        let Some(source) = packet.source else { return };
        let index = self.schedule.block(source.block).map_or(0, |(sources, _)| sources);
        let place = Packet::Source { block: source.block, index };
        self.schedule.on_sent(now, place, packet.path, packet.number, source.bytes, packet.rtt);
    }

    fn on_event(&mut self, now: Instant, event: &RecoveryEvent) {
        match *event {
            // What is late about a path that is gone begins no new entry.
            RecoveryEvent::Sent { path } => _ = self.loss.get_or_default(path),
            RecoveryEvent::CombinationSent { block, index, path, number, rtt } => {
                self.schedule.on_sent(now, Packet::Coded { block, index }, path, number, 0, rtt);
            }
            RecoveryEvent::Acked { path, number, in_flight: true, rtt } => {
                if let Some(loss) = self.loss.get_mut(&path) {
                    loss.on_acked();
                }
                self.schedule.on_acked(now, path, number, rtt);
            }
            RecoveryEvent::Lost(packet) if packet.in_flight => {
                if let Some(loss) = self.loss.get_mut(&packet.path) {
                    loss.gap += 1;
                }
                self.schedule.on_lost(packet.path, packet.number);
            }
            RecoveryEvent::PathTimeout { path, .. } => self.schedule.on_path_timeout(path),
            RecoveryEvent::PathClosed { path } => {
                self.schedule.on_path_closed(path);
                self.loss.remove(&path);
            }
            RecoveryEvent::BlockClosed { .. } => _ = self.schedule.close_block(),
            RecoveryEvent::BlockSettled { block } => self.schedule.on_decoded(block),
            RecoveryEvent::Deadline => self.schedule.on_deadline(now),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }
}

#[cfg(test)]
mod tests {
    use recovery::PacketNumber;
    use units::Duration;

    use super::*;
    use crate::wire::PathId;

    #[test]
    fn nothing_is_kept_of_paths_that_are_gone() {
        let mut ctcp = Ctcp::new(&RepairConfig::default());
        let path = PathId(1);
        let rtt = Duration::from_millis(50);
        let acked = RecoveryEvent::Acked { path, number: PacketNumber(0), in_flight: true, rtt };
        ctcp.on_event(Instant::ORIGIN, &RecoveryEvent::Sent { path });
        ctcp.on_event(Instant::ORIGIN, &acked);
        assert!(ctcp.loss.contains_key(&path));
        ctcp.on_event(Instant::ORIGIN, &RecoveryEvent::PathClosed { path });
        ctcp.on_event(Instant::ORIGIN, &acked);
        assert!(!ctcp.loss.contains_key(&path));
    }
}
