//! What is HTTP/3's alone.

use hyper::Method;
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

/// A connection of one that has not been here before.
pub(super) async fn visit(address: SocketAddr) -> Connection {
    let (endpoint, config) = browser();
    endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap()
}

pub(super) async fn requests(connection: Connection) -> Requests {
    let (mut driver, requests) = h3::client::new(mendpath_h3::Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    requests
}

pub(super) async fn ask(requests: &mut Requests, method: Method) -> Asked {
    let request = Request::builder().method(method).uri("https://localhost/").body(()).unwrap();
    let mut asked = requests.send_request(request).await.unwrap();
    asked.finish().await.unwrap();
    asked
}

#[tokio::test]
async fn early_hints_come_before_the_response() {
    let (address, hinted) = hinting().await;
    let mut requests = requests(visit(address).await).await;
    let mut asked = ask(&mut requests, Method::GET).await;
    let early = asked.recv_response().await.unwrap();
    assert_hints(&early);
    hinted.send(()).unwrap();
    assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn who_opens_a_page_of_files_hears_what_it_needs() {
    let mut requests = requests(visit(hinting_files()).await).await;
    for dest in ["document", "style"] {
        let mut asked = requests.send_request(wanting(dest)).await.unwrap();
        asked.finish().await.unwrap();
        let mut said = asked.recv_response().await.unwrap();
        if dest == "document" {
            assert_hints(&said);
            said = asked.recv_response().await.unwrap();
        }
        assert_eq!(said.status(), StatusCode::OK, "{dest}");
    }
}

#[tokio::test]
async fn who_asks_whether_to_send_a_body_hears_when() {
    let address = inviting().await;
    let mut requests = requests(visit(address).await).await;
    let mut asked = requests.send_request(expecting()).await.unwrap();
    assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::CONTINUE);
    asked.send_data(Bytes::from_static(b"more")).await.unwrap();
    asked.finish().await.unwrap();
    assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn who_comes_while_it_stops_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let server = bind(Content::Proxy(behind), Limits::default());
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
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

/// Eight of sixteen, as by TCP.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_host_that_has_half_of_the_connections_gets_no_more() {
    let address = site(Limits::default()).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut requests = requests(visit(address).await).await;
        let mut asked = ask(&mut requests, Method::GET).await;
        assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::OK);
        held.push(requests);
    }
    let (endpoint, config) = browser();
    let refused = endpoint.connect_with(&config, address, "localhost").unwrap().await.unwrap_err();
    assert!(refused.to_string().contains("as many connections"), "{refused}");
    let elsewhere = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    elsewhere.connect_with(&config, address, "localhost").unwrap().await.unwrap();
}

/// RFC 9114 section 4.2.1.
#[tokio::test]
async fn the_server_behind_gets_one_field_of_cookies_and_the_body_of_a_get() {
    let (listener, address) = behind().await;
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
    let mut requests = requests(visit(address).await).await;
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
    let (listener, address) = behind().await;
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
                    let answer = format!("HTTP/1.1 200 OK\r\nX-Early: {early}\r\nContent-Length: 0\r\n\r\n");
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
    let (mut reads, mut writes) = (ask(&mut early, Method::GET).await, ask(&mut early, Method::POST).await);
    let (response, refused) = (reads.recv_response().await.unwrap(), writes.recv_response().await.unwrap());
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
