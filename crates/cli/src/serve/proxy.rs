//! Requests for a server behind this one.

mod behind;
mod fields;
mod sent;

use std::{
    error::Error as _, future::Future, io::ErrorKind, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    body::{Body as _, Incoming},
    ext::on_informational,
    header::{CONTENT_LENGTH, EXPECT, HOST, HeaderValue, LINK, TRANSFER_ENCODING},
};
use hyper_util::{
    client::legacy::{Client, Error},
    rt::{TokioExecutor, TokioTimer},
};
use mendpath_h3::{EarlyData, Interim};
use tokio::time::timeout_at;
use tracing::{debug, warn};

use self::{
    behind::{Connector, connector},
    sent::{Progress, Sent},
};
use super::site::{Answer, SiteBody, boxed, busy, text};
use super::websocket::{WebSocket, keep_upgrade};
use crate::hop_by_hop::{may_go_on, say_length_once, strip};

/// For a connection to the server behind.
const CONNECT: Duration = Duration::from_secs(5);
/// For it to take more of a request, and once it has all, to begin its answer.
const ANSWER: Duration = Duration::from_secs(60);

/// Fields that it may answer with; hyper takes a hundred unless told otherwise.
const MAX_FIELDS: usize = 1_000;

/// The server behind, and connections to it.
pub(super) struct Backend {
    client: Client<Connector, Sent>,
    /// Asks each time on a connection of its own.
    afresh: Client<Connector, Sent>,
    url: Uri,
}

impl Backend {
    pub(super) fn new(url: Uri) -> Self {
        let connector = connector(CONNECT, ANSWER);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).http1_max_headers(MAX_FIELDS);
        let client = builder.build(connector.clone());
        Self { client, afresh: builder.pool_max_idle_per_host(0).build(connector), url }
    }

    /// Asks it; its failures are answers as well.
    pub(super) fn answer(&self, mut request: Request<SiteBody>, from: SocketAddr) -> Answer {
        if let Some(answer) = own_answer(&mut request) {
            return Box::pin(std::future::ready(answer));
        }
        let socket = WebSocket::of(&mut request);
        let hints = request.extensions().get::<Interim>().cloned();
        let Some(mut request) = self.forward(request, from) else {
            let refusal = text(StatusCode::BAD_REQUEST, "This server does not understand the request.\n");
            return Box::pin(std::future::ready(refusal));
        };
        if socket.is_some() {
            keep_upgrade(request.headers_mut());
        }
        if let Some(hints) = hints {
            let waits = waits_to_send(request.headers());
            on_informational(&mut request, move |interim| {
                pass_on(interim.status(), interim.headers(), waits, &hints)
            });
        }
        let (client, afresh) = (self.client.clone(), self.afresh.clone());
        Box::pin(async move {
            let progress = Arc::<Progress>::default();
            let request = framed(request, &progress).await;
            let again = again(&request, &progress);
            let asking = async {
                // A kept connection may just be closing, and then nobody knows what was made of it.
                let Some(again) = again else { return afresh.request(request).await };
                match client.request(request).await {
                    Err(error) if is_hangup(&error) => afresh.request(again).await,
                    answer => answer,
                }
            };
            match (in_time(asking, &progress).await, socket) {
                (Some(Ok(response)), socket) => switch_or_carry(response, socket),
                (Some(Err(error)), _) => failure(&error, &progress),
                (None, _) => late(),
            }
        })
    }

    /// The request as it is for the server behind; `None` if it is not for one.
    fn forward(&self, mut request: Request<SiteBody>, from: SocketAddr) -> Option<Request<SiteBody>> {
        let (method, target) = (request.method(), request.uri().path());
        // A tunnel past all of this, or of a kind that is not offered; and `*` is for OPTIONS alone.
        if *method == Method::CONNECT || target == "*" && *method != Method::OPTIONS {
            return None;
        }
        let host = match request.uri().authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => request.headers().get(HOST).cloned(),
        };
        let mut uri = self.url.clone().into_parts();
        uri.path_and_query = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from_parts(uri).ok()?;
        let came_by = std::mem::replace(request.version_mut(), Version::HTTP_11);
        let early = request.extensions().get::<EarlyData>().is_some();
        let fields = request.headers_mut();
        strip(fields);
        fields::remove_claims(fields);
        fields::join_cookies(fields);
        say_length_once(fields);
        fields::add_via(fields, came_by);
        if early {
            fields.insert("early-data", HeaderValue::from_static("1"));
        }
        fields.insert("x-forwarded-for", HeaderValue::from_str(&from.ip().to_string()).ok()?);
        fields.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        if let Some(host) = host {
            fields.insert("x-forwarded-host", host.clone());
            fields.insert(HOST, host);
        }
        Some(request)
    }
}

/// The answer to a request that is not handed on: it has come this way too often, has a body that nobody
/// behind could read, or may come no farther (RFC 9110 section 7.6.2).
fn own_answer(request: &mut Request<SiteBody>) -> Option<Response<SiteBody>> {
    if fields::goes_round(request.headers()) {
        return Some(text(StatusCode::LOOP_DETECTED, "The request has come this way too often.\n"));
    }
    // RFC 9112 section 6.1. Its last coding is undone, and the others would be told to nobody.
    if fields::foreign_coding(request.headers()).is_some() {
        let words = "The only Transfer-Encoding that is known here is chunked, once.\n";
        return Some(text(StatusCode::NOT_IMPLEMENTED, words));
    }
    let counts = matches!(*request.method(), Method::OPTIONS | Method::TRACE);
    if !counts || may_go_on(request.headers_mut()) {
        return None;
    }
    Some(match *request.method() {
        Method::OPTIONS => text(StatusCode::OK, "This server hands requests on.\n"),
        _ => text(StatusCode::NOT_IMPLEMENTED, "This server shows nobody what it is sent.\n"),
    })
}

/// The request with the end of its body where HTTP/1.1 sees it (RFC 9112 section 6.3).
async fn framed(request: Request<SiteBody>, progress: &Arc<Progress>) -> Request<Sent> {
    let (mut parts, body) = request.into_parts();
    let mut body = Sent::new(body, progress.clone());
    if !parts.headers.contains_key(CONTENT_LENGTH) && body.size_hint().exact().is_none() {
        // Most of these have no body. Where only the end is still to come, none is announced. Who asks whether
        // to send it has one (RFC 9110 section 10.1.1), of which nothing comes before there is an answer.
        let mostly_bodiless =
            matches!(parts.method, Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS);
        if mostly_bodiless && !waits_to_send(&parts.headers) {
            body.begin().await;
        }
        // Without it hyper leaves out the body of a GET.
        if !body.is_end_stream() {
            parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    Request::from_parts(parts, body)
}

/// The same request, if it may be made twice and has no body (RFC 9110 section 9.2.2): the server behind
/// may have closed a connection for being idle when it is just asked on it.
fn again(request: &Request<Sent>, progress: &Arc<Progress>) -> Option<Request<Sent>> {
    let may_be = request.method().is_idempotent() && request.body().is_end_stream();
    may_be.then(|| {
        let mut again = Request::new(Sent::new(boxed(Empty::<Bytes>::new()), progress.clone()));
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.headers_mut() = request.headers().clone();
        *again.extensions_mut() = request.extensions().clone();
        again
    })
}

/// What an error comes from.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// Whether the server behind has closed the connection instead of an answer.
fn is_hangup(error: &Error) -> bool {
    causes(error).any(|cause| {
        let of_hyper = cause.downcast_ref::<hyper::Error>();
        let of_system = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        of_hyper.is_some_and(hyper::Error::is_incomplete_message)
            || matches!(of_system, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
    })
}

/// Whether the system has given the connection up, since the server behind took nothing, or is gone.
fn is_late(error: &Error) -> bool {
    let mut of_system = causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    !error.is_connect() && of_system.any(|error| error.kind() == ErrorKind::TimedOut)
}

/// What the server behind answers, unless it neither takes more of the request nor answers for
/// [`ANSWER`].
async fn in_time<T>(asking: impl Future<Output = T>, progress: &Progress) -> Option<T> {
    let mut asking = pin!(asking);
    loop {
        let until = progress.last() + ANSWER;
        match timeout_at(until, asking.as_mut()).await {
            Ok(answer) => return Some(answer),
            Err(_) if progress.last() + ANSWER > until => {}
            Err(_) => return None,
        }
    }
}

fn switch_or_carry(mut response: Response<Incoming>, socket: Option<WebSocket>) -> Response<SiteBody> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return match socket {
            Some(socket) => socket.switch(response),
            // It was not asked to.
            None => text(StatusCode::BAD_GATEWAY, "The server behind this one does not answer.\n"),
        };
    }
    if !response.body().is_end_stream()
        && let Some(coding) = fields::foreign_coding(response.headers())
    {
        warn!(%coding, "the server behind answers in a transfer coding that nobody asked it for");
        return text(StatusCode::BAD_GATEWAY, "The server behind this one answers in an unknown coding.\n");
    }
    let (status, fields) = (response.status(), response.headers_mut());
    let may_have_trailers = fields.contains_key(TRANSFER_ENCODING);
    fields::settle_length(fields, status);
    strip(fields);
    *response.version_mut() = Version::default();
    match may_have_trailers {
        true => response.map(|body| boxed(body.map_frame(fields::settle_trailers))),
        false => response.map(boxed),
    }
}

/// Whose fault it is that there is no answer: what the client does not send, the server behind
/// cannot answer.
fn failure(error: &Error, progress: &Progress) -> Response<SiteBody> {
    debug!(%error, "the server behind does not answer");
    if let Some(busy) = causes(error).filter_map(|cause| cause.downcast_ref()).find_map(busy) {
        return busy;
    }
    match progress.fault() {
        Some(StatusCode::REQUEST_TIMEOUT) => {
            text(StatusCode::REQUEST_TIMEOUT, "Nothing more of the request's body came.\n")
        }
        Some(fault) => text(fault, "The request's body is malformed.\n"),
        None if is_late(error) => late(),
        None => text(StatusCode::BAD_GATEWAY, "The server behind this one does not answer.\n"),
    }
}

fn late() -> Response<SiteBody> {
    text(StatusCode::GATEWAY_TIMEOUT, "The server behind this one takes too long.\n")
}

/// Whether a client sends its body only once it is told to, or has waited for long.
fn waits_to_send(fields: &HeaderMap) -> bool {
    fields.get(EXPECT).is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Hands on to a client that it may send its body, if it waits for that (RFC 9110 section 10.1.1), and
/// early hints (RFC 8297): their links, which is what they are for.
fn pass_on(status: StatusCode, fields: &HeaderMap, waits: bool, hints: &Interim) {
    match status.as_u16() {
        100 if waits => _ = hints.send(status, HeaderMap::new()),
        103 => {
            let links = fields.get_all(LINK).iter();
            hints.send(status, links.map(|link| (LINK, link.clone())).collect());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        pin::Pin,
        task::{Context, Poll},
    };

    use hyper::{
        body::{Body, Frame},
        header::{MAX_FORWARDS, VIA},
    };
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        backoff::pause,
        serve::{site::BoxError, tcp::Silent},
    };

    type Piece = Result<Frame<Bytes>, BoxError>;

    /// What a client sends bit by bit.
    struct Pieces(mpsc::Receiver<Piece>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
            self.0.poll_recv(cx)
        }
    }

    /// A body of which something comes every 50 s.
    fn slow(pieces: u32) -> SiteBody {
        let (to, from) = mpsc::channel(1);
        tokio::spawn(async move {
            for _ in 0..pieces {
                pause(Duration::from_secs(50)).await;
                let _ = to.send(Ok(Frame::data(Bytes::from_static(b"x")))).await;
            }
        });
        boxed(Pieces(from))
    }

    /// The rest of an upload, of which the server behind has had enough: it answers, and closes without
    /// reading it, just before more is written.
    struct Refused {
        behind: Option<std::net::TcpListener>,
        /// The head of the request has left.
        begun: bool,
    }

    impl Body for Refused {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
            if !std::mem::replace(&mut self.begun, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(behind) = self.behind.take() {
                let (tcp, _) = behind.accept().unwrap();
                socket2::SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).unwrap();
                (&tcp).write_all(b"HTTP/1.1 413 Too Much\r\nContent-Length: 3\r\n\r\nbig").unwrap();
            }
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"more")))))
        }
    }

    #[tokio::test]
    async fn a_server_behind_that_refuses_an_upload_is_heard_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let upload = boxed(Refused { behind: Some(listener), begun: false });
        let answer =
            Backend::new(url).answer(Request::post("/").body(upload).unwrap(), ([127, 0, 0, 1], 1).into());
        let answer = answer.await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "big");
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_behind_has_its_time_once_it_has_the_request() {
        for (thinks, in_time) in [(59, true), (61, false)] {
            let progress = Arc::<Progress>::default();
            let body = Sent::new(slow(4), progress.clone());
            let asking = async {
                let all = body.collect().await.unwrap().to_bytes();
                pause(Duration::from_secs(thinks)).await;
                all
            };
            let answer = super::in_time(asking, &progress).await;
            assert_eq!(answer.is_some(), in_time, "after {thinks} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_unknown_length_is_chunked_and_none_is_none() {
        for method in [Method::GET, Method::DELETE, Method::POST] {
            for (body, chunked, words) in [(slow(2), true, "xx"), (boxed(Empty::<Bytes>::new()), false, "")] {
                let request = Request::builder().method(method.clone()).body(body).unwrap();
                let framed = framed(request, &Arc::default()).await;
                assert_eq!(framed.headers().contains_key(TRANSFER_ENCODING), chunked, "{method}");
                assert_eq!(framed.into_body().collect().await.unwrap().to_bytes(), words);
            }
        }
        let late_end = Request::get("/").body(slow(0)).unwrap();
        assert!(!framed(late_end, &Arc::default()).await.headers().contains_key(TRANSFER_ENCODING));
        let known = Request::post("/").header(CONTENT_LENGTH, "1").body(slow(1)).unwrap();
        assert!(!framed(known, &Arc::default()).await.headers().contains_key(TRANSFER_ENCODING));
        let (_sends_later, from) = mpsc::channel(1);
        let asks = Request::delete("/").header(EXPECT, "100-continue").body(boxed(Pieces(from))).unwrap();
        let asks = tokio::time::timeout(Duration::from_secs(60), framed(asks, &Arc::default())).await;
        let asks = asks.expect("nothing comes before there is an answer");
        assert!(asks.headers().contains_key(TRANSFER_ENCODING));
    }

    #[tokio::test]
    async fn a_request_says_its_length_once() {
        let behind = Backend::new(Uri::from_static("http://127.0.0.1"));
        for lengths in [&["3"][..], &["3", "3"], &["3, 3"]] {
            let request =
                lengths.iter().fold(Request::post("/"), |all, one| all.header(CONTENT_LENGTH, *one));
            let request = request.body(boxed(Empty::<Bytes>::new())).unwrap();
            let forwarded = behind.forward(request, ([127, 0, 0, 1], 1).into()).unwrap();
            let said: Vec<_> = forwarded.headers().get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(said, ["3"], "{lengths:?}");
        }
    }

    /// RFC 9110 section 7.6.3.
    #[tokio::test]
    async fn a_request_says_which_way_it_came() {
        let behind = Backend::new(Uri::from_static("http://127.0.0.1"));
        for (version, way) in [
            (Version::HTTP_10, "1.0 mendpath"),
            (Version::HTTP_11, "1.1 mendpath"),
            (Version::HTTP_2, "2.0 mendpath"),
            (Version::HTTP_3, "3.0 mendpath"),
        ] {
            let request = Request::get("/").version(version).header(VIA, "1.1 before");
            let request = request.body(boxed(Empty::<Bytes>::new())).unwrap();
            let forwarded = behind.forward(request, ([127, 0, 0, 1], 1).into()).unwrap();
            let said: Vec<_> = forwarded.headers().get_all(VIA).iter().collect();
            assert_eq!(said, ["1.1 before", way]);
        }
    }

    /// The server behind asks this one again. Nobody listens at the address that it would be asked at then.
    #[tokio::test]
    async fn a_request_that_goes_round_ends() {
        let behind = Backend::new(Uri::from_static("http://127.0.0.1:0"));
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut request = Request::get("/").body(boxed(Empty::<Bytes>::new())).unwrap();
        for _ in 0..8 {
            request = behind.forward(request, from).unwrap();
        }
        assert_eq!(behind.answer(request, from).await.status(), StatusCode::LOOP_DETECTED);
    }

    #[tokio::test]
    async fn a_request_goes_no_farther_than_it_may() {
        // Nobody is there.
        let behind = Backend::new(Uri::from_static("http://127.0.0.1:0"));
        for (method, left, status) in [
            (Method::OPTIONS, "0", StatusCode::OK),
            (Method::TRACE, "0", StatusCode::NOT_IMPLEMENTED),
            (Method::OPTIONS, "1", StatusCode::BAD_GATEWAY),
            (Method::GET, "0", StatusCode::BAD_GATEWAY),
        ] {
            let request = Request::builder().method(&method).uri("/").header(MAX_FORWARDS, left);
            let request = request.body(boxed(Empty::<Bytes>::new())).unwrap();
            let answer = behind.answer(request, ([127, 0, 0, 1], 1).into()).await;
            assert_eq!(answer.status(), status, "{method} {left}");
        }
    }

    #[tokio::test]
    async fn what_a_client_does_not_send_is_its_own_fault() {
        for (error, fault) in [
            (Silent.into(), Some(StatusCode::REQUEST_TIMEOUT)),
            (BoxError::from("an invalid chunk"), Some(StatusCode::BAD_REQUEST)),
        ] {
            let (to, from) = mpsc::channel(1);
            to.send(Err(error)).await.unwrap();
            let progress = Arc::<Progress>::default();
            assert_eq!(progress.fault(), None);
            assert!(Sent::new(boxed(Pieces(from)), progress.clone()).collect().await.is_err());
            assert_eq!(progress.fault(), fault);
        }
    }
}
