//! What to do with spare window: the papers' schemes, as policies over the transport's packets.
//!
//! The decisions themselves are the pure algorithms of the crate `recovery`; this module asks them about paths and packets.

mod cofuso;
mod fuso;
mod none;
mod proactive;

use recovery::{PathSample, UnackedView, cofuso::Block};
use units::Instant;

use crate::{
    config::{RecoveryKind, RepairConfig},
    snapshot::PathSnapshot,
    wire::PathId,
};

/// What to send when nothing else is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Nothing.
    Nothing,
    /// A packet should leave on this path as soon as its pacer allows; ask again then.
    Wait {
        /// The path.
        on: PathId,
    },
    /// The frames of an un-ACKed packet once more.
    Reinject {
        /// Its packet number.
        packet: u64,
        /// The path it was sent on.
        of: PathId,
        /// The path to send the copy on.
        on: PathId,
    },
    /// A repair symbol over a block of un-ACKed packets.
    Repair {
        /// The block.
        block: Block,
        /// Which of its repair symbols, from 0.
        index: u16,
        /// The path whose packets it protects.
        of: PathId,
        /// The path to send the symbol on.
        on: PathId,
    },
}

/// A recovery scheme.
///
/// Asked only when no new data and no lost data can be sent. Every packet it asks for is an ordinary packet of the path that
/// carries it: within that path's window, acknowledged and counted there.
pub trait RecoveryPolicy: Send + core::fmt::Debug {
    /// Whether the scheme sends repair symbols, so that plaintexts must be kept.
    fn codes(&self) -> bool {
        false
    }

    /// The path on which to duplicate the packet of new data that has just been sent on `of`, if any. The duplicate leaves
    /// before other data, but within the window.
    fn duplicate_at_once(&mut self, of: PathId) -> Option<PathId> {
        let _ = of;
        None
    }

    /// The next recovery packet. Paths come in path id order; `paths` holds those that carry or have carried data.
    fn on_opportunity(
        &mut self,
        now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction;

    /// The action was carried out (`sent`), or turned out to be impossible; it must not be asked for again.
    fn on_done(&mut self, action: &RecoveryAction, sent: bool) {
        let _ = (action, sent);
    }

    /// A path is gone.
    fn on_path_closed(&mut self, path: PathId) {
        let _ = path;
    }
}

/// The registry: one line per scheme. `peer_decodes` tells whether the peer rebuilds packets from repair symbols.
pub(crate) fn build(
    kind: RecoveryKind,
    repair: &RepairConfig,
    peer_decodes: bool,
) -> Box<dyn RecoveryPolicy> {
    match kind {
        RecoveryKind::None => Box::new(none::None),
        RecoveryKind::Proactive => Box::new(proactive::Proactive),
        RecoveryKind::Fuso => Box::new(fuso::Fuso),
        RecoveryKind::Cofuso if peer_decodes => Box::new(cofuso::Cofuso::new(repair)),
        RecoveryKind::Cofuso => Box::new(fuso::Fuso),
    }
}

/// The paths as the pure algorithms see them. The pacer only delays a packet, so it does not change which path is best.
fn samples(paths: &[PathSnapshot]) -> smallvec::SmallVec<[PathSample; 8]> {
    let sample = |p: &PathSnapshot| PathSample {
        path: p.id.0,
        loss: p.loss,
        rtt: p.rtt,
        spare: p.has_window(),
        protectable: p.protectable,
        ever_sent: p.ever_sent,
    };
    paths.iter().map(sample).collect()
}

/// `action` if the pacer of the path it names lets a packet go, else to wait for it.
fn paced(action: RecoveryAction, on: PathId, paths: &[PathSnapshot]) -> RecoveryAction {
    match paths.iter().find(|p| p.id == on) {
        Some(path) if path.pacing_wait.is_zero() => action,
        Some(_) => RecoveryAction::Wait { on },
        None => RecoveryAction::Nothing,
    }
}
