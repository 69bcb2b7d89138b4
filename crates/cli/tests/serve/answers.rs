//! What the server behind answers, on its way to the client.

use std::future::poll_fn;

use super::{http2, http3, *};

/// A site before a server that says this to each request, and closes.
async fn saying(answer: &'static str) -> SocketAddr {
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            fields(&mut tcp).await;
            tcp.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

/// The status of the answer by each protocol, and its body by HTTP/2.
async fn asked(address: SocketAddr, method: &str) -> ([u16; 3], Bytes) {
    let mut client = connect(address, "http/1.1").await;
    let request = format!("{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let one = code(&rest(&mut client).await).parse().unwrap();
    let request = Request::builder().method(method).uri("https://localhost/");
    let two = send_http2(address, request.body(Empty::new()).unwrap()).await.unwrap();
    let mut requests = http3::requests(http3::visit(address).await).await;
    let three = http3::ask(&mut requests, method.parse().unwrap()).await.recv_response().await.unwrap();
    let statuses = [one, two.status().as_u16(), three.status().as_u16()];
    (statuses, two.into_body().collect().await.unwrap().to_bytes())
}

/// RFC 9112 section 6.1: who takes it for the content itself shows what nobody can read.
#[tokio::test]
async fn transfer_codings_that_are_not_undone_are_not_passed_on_as_if_they_were() {
    for (codings, words) in [("gzip, chunked", "4\r\nhere\r\n0\r\n\r\n"), ("gzip", "here")] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {codings}\r\n\r\n{words}");
        let address = saying(answer.leak()).await;
        assert_eq!(asked(address, "GET").await.0, [502; 3], "{codings}");
        assert_eq!(asked(address, "HEAD").await.0, [200; 3], "{codings}: there is nothing to undo");
    }
    let plain = saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhere").await;
    assert_eq!(asked(plain, "GET").await, ([200; 3], "here".into()));
}

/// The server behind would take what is left of it for the content.
#[tokio::test]
async fn requests_in_transfer_codings_that_are_not_undone_are_not_handed_on() {
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            fields(&mut tcp).await;
            tcp.read_exact(&mut [0; 14]).await.unwrap();
            tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await.unwrap();
        }
    });
    for (codings, status) in [
        ("Transfer-Encoding: chunked", "200"),
        ("Transfer-Encoding: gzip, chunked", "501"),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", "501"),
        ("Transfer-Encoding: chunked, chunked", "501"),
    ] {
        let mut client = connect(address, "http/1.1").await;
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{codings}\r\n\r\n");
        client.write_all(format!("{head}4\r\nbody\r\n0\r\n\r\n").as_bytes()).await.unwrap();
        assert_eq!(code(&rest(&mut client).await), status, "{codings}");
    }
}

/// They would make the response malformed (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
#[tokio::test]
async fn trailers_say_nothing_of_connections_and_lengths() {
    let address = saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhere\r\n0\r\n\
         X-End: here\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 7\r\n\r\n",
    )
    .await;
    let (response, _) = http2::ask(&mut http2::requests(address).await, hyper::Method::GET);
    let mut body = response.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "here");
    let two = poll_fn(|cx| body.poll_trailers(cx)).await.unwrap();
    let mut requests = http3::requests(http3::visit(address).await).await;
    let mut asked = http3::ask(&mut requests, hyper::Method::GET).await;
    asked.recv_response().await.unwrap();
    while asked.recv_data().await.unwrap().is_some() {}
    let three = asked.recv_trailers().await.unwrap();
    for trailers in [two, three] {
        let trailers = trailers.expect("trailers");
        let said: Vec<_> = trailers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(said, [("x-end", &b"here"[..])]);
    }
}

/// Neither one of its own (RFC 9110 section 9.3.6) nor, by HTTP/3, one for datagrams (RFC 9298).
#[tokio::test]
async fn nobody_gets_a_tunnel_to_the_server_behind() {
    let address = saying("HTTP/1.1 200 OK\r\n\r\n").await;
    let mut client = connect(address, "http/1.1").await;
    client.write_all(b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(code(&answer), "400");
    let mut requests = http3::requests(http3::visit(address).await).await;
    for target in ["localhost:443", "https://localhost/"] {
        let mut tunnel = Request::connect(target).body(()).unwrap();
        if target.starts_with("https") {
            tunnel.extensions_mut().insert(h3::ext::Protocol::CONNECT_UDP);
        }
        let mut asked = requests.send_request(tunnel).await.unwrap();
        assert_eq!(asked.recv_response().await.unwrap().status(), StatusCode::BAD_REQUEST, "{target}");
    }
    // Nor is all of it a page of it (section 7.1).
    let mut client = connect(address, "http/1.1").await;
    client.write_all(b"GET * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(code(&rest(&mut client).await), "400");
}

/// It has been idle for too long, as the server behind finds while the next request is on its way. What may
/// be asked twice is; the rest goes by a connection of its own.
#[tokio::test]
async fn no_request_is_lost_where_a_kept_connection_is_closed() {
    let (listener, address) = behind().await;
    let (heard, mut requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let heard = heard.clone();
            // One is answered, and the next is the last thing that is heard, if there is one.
            tokio::spawn(async move {
                heard.send(fields(&mut tcp).await).unwrap();
                tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await.unwrap();
                if tcp.peek(&mut [0]).await.is_ok_and(|next| next > 0) {
                    heard.send(fields(&mut tcp).await).unwrap();
                }
            });
        }
    });
    let mut client = connect(address, "http/1.1").await;
    for (request, heard) in [
        ("GET / HTTP/1.1\r\nx: 1\r\n", 1),
        ("GET / HTTP/1.1\r\nx: 2\r\n", 2),
        ("GET / HTTP/1.1\r\nx: 3\r\n", 1),
        ("POST / HTTP/1.1\r\nx: 4\r\nContent-Length: 0\r\n", 1),
    ] {
        client.write_all(format!("{request}Host: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let head = fields(&mut client).await;
        assert_eq!(code(head.as_bytes()), "200", "{request}");
        client.read_exact(&mut [0; 4]).await.unwrap();
        let number = &request[request.find("x: ").unwrap()..][..4];
        for _ in 0..heard {
            let asked = requests.recv().await.unwrap();
            assert!(asked.contains(number), "{asked}");
        }
    }
}
