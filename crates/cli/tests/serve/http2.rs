//! HTTP/2, whose server is put together here.

use std::{future::poll_fn, time::Duration};

use h2::client::{ResponseFuture, SendRequest};
use hyper::Method;

use super::*;

/// What every client says first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// GET https://x/
const GET: &[u8] = &[0x82, 0x84, 0x87, 0x01, 0x01, b'x'];

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

/// Requests by the crate below.
pub(super) async fn requests(address: SocketAddr) -> SendRequest<Bytes> {
    let (requests, connection) = h2::client::handshake(connect(address, "h2").await).await.unwrap();
    tokio::spawn(connection);
    requests.ready().await.unwrap()
}

pub(super) fn ask(
    requests: &mut SendRequest<Bytes>,
    method: Method,
) -> (ResponseFuture, h2::SendStream<Bytes>) {
    let request = Request::builder().method(&method).uri("https://localhost/").body(()).unwrap();
    requests.send_request(request, method == Method::GET).unwrap()
}

#[tokio::test]
async fn early_hints_come_before_the_response() {
    let (address, hinted) = hinting().await;
    let (mut response, _) = ask(&mut requests(address).await, Method::GET);
    let early = poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
    assert_hints(&early);
    hinted.send(()).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.body_mut().data().await.unwrap().unwrap(), "here");
}

#[tokio::test]
async fn who_opens_a_page_of_files_hears_what_it_needs() {
    let address = hinting_files();
    let page = "document";
    for (method, dest, hears) in
        [(Method::GET, page, true), (Method::GET, "style", false), (Method::HEAD, page, false)]
    {
        let mut request = wanting(dest);
        *request.method_mut() = method.clone();
        let (mut response, _) = requests(address).await.send_request(request, true).unwrap();
        let early = poll_fn(|cx| response.poll_informational(cx)).await.map(Result::unwrap);
        assert_eq!(early.is_some(), hears, "{method} {dest}");
        early.iter().for_each(assert_hints);
        assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn who_asks_whether_to_send_a_body_hears_when() {
    let address = inviting().await;
    let (mut response, mut body) = requests(address).await.send_request(expecting(), false).unwrap();
    let invited = poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!(invited.status(), StatusCode::CONTINUE);
    body.send_data(Bytes::from_static(b"more"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
}

/// More than is held anywhere on the way there and back, and trailers after it.
#[tokio::test]
async fn long_bodies_go_both_ways() {
    const LENGTH: usize = 5_000_000;
    let (listener, address) = behind().await;
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        assert!(fields(&mut tcp).await.to_lowercase().contains("content-length: 5000000\r\n"));
        let mut body = vec![0; LENGTH];
        tcp.read_exact(&mut body).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n4C4B40\r\n";
        tcp.write_all(head.as_bytes()).await.unwrap();
        tcp.write_all(&body).await.unwrap();
        tcp.write_all(b"\r\n0\r\nX-End: here\r\n\r\n").await.unwrap();
        rest(&mut tcp).await;
    });
    let sent: Bytes = (0..LENGTH).map(|n| (n % 251) as u8).collect();
    let request =
        Request::post("https://localhost/").header("content-length", LENGTH).header("te", "trailers");
    let (response, mut body) =
        requests(address).await.send_request(request.body(()).unwrap(), false).unwrap();
    // It waits for room by itself.
    body.send_data(sent.clone(), true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    let mut received = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        received.extend_from_slice(&data);
    }
    assert!(received == sent, "{} bytes came, not all as they were", received.len());
    let trailers = poll_fn(|cx| body.poll_trailers(cx)).await.unwrap().expect("trailers");
    assert_eq!(trailers["x-end"], "here");
}

/// A server that is still at work is not asked on for nobody.
#[tokio::test]
async fn who_gives_up_a_request_is_not_waited_for() {
    let (listener, address) = behind().await;
    let mut requests = requests(address).await;
    let (response, mut body) = ask(&mut requests, Method::GET);
    let (mut tcp, _) = listener.accept().await.unwrap();
    fields(&mut tcp).await;
    body.send_reset(h2::Reason::CANCEL);
    assert!(response.await.unwrap_err().is_reset());
    rest(&mut tcp).await;
}

#[tokio::test]
async fn who_does_not_answer_while_the_server_behind_works_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let limits =
        Limits { body: Duration::from_millis(100), send: Duration::from_millis(300), ..Limits::default() };
    let address = serve(Content::Proxy(behind), limits, ());
    let mut gone = connect(address, "h2").await;
    gone.write_all(&[PREFACE, &frame(4, 0, 0, &[]), &frame(1, 5, 1, GET)].concat()).await.unwrap();
    let (_tcp, _) = listener.accept().await.unwrap();
    let heard = rest(&mut gone).await;
    assert!(frames(&heard).any(|(kind, _)| kind == PING), "it is asked");
}

/// Those of one request that begin and do not end.
#[tokio::test]
async fn fields_that_do_not_come_end_the_connection() {
    let time = Duration::from_millis(300);
    let mut slow = connect(site(Limits { idle: time, send: time, ..short() }).await, "h2").await;
    // HEADERS without END_HEADERS.
    slow.write_all(&[PREFACE, &frame(4, 0, 0, &[]), &frame(1, 1, 1, GET)].concat()).await.unwrap();
    let heard = rest(&mut slow).await;
    assert!(frames(&heard).any(|(kind, _)| kind == GOAWAY), "it says good-bye");
}

#[tokio::test]
async fn a_response_that_is_not_taken_is_given_up() {
    const CANCEL: &[u8] = &[0, 0, 0, 8];
    let address = site(Limits { send: Duration::from_millis(300), ..Limits::default() }).await;
    let mut stingy = connect(address, "h2").await;
    let mut bytes = PREFACE.to_vec();
    // Without a window.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    bytes.extend(frame(1, 5, 1, GET));
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

/// CVE-2023-44487.
#[tokio::test]
async fn requests_that_are_reset_at_once_end_the_connection() {
    const ENHANCE_YOUR_CALM: &[u8] = &[0, 0, 0, 0xb];
    let address = site(Limits::default()).await;
    let mut rapid = connect(address, "h2").await;
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for stream in (1..20_001).step_by(2) {
        // The second with CANCEL.
        bytes.extend(frame(1, 5, stream, GET));
        bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    let (mut from, mut to) = tokio::io::split(&mut rapid);
    let sending = async { _ = to.write_all(&bytes).await };
    let (_, answer) = tokio::join!(sending, rest(&mut from));
    let mut frames = frames(&answer);
    let farewell = frames.find(|(kind, _)| *kind == GOAWAY).expect("it says good-bye");
    assert_eq!(&farewell.1[4..8], ENHANCE_YOUR_CALM);
    assert_eq!(ask_http2(address, "few").await, Ok(StatusCode::OK), "others are served");
}

/// The same, with time for the server to ask the one behind for each.
#[tokio::test]
async fn requests_that_are_given_up_one_by_one_end_the_connection() {
    let (_listener, address) = behind().await;
    let mut rapid = connect(address, "h2").await;
    rapid.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await.unwrap();
    let mut heard = Vec::new();
    let said = |heard: &[u8], kind| frames(heard).filter(|(said, _)| *said == kind).count();
    for asked in 1..300 {
        let stream = 2 * asked as u32 - 1;
        // The answer to a PING says that the request has been seen.
        let both = [frame(1, 5, stream, GET), frame(PING, 0, 0, &[0; 8])].concat();
        let _ = rapid.write_all(&both).await;
        while said(&heard, PING) < asked && said(&heard, GOAWAY) == 0 {
            assert_ne!(rapid.read_buf(&mut heard).await.unwrap(), 0, "it is just gone");
        }
        if said(&heard, GOAWAY) > 0 {
            assert!(asked > 256, "after {asked}");
            break;
        }
        let _ = rapid.write_all(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).await;
    }
    let (_, farewell) = frames(&heard).find(|(kind, _)| *kind == GOAWAY).expect("it says good-bye");
    assert_eq!(&farewell[4..8], &[0, 0, 0, 0xb], "ENHANCE_YOUR_CALM");
}

/// Whatever it says while the last of its response is on its way, which may be that it has room for more: to
/// a server that has closed already, that is a reason to forget the rest.
#[tokio::test]
async fn a_client_gets_all_of_its_last_response_when_the_server_stops() {
    const LENGTH: usize = 200_000;
    const PING_ACK: u8 = 1;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let server = bind(Content::Proxy(behind), Limits::default());
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = tokio::spawn(server.run(patiently(stopped)));
    let mut client = connect(address, "h2").await;
    // With a window for all of it.
    let windows = [frame(4, 0, 0, &[0, 4, 0, 0x10, 0, 0]), frame(8, 0, 0, &[0, 0x10, 0, 0])].concat();
    client.write_all(&[PREFACE, &windows, &frame(1, 5, 1, GET)].concat()).await.unwrap();
    let (mut tcp, _) = listener.accept().await.unwrap();
    fields(&mut tcp).await;
    tcp.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").as_bytes()).await.unwrap();
    stop.send(()).unwrap();
    // It asks whether all requests that were on their way have come, and then says which was the last.
    let (mut heard, mut asked) = (Vec::new(), false);
    while frames(&heard).filter(|(kind, _)| *kind == GOAWAY).count() < 2 {
        assert_ne!(client.read_buf(&mut heard).await.unwrap(), 0, "it is just gone");
        let ping = frames(&heard).find(|(kind, _)| *kind == PING).map(|(_, payload)| payload.to_vec());
        if let (false, Some(payload)) = (asked, ping) {
            client.write_all(&frame(PING, PING_ACK, 0, &payload)).await.unwrap();
            asked = true;
        }
    }
    tcp.write_all(&[b'x'; LENGTH]).await.unwrap();
    // Either it ends or it does not.
    let _ = tokio::time::timeout(Duration::from_millis(500), &mut running).await;
    client.write_all(&frame(PING, 0, 0, &[0; 8])).await.unwrap();
    heard.extend(rest(&mut client).await);
    let data = frames(&heard).filter(|(kind, _)| *kind == 0).map(|(_, data)| data.len());
    assert_eq!(data.sum::<usize>(), LENGTH);
}

/// As whoever looks through a film does, of which each part is asked for to its end.
#[tokio::test]
async fn answers_that_are_broken_off_in_the_middle_do_not_end_the_connection() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), vec![b' '; 1 << 20]).unwrap();
    let content = Content::Files { root: root.path().to_owned(), follow_symlinks: false };
    let mut requests = requests(serve(content, Limits::default(), root)).await;
    for _ in 0..300 {
        let (response, _) = ask(&mut requests, Method::GET);
        let mut body = response.await.unwrap().into_body();
        let some = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(some.len()).unwrap();
    }
}
