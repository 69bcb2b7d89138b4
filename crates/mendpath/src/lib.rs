//! Async multipath QUIC for tokio whose paths mend each other's losses.
//!
//! A connection uses several network paths at once (WiFi and cellular, two ports of one interface,
//! ...). What one path loses is mended over the others, before it costs a round trip; how is chosen
//! with [`RecoveryKind`]. On the wire it is QUIC version 1 (RFC 9000) with
//! draft-ietf-quic-multipath, so other QUIC stacks can be the peer.
//!
//! This crate never decides which packet goes where or how lost ones are recovered: that is the
//! transport's business, which knows no sockets and no clock. Here are the sockets, the clock, and
//! an API of streams and datagrams. It never trusts a server without verification.
//!
//! Start with [`Endpoint`], which owns UDP sockets, and [`Connection`], which it makes.
//!
//! # A first program
//!
//! A server that sends back what it gets, and a client that uses two paths:
//!
//! ```
//! use mendpath::{ClientConfig, Endpoint, Identity, PathOptions, RecoveryKind, ServerConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let identity = Identity::self_signed(["localhost"])?;
//! let server = Endpoint::server(ServerConfig::with_identity(&identity)?, "127.0.0.1:0".parse()?)?;
//! let address = server.local_addrs()[0];
//! tokio::spawn(async move {
//!     let connection = server.accept().await.expect("the server is open").await?;
//!     let (mut send, mut recv) = connection.accept_bi().await?;
//!     tokio::io::copy(&mut recv, &mut send).await?;
//!     send.finish()?;
//!     connection.closed().await;
//!     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! // The client knows the server by its key alone.
//! let config = ClientConfig::with_pinned_key(identity.pin()).recovery(RecoveryKind::Cofuso);
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let connection = client.connect_with(&config, address, "localhost")?.await?;
//! let second = connection.add_path(PathOptions::new().local("127.0.0.1:0".parse()?)).await?;
//!
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"over two paths").await?;
//! send.finish()?;
//! assert_eq!(recv.read_to_end(1_024).await?, b"over two paths");
//! println!("path {} has a round-trip time of {:?}", second.id(), second.rtt()?);
//! connection.close(0u32.into(), b"done");
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # What is where
//!
//! | to                                                  | see                                                  |
//! |-----------------------------------------------------|------------------------------------------------------|
//! | trust a server, or be one                           | [`ClientConfig`], [`ServerConfig`], [`Identity`]     |
//! | decide who is let in                                | [`Incoming`], [`Admission`], [`AddressValidation`]   |
//! | send and receive bytes                              | [`SendStream`], [`RecvStream`]                       |
//! | add, watch, demote, move and close paths            | [`PathOptions`], [`Path`], [`PathUpdates`]           |
//! | limit how fast a path carries what                  | [`PathLimits`], [`units::BitRate`]                   |
//! | choose what is done about loss, and how fast to send | [`RecoveryKind`], [`ControllerKind`], [`TransportConfig`] |
//! | bring a recovery scheme of your own                 | [`policy`], [`RecoveryKind::Custom`], [`units`]      |
//! | know what happened                                  | [`PathStats`], [`ConnectionStats`], [`QlogDirectory`] |
//!
//! Names are those of `quinn` where the thing is the same; docs/library.md lists what differs. Three
//! differences bite: a [`SendStream`] that is dropped before [`finish`](SendStream::finish) resets its
//! stream; to finish one that the peer has stopped is an error; and a full buffer refuses the datagram
//! that comes, instead of dropping those that wait.
//!
//! # Errors
//!
//! Each operation has an error of its own, with what is needed to act on it; all that need the peer have a
//! variant for a connection that has ended ([`ConnectionError`]). Those of streams and connections
//! turn into [`std::io::Error`]. Codes of the application are [`VarInt`]s, those of the transport
//! [`TransportErrorCode`]s.
//!
//! # Tasks and locks
//!
//! Every socket has a task that receives in batches and sorts datagrams by connection. Every
//! connection has a task, its driver, which feeds them to the transport, sends what the transport
//! wants sent by the socket of the path in question, and keeps one timer. An idle connection wakes
//! nobody up. A datagram that a socket refuses to send counts as lost, so that an interface that
//! disappears takes its paths with it and nothing else. So does what a full socket has not taken within
//! 25 ms, where the connection has paths over other sockets, and from then on whatever finds it full, until
//! that has not happened for a second.
//!
//! A server's handshake begins when its application accepts the client; datagrams that come before
//! wait, a bounded number of them.

#![warn(clippy::missing_errors_doc)]

mod bind;
mod clock;
mod config;
mod connecting;
mod connection;
mod endpoint;
mod engine;
mod error;
mod identity;
mod incoming;
mod link;
mod lock;
mod path;
mod path_options;
mod path_updates;
#[cfg(feature = "qlog")]
mod qlog;
mod recv_stream;
mod send_stream;
mod socket;
mod sockets;
mod steer;
mod verifier;
mod waits;

pub use config::{ClientConfig, DEFAULT_ALPN, ServerConfig};
pub use connecting::{Connecting, ZeroRttAccepted};
pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointBuilder};
pub use error::{
    BindError, ClosedStream, ConfigError, ConnectError, OpenPathError, ReadError, ReadToEndError,
    SendDatagramError, StoppedError, WriteError,
};
pub use identity::{Identity, KeyPin};
pub use incoming::{Incoming, IncomingFuture, RetryError};
pub use path::Path;
pub use path_options::PathOptions;
pub use path_updates::{PathUpdate, PathUpdates};
pub use proto::policy;
pub use proto::{
    AddressValidation, Admission, Chunk, ConnectionError, ConnectionStats, ControllerKind, DatagramOptions,
    Dir, EcnState, EndpointStats, NetworkPath, PathError, PathEvent, PathId, PathLimits, PathState,
    PathStats, PathStatus, PathStore, PathUse, QuicLb, QuicLbError, ReceiveLimits, RecoveryKind,
    RecoveryReasons, RepairConfig, ResetKey, SchedulerKind, ServerId, Side, StreamId, StreamsStats,
    TimedStats, TokenStore, TransportConfig, TransportError, TransportErrorCode, UnknownName, VarInt,
    VarIntBoundsExceeded,
};
#[cfg(feature = "qlog")]
pub use qlog::QlogDirectory;
pub use recv_stream::RecvStream;
pub use rustls;
pub use send_stream::SendStream;
pub use socket::SOCKET_BUFFER_SIZE;
pub use units;
