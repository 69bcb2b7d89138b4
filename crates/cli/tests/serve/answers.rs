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
