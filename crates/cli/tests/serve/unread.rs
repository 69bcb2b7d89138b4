//! Requests that nobody can read, and answers that are long.

use tokio::task::yield_now;

use super::*;

/// A site that notes what it answers.
fn noting(log: &std::path::Path) -> SocketAddr {
    let root = tempfile::tempdir().unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    run(bind_with(content, Limits::default(), Some(log.to_owned())), root)
}

/// What follows the time and the address in the lines of a log, once there are so many.
async fn lines(log: &std::path::Path, count: usize) -> Vec<String> {
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.lines().count() >= count {
            let words = |line: &str| line.split(' ').skip(1).take(5).collect::<Vec<_>>().join(" ");
            return text.lines().map(words).collect();
        }
        yield_now().await;
    }
}

/// One line each, whatever the protocol: who looks for the cause of a 400 finds who got it.
#[tokio::test]
async fn requests_that_nobody_can_read_are_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let address = noting(&log);
    let giant = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(200 << 10));
    for (request, status) in [("no words at all\r\n\r\n", "400"), (&giant, "431")] {
        let mut client = connect(address, "http/1.1").await;
        let _ = client.write_all(request.as_bytes()).await;
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(code(&answer), status);
    }
    lines(&log, 2).await;
    let mut client = connect(address, "h2").await;
    // An empty frame of settings, and data of no stream (RFC 9113 section 6.1).
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
        .await
        .unwrap();
    rest(&mut client).await;
    lines(&log, 3).await;
    let mut requests = http3::requests(http3::visit(address).await).await;
    let request = Request::get("https://localhost/").header("content-length", "few").body(()).unwrap();
    let mut asked = requests.send_request(request).await.unwrap();
    assert!(asked.recv_response().await.is_err());
    assert_eq!(
        lines(&log, 4).await,
        [
            "127.0.0.1 HTTP/1.1 - - 400",
            "127.0.0.1 HTTP/1.1 - - 431",
            "127.0.0.1 HTTP/2.0 - - 400",
            "127.0.0.1 HTTP/3.0 - - 400"
        ]
    );
}

#[tokio::test]
async fn the_server_behind_may_answer_with_many_fields() {
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        fields(&mut tcp).await;
        let many: String = (0..300).map(|n| format!("X-Field-{n}: {n}\r\n")).collect();
        let answer = format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 4\r\n\r\nhere");
        tcp.write_all(answer.as_bytes()).await.unwrap();
        rest(&mut tcp).await;
    });
    let request = Request::get("https://localhost/").body(Empty::new()).unwrap();
    let response = send_http2(address, request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-field-299"], "299");
}

/// Many clients give up when they cannot send, and never read why.
#[tokio::test]
async fn who_still_sends_what_nobody_wants_hears_why() {
    let address = site(Limits::default()).await;
    let upload = vec![0; 6 << 20];
    let giant = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(1 << 20));
    let post = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", upload.len());
    for (head, status) in [(post, "405"), (giant, "431")] {
        let mut client = connect(address, "http/1.1").await;
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&upload).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(code(&answer), status);
    }
}
