//! `Server` with services.

use std::{
    convert::Infallible,
    future::pending,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use h3::error::Code;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use mendpath::{RecvStream, VarInt};
use mendpath_h3::{Body, Interim, Limits, Server};
use tokio::sync::oneshot;
use tower::service_fn;

use crate::common::{Pair, ask, get, pattern, post, read_response, requests, watchdog};

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn echo(request: Request<Body>) -> Result<Answer, mendpath_h3::BodyError> {
    let collected = request.into_body().collect().await?;
    let trailers = collected.trailers().cloned().map(Ok);
    let body = Full::new(collected.to_bytes()).with_trailers(std::future::ready(trailers));
    Ok(Response::builder().header("connection", "close").body(body.boxed()).unwrap())
}

#[tokio::test]
async fn bodies_and_trailers_go_through_a_service() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let serving =
            tokio::spawn(async move { Server::default().serve(server, service_fn(echo), pending()).await });
        let mut requests = requests(client).await;
        let mut stream = requests.send_request(post("/")).await.unwrap();
        stream.send_data(pattern(300_000)).await.unwrap();
        stream
            .send_trailers(HeaderMap::from_iter([("sum".parse().unwrap(), HeaderValue::from_static("1"))]))
            .await
            .unwrap();
        stream.finish().await.unwrap();
        let response = stream.recv_response().await.unwrap();
        assert!(response.headers().get("connection").is_none(), "it has no meaning here");
        assert!(read_response(&mut stream).await == pattern(300_000));
        assert_eq!(stream.recv_trailers().await.unwrap().unwrap()["sum"], "1");
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// The first of a body leaves together with the fields, of whatever length it is.
#[tokio::test]
async fn short_bodies_of_every_length_have_their_fields_before_them() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|request: Request<Body>| async move {
            let length: usize = request.uri().path()[1..].parse().unwrap();
            Ok::<_, Infallible>(Response::new(Full::new(pattern(length))))
        });
        tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        for length in 0..70 {
            let mut stream = ask(&mut requests, get(&format!("/{length}"))).await;
            let response = stream.recv_response().await.unwrap_or_else(|error| panic!("{length}: {error}"));
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(read_response(&mut stream).await, pattern(length));
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_ends_with_the_fields_is_known_to_be_none() {
    // POST https://x/, all from the static table of QPACK but the host.
    const ASKS: [u8; 10] = [0x01, 8, 0, 0, 0xd4, 0xd7, 0xc1, 0x50, 1, b'x'];
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(&ASKS).await.unwrap();
        send.finish().unwrap();
        // The server has it before it looks.
        assert_eq!(send.stopped().await.unwrap(), None);
        let (seen, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let look = service_fn(move |request: Request<Body>| {
            let _ = seen.send(http_body::Body::is_end_stream(request.body()));
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) }
        });
        tokio::spawn(async move { Server::default().serve(server, look, pending()).await });
        assert_eq!(heard.recv().await, Some(true));
    })
    .await;
}

#[tokio::test]
async fn trailers_say_nothing_of_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|_: Request<Body>| async {
            let trailers = HeaderMap::from_iter([
                ("sum".parse().unwrap(), HeaderValue::from_static("1")),
                ("connection".parse().unwrap(), HeaderValue::from_static("close")),
            ]);
            let body = Full::new(pattern(10)).with_trailers(std::future::ready(Some(Ok(trailers))));
            Ok::<_, Infallible>(Response::new(body))
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = requests.send_request(get("/")).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        assert!(read_response(&mut stream).await == pattern(10));
        let trailers = stream.recv_trailers().await.unwrap().unwrap();
        assert_eq!((trailers.len(), &trailers["sum"]), (1, &HeaderValue::from_static("1")));
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// A body of one piece, which is there once it is sent.
struct Later(Option<oneshot::Receiver<Bytes>>);

impl http_body::Body for Later {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let Some(piece) = &mut self.0 else { return Poll::Ready(None) };
        let piece = ready!(Pin::new(piece).poll(cx)).unwrap();
        self.0 = None;
        Poll::Ready(Some(Ok(http_body::Frame::data(piece))))
    }
}

/// With a piece that is at hand they leave together.
#[tokio::test]
async fn the_fields_of_a_response_do_not_wait_for_its_body() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let service = service_fn(move |_: Request<Body>| {
            let (send, piece) = oneshot::channel();
            let _ = tell.send(send);
            async { Ok::<_, Infallible>(Response::new(Later(Some(piece)))) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        let body = told.recv().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        body.send(pattern(10)).unwrap();
        assert!(read_response(&mut stream).await == pattern(10));
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn cookies_come_in_one_field() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|request: Request<Body>| {
            let mut response = Response::new(Full::new(Bytes::new()));
            for cookie in request.headers().get_all("cookie") {
                response.headers_mut().append("heard", cookie.clone());
            }
            async { Ok::<_, Infallible>(response) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut asked = get("/");
        for cookie in ["a=1", "b=2; c=3", "d=4"] {
            asked.headers_mut().append("cookie", HeaderValue::from_static(cookie));
        }
        let mut stream = requests.send_request(asked).await.unwrap();
        stream.finish().await.unwrap();
        let response = stream.recv_response().await.unwrap();
        let heard: Vec<_> = response.headers().get_all("heard").iter().collect();
        assert_eq!(heard, ["a=1; b=2; c=3; d=4"]);
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_service_that_fails_is_answered_for() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let fail = service_fn(|request: Request<Body>| async move {
            match request.uri().path() {
                "/panic" => panic!("as asked for"),
                _ => Err::<Answer, _>(std::io::Error::other("as asked for")),
            }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, fail, pending()).await });
        let mut requests = requests(client).await;
        let mut panics = ask(&mut requests, get("/panic")).await;
        assert!(panics.recv_response().await.is_err());
        let mut fails = ask(&mut requests, get("/")).await;
        assert_eq!(fails.recv_response().await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
        drop((panics, fails, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// Who sends an interim response is told whether it will be sent: not once the response has begun,
/// nor if it is not one.
#[tokio::test]
async fn interim_responses_are_refused_when_they_are_too_late() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel::<Interim>();
        let hint = service_fn(move |request: Request<Body>| {
            let interim = request.extensions().get::<Interim>().unwrap().clone();
            assert!(interim.send(StatusCode::EARLY_HINTS, HeaderMap::new()));
            assert!(!interim.send(StatusCode::OK, HeaderMap::new()));
            keep.send(interim).unwrap();
            // Its trailers never come, so that it is not over.
            let body = Full::new(pattern(1_000)).with_trailers(pending());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, hint, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::EARLY_HINTS);
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        let interim = kept.recv().await.unwrap();
        assert!(!interim.send(StatusCode::EARLY_HINTS, HeaderMap::new()), "the response has begun");
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// Who says that there are none is answered for as before.
#[tokio::test]
async fn a_service_without_interim_responses_gets_no_means_for_them() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|request: Request<Body>| async move {
            let has_means = request.extensions().get::<Interim>().is_some();
            let mut response = Response::new(Full::<Bytes>::default());
            *response.status_mut() = if has_means { StatusCode::IM_A_TEAPOT } else { StatusCode::OK };
            Ok::<_, Infallible>(response)
        });
        let without = Server::default().without_interims();
        let serving = tokio::spawn(async move { without.serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        drop((stream, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// Also for the body of a request.
#[tokio::test]
async fn there_may_be_no_limits() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        (limits.head, limits.body) = (Duration::MAX, Duration::MAX);
        (limits.send, limits.idle) = (Duration::MAX, Duration::MAX);
        let serving =
            tokio::spawn(async move { Server::new(limits).serve(server, service_fn(echo), pending()).await });
        let mut requests = requests(client).await;
        let mut slow = requests.send_request(post("/")).await.unwrap();
        let mut quick = ask(&mut requests, get("/")).await;
        assert_eq!(quick.recv_response().await.unwrap().status(), StatusCode::OK);
        // The service has waited for some of it by now.
        slow.send_data(pattern(100)).await.unwrap();
        slow.finish().await.unwrap();
        assert_eq!(slow.recv_response().await.unwrap().status(), StatusCode::OK);
        assert!(read_response(&mut slow).await == pattern(100));
        drop((quick, slow, requests));
        serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_stop_waits_for_what_is_under_way() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (stop, stopped) = oneshot::channel::<()>();
        let (began, begun) = oneshot::channel::<()>();
        let (go_on, going) = oneshot::channel::<()>();
        let once = std::sync::Arc::new(std::sync::Mutex::new(Some((began, going))));
        let slow = service_fn(move |_: Request<Body>| {
            let once = once.clone();
            async move {
                let (began, going) = once.lock().unwrap().take().expect("one request is made");
                began.send(()).unwrap();
                going.await.unwrap();
                Ok::<_, Infallible>(Response::new(Full::new(pattern(1_000_000))))
            }
        });
        let serving =
            tokio::spawn(
                async move { Server::default().serve(server, slow, async { _ = stopped.await }).await },
            );
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        begun.await.unwrap();
        stop.send(()).unwrap();
        go_on.send(()).unwrap();
        stream.recv_response().await.unwrap();
        assert_eq!(read_response(&mut stream).await.len(), 1_000_000);
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// The next byte of a stream.
async fn byte(stream: &mut RecvStream) -> u8 {
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).await.unwrap(), Some(1));
    byte[0]
}

/// The next number of a stream (RFC 9000 section 16).
async fn number(stream: &mut RecvStream) -> u64 {
    let first = byte(stream).await;
    let mut number = u64::from(first & 0x3f);
    for _ in 1..(1 << (first >> 6)) {
        number = number << 8 | u64::from(byte(stream).await);
    }
    number
}

/// The id in the next GOAWAY of a control stream.
async fn goaway(control: &mut RecvStream) -> u64 {
    loop {
        let (kind, length) = (number(control).await, number(control).await);
        if kind == 0x07 {
            return number(control).await;
        }
        for _ in 0..length {
            byte(control).await;
        }
    }
}

/// RFC 9114 section 5.2: the request under way is served, those from the id in the GOAWAY on are not.
#[tokio::test]
async fn goaway_names_the_request_behind_the_last_one_served() {
    const GET_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'x'];
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (stop, stopped) = oneshot::channel::<()>();
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let go_on = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let waited = go_on.clone();
        let slow = service_fn(move |_: Request<Body>| {
            let (began, waited) = (began.clone(), waited.clone());
            async move {
                began.send(()).unwrap();
                waited.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
            }
        });
        let serving =
            tokio::spawn(
                async move { Server::default().serve(server, slow, async { _ = stopped.await }).await },
            );
        let mut control = client.accept_uni().await.unwrap();
        assert_eq!(number(&mut control).await, 0x00, "the first stream is the control stream");
        let (mut asking, mut answer) = client.open_bi().await.unwrap();
        asking.write_all(GET_ROOT).await.unwrap();
        asking.finish().unwrap();
        begun.recv().await.unwrap();
        stop.send(()).unwrap();
        assert_eq!(goaway(&mut control).await, asking.id().0 + 4);
        let rejected = Some(VarInt::from_u64(Code::H3_REQUEST_REJECTED.value()).unwrap());
        // That one, and the next.
        for _ in 0..2 {
            let (mut more, mut none) = client.open_bi().await.unwrap();
            more.write_all(GET_ROOT).await.unwrap();
            assert_eq!(none.received_reset().await.unwrap(), rejected);
            assert_eq!(more.stopped().await.unwrap(), rejected);
        }
        go_on.add_permits(1);
        let answer = answer.read_to_end(1_000).await.unwrap();
        assert!(answer.windows(5).any(|part| part == b"hello"), "{answer:?}");
        serving.await.unwrap().unwrap();
        assert!(begun.try_recv().is_err(), "another request was served");
    })
    .await;
}

/// A client that leaves does not hear either that its last request was not served.
#[tokio::test]
async fn goaway_of_both_names_the_request_behind_the_last_one_served() {
    const GET_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'x'];
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let serving =
            tokio::spawn(async move { Server::default().serve(server, service_fn(echo), pending()).await });
        let mut control = client.open_uni().await.unwrap();
        control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
        let (mut asking, mut answer) = client.open_bi().await.unwrap();
        asking.write_all(GET_ROOT).await.unwrap();
        asking.finish().unwrap();
        answer.read_to_end(1_000).await.unwrap();
        control.write_all(&[0x07, 0x01, 0x00]).await.unwrap();
        let mut told = client.accept_uni().await.unwrap();
        // The connection may be closed before its GOAWAY comes.
        let mut said = Vec::new();
        while let Ok(Some(chunk)) = told.read_chunk(100).await {
            said.extend_from_slice(&chunk.bytes);
        }
        assert!(!said.ends_with(&[0x07, 0x01, 0x00]), "{said:?}");
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// RFC 9114 section 7.2.1: they are nothing but a frame.
#[tokio::test]
async fn empty_frames_of_data_are_no_end_of_a_body() {
    const POST_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd4, 0xd7, 0xc1, 0x50, 0x01, b'x'];
    const EMPTY: &[u8] = &[0x00, 0x00];
    const HEL: &[u8] = &[0x00, 0x03, b'h', b'e', b'l'];
    const LO: &[u8] = &[0x00, 0x02, b'l', b'o'];
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        tokio::spawn(async move { Server::default().serve(server, service_fn(echo), pending()).await });
        for body in [[EMPTY, HEL, LO], [HEL, EMPTY, LO], [HEL, LO, EMPTY]] {
            let request = [POST_ROOT, &body.concat()].concat();
            for size in [1, 7, request.len()] {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                for part in request.chunks(size) {
                    send.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
                send.finish().unwrap();
                let answer = recv.read_to_end(1_000).await.unwrap();
                assert!(answer.windows(5).any(|part| part == b"hello"), "{body:?}: {answer:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn nobody_waits_for_a_service_that_nobody_wants() {
    let pair = Pair::new();
    watchdog(async {
        struct Told(Option<oneshot::Sender<()>>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.take().unwrap().send(());
            }
        }
        let (client, server) = pair.connect().await;
        let (dropped, told) = oneshot::channel();
        let (began, begun) = oneshot::channel::<()>();
        let once = std::sync::Arc::new(std::sync::Mutex::new(Some((Told(Some(dropped)), began))));
        let service = service_fn(move |_: Request<Body>| {
            let once = once.clone();
            async move {
                let (_told, began) = once.lock().unwrap().take().expect("one request is made");
                began.send(()).unwrap();
                pending::<Result<Response<Full<Bytes>>, Infallible>>().await
            }
        });
        tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let stream = ask(&mut requests, get("/")).await;
        begun.await.unwrap();
        drop(stream);
        told.await.unwrap();
    })
    .await;
}

/// A body of a few parts, the next first.
struct Parts([Option<std::io::Result<Bytes>>; 2]);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::io::Result<http_body::Frame<Bytes>>>> {
        let next = self.0.iter_mut().find_map(Option::take);
        std::task::Poll::Ready(next.map(|part| part.map(http_body::Frame::data)))
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_does_not_look_whole() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|_: Request<Body>| async {
            let body = Parts([Some(Ok(Bytes::from_static(b"some"))), Some(Err(std::io::Error::other("gone")))]);
            Ok::<_, Infallible>(Response::new(body))
        });
        tokio::spawn(async move { Server::new(Limits::default()).serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        let whole = async {
            stream.recv_response().await?;
            while stream.recv_data().await?.is_some() {}
            Ok::<_, h3::error::StreamError>(())
        };
        let error = whole.await.unwrap_err();
        assert!(
            matches!(error, h3::error::StreamError::RemoteTerminate { code } if code == h3::error::Code::H3_INTERNAL_ERROR),
            "{error:?}"
        );
    })
    .await;
}

/// What `examples/axum.rs` says.
#[tokio::test]
async fn a_router_of_axum_answers() {
    let pair = Pair::new();
    watchdog(async {
        tokio::spawn(crate::axum_example::serve(pair.server.clone()));
        let address = pair.server.local_addrs()[0];
        let client = pair.client.connect(address, "localhost").unwrap().await.unwrap();
        let mut requests = requests(client).await;
        for (path, status, text) in [
            ("/hello/Ada", StatusCode::OK, "Hello, Ada.\n"),
            ("/nowhere", StatusCode::NOT_FOUND, ""),
            ("/echo", StatusCode::METHOD_NOT_ALLOWED, ""),
        ] {
            let mut stream = ask(&mut requests, get(path)).await;
            assert_eq!(stream.recv_response().await.unwrap().status(), status, "{path}");
            assert_eq!(read_response(&mut stream).await, text.as_bytes());
        }
        let mut stream = requests.send_request(post("/echo")).await.unwrap();
        stream.send_data(Bytes::from_static(b"said")).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        assert_eq!(read_response(&mut stream).await, b"said");
    })
    .await;
}
