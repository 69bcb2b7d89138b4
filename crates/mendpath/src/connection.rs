//! A connection as the application sees it.

use std::{fmt, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use proto::{
    ConnectionStats, DatagramError, Dir, PathId, PathState, PathStats, ReceiveLimits, Side, StreamId,
    StreamsStats, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::{
    ConnectionError, OpenPathError, Path, PathOptions, PathUpdates, RecvStream, SendDatagramError,
    SendStream, open_path,
    shared::{Shared, index},
};

/// A multipath QUIC connection: streams, datagrams and the paths that carry them.
///
/// Clones are handles of the same connection. When the last handle, with those that streams hold, is dropped, the
/// connection closes with code 0.
#[derive(Clone)]
pub struct Connection(Arc<LastHandle>);

/// Dropped with the last handle.
struct LastHandle(Arc<Shared>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.close(VarInt::from_u32(0), b"");
    }
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(LastHandle(shared)))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Opens a bidirectional stream, as soon as the peer allows another. The peer hears of it with the first bytes.
    /// Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (id, early) =
            self.stream(&self.shared().available[index(Dir::Bi)], |proto| proto.open(Dir::Bi)).await?;
        Ok((SendStream::new(self.clone(), id, early), RecvStream::new(self.clone(), id, early)))
    }

    /// Opens a unidirectional stream, as soon as the peer allows another. The peer hears of it with the first bytes.
    /// Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let (id, early) =
            self.stream(&self.shared().available[index(Dir::Uni)], |proto| proto.open(Dir::Uni)).await?;
        Ok(SendStream::new(self.clone(), id, early))
    }

    /// The next bidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (id, early) =
            self.stream(&self.shared().opened[index(Dir::Bi)], |proto| proto.accept(Dir::Bi)).await?;
        Ok((SendStream::new(self.clone(), id, early), RecvStream::new(self.clone(), id, early)))
    }

    /// The next unidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let (id, early) =
            self.stream(&self.shared().opened[index(Dir::Uni)], |proto| proto.accept(Dir::Uni)).await?;
        Ok(RecvStream::new(self.clone(), id, early))
    }

    /// Waits for `changed` until `attempt` gives a stream; also tells whether it belongs to early data.
    async fn stream(
        &self,
        changed: &Notify,
        mut attempt: impl FnMut(&mut proto::Connection) -> Option<StreamId>,
    ) -> Result<(StreamId, bool), ConnectionError> {
        loop {
            let changed = changed.notified();
            {
                let mut state = self.shared().lock();
                state.alive()?;
                if let Some(id) = attempt(&mut state.proto) {
                    return Ok((id, state.opens_early()));
                }
            }
            // STREAMS_BLOCKED may have to be sent.
            self.shared().wake_driver();
            changed.await;
        }
    }

    /// Lets the peer send and open more from now on; what would fall stays as it is. A server that does not know yet whom it serves
    /// begins with small limits in its configuration, and raises them for those whom it admits.
    pub fn raise_receive_limits(&self, limits: &ReceiveLimits) {
        self.shared().lock().proto.raise_receive_limits(limits);
        self.shared().wake_driver();
    }

    /// Sends a datagram (RFC 9221): unreliable, unordered, at most
    /// [`max_datagram_size`](Self::max_datagram_size) bytes. Never waits.
    ///
    /// # Errors
    /// If the peer takes no datagrams, it is too long, the send buffer is full, or the connection has ended.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        {
            let mut state = self.shared().lock();
            state.alive()?;
            state.proto.send_datagram(data).map_err(|error| match error {
                DatagramError::Unsupported => SendDatagramError::Unsupported,
                DatagramError::TooLarge { max } => SendDatagramError::TooLarge { max },
                DatagramError::Blocked => SendDatagramError::Blocked,
            })?;
        }
        self.shared().wake_driver();
        Ok(())
    }

    /// As [`send_datagram`](Self::send_datagram), but waits for room in the send buffer. Cancel safe.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram), except for a full buffer.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        loop {
            let unblocked = self.shared().datagrams_unblocked.notified();
            match self.send_datagram(data.clone()) {
                Err(SendDatagramError::Blocked) => unblocked.await,
                result => return result,
            }
        }
    }

    /// The next datagram from the peer. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended, and everything received before was read.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        loop {
            let received = self.shared().datagram_received.notified();
            {
                let mut state = self.shared().lock();
                if let Some(data) = state.proto.receive_datagram() {
                    return Ok(data);
                }
                state.alive()?;
            }
            received.await;
        }
    }

    /// The longest datagram that can be sent now, in bytes; `None` if the peer takes none. Changes with the paths.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.shared().lock().proto.max_datagram_size()
    }

    /// Every open path, in the order of path ids.
    pub fn paths(&self) -> Vec<Path> {
        let open = self.path_stats().into_iter().filter(|path| path.state != PathState::Closing);
        open.map(|path| Path::new(self.clone(), path.id)).collect()
    }

    /// The open path with this id, if there is one.
    pub fn path(&self, id: PathId) -> Option<Path> {
        self.shared().lock().proto.path_status(id).ok()?;
        Some(Path::new(self.clone(), id))
    }

    /// Statistics of every path at this moment, in the order of path ids; those included on which
    /// late packets may still arrive.
    pub fn path_stats(&self) -> Vec<PathStats> {
        self.shared().lock().proto.paths()
    }

    /// Opens another path and waits until the peer has answered on it. Only clients open paths.
    ///
    /// Binds a fresh socket for the path unless the options name one that is bound; it is closed with the path. When the
    /// future is dropped early, the path is given up.
    ///
    /// # Errors
    /// If no socket can be bound, the peer refuses or does not answer in time, or the connection ends meanwhile.
    pub async fn add_path(&self, options: PathOptions) -> Result<Path, OpenPathError> {
        let id = open_path::open_path(self.shared(), &options).await?;
        Ok(Path::new(self.clone(), id))
    }

    /// News about the paths from now on.
    pub fn path_updates(&self) -> PathUpdates {
        PathUpdates(self.shared().lock().subscribe())
    }

    /// Closes the connection with an application code and reason. Data not yet acknowledged may never arrive: wait for
    /// [`SendStream::finished`] first where it matters. The first close counts.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.shared().close(code, reason);
    }

    /// Waits until the connection has ended, and says why. Cancel safe.
    pub async fn closed(&self) -> ConnectionError {
        loop {
            let closed = self.shared().closed.notified();
            if let Some(error) = self.close_reason() {
                return error;
            }
            closed.await;
        }
    }

    /// Lets a client in: until then it has what [`Admission`](crate::Admission) says, and its place may be given to another. To be called
    /// once, by servers with [`ServerConfig::admission`](crate::ServerConfig::admission); otherwise the handshake lets clients in.
    pub fn admit(&self) {
        self.shared().lock().proto.admit();
        self.shared().inbox.set_stranger(false);
        self.shared().wake_driver();
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared().lock().error.clone()
    }

    /// Statistics of the whole connection at this moment.
    pub fn stats(&self) -> ConnectionStats {
        self.shared().lock().proto.stats()
    }

    /// What streams hold in memory at this moment, and how large their windows are.
    pub fn stream_stats(&self) -> StreamsStats {
        self.shared().lock().proto.stream_stats()
    }

    /// The peer's address on the first path that is open, or else the one the connection began with.
    pub fn remote_address(&self) -> SocketAddr {
        self.path_stats().first().map_or(self.shared().remote, |path| path.network.remote)
    }

    /// The certificate chain that the peer showed, its own first; clients need not show any.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.shared().lock().proto.peer_certificates()
    }

    /// The application protocol agreed on (RFC 7301).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.shared().lock().proto.alpn()
    }

    /// Whether this side is client or server.
    pub fn side(&self) -> Side {
        self.shared().lock().proto.side()
    }

    /// Whether the peer speaks multipath QUIC.
    pub fn multipath_negotiated(&self) -> bool {
        self.shared().lock().proto.multipath_negotiated()
    }

    /// Whether the peer speaks the repair extension.
    pub fn repair_negotiated(&self) -> bool {
        self.shared().lock().proto.repair_negotiated()
    }

    /// Whether the session was resumed with a ticket of an earlier connection (RFC 8446 section 2.2).
    pub fn is_resumed(&self) -> bool {
        self.shared().lock().proto.is_resumed()
    }

    /// Updates the packet protection keys as soon as the rules allow it (RFC 9001 section 6); it also happens by itself.
    pub fn force_key_update(&self) {
        self.shared().lock().proto.force_key_update();
        self.shared().wake_driver();
    }

    /// A number that no other connection of this process has.
    pub fn stable_id(&self) -> u64 {
        self.shared().stable_id
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("stable_id", &self.stable_id())
            .field("remote", &self.shared().remote)
            .finish_non_exhaustive()
    }
}
