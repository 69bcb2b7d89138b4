//! What a connection tells its application and its endpoint, and what its calls may answer.

use std::io;

use crate::{
    streams::StreamEvent,
    wire::{ConnectionId, PathId, ResetToken, TransportError, TransportErrorCode, VarInt},
};

/// News for the application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete: streams may be opened.
    Connected,
    /// The server did not take our early data (before `Connected`): all streams and queued
    /// datagrams are gone, and stream ids start over.
    EarlyDataRejected,
    /// Something changed on streams.
    Stream(StreamEvent),
    /// A datagram can be read.
    DatagramReceived,
    /// Datagrams can be queued again.
    DatagramsUnblocked,
    /// Something changed about a path.
    Path(PathEvent),
    /// The connection carries no more data. Sent once.
    ConnectionLost(ConnectionError),
    /// The connection may be dropped.
    Drained,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer answered on this path: it carries data from now on.
    Validated(PathId),
    /// The path has stopped answering. It is probed; data goes elsewhere while another path works.
    Suspect(PathId),
    /// A suspect path answered again, where it was or at other addresses that it has moved to meanwhile.
    Resumed(PathId),
    /// The path runs between other addresses now: the peer or we moved, or a NAT between us forgot
    /// a binding.
    Moved(PathId),
    /// The path is gone.
    Closed {
        /// Which.
        path: PathId,
        /// Whether the peer abandoned it.
        by_peer: bool,
        /// Error code of PATH_ABANDON.
        code: TransportErrorCode,
    },
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer speaks no version that we do.
    #[error("the peer does not speak QUIC version 1")]
    VersionMismatch,
    /// We closed it, since the peer broke the protocol, TLS failed, or nothing works any more.
    #[error("this side closed the connection: {0}")]
    TransportError(TransportError),
    /// The peer's transport closed it (RFC 9000 section 20.1).
    #[error("the peer closed the connection with {code}{}", said(.reason))]
    ConnectionClosed {
        /// Its code.
        code: TransportErrorCode,
        /// Its words for people, possibly none.
        reason: String,
    },
    /// The peer's application closed it.
    #[error("the peer closed the connection with code {code}{}", said(&String::from_utf8_lossy(.reason)))]
    ApplicationClosed {
        /// Its code.
        code: VarInt,
        /// Its reason, possibly empty.
        reason: Vec<u8>,
    },
    /// The peer has lost all memory of the connection, for instance because it was restarted
    /// (RFC 9000 section 10.3).
    #[error("the peer does not know the connection any more")]
    Reset,
    /// Nothing was heard from the peer for the idle timeout.
    #[error("no answer from the peer within the idle timeout")]
    TimedOut,
    /// Our application closed it, or dropped the last handle.
    #[error("the connection was closed on this side")]
    LocallyClosed,
    /// Nobody drives the connection any more: its runtime was shut down, or its task panicked, as it does
    /// with a recovery scheme of one's own that panics. The peer is not told. The transport itself never
    /// says this.
    #[error("nobody drives the connection any more: its runtime was shut down, or its task panicked")]
    EndpointGone,
}

/// What the peer gave as its reason, behind a colon, if anything. It may be hostile: nothing in it
/// moves the cursor of a terminal, or makes a line of a log of its own.
fn said(reason: &str) -> String {
    let mut said = String::from(if reason.is_empty() { "" } else { ": " });
    for char in reason.chars() {
        if char.is_control() { said.extend(char.escape_default()) } else { said.push(char) }
    }
    said
}

impl From<ConnectionError> for io::Error {
    fn from(error: ConnectionError) -> Self {
        use ConnectionError as E;
        let kind = match error {
            E::TimedOut => io::ErrorKind::TimedOut,
            E::Reset => io::ErrorKind::ConnectionReset,
            E::ApplicationClosed { .. } | E::ConnectionClosed { .. } | E::TransportError(_) => {
                io::ErrorKind::ConnectionAborted
            }
            _ => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// Why a datagram was not queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The peer takes none, or the handshake is not complete.
    #[error("the peer does not take datagrams")]
    Unsupported,
    /// It fits no packet.
    #[error("the datagram is larger than {max} bytes")]
    TooLarge {
        /// The most that fits now.
        max: usize,
    },
    /// Too many are waiting.
    #[error("too many datagrams are waiting")]
    Blocked,
}

/// Why a call about a path failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The handshake is not complete, or the connection is closed.
    #[error("the connection is not established")]
    NotReady,
    /// Servers do not open paths.
    #[error("only clients open paths")]
    NotClient,
    /// The peer speaks no multipath, or we were told not to.
    #[error("multipath was not negotiated")]
    MultipathNotNegotiated,
    /// As many paths are open as one of the sides allows. One that was closed counts until both have
    /// forgotten it: some round trips, or longer if one does not answer.
    #[error("no more than {max} paths may be open, those included that are being closed")]
    TooManyPaths {
        /// How many may be open, the smaller value of both sides.
        max: u32,
    },
    /// A path between these addresses is open.
    #[error("a path between these addresses is open already: path {0}")]
    AlreadyOpen(PathId),
    /// The server wants no other addresses of ours (disable_active_migration, RFC 9000
    /// section 18.2).
    #[error("the server does not allow clients to use further addresses")]
    MigrationDisabled,
    /// There is no such path.
    #[error("there is no path {0}")]
    Unknown(PathId),
    /// A connection needs a path.
    #[error("the last path cannot be removed: close the connection instead")]
    LastPath,
    /// The peer has not issued a connection id for the next path yet; try again shortly.
    #[error("the peer has not provided a connection id for another path yet")]
    NoConnectionId,
}

/// From a connection to its endpoint.
#[derive(Debug)]
pub struct EndpointEvent(pub(crate) EndpointEventKind);

#[derive(Debug)]
pub(crate) enum EndpointEventKind {
    /// Packets to this connection id are for the connection.
    NewCid(ConnectionId),
    /// No longer.
    RetiredCid(ConnectionId),
    /// A datagram that ends with one of these, and only these, may end the connection (RFC 9000
    /// section 10.3).
    ResetTokens(Vec<ResetToken>),
    /// The handshake is complete: the client receives at its address.
    HandshakeComplete,
    /// The client is let in.
    Admitted,
    /// The connection is over.
    Drained,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(reason: &[u8]) -> String {
        ConnectionError::ApplicationClosed { code: 7u8.into(), reason: reason.to_vec() }.to_string()
    }

    #[test]
    fn a_reason_is_told_if_there_is_one_and_does_nothing_to_a_terminal() {
        assert_eq!(closed(b""), "the peer closed the connection with code 7");
        assert_eq!(closed("zu spät".as_bytes()), "the peer closed the connection with code 7: zu spät");
        assert_eq!(closed(b"\x1b[2J\nok"), "the peer closed the connection with code 7: \\u{1b}[2J\\nok");
        let code = TransportErrorCode::CONNECTION_REFUSED;
        let refused = |reason: &str| ConnectionError::ConnectionClosed { code, reason: reason.to_owned() };
        assert_eq!(refused("").to_string(), "the peer closed the connection with CONNECTION_REFUSED");
        assert!(refused("full\r").to_string().ends_with("CONNECTION_REFUSED: full\\r"));
    }
}
