//! Async multipath QUIC for tokio whose paths mend each other's losses.
//!
//! A connection uses several network paths at once (WiFi and cellular, two ports of one interface, ...). What one path
//! loses is mended over the others, before it costs a round trip; how is chosen with [`RecoveryKind`]. On the wire it is
//! QUIC version 1 (RFC 9000) with draft-ietf-quic-multipath, so other QUIC stacks can be the peer.
//!
//! This crate never decides which packet goes where or how lost ones are recovered: that is the transport's business,
//! which knows no sockets and no clock. Here are the sockets, the clock, and an API of streams and datagrams. It never
//! trusts a server without verification.
//!
//! Start with [`Endpoint`], which owns UDP sockets, and [`Connection`], which it makes.

mod clock;
mod config;
mod connecting;
mod connection;
mod endpoint;
mod error;
mod identity;
mod path;
mod recv_stream;
mod send_stream;
mod verifier;

pub use config::{ClientConfig, DEFAULT_ALPN, ServerConfig};
pub use connecting::Connecting;
pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointBuilder};
pub use error::{
    BindError, ClosedStream, ConfigError, ConnectError, ConnectionError, PathError, ReadError,
    ReadToEndError, SendDatagramError, WriteError,
};
pub use identity::{Identity, KeyPin};
pub use path::{PathEvent, PathEvents, PathOptions};
pub use proto::{
    ConnectionStats, ControllerKind, Dir, PathId, PathState, PathStats, RecoveryKind, RepairConfig,
    SchedulerKind, Side, StreamId, TransportConfig,
};
pub use recv_stream::RecvStream;
pub use rustls;
pub use send_stream::SendStream;
pub use units;
