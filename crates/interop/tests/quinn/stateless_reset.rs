//! A server that was restarted says so to the clients of its former life (RFC 9000 section 10.3).

use std::sync::Arc;

use mendpath::{ConnectionError, Endpoint, ResetKey};
use quinn_proto::RandomConnectionIdGenerator;
use ring::hmac;

use crate::common::{LOOPBACK, Lab, Pair, Relay, Role, watchdog};

#[tokio::test]
async fn our_client_learns_that_their_server_was_restarted() {
    watchdog(async {
        let mut lab = Lab::new();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 64]);
        lab.their_endpoint = quinn::EndpointConfig::new(Arc::new(key));
        lab.their_endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::default()));
        let (ours, theirs) = lab.endpoints(Role::Client);
        let relay = Relay::start(theirs.local_addr().unwrap()).await;
        let pair = Pair::connect(ours, theirs, Role::Client, relay.address).await;
        let config = lab.their_server_config();
        let restarted = lab.their_endpoint(LOOPBACK, Some(config));
        relay.retarget(restarted.local_addr().unwrap());
        pair.ours.open_uni().await.unwrap().write_all(&[0; 1_000]).await.unwrap();
        assert_eq!(pair.ours.closed().await, ConnectionError::Reset);
    })
    .await;
}

#[tokio::test]
async fn their_client_learns_that_our_server_was_restarted() {
    watchdog(async {
        let mut lab = Lab::new();
        let server = || {
            let key = ResetKey::new([7; ResetKey::LEN]);
            Endpoint::builder().server(lab.our_server_config()).reset_key(key).bind(LOOPBACK).build().unwrap()
        };
        let (ours, restarted) = (server(), server());
        let (_, theirs) = lab.endpoints(Role::Server);
        let relay = Relay::start(ours.local_addrs()[0]).await;
        let pair = Pair::connect(ours, theirs, Role::Server, relay.address).await;
        relay.retarget(restarted.local_addrs()[0]);
        pair.theirs.open_uni().await.unwrap().write_all(&[0; 1_000]).await.unwrap();
        assert_eq!(pair.theirs.closed().await, quinn::ConnectionError::Reset);
        assert!(restarted.stats().resets_sent >= 1);
    })
    .await;
}
