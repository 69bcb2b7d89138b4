//! Unreliable datagrams.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use mendpath::{DatagramOptions, SendDatagramError};

use crate::common::{Pair, watchdog};

#[tokio::test]
async fn datagrams_arrive_whole() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let max = client.max_datagram_size().expect("datagrams are on by default");
        let longest = Bytes::from(vec![7; max]);
        // One at a time: datagrams may be dropped, but an uncongested loopback does not lose the
        // only one.
        for data in [Bytes::new(), Bytes::from_static(b"x"), longest] {
            client.send_datagram_wait(data.clone()).await.unwrap();
            assert_eq!(server.read_datagram().await.unwrap(), data);
        }
        // Larger than any path will find to fit meanwhile.
        let error = client.send_datagram(Bytes::from(vec![0; 2_000])).unwrap_err();
        assert!(matches!(error, SendDatagramError::TooLarge { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_full_buffer_is_reported_or_waited_for() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = Bytes::from(vec![1; 1_000]);
        // Nothing is sent between the calls: this task does not yield.
        let refused = (0..100_000).find_map(|_| client.send_datagram(data.clone()).err());
        assert_eq!(refused, Some(SendDatagramError::Blocked));
        client.send_datagram_wait(data.clone()).await.unwrap();
        assert_eq!(server.read_datagram().await.unwrap(), data);
    })
    .await;
}

#[tokio::test]
async fn many_leave_and_are_read_together() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut sent: VecDeque<Bytes> = (0..40).map(|n| Bytes::from(vec![n; 1_000])).collect();
        // The last is too long: those before it leave, those after it stay.
        sent.push_back(Bytes::from(vec![0; 2_000]));
        sent.push_back(Bytes::from_static(b"after"));
        let error = client.send_datagrams(&mut sent, DatagramOptions::new()).unwrap_err();
        assert!(matches!(error, SendDatagramError::TooLarge { .. }), "{error}");
        assert_eq!(sent.iter().map(Bytes::len).collect::<Vec<_>>(), [2_000, 5]);
        let mut read = Vec::new();
        while read.len() < 40 {
            server.read_datagrams(&mut read, 30).await.unwrap();
        }
        assert!(read.iter().enumerate().all(|(n, data)| data[..] == vec![n as u8; 1_000]));
        assert_eq!(client.datagrams_waiting(), 0);

        sent.pop_front();
        let options = DatagramOptions::new().room(5);
        sent.push_back(Bytes::from_static(b"no room"));
        assert_eq!(client.send_datagrams(&mut sent, options), Err(SendDatagramError::Blocked));
        assert_eq!(sent, [Bytes::from_static(b"no room")]);
        assert_eq!(client.datagrams_waiting(), 5, "this task has not yielded");
    })
    .await;
}

#[tokio::test]
async fn a_datagram_is_of_use_for_as_long_as_its_sender_says() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let send = |text: &'static str, options| {
            client.send_datagram_with(Bytes::from_static(text.as_bytes()), options).unwrap();
        };
        // This task does not yield between the calls, so all of them wait together.
        send("no hurry", DatagramOptions::new());
        send("too late", DatagramOptions::new().within(Duration::ZERO));
        send("in time", DatagramOptions::new().within(Duration::from_secs(600)).priority(1));
        assert_eq!(server.read_datagram().await.unwrap(), "in time");
        assert_eq!(server.read_datagram().await.unwrap(), "no hurry");
        let timed = client.stats().timed;
        assert_eq!((timed.expired, timed.sent), (1, 1), "{timed:?}");
    })
    .await;
}
