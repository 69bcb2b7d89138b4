//! `mendpath serve` by TCP, and clients that mean no good; those of HTTP/3 are tested in the crate
//! `mendpath-h3`.

#![cfg(feature = "serve")]

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mendpath_cli::{
    serve::{Content, Limits, ServeOptions, WebServer},
    transport::Choice,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
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

/// A site before this server, which is as it is.
fn before(backend: SocketAddr) -> SocketAddr {
    serve(Content::Proxy(format!("http://{backend}").parse().unwrap()), Limits::default(), ())
}

/// Serves; `kept` lives as long.
fn serve(content: Content, limits: Limits, kept: impl Send + 'static) -> SocketAddr {
    let server = bind(content, limits);
    let address = server.address();
    tokio::spawn(async move {
        server.run(std::future::pending::<std::future::Ready<()>>()).await;
        drop(kept);
    });
    address
}

fn bind(content: Content, limits: Limits) -> WebServer {
    WebServer::bind(&ServeOptions {
        content,
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: None,
        access_log: None,
        workers: None,
        max_connections: 16,
        early_data: true,
        transport: Choice::default(),
        limits,
    })
    .unwrap()
}

/// What is waited for happens at once, or the limit under test ends it.
fn short() -> Limits {
    Limits { head: Duration::from_millis(300), ..Limits::default() }
}

async fn connect(address: SocketAddr, protocol: &str) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(address).await.unwrap();
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
        http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("https://localhost/").body(Empty::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_response_that_is_not_taken_is_given_up_by_http_2() {
    const RST_STREAM: u8 = 3;
    const CANCEL: &[u8] = &[0, 0, 0, 8];
    let address = site(Limits { send: Duration::from_millis(300), ..Limits::default() }).await;
    let mut stingy = connect(address, "h2").await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Without a window.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    bytes.extend(frame(1, 5, 1, &[0x82, 0x84, 0x87, 0x01, 0x01, b'x']));
    stingy.write_all(&bytes).await.unwrap();
    let mut heard = Vec::new();
    let reset = loop {
        assert_ne!(stingy.read_buf(&mut heard).await.unwrap(), 0, "the connection goes on");
        if let Some((_, code)) = frames(&heard).find(|(kind, _)| *kind == RST_STREAM) {
            break code.to_vec();
        }
    };
    assert_eq!(reset, CANCEL);
}

#[tokio::test]
async fn slow_fields_end_the_connection() {
    let mut slow = connect(site(short()).await, "http/1.1").await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let answer = rest(&mut slow).await;
    assert!(answer.is_empty() || code(&answer) == "408", "{}", String::from_utf8_lossy(&answer));
}

/// RFC 9112 section 3.2.
#[tokio::test]
async fn who_does_not_say_for_which_host_is_refused() {
    let address = site(Limits::default()).await;
    for hosts in ["", "Host: a\r\nHost: b\r\n", "Host: a b\r\n", "Host: a/b\r\n"] {
        let mut unclear = connect(address, "http/1.1").await;
        let request = format!("GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        unclear.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(code(&rest(&mut unclear).await), "400", "{hosts}");
    }
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
    let request = Request::get("https://localhost/").header("x", field).body(Empty::new()).unwrap();
    send_http2(address, request).await.map(|response| response.status())
}

async fn send_http2(address: SocketAddr, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, ()> {
    let tls = connect(address, "h2").await;
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
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

/// The fields of a request by HTTP/1.1, as they came.
async fn fields(tcp: &mut TcpStream) -> String {
    let mut fields = Vec::new();
    while !fields.ends_with(b"\r\n\r\n") {
        fields.push(tcp.read_u8().await.unwrap());
    }
    String::from_utf8(fields).unwrap()
}

#[tokio::test]
async fn websockets_reach_the_server_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = before(listener.local_addr().unwrap());
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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = before(listener.local_addr().unwrap());
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

mod http3 {
    //! What HTTP/3 can and the others cannot.

    use hyper::{Method, Response};
    use mendpath::{ClientConfig, Connection, Endpoint};
    use mendpath_h3::{ALPN, BidiStream, OpenStreams};

    use super::*;

    type Requests = h3::client::SendRequest<OpenStreams, Bytes>;
    type Asked = h3::client::RequestStream<BidiStream<Bytes>, Bytes>;

    /// A browser that comes again.
    fn browser() -> (Endpoint, ClientConfig) {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        (endpoint, ClientConfig::with_tls(trusting("h3")).alpn([ALPN]).early_data(true))
    }

    async fn requests(connection: Connection) -> Requests {
        let (mut driver, requests) = h3::client::new(mendpath_h3::Connection::new(connection)).await.unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        requests
    }

    async fn ask(requests: &mut Requests, method: Method) -> Asked {
        let request = Request::builder().method(method).uri("https://localhost/").body(()).unwrap();
        let mut asked = requests.send_request(request).await.unwrap();
        asked.finish().await.unwrap();
        asked
    }

    fn links(response: &Response<()>) -> Vec<&str> {
        response.headers().get_all("link").iter().map(|link| link.to_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn early_hints_come_before_the_response() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = before(listener.local_addr().unwrap());
        let (hinted, heard) = tokio::sync::oneshot::channel();
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
        let (endpoint, config) = browser();
        let mut requests =
            requests(endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap()).await;
        let mut asked = ask(&mut requests, Method::GET).await;
        let early = asked.recv_response().await.unwrap();
        assert_eq!(early.status().as_u16(), 103);
        assert_eq!(links(&early), ["</a.css>; rel=preload; as=style", "</b.js>; rel=preload; as=script"]);
        assert!(early.headers().get("x-other").is_none());
        hinted.send(()).unwrap();
        assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::OK);
    }

    /// The end of a server whose patience has none.
    async fn patiently(stopped: tokio::sync::oneshot::Receiver<()>) -> std::future::Pending<()> {
        let _ = stopped.await;
        std::future::pending()
    }

    #[tokio::test]
    async fn who_comes_while_it_stops_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behind = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = bind(Content::Proxy(behind), Limits::default());
        let address = server.address();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run(patiently(stopped)));
        let mut client = connect(address, "http/1.1").await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let (mut tcp, _) = listener.accept().await.unwrap();
        fields(&mut tcp).await;
        stop.send(()).unwrap();
        // Who was accepted before has a connection that is closed at once.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let (endpoint, config) = browser();
        let refused = endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap_err();
        assert!(refused.to_string().contains("the server stops"), "{refused}");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await.unwrap();
        assert_eq!(code(&rest(&mut client).await), "200");
        running.await.unwrap();
    }

    /// RFC 9114 section 4.2.1.
    #[tokio::test]
    async fn the_server_behind_gets_one_field_of_cookies_and_the_body_of_a_get() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = before(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let asked = fields(&mut tcp).await.to_lowercase();
            assert!(asked.contains("cookie: a=1; b=2\r\n"), "{asked}");
            assert!(asked.contains("transfer-encoding: chunked\r\n"), "{asked}");
            assert!(!asked.contains("x_forwarded_for"), "{asked}");
            let mut body = [0; 14];
            tcp.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"4\r\nbody\r\n0\r\n\r\n");
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n\
                          4\r\nhere\r\n0\r\n\r\n";
            tcp.write_all(answer.as_bytes()).await.unwrap();
            rest(&mut tcp).await;
        });
        let (endpoint, config) = browser();
        let connection = endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap();
        let mut requests = requests(connection).await;
        let request = Request::get("https://localhost/")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("x_forwarded_for", "192.0.2.1");
        let mut asked = requests.send_request(request.body(()).unwrap()).await.unwrap();
        asked.send_data(Bytes::from_static(b"body")).await.unwrap();
        asked.finish().await.unwrap();
        let response = asked.recv_response().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().get("content-length").is_none());
    }

    /// The second visit asks with its first packets. What may be repeated is answered, what may not
    /// is not, and the server behind is told.
    #[tokio::test]
    async fn early_data_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = before(listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut tcp, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    loop {
                        let asked = fields(&mut tcp).await.to_lowercase();
                        if asked.contains("chunked") {
                            assert_eq!(fields(&mut tcp).await, "0\r\n\r\n", "the body is empty");
                        }
                        let early = asked.contains("early-data: 1");
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nX-Early: {early}\r\nContent-Length: 0\r\n\r\n");
                        tcp.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        let (endpoint, config) = browser();
        let first = endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap();
        let mut late = requests(first.clone()).await;
        let response = ask(&mut late, Method::GET).await.recv_response().await.unwrap();
        assert_eq!(response.headers()["x-early"], "false");
        let response = ask(&mut late, Method::POST).await.recv_response().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);

        let connecting = endpoint.connect_with(&config, address, "localhost").unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("there is a ticket");
        let mut early = requests(connection.clone()).await;
        let (mut reads, mut writes) =
            (ask(&mut early, Method::GET).await, ask(&mut early, Method::POST).await);
        let (response, refused) =
            (reads.recv_response().await.unwrap(), writes.recv_response().await.unwrap());
        assert!(accepted.await);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["x-early"], "true");
        assert_eq!(refused.status().as_u16(), 425);
        // The same again, once the handshake is complete.
        let response = ask(&mut early, Method::POST).await.recv_response().await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["x-early"]),
            (StatusCode::OK, &"false".parse().unwrap())
        );
    }
}
