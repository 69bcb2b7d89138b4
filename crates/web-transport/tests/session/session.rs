//! Sessions as a whole: how they end, and what they tell.

use mendpath::SendDatagramError;
use mendpath_web_transport::{Session, SessionError, StreamError};
use tokio::task::JoinSet;
use web_transport_trait::{Error as _, RecvStream as _, SendStream as _, Session as _, Stats as _};

use crate::common::{Kind, PROTOCOL, Pair, watchdog};

#[tokio::test]
async fn a_close_says_why() {
    for &kind in Kind::ALL {
        for client_closes in [true, false] {
            let pair = Pair::new(kind);
            let (client, server) = watchdog(pair.session()).await;
            let (closes, hears) = if client_closes { (client, server) } else { (server, client) };
            watchdog(async {
                let mut send = closes.open_uni().await.unwrap();
                send.write_all(b"x").await.unwrap();
                let mut recv = hears.accept_uni().await.unwrap();

                closes.close(42, "that is all");
                let why = hears.closed().await.session_error();
                assert_eq!(why, Some((42, "that is all".to_owned())), "{kind:?}");
                // Whatever is done next is told the same.
                let errors = [
                    hears.accept_bi().await.err().unwrap().session_error(),
                    hears.open_uni().await.err().unwrap().session_error(),
                    hears.send_datagram("late".into()).err().unwrap().session_error(),
                    recv.read_all().await.err().unwrap().session_error(),
                ];
                assert!(errors.iter().all(|error| *error == why), "{kind:?}: {errors:?}");
                assert_eq!(closes.closed().await.session_error(), None, "nobody closed it there");
            })
            .await;
        }
    }
}

/// Also while the peer is yet to be told: nothing is taken that would get lost.
#[tokio::test]
async fn a_session_that_was_closed_is_over_at_once() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        watchdog(async {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(b"x").await.unwrap();
            let (mut theirs, _heard) = server.accept_bi().await.unwrap();
            theirs.write_all(b"x").await.unwrap();
            assert_eq!(recv.read_chunk(1).await.unwrap().unwrap(), "x");

            client.close(1, "");
            let stream = |error| match error {
                StreamError::Session(error) => error,
                other => panic!("{other:?}"),
            };
            let errors = [
                client.open_uni().await.err().unwrap(),
                client.accept_bi().await.err().unwrap(),
                client.accept_uni().await.err().unwrap(),
                client.send_datagram("late".into()).err().unwrap(),
                client.recv_datagram().await.err().unwrap(),
                stream(send.write(b"late").await.unwrap_err()),
                stream(recv.read_chunk(1).await.unwrap_err()),
                stream(recv.read(&mut [0]).await.unwrap_err()),
            ];
            let over = |error: &_| {
                matches!(error, SessionError::Connection(mendpath::ConnectionError::LocallyClosed))
            };
            assert!(errors.iter().all(over), "{kind:?}: {errors:?}");
            assert_eq!(server.closed().await.session_error(), Some((1, String::new())), "{kind:?}");
        })
        .await;
    }
}

/// What waits when this side closes the session ends with that, whatever the peer does: here it reads
/// nothing, and its CONNECT stays open.
#[cfg(feature = "http3")]
#[tokio::test]
async fn what_waits_ends_with_the_session() {
    let pair = Pair::with(Kind::Http3, |transport| {
        transport.max_concurrent_uni = 2;
        transport.max_concurrent_bidi = 2;
    });
    let (client, server) = watchdog(pair.connect()).await;
    let (session, _peer) = tokio::join!(
        mendpath_web_transport::http3::connect(client, crate::http3::request()),
        crate::http3::handmade_server(server),
    );
    let session = session.unwrap();
    let (mut send, mut recv) = watchdog(session.open_bi()).await.unwrap();
    let _uni = watchdog(session.open_uni()).await.unwrap();
    let mut waiting = JoinSet::new();
    let mut wait = |of: fn(Session) -> Waiting| _ = waiting.spawn(of(session.clone()));
    wait(|session| Box::pin(async move { drop(session.accept_uni().await.err().unwrap()) }));
    wait(|session| Box::pin(async move { drop(session.accept_bi().await.err().unwrap()) }));
    wait(|session| Box::pin(async move { drop(session.open_uni().await.err().unwrap()) }));
    wait(|session| Box::pin(async move { drop(session.open_bi().await.err().unwrap()) }));
    wait(|session| Box::pin(async move { drop(session.recv_datagram().await.err().unwrap()) }));
    waiting.spawn(async move { drop(recv.read_chunk(1).await.unwrap_err()) });
    waiting.spawn(async move { while send.write(&[0; 1 << 16]).await.is_ok() {} });
    // Each task by itself, so that none is polled for another's sake.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(waiting.try_join_next().is_none());
    session.close(1, "");
    watchdog(async {
        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
    })
    .await;
    assert_eq!(session.connection().close_reason(), None, "they waited for the connection");
}

#[cfg(feature = "http3")]
type Waiting = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[tokio::test]
async fn the_first_close_counts_and_the_last_handle_closes() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        client.close(1, "first");
        client.close(2, "second");
        let why = watchdog(server.closed()).await.session_error();
        assert_eq!(why, Some((1, "first".to_owned())), "{kind:?}");

        let (client, server) = watchdog(pair.session()).await;
        let copy = client.clone();
        drop(client);
        copy.open_uni().await.unwrap();
        drop(copy);
        watchdog(server.closed()).await;
    }
}

#[tokio::test]
async fn a_session_tells_its_protocol_and_statistics() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        assert_eq!(client.protocol(), Some(PROTOCOL), "{kind:?}");
        assert_eq!(server.protocol(), Some(PROTOCOL), "{kind:?}");
        let stats = client.stats();
        assert!(stats.bytes_sent > 1_000 && stats.bytes_received > 1_000, "{stats:?}");
        assert!(stats.rtt().is_some() && stats.estimated_send_rate().is_some(), "{stats:?}");
    }
}

#[tokio::test]
async fn datagrams_arrive_as_they_were_sent() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        let longest = vec![7; client.max_datagram_size()];
        client.send_datagram(longest.clone().into()).unwrap();
        assert_eq!(watchdog(server.recv_datagram()).await.unwrap(), longest, "{kind:?}");
        server.send_datagram("".into()).unwrap();
        assert_eq!(watchdog(client.recv_datagram()).await.unwrap(), "");
        let most = client.max_datagram_size();
        match client.send_datagram(vec![7; most + 1_000].into()).unwrap_err() {
            SessionError::Datagram(SendDatagramError::TooLarge { max }) => assert_eq!(max, most, "{kind:?}"),
            other => panic!("{other}"),
        }
    }
}
