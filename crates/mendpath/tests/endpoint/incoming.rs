//! What a server's application decides about clients that ask.

use std::time::Duration;

use mendpath::{AddressValidation, Connecting, ConnectionError, EndpointStats, TransportErrorCode};

use crate::common::{Pair, configs, echo, watchdog};

/// A pair whose server asks nobody to prove its address by itself, and a client that has begun to
/// connect.
fn knocking() -> (Pair, Connecting) {
    let (server, client) = configs();
    let client = client.idle_timeout(Duration::from_secs(60));
    let pair = Pair::with(server.address_validation(AddressValidation::Never), client);
    let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
    (pair, connecting)
}

fn refused(result: Result<mendpath::Connection, ConnectionError>, words: &str) {
    match result.unwrap_err() {
        ConnectionError::ConnectionClosed { code: TransportErrorCode::CONNECTION_REFUSED, reason } => {
            assert_eq!(reason, words);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_client_waits_for_the_decision() {
    watchdog(async {
        let (pair, connecting) = knocking();
        let incoming = pair.server.accept().await.unwrap();
        assert_eq!(incoming.remote_address(), pair.client.local_addrs()[0]);
        assert_eq!(incoming.local_address(), pair.address());
        assert!(!incoming.remote_address_validated() && incoming.may_retry());
        let stats = pair.server.stats();
        assert_eq!((stats.half_open, stats.accepted, pair.server.open_connections()), (1, 0, 0));
        let connecting = tokio::spawn(connecting);
        tokio::task::yield_now().await;
        assert!(!connecting.is_finished());
        tokio::spawn(echo(incoming.await.unwrap()));
        let connection = connecting.await.unwrap().unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"at last").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"at last");
        assert_eq!(pair.server.stats().accepted, 1);
    })
    .await;
}

#[tokio::test]
async fn refused_clients_hear_why() {
    watchdog(async {
        let (pair, connecting) = knocking();
        pair.server.accept().await.unwrap().refuse("not on a Sunday");
        refused(connecting.await, "not on a Sunday");
        // Dropping is refusing.
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        drop(pair.server.accept().await.unwrap());
        refused(connecting.await, "");
        let stats = pair.server.stats();
        assert_eq!((stats.refused, stats.half_open, pair.server.open_connections()), (2, 0, 0));
    })
    .await;
}

#[tokio::test]
async fn the_application_asks_for_proof_of_the_address() {
    watchdog(async {
        let (pair, connecting) = knocking();
        let connecting = tokio::spawn(connecting);
        pair.server.accept().await.unwrap().retry().unwrap();
        let again = pair.server.accept().await.unwrap();
        assert!(again.remote_address_validated() && !again.may_retry());
        let again = again.retry().unwrap_err().into_incoming();
        let _server = again.await.unwrap();
        connecting.await.unwrap().unwrap();
        let stats = pair.server.stats();
        assert_eq!((stats.retries_sent, stats.accepted), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn an_ignored_client_asks_again() {
    watchdog(async {
        let (pair, connecting) = knocking();
        let connecting = tokio::spawn(connecting);
        pair.server.accept().await.unwrap().ignore();
        assert_eq!(pair.server.stats().half_open, 0);
        let _server = pair.server.accept().await.unwrap().await.unwrap();
        connecting.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn one_client_gets_a_configuration_of_its_own() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.clone(), client.alpn(["special"]));
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        let special = server.alpn(["special"]);
        let accept = async { pair.server.accept().await.unwrap().accept_with(&special).unwrap().await };
        let (here, there) = tokio::join!(connecting, accept);
        assert_eq!(here.unwrap().alpn().as_deref(), Some(&b"special"[..]));
        there.unwrap();
    })
    .await;
}

/// Waits until the server's counts are as they should be.
async fn until(pair: &Pair, reached: impl Fn(&EndpointStats) -> bool) {
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    while !reached(&pair.server.stats()) {
        tick.tick().await;
    }
}

/// The limits of the endpoint go on: who waits for a slow application may lose its place.
#[tokio::test]
async fn undecided_clients_make_room() {
    watchdog(async {
        let (server, client) = configs();
        let server = server.max_half_open(1).address_validation(AddressValidation::Never);
        let pair = Pair::with(server, client);
        let connect = || pair.client.connect(pair.address(), "localhost").unwrap();
        let first = connect();
        until(&pair, |now| now.half_open == 1).await;
        let second = connect();
        refused(first.await, "too many clients wait to be let in");
        let second = tokio::spawn(second);
        // What the first one sent last may have come after it had to go, and counts as one more:
        // whoever is in the one place now has to go next.
        let held = pair.server.accept().await.unwrap();
        let before = pair.server.stats().evicted;
        let _third = connect();
        until(&pair, |now| now.evicted > before).await;
        match held.accept().unwrap_err() {
            ConnectionError::TransportError(error) => {
                assert_eq!(error.code, TransportErrorCode::CONNECTION_REFUSED);
            }
            other => panic!("{other:?}"),
        }
        second.abort();
    })
    .await;
}

#[tokio::test]
async fn a_closed_endpoint_refuses_those_that_wait() {
    watchdog(async {
        let (pair, connecting) = knocking();
        let held = pair.server.accept().await.unwrap();
        let second = pair.client.connect(pair.address(), "localhost").unwrap();
        until(&pair, |now| now.half_open == 2).await;
        pair.server.close(3u8.into(), b"over");
        refused(second.await, "");
        assert_eq!(held.accept().unwrap_err(), ConnectionError::LocallyClosed);
        refused(connecting.await, "");
    })
    .await;
}
