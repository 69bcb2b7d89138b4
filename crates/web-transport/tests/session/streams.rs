//! Streams: what is written arrives, and ends as it was ended.

use web_transport_trait::{Error as _, RecvStream as _, SendStream as _, Session as _};

use crate::common::{Kind, Pair, pattern, watchdog};

#[tokio::test]
async fn streams_of_both_kinds_go_both_ways() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        watchdog(async {
            for (opens, accepts) in [(&client, &server), (&server, &client)] {
                let mut send = opens.open_uni().await.unwrap();
                send.write_all(&pattern(20_000)).await.unwrap();
                send.finish().unwrap();
                let mut recv = accepts.accept_uni().await.unwrap();
                assert_eq!(recv.read_all().await.unwrap(), pattern(20_000), "{kind:?}");
                send.closed().await.unwrap();
                recv.closed().await.unwrap();

                let (mut ask, mut answer) = opens.open_bi().await.unwrap();
                ask.write_chunk(bytes::Bytes::from_static(b"ping")).await.unwrap();
                ask.finish().unwrap();
                let (mut answering, mut asked) = accepts.accept_bi().await.unwrap();
                assert_eq!(asked.read_all().await.unwrap(), "ping");
                answering.write_all(b"pong").await.unwrap();
                answering.finish().unwrap();
                assert_eq!(answer.read_chunk(2).await.unwrap().unwrap(), "po");
                assert_eq!(
                    answer.read_chunk(0).await.unwrap().unwrap(),
                    "",
                    "asking for nothing is not the end"
                );
                assert_eq!(answer.read(&mut []).await.unwrap(), Some(0));
                assert_eq!(answer.read_all().await.unwrap(), "ng");
                assert_eq!(answer.read(&mut [0; 9]).await.unwrap(), None);
            }
        })
        .await;
    }
}

#[tokio::test]
async fn resets_and_stops_carry_their_code() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        watchdog(async {
            for code in [0, 7, u32::MAX] {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                send.write_all(b"some").await.unwrap();
                let (mut theirs, mut heard) = server.accept_bi().await.unwrap();
                send.reset(code);
                send.closed().await.unwrap();
                // Without reading, and again by reading.
                assert_eq!(heard.closed().await.unwrap_err().stream_error(), Some(code), "{kind:?}");
                assert_eq!(heard.read_all().await.unwrap_err().stream_error(), Some(code));

                recv.stop(code);
                recv.closed().await.unwrap();
                let stopped = theirs.closed().await.unwrap_err();
                assert_eq!(stopped.stream_error(), Some(code), "{kind:?}");
                assert_eq!(stopped.session_error(), None);
                assert_eq!(theirs.write(b"more").await.unwrap_err().stream_error(), Some(code));
                assert_eq!(theirs.set_reliable_boundary().unwrap_err().stream_error(), Some(code));
                assert_eq!(theirs.finish().unwrap_err().stream_error(), Some(code));
            }
        })
        .await;
    }
}

/// A task that is cancelled must not look as if it had said everything. The peer hears the
/// session's code 0, which over HTTP/3 is another number than QUIC's.
#[tokio::test]
async fn streams_that_are_dropped_are_reset_and_stopped() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        watchdog(async {
            let (mut send, recv) = client.open_bi().await.unwrap();
            send.write_all(b"half a").await.unwrap();
            let (mut theirs, mut heard) = server.accept_bi().await.unwrap();
            drop((send, recv));
            assert_eq!(heard.read_all().await.unwrap_err().stream_error(), Some(0), "{kind:?}");
            assert_eq!(theirs.closed().await.unwrap_err().stream_error(), Some(0), "{kind:?}");

            // What was finished stays so, and what was read to its end needs no stop.
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(b"all").await.unwrap();
            send.finish().unwrap();
            drop(send);
            let (mut theirs, mut heard) = server.accept_bi().await.unwrap();
            assert_eq!(heard.read_all().await.unwrap(), "all", "{kind:?}");
            theirs.finish().unwrap();
            assert_eq!(recv.read_all().await.unwrap(), "", "{kind:?}");
            drop(recv);
            theirs.closed().await.unwrap();
        })
        .await;
    }
}

/// More than any window: each write takes a part, and those that were given up took none.
#[tokio::test]
async fn writes_that_are_given_up_leave_no_hole() {
    for &kind in Kind::ALL {
        let pair = Pair::new(kind);
        let (client, server) = watchdog(pair.session()).await;
        watchdog(async {
            let data = pattern(8 << 20);
            let mut send = client.open_uni().await.unwrap();
            let writing = async {
                let mut rest = bytes::Bytes::from(data.clone());
                let mut given_up = 0;
                while !rest.is_empty() {
                    tokio::select! {
                        biased;
                        written = send.write_buf(&mut rest) => assert!(written.unwrap() > 0),
                        () = tokio::task::yield_now() => given_up += 1,
                    }
                }
                send.finish().unwrap();
                given_up
            };
            let reading = async {
                let mut recv = server.accept_uni().await.unwrap();
                recv.read_all().await.unwrap()
            };
            let (given_up, read) = tokio::join!(writing, reading);
            assert!(given_up > 0, "no write had to wait");
            assert!(read == data, "{kind:?}: {} of {} bytes", read.len(), data.len());
        })
        .await;
    }
}
