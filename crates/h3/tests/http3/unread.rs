//! Clients that take nothing of a response, or not all.

use std::{convert::Infallible, future::pending, sync::Arc};

use bytes::{Buf as _, Bytes};
use h3::error::{Code, ConnectionError, StreamError};
use http::{Request, Response};
use http_body_util::Full;
use mendpath::Connection;
use mendpath_h3::{Body, Limits, Server};
use tokio::{sync::Semaphore, task::JoinHandle, time::interval};
use tower::service_fn;

use crate::{
    common::{Pair, Way, ask, get, requests, watchdog},
    hostile::{GET_ROOT, SOON, closed_with, code},
};

/// Answers with bodies without end, and tells how many of them were dropped.
fn serve_without_end(server: Connection, limits: Limits) -> Arc<Semaphore> {
    let dropped = Arc::new(Semaphore::new(0));
    let told = dropped.clone();
    let service = service_fn(move |_: Request<Body>| {
        let body = Endless(told.clone());
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
    dropped
}

#[tokio::test]
async fn a_response_that_is_not_read_is_given_up() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        limits.send = SOON;
        let dropped = serve_without_end(server, limits);
        let mut requests = requests(client).await;
        let mut stream = ask(&mut requests, get("/")).await;
        dropped.acquire().await.unwrap().forget();
        let error = async {
            stream.recv_response().await?;
            while stream.recv_data().await?.is_some() {}
            Ok::<_, StreamError>(())
        };
        assert!(error.await.is_err(), "it looks whole");
    })
    .await;
}

/// As where many share a slow network: no piece of it is taken within the time that is given, but some is.
#[tokio::test]
async fn a_response_that_is_read_slowly_is_not_given_up() {
    const LENGTH: usize = 100_000;
    let pair = Pair::with(|client| client.receive_windows(16_000, 16_000));
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        limits.send = SOON * 4;
        let service = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b'x'; LENGTH]))))
        });
        tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
        let mut requests = requests(client).await;
        let mut stream = requests.send_request(get("/")).await.unwrap();
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        let (mut received, mut pause) = (0, interval(SOON));
        while let Some(data) = stream.recv_data().await.unwrap() {
            received += data.remaining();
            pause.tick().await;
        }
        assert_eq!(received, LENGTH);
    })
    .await;
}

/// A client to which the way has become too narrow for all but the smallest packets, and what serves it 10 kB for
/// each request.
async fn where_nothing_comes_back(
    pair: &Pair,
    limits: Limits,
) -> (Way, Connection, JoinHandle<Result<(), ConnectionError>>) {
    let way = Way::to(pair.server.local_addrs()[0]).await;
    let (client, server) = pair.connect_by(way.address).await;
    way.narrow(600);
    let service = service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b'x'; 10_000]))))
    });
    let serving = tokio::spawn(async move { Server::new(limits).serve(server, service, pending()).await });
    (way, client, serving)
}

/// All of it is handed to the transport, and the client does not seem to get it, but is there.
#[tokio::test]
async fn a_short_response_that_is_not_acknowledged_is_given_up() {
    let pair = Pair::new();
    watchdog(async {
        let mut limits = Limits::default();
        limits.send = SOON;
        // Long enough for the request to come.
        limits.idle = SOON * 8;
        let (_way, client, serving) = where_nothing_comes_back(&pair, limits).await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(GET_ROOT).await.unwrap();
        send.finish().unwrap();
        let given_up = recv.received_reset().await.unwrap();
        assert_eq!(given_up, Some(code(Code::H3_REQUEST_CANCELLED)));
        // It is no request under way any more.
        serving.await.unwrap().unwrap();
    })
    .await;
}

/// Whoever takes none of its responses has no endless supply of them, however many are handed over.
#[tokio::test]
async fn responses_that_are_not_acknowledged_again_and_again_end_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        let mut limits = Limits::default();
        (limits.send, limits.cancelled) = (SOON, 3);
        let (_way, client, _serving) = where_nothing_comes_back(&pair, limits).await;
        let mut made = 0;
        while let Ok((mut send, mut recv)) = client.open_bi().await {
            made += 1;
            assert!(made < 20, "they are given up one after the other");
            if send.write_all(GET_ROOT).await.is_err() || send.finish().is_err() {
                break;
            }
            let _ = recv.received_reset().await;
        }
        assert!(made > 3, "{made}");
        assert_eq!(closed_with(&client).await, code(Code::H3_EXCESSIVE_LOAD));
    })
    .await;
}

/// As whoever looks through a film does, of which each part is asked for to its end.
#[tokio::test]
async fn answers_that_are_broken_off_in_the_middle_do_not_end_the_connection() {
    let pair = Pair::new();
    watchdog(async {
        let (client, server) = pair.connect().await;
        let mut limits = Limits::default();
        limits.cancelled = 3;
        let dropped = serve_without_end(server, limits);
        let mut requests = requests(client).await;
        for _ in 0..10 {
            let mut stream = requests.send_request(get("/")).await.unwrap();
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            assert!(stream.recv_data().await.unwrap().is_some());
            drop(stream);
            dropped.acquire().await.unwrap().forget();
        }
    })
    .await;
}

/// Zeros without an end; tells when it is dropped.
struct Endless(Arc<Semaphore>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&[0; 65_536])))))
    }
}
