//! Requests of a connection for a service.

use std::{
    error::Error,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, ConnectionError, StreamError},
    frame::FrameStream,
    server::{RequestResolver, RequestStream},
    stream::BufRecvStream,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::COOKIE, response::Parts};
use mendpath::{StreamId, VarInt};
use tokio::{
    sync::oneshot,
    time::{Instant, error::Elapsed, sleep_until, timeout},
};
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::{
    Body, Connection, EarlyData, Interim, SendStream,
    connection::{Accepted, Accepting},
    guard,
    malformed::{OF_CONNECTIONS, length},
    patience::after,
    response::Beside,
};

/// What a client may ask for and how long it may take; `Duration::MAX` is for ever.
///
/// How many requests may be under way at a time is for
/// [`ServerConfig::max_streams`](mendpath::ServerConfig::max_streams) to say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Fields of a request, and again of its trailers, in bytes as RFC 9114 section 4.2.2 counts
    /// them once they are decompressed. Larger ones are answered with 431, but for those of a frame of more than
    /// twice that, whose stream is stopped with `H3_EXCESSIVE_LOAD`; larger trailers are an error of the body.
    /// Default 16 kB.
    pub field_section: u64,
    /// From the first byte of a request to the last of its fields, and until the client has room for our
    /// SETTINGS. Default 10 s.
    pub head: Duration,
    /// Silence within the body of a request while the service waits for it. Default 30 s.
    pub body: Duration,
    /// Without room for any more of a response, because the client does not read, and without
    /// acknowledging any of what is on its way; also without room for GOAWAY. Default 60 s.
    pub send: Duration,
    /// Without a request, until the connection is closed. Default 120 s.
    pub idle: Duration,
    /// Requests that the client may have given up above those that were answered, until the
    /// connection is closed with `H3_EXCESSIVE_LOAD`. Those whose service panics are among them. Those
    /// of whose answer's body some was there already are not: somebody may be looking through a film.
    /// Default 256.
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

/// The longest piece of a response that is handed to the transport at a time, in bytes.
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

type BoxError = Box<dyn Error + Send + Sync>;

/// What accepts the requests of a connection.
type Requests = h3::server::Connection<Connection, Bytes>;

/// Where a response goes.
type Sending = RequestStream<SendStream<Bytes>, Bytes>;

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// Given up, after some of its answer.
    Begun,
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
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        self.serve_noting(connection, service, |_| {}, stop).await
    }

    /// The same; `refused` hears of every request that the service does not see: 431 if its fields
    /// are too large, which the client is answered, or its stream is reset
    /// ([`Limits::field_section`]), and 400 if it is malformed, whose stream is reset.
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
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let (watched, accepting) = Connection::watched(connection.clone());
        let watched = watched.max_frame_size(self.limits.field_section.saturating_mul(FRAME_FACTOR));
        let books = Arc::new(Books::new(self.limits.clone(), connection, Box::new(refused)));
        let mut builder = h3::server::builder();
        builder.max_field_section_size(self.limits.field_section);
        let mut h3: Requests =
            books.with_room(self.limits.head, pin!(builder.build::<_, Bytes>(watched))).await?;
        let requests = TaskTracker::new();
        let idle = sleep_until(after(self.limits.idle));
        let (mut stop, mut idle, mut over) = (pin!(stop), pin!(idle), false);
        let mut last = None;
        loop {
            let stopping = requests.is_closed();
            let ends = tokio::select! {
                accepted = std::future::poll_fn(|cx| poll_accept(&mut h3, cx)), if !over => match accepted {
                    Ok(Some(resolver)) => {
                        let accepted = accepting.take().expect("a stream was accepted");
                        last = Some(accepted.id);
                        let serving = serve_request(resolver, accepted, service.clone(), books.clone());
                        // A large future, which a task would be moved into several times.
                        requests.spawn(Box::pin(serving));
                        false
                    }
                    Ok(None) => {
                        over = true;
                        true
                    }
                    Err(error) if error.is_h3_no_error() => return Ok(()),
                    Err(error) => return Err(error),
                },
                () = requests.wait(), if stopping => return Ok(()),
                () = &mut stop, if !stopping => true,
                () = &mut idle, if !stopping => match self.idle_for(&requests, &books) {
                    Some(left) => {
                        idle.as_mut().reset(after(left));
                        false
                    }
                    None => true,
                },
            };
            if ends {
                requests.close();
                accept_no_more(&mut h3, &accepting, last, &books).await?;
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

/// Accepts the next request; `None` once the client wants no more and all are over. `Requests::accept`
/// would then say that the last of them was not served.
fn poll_accept(
    h3: &mut Requests,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<RequestResolver<Connection, Bytes>>, ConnectionError>> {
    let Some(stream) = ready!(h3.poll_accept_request_stream(cx))? else { return Poll::Ready(Ok(None)) };
    let resolver = h3.create_resolver(FrameStream::new(BufRecvStream::new(stream)));
    // Only the first response has a frame that nobody knows.
    h3.inner.send_grease_frame = false;
    Poll::Ready(Ok(Some(resolver)))
}

/// Rejects what comes behind the request accepted `last`, and says so to the client, if it is still there.
///
/// # Errors
/// If the connection has ended otherwise than by the client's `H3_NO_ERROR`.
async fn accept_no_more(
    h3: &mut Requests,
    accepting: &Accepting,
    last: Option<StreamId>,
    books: &Books,
) -> Result<(), ConnectionError> {
    accepting.end_at(first_rejected(last));
    // `h3` counts from the request accepted last. Without one it names the first there can be.
    match books.with_room(books.limits.send, pin!(h3.shutdown(usize::from(last.is_some())))).await {
        Err(error) if error.is_h3_no_error() => Ok(()),
        told => told,
    }
}

/// The request stream behind the one accepted `last` (RFC 9114 section 5.2, RFC 9000 section 2.1). Streams are
/// accepted in the order of their ids.
fn first_rejected(last: Option<StreamId>) -> StreamId {
    StreamId(last.map_or(0, |last| last.0 + 4))
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

    /// Waits for what is said of the connection itself, for which the client must have room (RFC 9114
    /// section 6.2). Where it has none for so long, the connection is closed, which ends the wait.
    async fn with_room<F: Future>(&self, patience: Duration, mut saying: Pin<&mut F>) -> F::Output {
        if let Ok(said) = within(patience, saying.as_mut()).await {
            return said;
        }
        let code = VarInt::saturating(Code::H3_GENERAL_PROTOCOL_ERROR.value());
        self.connection.close(code, b"there is no room for the control stream");
        saying.await
    }

    fn on_over(&self, outcome: Outcome) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let count = |count: u32| match outcome {
            Outcome::Answered => count.saturating_sub(1),
            Outcome::Begun => count,
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

/// A request under way, which counts once it is over. One whose task ends without an outcome, because
/// something panics, was given up.
struct UnderWay {
    books: Arc<Books>,
    outcome: Outcome,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.books.on_over(self.outcome);
    }
}

/// Answers a request. A service that panics resets its stream, and the next may do better.
async fn serve_request<S, B>(
    resolver: RequestResolver<Connection, Bytes>,
    accepted: Accepted,
    service: S,
    books: Arc<Books>,
) where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut under_way = UnderWay { books, outcome: Outcome::Cancelled };
    under_way.outcome = outcome_of(resolver, accepted, service, &under_way.books).await;
}

/// `patience` begins when the future has to wait. It is pinned by who calls, since a future that is passed on takes
/// its size twice, and some are large.
async fn within<F: Future>(patience: Duration, mut future: Pin<&mut F>) -> Result<F::Output, Elapsed> {
    if let Poll::Ready(output) = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Ok(output);
    }
    timeout(patience, future).await
}

async fn outcome_of<S, B>(
    resolver: RequestResolver<Connection, Bytes>,
    accepted: Accepted,
    service: S,
    books: &Books,
) -> Outcome
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let Accepted { id, mut end, beside, early } = accepted;
    let mut sending = None;
    let outcome = {
        let mut attempt = pin!(attempt(resolver, &beside, early, service, books, &mut sending));
        tokio::select! {
            biased;
            outcome = &mut attempt => outcome,
            // Nobody wants the answer any more.
            _ = &mut end => return given_up(&beside),
        }
    };
    let left = || books.connection.undelivered(id);
    let patience = books.limits.send;
    if outcome == Outcome::Answered && while_taken(Pin::new(&mut end), left, patience).await.is_none() {
        // Where `h3` has answered by itself, what is left of the few bytes goes with the connection.
        sending.iter_mut().for_each(|send| send.stop_stream(Code::H3_REQUEST_CANCELLED));
        return Outcome::Cancelled;
    }
    outcome
}

/// Reads a request and hands over its response; `sending` is then what the response went through.
async fn attempt<S, B>(
    resolver: RequestResolver<Connection, Bytes>,
    beside: &Beside,
    early: bool,
    mut service: S,
    Books { limits, refused, .. }: &Books,
    sending: &mut Option<Sending>,
) -> Outcome
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let (request, stream) = match within(limits.head, pin!(resolver.resolve_request())).await {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(StreamError::HeaderTooBig { .. })) => {
            refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            return Outcome::Answered;
        }
        // `h3` was not shown their frame, and does not answer.
        Ok(Err(StreamError::Undefined(error))) if error.is::<guard::Broken>() => {
            refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            return Outcome::Cancelled;
        }
        Ok(Err(StreamError::StreamError { code: Code::H3_MESSAGE_ERROR, .. })) => {
            refused(StatusCode::BAD_REQUEST);
            return Outcome::Cancelled;
        }
        _ => return Outcome::Cancelled,
    };
    beside.tells_of_its_end();
    let (send, mut recv) = stream.split();
    let send = sending.insert(send);
    let bodiless = request.method() == Method::HEAD;
    let Ok(length) = length(request.headers()) else {
        refused(StatusCode::BAD_REQUEST);
        recv.stop_sending(Code::H3_MESSAGE_ERROR);
        send.stop_stream(Code::H3_MESSAGE_ERROR);
        return Outcome::Cancelled;
    };
    let (body, malformed) = Body::new(recv, length, limits.body);
    let mut request = Some(request.map(|()| body));
    if let Some(request) = &mut request {
        join_cookies(request.headers_mut());
        request.body_mut().look().await;
        if early {
            request.extensions_mut().insert(EarlyData);
        }
    }
    match answer(send, beside, &mut service, &mut request, malformed, bodiless, limits.send).await {
        Ok(()) => Outcome::Answered,
        Err(Broken::Client) => given_up(beside),
        Err(Broken::NotTaken) => Outcome::Cancelled,
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
}

/// Clients may send cookies one by one, and browsers do. Whoever knows nothing of HTTP/3 gets them in one field
/// (RFC 9114 section 4.2.1).
fn join_cookies(fields: &mut HeaderMap) {
    if fields.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        fields.insert(COOKIE, joined);
    }
}

/// What has become of a request whose client has given it up.
fn given_up(beside: &Beside) -> Outcome {
    if beside.has_begun() { Outcome::Begun } else { Outcome::Cancelled }
}

/// Waits for as long as there is progress, since the client takes some of a response: behind a slow network
/// many share what there is. `None` once there is none for so long.
async fn while_taken<F: Future, P: PartialEq>(
    mut future: Pin<&mut F>,
    progress: impl Fn() -> P,
    patience: Duration,
) -> Option<F::Output> {
    // Most need not wait, and ask for none.
    if let Poll::Ready(output) = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        return Some(output);
    }
    loop {
        let before = progress();
        match timeout(patience, future.as_mut()).await {
            Ok(output) => return Some(output),
            Err(_) if progress() == before => return None,
            Err(_) => {}
        }
    }
}

/// Why a response is not whole.
enum Broken {
    /// The client does not want it.
    Client,
    /// The client takes nothing of it.
    NotTaken,
    /// The request turned out to be none.
    Malformed,
    /// The service cannot give it.
    Service(BoxError),
}

impl From<StreamError> for Broken {
    fn from(_: StreamError) -> Self {
        Self::Client
    }
}

/// Calls the service and hands over its response, unless the request's body turns out to be `malformed`.
async fn answer<S, B>(
    send: &mut Sending,
    beside: &Beside,
    service: &mut S,
    request: &mut Option<Request<Body>>,
    malformed: oneshot::Receiver<()>,
    bodiless: bool,
    patience: Duration,
) -> Result<(), Broken>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut handed_over = pin!(hand_over(send, beside, service, request, bodiless, patience));
    tokio::select! {
        biased;
        Ok(()) = malformed => Err(Broken::Malformed),
        handed_over = &mut handed_over => handed_over,
    }
}

/// `request` is taken from where it is: what a future is given by value it holds twice.
async fn hand_over<S, B>(
    send: &mut Sending,
    beside: &Beside,
    service: &mut S,
    request: &mut Option<Request<Body>>,
    bodiless: bool,
    patience: Duration,
) -> Result<(), Broken>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Error: Into<BoxError>>,
{
    let progress = || beside.progress();
    let (interim, mut interims) = Interim::new();
    let mut called = pin!(async {
        std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
        let mut request = request.take().expect("nobody has taken it");
        request.extensions_mut().insert(interim);
        service.call(request).await.map_err(Into::<BoxError>::into)
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
    let (parts, body) = answered(called);
    // What has no body is at its end before it begins.
    let mut body = pin!(body.filter(|_| !bodiless));
    // What is there of it leaves together with the fields, which do not wait for more.
    let mut first = std::future::poll_fn(|cx| Poll::Ready(poll_body(body.as_mut(), cx))).await;
    let has_data =
        matches!(&first, Poll::Ready(Some(Ok(frame))) if frame.data_ref().is_some_and(Buf::has_remaining));
    if let Some(response) = beside.encode_fields(parts, has_data) {
        let sent = while_taken(pin!(send.send_response(response)), progress, patience).await;
        sent.ok_or(Broken::NotTaken)??;
    }
    let mut trailers: Option<HeaderMap> = None;
    while trailers.is_none() {
        let frame = std::future::poll_fn(|cx| match std::mem::replace(&mut first, Poll::Pending) {
            Poll::Pending => poll_body(body.as_mut(), cx),
            first => first,
        });
        let Some(frame) = frame.await.transpose().map_err(Broken::Service)? else { break };
        match frame.into_data() {
            Ok(mut data) => {
                beside.begins();
                while data.has_remaining() {
                    let piece = data.copy_to_bytes(data.remaining().min(PIECE));
                    let sent = while_taken(pin!(send.send_data(piece)), progress, patience).await;
                    sent.ok_or(Broken::NotTaken)??;
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    if let Some(mut trailers) = trailers {
        OF_CONNECTIONS.iter().for_each(|name| _ = trailers.remove(name));
        let sent = while_taken(pin!(send.send_trailers(trailers)), progress, patience).await;
        sent.ok_or(Broken::NotTaken)??;
    }
    let sent = while_taken(pin!(send.finish()), progress, patience).await;
    Ok(sent.ok_or(Broken::NotTaken)??)
}

/// What a service has answered; 500 where it fails.
fn answered<B>(called: Result<Response<B>, BoxError>) -> (Parts, Option<B>) {
    match called {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            (parts, Some(body))
        }
        Err(error) => {
            tracing::debug!(%error, "the service fails");
            let (mut parts, ()) = Response::new(()).into_parts();
            parts.status = StatusCode::INTERNAL_SERVER_ERROR;
            (parts, None)
        }
    }
}

/// The next frame of a body, if there is one.
fn poll_body<B>(
    body: Pin<&mut Option<B>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<http_body::Frame<B::Data>, BoxError>>>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    body.as_pin_mut().map_or(Poll::Ready(None), |body| body.poll_frame(cx)).map_err(Into::into)
}

/// Sends interim responses, but for those that are larger than the client takes (RFC 9114 section 4.2.2): it may
/// do without any, and is still to get the response.
async fn say_before(send: &mut Sending, said: Vec<Response<()>>, patience: Duration) -> Result<(), Broken> {
    for mut interim in said {
        OF_CONNECTIONS.iter().for_each(|name| _ = interim.headers_mut().remove(name));
        match within(patience, pin!(send.send_response(interim))).await {
            Ok(Ok(()) | Err(StreamError::HeaderTooBig { .. })) => {}
            Ok(Err(_)) => return Err(Broken::Client),
            Err(_) => return Err(Broken::NotTaken),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rejected_from_the_one_behind_the_last_on() {
        assert_eq!(first_rejected(None).0, 0);
        assert_eq!(first_rejected(Some(StreamId(0))).0, 4);
        assert_eq!(first_rejected(Some(StreamId(8))).0, 12);
    }

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
            let end = while_taken(Pin::new(&mut end), left, patience).await;
            assert_eq!(end.is_some(), taken, "{pause} s, {until} times");
        }
    }
}
