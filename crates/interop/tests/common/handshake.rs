//! Handshakes: protocols, certificates, cipher suites, versions.

use std::sync::Arc;

use mendpath::{ClientConfig, ConnectionError, Endpoint};
use rustls::{CipherSuite, crypto::ring};
use stack::crypto::rustls::{HandshakeData, QuicClientConfig};

use super::{
    LOOPBACK, Lab, Pair, Role, both_roles,
    lab::{ALPN, NAME},
    watchdog,
};
use crate::stack;

both_roles!(both_sides_know_what_was_agreed);

async fn both_sides_know_what_was_agreed(pair: Pair) {
    assert_eq!(pair.ours.alpn().as_deref(), Some(ALPN));
    let data = pair.theirs.handshake_data().unwrap().downcast::<HandshakeData>().unwrap();
    assert_eq!(data.protocol.as_deref(), Some(ALPN));
    assert!(!pair.ours.repair_negotiated(), "nobody else knows of it");
}

/// Suites in the order that a client prefers, the one every handshake begins with among them.
const SUITES: [[CipherSuite; 2]; 3] = [
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_AES_256_GCM_SHA384],
    [CipherSuite::TLS13_AES_256_GCM_SHA384, CipherSuite::TLS13_AES_128_GCM_SHA256],
    [CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, CipherSuite::TLS13_AES_128_GCM_SHA256],
];

/// A provider with only these suites, in this order.
fn provider(suites: &[CipherSuite]) -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = ring::default_provider();
    let all = std::mem::take(&mut provider.cipher_suites);
    let find = |suite: &CipherSuite| *all.iter().find(|known| known.suite() == *suite).unwrap();
    provider.cipher_suites = suites.iter().map(find).collect();
    Arc::new(provider)
}

/// A client's TLS that prefers `suites`.
fn client_tls(lab: &Lab, suites: &[CipherSuite]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(lab.identity.certificate().clone()).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(suites))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls
}

#[tokio::test]
async fn every_cipher_suite_with_our_client() {
    for suites in SUITES {
        watchdog(async {
            let mut lab = Lab::new();
            let (ours, theirs) = lab.endpoints(Role::Client);
            let config = ClientConfig::with_tls(client_tls(&lab, &suites));
            let server = theirs.local_addr().unwrap();
            ours.set_default_client_config(config);
            ping_pong(Pair::connect(ours, theirs, Role::Client, server).await).await;
        })
        .await;
    }
}

#[tokio::test]
async fn every_cipher_suite_with_our_server() {
    for suites in SUITES {
        watchdog(async {
            let mut lab = Lab::new();
            #[allow(unused_mut, reason = "one of the stacks sets it through a shared reference")]
            let (ours, mut theirs) = lab.endpoints(Role::Server);
            let tls = QuicClientConfig::try_from(client_tls(&lab, &suites)).unwrap();
            theirs.set_default_client_config(stack::ClientConfig::new(Arc::new(tls)));
            let server = ours.local_addrs()[0];
            ping_pong(Pair::connect(ours, theirs, Role::Server, server).await).await;
        })
        .await;
    }
}

/// 1-RTT keys work in both directions.
pub(crate) async fn ping_pong(pair: Pair) {
    tokio::spawn(super::echo(pair.theirs.clone()));
    let (mut send, mut recv) = pair.ours.open_bi().await.unwrap();
    send.write_all(b"ping").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(10).await.unwrap(), b"ping");
}

/// A draft of long ago, which one side speaks and the other does not.
const OTHER_VERSION: u32 = 0xff00_001d;

#[tokio::test]
async fn our_server_negotiates_the_version_down() {
    watchdog(async {
        let mut lab = Lab::new();
        lab.their_endpoint.supported_versions(vec![1, OTHER_VERSION]);
        let mut config = lab.their_client_config();
        config.version(OTHER_VERSION);
        let theirs = lab.their_endpoint(LOOPBACK, None);
        let ours = Endpoint::server(lab.our_server_config(), LOOPBACK).unwrap();
        let error = theirs.connect_with(config, ours.local_addrs()[0], NAME).unwrap().await.unwrap_err();
        assert!(matches!(error, stack::ConnectionError::VersionMismatch), "{error}");
    })
    .await;
}

#[tokio::test]
async fn our_client_gives_up_on_a_server_of_another_version() {
    watchdog(async {
        let mut lab = Lab::new();
        lab.their_endpoint.supported_versions(vec![OTHER_VERSION]);
        let (ours, theirs) = lab.endpoints(Role::Client);
        let error = ours.connect(theirs.local_addr().unwrap(), NAME).unwrap().await.unwrap_err();
        assert_eq!(error, ConnectionError::VersionMismatch);
    })
    .await;
}

/// The reason of a failed handshake reaches the other side (RFC 9001 section 4.8).
#[tokio::test]
async fn our_client_refuses_an_unknown_certificate() {
    watchdog(async {
        let mut lab = Lab::new();
        let (ours, theirs) = lab.endpoints(Role::Client);
        let stranger = Lab::new().our_client_config();
        let connecting = ours.connect_with(&stranger, theirs.local_addr().unwrap(), NAME).unwrap();
        let (here, there) = tokio::join!(connecting, async { theirs.accept().await.unwrap().await });
        let ConnectionError::TransportError(expected) = here.unwrap_err() else { panic!("we close") };
        match there.unwrap_err() {
            stack::ConnectionError::ConnectionClosed(close) => {
                assert_eq!(u64::from(close.error_code), u64::from(expected.code.0));
                assert!(expected.code.tls_alert().is_some());
            }
            error => panic!("{error}"),
        }
    })
    .await;
}
