//! The poll forms: what they wait for is kept between polls.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use mendpath::{Connection, ConnectionError};
use tokio::sync::Notify;

use crate::common::{Pair, configs, watchdog};

/// Counts wake-ups, and lets a test wait for them.
#[derive(Default)]
struct Counter {
    woken: AtomicUsize,
    changed: Notify,
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
    }
}

impl Counter {
    async fn woken(&self) {
        while self.woken.load(Ordering::SeqCst) == 0 {
            self.changed.notified().await;
        }
    }
}

#[tokio::test]
async fn a_poll_is_woken_by_what_comes_later() {
    watchdog(async {
        let pair = Pair::new();
        let (client, mut server) = pair.connect().await;
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(counter.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(server.poll_accept_uni(&mut cx).is_pending());
        assert!(server.poll_accept_bi(&mut cx).is_pending(), "the other kind waits beside it");
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        // Nobody polls meanwhile: the handle itself has to remember.
        counter.woken().await;
        let Poll::Ready(Ok(mut recv)) = server.poll_accept_uni(&mut cx) else { panic!("it was announced") };
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"hello");
        assert!(server.poll_accept_bi(&mut cx).is_pending());
    })
    .await;
}

#[tokio::test]
async fn the_task_of_the_last_poll_is_woken() {
    watchdog(async {
        let pair = Pair::new();
        let (client, mut server) = pair.connect().await;
        let (first, last) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
        for counter in [&first, &last] {
            let waker = Waker::from(counter.clone());
            assert!(server.poll_read_datagram(&mut Context::from_waker(&waker)).is_pending());
        }
        client.send_datagram_wait(Bytes::from_static(b"ping")).await.unwrap();
        last.woken().await;
        assert_eq!(first.woken.load(Ordering::SeqCst), 0);
        let datagram = poll_fn(|cx| server.poll_read_datagram(cx)).await.unwrap();
        assert_eq!(datagram, &b"ping"[..]);
    })
    .await;
}

/// Opens as many streams as `count`, one after the other, while the peer closes those that came.
async fn open(mut connection: Connection, count: usize) {
    for _ in 0..count {
        let (mut send, mut recv) = poll_fn(|cx| connection.poll_open_bi(cx)).await.unwrap();
        send.write_all(b"?").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(1).await.unwrap(), b"!");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_wait_each_for_itself() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.max_streams(3, 1), client);
        let (client, mut server) = pair.connect().await;
        let answering = tokio::spawn(async move {
            loop {
                let (mut send, mut recv) = match poll_fn(|cx| server.poll_accept_bi(cx)).await {
                    Ok(stream) => stream,
                    Err(error) => return error,
                };
                assert_eq!(recv.read_to_end(1).await.unwrap(), b"?");
                send.write_all(b"!").await.unwrap();
                send.finish().unwrap();
            }
        });
        let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(open(client.clone(), 20))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut ours = client.clone();
        let _send = poll_fn(|cx| ours.poll_open_uni(cx)).await.unwrap();
        let second = tokio::spawn(async move { poll_fn(|cx| ours.poll_open_uni(cx)).await.map(drop) });
        client.close(0u8.into(), b"");
        assert_eq!(second.await.unwrap(), Err(ConnectionError::LocallyClosed), "the end wakes, too");
        assert!(matches!(answering.await.unwrap(), ConnectionError::ApplicationClosed { .. }));
    })
    .await;
}
