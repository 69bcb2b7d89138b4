//! Requests of a connection for a service.

use std::{
    error::Error,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, ConnectionError, StreamError},
    server::{RequestResolver, RequestStream},
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use mendpath::VarInt;
use tokio::time::{Instant, error::Elapsed, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::{
    Body, Connection, EarlyData, Interim, SendStream,
    connection::Accepted,
    malformed::{OF_CONNECTIONS, length},
};

/// What a client may ask for and how long it may take.
///
/// How many requests may be under way at a time is for
/// [`ServerConfig::max_streams`](mendpath::ServerConfig::max_streams) to say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Fields of a request, and again of its trailers, in bytes as RFC 9114 section 4.2.2 counts
    /// them once they are decompressed; larger ones are answered with 431. Default 16 kB.
    pub field_section: u64,
    /// From the first byte of a request to the last of its fields. Default 10 s.
    pub head: Duration,
    /// Silence within the body of a request while the service waits for it. Default 30 s.
    pub body: Duration,
    /// Without room for more of a response, because the client does not read, and once it is all handed
    /// over, without acknowledging any of what is left. Default 60 s.
    pub send: Duration,
    /// Without a request, until the connection is closed. Default 120 s.
    pub idle: Duration,
    /// Requests that the client may have given up above those that were answered, until the
    /// connection is closed with `H3_EXCESSIVE_LOAD`. Default 256.
    pub cancelled: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            field_section: 16 << 10,
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            send: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            cancelled: 256,
        }
    }
}

/// The longest piece of a response that is handed to the transport at a time, in bytes: a client
/// must take that much within [`Limits::send`].
const PIECE: usize = 64 << 10;
/// How often is looked at least whether requests are over, in a connection that may not be idle.
const LEAST_IDLE: Duration = Duration::from_millis(1);
/// What a frame of fields may be longer than the fields in it: QPACK never doubles them.
const FRAME_FACTOR: u64 = 2;

/// Hands the requests of connections to a service of `tower`, and its responses back.
#[derive(Clone, Debug, Default)]
pub struct Server {
    limits: Limits,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    Cancelled,
}

impl Server {
    /// With these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Serves a connection until it ends, or until `stop` resolves and every request that came
    /// before is answered and acknowledged. Each request has a task and a clone of the service. A
    /// service that fails is answered for with 500.
    ///
    /// # Errors
    /// If the connection ends otherwise than by the client's `H3_NO_ERROR`.
    pub async fn serve<S, B>(
        &self,
        connection: mendpath::Connection,
        service: S,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ConnectionError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        S::Future: Send,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.serve_noting(connection, service, |_| {}, stop).await
    }

    /// The same; `refused` hears of every request that the service does not see: 431 if its fields
    /// are too large, which the client is answered, and 400 if it is malformed, whose stream is
    /// reset.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_noting<S, B>(
        &self,
        connection: mendpath::Connection,
        service: S,
        refused: impl Fn(StatusCode) + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ConnectionError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        S::Future: Send,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (watched, last) = Connection::watched(connection.clone());
        let mut h3 = h3::server::builder()
            .max_field_section_size(self.limits.field_section)
            .build(watched.max_frame_size(self.limits.field_section.saturating_mul(FRAME_FACTOR)))
            .await?;
        let books = Arc::new(Books::new(self.limits.clone(), connection, Box::new(refused)));
        let requests = TaskTracker::new();
        let idle = sleep_until(Instant::now() + self.limits.idle);
        let (mut stop, mut idle, mut over) = (pin!(stop), pin!(idle), false);
        loop {
            let stopping = requests.is_closed();
            tokio::select! {
                accepted = h3.accept(), if !over => match accepted {
                    Ok(Some(resolver)) => {
                        let accepted = last.take().expect("a stream was accepted");
                        let serving = serve_request(resolver, accepted, service.clone(), books.clone());
                        // A large future, which a task would be moved into several times.
                        requests.spawn(Box::pin(serving));
                    }
                    Ok(None) => {
                        requests.close();
                        over = true;
                    }
                    Err(error) if error.is_h3_no_error() => return Ok(()),
                    Err(error) => return Err(error),
                },
                () = requests.wait(), if stopping => return Ok(()),
                () = &mut stop, if !stopping => {
                    requests.close();
                    h3.shutdown(0).await?;
                }
                () = &mut idle, if !stopping => match self.idle_for(&requests, &books) {
                    Some(left) => idle.as_mut().reset(Instant::now() + left),
                    None => {
                        requests.close();
                        h3.shutdown(0).await?;
                    }
                },
            }
        }
    }

    /// How long the connection may still be without a request; `None` if that is over.
    fn idle_for(&self, requests: &TaskTracker, books: &Books) -> Option<Duration> {
        if !requests.is_empty() {
            return Some(self.limits.idle.max(LEAST_IDLE));
        }
        self.limits.idle.checked_sub(books.quiet()).filter(|left| !left.is_zero())
    }
}

/// What the requests of a connection share.
struct Books {
    limits: Limits,
    connection: mendpath::Connection,
    /// Requests that were given up above those that were answered.
    given_up: AtomicU32,
    /// When the last one was over.
    over: Mutex<Instant>,
    /// Hears of those that the service does not see.
    refused: Box<dyn Fn(StatusCode) + Send + Sync>,
}

impl Books {
    fn new(
        limits: Limits,
        connection: mendpath::Connection,
        refused: Box<dyn Fn(StatusCode) + Send + Sync>,
    ) -> Self {
        Self { limits, connection, given_up: AtomicU32::new(0), over: Mutex::new(Instant::now()), refused }
    }

    fn on_over(&self, outcome: Outcome) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let count = |count: u32| match outcome {
            Outcome::Answered => count.saturating_sub(1),
            Outcome::Cancelled => count.saturating_add(1),
        };
        let before = self.given_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(count(n)));
        if before.is_ok_and(|before| count(before) > self.limits.cancelled) {
            let code = VarInt::saturating(Code::H3_EXCESSIVE_LOAD.value());
            self.connection.close(code, b"too many requests were given up");
        }
    }

    /// How long it is since a request was over, if none is under way.
    fn quiet(&self) -> Duration {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Answers a request. A service that panics resets its stream, and the next may do better.
async fn serve_request<S, B>(
    resolver: RequestResolver<Connection, Bytes>,
    accepted: Accepted,
    service: S,
    books: Arc<Books>,
) where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let outcome = outcome_of(resolver, accepted, service, &books).await;
    books.on_over(outcome);
}

/// `patience` begins when the future has to wait.
async fn within<F: Future>(patience: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    match std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => timeout(patience, future).await,
    }
}

async fn outcome_of<S, B>(
    resolver: RequestResolver<Connection, Bytes>,
    accepted: Accepted,
    mut service: S,
    books: &Books,
) -> Outcome
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (limits, refused) = (&books.limits, &books.refused);
    let Accepted { id, mut end, whole, early } = accepted;
    let mut sending = None;
    let answered = async {
        let (request, stream) = match within(limits.head, resolver.resolve_request()).await {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(StreamError::HeaderTooBig { .. })) => {
                refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
                return Outcome::Answered;
            }
            Ok(Err(StreamError::StreamError { code: Code::H3_MESSAGE_ERROR, .. })) => {
                refused(StatusCode::BAD_REQUEST);
                return Outcome::Cancelled;
            }
            _ => return Outcome::Cancelled,
        };
        whole.store(false, Ordering::Release);
        let (send, mut recv) = stream.split();
        let send = sending.insert(send);
        let bodiless = request.method() == Method::HEAD;
        let Ok(length) = length(request.headers()) else {
            refused(StatusCode::BAD_REQUEST);
            recv.stop_sending(Code::H3_MESSAGE_ERROR);
            send.stop_stream(Code::H3_MESSAGE_ERROR);
            return Outcome::Cancelled;
        };
        let (mut body, malformed) = Body::new(recv, length, limits.body);
        body.look().await;
        let mut request = request.map(|()| body);
        if early {
            request.extensions_mut().insert(EarlyData);
        }
        let answered = tokio::select! {
            biased;
            Ok(()) = malformed => Err(Broken::Malformed),
            answered = answer(send, &mut service, request, bodiless, limits.send) => answered,
        };
        match answered {
            Ok(()) => Outcome::Answered,
            Err(Broken::Client) => Outcome::Cancelled,
            Err(Broken::Malformed) => {
                send.stop_stream(Code::H3_MESSAGE_ERROR);
                Outcome::Cancelled
            }
            Err(Broken::Service(error)) => {
                tracing::debug!(%error, "a response broke off");
                send.stop_stream(Code::H3_INTERNAL_ERROR);
                Outcome::Answered
            }
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = answered => outcome,
        // Nobody wants the answer any more.
        _ = &mut end => return Outcome::Cancelled,
    };
    let left = || books.connection.undelivered(id);
    if outcome == Outcome::Answered && !is_taken(&mut end, left, limits.send).await {
        // Where `h3` has answered by itself, what is left of the few bytes goes with the connection.
        sending.iter_mut().for_each(|send| send.stop_stream(Code::H3_REQUEST_CANCELLED));
        return Outcome::Cancelled;
    }
    outcome
}

/// Waits for the `end` of a response that is all handed over, as long as the client takes some of what
/// is `left`; whether it came.
async fn is_taken<F: Future + Unpin>(end: &mut F, left: impl Fn() -> u64, patience: Duration) -> bool {
    let mut before = left();
    while within(patience, &mut *end).await.is_err() {
        let now = left();
        if now == before {
            return false;
        }
        before = now;
    }
    true
}

/// Why a response is not whole.
enum Broken {
    /// The client does not want it, or does not take it.
    Client,
    /// The request turned out to be none.
    Malformed,
    /// The service cannot give it.
    Service(Box<dyn Error + Send + Sync>),
}

impl From<StreamError> for Broken {
    fn from(_: StreamError) -> Self {
        Self::Client
    }
}

async fn answer<S, B>(
    send: &mut RequestStream<SendStream<Bytes>, Bytes>,
    service: &mut S,
    mut request: Request<Body>,
    bodiless: bool,
    patience: Duration,
) -> Result<(), Broken>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slow = |_| Broken::Client;
    let (interim, mut interims) = Interim::new();
    request.extensions_mut().insert(interim);
    let mut called = pin!(async {
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
        service.call(request).await.map_err(Into::<Box<dyn Error + Send + Sync>>::into)
    });
    let called = loop {
        tokio::select! {
            biased;
            called = &mut called => break called,
            said = interims.next() => say_before(send, said, patience).await?,
        }
    };
    // What was said before the response goes before it.
    say_before(send, interims.close(), patience).await?;
    let response = match called {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(%error, "the service fails");
            let mut failed = Response::new(());
            *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            within(patience, send.send_response(failed)).await.map_err(slow)??;
            return Ok(within(patience, send.finish()).await.map_err(slow)??);
        }
    };
    let (mut parts, body) = response.into_parts();
    OF_CONNECTIONS.iter().for_each(|name| _ = parts.headers.remove(name));
    within(patience, send.send_response(Response::from_parts(parts, ()))).await.map_err(slow)??;
    let mut trailers: Option<HeaderMap> = None;
    let mut body = pin!(body);
    // What has no body is at its end before it begins.
    let mut more = !bodiless;
    while more {
        let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
        let Some(frame) = frame.transpose().map_err(|error| Broken::Service(error.into()))? else { break };
        match frame.into_data() {
            Ok(mut data) => {
                while data.has_remaining() {
                    let piece = data.copy_to_bytes(data.remaining().min(PIECE));
                    within(patience, send.send_data(piece)).await.map_err(slow)??;
                }
            }
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                more = trailers.is_none();
            }
        }
    }
    if let Some(trailers) = trailers {
        within(patience, send.send_trailers(trailers)).await.map_err(slow)??;
    }
    Ok(within(patience, send.finish()).await.map_err(slow)??)
}

/// Sends interim responses.
async fn say_before(
    send: &mut RequestStream<SendStream<Bytes>, Bytes>,
    said: Vec<Response<()>>,
    patience: Duration,
) -> Result<(), Broken> {
    for mut interim in said {
        OF_CONNECTIONS.iter().for_each(|name| _ = interim.headers_mut().remove(name));
        within(patience, send.send_response(interim)).await.map_err(|_| Broken::Client)??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long all of it takes.
    #[tokio::test(start_paused = true)]
    async fn who_takes_some_of_the_rest_again_and_again_is_waited_for() {
        let patience = Duration::from_secs(60);
        // Acknowledged every so many seconds, to the end or to the middle.
        for (pause, until, taken) in [(50, 10, true), (61, 10, false), (50, 5, false)] {
            let begin = Instant::now();
            let steps = || begin.elapsed().as_secs() / pause;
            let left = || 10 - steps().min(until);
            let mut end = Box::pin(sleep_until(begin + Duration::from_secs(pause * 10)));
            assert_eq!(is_taken(&mut end, left, patience).await, taken, "{pause} s, {until} times");
        }
    }
}
