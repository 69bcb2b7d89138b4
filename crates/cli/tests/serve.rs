//! `mendpath serve` by TCP, and clients that mean no good; those of HTTP/3 are tested in the crate
//! `mendpath-h3`.

#![cfg(feature = "serve")]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Request, StatusCode, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mendpath::rustls::{ClientConfig, crypto::ring};
use mendpath_cli::{
    serve::{Content, Limits, ServeOptions, WebServer},
    transport::Choice,
};
use testkit::tls::Trusting;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// A site of one page. Requests have the time and the size that a test wants.
async fn site(limits: Limits) -> SocketAddr {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), "here").unwrap();
    let server = WebServer::bind(&ServeOptions {
        content: Content::Files { root: root.path().to_owned(), follow_symlinks: false },
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: None,
        access_log: None,
        workers: 1,
        max_connections: 16,
        transport: Choice::default(),
        limits,
    })
    .unwrap();
    let address = server.address();
    tokio::spawn(async move {
        server.run(std::future::pending(), || Duration::ZERO).await;
        drop(root);
    });
    address
}

/// What is waited for happens at once, or the limit under test ends it.
fn short() -> Limits {
    Limits { head: Duration::from_millis(300), ..Limits::default() }
}

async fn connect(address: SocketAddr, protocol: &str) -> TlsStream<TcpStream> {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(Arc::new(ring::default_provider()))))
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let tcp = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(tls)).connect("localhost".try_into().unwrap(), tcp).await.unwrap()
}

/// Everything until the server closes.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    // That it is closed without a word of TLS is as good.
    let _ = stream.read_to_end(&mut all).await;
    all
}

fn code(answer: &[u8]) -> &str {
    std::str::from_utf8(answer).unwrap().split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_page_comes_by_http_1_and_2_and_says_where_http_3_is() {
    let address = site(Limits::default()).await;
    let mut one = connect(address, "http/1.1").await;
    one.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let answer = String::from_utf8(rest(&mut one).await).unwrap();
    let alternative = format!("alt-svc: h3=\":{}\"", address.port());
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&alternative), "{answer}");
    assert!(answer.ends_with("here"), "{answer}");
    assert_eq!(ask_http2(address, "few").await, Ok(StatusCode::OK));
}

#[tokio::test]
async fn who_does_not_begin_tls_is_sent_away() {
    let mut tcp = TcpStream::connect(site(short()).await).await.unwrap();
    assert!(rest(&mut tcp).await.is_empty());
}

#[tokio::test]
async fn slow_fields_end_the_connection() {
    let mut slow = connect(site(short()).await, "http/1.1").await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let answer = rest(&mut slow).await;
    assert!(answer.is_empty() || code(&answer) == "408", "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn giant_fields_are_refused_by_every_protocol() {
    let address = site(Limits::default()).await;
    for size in [17 << 10, 200 << 10] {
        let mut giant = connect(address, "http/1.1").await;
        let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(size));
        // It may close before it has read all.
        let _ = giant.write_all(request.as_bytes()).await;
        let mut answer = [0; 12];
        giant.read_exact(&mut answer).await.unwrap();
        assert_eq!(code(&answer), "431", "{size} bytes");
    }
    let refused = ask_http2(address, &"x".repeat(17 << 10)).await;
    assert!(matches!(refused, Ok(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) | Err(())), "{refused:?}");
    assert_eq!(ask_http2(address, "few").await, Ok(StatusCode::OK), "others are served");
}

/// CVE-2023-44487.
#[tokio::test]
async fn requests_that_are_reset_at_once_end_the_connection() {
    const GOAWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: &[u8] = &[0, 0, 0, 0xb];
    let address = site(Limits::default()).await;
    let mut rapid = connect(address, "h2").await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for stream in (1..20_001).step_by(2) {
        // GET https://x/, and RST_STREAM with CANCEL.
        bytes.extend(frame(1, 5, stream, &[0x82, 0x84, 0x87, 0x01, 0x01, b'x']));
        bytes.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    let (mut from, mut to) = tokio::io::split(&mut rapid);
    let sending = async { _ = to.write_all(&bytes).await };
    let (_, answer) = tokio::join!(sending, rest(&mut from));
    let mut frames = frames(&answer);
    let farewell = frames.find(|(kind, _)| *kind == GOAWAY).expect("it says good-bye");
    assert_eq!(&farewell.1[4..8], ENHANCE_YOUR_CALM);
    assert_eq!(ask_http2(address, "few").await, Ok(StatusCode::OK), "others are served");
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Kinds and payloads.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(9)?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (payload, next) = rest.split_at_checked(len)?;
        bytes = next;
        Some((head[3], payload))
    })
}

/// One request by HTTP/2 on a connection of its own; an error if there was no answer.
async fn ask_http2(address: SocketAddr, field: &str) -> Result<StatusCode, ()> {
    let tls = connect(address, "h2").await;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(1 << 20)
        .handshake(TokioIo::new(tls))
        .await
        .map_err(drop)?;
    tokio::spawn(connection);
    let request = Request::get("https://localhost/").header("x", field).body(Empty::<Bytes>::new()).unwrap();
    sender.send_request(request).await.map(|response| response.status()).map_err(drop)
}
