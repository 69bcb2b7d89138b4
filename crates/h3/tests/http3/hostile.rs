//! Clients that mean no good: every limit is reached.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use h3::error::{Code, StreamError};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mendpath::{Connection, ConnectionError, ReadError, SendStream, VarInt, WriteError};
use mendpath_h3::{Body, BodyError, Limits, Server};
use tokio::sync::Semaphore;
use tower::service_fn;

use crate::common::{Pair, ask, get, post, requests, watchdog};

/// Soon enough for a test, whatever the machine does meanwhile.
pub(crate) const SOON: Duration = Duration::from_millis(50);

/// GET https://x/ without the dynamic table (RFC 9204).
pub(crate) const GET_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'x'];

/// POST https://x/, likewise.
const POST_ROOT: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd4, 0xd7, 0xc1, 0x50, 0x01, b'x'];
/// The beginning of a frame of DATA, of 10 bytes.
const HALF: &[u8] = &[0x00, 10, b'h', b'e', b'l', b'l', b'o'];

/// Frames that are not as long as the number in them (RFC 9114 section 7.1): CANCEL_PUSH, PUSH_PROMISE,
/// GOAWAY and MAX_PUSH_ID without one, with the half of one, and with a frame of a gigabyte behind it.
const MALFORMED: [&[u8]; 7] = [
    &[0x03, 0x00],
    &[0x05, 0x00],
    &[0x07, 0x00],
    &[0x0d, 0x00],
    &[0x07, 0x01, 0x40],
    &[0x05, 0x01, 0x80],
    &[0x0d, 0x09, 0x00, 0x21, 0xbf, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00],
];

pub(crate) fn code(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap()
}

/// A client's connection to a server whose every answer is `hello`.
pub(crate) async fn against(pair: &Pair, limits: Limits) -> Connection {
    let (client, server) = pair.connect().await;
    let service = service_fn(|request: Request<Body>| async move {
        request.into_body().collect().await?;
        Ok::<_, BodyError>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
    client
}

/// The code with which the peer has closed the connection.
pub(crate) async fn closed_with(connection: &Connection) -> VarInt {
    match connection.closed().await {
        ConnectionError::ApplicationClosed { code, .. } => code,
        other => panic!("the peer does not say why: {other:?}"),
    }
}

/// Sends until the connection is closed, first the beginning of a frame of DATA without an end.
async fn send_for_ever(mut send: SendStream) {
    let mut taken = send.write_all(&[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).await;
    while taken.is_ok() {
        taken = send.write_all(&[0; 16_384]).await;
    }
}

/// Whether the server still answers on this connection.
pub(crate) async fn answers(connection: Connection) {
    let mut requests = requests(connection).await;
    let mut stream = ask(&mut requests, get("/")).await;
    assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_giant_frame_is_not_gathered() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        // HEADERS, and a frame that nobody knows, of a gigabyte.
        for kind in [0x01, 0x21] {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(&[kind, 0x80, 0x40, 0x00, 0x00]).await.unwrap();
            let error = loop {
                if let Err(error) = send.write_all(&[0; 16_384]).await {
                    break error;
                }
            };
            assert_eq!(error, WriteError::Stopped(code(Code::H3_EXCESSIVE_LOAD)));
            assert!(recv.read_to_end(1_000).await.is_err());
        }
        answers(client).await;
    })
    .await;
}

/// Nor on the control stream, in however many bytes its type is written.
#[tokio::test]
async fn a_giant_frame_of_the_control_stream_is_not_gathered() {
    let pair = Pair::new();
    watchdog(async {
        for kind in [&[0x00][..], &[0x40, 0x00], &[0x80, 0, 0, 0]] {
            let client = against(&pair, Limits::default()).await;
            let mut control = client.open_uni().await.unwrap();
            // SETTINGS, and a frame that nobody knows, of half a gigabyte.
            let frames = [0x04, 0x00, 0x21, 0xa0, 0x00, 0x00, 0x00];
            control.write_all(&[kind, &frames].concat()).await.unwrap();
            let sent = control.write_all(&[0; 4 << 20]).await;
            assert!(sent.is_err(), "{kind:?}: 4 MB of it were taken");
        }
    })
    .await;
}

#[tokio::test]
async fn a_malformed_frame_of_the_control_stream_ends_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        for frame in MALFORMED {
            let client = against(&pair, Limits::default()).await;
            let mut control = client.open_uni().await.unwrap();
            control.write_all(&[&[0x00, 0x04, 0x00][..], frame].concat()).await.unwrap();
            send_for_ever(control).await;
            assert_eq!(closed_with(&client).await, code(Code::H3_FRAME_ERROR), "{frame:x?}");
        }
    })
    .await;
}

/// Before and behind its fields.
#[tokio::test]
async fn a_malformed_frame_of_a_request_ends_the_connection() {
    const NOTHING: &[u8] = &[];
    let pair = Pair::new();
    watchdog(async {
        for (frame, before) in MALFORMED.into_iter().flat_map(|frame| [(frame, NOTHING), (frame, POST_ROOT)])
        {
            let client = against(&pair, Limits::default()).await;
            let (mut send, _recv) = client.open_bi().await.unwrap();
            send.write_all(&[before, frame].concat()).await.unwrap();
            send_for_ever(send).await;
            assert_eq!(closed_with(&client).await, code(Code::H3_FRAME_ERROR), "{frame:x?}");
        }
    })
    .await;
}

/// RFC 9114 section 7.1, whether the end comes with the last bytes or once they are read.
#[tokio::test]
async fn a_request_that_ends_within_a_frame_ends_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        for later in [false, true] {
            let (client, server) = pair.connect().await;
            let read = Arc::new(Semaphore::new(0));
            let told = read.clone();
            let service = service_fn(move |request: Request<Body>| {
                let (mut body, told) = (request.into_body(), told.clone());
                async move {
                    while let Some(frame) = body.frame().await {
                        frame?;
                        told.add_permits(1);
                    }
                    Ok::<_, BodyError>(Response::new(Full::new(Bytes::new())))
                }
            });
            let serving =
                tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(&[POST_ROOT, HALF].concat()).await.unwrap();
            if later {
                read.acquire().await.unwrap().forget();
            }
            send.finish().unwrap();
            assert_eq!(closed_with(&client).await, code(Code::H3_FRAME_ERROR), "later: {later}");
            assert!(recv.read_to_end(1_000).await.is_err());
            assert!(serving.await.unwrap().is_err());
        }
    })
    .await;
}

/// Nor does it look whole to a client.
#[tokio::test]
async fn a_response_that_ends_within_a_frame_ends_the_connection() {
    // HEADERS: 200, from the static table of QPACK.
    const OK: &[u8] = &[0x01, 0x03, 0x00, 0x00, 0xd9];
    let pair = Pair::new();
    watchdog(async {
        for later in [false, true] {
            let (client, server) = pair.connect().await;
            let mut requests = requests(client).await;
            let mut stream = ask(&mut requests, get("/")).await;
            let (mut send, _recv) = server.accept_bi().await.unwrap();
            send.write_all(&[OK, HALF].concat()).await.unwrap();
            if !later {
                send.finish().unwrap();
            }
            assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
            if later {
                assert!(stream.recv_data().await.unwrap().is_some());
                send.finish().unwrap();
            }
            let error = loop {
                match stream.recv_data().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the response looks whole"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StreamError::ConnectionError(_)), "{error:?}");
            assert_eq!(closed_with(&server).await, code(Code::H3_FRAME_ERROR), "later: {later}");
        }
    })
    .await;
}

/// RFC 9114 section 6.2.1, to which `h3` sees, and RFC 9204 section 4.2.
#[tokio::test]
async fn streams_of_the_protocol_itself_stay_open() {
    const CONTROL: &[u8] = &[0x00, 0x04, 0x00];
    // The largest table is empty; a stream was given up.
    const ENCODER: &[u8] = &[0x02, 0x20];
    const DECODER: &[u8] = &[0x03, 0x44];
    let pair = Pair::new();
    watchdog(async {
        for (first, reset) in [CONTROL, ENCODER, DECODER].iter().flat_map(|s| [(s, false), (s, true)]) {
            let client = against(&pair, Limits::default()).await;
            let mut streams = Vec::new();
            for first in [CONTROL, *first].into_iter().skip(usize::from(*first == CONTROL)) {
                streams.push(client.open_uni().await.unwrap());
                streams.last_mut().unwrap().write_all(first).await.unwrap();
            }
            let critical = streams.last_mut().unwrap();
            // Once this is answered, the server has seen its type.
            let (mut asking, mut answer) = client.open_bi().await.unwrap();
            asking.write_all(GET_ROOT).await.unwrap();
            asking.finish().unwrap();
            let answer = answer.read_to_end(1_000).await.unwrap();
            assert!(answer.windows(5).any(|part| part == b"hello"), "{answer:?}");
            if *first != CONTROL {
                critical.write_all(&first[1..]).await.unwrap();
            }
            match reset {
                true => critical.reset(code(Code::H3_NO_ERROR)).unwrap(),
                false => critical.finish().unwrap(),
            }
            assert_eq!(closed_with(&client).await, code(Code::H3_CLOSED_CRITICAL_STREAM), "{first:?}");
        }
    })
    .await;
}

/// A server's log says so, as of those that are answered.
#[tokio::test]
async fn fields_that_are_too_large_to_be_gathered_are_told_of() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let refused = move |status| {
            let _ = tell.send(status);
        };
        let service = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
        });
        let serving = Server::default();
        tokio::spawn(async move { serving.serve_noting(server, service, refused, pending()).await });
        let (mut send, _recv) = client.open_bi().await.unwrap();
        // HEADERS of 40,000 bytes.
        send.write_all(&[0x01, 0x80, 0x00, 0x9c, 0x40]).await.unwrap();
        assert_eq!(told.recv().await, Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    })
    .await;
}

#[tokio::test]
async fn a_request_whose_fields_do_not_come_is_given_up() {
    let pair = Pair::new();
    watchdog(async {
        let mut limits = Limits::default();
        limits.head = SOON;
        let client = against(&pair, limits).await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(&[0x01, 0x40]).await.unwrap();
        let error = recv.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error, ReadError::Reset(code(Code::H3_REQUEST_CANCELLED)));
        answers(client).await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let pair = Pair::new();
    watchdog(async {
        let mut limits = Limits::default();
        limits.body = SOON;
        let client = against(&pair, limits).await;
        let mut requests = requests(client.clone()).await;
        let mut stream = requests.send_request(post("/")).await.unwrap();
        stream.send_data(Bytes::from_static(b"some")).await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
        let error = loop {
            if let Err(error) = stream.send_data(Bytes::from_static(b"more")).await {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert!(
            matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED }),
            "{error:?}"
        );
    })
    .await;
}

/// RFC 9114 section 4.1.2.
#[tokio::test]
async fn malformed_requests_are_reset() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        let mut requests = requests(client).await;
        for (name, value, body) in [
            ("content-length", "5", "four"),
            ("content-length", "3", "four"),
            ("content-length", "4", ""),
            ("content-length", "4, 5", "four"),
            ("content-length", "four", "four"),
            ("connection", "close", "four"),
            ("transfer-encoding", "chunked", "four"),
            ("te", "gzip", "four"),
        ] {
            let mut request = post("/");
            request.headers_mut().insert(name, HeaderValue::from_static(value));
            let mut stream = requests.send_request(request).await.unwrap();
            // It may be stopped before.
            if !body.is_empty() {
                let _ = stream.send_data(Bytes::from_static(body.as_bytes())).await;
            }
            let _ = stream.finish().await;
            let error = stream.recv_response().await.unwrap_err();
            assert!(
                matches!(error, StreamError::RemoteTerminate { code: Code::H3_MESSAGE_ERROR }),
                "{name}: {value}: {error:?}"
            );
        }
        let mut stream = ask(&mut requests, get("/")).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK, "others are served");
    })
    .await;
}

/// RFC 9114 section 4.3. They were answered, the last of several counted.
#[tokio::test]
async fn requests_whose_pseudo_headers_come_twice_or_late_or_not_at_all_are_reset() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        let sections: [&[u8]; 5] = [
            // A path again, an authority behind another field, and the status of a response.
            &[0xd1, 0xd7, 0xc1, 0x50, 1, b'x', 0x51, 2, b'/', b'a'],
            &[0xd1, 0xd7, 0xc1, 0xdd, 0x50, 1, b'x'],
            &[0xd1, 0xd7, 0xc1, 0x50, 1, b'x', 0xd9],
            // Neither scheme nor path.
            &[0xd1, 0x50, 1, b'x'],
            // A protocol that a GET asks for (RFC 8441 section 4).
            b"\xd1\xd7\xc1\x50\x01x\x27\x02:protocol\x0cwebtransport",
        ];
        for section in sections {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            let head = [0x01, section.len() as u8 + 2, 0x00, 0x00];
            send.write_all(&[&head[..], section].concat()).await.unwrap();
            let _ = send.finish();
            let error = recv.read(&mut [0; 10]).await.unwrap_err();
            assert_eq!(error, ReadError::Reset(code(Code::H3_MESSAGE_ERROR)), "{section:x?}");
        }
        answers(client).await;
    })
    .await;
}

/// RFC 9114 section 4.2.
#[tokio::test]
async fn requests_whose_trailers_speak_of_a_connection_are_reset() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        let mut requests = requests(client).await;
        for (name, is_taken) in [("sum", true), ("connection", false), ("transfer-encoding", false)] {
            let mut stream = requests.send_request(post("/")).await.unwrap();
            stream.send_data(Bytes::from_static(b"some")).await.unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert(name, HeaderValue::from_static("x"));
            stream.send_trailers(trailers).await.unwrap();
            // It may be stopped before.
            let _ = stream.finish().await;
            let response = stream.recv_response().await;
            match response {
                Ok(response) => assert!(is_taken && response.status() == StatusCode::OK, "{name}"),
                Err(StreamError::RemoteTerminate { code: Code::H3_MESSAGE_ERROR }) if !is_taken => {}
                Err(error) => panic!("{name}: {error:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        limits.cancelled = 50;
        let never = service_fn(|_: Request<Body>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
        let serving = tokio::spawn(async move { Server::new(limits).serve(server, never, pending()).await });
        let mut requests = requests(client.clone()).await;
        let mut made = 0;
        loop {
            match requests.send_request(get("/")).await {
                Ok(stream) => drop(stream),
                Err(_) => break,
            }
            made += 1;
        }
        assert!(made > 50, "{made}");
        assert_eq!(closed_with(&client).await, code(Code::H3_EXCESSIVE_LOAD));
        assert!(serving.await.unwrap().is_err());
    })
    .await;
}

/// They count like those, so that whoever finds what a service does not expect has no endless supply of it.
#[tokio::test]
async fn requests_whose_service_panics_end_the_connection() {
    async fn panics(_: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
        panic!("as asked for")
    }
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        limits.cancelled = 3;
        let service = service_fn(panics);
        tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
        let mut requests = requests(client.clone()).await;
        let mut made = 0;
        while let Ok(mut stream) = requests.send_request(get("/")).await {
            made += 1;
            let _ = stream.finish().await;
            assert!(stream.recv_response().await.is_err());
        }
        assert!(made > 3, "{made}");
        assert_eq!(closed_with(&client).await, code(Code::H3_EXCESSIVE_LOAD));
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_requests_is_closed() {
    let pair = Pair::new();
    watchdog(async {
        let mut limits = Limits::default();
        limits.idle = SOON;
        let client = against(&pair, limits).await;
        assert_eq!(closed_with(&client).await, code(Code::H3_NO_ERROR));
    })
    .await;
}

/// Else it would stay open for as long as the client says that it is there.
#[tokio::test]
async fn a_client_without_room_for_what_is_said_of_the_connection_is_given_up() {
    async fn end_of(pair: Pair) -> VarInt {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        (limits.head, limits.idle, limits.send) = (SOON, SOON, SOON);
        let never = service_fn(|_: Request<Body>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
        tokio::spawn(async move { Server::new(limits).serve(server, never, pending()).await });
        closed_with(&client).await
    }
    watchdog(async {
        let none = Pair::with(|client| client.max_streams(100, 0));
        assert_eq!(end_of(none).await, code(Code::H3_GENERAL_PROTOCOL_ERROR));
        // SETTINGS are some dozens of bytes and GOAWAY three: one of these has room for the first alone.
        let mut ends = tokio::task::JoinSet::new();
        for room in (1..=121).step_by(3) {
            ends.spawn(end_of(Pair::with(|client| client.receive_windows(room, 1 << 20))));
        }
        let ends = ends.join_all().await;
        let given_up = ends.iter().filter(|end| **end == code(Code::H3_GENERAL_PROTOCOL_ERROR)).count();
        let ended = ends.iter().filter(|end| **end == code(Code::H3_NO_ERROR)).count();
        assert!(given_up > 1 && ended > 0 && given_up + ended == ends.len(), "{ends:?}");
    })
    .await;
}

/// Nor is it closed as soon as one is over that took longer than it may be idle.
#[tokio::test]
async fn a_connection_is_not_idle_while_a_request_is_under_way() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let go_on = Arc::new(Semaphore::new(0));
        let waited = go_on.clone();
        let service = service_fn(move |_: Request<Body>| {
            let waited = waited.clone();
            async move {
                waited.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
            }
        });
        let mut limits = Limits::default();
        // Long enough for the request to come.
        limits.idle = SOON * 8;
        tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
        let mut requests = requests(client.clone()).await;
        for _ in 0..2 {
            let mut stream = ask(&mut requests, get("/")).await;
            let closed = tokio::time::timeout(SOON * 12, client.closed()).await;
            assert!(closed.is_err(), "{closed:?}");
            go_on.add_permits(1);
            assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        }
        assert!(matches!(client.closed().await, ConnectionError::ApplicationClosed { .. }));
    })
    .await;
}

#[tokio::test]
async fn fields_up_to_the_limit_are_taken() {
    let pair = Pair::new();
    watchdog(async {
        let client = against(&pair, Limits::default()).await;
        let mut requests = requests(client).await;
        let mut request = get("/");
        request.headers_mut().insert("large", HeaderValue::from_bytes(&[b'x'; 15_000]).unwrap());
        let mut stream = ask(&mut requests, request).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
    })
    .await;
}
