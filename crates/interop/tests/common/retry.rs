//! Address validation before the handshake (RFC 9000 section 8.1): Retry, and tokens that spare the
//! next one.

use mendpath::{AddressValidation, Endpoint};

use super::{LOOPBACK, Lab, Pair, Role, handshake::ping_pong, lab::NAME, watchdog};

#[tokio::test]
async fn our_server_asks_once_for_a_proof_of_address() {
    watchdog(async {
        let mut lab = Lab::new();
        let (_, mut theirs) = lab.endpoints(Role::Server);
        let config = lab.our_server_config().address_validation(AddressValidation::Always);
        let ours = Endpoint::server(config, LOOPBACK).unwrap();
        let server = ours.local_addrs()[0];
        for _ in 0..2 {
            let pair = Pair::connect(ours.clone(), theirs, Role::Server, server).await;
            theirs = pair.their_endpoint.clone();
            ping_pong(pair).await;
        }
        let stats = ours.stats();
        assert_eq!((stats.accepted, stats.retries_sent), (2, 1), "the second has a token of the first");
    })
    .await;
}

#[tokio::test]
async fn our_client_proves_its_address() {
    watchdog(async {
        let mut lab = Lab::new();
        let (our_endpoint, theirs) = lab.endpoints(Role::Client);
        let connecting = our_endpoint.connect(theirs.local_addr().unwrap(), NAME).unwrap();
        let accept = async {
            let incoming = theirs.accept().await.unwrap();
            assert!(!incoming.remote_address_validated());
            incoming.retry().unwrap();
            let incoming = theirs.accept().await.unwrap();
            assert!(incoming.remote_address_validated());
            incoming.await.unwrap()
        };
        let (ours, theirs_connection) = tokio::join!(connecting, accept);
        ping_pong(Pair {
            ours: ours.unwrap(),
            theirs: theirs_connection,
            our_endpoint,
            their_endpoint: theirs,
        })
        .await;
    })
    .await;
}
