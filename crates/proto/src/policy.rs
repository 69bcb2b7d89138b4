//! What to do with spare window: the papers' schemes, as policies over the transport's packets.
//!
//! A scheme is one file of this folder: a type that implements [`RecoveryPolicy`], and a constant
//! [`Scheme`] with its name. Its line in the registry below is all that the rest of the transport
//! knows of it. The decisions themselves are pure algorithms of the crate `recovery`; a policy asks
//! them about paths and packets.

mod auto;
mod cofuso;
mod ctcp;
mod event;
mod fuso;
mod limits;
mod none;
mod proactive;
mod scheme;
mod slp;
mod streaming;

use recovery::PathSample;
use units::{Duration, Instant};

pub use crate::{
    snapshot::PathSnapshot,
    wire::{CodeScheme, CodeSchemes},
};
use crate::{stats::RecoveryReasons, wire::PathId};
pub use event::{BlockSource, Carried, Flight, LostPacket, RecoveryEvent, SentData};
pub use limits::RepairConfig;
pub use recovery::{Exposed, PacketNumber, SourceRun, UnackedView, cofuso::Block, slp_arbiter::Marks};
pub use scheme::{Built, Scheme, Terms};

scheme::registry! {
    /// Nothing: plain RFC 9002.
    None = none,
    /// Every data packet twice on its own path, at once: the bad example.
    Proactive = proactive,
    /// Un-ACKed packets of the worst path again over the best (FUSO section III-B).
    Fuso = fuso,
    /// Repair symbols over the un-ACKed packets of the worst path, then as `fuso` (CoFUSO
    /// section 4.2).
    Cofuso = cofuso,
    /// Data in blocks: what is lost of a block is made up for by random linear combinations (CTCP
    /// sections 3.6 and 3.7). Best with the controller `ctcp`.
    Ctcp = ctcp,
    /// Duplicates of single packets whose loss would lead to a timeout, the handshake's among them
    /// (SLP section II-C).
    Slp = slp,
    /// A streaming code for datagrams with deadlines, whose symbols leave between the packets that
    /// follow; nothing for anything else.
    Streaming = streaming,
    /// As much repair as makes it improbable that the un-ACKed packets are not enough, in the form
    /// that suits, within a budget.
    #[default]
    Auto = auto,
}

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

/// What comes before data that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing: data leaves as it is.
    Nothing,
    /// A copy of an un-ACKed packet, if the window of the path `on` has room.
    Copy {
        /// Its packet number.
        packet: PacketNumber,
        /// The path it was sent on.
        of: PathId,
        /// The path to send the copy on.
        on: PathId,
    },
    /// Data leaves, as a source of a block.
    Source {
        /// The block: one that is open, or a number that no block had.
        block: u64,
        /// Whether it is the block's last source.
        last: bool,
    },
    /// A block gets no more sources. The policy is asked again at once.
    Close {
        /// The block.
        block: u64,
    },
    /// A random linear combination of all sources of a block, on the path that data would take. It
    /// closes the block.
    Combination {
        /// The block.
        block: u64,
        /// Which combination; every index gives another.
        index: u32,
    },
}

/// What a policy codes over, so that it must be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// Nothing.
    #[default]
    Nothing,
    /// The plaintexts of un-ACKed packets, for [`RecoveryAction::Repair`].
    Unacked,
    /// Blocks of new data, for [`Ahead::Source`] and [`Ahead::Combination`]. What a lost source
    /// carried is not sent again while its block may still be decoded.
    Blocks,
}

/// For which datagrams with deadlines a scheme wants the streaming code ([`recovery::streaming`])
/// instead of repair of what is lost or may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamCode {
    /// For none.
    #[default]
    Never,
    /// For those of whose loss no news can come in time.
    Unanswered,
    /// For all.
    Always,
}

/// A recovery scheme at work in one connection.
///
/// It is asked for packets on two occasions: before data that waits
/// ([`ahead_of_data`](Self::ahead_of_data)), and when neither new data nor lost data can be sent
/// ([`on_opportunity`](Self::on_opportunity)). Every packet it asks for is an ordinary packet of
/// the path that carries it: within that path's window, acknowledged and counted there.
pub trait RecoveryPolicy: Send + core::fmt::Debug {
    /// What it codes over. The answer never changes.
    fn coding(&self) -> Coding {
        Coding::Nothing
    }

    /// What comes before the next packet of data; also asked before an opportunity, without data.
    /// `waiting` is how many bytes of data a packet may hold, if data waits.
    fn ahead_of_data(&mut self, now: Instant, waiting: Option<u64>) -> Ahead {
        let _ = (now, waiting);
        Ahead::Nothing
    }

    /// The next recovery packet. Paths come in path id order; `paths` holds those that carry or
    /// have carried data.
    fn on_opportunity(
        &mut self,
        now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction;

    /// The action was carried out (`sent`), or turned out to be impossible; it must not be asked
    /// for again. An [`Ahead::Copy`] is reported as the action that it resembles.
    fn on_done(&mut self, action: &RecoveryAction, sent: Option<Carried>) {
        let _ = (action, sent);
    }

    /// After what time a flight of the handshake that has just left is to leave once more, unless it
    /// has been answered by then; `None` if not at all. Asked about each flight once.
    fn on_flight(&mut self, flight: &Flight) -> Option<Duration> {
        let _ = flight;
        None
    }

    /// How many datagrams of the handshake's flight are to follow the probes of a timeout, within the
    /// window; it is the nth in a row without an answer.
    fn on_flight_timeout(&mut self, nth: u32) -> u8 {
        let _ = nth;
        0
    }

    /// A packet of data has left; `paths` include it.
    fn on_data(&mut self, now: Instant, packet: &SentData, paths: &[PathSnapshot]) {
        let _ = (now, packet, paths);
    }

    /// What becomes of packets, paths and blocks.
    fn on_event(&mut self, now: Instant, event: &RecoveryEvent) {
        let _ = (now, event);
    }

    /// When [`ahead_of_data`](Self::ahead_of_data) may have a new answer although nothing happens;
    /// [`RecoveryEvent::Deadline`] tells that it has passed.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The probability with which datagrams with deadlines may miss them, if the scheme wants them
    /// repaired in time ([`recovery::in_time`]). The answer never changes.
    fn keeps_deadlines(&self) -> Option<f64> {
        None
    }

    /// Which of them a streaming code is for, if the peer decodes it. The answer never changes.
    fn stream_code(&self) -> StreamCode {
        StreamCode::Never
    }

    /// What it did so far, and why.
    fn reasons(&self) -> RecoveryReasons {
        RecoveryReasons::default()
    }
}

/// The paths as the pure algorithms see them. The pacer only delays a packet, so it does not change
/// which path is best.
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
pub fn paced(action: RecoveryAction, on: PathId, paths: &[PathSnapshot]) -> RecoveryAction {
    match paths.iter().find(|p| p.id == on) {
        Some(path) if path.pacing_wait.is_zero() => action,
        Some(_) => RecoveryAction::Wait { on },
        None => RecoveryAction::Nothing,
    }
}
