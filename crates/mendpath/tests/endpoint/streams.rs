//! Bytes through streams.

use mendpath::{ReadError, ReadToEndError, ReceiveLimits, SendStream, WriteError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

use crate::common::{Pair, check_pattern, configs, echo, watchdog, write_pattern};

#[tokio::test]
async fn echo_on_one_stream() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let echo = tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"mend the path").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"mend the path");
        send.finished().await.unwrap();
        client.close(0u8.into(), b"");
        echo.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn streams_are_async_io() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        AsyncWriteExt::write_all(&mut send, b"over and out").await.unwrap();
        send.shutdown().await.unwrap();
        send.shutdown().await.unwrap();
        let mut text = String::new();
        recv.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "over and out");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_at_once() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let mut tasks = JoinSet::new();
        for number in 0..500_u64 {
            let client = client.clone();
            tasks.spawn(async move {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                let length = 1 + number * 37 % 5_000;
                write_pattern(&mut send, number, length).await;
                send.finish().unwrap();
                assert_eq!(check_pattern(&mut recv, number).await, number + length);
            });
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn big_transfers_in_both_directions() {
    const LENGTH: u64 = 12 << 20;
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let task = tokio::spawn(async move {
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            let write = async {
                write_pattern(&mut send, 5, LENGTH).await;
                send.finish().unwrap();
                send.finished().await.unwrap();
            };
            let (end, ()) = tokio::join!(check_pattern(&mut recv, 0), write);
            assert_eq!(end, LENGTH);
            server
        });
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let write = async {
            write_pattern(&mut send, 0, LENGTH).await;
            send.finish().unwrap();
            send.finished().await.unwrap();
        };
        let (end, ()) = tokio::join!(check_pattern(&mut recv, 5), write);
        assert_eq!(end, 5 + LENGTH);
        let stats = client.stats();
        assert!(stats.stream_bytes_sent >= LENGTH && stats.stream_bytes_received >= LENGTH, "{stats:?}");
        drop(task.await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_dropped_sender_resets_and_does_not_look_complete() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        // Dropped on purpose, by a task that is cancelled, by one that panics.
        for number in 0..3 {
            let mut send = client.open_uni().await.unwrap();
            let id = send.id();
            send.write_all(b"half of it").await.unwrap();
            let task = tokio::spawn(async move {
                let _send = send;
                match number {
                    0 => {}
                    1 => std::future::pending().await,
                    _ => panic!("as it happens"),
                }
            });
            if number == 1 {
                task.abort();
            }
            let _ = task.await;
            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.id(), id);
            let end = recv.read_to_end(100).await.unwrap_err();
            assert_eq!(end, ReadToEndError::Read(ReadError::Reset(SendStream::DROPPED)));
        }
        // Finished first, dropping changes nothing.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"all there is").await.unwrap();
        send.finish().unwrap();
        drop(send);
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"all there is");
    })
    .await;
}

#[tokio::test]
async fn dropping_a_receiver_stops_the_stream() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"unwanted").await.unwrap();
        drop(server.accept_uni().await.unwrap());
        assert_eq!(send.stopped().await.unwrap(), Some(0u8.into()));
        assert_eq!(send.write(b"more").await.unwrap_err(), WriteError::Stopped(0u8.into()));
    })
    .await;
}

#[tokio::test]
async fn codes_of_stop_and_reset_arrive() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        let (mut answer, mut question) = server.accept_bi().await.unwrap();
        let mut five = [0; 5];
        question.read_exact(&mut five).await.unwrap();
        question.stop(17u8.into()).unwrap();
        assert!(question.stop(17u8.into()).is_err());
        answer.reset(18u8.into()).unwrap();
        assert_eq!(send.stopped().await.unwrap(), Some(17u8.into()));
        let mut buffer = [0; 8];
        assert_eq!(recv.read(&mut buffer).await.unwrap_err(), ReadError::Reset(18u8.into()));
        assert_eq!(recv.read(&mut buffer).await.unwrap_err(), ReadError::Reset(18u8.into()));
    })
    .await;
}

#[tokio::test]
async fn read_to_end_keeps_its_limit() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for (length, limit) in [(1_000, 1_000), (0, 0)] {
            let mut send = client.open_uni().await.unwrap();
            write_pattern(&mut send, 0, length).await;
            send.finish().unwrap();
            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.read_to_end(limit).await.unwrap().len() as u64, length);
        }
        let mut send = client.open_uni().await.unwrap();
        write_pattern(&mut send, 0, 1_001).await;
        send.finish().unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(1_000).await.unwrap_err(), ReadToEndError::TooLong { limit: 1_000 });
    })
    .await;
}

#[tokio::test]
async fn opening_waits_for_the_peers_limit() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.max_streams(2, 2), client);
        let (client, server) = pair.connect().await;
        let echo = tokio::spawn(echo(server));
        for round in 0..20_u8 {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(&[round]).await.unwrap();
            send.finish().unwrap();
            assert_eq!(recv.read_to_end(1).await.unwrap(), [round]);
        }
        client.close(0u8.into(), b"");
        echo.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_server_raises_its_limits_for_whom_it_knows() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.max_streams(1, 0).receive_windows(2_000, 2_000), client);
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        assert_eq!(send.write(&[7; 9_000]).await.unwrap(), 2_000);
        let (_answer, _request) = server.accept_bi().await.unwrap();
        server.raise_receive_limits(&ReceiveLimits {
            receive_window: 100_000,
            stream_receive_window: 100_000,
            max_concurrent_bidi: 2,
            max_concurrent_uni: 1,
        });
        // Nobody reads: the raised window alone takes it.
        send.write_all(&[7; 2_000]).await.unwrap();
        client.open_bi().await.unwrap();
        client.open_uni().await.unwrap();
    })
    .await;
}
