//! Bytes through streams.

use bytes::Bytes;
use mendpath::{
    ClosedStream, ConnectionError, ReadError, ReadToEndError, ReceiveLimits, RecoveryKind, SendStream,
    StoppedError, TransportConfig, WriteError,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
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
async fn bytes_count_as_sent_once_they_leave() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let sent = || client.stats().stream_bytes_sent;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&[7; 4_096]).await.unwrap();
        assert_eq!(sent(), 0, "the connection's task has not had its turn");
        send.finish().unwrap();
        send.finished().await.unwrap();
        assert_eq!(sent(), 4_096);
    })
    .await;
}

/// Who accepts a stream after its reset has arrived gets nothing of it, but for what was promised.
#[tokio::test]
async fn what_was_promised_of_a_stream_outlives_its_reset() {
    watchdog(async {
        let (server, client) = configs();
        let transport = TransportConfig { reset_stream_at: true, ..TransportConfig::default() };
        let pair = Pair::with(server.transport(transport), client);
        let (client, server) = pair.connect().await;
        for promise in [true, false] {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(b"object 7").await.unwrap();
            if promise {
                send.set_reliable_boundary().unwrap();
            }
            send.write_all(&[0; 1_000]).await.unwrap();
            send.reset(9u8.into()).unwrap();
            assert_eq!(send.set_reliable_boundary(), Err(ClosedStream));
            // Has been heard once this has.
            let (mut ask, _answer) = client.open_bi().await.unwrap();
            ask.write_all(b"?").await.unwrap();
            ask.finish().unwrap();
            let (_answer, mut asked) = server.accept_bi().await.unwrap();
            assert_eq!(asked.read_to_end(9).await.unwrap(), b"?");

            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.received_reset().await.unwrap(), Some(9u8.into()));
            let (mut head, mut buffer) = (Vec::new(), [0; 8]);
            let end = loop {
                match recv.read(&mut buffer).await {
                    Ok(Some(n)) => head.extend_from_slice(&buffer[..n]),
                    end => break end,
                }
            };
            assert_eq!(end, Err(ReadError::Reset(9u8.into())));
            assert_eq!(head.starts_with(b"object 7"), promise, "{head:?}");
        }
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

/// Several wait for the end of a stream while it is written to.
#[tokio::test]
async fn stopped_can_be_awaited_beside_writing() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(send.stopped())).collect();
        send.write_all(b"some of it").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        recv.stop(33u8.into()).unwrap();
        let end = loop {
            if let Err(error) = send.write(b"more").await {
                break error;
            }
        };
        assert_eq!(end, WriteError::Stopped(33u8.into()));
        for task in waiting {
            assert_eq!(task.await.unwrap(), Ok(Some(33u8.into())));
        }
        assert_eq!(send.stopped().await, Ok(Some(33u8.into())), "as often as one asks");
    })
    .await;
}

#[tokio::test]
async fn stopped_tells_the_end_of_streams_that_are_gone() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut finished = client.open_uni().await.unwrap();
        finished.write_all(b"all of it").await.unwrap();
        finished.finish().unwrap();
        let delivered = finished.stopped();
        drop(finished);
        assert_eq!(server.accept_uni().await.unwrap().read_to_end(20).await.unwrap(), b"all of it");
        assert_eq!(delivered.await, Ok(None));

        let mut reset = client.open_uni().await.unwrap();
        reset.write_all(b"some of it").await.unwrap();
        let given_up = reset.stopped();
        reset.reset(1u8.into()).unwrap();
        assert_eq!((given_up.await, reset.finished().await), (Ok(None), Err(WriteError::ClosedStream)));

        let dropped = client.open_uni().await.unwrap();
        let given_up = dropped.stopped();
        drop(dropped);
        assert_eq!(given_up.await, Ok(None));

        let open = client.open_uni().await.unwrap();
        let lost = open.stopped();
        client.close(0u8.into(), b"");
        assert_eq!(lost.await, Err(StoppedError::ConnectionLost(ConnectionError::LocallyClosed)));
        assert_eq!(open.stopped().await, Err(StoppedError::ConnectionLost(ConnectionError::LocallyClosed)));
    })
    .await;
}

#[tokio::test]
async fn chunks_follow_each_other() {
    const LENGTH: usize = 300_000;
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data: Vec<u8> = (0..LENGTH).map(|n| (n * 31 % 251) as u8).collect();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&data[..10]).await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let write = async {
            send.write_all(&data[10..]).await.unwrap();
            send.finish().unwrap();
        };
        let read = async {
            let mut read = Vec::new();
            let mut held = Vec::new();
            loop {
                let max = 1 + read.len() % 7_001;
                let Some(chunk) = recv.read_chunk(max).await.unwrap() else { break };
                assert_eq!(chunk.offset, read.len() as u64);
                assert!((1..=max).contains(&chunk.bytes.len()));
                read.extend_from_slice(&chunk.bytes);
                held.push(chunk.bytes);
                let mut several = vec![Bytes::new(); 5];
                let Some(filled) = recv.read_chunks(&mut several).await.unwrap() else { break };
                assert!(several[..filled].iter().all(|bytes| !bytes.is_empty()));
                several[..filled].iter().for_each(|bytes| read.extend_from_slice(bytes));
                held.extend(several);
            }
            assert_eq!(held.concat(), read, "what is held does not change");
            read
        };
        let (read, ()) = tokio::join!(read, write);
        assert_eq!(read, data);
        assert_eq!(recv.read_chunk(1).await.unwrap(), None, "the end is told again");
        assert_eq!(recv.read_chunks(&mut [Bytes::new()]).await.unwrap(), None);
        assert_eq!(recv.read(&mut [0; 4]).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn chunks_end_with_a_reset() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"half of it").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let chunk = recv.read_chunk(4).await.unwrap().unwrap();
        assert_eq!((chunk.offset, &chunk.bytes[..]), (0, &b"half"[..]));
        send.reset(5u8.into()).unwrap();
        let end = loop {
            match recv.read_chunk(usize::MAX).await {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert_eq!(end, Err(ReadError::Reset(5u8.into())));
        assert_eq!(recv.read_chunks(&mut [Bytes::new()]).await, Err(ReadError::Reset(5u8.into())));
    })
    .await;
}

/// On one thread the first to write would wake who sends, and leave alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_written_at_one_time_leaves_together() {
    const STREAMS: u64 = 32;
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut asked, mut answers, mut go) = (Vec::new(), JoinSet::new(), Vec::new());
        for _ in 0..STREAMS {
            let (mut send, recv) = client.open_bi().await.unwrap();
            send.write_all(b"?").await.unwrap();
            asked.push((send, recv));
            let (mut send, _recv) = server.accept_bi().await.unwrap();
            let (now, when) = oneshot::channel::<()>();
            go.push(now);
            answers.spawn(async move {
                when.await.unwrap();
                send.write_all(b"twenty bytes, no more").await.unwrap();
                send.finish().unwrap();
                send.finished().await.unwrap();
            });
        }
        let before = server.stats().packets_sent;
        // All are woken on the thread on which they run.
        tokio::spawn(async move { go.into_iter().for_each(|now| now.send(()).unwrap()) }).await.unwrap();
        for (_, recv) in &mut asked {
            assert_eq!(recv.read_to_end(100).await.unwrap(), b"twenty bytes, no more");
        }
        let sent = server.stats().packets_sent - before;
        assert!(sent < STREAMS / 2, "{sent} packets for {STREAMS} short answers");
        while let Some(answered) = answers.join_next().await {
            answered.unwrap();
        }
    })
    .await;
}

/// A request of several packets asks for an ACK at once; whoever answers it has their turn before.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_answer_and_the_ack_of_its_request_leave_together() {
    const REQUESTS: u64 = 50;
    const LENGTH: usize = 4_000;
    watchdog(async {
        // Recovery would follow the answers with packets of its own.
        let (server, client) = configs();
        let pair = Pair::with(server.recovery(RecoveryKind::None), client);
        let (client, server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(&[1; LENGTH]).await.unwrap();
        let (mut answers, mut requests) = server.accept_bi().await.unwrap();
        let answering = tokio::spawn(async move {
            let mut request = [0; LENGTH];
            for _ in 0..=REQUESTS {
                requests.read_exact(&mut request).await.unwrap();
                answers.write_all(b"twenty bytes, no more").await.unwrap();
            }
            answers.finish().unwrap();
            answers.finished().await.unwrap();
        });
        let asking = tokio::spawn(async move {
            let mut answer = [0; 21];
            recv.read_exact(&mut answer).await.unwrap();
            let before = server.stats().packets_sent;
            for _ in 0..REQUESTS {
                send.write_all(&[1; LENGTH]).await.unwrap();
                recv.read_exact(&mut answer).await.unwrap();
            }
            server.stats().packets_sent - before
        });
        let sent = asking.await.unwrap();
        assert!(sent < REQUESTS * 3 / 2, "{sent} packets for {REQUESTS} answers");
        answering.await.unwrap();
        client.close(0u32.into(), b"");
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_was_stopped_before_anybody_accepted_it_says_so() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        recv.stop(4u8.into()).unwrap();
        send.write_all(b"a question without an answer").await.unwrap();
        // What arrives behind it tells that the server has heard of both.
        let mut later = client.open_uni().await.unwrap();
        later.write_all(b"later").await.unwrap();
        later.finish().unwrap();
        assert_eq!(server.accept_uni().await.unwrap().read_to_end(9).await.unwrap(), b"later");

        let (mut answer, _) = server.accept_bi().await.unwrap();
        assert_eq!(answer.stopped().await, Ok(Some(4u8.into())));
        assert_eq!(answer.finished().await, Err(WriteError::Stopped(4u8.into())));
        assert_eq!(answer.write(b"nobody reads it").await, Err(WriteError::Stopped(4u8.into())));
    })
    .await;
}

/// Requests that came in two datagrams, of which an ACK is owed at once, are answered in one with it.
#[tokio::test]
async fn who_accepts_streams_has_their_turn_before_the_ack() {
    const ROUNDS: u64 = 20;
    watchdog(async {
        let (server, client) = configs();
        let transport = || TransportConfig {
            max_datagram_size: 1_200,
            jumbo_datagram_size: 0,
            recovery: RecoveryKind::None,
            ..TransportConfig::default()
        };
        let pair = Pair::with(server.transport(transport()), client.transport(transport()));
        let (client, server) = pair.connect().await;
        let answering = server.clone();
        tokio::spawn(async move {
            while let Ok((mut answer, mut asked)) = answering.accept_bi().await {
                tokio::spawn(async move {
                    asked.read_to_end(1_000).await.unwrap();
                    answer.write_all(b"answer").await.unwrap();
                    answer.finish().unwrap();
                });
            }
        });
        let sent = || server.path_stats()[0].packets_sent;
        let mut before = 0;
        for round in 0..=ROUNDS {
            if round == 1 {
                // What follows a handshake has been sent.
                before = sent();
            }
            let mut waiting = Vec::new();
            for _ in 0..2 {
                let (mut ask, answer) = client.open_bi().await.unwrap();
                ask.write_all(&[7; 1_000]).await.unwrap();
                ask.finish().unwrap();
                waiting.push((ask, answer));
            }
            for (_, answer) in &mut waiting {
                assert_eq!(answer.read_to_end(100).await.unwrap(), b"answer");
            }
        }
        let packets = sent() - before;
        assert!(packets < ROUNDS * 3 / 2, "{packets} packets for {ROUNDS} rounds");
    })
    .await;
}
