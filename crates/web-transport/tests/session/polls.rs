//! What polls promise: a wait outlives the poll that began it, and nobody's wake-up is lost.

use std::{future::poll_fn, sync::Arc, task::Poll};

use web_transport_trait::poll::{RecvStream as _, SendStream as _, Session as _};

use crate::common::{Flag, Kind, Pair, pattern, watchdog};

/// Tasks that gave up, one after another.
const GIVEN_UP: usize = 64;

#[tokio::test]
async fn everything_can_be_done_by_polls() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (mut client, mut server) = watchdog(pair.session()).await;
        watchdog(async {
            let (mut ask, mut answer) = poll_fn(|cx| client.poll_open_bi(cx)).await.unwrap();
            assert_eq!(poll_fn(|cx| ask.poll_write(cx, b"ping")).await.unwrap(), 4);
            ask.finish().unwrap();
            let (mut answering, mut asked) = poll_fn(|cx| server.poll_accept_bi(cx)).await.unwrap();
            let mut buffer = Vec::new();
            while poll_fn(|cx| asked.poll_read_buf(cx, &mut buffer)).await.unwrap().is_some() {}
            assert_eq!(buffer, b"ping", "{kind:?}");
            poll_fn(|cx| answering.poll_write(cx, b"pong")).await.unwrap();
            let chunk = poll_fn(|cx| answer.poll_read_chunk(cx, 100)).await.unwrap();
            assert_eq!(chunk.unwrap(), "pong");

            assert!(client.max_datagram_size() > 1_000);
            poll_fn(|cx| client.poll_send_datagram(cx, b"now")).await.unwrap();
            assert_eq!(poll_fn(|cx| server.poll_recv_datagram(cx)).await.unwrap(), "now");
        })
        .await;
    }
}

/// A poll whose task is gone, then one whose task is there.
#[tokio::test]
async fn a_wait_goes_on_with_the_task_of_the_last_poll() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (mut client, mut server) = watchdog(pair.session()).await;
        watchdog(async {
            let gone = Arc::<Flag>::default();
            assert!(gone.poll(|cx| server.poll_accept_uni(cx)).is_pending());
            assert!(gone.poll(|cx| server.poll_recv_datagram(cx)).is_pending());
            assert!(gone.poll(|cx| server.poll_closed(cx)).is_pending());

            let mut send = poll_fn(|cx| client.poll_open_uni(cx)).await.unwrap();
            poll_fn(|cx| send.poll_write(cx, b"x")).await.unwrap();
            poll_fn(|cx| client.poll_send_datagram(cx, b"y")).await.unwrap();
            let mut recv = poll_fn(|cx| server.poll_accept_uni(cx)).await.unwrap();
            assert_eq!(poll_fn(|cx| server.poll_recv_datagram(cx)).await.unwrap(), "y", "{kind:?}");

            let mut byte = [0];
            assert_eq!(poll_fn(|cx| recv.poll_read(cx, &mut byte)).await.unwrap(), Some(1));
            assert!(gone.poll(|cx| recv.poll_closed(cx)).is_pending());
            assert!(gone.poll(|cx| send.poll_closed(cx)).is_pending());
            send.reset(3);
            assert!(poll_fn(|cx| recv.poll_closed(cx)).await.is_err());
            poll_fn(|cx| send.poll_closed(cx)).await.unwrap();

            client.close(4, "bye");
            poll_fn(|cx| server.poll_closed(cx)).await;
        })
        .await;
    }
}

/// With no streams left, an open waits for the peer to let go of one, whoever polled first.
#[tokio::test]
async fn opening_waits_for_the_peer() {
    for &kind in Kind::ALL {
        // One is the control stream's, over HTTP/3.
        let pair = Pair::with(kind, |transport| transport.max_concurrent_uni = 2);
        let (mut client, mut server) = watchdog(pair.session()).await;
        watchdog(async {
            let mut open = Vec::new();
            let waiting = Arc::<Flag>::default();
            while let Poll::Ready(send) = waiting.poll(|cx| client.poll_open_uni(cx)) {
                let mut send = send.unwrap();
                poll_fn(|cx| send.poll_write(cx, b"x")).await.unwrap();
                open.push(send);
                assert!(open.len() <= 2, "{kind:?}: more than were allowed");
            }
            assert!(!open.is_empty());
            assert!(!waiting.woken());
            let mut send = open.remove(0);
            send.finish().unwrap();
            let mut recv = poll_fn(|cx| server.poll_accept_uni(cx)).await.unwrap();
            while poll_fn(|cx| recv.poll_read_chunk(cx, 9)).await.unwrap().is_some() {}
            poll_fn(|cx| client.poll_open_uni(cx)).await.unwrap();
        })
        .await;
    }
}

/// Each handle waits by itself: those that were dropped are forgotten, the others are woken.
#[tokio::test]
async fn handles_that_give_up_strand_nobody() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (mut client, server) = watchdog(pair.session()).await;
        watchdog(async {
            let (mut stays, patient) = (server.clone(), Arc::<Flag>::default());
            assert!(patient.poll(|cx| stays.poll_accept_uni(cx)).is_pending());
            for _ in 0..GIVEN_UP {
                let flag = Arc::<Flag>::default();
                assert!(flag.poll(|cx| server.clone().poll_accept_uni(cx)).is_pending());
                assert_eq!(Arc::strong_count(&flag), 1, "{kind:?}: who gave up is still waited for");
            }
            let mut send = poll_fn(|cx| client.poll_open_uni(cx)).await.unwrap();
            poll_fn(|cx| send.poll_write(cx, b"x")).await.unwrap();
            // Another handle sees the stream arrive; the one that waited was woken as well.
            let mut other = server.clone();
            poll_fn(|cx| other.poll_accept_uni(cx)).await.unwrap();
            assert!(patient.woken(), "{kind:?}");
            assert!(patient.poll(|cx| stays.poll_accept_uni(cx)).is_pending(), "it was taken already");
        })
        .await;
    }
}

/// The datagram that is sent is the one of the poll that had room, not of the one that began.
#[tokio::test]
async fn a_datagram_that_waits_is_not_kept() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (mut client, mut server) = watchdog(pair.session()).await;
        watchdog(async {
            let filler = vec![1; 1_000];
            let gone = Arc::<Flag>::default();
            // Nothing is awaited: the driver does not run meanwhile, and the buffer fills.
            while gone.poll(|cx| client.poll_send_datagram(cx, &filler)).is_ready() {}
            poll_fn(|cx| client.poll_send_datagram(cx, b"last")).await.unwrap();
            loop {
                let data = poll_fn(|cx| server.poll_recv_datagram(cx)).await.unwrap();
                if data == "last" {
                    break;
                }
                assert_eq!(data, filler, "{kind:?}");
            }
        })
        .await;
    }
}

/// The newer group first: it overtakes what was written before it and still waits.
#[tokio::test]
async fn streams_of_a_higher_order_go_first() {
    let pair = Pair::new(Kind::Raw);
    let (mut client, mut server) = watchdog(pair.session()).await;
    watchdog(async {
        let data = pattern(30_000);
        let mut streams = Vec::new();
        for order in [i32::MIN, i32::MAX] {
            let mut send = poll_fn(|cx| client.poll_open_uni(cx)).await.unwrap();
            send.set_priority(order);
            streams.push(send);
        }
        // Nothing is awaited between the writes, so nothing leaves before both are there.
        for send in &mut streams {
            let flag = Arc::<Flag>::default();
            let taken = flag.poll(|cx| send.poll_write(cx, &data));
            assert!(matches!(taken, Poll::Ready(Ok(30_000))), "{taken:?}");
            send.finish().unwrap();
        }
        let mut reading = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let mut recv = poll_fn(|cx| server.poll_accept_uni(cx)).await.unwrap();
            reading.spawn(async move {
                let id = recv.get_ref().id();
                let mut read = Vec::new();
                while poll_fn(|cx| recv.poll_read_buf(cx, &mut read)).await.unwrap().is_some() {}
                assert_eq!(read.len(), 30_000);
                id
            });
        }
        let first = reading.join_next().await.unwrap().unwrap();
        assert_eq!(first, streams[1].get_ref().id());
    })
    .await;
}
