//! What a connection tells whoever wants to know: the events of a trace such as qlog.
//!
//! Observers see plaintext and decide nothing. Without one an event costs a look at an empty
//! option.

use std::fmt;

use units::{Duration, Instant};

use crate::{
    PacketPurpose,
    wire::{ConnectionId, PacketKind, PathId, Side},
};

/// Makes an observer for every connection of a configuration.
pub trait Observe: Send + Sync + fmt::Debug {
    /// The observer of a new connection, if it is to have one. `original` is the destination
    /// connection id of the client's first packet.
    fn connection(&self, now: Instant, side: Side, original: &ConnectionId) -> Option<Box<dyn Observer>>;
}

/// Is told about one connection.
pub trait Observer: Send {
    /// Something happened. Called from within the connection, so it should be quick.
    fn on_event(&mut self, now: Instant, event: &Observed<'_>);
}

/// What happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A packet was sent.
    PacketSent {
        /// Its path.
        path: PathId,
        /// Its type.
        kind: PacketKind,
        /// Its number.
        number: u64,
        /// Its bytes, header and authentication tag included.
        size: usize,
        /// What it is for.
        purpose: PacketPurpose,
        /// The packet whose frames it repeats, for recovery's copies.
        copy_of: Option<(PathId, u64)>,
        /// Its frames, before encryption.
        payload: &'a [u8],
    },
    /// A packet has arrived and was authenticated, or was rebuilt from repair symbols.
    PacketReceived {
        /// Its path.
        path: PathId,
        /// Its type.
        kind: PacketKind,
        /// Its number.
        number: u64,
        /// Whether it was rebuilt.
        rebuilt: bool,
        /// Its frames, after decryption.
        payload: &'a [u8],
    },
    /// A packet was declared lost.
    PacketLost {
        /// Its path.
        path: PathId,
        /// Its type.
        kind: PacketKind,
        /// Its number.
        number: u64,
    },
    /// A probe timeout fired.
    ProbeTimeout {
        /// Its path.
        path: PathId,
        /// Timeouts since the last answer.
        count: u32,
    },
    /// What congestion control and loss detection know of a path, after an acknowledgement or a
    /// loss.
    Metrics {
        /// The path.
        path: PathId,
        /// Congestion window in bytes.
        window: u64,
        /// Bytes in flight.
        in_flight: u64,
        /// Latest, smallest and smoothed round-trip time and its variation.
        rtt: [Duration; 4],
        /// The loss rate that `auto` expects, 0 to 1.
        expected_loss: f64,
    },
    /// Recovery has sent something, or has decided not to, for a reason of
    /// [`RecoveryReasons`](crate::RecoveryReasons).
    Recovery {
        /// The name of the reason's field.
        reason: &'static str,
        /// How often since the last such event.
        count: u64,
    },
}
