//! What policies are told.

use recovery::{PacketNumber, slp_arbiter::Marks};
use units::Duration;

use crate::wire::PathId;

/// A flight of the handshake that has just left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flight {
    /// Its size in bytes.
    pub bytes: u64,
    /// What its loss would cost: the probe timeout.
    pub timeout: Duration,
    /// Smoothed round-trip time; `None` before any sample.
    pub rtt: Option<Duration>,
    /// The share that the path is known to have lost by chance, to this connection or to earlier
    /// ones, 0 to 1: 0 as long as nothing is known of it.
    pub known_loss: f64,
}

/// A packet with data of an application that has just left, new data or again, but never a recovery
/// packet.
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
    /// The block that it has become a source of.
    pub source: Option<BlockSource>,
    /// Round-trip time to expect of it.
    pub rtt: Duration,
}

/// A packet's place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSource {
    /// The block.
    pub block: u64,
    /// Bytes of the source: the packet's plaintext.
    pub bytes: u64,
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
    /// Whether a probe timeout passed while it was under way: without a copy its data had to wait
    /// for that.
    pub timed_out: bool,
    /// Whether recovery had sent a copy of it.
    pub copied: bool,
    /// Whether it was, or had been, a source symbol.
    pub coded: bool,
    /// Whether it counted as in flight. Probes of the path's MTU do not.
    pub in_flight: bool,
    /// Whether the path as it is now is to blame: it was in flight, and the path has not moved
    /// since.
    pub counts: bool,
    /// Round-trip time to expect of what the path carries next.
    pub rtt: Duration,
}

/// The packet that carries what a policy asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its packet number.
    pub number: PacketNumber,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Something has happened to packets, a path or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecoveryEvent {
    /// A packet that counts as in flight has left, whatever it carries.
    Sent {
        /// Its path.
        path: PathId,
    },
    /// A combination has left, as [`Ahead::Combination`](super::Ahead::Combination) asked or as a
    /// probe.
    CombinationSent {
        /// The block.
        block: u64,
        /// Which combination.
        index: u32,
        /// The path of the packet that carries it.
        path: PathId,
        /// That packet's number.
        number: PacketNumber,
        /// Round-trip time to expect of it.
        rtt: Duration,
    },
    /// A packet was acknowledged.
    Acked {
        /// Its path.
        path: PathId,
        /// Its packet number.
        number: PacketNumber,
        /// Whether it counted as in flight.
        in_flight: bool,
        /// Round-trip time to expect of what the path carries next.
        rtt: Duration,
    },
    /// A packet was declared lost.
    Lost(LostPacket),
    /// A packet that was declared lost on its path was mended: what it carried has arrived by recovery.
    Mended {
        /// Its path.
        path: PathId,
    },
    /// A packet that was declared lost has arrived after all.
    SpuriousLoss {
        /// Its path.
        path: PathId,
    },
    /// A path has been silent for a probe timeout.
    PathTimeout {
        /// The path.
        path: PathId,
        /// Whether another works: then everything un-ACKed leaves on that one now.
        moved: bool,
    },
    /// A path is gone.
    PathClosed {
        /// The path.
        path: PathId,
    },
    /// A block gets no more sources: the names of another would not fit a combination.
    BlockClosed {
        /// The block.
        block: u64,
    },
    /// The peer has a block or needs nothing of it any more, it is given up, or there is none.
    BlockSettled {
        /// The block.
        block: u64,
    },
    /// The [`deadline`](super::RecoveryPolicy::deadline) has passed.
    Deadline,
}
