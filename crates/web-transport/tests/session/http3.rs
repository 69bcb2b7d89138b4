//! What is particular to sessions over HTTP/3: how they begin, and what else a peer may send.

use bytes::Bytes;
use http::StatusCode;
use mendpath::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use mendpath_web_transport::{
    Session, SessionError,
    http3::{ConnectRequest, ConnectResponse, HandshakeError, Request, connect},
};
use web_transport_trait::{Error as _, RecvStream as _, SendStream as _, Session as _};

use crate::common::{Kind, PROTOCOL, Pair, watchdog};

/// The control stream's type and SETTINGS: H3_DATAGRAM (0x33) and the switch of the older drafts
/// (0x2b603742).
const SETTINGS: [u8; 10] = [0x00, 0x04, 0x07, 0x33, 0x01, 0xab, 0x60, 0x37, 0x42, 0x01];

pub(crate) fn request() -> ConnectRequest {
    ConnectRequest::new("https://localhost:4443/room?key=1".parse::<url::Url>().unwrap())
        .with_protocol("other")
        .with_protocol(PROTOCOL)
}

pub(crate) async fn session(client: Connection, server: Connection) -> (Session, Session) {
    let (client, server) = tokio::join!(connect(client, request()), async {
        Request::accept(server).await.unwrap().ok(Some(PROTOCOL)).await
    });
    (client.unwrap(), server.unwrap())
}

#[tokio::test]
async fn a_server_sees_what_is_asked_for() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    let (client, ()) = tokio::join!(connect(client, request()), async {
        let asked = Request::accept(server).await.unwrap();
        assert_eq!(asked.request().url.path(), "/room");
        assert_eq!(asked.request().url.query(), Some("key=1"));
        assert_eq!(asked.request().protocols, ["other", PROTOCOL]);
        asked.refuse(StatusCode::FORBIDDEN).await.unwrap();
    });
    assert!(matches!(client, Err(HandshakeError::Refused(StatusCode::FORBIDDEN))), "{client:?}");
}

#[tokio::test]
async fn only_what_was_offered_is_chosen() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    let (_client, server) = tokio::join!(tokio::spawn(connect(client, request())), async {
        Request::accept(server).await.unwrap().ok(Some("a third")).await
    });
    assert!(matches!(server, Err(HandshakeError::Protocol(name)) if name == "a third"));
}

/// A client that speaks HTTP/3 alone says so in its SETTINGS.
#[tokio::test]
async fn others_are_told_apart() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    let mut control = client.open_uni().await.unwrap();
    // The stream's type, SETTINGS, no bytes.
    control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
    let refused = watchdog(Request::accept(server)).await;
    assert!(matches!(refused, Err(HandshakeError::Unsupported)), "{refused:?}");
}

/// No order is set for the streams of one direction (RFC 9114 section 6.2): those of QPACK, one of
/// a type that is made up, and one that says what it is only later may come before the SETTINGS.
#[tokio::test]
async fn the_control_stream_need_not_be_the_first() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    watchdog(async {
        let mut early = Vec::new();
        for words in [&[0x02][..], &[0x03], &[0x21, 1], &[0x40]] {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(words).await.unwrap();
            early.push(send);
        }
        let ((_capsules, _rest), server) =
            tokio::join!(handmade(client), async { Request::accept(server).await.unwrap().ok(None).await });
        let server = server.unwrap();
        let mut last = early.pop().unwrap();
        last.write_all(b"\x54\x00late").await.unwrap();
        last.finish().unwrap();
        assert_eq!(server.accept_uni().await.unwrap().read_all().await.unwrap(), "late");
        for kept in &mut early[..2] {
            let stopped = tokio::time::timeout(std::time::Duration::ZERO, kept.stopped()).await;
            assert!(stopped.is_err(), "a stream of QPACK was stopped: {stopped:?}");
            kept.write_all(&[0x20]).await.unwrap();
        }
    })
    .await;
}

/// What lets the client in is no refusal; and a request that is let go ends the connection, which
/// is what the client is told.
#[tokio::test]
async fn a_request_is_not_refused_with_success() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    let (client, refused) = tokio::join!(watchdog(connect(client, request())), async {
        Request::accept(server).await.unwrap().refuse(StatusCode::NO_CONTENT).await
    });
    assert!(matches!(refused, Err(HandshakeError::Success(StatusCode::NO_CONTENT))), "{refused:?}");
    assert!(
        matches!(client, Err(HandshakeError::Connection(ConnectionError::ApplicationClosed { .. }))),
        "{client:?}"
    );
}

/// The number before a datagram may be longer than it need be (RFC 9000 section 16).
#[tokio::test]
async fn datagrams_are_told_by_their_number() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.session()).await;
    for words in [&[0x40, 0x01, b'x'][..], &[0x80, 0, 0, 0, b'o', b'u', b'r', b's']] {
        client.connection().send_datagram(Bytes::copy_from_slice(words)).unwrap();
    }
    assert_eq!(watchdog(server.recv_datagram()).await.unwrap(), "ours");
}

/// Without a runtime there is nobody to send the capsule, but the end of the connection says the
/// same. Often, as it was a race.
#[test]
fn a_close_outside_of_the_runtime_keeps_its_code() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let pair = runtime.block_on(async { Pair::new(Kind::Http3) });
    for _ in 0..300 {
        let (client, server) = runtime.block_on(watchdog(pair.session()));
        client.close(7, "bye");
        let why = runtime.block_on(watchdog(server.closed())).session_error();
        assert_eq!(why, Some((7, "bye".to_owned())));
    }
}

/// Beside a session there may be streams of QPACK, of nothing, of another session, and requests.
#[tokio::test]
async fn what_belongs_to_no_session_is_left_out() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.session()).await;
    watchdog(async {
        let wire = client.connection();
        let mut kept = Vec::new();
        for words in [&[0x02][..], &[0x03], &[0x21, 1], &[0x40, 0x54, 0x04, 1], &[0x40]] {
            let mut send = wire.open_uni().await.unwrap();
            send.write_all(words).await.unwrap();
            kept.push(send);
        }
        let (mut asking, mut answer) = wire.open_bi().await.unwrap();
        // HEADERS, no bytes: not a request, but it begins as one.
        asking.write_all(&[0x01, 0x00]).await.unwrap();
        let rejected = answer.read_to_end(100).await.unwrap_err();
        let code = VarInt::from_u32(0x10b);
        assert!(
            matches!(rejected, mendpath::ReadToEndError::Read(mendpath::ReadError::Reset(reset)) if reset == code),
            "{rejected:?}"
        );
        wire.send_datagram(Bytes::from_static(&[1, b'x'])).unwrap();

        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"ours").await.unwrap();
        send.finish().unwrap();
        client.send_datagram("ours".into()).unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_all().await.unwrap(), "ours");
        assert_eq!(server.recv_datagram().await.unwrap(), "ours");
    })
    .await;
}

/// Whose stream it is that breaks off is told, even if nothing of it had been sent.
#[tokio::test]
async fn streams_that_are_reset_at_once_are_heard_of() {
    let pair = Pair::with(Kind::Http3, |transport| transport.reset_stream_at = true);
    let (client, server) = watchdog(pair.session()).await;
    watchdog(async {
        client.open_uni().await.unwrap().reset(7);
        let mut heard = server.accept_uni().await.unwrap();
        assert_eq!(heard.read_all().await.unwrap_err().stream_error(), Some(7));

        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(b"object 7").await.unwrap();
        send.set_reliable_boundary().unwrap();
        send.write_all(b"of which nothing comes").await.unwrap();
        drop(send);
        let (_theirs, mut heard) = server.accept_bi().await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(heard.read(&mut buffer).await.unwrap(), Some(8));
        assert_eq!(&buffer, b"object 7");
    })
    .await;
}

/// Codes outside the range of sessions reach nobody as if they were inside.
#[tokio::test]
async fn codes_of_others_have_no_meaning() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.session()).await;
    watchdog(async {
        let (send, _recv) = client.open_bi().await.unwrap();
        let (mut theirs, _heard) = server.accept_bi().await.unwrap();
        let _ = send;
        // Over the connection itself, as a browser that cancels would.
        let raw = client.connection().clone();
        let mut beside = raw.open_uni().await.unwrap();
        beside.write_all(&[0x40, 0x54, 0x00, 1]).await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        beside.reset(VarInt::from_u32(0x10c)).unwrap();
        let foreign = recv.closed().await.unwrap_err();
        assert_eq!(foreign.stream_error(), None, "{foreign:?}");
        theirs.finish().unwrap();
    })
    .await;
}

/// A session that is closed and let go at once still says so: its control stream stays open until
/// the peer has heard, who would take the end of that for an error.
#[tokio::test]
async fn the_control_stream_outlives_the_last_handle() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.connect()).await;
    watchdog(async {
        let (session, (_ours, mut theirs, _send, mut capsules, _server)) =
            tokio::join!(connect(client, request()), handmade_server(server));
        let session = session.unwrap();
        session.close(7, "bye");
        drop(session);
        let words = capsules.read_to_end(100).await.unwrap();
        assert!(words.ends_with(b"\x07bye"), "{words:?}");
        let reset = tokio::time::timeout(std::time::Duration::ZERO, theirs.received_reset()).await;
        assert!(reset.is_err(), "{reset:?}");
    })
    .await;
}

/// Whoever asks, and when: a connection that is lost is not a peer that closed its session.
#[tokio::test]
async fn the_end_of_the_connection_is_not_that_of_the_session() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = watchdog(pair.session()).await;
    watchdog(async {
        let mut waiting = client.open_uni().await.unwrap();
        client.connection().close(VarInt::from_u32(0x102), b"");
        for _ in 0..20 {
            tokio::task::yield_now().await;
            let end = client.closed().await;
            assert!(matches!(&end, SessionError::Connection(ConnectionError::LocallyClosed)), "{end:?}");
        }
        assert_eq!(waiting.write(b"more").await.unwrap_err().session_error(), None);
        for _ in 0..20 {
            let end = server.closed().await;
            assert_eq!(end.session_error(), None, "H3_INTERNAL_ERROR: {end:?}");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// SETTINGS and a CONNECT: where capsules go, and what remains open, the control stream first.
pub(crate) async fn handmade(client: Connection) -> (SendStream, (SendStream, RecvStream, Connection)) {
    let mut control = client.open_uni().await.unwrap();
    control.write_all(&SETTINGS).await.unwrap();
    let (mut send, recv) = client.open_bi().await.unwrap();
    request().write(&mut send).await.unwrap();
    (send, (control, recv, client))
}

/// The same of a server: its control stream, that of the client, and both sides of the CONNECT.
pub(crate) async fn handmade_server(
    server: Connection,
) -> (SendStream, RecvStream, SendStream, RecvStream, Connection) {
    let mut ours = server.open_uni().await.unwrap();
    ours.write_all(&SETTINGS).await.unwrap();
    let theirs = server.accept_uni().await.unwrap();
    let (mut send, mut recv) = server.accept_bi().await.unwrap();
    ConnectRequest::read(&mut recv).await.unwrap();
    ConnectResponse::OK.write(&mut send).await.unwrap();
    (ours, theirs, send, recv, server)
}
