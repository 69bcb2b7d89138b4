//! What to do with spare window: the papers' schemes, as policies over the transport's packets.
//!
//! The decisions themselves are the pure algorithms of the crate `recovery`; this module asks them about paths and packets.

mod auto;
mod cofuso;
mod ctcp;
mod fuso;
mod none;
mod proactive;
mod slp;

use recovery::{PacketNumber, PathSample, UnackedView, cofuso::Block, ctcp_blocks, slp_arbiter::Marks};
use units::{Duration, Instant};

use crate::{
    config::{RecoveryKind, RepairConfig},
    snapshot::PathSnapshot,
    stats::RecoveryReasons,
    wire::{CodeScheme, CodeSchemes, PathId},
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
    /// Nothing before this moment; ask again then, if not earlier.
    WaitUntil {
        /// When.
        at: Instant,
    },
    /// The frames of an un-ACKed packet once more.
    Reinject {
        /// Its packet number.
        packet: PacketNumber,
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

/// A packet with data of an application that has just left, new data or again, but never a recovery packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentData {
    /// Its path.
    pub path: PathId,
    /// Its packet number.
    pub number: PacketNumber,
    /// Its size in bytes.
    pub bytes: u64,
    /// What is special about it.
    pub marks: Marks,
    /// Whether it carries data that was never sent before.
    pub fresh: bool,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// Its path.
    pub path: PathId,
    /// Its packet number.
    pub number: PacketNumber,
    /// What was special about it.
    pub marks: Marks,
    /// Whether a probe timeout passed while it was under way: without a copy its data had to wait for that.
    pub timed_out: bool,
    /// Whether recovery had sent a copy of it.
    pub copied: bool,
    /// Whether the path as it is now is to blame. It is not for probes of its MTU, nor for packets from before it moved.
    pub counts: bool,
}

/// The packet that carries what a policy asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its packet number.
    pub number: PacketNumber,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A recovery scheme.
///
/// Asked only when no new data and no lost data can be sent, but for [`block_limits`](Self::block_limits). Every packet it asks for is an ordinary packet of the path that
/// carries it: within that path's window, acknowledged and counted there.
pub trait RecoveryPolicy: Send + core::fmt::Debug {
    /// Whether the scheme sends repair symbols, so that plaintexts must be kept.
    fn codes(&self) -> bool {
        false
    }

    /// Whether new data travels in blocks of which the peer gets random linear combinations, and how large these are. Before each packet of new
    /// data the block schedule is then asked whether a combination should leave instead.
    fn block_limits(&self) -> Option<ctcp_blocks::Limits> {
        None
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
    fn on_done(&mut self, action: &RecoveryAction, sent: Option<Carried>) {
        let _ = (action, sent);
    }

    /// After what time the `bytes` of the handshake's flight that have just left are to leave once more, if at all; a loss
    /// of theirs would cost `timeout`. Asked about each flight once.
    fn duplicate_handshake(&mut self, bytes: u64, timeout: Duration) -> Option<Duration> {
        let _ = (bytes, timeout);
        None
    }

    /// A packet that counts as in flight has left on `path`, whatever it carries.
    fn on_sent(&mut self, path: PathId) {
        let _ = path;
    }

    /// A packet of data has left; `paths` include it.
    fn on_data(&mut self, now: Instant, packet: &SentData, paths: &[PathSnapshot]) {
        let _ = (now, packet, paths);
    }

    /// Packet `number` of `path` was acknowledged.
    fn on_acked(&mut self, path: PathId, number: PacketNumber) {
        let _ = (path, number);
    }

    /// A packet was declared lost.
    fn on_lost(&mut self, packet: &LostPacket) {
        let _ = packet;
    }

    /// A packet of `path` that was declared lost has arrived after all.
    fn on_spurious_loss(&mut self, path: PathId) {
        let _ = path;
    }

    /// `path` has been silent for a probe timeout. If another works (`moved`), everything un-ACKed leaves on that one now.
    fn on_timeout(&mut self, path: PathId, moved: bool) {
        let _ = (path, moved);
    }

    /// What it did so far, and why.
    fn reasons(&self) -> RecoveryReasons {
        RecoveryReasons::default()
    }

    /// A path is gone.
    fn on_path_closed(&mut self, path: PathId) {
        let _ = path;
    }
}

/// The registry: one line per scheme. `decodes` tells from which repair symbols the peer rebuilds packets.
pub(crate) fn build(
    kind: RecoveryKind,
    repair: &RepairConfig,
    decodes: CodeSchemes,
) -> Box<dyn RecoveryPolicy> {
    let (symbols, combinations) =
        (decodes.contains(CodeScheme::ReedSolomon), decodes.contains(CodeScheme::RandomLinear));
    match kind {
        RecoveryKind::None => Box::new(none::None),
        RecoveryKind::Proactive => Box::new(proactive::Proactive),
        RecoveryKind::Fuso => Box::new(fuso::Fuso),
        RecoveryKind::Cofuso if symbols => Box::new(cofuso::Cofuso::new(repair)),
        RecoveryKind::Cofuso => Box::new(fuso::Fuso),
        RecoveryKind::Ctcp if combinations => Box::new(ctcp::Ctcp::new(repair)),
        RecoveryKind::Ctcp => Box::new(none::None),
        RecoveryKind::Slp => Box::new(slp::Slp::default()),
        RecoveryKind::Auto => Box::new(auto::Auto::new(repair, symbols)),
    }
}

/// How a scheme makes do without a decoder that it needs and the peer does not have.
pub(crate) fn fallback(kind: RecoveryKind, decodes: CodeSchemes) -> Option<&'static str> {
    match kind {
        RecoveryKind::Cofuso if !decodes.contains(CodeScheme::ReedSolomon) => Some("as fuso"),
        RecoveryKind::Auto if !decodes.contains(CodeScheme::ReedSolomon) => Some("without symbols"),
        RecoveryKind::Ctcp if !decodes.contains(CodeScheme::RandomLinear) => Some("as none"),
        _ => None,
    }
}

/// The paths as the pure algorithms see them. The pacer only delays a packet, so it does not change which path is best.
fn samples(paths: &[PathSnapshot]) -> smallvec::SmallVec<[PathSample; 8]> {
    let sample = |p: &PathSnapshot| PathSample {
        path: p.id,
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
