//! Requests and responses, and how they end early.

use bytes::{Buf as _, Bytes};
use h3::error::{Code, StreamError};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::{sync::oneshot, task::JoinSet};

use crate::common::{Answering, Pair, ask, get, pattern, post, read_request, read_response, watchdog};

fn ok() -> Response<()> {
    Response::new(())
}

/// Whether the peer ended the stream with this code.
fn terminated(error: &StreamError, wanted: Code) -> bool {
    matches!(error, StreamError::RemoteTerminate { code } if *code == wanted)
}

#[tokio::test]
async fn a_request_and_its_response() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, mut accepted) = pair.http().await;
        let serving = tokio::spawn(async move {
            let resolver = accepted.accept().await.unwrap().unwrap();
            let (request, mut stream) = resolver.resolve_request().await.unwrap();
            assert_eq!(request.uri(), "https://localhost/page?x=1");
            stream.send_response(ok()).await.unwrap();
            stream.send_data(Bytes::from_static(b"hello")).await.unwrap();
            stream.finish().await.unwrap();
            // The client closes once it has read.
            accepted.accept().await.map(|request| request.is_some())
        });
        let mut stream = ask(&mut requests, get("/page?x=1")).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        assert_eq!(read_response(&mut stream).await, b"hello");
        drop((stream, requests));
        let ended = serving.await.unwrap();
        assert!(matches!(&ended, Err(error) if error.is_h3_no_error()), "{ended:?}");
    })
    .await;
}

#[tokio::test]
async fn large_bodies_both_ways_at_once() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, mut accepted) = pair.http().await;
        let body = pattern(3_000_000);
        let serving = tokio::spawn(async move {
            let resolver = accepted.accept().await.unwrap().unwrap();
            let (_, mut stream) = resolver.resolve_request().await.unwrap();
            stream.send_response(ok()).await.unwrap();
            let (mut send, mut recv) = stream.split();
            let answer = async {
                send.send_data(pattern(5_000_000)).await.unwrap();
                send.finish().await.unwrap();
            };
            let read = async {
                let mut all = Vec::new();
                while let Some(mut data) = recv.recv_data().await.unwrap() {
                    all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
                }
                all
            };
            let ((), all) = tokio::join!(answer, read);
            (all, accepted)
        });
        let stream = requests.send_request(post("/")).await.unwrap();
        let (mut send, mut recv) = stream.split();
        let upload = async {
            send.send_data(body.clone()).await.unwrap();
            send.finish().await.unwrap();
        };
        let download = async {
            recv.recv_response().await.unwrap();
            let mut length = 0;
            while let Some(data) = recv.recv_data().await.unwrap() {
                length += data.remaining();
            }
            length
        };
        let ((), length) = tokio::join!(upload, download);
        assert_eq!(length, 5_000_000);
        let (all, _accepted) = serving.await.unwrap();
        assert!(all == body, "the upload is not what was sent");
    })
    .await;
}

#[tokio::test]
async fn trailers_go_both_ways() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, mut accepted) = pair.http().await;
        let trailers =
            |value| HeaderMap::from_iter([("sum".parse().unwrap(), HeaderValue::from_static(value))]);
        let serving = tokio::spawn(async move {
            let resolver = accepted.accept().await.unwrap().unwrap();
            let (_, mut stream) = resolver.resolve_request().await.unwrap();
            assert_eq!(read_request(&mut stream).await, b"body");
            let read = stream.recv_trailers().await.unwrap().unwrap();
            assert_eq!(read["sum"], "request");
            stream.send_response(ok()).await.unwrap();
            stream.send_trailers(trailers("response")).await.unwrap();
            stream.finish().await.unwrap();
            accepted
        });
        let mut stream = requests.send_request(post("/")).await.unwrap();
        stream.send_data(Bytes::from_static(b"body")).await.unwrap();
        stream.send_trailers(trailers("request")).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        assert!(read_response(&mut stream).await.is_empty());
        assert_eq!(stream.recv_trailers().await.unwrap().unwrap()["sum"], "response");
        serving.await.unwrap();
    })
    .await;
}

/// Serves the first request with `answer`, holding the connection until `until` is sent.
async fn once<T: Send + 'static>(
    mut accepted: crate::common::Accepted,
    answer: impl AsyncFnOnce(Answering) -> T,
    until: oneshot::Receiver<()>,
) -> T {
    let resolver = accepted.accept().await.unwrap().unwrap();
    let (_, stream) = resolver.resolve_request().await.unwrap();
    let told = answer(stream).await;
    let _ = until.await;
    told
}

#[tokio::test]
async fn a_response_that_is_given_up_does_not_look_whole() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, accepted) = pair.http().await;
        let (done, until) = oneshot::channel();
        let answer = async |mut stream: Answering| {
            stream.send_response(ok()).await.unwrap();
            stream.send_data(Bytes::from_static(b"the beginning")).await.unwrap();
        };
        let client = async {
            let mut stream = ask(&mut requests, get("/")).await;
            let error = loop {
                match stream.recv_response().await {
                    Ok(_) => match stream.recv_data().await {
                        Ok(Some(_)) => {
                            if let Err(error) = stream.recv_data().await {
                                break error;
                            }
                        }
                        Ok(None) => panic!("the response looks whole"),
                        Err(error) => break error,
                    },
                    // A reset may overtake what was sent before.
                    Err(error) => break error,
                }
            };
            assert!(terminated(&error, Code::H3_REQUEST_CANCELLED), "{error:?}");
            done.send(()).unwrap();
        };
        tokio::join!(once(accepted, answer, until), client);
    })
    .await;
}

#[tokio::test]
async fn codes_of_stop_and_reset_reach_the_peer() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, accepted) = pair.http().await;
        let (done, until) = oneshot::channel();
        let (reached, resolved) = oneshot::channel();
        let answer = async |mut stream: Answering| {
            reached.send(()).unwrap();
            let read = loop {
                match stream.recv_data().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the request looks whole"),
                    Err(error) => break error,
                }
            };
            let written = loop {
                let sent = match stream.send_response(ok()).await {
                    Ok(()) => stream.send_data(pattern(100_000)).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = sent {
                    break error;
                }
            };
            (read, written)
        };
        let client = async {
            let mut stream = requests.send_request(post("/")).await.unwrap();
            stream.send_data(Bytes::from_static(b"the beginning")).await.unwrap();
            // A reset takes with it what the server has not read.
            resolved.await.unwrap();
            stream.stop_stream(Code::H3_EXCESSIVE_LOAD);
            stream.stop_sending(Code::H3_CONNECT_ERROR);
            done.send(()).unwrap();
            stream
        };
        let ((read, written), _stream) = tokio::join!(once(accepted, answer, until), client);
        assert!(terminated(&read, Code::H3_EXCESSIVE_LOAD), "{read:?}");
        assert!(terminated(&written, Code::H3_CONNECT_ERROR), "{written:?}");
    })
    .await;
}

#[tokio::test]
async fn many_requests_at_a_time() {
    const MANY: usize = 300;
    let pair = Pair::new();
    watchdog(async {
        let (requests, mut accepted) = pair.http().await;
        let serving = tokio::spawn(async move {
            let mut answers = JoinSet::new();
            while let Ok(Some(resolver)) = accepted.accept().await {
                answers.spawn(async move {
                    let (request, mut stream) = resolver.resolve_request().await.unwrap();
                    stream.send_response(ok()).await.unwrap();
                    stream.send_data(Bytes::from(request.uri().path().to_owned())).await.unwrap();
                    stream.finish().await.unwrap();
                });
            }
            answers.join_all().await.len()
        });
        let mut asked = JoinSet::new();
        for index in 0..MANY {
            let mut requests = requests.clone();
            asked.spawn(async move {
                let path = format!("/{index}");
                let mut stream = ask(&mut requests, get(&path)).await;
                stream.recv_response().await.unwrap();
                assert_eq!(read_response(&mut stream).await, path.as_bytes());
            });
        }
        asked.join_all().await;
        drop(requests);
        assert_eq!(serving.await.unwrap(), MANY);
    })
    .await;
}

#[tokio::test]
async fn goaway_lets_requests_end_and_takes_no_more() {
    let pair = Pair::new();
    watchdog(async {
        let (mut requests, mut accepted) = pair.http().await;
        let (stopped, told) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let resolver = accepted.accept().await.unwrap().unwrap();
            let (_, mut stream) = resolver.resolve_request().await.unwrap();
            accepted.shutdown(0).await.unwrap();
            stream.send_response(ok()).await.unwrap();
            stopped.send(()).unwrap();
            stream.finish().await.unwrap();
            drop(stream);
            while let Ok(Some(_)) = accepted.accept().await {}
        });
        let mut stream = ask(&mut requests, get("/")).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
        assert!(read_response(&mut stream).await.is_empty());
        told.await.unwrap();
        // Refused here, or by the server, whichever the GOAWAY is in time for.
        let more = async {
            let mut stream = requests.send_request(get("/more")).await?;
            stream.finish().await?;
            stream.recv_response().await
        };
        assert!(more.await.is_err());
        drop(requests);
        serving.await.unwrap();
    })
    .await;
}
