//! The fields of a `Server`'s responses, read by the client of `h3`.

use std::{convert::Infallible, future::pending, sync::Arc};

use bytes::Bytes;
use h3::error::{Code, StreamError};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header::CONTENT_LENGTH};
use http_body_util::{BodyExt as _, Full};
use mendpath_h3::{Body, Connection, Interim, Server};
use tower::service_fn;

use crate::common::{Pair, ask, get, pattern, read_response, requests, watchdog};

/// QPACK's static table without the fields of requests and responses themselves (RFC 9204 appendix A).
#[rustfmt::skip]
const TABLE: &[(&str, &[&str])] = &[
    ("accept", &["*/*", "application/dns-message"]),
    ("accept-encoding", &["gzip, deflate, br"]),
    ("accept-language", &[""]),
    ("accept-ranges", &["bytes"]),
    ("access-control-allow-credentials", &["FALSE", "TRUE"]),
    ("access-control-allow-headers", &["cache-control", "content-type", "*"]),
    ("access-control-allow-methods", &["get", "get, post, options", "options"]),
    ("access-control-allow-origin", &["*"]),
    ("access-control-expose-headers", &["content-length"]),
    ("access-control-request-headers", &["content-type"]),
    ("access-control-request-method", &["get", "post"]),
    ("age", &["0"]),
    ("alt-svc", &["clear"]),
    ("authorization", &[""]),
    ("cache-control", &["max-age=0", "max-age=2592000", "max-age=604800", "no-cache", "no-store", "public, max-age=31536000"]),
    ("content-disposition", &[""]),
    ("content-encoding", &["br", "gzip"]),
    ("content-length", &["0"]),
    ("content-security-policy", &["script-src 'none'; object-src 'none'; base-uri 'none'"]),
    ("content-type", &["application/dns-message", "application/javascript", "application/json", "application/x-www-form-urlencoded", "image/gif", "image/jpeg", "image/png", "text/css", "text/html; charset=utf-8", "text/plain", "text/plain;charset=utf-8"]),
    ("cookie", &[""]),
    ("date", &[""]),
    ("early-data", &["1"]),
    ("etag", &[""]),
    ("expect-ct", &[""]),
    ("forwarded", &[""]),
    ("if-modified-since", &[""]),
    ("if-none-match", &[""]),
    ("if-range", &[""]),
    ("last-modified", &[""]),
    ("link", &[""]),
    ("location", &[""]),
    ("origin", &[""]),
    ("purpose", &["prefetch"]),
    ("range", &["bytes=0-"]),
    ("referer", &[""]),
    ("server", &[""]),
    ("set-cookie", &[""]),
    ("strict-transport-security", &["max-age=31536000", "max-age=31536000; includesubdomains", "max-age=31536000; includesubdomains; preload"]),
    ("timing-allow-origin", &["*"]),
    ("upgrade-insecure-requests", &["1"]),
    ("user-agent", &[""]),
    ("vary", &["accept-encoding", "origin"]),
    ("x-content-type-options", &["nosniff"]),
    ("x-forwarded-for", &[""]),
    ("x-frame-options", &["deny", "sameorigin"]),
    ("x-xss-protection", &["1; mode=block"]),
];

/// What a service answers.
struct Answer {
    status: StatusCode,
    fields: HeaderMap,
    trailers: Option<HeaderMap>,
}

impl Answer {
    /// As long as its fields say.
    fn body(&self) -> Bytes {
        let length = self.fields.get(CONTENT_LENGTH);
        pattern(length.map_or(0, |length| length.to_str().unwrap().parse().unwrap()))
    }
}

fn map<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

/// Each status of the table, and one that is not there.
fn statuses() -> Vec<Answer> {
    let statuses = [200, 204, 206, 299, 302, 304, 400, 403, 404, 421, 425, 500, 503];
    let answer = |status| {
        let fields = map([("etag", &b"\"1\""[..])]);
        Answer { status: StatusCode::from_u16(status).unwrap(), fields, trailers: None }
    };
    statuses.map(answer).into()
}

/// Fields of many kinds, each with trailers.
fn kinds() -> Vec<Answer> {
    let table =
        || TABLE.iter().flat_map(|(name, values)| values.iter().map(move |value| (*name, value.as_bytes())));
    let names = || TABLE.iter().map(|(name, _)| *name);
    let others = names().map(|name| (name, if name == "content-length" { &b"5"[..] } else { &b"other"[..] }));
    let empty = names().filter(|name| *name != "content-length").map(|name| (name, &b""[..]));
    let mut sensitive = map(table().chain([("x-unknown", &b"x"[..])]));
    sensitive.values_mut().for_each(|value| value.set_sensitive(true));

    // Also where the length takes a byte more.
    let long = vec![b'v'; 20_000];
    let lengths = [0, 1, 126, 127, 128, 254, 255, 256, 16_510, 16_511, 20_000];
    let lengths = |name: &'static str| map(lengths.map(|length| (name, &long[..length])));
    let names_of_lengths = [1, 6, 7, 8, 134, 135, 136, 1_000].map(|length| "n".repeat(length));
    let bytes: Vec<u8> = b"a \t".iter().copied().chain(0x21..=0xff).filter(|byte| *byte != 0x7f).collect();

    let kinds = [
        HeaderMap::new(),
        map(table()),
        map(others),
        map(empty),
        sensitive,
        lengths("etag"),
        lengths("x-unknown"),
        map(names_of_lengths.iter().map(|name| (&**name, &b"value"[..]))),
        map([("server", &*bytes), ("x-unknown", &*bytes)]),
        map([("set-cookie", &b"a=1"[..]), ("x-unknown", b"1"), ("set-cookie", b"b=2"), ("x-unknown", b"")]),
    ];
    let trailers = || Some(map([("sum", &b"1"[..])]));
    let answer = |fields| Answer { status: StatusCode::OK, fields, trailers: trailers() };
    kinds.map(answer).into()
}

#[tokio::test]
async fn fields_of_every_kind_are_read_as_they_were_said() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let answers = Arc::new(statuses().into_iter().chain(kinds()).collect::<Vec<_>>());
        let hints = || map([("link", &b"</style.css>; rel=preload"[..]), ("x-hint", b"1")]);
        let said = answers.clone();
        let service = service_fn(move |request: Request<Body>| {
            let interim = request.extensions().get::<Interim>().unwrap();
            assert!(interim.send(StatusCode::EARLY_HINTS, hints()));
            let answer = &said[request.uri().path()[1..].parse::<usize>().unwrap()];
            let trailers = std::future::ready(answer.trailers.clone().map(Ok));
            let mut response = Response::new(Full::new(answer.body()).with_trailers(trailers).boxed());
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.fields.clone();
            async { Ok::<_, Infallible>(response) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        for (at, answer) in answers.iter().enumerate() {
            let mut stream = ask(&mut requests, get(&format!("/{at}"))).await;
            let hint = stream.recv_response().await.unwrap();
            assert_eq!((hint.status(), hint.headers()), (StatusCode::EARLY_HINTS, &hints()));
            let response = stream.recv_response().await.unwrap();
            assert_eq!(response.status(), answer.status, "{at}");
            assert!(*response.headers() == answer.fields, "{at}: {:?}", response.headers());
            assert!(read_response(&mut stream).await == answer.body(), "{at}");
            assert_eq!(stream.recv_trailers().await.unwrap(), answer.trailers, "{at}");
        }
        drop(requests);
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// A client gets the response without the hints that are too large for it.
#[tokio::test]
async fn hints_that_are_larger_than_the_client_takes_are_left_out() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|request: Request<Body>| {
            let link = vec![b'l'; request.uri().path()[1..].parse().unwrap()];
            let interim = request.extensions().get::<Interim>().unwrap();
            assert!(interim.send(StatusCode::EARLY_HINTS, map([("link", &*link)])));
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let (mut driver, mut requests) = h3::client::builder()
            .max_field_section_size(1_000)
            .build::<_, _, Bytes>(Connection::new(client))
            .await
            .unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        // With the first answer the server has seen what the client takes.
        for (length, hinted) in [(10, true), (2_000, false), (10, true)] {
            let mut stream = requests.send_request(get(&format!("/{length}"))).await.unwrap();
            stream.finish().await.unwrap();
            if hinted {
                assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::EARLY_HINTS);
            }
            assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK, "{length}");
        }
        drop(requests);
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// RFC 9114 section 4.2.2: they are not sent, and the next response may be smaller.
#[tokio::test]
async fn fields_are_as_large_as_the_client_takes() {
    const MOST: usize = 1_000;
    /// All but the value of the field below.
    const REST: usize = (":status".len() + "200".len() + 32) + ("name".len() + 32);
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let service = service_fn(|request: Request<Body>| {
            let value = vec![b'v'; request.uri().path()[1..].parse().unwrap()];
            let mut response = Response::new(Full::new(Bytes::new()));
            *response.headers_mut() = map([("name", &*value)]);
            async { Ok::<_, Infallible>(response) }
        });
        let serving = tokio::spawn(async move { Server::default().serve(server, service, pending()).await });
        let (mut driver, mut requests) = h3::client::builder()
            .max_field_section_size(MOST as u64)
            .build::<_, _, Bytes>(Connection::new(client))
            .await
            .unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        // With the first answer the server has seen what the client takes.
        for length in [0, MOST - REST, MOST - REST + 1, 20_000, MOST - REST] {
            let mut stream = ask(&mut requests, get(&format!("/{length}"))).await;
            let received = stream.recv_response().await;
            if length <= MOST - REST {
                assert_eq!(received.unwrap().headers()["name"].len(), length);
                assert!(read_response(&mut stream).await.is_empty());
                continue;
            }
            let code = match &received {
                Err(StreamError::RemoteTerminate { code }) => Some(*code),
                _ => None,
            };
            assert_eq!(code, Some(Code::H3_REQUEST_CANCELLED), "{length}: {received:?}");
        }
        drop(requests);
        serving.await.unwrap().unwrap();
    })
    .await;
}
