use hyper::{Method, ext::on_informational};
use mendpath::Connection;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
};

use super::*;
use crate::protocol::{self, MAX_MESSAGE, read_frame, write_frame};

/// A connection to an origin server over such a stream.
fn over(send: SendStream, receive: mendpath::RecvStream, idle: &Idle) -> OriginIo {
    OriginIo {
        receive: Some(Early::Granted(receive)),
        send: Some(send),
        finished: false,
        idle: idle.0.subscribe(),
        flow: None,
    }
}

/// Keeps a connection to an origin server over such a stream of the present connection, after a request that
/// was sent completely. Which origin server, and what must run.
async fn keep(
    origins: &mut Origins,
    (send, receive): (SendStream, mendpath::RecvStream),
    uplink: &Uplink,
) -> (Target, http1::Connection<TokioIo<OriginIo>, Upload>) {
    let (target, idle) =
        ("a.example:80".parse::<Target>().unwrap(), Idle(Arc::new(watch::Sender::new(None))));
    let (sender, connection) = http1::handshake(TokioIo::new(over(send, receive, &idle))).await.unwrap();
    let (sent, session) = (Arc::new(AtomicBool::new(true)), uplink.now().unwrap());
    origins.put(Origin { target: target.clone(), sender, idle, sent, session });
    (target, connection)
}

/// A program that is gone has left half a request behind, whose end that is not.
#[tokio::test]
async fn half_a_request_has_no_end() {
    for whole in [false, true] {
        let (_client, (mut send, receive), server) = crate::association::tests::connected().await;
        send.write_all(b"half").await.unwrap();
        let (_answer, mut request) = server.accept_bi().await.unwrap();
        let idle = Idle(Arc::new(watch::Sender::new(None)));
        let io = over(send, receive, &idle);
        drop(Lease { idle, sent: Arc::new(AtomicBool::new(whole)) });
        drop(io);
        assert_eq!(request.read_to_end(64).await.is_ok(), whole);
    }
}

/// As where the server drains: it waits for what goes over it, a request every few seconds without end. One
/// that does not answer may answer again.
#[tokio::test]
async fn a_kept_connection_over_a_server_that_was_left_is_asked_no_more() {
    let (client, streams, _server) = crate::association::tests::connected().await;
    let (uplink, _give_up) = Uplink::over(&client);
    let mut origins = Origins::default();
    let (target, _connection) = keep(&mut origins, streams, &uplink).await;
    let (over, another) = (Some(client.stable_id()), Some(client.stable_id() + 1));
    for (present, is_there) in [(over, true), (None, false), (over, true), (another, false), (over, false)] {
        let taken = origins.take(&target, present);
        assert_eq!(taken.is_some(), is_there, "{present:?}");
        if let Some(origin) = taken {
            origins.put(origin);
        }
    }
}

/// The peer allows four streams. As at a client with hundreds of programs, each of which keeps some of these.
#[tokio::test]
async fn an_idle_connection_gives_way_to_a_request_that_finds_no_stream() {
    let (client, first, server) = crate::association::tests::connected().await;
    let (uplink, _give_up) = Uplink::over(&client);
    let session = uplink.now().unwrap();
    let mut senders = Vec::new();
    for ((send, receive), is_idle) in [(first, false), (client.open_bi().await.unwrap(), true)] {
        let idle = Idle(Arc::new(watch::Sender::new(None)));
        let io = TokioIo::new(over(send, receive, &idle));
        let (sender, connection) = http1::handshake::<_, Upload>(io).await.unwrap();
        if is_idle {
            drop(Lease { idle: idle.clone(), sent: Arc::new(AtomicBool::new(true)) });
        }
        let (number, demand) = (client.stable_id(), session.demand.clone());
        tokio::spawn(attend(connection, idle.0.subscribe(), uplink.clone(), number, demand));
        senders.push((sender, idle));
    }
    let _others = (client.open_bi().await.unwrap(), client.open_bi().await.unwrap());
    let served = async {
        // That of the request that is under way.
        let used = server.accept_bi().await.unwrap();
        let (_answer, mut request) = server.accept_bi().await.unwrap();
        assert_eq!(request.read_to_end(1).await.unwrap(), b"", "a proper end");
        used
    };
    let asked = tunnel::ask(&uplink, "a.example:80".parse::<Target>().unwrap());
    let both = timeout(Duration::from_secs(60), async { tokio::join!(asked, served) });
    let (asked, _used) = both.await.expect("one ends, and the request has its stream");
    asked.map(|_| ()).expect("there is a stream again");
    assert_eq!([0, 1].map(|of: usize| senders[of].0.is_closed()), [false, true]);
}

/// Else the request would be made again, and wait for a stream itself.
#[tokio::test]
async fn a_connection_that_is_asked_when_it_is_to_give_way_goes_on() {
    let (client, (send, receive), _server) = crate::association::tests::connected().await;
    let _others = [client.open_bi().await, client.open_bi().await, client.open_bi().await];
    let (uplink, _give_up) = Uplink::over(&client);
    let demand = uplink.now().unwrap().demand.clone();
    let idle = Idle(Arc::new(watch::Sender::new(None)));
    let io = TokioIo::new(over(send, receive, &idle));
    let (_sender, connection) = http1::handshake::<_, Upload>(io).await.unwrap();
    let (used, number) = (idle.0.subscribe(), client.stable_id());
    let mut attending = pin!(attend(connection, used, uplink.clone(), number, demand.clone()));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    for _ in 0..16 {
        drop(Lease { idle: idle.clone(), sent: Arc::new(AtomicBool::new(true)) });
        assert!(attending.as_mut().poll(&mut cx).is_pending(), "it is kept");
        let mut opening = pin!(demand.open(&client));
        assert!(opening.as_mut().poll(&mut cx).is_pending(), "there is no other stream");
        idle.0.send_replace(None);
        assert!(attending.as_mut().poll(&mut cx).is_pending(), "it is used");
    }
}

/// As one that asks for a connection alone.
#[tokio::test]
async fn a_request_is_made_again_where_a_server_is_given_up_before_it_answers() {
    let (client, (mut other, _answer), server) = crate::association::tests::connected().await;
    other.write_all(b"x").await.unwrap();
    let _other = server.accept_bi().await.unwrap();
    let (uplink, give_up) = Uplink::over(&client);
    let (origins, target) = (std::sync::Mutex::default(), "a.example:80".parse::<Target>().unwrap());
    let get = || Request::get("/").body(Upload::none()).unwrap();
    let served = async {
        let (_silent, mut asked) = server.accept_bi().await.unwrap();
        let first = read_frame(&mut asked, MAX_MESSAGE).await.unwrap();
        give_up();
        let (_silent, mut asked) = server.accept_bi().await.unwrap();
        assert_eq!(read_frame(&mut asked, MAX_MESSAGE).await.unwrap(), first);
    };
    tokio::select! {
        served = timeout(Duration::from_secs(60), served) => served.expect("it is made again"),
        answered = ask(&origins, &uplink, &target, get(), Some(get)) => panic!("{:?}", answered.err()),
    }
}

/// The server has granted the connection, and the origin server takes its time.
#[tokio::test]
async fn a_request_is_made_again_where_a_server_is_given_up_before_the_origin_server_answers() {
    let (client, server) = pair().await;
    let (uplink, give_up) = Uplink::over(&client);
    asks_the_next(&uplink, &server, &server, give_up).await;
}

#[tokio::test]
async fn a_request_is_made_again_where_a_server_is_lost_before_the_origin_server_answers() {
    let ((client, server), (other_client, next)) = (pair().await, pair().await);
    let (uplink, replace) = Uplink::over_until_lost(&client, &other_client);
    let lose = || {
        replace();
        server.close(0_u32.into(), b"");
    };
    asks_the_next(&uplink, &server, &next, lose).await;
}

/// Both ends of a connection, whose first stream is over.
async fn pair() -> (Connection, Connection) {
    let (client, (mut other, _answer), server) = crate::association::tests::connected().await;
    other.write_all(b"x").await.unwrap();
    drop(server.accept_bi().await.unwrap());
    (client, server)
}

/// Grants what is asked for on the next stream, whose origin server then says no more than that it may take a while,
/// until that was `heard`. What was asked for, and the stream.
async fn grant(server: &Connection, heard: &Notify) -> (Option<Vec<u8>>, SendStream, mendpath::RecvStream) {
    let (mut answer, mut asked) = server.accept_bi().await.unwrap();
    let frame = read_frame(&mut asked, MAX_MESSAGE).await.unwrap();
    write_frame(&mut answer, &Reply::ok().encode()).await.unwrap();
    answer.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.unwrap();
    heard.notified().await;
    (frame, answer, asked)
}

/// A request, and what is told once its origin server may take a while.
fn noting(method: Method) -> (Request<Upload>, Arc<Notify>) {
    let mut request = Request::builder().method(method).uri("/").body(Upload::none()).unwrap();
    let heard = Arc::new(Notify::new());
    let hears = heard.clone();
    on_informational(&mut request, move |_| hears.notify_one());
    (request, heard)
}

/// A request for which the origin server has said no more than that it may take a while comes to the `next` one
/// as well, once that of before is lost.
async fn asks_the_next(uplink: &Uplink, server: &Connection, next: &Connection, lose: impl FnOnce()) {
    let (origins, target) = (std::sync::Mutex::default(), "a.example:80".parse::<Target>().unwrap());
    let (request, heard) = noting(Method::GET);
    let get = || Request::get("/").body(Upload::none()).unwrap();
    let served = async {
        let (first, _answer, _asked) = grant(server, &heard).await;
        lose();
        let (_silent, mut asked) = next.accept_bi().await.unwrap();
        assert_eq!(read_frame(&mut asked, MAX_MESSAGE).await.unwrap(), first);
    };
    tokio::select! {
        served = timeout(Duration::from_secs(60), served) => served.expect("it is made again"),
        answered = ask(&origins, uplink, &target, request, Some(get)) => panic!("{:?}", answered.err()),
    }
}

/// The origin server is not to blame.
#[tokio::test]
async fn who_may_not_ask_again_hears_that_the_server_was_lost() {
    let (client, server) = pair().await;
    let (uplink, _give_up) = Uplink::over(&client);
    let (origins, target) = (std::sync::Mutex::default(), "a.example:80".parse::<Target>().unwrap());
    let (request, heard) = noting(Method::POST);
    let served = async {
        let _stream = grant(&server, &heard).await;
        server.close(0_u32.into(), b"");
    };
    let asked = ask(&origins, &uplink, &target, request, None::<fn() -> Request<Upload>>);
    let both = timeout(Duration::from_secs(60), async { tokio::join!(asked, served) });
    let (answered, ()) = both.await.expect("the connection ends");
    assert!(matches!(answered, Err(Unanswered::Lost)), "{:?}", answered.err());
}

/// It may have come there, and does no harm if it comes twice.
#[tokio::test]
async fn a_request_on_a_kept_connection_is_made_again_once_its_server_is_given_up() {
    let (client, streams, server) = crate::association::tests::connected().await;
    let (uplink, give_up) = Uplink::over(&client);
    let mut origins = Origins::default();
    let (target, connection) = keep(&mut origins, streams, &uplink).await;
    tokio::spawn(connection);
    let origins = std::sync::Mutex::new(origins);
    let get = || Request::get("/").body(Upload::none()).unwrap();
    let served = async {
        let (_silent, mut asked) = server.accept_bi().await.unwrap();
        asked.read_u8().await.unwrap();
        give_up();
        let (_silent, mut asked) = server.accept_bi().await.unwrap();
        read_frame(&mut asked, MAX_MESSAGE).await.unwrap().unwrap()
    };
    let frame = tokio::select! {
        served = timeout(Duration::from_secs(60), served) => served.expect("it is made again"),
        answered = ask(&origins, &uplink, &target, get(), Some(get)) => panic!("{:?}", answered.err()),
    };
    assert_eq!(protocol::Request::decode(&frame), Ok(protocol::Request::Connect(target)));
}

/// It refuses an upload, and has no time to read it.
#[tokio::test]
async fn an_origin_server_that_takes_no_more_is_read_to_its_end() {
    let (_client, (mut send, receive), server) = crate::association::tests::connected().await;
    send.write_all(b"some").await.unwrap();
    let (mut answer, mut upload) = server.accept_bi().await.unwrap();
    upload.stop(StreamCode::Reset.into()).unwrap();
    send.stopped().await.unwrap();
    let mut io = OriginIo {
        receive: Some(Early::Granted(receive)),
        send: Some(send),
        finished: false,
        idle: watch::channel(None).1,
        flow: None,
    };
    io.write_all(b"more").await.unwrap();
    answer.write_all(b"413").await.unwrap();
    answer.reset_when_delivered(StreamCode::Reset.into()).unwrap();
    let mut heard = Vec::new();
    io.read_to_end(&mut heard).await.expect_err("it is no end");
    assert_eq!(heard, b"413");
}
