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
//!
//! # A first program
//!
//! Both ends in one program, where a datagram takes 10 ms of a time that is only counted. Whoever
//! has sockets sends what [`Connection::poll_transmit`] gives and sleeps until
//! [`Connection::poll_timeout`]; the crate `mendpath` does.
//!
//! ```
//! use std::{net::SocketAddr, sync::Arc};
//!
//! use mendpath_proto::{
//!     ClientConfig, Connection, Datagram, Dir, Endpoint, EndpointOutput, NetworkPath, Read,
//!     ServerConfig, TransportConfig,
//!     units::{Duration, Instant},
//! };
//!
//! /// Sends what `from` has to send, with addresses as the receiver sees them.
//! fn datagrams(from: &mut Connection, now: Instant) -> Vec<(NetworkPath, Vec<u8>)> {
//!     let (mut sent, mut out) = (Vec::new(), Vec::new());
//!     while let Some(transmit) = from.poll_transmit(now, 1, &mut out) {
//!         let NetworkPath { local, remote } = transmit.path;
//!         sent.push((NetworkPath { local: remote, remote: local }, std::mem::take(&mut out)));
//!     }
//!     sent
//! }
//!
//! # let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! # let certificate = certified.cert.der().clone();
//! # let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
//! # let provider = Arc::new(rustls::crypto::ring::default_provider());
//! # let mut roots = rustls::RootCertStore::empty();
//! # roots.add(certificate.clone())?;
//! # let tls_client = rustls::ClientConfig::builder_with_provider(provider.clone())
//! #     .with_protocol_versions(&[&rustls::version::TLS13])?
//! #     .with_root_certificates(roots)
//! #     .with_no_client_auth();
//! # let tls_server = rustls::ServerConfig::builder_with_provider(provider)
//! #     .with_protocol_versions(&[&rustls::version::TLS13])?
//! #     .with_no_client_auth()
//! #     .with_single_cert(vec![certificate], key.into())?;
//! // `tls_client` and `tls_server` are configurations of rustls.
//! let transport = TransportConfig::default();
//! let client_config = ClientConfig::new(Arc::new(tls_client), transport.clone());
//! let server_config = ServerConfig::new(Arc::new(tls_server), transport);
//! let mut here = Endpoint::new(None, [1; 32]);
//! let mut there = Endpoint::new(Some(Arc::new(server_config)), [2; 32]);
//!
//! let mut now = Instant::ORIGIN;
//! let addresses = NetworkPath {
//!     local: SocketAddr::from(([192, 0, 2, 1], 50_000)),
//!     remote: SocketAddr::from(([192, 0, 2, 2], 443)),
//! };
//! let (_, mut client) = here.connect(now, &client_config, addresses, "localhost")?;
//! let mut server = None;
//! let (mut stream, mut got) = (None, Vec::new());
//! while got != b"hello" {
//!     now += Duration::from_millis(10);
//!     for (path, mut data) in datagrams(&mut client, now) {
//!         let datagram = Datagram { path, ecn: None, data: &mut data };
//!         match there.handle_datagram(now, datagram, &mut Vec::new()) {
//!             Some(EndpointOutput::Incoming(incoming)) => server = Some(there.accept(now, *incoming)?.1),
//!             Some(EndpointOutput::ToConnection(_)) => {
//!                 let datagram = Datagram { path, ecn: None, data: &mut data };
//!                 server.as_mut().expect("it was accepted").handle_datagram(now, datagram);
//!             }
//!             _ => {}
//!         }
//!     }
//!     let Some(server) = &mut server else { continue };
//!     for (path, mut data) in datagrams(server, now) {
//!         client.handle_datagram(now, Datagram { path, ecn: None, data: &mut data });
//!     }
//!     for end in [&mut client, server] {
//!         if end.poll_timeout().is_some_and(|at| at <= now) {
//!             end.handle_timeout(now);
//!         }
//!     }
//!     // The peer says how many streams there may be once the handshake is over.
//!     if stream.is_none() && let Some(id) = client.open(Dir::Bi) {
//!         assert_eq!(client.write(id, b"hello")?, 5);
//!         stream = Some(id);
//!     }
//!     if let Some(id) = server.accept(Dir::Bi).or(stream) {
//!         let mut buffer = [0; 16];
//!         if let Ok(Read::Data(n)) = server.read(id, &mut buffer) {
//!             got.extend_from_slice(&buffer[..n]);
//!         }
//!     }
//! }
//! assert!(now < Instant::ORIGIN + Duration::from_millis(100), "a handshake and a request");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::missing_errors_doc)]

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
mod names;
mod observer;
mod packet_purpose;
mod path;
mod path_limits;
mod path_store;
pub mod policy;
mod quic_lb;
mod randomness;
mod range_set;
pub mod scheduler;
mod snapshot;
mod spare_room;
mod stats;
mod steady;
mod steering;
#[allow(clippy::missing_errors_doc, reason = "public for fuzzing alone; `Connection` says it")]
mod streams;
mod token;
mod token_store;
pub mod wire;

pub use cids::CID_LEN;
pub use config::{AddressValidation, Admission, ClientConfig, ServerConfig, TransportConfig};
pub use congestion::ControllerKind;
pub use connection::{
    Connection, ConnectionError, DatagramError, EndpointEvent, Event, PathError, PathEvent,
};
pub use datagrams::DatagramOptions;
pub use endpoint::{
    AcceptError, ConnectError, ConnectionHandle, Endpoint, EndpointOutput, EndpointStats, Incoming, ResetKey,
};
pub use names::UnknownName;
pub use observer::{Observe, Observed, Observer};
pub use packet_purpose::PacketPurpose;
pub use path::status::PathStatus;
pub use path_limits::{PathLimits, PathUse};
pub use path_store::PathStore;
pub use policy::{RecoveryKind, RepairConfig};
pub use quic_lb::{QuicLb, QuicLbError, ServerId};
pub use range_set::RangeSet;
pub use scheduler::SchedulerKind;
pub use snapshot::PathSnapshot;
pub use stats::{ConnectionStats, EcnState, PathState, PathStats, RecoveryReasons, TimedStats};
pub use steering::Steering;
pub use streams::{
    Chunk, CloseError, FinishError, MAX_GAPS, Read, ReadChunk, ReadError, ReceiveEnd, ReceiveLimits,
    StreamEvent, StreamsStats, WriteError,
};
pub use token_store::TokenStore;
pub use units;
pub use wire::{
    ConnectionId, Dir, PathId, Side, StreamId, TransportError, TransportErrorCode, VarInt,
    VarIntBoundsExceeded,
};

use std::net::SocketAddr;

/// Timer granularity assumed by loss detection (RFC 9002 section 6.1.2).
pub(crate) const GRANULARITY: units::Duration = units::Duration::from_millis(1);

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
