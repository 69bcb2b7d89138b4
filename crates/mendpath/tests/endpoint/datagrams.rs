//! Unreliable datagrams.

use bytes::Bytes;
use mendpath::SendDatagramError;

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
