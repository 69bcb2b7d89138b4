//! Peers that break the rules of HTTP/3, and what they are told.

use bytes::Bytes;
use mendpath::{Connection, ConnectionError, RecvStream, SendStream, StoppedError, VarInt};
use mendpath_web_transport::{
    Session, SessionError,
    http3::{HandshakeError, Request, connect},
};
use web_transport_trait::{Error as _, RecvStream as _, Session as _};

use crate::{
    common::{Kind, Pair, watchdog},
    http3::{handmade, handmade_server, request},
};

/// The codes of RFC 9114 section 8.1 and RFC 9297 section 2.1.
const STREAM_CREATION_ERROR: u32 = 0x103;
const CLOSED_CRITICAL_STREAM: u32 = 0x104;
const FRAME_UNEXPECTED: u32 = 0x105;
const FRAME_ERROR: u32 = 0x106;
const EXCESSIVE_LOAD: u32 = 0x107;
const ID_ERROR: u32 = 0x108;
const MISSING_SETTINGS: u32 = 0x10a;
const MESSAGE_ERROR: u32 = 0x10e;
const DATAGRAM_ERROR: u32 = 0x33;

/// A client written by hand, whose session a server has.
struct Client {
    wire: Connection,
    capsules: SendStream,
    control: SendStream,
    _answer: RecvStream,
}

impl Client {
    async fn new(pair: &Pair) -> (Self, Session) {
        let (client, server) = watchdog(pair.connect()).await;
        let (by_hand, server) = tokio::join!(handmade(client), async {
            Request::accept(server).await.unwrap().ok(None).await.unwrap()
        });
        let (capsules, (control, answer, wire)) = by_hand;
        (Self { wire, capsules, control, _answer: answer }, server)
    }

    async fn uni(&self, words: &[u8]) -> SendStream {
        let mut send = self.wire.open_uni().await.unwrap();
        send.write_all(words).await.unwrap();
        send
    }

    /// The connection ends with this code, and the session tells that the peer is to blame.
    async fn is_told(&self, code: u32, server: &Session, what: &str) {
        let end = watchdog(server.closed()).await;
        assert!(matches!(end, SessionError::Violation(_)), "{what}: {end:?}");
        assert_eq!(end.session_error(), None, "{what}");
        match watchdog(self.wire.closed()).await {
            ConnectionError::ApplicationClosed { code: told, .. } => {
                assert_eq!(told, VarInt::from_u32(code), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// In a DATA frame.
fn data(payload: &[u8]) -> Vec<u8> {
    [&[0x00, 0x80], &(payload.len() as u32).to_be_bytes()[1..], payload].concat()
}

/// A capsule that ends the session, with this after its length.
fn close(payload: &[u8]) -> Vec<u8> {
    [&[0x68, 0x43, 0x80], &(payload.len() as u32).to_be_bytes()[1..], payload].concat()
}

/// RFC 9297 section 3.3, draft-ietf-webtrans-http3 section 6: it has a code of 32 bits and up to 1,024
/// bytes of UTF-8, and nothing else is code 0.
#[tokio::test]
async fn a_malformed_close_is_an_error() {
    let long = [&[0, 0, 0, 7][..], &[b'x'; 1025]].concat();
    let cases: &[(&str, u32, &[u8])] = &[
        ("nothing", MESSAGE_ERROR, &data(&close(&[]))),
        ("three bytes", MESSAGE_ERROR, &data(&close(&[0, 0, 7]))),
        ("long words", MESSAGE_ERROR, &data(&close(&long))),
        ("no words", MESSAGE_ERROR, &data(&close(&[0, 0, 0, 7, 0xff]))),
        ("a capsule cut off", MESSAGE_ERROR, &data(&close(&[0, 0, 0, 7, b'x'])[..9])),
        ("a type alone", MESSAGE_ERROR, &data(&[0x68, 0x43])),
        ("a frame cut off", FRAME_ERROR, &data(&close(&[0, 0, 0, 7, b'x']))[..12]),
        ("trailers", FRAME_UNEXPECTED, &[0x01, 0x00]),
        ("a frame of HTTP/2", FRAME_UNEXPECTED, &[0x06, 0x00]),
        ("a stream's first bytes", FRAME_ERROR, &[0x40, 0x41, 0x00]),
    ];
    let pair = Pair::new(Kind::Http3);
    for &(what, code, words) in cases {
        let (mut client, server) = Client::new(&pair).await;
        client.capsules.write_all(words).await.unwrap();
        // By then it may be over.
        let _ = client.capsules.finish();
        client.is_told(code, &server, what).await;
    }
}

/// Whoever closes a session hears that the connection is closed, and not before that, that nobody reads its
/// control stream: Chromium takes that for an error (RFC 9114 section 6.2.1). The server's connection is
/// driven beside what ends its session, so it is tried often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_control_stream_is_read_to_the_end() {
    let pair = Pair::new(Kind::Http3);
    for _ in 0..400 {
        let (mut client, server) = Client::new(&pair).await;
        // QPACK's two, as browsers have them, and one that tells that they have come.
        let _qpack = (client.uni(&[0x02]).await, client.uni(&[0x03]).await);
        let _last = client.uni(b"\x40\x54\x00").await;
        watchdog(server.accept_uni()).await.unwrap();
        client.capsules.write_all(&data(&close(&[0, 0, 0, 7]))).await.unwrap();
        // By then it may be over.
        let _ = client.capsules.finish();
        let stopped = watchdog(client.control.stopped()).await;
        assert!(matches!(stopped, Err(StoppedError::ConnectionLost(_))), "{stopped:?}");
        assert!(matches!(server.closed().await, SessionError::Closed { code: 7, .. }));
    }
}

/// However it is cut into frames; the longest words are taken.
#[tokio::test]
async fn a_close_comes_in_pieces() {
    let words = "é".repeat(512);
    let pair = Pair::new(Kind::Http3);
    let (mut client, server) = Client::new(&pair).await;
    watchdog(async {
        for byte in close(&[&[0, 0, 0, 7], words.as_bytes()].concat()) {
            // An empty one, and a frame of no meaning, between them.
            client.capsules.write_all(&[data(&[byte]), data(&[]), vec![0x21, 1, 0]].concat()).await.unwrap();
        }
        assert_eq!(server.closed().await.session_error(), Some((7, words.clone())));
    })
    .await;
}

/// Capsules of other types are dropped (RFC 9297 section 3.2): WT_DRAIN_SESSION, which says that the
/// application should end soon and nothing more, and one of 16 MB. Nothing is kept of it.
#[tokio::test]
async fn other_capsules_are_skipped() {
    let pair = Pair::new(Kind::Http3);
    let (mut client, server) = Client::new(&pair).await;
    watchdog(async {
        client.capsules.write_all(&data(&[0x80, 0, 0x78, 0xae, 0])).await.unwrap();
        const GIANT: usize = 16 << 20;
        client.capsules.write_all(&data(&[0x17, 0x81, 0, 0, 0])).await.unwrap();
        let chunk = data(&[0; 16 << 10]);
        for _ in 0..GIANT >> 14 {
            client.capsules.write_all(&chunk).await.unwrap();
        }
        client.capsules.write_all(&data(&close(b"\0\0\0\x2abye"))).await.unwrap();
        assert_eq!(server.closed().await.session_error(), Some((42, "bye".to_owned())));
    })
    .await;
}

/// RFC 9114 section 6.2.1, RFC 9204 section 4.2.
#[tokio::test]
async fn streams_of_http3_itself_stay_open() {
    const RESET: VarInt = VarInt::from_u32(0x10c);
    let pair = Pair::new(Kind::Http3);
    for reset in [false, true] {
        let end = |send: &mut SendStream| match reset {
            true => send.reset(RESET).unwrap(),
            false => send.finish().unwrap(),
        };
        let (mut client, server) = Client::new(&pair).await;
        end(&mut client.control);
        client.is_told(CLOSED_CRITICAL_STREAM, &server, "the control stream").await;

        for kind in [0x02, 0x03] {
            let (client, server) = Client::new(&pair).await;
            let mut qpack = client.uni(&[kind]).await;
            // Reset before it was read, it would be a stream of no type.
            let unread = || {
                client.wire.stream_stats().send_buffered + server.connection().stream_stats().receive_buffered
            };
            while unread() > 0 {
                tokio::task::yield_now().await;
            }
            end(&mut qpack);
            client.is_told(CLOSED_CRITICAL_STREAM, &server, "QPACK").await;
        }
    }
}

/// Nor does it end before there is a session, and it begins with SETTINGS.
#[tokio::test]
async fn the_control_stream_begins_with_settings() {
    let pair = Pair::new(Kind::Http3);
    let cases: &[(u32, &[u8])] = &[
        (CLOSED_CRITICAL_STREAM, &[0x00]),
        (CLOSED_CRITICAL_STREAM, &[0x00, 0x04, 0x02, 0x33]),
        (MISSING_SETTINGS, &[0x00, 0x07, 0x01, 0x00]),
        (FRAME_ERROR, &[0x00, 0x04, 0x01, 0x33]),
        (EXCESSIVE_LOAD, &[0x00, 0x04, 0x80, 0xff, 0xff, 0xff]),
    ];
    for &(code, words) in cases {
        let (client, server) = watchdog(pair.connect()).await;
        let mut control = client.open_uni().await.unwrap();
        control.write_all(words).await.unwrap();
        control.finish().unwrap();
        let refused = watchdog(Request::accept(server)).await;
        assert!(matches!(refused, Err(HandshakeError::Settings(_))), "{words:?}: {refused:?}");
        let end = watchdog(client.closed()).await;
        let code = VarInt::from_u32(code);
        assert!(
            matches!(end, ConnectionError::ApplicationClosed { code: told, .. } if told == code),
            "{words:?}: {end:?}"
        );
    }
}

/// There is one of each kind.
#[tokio::test]
async fn streams_of_http3_itself_are_opened_once() {
    let pair = Pair::new(Kind::Http3);
    for kinds in [&[0x00][..], &[0x02, 0x02], &[0x03, 0x03]] {
        let (client, server) = Client::new(&pair).await;
        let mut open = Vec::new();
        for &kind in kinds {
            open.push(client.uni(&[kind]).await);
        }
        client.is_told(STREAM_CREATION_ERROR, &server, "two").await;
    }
}

/// RFC 9114 section 6.2.2: only servers push, and this client allows none to. What is of no type
/// that is known is not read (section 6.2).
#[tokio::test]
async fn pushes_and_streams_of_unknown_types() {
    let pair = Pair::new(Kind::Http3);
    let (client, server) = Client::new(&pair).await;
    let unknown = watchdog(client.uni(&[0x21, 1])).await;
    let stopped = watchdog(unknown.stopped()).await.unwrap();
    assert_eq!(stopped, Some(VarInt::from_u32(STREAM_CREATION_ERROR)));
    let _push = client.uni(&[0x01, 0x00]).await;
    client.is_told(STREAM_CREATION_ERROR, &server, "a push").await;

    let (client, server) = watchdog(pair.connect()).await;
    let both = async { tokio::join!(connect(client, request()), handmade_server(server)) };
    let (session, by_hand) = watchdog(both).await;
    let (session, (_control, _theirs, _send, _capsules, server)) = (session.unwrap(), by_hand);
    let mut push = server.open_uni().await.unwrap();
    push.write_all(&[0x01, 0x00]).await.unwrap();
    let end = watchdog(session.closed()).await;
    assert!(matches!(end, SessionError::Violation(_)), "{end:?}");
    let end = watchdog(server.closed()).await;
    let code = VarInt::from_u32(ID_ERROR);
    assert!(matches!(end, ConnectionError::ApplicationClosed { code: told, .. } if told == code), "{end:?}");
}

/// Sessions have the ids of streams that clients open for both directions.
#[tokio::test]
async fn streams_and_datagrams_of_what_cannot_be_a_session() {
    let pair = Pair::new(Kind::Http3);
    for both in [false, true] {
        let (client, server) = Client::new(&pair).await;
        let _open = match both {
            false => client.uni(&[0x40, 0x54, 0x02]).await,
            true => {
                let (mut send, _recv) = client.wire.open_bi().await.unwrap();
                send.write_all(&[0x40, 0x41, 0x01]).await.unwrap();
                send
            }
        };
        client.is_told(ID_ERROR, &server, "a stream").await;
    }
    for words in [&[][..], &[0x40], &[0xd0, 0, 0, 0, 0, 0, 0, 0]] {
        let (client, server) = Client::new(&pair).await;
        client.wire.send_datagram(Bytes::copy_from_slice(words)).unwrap();
        watchdog(server.recv_datagram()).await.unwrap_err();
        client.is_told(DATAGRAM_ERROR, &server, "a datagram").await;
    }
}

/// Streams of a session that is not there are refused at once, and those that are reset before they
/// say whose they are forgotten: neither takes the place of others.
#[tokio::test]
async fn streams_of_nobody_make_room() {
    const GIVEN_UP: VarInt = VarInt::from_u32(0x10c);
    // Two streams of the session's own, and that of the CONNECT.
    let pair = Pair::with(Kind::Http3, |transport| {
        transport.max_concurrent_uni = 3;
        transport.max_concurrent_bidi = 3;
    });
    let (client, server) = Client::new(&pair).await;
    watchdog(async {
        let rejected = Some(VarInt::from_u32(0x3994_bd84));
        for _ in 0..20 {
            for words in [&[][..], &[0x40], &[0x40, 0x54], &[0x40, 0x54, 0x40]] {
                let mut send = client.uni(words).await;
                send.reset(GIVEN_UP).unwrap();
            }
            for words in [&[][..], &[0x40], &[0x40, 0x41], &[0x40, 0x41, 0x40]] {
                let (mut send, _recv) = client.wire.open_bi().await.unwrap();
                send.write_all(words).await.unwrap();
                send.reset(GIVEN_UP).unwrap();
            }
            let strange = client.uni(&[0x40, 0x54, 0x04, b'x']).await;
            assert_eq!(strange.stopped().await.unwrap(), rejected);
            let (mut send, mut recv) = client.wire.open_bi().await.unwrap();
            send.write_all(&[0x40, 0x41, 0x04, b'x']).await.unwrap();
            assert_eq!(send.stopped().await.unwrap(), rejected);
            assert_eq!(recv.received_reset().await.unwrap(), rejected);
        }
        let mut ours = client.uni(b"\x40\x54\x00ours").await;
        ours.finish().unwrap();
        assert_eq!(server.accept_uni().await.unwrap().read_all().await.unwrap(), "ours");
    })
    .await;
}
