//! A connection as the application sees it.

use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use proto::{
    ConnectionStats, DatagramOptions, Dir, PathId, PathState, PathStats, ReceiveLimits, Side, StreamId,
    StreamsStats, VarInt,
};
use rustls::pki_types::CertificateDer;

use crate::{
    ConnectionError, OpenPathError, Path, PathOptions, PathUpdates, RecvStream, SendDatagramError,
    SendStream, clock,
    engine::{Handle, Shared, Signal, index, open_path},
    waits::Waits,
};

/// A multipath QUIC connection: streams, datagrams and the paths that carry them.
///
/// Clones are handles of the same connection. When the last handle, with those that streams and
/// paths hold, is dropped, the connection closes with code 0.
///
/// # Poll forms
/// [`poll_open_bi`](Self::poll_open_bi) and its kin are for those who write futures by hand. What
/// they wait for is kept in the handle from poll to poll, so no wake-up is lost between two of
/// them; the task of the last poll is woken. They take the handle by `&mut`: tasks that wait at a
/// time have a clone each.
pub struct Connection {
    handle: Handle,
    waits: Waits,
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), waits: Waits::default() }
    }
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Handle::new(shared), waits: Waits::default() }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.handle.shared()
    }

    /// Opens a bidirectional stream, as soon as the peer allows another. The peer hears of it with
    /// the first bytes. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let stream = self.handle.stream(Wanted::Open(Dir::Bi)).await?;
        Ok(self.handle.bi(stream))
    }

    /// Opens a unidirectional stream, as soon as the peer allows another. The peer hears of it with
    /// the first bytes. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let (id, early) = self.handle.stream(Wanted::Open(Dir::Uni)).await?;
        Ok(SendStream::new(self.handle.clone(), id, early))
    }

    /// The next bidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended, and every stream that had come before was accepted.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let stream = self.handle.stream(Wanted::Accept(Dir::Bi)).await?;
        Ok(self.handle.bi(stream))
    }

    /// The next unidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended, and every stream that had come before was accepted.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let (id, early) = self.handle.stream(Wanted::Accept(Dir::Uni)).await?;
        Ok(RecvStream::new(self.handle.clone(), id, early))
    }

    /// The poll form of [`open_bi`](Self::open_bi).
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn poll_open_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        let stream = ready!(self.poll_stream(cx, Wanted::Open(Dir::Bi)))?;
        Poll::Ready(Ok(self.handle.bi(stream)))
    }

    /// The poll form of [`open_uni`](Self::open_uni).
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn poll_open_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, ConnectionError>> {
        let (id, early) = ready!(self.poll_stream(cx, Wanted::Open(Dir::Uni)))?;
        Poll::Ready(Ok(SendStream::new(self.handle.clone(), id, early)))
    }

    /// The poll form of [`accept_bi`](Self::accept_bi).
    ///
    /// # Errors
    /// As [`accept_bi`](Self::accept_bi).
    pub fn poll_accept_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        let stream = ready!(self.poll_stream(cx, Wanted::Accept(Dir::Bi)))?;
        Poll::Ready(Ok(self.handle.bi(stream)))
    }

    /// The poll form of [`accept_uni`](Self::accept_uni).
    ///
    /// # Errors
    /// As [`accept_uni`](Self::accept_uni).
    pub fn poll_accept_uni(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionError>> {
        let (id, early) = ready!(self.poll_stream(cx, Wanted::Accept(Dir::Uni)))?;
        Poll::Ready(Ok(RecvStream::new(self.handle.clone(), id, early)))
    }

    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Wanted,
    ) -> Poll<Result<(StreamId, bool), ConnectionError>> {
        let Self { handle, waits } = self;
        let changed = wanted.changed(handle.shared());
        waits.poll(cx, wanted.slot(), changed, || handle.try_stream(wanted))
    }

    /// Lets the peer send and open more from now on; what would fall stays as it is. A server that
    /// does not know yet whom it serves begins with small limits in its configuration, and raises
    /// them for those whom it admits.
    pub fn raise_receive_limits(&self, limits: &ReceiveLimits) {
        self.shared().lock().proto.raise_receive_limits(limits);
        self.shared().wake_driver();
    }

    /// Sends a datagram (RFC 9221): unreliable, unordered, at most
    /// [`max_datagram_size`](Self::max_datagram_size) bytes. Never waits.
    ///
    /// # Errors
    /// If the peer takes no datagrams, it is too long, the send buffer is full, or the connection
    /// has ended.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        {
            let mut state = self.shared().lock();
            state.alive()?;
            state.proto.send_datagram(data)?;
        }
        self.shared().wake_driver();
        Ok(())
    }

    /// As [`send_datagram`](Self::send_datagram), with a deadline, a priority, a short queue or
    /// in turns with others.
    ///
    /// A datagram that cannot arrive in time is not sent. One that may not is repaired while it can
    /// be, with as much as the path's losses ask for, if [`RecoveryKind::Auto`](crate::RecoveryKind)
    /// is in use; [`ConnectionStats::timed`](crate::ConnectionStats) counts what became of them. The
    /// other end receives each once if it is of this crate, and may receive one twice if it is not.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram).
    pub fn send_datagram_with(&self, data: Bytes, options: DatagramOptions) -> Result<(), SendDatagramError> {
        self.shared().send_datagram(data, options)
    }

    /// Sends `datagrams` from the front as [`send_datagram_with`](Self::send_datagram_with) would
    /// one by one, at less cost: they leave together. Never waits.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram); the datagram that was refused is at the front.
    pub fn send_datagrams(
        &self,
        datagrams: &mut VecDeque<Bytes>,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        let mut state = self.shared().lock();
        let now = clock::now();
        let mut send = || {
            while let Some(next) = datagrams.front() {
                state.alive()?;
                state.proto.send_datagram_with(now, next.clone(), options)?;
                datagrams.pop_front();
            }
            Ok(())
        };
        let result = send();
        drop(state);
        self.shared().wake_driver();
        result
    }

    /// Bytes of datagrams that wait to be sent.
    pub fn datagrams_waiting(&self) -> u64 {
        self.shared().lock().proto.datagrams_waiting()
    }

    /// As [`send_datagram`](Self::send_datagram), but waits for room in the send buffer. Cancel
    /// safe.
    ///
    /// Datagrams leave before the data of streams: as long as some wait, streams get what is left of
    /// packets.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram), except for a full buffer.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.send_datagram_with_wait(data, DatagramOptions::new()).await
    }

    /// As [`send_datagram_with`](Self::send_datagram_with), but waits for room; the deadline is
    /// counted from when there is some. Cancel safe.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram), except for a full buffer.
    pub async fn send_datagram_with_wait(
        &self,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        loop {
            let unblocked = self.shared().datagrams_unblocked.notified();
            match self.send_datagram_with(data.clone(), options) {
                Err(SendDatagramError::Blocked) => unblocked.await,
                result => return result,
            }
        }
    }

    /// The poll form of [`send_datagram_with_wait`](Self::send_datagram_with_wait). Until it is
    /// ready, nothing of `data` is kept: the next poll may bring another datagram.
    ///
    /// # Errors
    /// As [`send_datagram`](Self::send_datagram), except for a full buffer.
    pub fn poll_send_datagram_with(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        options: DatagramOptions,
    ) -> Poll<Result<(), SendDatagramError>> {
        let Self { handle, waits } = self;
        let shared = handle.shared();
        waits.poll(cx, ROOM, &shared.datagrams_unblocked, || {
            match shared.send_datagram(Bytes::copy_from_slice(data), options) {
                Err(SendDatagramError::Blocked) => Ok(None),
                result => result.map(Some),
            }
        })
    }

    /// The next datagram from the peer. Cancel safe.
    ///
    /// # Errors
    /// If the connection has ended, and everything received before was read.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        loop {
            let received = self.shared().datagram_received.notified();
            if let Some(data) = self.handle.try_datagram()? {
                return Ok(data);
            }
            received.await;
        }
    }

    /// Waits for a datagram from the peer, and appends it and those that have come with it to
    /// `datagrams`, up to `most` in all, which is at least 1. Cancel safe.
    ///
    /// # Errors
    /// As [`read_datagram`](Self::read_datagram).
    pub async fn read_datagrams(
        &self,
        datagrams: &mut Vec<Bytes>,
        most: usize,
    ) -> Result<(), ConnectionError> {
        datagrams.push(self.read_datagram().await?);
        let mut state = self.shared().lock();
        while datagrams.len() < most
            && let Some(data) = state.proto.receive_datagram()
        {
            datagrams.push(data);
        }
        Ok(())
    }

    /// The poll form of [`read_datagram`](Self::read_datagram).
    ///
    /// # Errors
    /// If the connection has ended, and everything received before was read.
    pub fn poll_read_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        let Self { handle, waits } = self;
        waits.poll(cx, DATAGRAM, &handle.shared().datagram_received, || handle.try_datagram())
    }

    /// The longest datagram that can be sent now, in bytes; `None` if the peer takes none. Changes
    /// with the paths.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.shared().lock().proto.max_datagram_size()
    }

    /// Every open path, in the order of path ids.
    pub fn paths(&self) -> Vec<Path> {
        let open = self.path_stats().into_iter().filter(|path| path.state != PathState::Closing);
        open.map(|path| Path::new(self.handle.clone(), path.id)).collect()
    }

    /// The open path with this id, if there is one.
    pub fn path(&self, id: PathId) -> Option<Path> {
        self.shared().lock().proto.path_status(id).ok()?;
        Some(Path::new(self.handle.clone(), id))
    }

    /// Statistics of every path at this moment, in the order of path ids; those included on which
    /// late packets may still arrive.
    pub fn path_stats(&self) -> Vec<PathStats> {
        self.handle.path_stats()
    }

    /// Opens another path and waits until the peer has answered on it. Only clients open paths. Where
    /// all places are taken, but some by paths that are being closed, it waits for one of them first.
    ///
    /// Binds a fresh socket for the path unless the options name one that is bound; it is closed
    /// with the path. When the future is dropped early, or nobody answers in time, the path is given up,
    /// unless no other is left by then.
    ///
    /// # Errors
    /// If no socket can be bound, the peer refuses or does not answer in time, or the connection
    /// ends meanwhile.
    pub async fn add_path(&self, options: PathOptions) -> Result<Path, OpenPathError> {
        let id = open_path(self.shared(), &options).await?;
        Ok(Path::new(self.handle.clone(), id))
    }

    /// News about the paths from now on.
    pub fn path_updates(&self) -> PathUpdates {
        PathUpdates(self.shared().lock().subscribe())
    }

    /// Closes the connection with an application code and reason. Data not yet acknowledged may
    /// never arrive: wait for [`SendStream::finished`] first where it matters. The first close
    /// counts.
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

    /// The poll form of [`closed`](Self::closed).
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        let Self { handle, waits } = self;
        let shared = handle.shared();
        let ended = waits
            .poll(cx, CLOSED, &shared.closed, || Ok::<_, std::convert::Infallible>(shared.lock().error()));
        ended.map(|Ok(error)| error)
    }

    /// Lets a client in: until then it has what [`Admission`](crate::Admission) says, and its place
    /// may be given to another. To be called once, by servers with
    /// [`ServerConfig::admission`](crate::ServerConfig::admission); otherwise the handshake lets
    /// clients in.
    pub fn admit(&self) {
        self.shared().lock().proto.admit();
        self.shared().inbox.set_stranger(false);
        self.shared().wake_driver();
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared().lock().error()
    }

    /// The destination connection id of the client's very first packet, in hexadecimal digits: what
    /// both ends call the connection in their logs, and what its qlog file is named after.
    pub fn original_id(&self) -> String {
        self.shared().lock().proto.original_id().to_string()
    }

    /// Statistics of the whole connection at this moment.
    pub fn stats(&self) -> ConnectionStats {
        self.shared().lock().proto.stats()
    }

    /// What streams hold in memory at this moment, and how large their windows are.
    pub fn stream_stats(&self) -> StreamsStats {
        self.shared().lock().proto.stream_stats()
    }

    /// Bytes that were written to a stream and that the peer's transport has not acknowledged, counted
    /// from the first of them; zero once it has all, or the stream is over.
    ///
    /// Also of a stream that was finished and dropped: who waits for its
    /// [end](crate::SendStream::stopped) sees whether the peer still takes some of it.
    pub fn undelivered(&self, stream: StreamId) -> u64 {
        self.shared().lock().proto.undelivered(stream)
    }

    /// The peer's address on the first path that is open, or else the one the connection began
    /// with.
    pub fn remote_address(&self) -> SocketAddr {
        let open = self.path_stats().into_iter().find(|path| path.state != PathState::Closing);
        open.map_or(self.shared().remote, |path| path.network.remote)
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

    /// Whether the session was resumed with a ticket of an earlier connection (RFC 8446
    /// section 2.2).
    pub fn is_resumed(&self) -> bool {
        self.shared().lock().proto.is_resumed()
    }

    /// Updates the packet protection keys as soon as the rules allow it (RFC 9001 section 6); it
    /// also happens by itself.
    pub fn force_key_update(&self) {
        self.shared().lock().proto.force_key_update();
        self.shared().wake_driver();
    }

    /// Probes every path now, with one packet each, instead of when its timer says so. For those
    /// who know that the network works again, and want to hear soon whether the peer is there.
    pub fn probe(&self) {
        self.shared().lock().proto.probe();
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

/// A stream that the application waits for.
#[derive(Clone, Copy)]
enum Wanted {
    Open(Dir),
    Accept(Dir),
}

/// The slot of [`Waits`] for datagrams; those before are for streams.
const DATAGRAM: usize = 4;
/// That for room in the send buffer for datagrams.
const ROOM: usize = 5;
/// That for the end of the connection.
const CLOSED: usize = 6;

impl Wanted {
    /// Its slot of [`Waits`].
    fn slot(self) -> usize {
        match self {
            Self::Open(dir) => index(dir),
            Self::Accept(dir) => 2 + index(dir),
        }
    }

    /// What tells that another attempt may do.
    fn changed(self, shared: &Shared) -> &Signal {
        match self {
            Self::Open(dir) => &shared.available[index(dir)],
            Self::Accept(dir) => &shared.opened[index(dir)],
        }
    }
}

impl Shared {
    fn send_datagram(&self, data: Bytes, options: DatagramOptions) -> Result<(), SendDatagramError> {
        {
            let mut state = self.lock();
            state.alive()?;
            state.proto.send_datagram_with(clock::now(), data, options)?;
        }
        self.wake_driver();
        Ok(())
    }
}

impl Handle {
    /// Waits for a stream; also tells whether it belongs to early data.
    async fn stream(&self, wanted: Wanted) -> Result<(StreamId, bool), ConnectionError> {
        loop {
            let changed = wanted.changed(self.shared()).notified();
            if let Some(stream) = self.try_stream(wanted)? {
                return Ok(stream);
            }
            changed.await;
        }
    }

    fn try_stream(&self, wanted: Wanted) -> Result<Option<(StreamId, bool)>, ConnectionError> {
        {
            let mut state = self.shared().lock();
            let id = match wanted {
                Wanted::Open(dir) => {
                    state.alive()?;
                    state.proto.open(dir)
                }
                // What came before the end can still be read.
                Wanted::Accept(dir) => state.proto.accept(dir),
            };
            if let Some(id) = id {
                return Ok(Some((id, state.opens_early())));
            }
            state.alive()?;
        }
        if matches!(wanted, Wanted::Open(_)) {
            // STREAMS_BLOCKED may have to be sent.
            self.shared().wake_driver();
        }
        Ok(None)
    }

    fn try_datagram(&self) -> Result<Option<Bytes>, ConnectionError> {
        let mut state = self.shared().lock();
        if let Some(data) = state.proto.receive_datagram() {
            return Ok(Some(data));
        }
        state.alive().map(|()| None)
    }

    /// Both sides of a stream.
    fn bi(&self, (id, early): (StreamId, bool)) -> (SendStream, RecvStream) {
        (SendStream::new(self.clone(), id, early), RecvStream::new(self.clone(), id, early))
    }
}
