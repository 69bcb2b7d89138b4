//! The sending side of a stream.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use proto::{StreamId, VarInt};
use tokio::io::AsyncWrite;

use crate::{
    ClosedStream, StoppedError, WriteError,
    engine::{End, Ending, Handle, Sender, Shared, State},
};

/// The sending side of a stream.
///
/// Dropped without [`finish`](Self::finish), it is reset with the code [`DROPPED`](Self::DROPPED):
/// a task that panics, is cancelled or returns early must not look to the peer as if it had said
/// all it had to say. Some other libraries finish a stream that is dropped; here, say so. As
/// [`AsyncWrite`], shutdown finishes, and flush does nothing, since data never waits for more.
pub struct SendStream {
    handle: Handle,
    id: StreamId,
    /// Opened by a client before its handshake was complete.
    early: bool,
    /// Finished or reset by us.
    ended: bool,
    ending: Arc<Ending>,
}

impl SendStream {
    /// The code of the reset with which a stream ends that is dropped before it is finished.
    /// [`RecvStream`](crate::RecvStream) stops with the same.
    pub const DROPPED: VarInt = VarInt::from_u32(0);

    pub(crate) fn new(handle: Handle, id: StreamId, early: bool) -> Self {
        let sender = Sender::default();
        let ending = sender.ending.clone();
        let mut state = handle.shared().lock();
        if state.is_void(early) {
            ending.set(End::Rejected);
        } else if let Some(lost) = state.error() {
            ending.set(End::Lost(lost));
        } else if let Some(code) = state.proto.stop_code(id) {
            // Heard of before the stream was accepted, and not told again.
            ending.set(End::Stopped(code));
        } else {
            state.senders.insert(id, sender);
        }
        drop(state);
        Self { handle, id, early, ended: false, ending }
    }

    /// The stream's id, the same at the peer.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Takes some of `data`, as soon as there is room, and returns how many bytes. Cancel safe.
    ///
    /// # Errors
    /// If the peer stopped the stream, it is finished or reset, or the connection has ended.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write(cx, data)).await
    }

    /// The poll form of [`write`](Self::write). The task of the last poll is woken when there is
    /// room.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn poll_write(&mut self, cx: &mut Context<'_>, mut data: &[u8]) -> Poll<Result<usize, WriteError>> {
        self.poll_write_buf(cx, &mut data)
    }

    /// As [`poll_write`](Self::poll_write), with all that there is room for of what `data` has in several
    /// pieces, which is advanced behind it. The connection is locked meanwhile, once for all of them: `data`
    /// must not use it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn poll_write_buf(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut impl Buf,
    ) -> Poll<Result<usize, WriteError>> {
        let mut state = self.shared().lock();
        state.alive()?;
        if state.is_void(self.early) {
            return Poll::Ready(Err(WriteError::ZeroRttRejected));
        }
        let result = match take_over(&mut state.proto, self.id, data) {
            Err(proto::WriteError::Blocked) => {
                if let Some(sender) = state.senders.get_mut(&self.id) {
                    sender.writer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Ok(taken) => {
                state.writers.add(self.id);
                Poll::Ready(Ok(taken))
            }
            Err(proto::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code))),
            Err(proto::WriteError::Closed | proto::WriteError::Unknown) => {
                Poll::Ready(Err(self.ending.stopped().map_or(WriteError::ClosedStream, WriteError::Stopped)))
            }
        };
        drop(state);
        self.shared().wake_driver();
        result
    }

    /// Takes all of `data`. Not cancel safe: a part may have been taken.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let taken = self.write(data).await?;
            data = &data[taken..];
        }
        Ok(())
    }

    /// No more data follows. Does not wait: see [`finished`](Self::finished).
    ///
    /// # Errors
    /// If it was finished or reset before, or the peer stopped it.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        self.end(|state, id| state.proto.finish(id).is_ok())
    }

    /// Waits until the peer's transport has acknowledged everything, the end included; call
    /// [`finish`](Self::finish) first. Cancel safe.
    ///
    /// # Errors
    /// If the peer stopped the stream, it was reset, or the connection ended before.
    pub async fn finished(&self) -> Result<(), WriteError> {
        match self.ending.clone().reached().await {
            End::Finished => Ok(()),
            End::Stopped(code) => Err(WriteError::Stopped(code)),
            End::Reset => Err(WriteError::ClosedStream),
            End::Rejected => Err(WriteError::ZeroRttRejected),
            End::Lost(error) => Err(error.into()),
        }
    }

    /// Gives the stream up, with a code for the peer; what was not acknowledged may never arrive, but
    /// for what [`set_reliable_boundary`](Self::set_reliable_boundary) has promised.
    ///
    /// # Errors
    /// If everything was acknowledged, or it was reset, before.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.end(|state, id| state.proto.reset(id, code).is_ok())?;
        self.ending.set(End::Reset);
        Ok(())
    }

    /// As [`reset`](Self::reset), once the peer's transport has acknowledged all that was written: who
    /// reads it there gets that first. Does not wait, and the stream may be dropped.
    ///
    /// # Errors
    /// If it was finished or reset, or the peer stopped it, before.
    pub fn reset_when_delivered(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.end(|state, id| state.proto.reset_when_delivered(id, code).is_ok())?;
        self.ending.set(End::Reset);
        Ok(())
    }

    /// Promises that what was written so far is delivered even if the stream is reset later, or dropped: a
    /// header that says whose stream it is, or which object of a subscription will not come. Only a peer
    /// that stops the stream gets less.
    ///
    /// Such a reset is RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset), if the peer takes it
    /// ([`TransportConfig::reset_stream_at`](crate::TransportConfig::reset_stream_at) there). One that does
    /// not is told by RESET_STREAM once it has acknowledged that much, and whoever has not read it by then
    /// may miss it.
    ///
    /// # Errors
    /// If it was finished or reset, or the peer stopped it, before.
    pub fn set_reliable_boundary(&mut self) -> Result<(), ClosedStream> {
        let mut state = self.shared().lock();
        let done = !state.is_void(self.early) && state.proto.set_reliable_boundary(self.id).is_ok();
        if done { Ok(()) } else { Err(ClosedStream) }
    }

    /// Waits until the peer has stopped the stream, and returns its code; `None` if everything was
    /// acknowledged, or it was reset on this side, instead.
    ///
    /// The future borrows nothing: it may wait in a task of its own while the stream is written to,
    /// and even when the stream is dropped. Several may wait. Cancel safe.
    ///
    /// # Errors
    /// If the server rejected early data, or the connection ended before.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + use<> {
        let ending = self.ending.clone();
        async move {
            match ending.reached().await {
                End::Finished | End::Reset => Ok(None),
                End::Stopped(code) => Ok(Some(code)),
                End::Rejected => Err(StoppedError::ZeroRttRejected),
                End::Lost(error) => Err(error.into()),
            }
        }
    }

    /// Streams of higher priority are sent first; 0 is the default. Without effect once the stream
    /// has ended.
    pub fn set_priority(&self, priority: i32) {
        let mut state = self.shared().lock();
        if !state.is_void(self.early) {
            state.proto.set_priority(self.id, priority);
        }
    }

    fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    fn end(&mut self, how: impl FnOnce(&mut State, StreamId) -> bool) -> Result<(), ClosedStream> {
        let mut state = self.shared().lock();
        let done = !state.is_void(self.early) && how(&mut state, self.id);
        drop(state);
        self.shared().wake_driver();
        self.ended |= done;
        if done { Ok(()) } else { Err(ClosedStream) }
    }
}

/// Hands `data` to the transport, piece by piece, as long as it takes them whole, and says how many bytes it
/// has taken.
fn take_over(
    connection: &mut proto::Connection,
    id: StreamId,
    data: &mut impl Buf,
) -> Result<usize, proto::WriteError> {
    let mut all = 0;
    loop {
        let piece = data.chunk();
        let length = piece.len();
        match connection.write(id, piece) {
            Ok(taken) => {
                data.advance(taken);
                all += taken;
                if taken < length || !data.has_remaining() {
                    return Ok(all);
                }
            }
            // There was room for those before.
            Err(proto::WriteError::Blocked) if all > 0 => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut state = self.shared().lock();
        if state.is_void(self.early) {
            return;
        }
        // This handle and the books have one each; more are of those who wait. An end that has come
        // does not come again: nobody would take the stream out of the books.
        let awaited = self.ended && Arc::strong_count(&self.ending) > 2 && !self.ending.is_known();
        match state.senders.get_mut(&self.id) {
            Some(sender) if awaited => sender.orphaned = true,
            _ => _ = state.senders.remove(&self.id),
        }
        let is_reset = !self.ended && state.error.is_none();
        if is_reset {
            // Refused if the stream has come to its end already.
            let _ = state.proto.reset(self.id, self.ending.stopped().unwrap_or(Self::DROPPED));
        }
        drop(state);
        if !awaited {
            self.ending.set(End::Reset);
        }
        // Of a stream that has ended nothing is left to say.
        if is_reset {
            self.shared().wake_driver();
        }
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let taken = ready!(SendStream::poll_write(&mut self, cx, data))?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Shutting down twice, or after a reset, is no mistake here.
        let _ = self.finish();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use bytes::{Buf as _, Bytes};
    use tokio::io::AsyncReadExt as _;

    use crate::{ClientConfig, Connection, Endpoint, Identity, ServerConfig};

    /// Two ends of a connection, and what keeps them open.
    async fn pair() -> ([Endpoint; 2], Connection, Connection) {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(ServerConfig::with_identity(&identity).unwrap(), local).unwrap();
        let client = Endpoint::client(local).unwrap();
        let config = ClientConfig::with_pinned_key(identity.pin());
        let connecting = client.connect_with(&config, server.local_addrs()[0], "localhost").unwrap();
        let (connection, peer) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        ([client, server], connection.unwrap(), peer.unwrap())
    }

    /// How often a driver was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Each time is a look at the connection, and often at the sockets.
    #[tokio::test]
    async fn a_driver_is_not_woken_for_nothing() {
        let (_endpoints, connection, mut peer) = pair().await;
        let under_way = peer.open_uni().await.unwrap();
        let (mut ask, mut answer) = connection.open_bi().await.unwrap();
        ask.write_all(b"ask").await.unwrap();
        ask.finish().unwrap();
        let (mut answering, mut asked) = peer.accept_bi().await.unwrap();
        assert_eq!(asked.read_to_end(10).await.unwrap(), b"ask");
        answering.finish().unwrap();
        assert!(answer.read_to_end(10).await.unwrap().is_empty());
        answering.finished().await.unwrap();

        // From here on nobody has a turn but this test.
        let woken = Arc::new(Woken::default());
        peer.shared().inbox.collect(&Waker::from(woken.clone()), &mut VecDeque::new());
        assert!(peer.poll_accept_bi(&mut Context::from_waker(Waker::noop())).is_pending());
        drop((answering, asked));
        assert_eq!(woken.0.load(Relaxed), 0);
        drop(under_way);
        assert_eq!(woken.0.load(Relaxed), 1, "a reset is to be sent");
    }

    #[tokio::test]
    async fn what_comes_in_pieces_is_taken_at_once() {
        let (_endpoints, connection, peer) = pair().await;
        let mut send = connection.open_uni().await.unwrap();
        let context = &mut Context::from_waker(Waker::noop());
        let mut data = Bytes::from_static(b"some ").chain(Bytes::new()).chain(&b"pieces"[..]);
        assert_eq!(send.poll_write_buf(context, &mut data), Poll::Ready(Ok(11)));
        assert!(!data.has_remaining());
        // All that there is room for, which is within the second piece.
        let mut large = Bytes::from_static(b"more").chain(Bytes::from(vec![0; 1 << 20]));
        let Poll::Ready(Ok(taken)) = send.poll_write_buf(context, &mut large) else {
            panic!("there is room")
        };
        assert!(taken > 4 && large.remaining() == 4 + (1 << 20) - taken, "{taken}");
        assert!(send.poll_write_buf(context, &mut large).is_pending());
        let mut recv = peer.accept_uni().await.unwrap();
        let mut begin = [0; 15];
        recv.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"some piecesmore");
    }

    #[tokio::test]
    async fn what_has_ended_is_not_kept_for_those_who_have_not_looked_yet() {
        let (_endpoints, connection, _peer) = pair().await;
        let in_the_books = || connection.shared().lock().senders.len();

        let mut reset = connection.open_uni().await.unwrap();
        let waits = reset.stopped();
        reset.write_all(b"never mind").await.unwrap();
        reset.reset(7u8.into()).unwrap();
        drop(reset);
        assert_eq!(in_the_books(), 0);
        assert_eq!(waits.await, Ok(None));

        let mut finished = connection.open_uni().await.unwrap();
        let waits = finished.stopped();
        finished.write_all(b"all").await.unwrap();
        finished.finish().unwrap();
        finished.finished().await.unwrap();
        drop(finished);
        assert_eq!(in_the_books(), 0);
        assert_eq!(waits.await, Ok(None));

        let mut under_way = connection.open_uni().await.unwrap();
        let waits = under_way.stopped();
        under_way.write_all(b"all").await.unwrap();
        under_way.finish().unwrap();
        drop(under_way);
        assert_eq!(waits.await, Ok(None), "it hears of the end although nobody holds the stream");
        assert_eq!(in_the_books(), 0);
    }
}
