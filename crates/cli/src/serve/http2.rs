//! HTTP/2 over a connection, with a limit for each way to hold it and do nothing.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    rt::Executor,
    server::conn::http2::Builder,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until, timeout},
};

use super::{
    Limits, MAX_REQUESTS,
    site::{Answer, BoxError, SiteBody},
};

/// What every client says first (RFC 9113 section 3.4), in bytes.
const PREFACE: usize = 24;

/// Serves until the client has gone or may stay no longer, or until it is to stop, and then until
/// the last request is answered.
pub(super) async fn serve<T>(
    mut io: T,
    answer: impl Fn(Request<Incoming>) -> Answer,
    limits: &Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut preface = [0; PREFACE];
    timeout(limits.head, io.read_exact(&mut preface)).await??;
    let requests = Requests::new();
    let service = service_fn(|request| {
        let (under_way, answer) = (requests.begin(), answer(request));
        async move { Ok::<_, Infallible>(answer.await.map(|body| Offered::new(body, under_way))) }
    });
    let io = TokioIo::new(Begun { preface, read: 0, io });
    let mut connection = pin!(builder(limits).serve_connection(io, service));
    tokio::select! {
        served = connection.as_mut() => return Ok(served?),
        () = stop => {
            connection.as_mut().graceful_shutdown();
            return Ok(connection.await?);
        }
        () = requests.quiet_for(limits.idle) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        served = connection => Ok(served?),
        // What hyper has been given of the last responses is not taken.
        () = requests.quiet_for(limits.idle + limits.send) => Err("it is not used".into()),
    }
}

fn builder(limits: &Limits) -> Builder<Streams> {
    let mut builder = Builder::new(Streams { patience: limits.send });
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_REQUESTS)
        .max_header_list_size(limits.fields)
        .keep_alive_interval(limits.body)
        .keep_alive_timeout(limits.head);
    builder
}

/// A connection of which the preface was read already.
struct Begun<T> {
    preface: [u8; PREFACE],
    /// Of the preface, by who reads it again.
    read: usize,
    io: T,
}

impl<T: AsyncRead + Unpin> AsyncRead for Begun<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = &this.preface[this.read..];
        if left.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let now = left.len().min(buf.remaining());
        buf.put_slice(&left[..now]);
        this.read += now;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Begun<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The requests of a connection.
#[derive(Clone)]
struct Requests(Arc<Mutex<Books>>);

struct Books {
    under_way: usize,
    /// When the last one was over.
    over: Instant,
}

impl Requests {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Books { under_way: 0, over: Instant::now() })))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> UnderWay {
        self.books().under_way += 1;
        UnderWay(self.clone())
    }

    /// Resolves once there was no request for this long.
    async fn quiet_for(&self, time: Duration) {
        loop {
            let (now, since) = {
                let (now, books) = (Instant::now(), self.books());
                (now, if books.under_way > 0 { now } else { books.over })
            };
            if since + time <= now {
                return;
            }
            sleep_until(since + time).await;
        }
    }
}

/// A request, until this is dropped.
struct UnderWay(Requests);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut books = self.0.books();
        books.under_way -= 1;
        books.over = Instant::now();
    }
}

tokio::task_local! {
    /// Since when the client has not taken what there is for it of the response whose task this is.
    static WAITS: Waits;
}

type Waits = Arc<Mutex<Option<Instant>>>;

fn set(waits: &Waits, since: Option<Instant>) {
    *waits.lock().unwrap_or_else(PoisonError::into_inner) = since;
}

/// The body of a response. Nobody asks it for more before the client has room for what it gave.
struct Offered {
    body: SiteBody,
    waits: Option<Waits>,
    _under_way: UnderWay,
}

impl Offered {
    fn new(body: SiteBody, under_way: UnderWay) -> Self {
        Self { body, waits: WAITS.try_with(Clone::clone).ok(), _under_way: under_way }
    }
}

impl Body for Offered {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(waits) = &this.waits {
            set(waits, None);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let (Some(waits), Some(Ok(_))) = (&this.waits, &frame) {
            set(waits, Some(Instant::now()));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs hyper's task of each response for as long as the client takes it: the body cannot tell, since
/// it is not asked for more.
#[derive(Clone)]
struct Streams {
    patience: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        let patience = self.patience;
        tokio::spawn(Taken { future: Box::pin(future), waits: Waits::default(), patience, limit: None });
    }
}

/// A response, which is reset when this ends before it.
struct Taken<F> {
    future: Pin<Box<F>>,
    waits: Waits,
    patience: Duration,
    /// Until when the client has to take something.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<F: Future<Output = ()>> Future for Taken<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let polled = WAITS.sync_scope(this.waits.clone(), || this.future.as_mut().poll(cx));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        let waits = *this.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = waits.map(|since| since + this.patience) else {
            this.limit = None;
            return Poll::Pending;
        };
        let limit = this.limit.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if limit.deadline() != until {
            limit.as_mut().reset(until);
        }
        limit.as_mut().poll(cx)
    }
}
