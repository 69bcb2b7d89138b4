//! A connection as `h3` sees it.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Buf;
use h3::{
    error::Code,
    quic::{ConnectionErrorIncoming, StreamErrorIncoming},
};
use mendpath::{ConnectionError, StoppedError, StreamId, VarInt};

use crate::{
    BidiStream, RecvStream, SendStream, error,
    response::Beside,
    settings::{FieldSectionLimit, Shared},
    stream::{Critical, Origin, StreamKind},
};

/// A connection for `h3::server` and `h3::client`, which open, accept and close through it.
///
/// What it waits for is kept from poll to poll. Clones of the [`mendpath::Connection`] serve for
/// everything else: statistics, paths, waiting for its end.
///
/// A GOAWAY of `h3::server` names the request accepted last as the first that is not served, unless its
/// `shutdown` is given 1 or more; so does the one that its `accept` sends before it gives `None`.
/// [`Server`](crate::Server) names the one behind (RFC 9114 section 5.2).
pub struct Connection {
    connection: mendpath::Connection,
    /// For the streams of it.
    shared: Arc<Shared>,
    max_frame: u64,
    critical: Critical,
    /// For whom wants to know more of request streams, and accepts only some.
    accepting: Option<Accepting>,
}

/// How the sending side of a stream has ended: stopped by the peer with a code, or acknowledged.
pub(crate) type End = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

/// What a server knows of request streams, and says of them, beside `h3`.
#[derive(Clone)]
pub(crate) struct Accepting {
    /// The one accepted last, as far as `h3` does not show it.
    last: Arc<Mutex<Option<Accepted>>>,
    /// The id of the first that is rejected.
    end: Arc<AtomicU64>,
}

/// A request stream besides what `h3` makes of it.
pub(crate) struct Accepted {
    pub(crate) end: End,
    pub(crate) beside: Arc<Beside>,
    /// Whether some of it came in 0-RTT packets.
    pub(crate) early: bool,
}

impl Accepting {
    fn new() -> Self {
        Self { last: Arc::default(), end: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// The stream accepted last, once.
    pub(crate) fn take(&self) -> Option<Accepted> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, accepted: Accepted) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(accepted);
    }

    /// Rejects request streams from this one on. `h3` would still accept the one that its GOAWAY names
    /// (RFC 9114 section 5.2).
    pub(crate) fn end_at(&self, id: StreamId) {
        self.end.fetch_min(id.0, Ordering::Relaxed);
    }

    fn rejects(&self, id: StreamId) -> bool {
        id.0 >= self.end.load(Ordering::Relaxed)
    }
}

/// Ends a request stream of which nothing was read (RFC 9114 section 4.1.1).
fn reject(mut send: mendpath::SendStream, mut recv: mendpath::RecvStream) {
    let code = VarInt::saturating(Code::H3_REQUEST_REJECTED.value());
    // Refused if the client has given it up.
    let _ = send.reset(code);
    let _ = recv.stop(code);
}

impl Connection {
    /// The longest frame other than DATA that is held unless
    /// [`max_frame_size`](Self::max_frame_size) says otherwise, in bytes.
    pub const DEFAULT_MAX_FRAME_SIZE: u64 = 64 << 10;

    /// Over this connection, whose application protocol should be [`ALPN`](crate::ALPN).
    pub fn new(connection: mendpath::Connection) -> Self {
        let (max_frame, critical) = (Self::DEFAULT_MAX_FRAME_SIZE, Critical::new());
        let shared = Shared { connection: connection.clone(), limit: FieldSectionLimit::default() };
        Self { connection, shared: Arc::new(shared), max_frame, critical, accepting: None }
    }

    /// The same, and where each request stream is found once it is accepted.
    pub(crate) fn watched(connection: mendpath::Connection) -> (Self, Accepting) {
        let accepting = Accepting::new();
        (Self { accepting: Some(accepting.clone()), ..Self::new(connection) }, accepting)
    }

    /// The longest frame of the peer that is held in memory, in bytes: `h3` gathers each that is
    /// not DATA before it looks at it. The stream of a longer one fails at its first byte. It
    /// should be somewhat above the limit that `h3` is given for the size of field sections.
    #[must_use]
    pub fn max_frame_size(mut self, bytes: u64) -> Self {
        self.max_frame = bytes;
        self
    }

    /// The connection below.
    pub fn get_ref(&self) -> &mendpath::Connection {
        &self.connection
    }
}

impl<B: Buf> h3::quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        if self.critical.poll_closed(cx).is_ready() {
            // `h3` does not see it (RFC 9204 section 4.2).
            let code = VarInt::saturating(Code::H3_CLOSED_CRITICAL_STREAM.value());
            self.connection.close(code, b"a stream of QPACK was closed");
            return Poll::Ready(Err(error::connection(ConnectionError::LocallyClosed)));
        }
        let stream = ready!(self.connection.poll_accept_uni(cx)).map_err(error::connection)?;
        Poll::Ready(Ok(RecvStream::new(stream, self.kind(Origin::Peer), self.critical.clone())))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let (send, recv) = loop {
            let (send, recv) = ready!(self.connection.poll_accept_bi(cx)).map_err(error::connection)?;
            if !self.accepting.as_ref().is_some_and(|accepting| accepting.rejects(send.id())) {
                break (send, recv);
            }
            reject(send, recv);
        };
        let (end, early) = (Box::pin(send.stopped()), recv.is_0rtt());
        let mut stream = BidiStream::new(send, recv, self.kind(Origin::Peer));
        if let Some(accepting) = &self.accepting {
            let beside = stream.beside();
            accepting.put(Accepted { end, beside, early });
        }
        Poll::Ready(Ok(stream))
    }

    fn opener(&self) -> Self::OpenStreams {
        let (connection, shared) = (self.connection.clone(), self.shared.clone());
        OpenStreams { connection, shared, max_frame: self.max_frame }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// Opens streams; a clone waits by itself.
#[derive(Clone, Debug)]
pub struct OpenStreams {
    connection: mendpath::Connection,
    /// For the streams of it.
    shared: Arc<Shared>,
    max_frame: u64,
}

/// Opening is the same with both.
macro_rules! open_streams {
    ($type:ty) => {
        impl $type {
            fn kind(&self, origin: Origin) -> StreamKind {
                StreamKind { origin, max_frame: self.max_frame, shared: self.shared.clone() }
            }
        }

        impl<B: Buf> h3::quic::OpenStreams<B> for $type {
            type BidiStream = BidiStream<B>;
            type SendStream = SendStream<B>;

            fn poll_open_bidi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
                let (send, recv) = ready!(self.connection.poll_open_bi(cx)).map_err(error::lost)?;
                Poll::Ready(Ok(BidiStream::new(send, recv, self.kind(Origin::Us))))
            }

            fn poll_open_send(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
                let send = ready!(self.connection.poll_open_uni(cx)).map_err(error::lost)?;
                Poll::Ready(Ok(SendStream::new(send)))
            }

            fn close(&mut self, code: Code, reason: &[u8]) {
                self.connection.close(VarInt::saturating(code.value()), reason);
            }
        }
    };
}

open_streams!(Connection);
open_streams!(OpenStreams);
