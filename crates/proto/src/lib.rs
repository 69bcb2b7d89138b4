//! A multipath QUIC transport without I/O, which repairs loss over other paths before it costs a
//! round trip.
//!
//! QUIC version 1 (RFC 9000, 9001, 9002, 9221) with draft-ietf-quic-multipath-21 and a repair
//! extension (docs/wire-format.md). This crate never opens a socket, never reads a clock, never
//! spawns or blocks: datagrams and the time go in by `handle_*`, datagrams, deadlines and events
//! come out by `poll_*`. The same calls with the same seed give the same bytes (except for TLS's
//! own randomness, which nothing observable below it depends on).
//!
//! Start with [`Endpoint`], which makes connections and finds the one that a datagram belongs to,
//! and [`Connection`]. The structure is explained in docs/decisions/0001-transport-core.md.

mod by_path;
mod cids;
mod config;
mod connection;
mod crypto;
mod datagrams;
mod endpoint;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod observer;
mod path;
pub mod policy;
mod range_set;
pub mod scheduler;
mod stats;
mod streams;
mod token;
mod token_store;
pub mod wire;

pub use cids::CID_LEN;
pub use config::{
    AddressValidation, Admission, ClientConfig, RepairConfig, SchedulerKind, ServerConfig, TransportConfig,
    UnknownName,
};
pub use congestion::ControllerKind;
pub use connection::{
    Connection, ConnectionError, DatagramError, EndpointEvent, Event, PathError, PathEvent,
};
pub use endpoint::{
    AcceptError, ConnectError, ConnectionHandle, Endpoint, EndpointOutput, EndpointStats, Incoming, ResetKey,
};
pub use observer::{Observe, Observed, Observer};
pub use path::ecn::EcnState;
pub use path::limits::{PathLimits, PathUse};
pub use path::sent::PacketPurpose;
pub use path::snapshot::PathSnapshot;
pub use path::status::PathStatus;
pub use path::store::PathStore;
pub use policy::RecoveryKind;
pub use range_set::RangeSet;
pub use stats::{ConnectionStats, PathState, PathStats, RecoveryReasons};
pub use streams::{
    Chunk, CloseError, FinishError, MAX_GAPS, Read, ReadChunk, ReadError, ReceiveLimits, StreamEvent,
    StreamsStats, WriteError,
};
pub use token_store::TokenStore;
pub use wire::{
    ConnectionId, Dir, PathId, Side, StreamId, TransportError, TransportErrorCode, VarInt,
    VarIntBoundsExceeded,
};

use std::net::SocketAddr;

/// The two addresses a packet travels between.
///
/// `local` is the socket's address: its port tells our sockets apart, its IP is where the packet
/// was sent to if that is known, else what the socket is bound to. An unspecified local IP leaves
/// the choice to the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkPath {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

/// Explicit congestion notification codepoint of an IP packet (RFC 3168); none stands for Not-ECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// One UDP datagram from the network; mutable, because packets are decrypted in place.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Where it came from and went to.
    pub path: NetworkPath,
    /// Its ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Its payload.
    pub data: &'a mut [u8],
}

/// One or several datagrams to send with one system call; the bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to send from and to.
    pub path: NetworkPath,
    /// The ECN codepoint to set.
    pub ecn: Option<Ecn>,
    /// Bytes in all.
    pub size: usize,
    /// Size of each datagram but the last, which may be shorter; `None` for a single datagram.
    pub segment_size: Option<usize>,
}
