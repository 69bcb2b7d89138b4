//! A connection as the application sees it.

use std::net::SocketAddr;

use bytes::Bytes;
use proto::{ConnectionStats, PathId, PathStats, Side};
use rustls::pki_types::CertificateDer;

use crate::{ConnectionError, PathError, PathEvents, PathOptions, RecvStream, SendDatagramError, SendStream};

/// A multipath QUIC connection: streams, datagrams and the paths that carry them.
///
/// Clones are handles of the same connection. When the last handle, with those that streams hold, is dropped, the
/// connection closes with code 0.
#[derive(Clone, Debug)]
pub struct Connection {}

impl Connection {
    /// Opens a bidirectional stream, as soon as the peer allows another. The peer hears of it with the first bytes.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        todo!()
    }

    /// Opens a unidirectional stream, as soon as the peer allows another. The peer hears of it with the first bytes.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        todo!()
    }

    /// The next bidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        todo!()
    }

    /// The next unidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        todo!()
    }

    /// Sends a datagram (RFC 9221): unreliable, unordered, at most
    /// [`max_datagram_size`](Self::max_datagram_size) bytes. Never waits.
    ///
    /// # Errors
    /// If the peer takes no datagrams, it is too long, the send buffer is full, or the connection has ended.
    pub fn send_datagram(&self, _data: Bytes) -> Result<(), SendDatagramError> {
        todo!()
    }

    /// As [`send_datagram`](Self::send_datagram), but waits for room in the send buffer. Cancel safe.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram), except for a full buffer.
    pub async fn send_datagram_wait(&self, _data: Bytes) -> Result<(), SendDatagramError> {
        todo!()
    }

    /// The next datagram from the peer. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        todo!()
    }

    /// The longest datagram that can be sent now, in bytes; `None` if the peer takes none. Changes with the paths.
    pub fn max_datagram_size(&self) -> Option<usize> {
        todo!()
    }

    /// Every open path with its statistics at this moment, in the order of path ids.
    pub fn paths(&self) -> Vec<PathStats> {
        todo!()
    }

    /// Opens another path and waits until the peer has answered on it. Only clients open paths.
    ///
    /// Binds a fresh socket for the path unless the options name one that is bound; it is closed with the path. When the
    /// future is dropped early, the path is given up.
    ///
    /// # Errors
    /// If no socket can be bound, the peer refuses or does not answer in time, or the connection ends meanwhile.
    pub async fn add_path(&self, _options: PathOptions) -> Result<PathId, PathError> {
        todo!()
    }

    /// Abandons a path; what it carried is sent again on the others.
    ///
    /// # Errors
    /// If there is no such path, or no other.
    pub fn remove_path(&self, _path: PathId) -> Result<(), PathError> {
        todo!()
    }

    /// Makes a path a backup, used only while no other works, or a regular path again.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn set_path_backup(&self, _path: PathId, _backup: bool) -> Result<(), PathError> {
        todo!()
    }

    /// News about the paths from now on.
    pub fn path_events(&self) -> PathEvents {
        todo!()
    }

    /// Closes the connection with an application code and reason. Data not yet acknowledged may never arrive: wait for
    /// [`SendStream::finished`] first where it matters. The first close counts.
    pub fn close(&self, _code: u64, _reason: &[u8]) {
        todo!()
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> ConnectionError {
        todo!()
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        todo!()
    }

    /// Statistics of the whole connection at this moment.
    pub fn stats(&self) -> ConnectionStats {
        todo!()
    }

    /// The peer's address on the first path that is open, or else the one the connection began with.
    pub fn remote_address(&self) -> SocketAddr {
        todo!()
    }

    /// The certificate chain that the peer showed, its own first; clients need not show any.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        todo!()
    }

    /// The application protocol agreed on (RFC 7301).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        todo!()
    }

    /// Whether this side is client or server.
    pub fn side(&self) -> Side {
        todo!()
    }

    /// Whether the peer speaks multipath QUIC.
    pub fn multipath_negotiated(&self) -> bool {
        todo!()
    }

    /// Whether the peer speaks the repair extension.
    pub fn repair_negotiated(&self) -> bool {
        todo!()
    }

    /// A number that no other connection of this process has.
    pub fn stable_id(&self) -> u64 {
        todo!()
    }
}
