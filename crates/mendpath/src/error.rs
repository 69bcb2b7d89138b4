//! What can go wrong, one enum per operation.

use std::{io, net::SocketAddr, time::Duration};

use proto::{ConnectionError, DatagramError, PathError, TransportErrorCode, VarInt};
use thiserror::Error;

/// Why a connection attempt could not even start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No client configuration was given, neither to the endpoint nor to the call.
    #[error("no client configuration: set one with `set_default_client_config`, or use `connect_with`")]
    NoClientConfig,
    /// Not a name that a certificate can carry.
    #[error("`{0}` is not a valid server name")]
    InvalidServerName(String),
    /// TLS refused the configuration.
    #[error("TLS refused the configuration: {0}")]
    Tls(String),
    /// An address without a host or a port.
    #[error("cannot connect to {0}: no host or no port")]
    InvalidRemote(SocketAddr),
    /// No socket of the endpoint can reach this address family.
    #[error("no bound socket can send to {0}: bind one of its address family")]
    NoSocket(SocketAddr),
    /// The local address or interface asked for cannot be used.
    #[error(transparent)]
    Local(#[from] BindError),
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
}

impl From<proto::ConnectError> for ConnectError {
    fn from(error: proto::ConnectError) -> Self {
        match error {
            proto::ConnectError::InvalidServerName(name) => Self::InvalidServerName(name),
            proto::ConnectError::Tls(reason) => Self::Tls(reason),
        }
    }
}

/// Why no socket could be bound for a path or a connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The interface does not exist (now).
    #[error("no interface `{name}`; this host has {}", known.join(", "))]
    NoSuchInterface {
        /// The name asked for.
        name: String,
        /// The interfaces that exist.
        known: Vec<String>,
    },
    /// The interface has no address of the remote's family.
    #[error("interface `{name}` has no {} address to reach {remote} from", family(remote))]
    NoAddress {
        /// The interface.
        name: String,
        /// Where the path was to lead.
        remote: SocketAddr,
    },
    /// The local address belongs to another family than the remote.
    #[error("cannot reach {remote} from {local}: different address families")]
    FamilyMismatch {
        /// The local address asked for.
        local: SocketAddr,
        /// Where the path was to lead.
        remote: SocketAddr,
    },
    /// The operating system refused.
    #[error("cannot bind a UDP socket to {local}: {source}")]
    Io {
        /// The address tried.
        local: SocketAddr,
        /// Its reason.
        source: io::Error,
    },
}

fn family(addr: &SocketAddr) -> &'static str {
    if addr.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Why a path could not be opened or moved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The transport does not open it, or not yet.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An address without a host or a port.
    #[error("no path leads to {0}: no host or no port")]
    InvalidRemote(SocketAddr),
    /// No socket for it.
    #[error(transparent)]
    Local(#[from] BindError),
    /// The peer did not answer on the new path in time.
    #[error("no answer from the peer on the new path within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The path was abandoned before it was validated.
    #[error("the path was abandoned with {code} before it could be used")]
    Closed {
        /// Whether the peer abandoned it.
        by_peer: bool,
        /// Error code of PATH_ABANDON.
        code: TransportErrorCode,
    },
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

/// Why writing to a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer does not want more (STOP_SENDING, RFC 9000 section 19.5), with the application's
    /// code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(VarInt),
    /// The stream was finished or reset on this side.
    #[error("the stream is already finished or reset")]
    ClosedStream,
    /// It was opened before the handshake was complete, and the server took nothing of that: send
    /// again on a new stream.
    #[error("the server rejected early data")]
    ZeroRttRejected,
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(lost) => lost.into(),
            WriteError::Stopped(_) | WriteError::ZeroRttRejected => {
                Self::new(io::ErrorKind::ConnectionReset, error)
            }
            WriteError::ClosedStream => Self::new(io::ErrorKind::BrokenPipe, error),
        }
    }
}

impl From<StoppedError> for WriteError {
    fn from(error: StoppedError) -> Self {
        match error {
            StoppedError::ZeroRttRejected => Self::ZeroRttRejected,
            StoppedError::ConnectionLost(lost) => Self::ConnectionLost(lost),
        }
    }
}

/// Why the end of a sending side was not learnt of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoppedError {
    /// It was opened before the handshake was complete, and the server took nothing of that: send
    /// again on a new stream.
    #[error("the server rejected early data")]
    ZeroRttRejected,
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

impl From<StoppedError> for io::Error {
    fn from(error: StoppedError) -> Self {
        WriteError::from(error).into()
    }
}

/// Why reading from a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up (RESET_STREAM, RFC 9000 section 19.4), with the application's
    /// code.
    #[error("the peer reset the stream with code {0}")]
    Reset(VarInt),
    /// The stream was stopped on this side.
    #[error("the stream was stopped on this side")]
    ClosedStream,
    /// It was opened before the handshake was complete, and the server took nothing of that: ask
    /// again on a new stream.
    #[error("the server rejected early data")]
    ZeroRttRejected,
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ConnectionLost(lost) => lost.into(),
            ReadError::Reset(_) | ReadError::ZeroRttRejected => {
                Self::new(io::ErrorKind::ConnectionReset, error)
            }
            ReadError::ClosedStream => Self::new(io::ErrorKind::NotConnected, error),
        }
    }
}

/// Why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than the limit.
    #[error("the stream is longer than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a stream operation other than reading and writing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream is already finished, reset or stopped")]
pub struct ClosedStream;

impl From<ReadToEndError> for io::Error {
    fn from(error: ReadToEndError) -> Self {
        match error {
            ReadToEndError::TooLong { .. } => Self::new(io::ErrorKind::InvalidData, error),
            ReadToEndError::Read(error) => error.into(),
        }
    }
}

impl From<ClosedStream> for io::Error {
    fn from(error: ClosedStream) -> Self {
        Self::new(io::ErrorKind::NotConnected, error)
    }
}

/// Why a datagram was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams (RFC 9221 section 3).
    #[error("the peer does not take datagrams")]
    Unsupported,
    /// Longer than what fits a packet of every path, or than the peer takes.
    #[error("the datagram is longer than {max} bytes")]
    TooLarge {
        /// The longest that would be taken now, in bytes.
        max: usize,
    },
    /// The send buffer for datagrams is full.
    #[error("the send buffer for datagrams is full")]
    Blocked,
    /// The connection has ended.
    #[error(transparent)]
    ConnectionLost(#[from] ConnectionError),
}

impl From<DatagramError> for SendDatagramError {
    fn from(error: DatagramError) -> Self {
        match error {
            DatagramError::Unsupported => Self::Unsupported,
            DatagramError::TooLarge { max } => Self::TooLarge { max },
            DatagramError::Blocked => Self::Blocked,
        }
    }
}

/// Why a configuration or an identity could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// TLS refused the certificate, key or options.
    #[error("TLS refused the configuration: {0}")]
    Tls(#[from] rustls::Error),
    /// A server's certificate chain without a certificate.
    #[error("a server needs a certificate, but the chain is empty")]
    NoCertificate,
    /// Not a name that a certificate can carry.
    #[error("`{0}` is neither a DNS name nor an IP address")]
    Name(String),
    /// The private key or certificate could not be made or read.
    #[error("the identity could not be made: {0}")]
    Identity(#[from] rcgen::Error),
    /// Not the text of a key pin.
    #[error("`{0}` is not a key pin: expected 43 characters of unpadded base64url")]
    Pin(String),
}
