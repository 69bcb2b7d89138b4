//! `mendpath serve` by TCP, and clients that mean no good; those of HTTP/3 are tested in the crate
//! `mendpath-h3`.

#![cfg(feature = "serve")]

mod answers;
mod http2;
mod http3;
#[path = "../support/mod.rs"]
mod support;
mod unread;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn, header::HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mendpath_cli::{
    serve::{Content, Limits, ServeOptions, WebServer},
    transport::Choice,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use self::support::tls::trusting;

/// A site of one page. Requests have the time and the size that a test wants.
async fn site(limits: Limits) -> SocketAddr {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), "here").unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    serve(content, limits, root)
}

/// A server that a test plays, and the site before it.
async fn behind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    (listener, serve(Content::Proxy(url), Limits::default(), ()))
}

/// Serves; `kept` lives as long.
fn serve(content: Content, limits: Limits, kept: impl Send + 'static) -> SocketAddr {
    run(bind(content, limits), kept)
}

fn run(server: WebServer, kept: impl Send + 'static) -> SocketAddr {
    let address = server.address();
    tokio::spawn(async move {
        server.run(std::future::pending::<std::future::Ready<()>>()).await;
        drop(kept);
    });
    address
}

fn bind(content: Content, limits: Limits) -> WebServer {
    bind_with(content, limits, None)
}

fn bind_with(content: Content, limits: Limits, access_log: Option<PathBuf>) -> WebServer {
    WebServer::bind(&ServeOptions { access_log, ..options(content, limits) }).unwrap()
}

fn options(content: Content, limits: Limits) -> ServeOptions {
    ServeOptions {
        content,
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: None,
        hints: Vec::new(),
        access_log: None,
        workers: None,
        max_connections: 16,
        early_data: true,
        transport: Choice::default(),
        limits,
    }
}

/// The end of a server whose patience has none.
async fn patiently(stopped: oneshot::Receiver<()>) -> std::future::Pending<()> {
    let _ = stopped.await;
    std::future::pending()
}

/// What is waited for happens at once, or the limit under test ends it.
fn short() -> Limits {
    Limits { head: Duration::from_millis(300), ..Limits::default() }
}

async fn connect(address: SocketAddr, protocol: &str) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(address).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    TlsConnector::from(Arc::new(trusting(protocol)))
        .connect("localhost".try_into().unwrap(), tcp)
        .await
        .unwrap()
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

/// Eight of sixteen. All of 127.0.0.0/8 is this machine's on Linux.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_host_that_has_half_of_the_connections_gets_no_more() {
    let address = site(Limits::default()).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(connect(address, "http/1.1").await);
    }
    let tls = TlsConnector::from(Arc::new(trusting("http/1.1")));
    let tcp = TcpStream::connect(address).await.unwrap();
    assert!(tls.connect("localhost".try_into().unwrap(), tcp).await.is_err(), "one more is closed");
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let tcp = other.connect(address).await.unwrap();
    tls.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
}

/// By HTTP/2 the client may also say less than what it has to say first.
#[tokio::test]
async fn who_says_nothing_after_tls_is_sent_away() {
    let address = site(short()).await;
    for (protocol, said) in [("http/1.1", ""), ("h2", ""), ("h2", "PRI * HTTP/2.0\r\n"), ("x", "")] {
        let tcp = TcpStream::connect(address).await.unwrap();
        let mut tls = trusting(protocol);
        if protocol == "x" {
            tls.alpn_protocols.clear();
        }
        let connecting = TlsConnector::from(Arc::new(tls)).connect("localhost".try_into().unwrap(), tcp);
        let mut silent = connecting.await.unwrap();
        silent.write_all(said.as_bytes()).await.unwrap();
        rest(&mut silent).await;
    }
}

#[tokio::test]
async fn a_connection_without_requests_ends_by_http_1_and_2() {
    let address = site(Limits { idle: Duration::from_millis(300), ..short() }).await;
    let mut one = connect(address, "http/1.1").await;
    one.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(code(&rest(&mut one).await), "200");
    let tls = connect(address, "h2").await;
    let (mut sender, connection) =
        conn::http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("https://localhost/").body(Empty::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn slow_fields_end_the_connection() {
    let mut slow = connect(site(short()).await, "http/1.1").await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let answer = rest(&mut slow).await;
    assert!(answer.is_empty() || code(&answer) == "408", "{}", String::from_utf8_lossy(&answer));
}

/// RFC 9112 section 3.2, RFC 9113 section 8.3.1.
#[tokio::test]
async fn who_does_not_say_for_which_host_is_refused() {
    let address = site(Limits::default()).await;
    for (target, hosts) in [
        ("/", ""),
        ("/", "Host: a\r\nHost: b\r\n"),
        ("/", "Host: a b\r\n"),
        ("/", "Host: a/b\r\n"),
        ("https://me@a/", "Host: a\r\n"),
        ("a", "Host: a\r\n"),
    ] {
        let mut unclear = connect(address, "http/1.1").await;
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        unclear.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(code(&rest(&mut unclear).await), "400", "{target} {hosts}");
    }
    for (target, host) in [("https://me@a/", None), ("https://a/", Some("b"))] {
        let request = host.iter().fold(Request::get(target), |request, host| request.header("host", *host));
        let response = send_http2(address, request.body(Empty::new()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{target} {host:?}");
    }
}

/// As `curl --http1.0` does, which names nothing newer to TLS.
#[tokio::test]
async fn who_speaks_http_1_0_alone_is_answered() {
    let mut old = connect(site(Limits::default()).await, "http/1.0").await;
    old.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let answer = String::from_utf8(rest(&mut old).await).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("here"), "{answer}");
}

/// The last byte of nothing.
#[tokio::test]
async fn an_empty_file_is_sent_whatever_part_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("empty"), "").unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    let address = serve(content, Limits::default(), root);
    let request = Request::get("https://localhost/empty").header("range", "bytes=-1").body(Empty::new());
    assert_eq!(send_http2(address, request.unwrap()).await.unwrap().status(), StatusCode::OK);
}

/// As browsers do: Firefox by If-Match, Chromium by If-Range.
#[tokio::test]
async fn a_download_goes_on_by_the_tag_that_it_had() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("page.html");
    std::fs::write(&path, "0123456789".repeat(10)).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let an_hour_ago = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(3_600);
    file.set_modified(an_hour_ago).unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    let address = serve(content, Limits::default(), root);
    let ask = async |fields: &[(&str, &str)]| {
        let mut request = Request::get("https://localhost/page.html");
        for &(name, value) in fields {
            request = request.header(name, value);
        }
        let response = send_http2(address, request.body(Empty::new()).unwrap()).await.unwrap();
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        (response.status(), tag.unwrap_or_default())
    };
    let range = ("range", "bytes=10-19");
    let (_, tag) = ask(&[]).await;
    for (name, value, status) in [
        ("if-match", &*tag, StatusCode::PARTIAL_CONTENT),
        ("if-match", "\"other\"", StatusCode::PRECONDITION_FAILED),
        ("if-range", &*tag, StatusCode::PARTIAL_CONTENT),
        ("if-range", "\"other\"", StatusCode::OK),
    ] {
        assert_eq!(ask(&[range, (name, value)]).await.0, status, "{name}: {value}");
    }
    let packed = ("accept-encoding", "gzip");
    let (_, weak) = ask(&[packed]).await;
    assert_eq!(weak, format!("W/{tag}"), "the bytes are others");
    let (status, same) = ask(&[packed, ("if-none-match", &*weak)]).await;
    assert_eq!((status, same), (StatusCode::NOT_MODIFIED, weak));
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

/// One request by HTTP/2 on a connection of its own; an error if there was no answer.
async fn ask_http2(address: SocketAddr, field: &str) -> Result<StatusCode, ()> {
    let request = Request::get("https://localhost/").header("x", field).body(Empty::new()).unwrap();
    send_http2(address, request).await.map(|response| response.status())
}

async fn send_http2(address: SocketAddr, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, ()> {
    let tls = connect(address, "h2").await;
    let (mut sender, connection) = conn::http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(1 << 20)
        .handshake(TokioIo::new(tls))
        .await
        .map_err(drop)?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(drop)
}

/// RFC 9110 section 9.3.2.
#[tokio::test]
async fn head_has_no_body_whatever_is_there() {
    let address = site(Limits::default()).await;
    for (page, status) in [("", StatusCode::OK), ("none", StatusCode::NOT_FOUND)] {
        let request = Request::head(format!("https://localhost/{page}")).body(Empty::new()).unwrap();
        let response = send_http2(address, request).await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "{status}");
    }
}

/// The fields of a message by HTTP/1.1, as they came.
async fn fields(tcp: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut fields = Vec::new();
    while !fields.ends_with(b"\r\n\r\n") {
        fields.push(tcp.read_u8().await.unwrap());
    }
    String::from_utf8(fields).unwrap()
}

#[tokio::test]
async fn websockets_reach_the_server_behind() {
    let (listener, address) = behind().await;
    let behind = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let asked = fields(&mut tcp).await.to_lowercase();
        for field in
            ["upgrade: websocket", "connection: upgrade", "sec-websocket-key: abc", "x-forwarded-for"]
        {
            assert!(asked.contains(field), "{field} is not in {asked}");
        }
        let agrees = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: xyz\r\n\r\nhello ";
        tcp.write_all(agrees.as_bytes()).await.unwrap();
        let mut word = [0; 4];
        tcp.read_exact(&mut word).await.unwrap();
        tcp.write_all(&word).await.unwrap();
        // The client's end is heard here, and this side's there.
        assert!(rest(&mut tcp).await.is_empty());
    });
    let mut client = connect(address, "http/1.1").await;
    let asks = "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\n";
    client.write_all(asks.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"hello ") {
        heard.push(client.read_u8().await.unwrap());
    }
    let heard = String::from_utf8(heard).unwrap().to_lowercase();
    assert!(heard.starts_with("http/1.1 101") && heard.contains("sec-websocket-accept: xyz"), "{heard}");
    client.write_all(b"word").await.unwrap();
    let mut word = [0; 4];
    client.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"word");
    client.shutdown().await.unwrap();
    behind.await.unwrap();
    assert!(rest(&mut client).await.is_empty());
}

/// A server that was not asked may not turn the connection into something else.
#[tokio::test]
async fn upgrades_that_nobody_asked_for_are_refused() {
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        fields(&mut tcp).await;
        let switches = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
        tcp.write_all(switches.as_bytes()).await.unwrap();
        rest(&mut tcp).await;
    });
    let mut client = connect(address, "http/1.1").await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(code(&rest(&mut client).await), "502");
}

/// Early hints of [`hinting`] and [`hinting_files`].
const HINTS: [&str; 2] = ["</a.css>; rel=preload; as=style", "</b.js>; rel=preload; as=script"];

/// A site of one page that says before it what it needs.
fn hinting_files() -> SocketAddr {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), "here").unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    let hints = HINTS.map(HeaderValue::from_static).to_vec();
    let server = WebServer::bind(&ServeOptions { hints, ..options(content, Limits::default()) }).unwrap();
    run(server, root)
}

/// What a browser asks with, for a page or for a part of one.
fn wanting(dest: &str) -> Request<()> {
    Request::builder().uri("https://localhost/").header("sec-fetch-dest", dest).body(()).unwrap()
}

/// A site before a server that gives hints, and answers once it is told that they have come.
async fn hinting() -> (SocketAddr, oneshot::Sender<()>) {
    let (listener, address) = behind().await;
    let (hinted, heard) = oneshot::channel();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        fields(&mut tcp).await;
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload; as=style\r\n\
                     Link: </b.js>; rel=preload; as=script\r\nX-Other: 1\r\n\r\n";
        tcp.write_all(hints.as_bytes()).await.unwrap();
        // It is still at work when the hints are there.
        heard.await.unwrap();
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await.unwrap();
        rest(&mut tcp).await;
    });
    (address, hinted)
}

/// A site before a server that says when it takes a body.
async fn inviting() -> SocketAddr {
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let asked = fields(&mut tcp).await.to_lowercase();
        assert!(asked.contains("expect: 100-continue\r\n"), "{asked}");
        tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        tcp.read_exact(&mut [0; 4]).await.unwrap();
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await.unwrap();
        rest(&mut tcp).await;
    });
    address
}

/// A request whose client asks whether to send its body.
fn expecting() -> Request<()> {
    let request = Request::post("https://localhost/").header("content-length", "4");
    request.header("expect", "100-continue").body(()).unwrap()
}

/// RFC 8297: the links, and nothing else of what the server behind said.
fn assert_hints(early: &Response<()>) {
    assert_eq!(early.status().as_u16(), 103);
    let links = early.headers().get_all("link").iter();
    let links: Vec<_> = links.map(|link| link.to_str().unwrap()).collect();
    assert_eq!(links, HINTS);
    assert!(early.headers().get("x-other").is_none());
}
