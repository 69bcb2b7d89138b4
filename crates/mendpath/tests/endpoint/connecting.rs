//! Connections that cannot begin, and what clients are told about it; and one that can.

use std::net::SocketAddr;

use mendpath::{
    ClientConfig, ConnectError, ConnectionError, Endpoint, Identity, PathOptions, ServerConfig,
    rustls::pki_types::PrivatePkcs8KeyDer,
};

use crate::common::{LOOPBACK, Pair, configs, watchdog};

#[test]
#[should_panic(expected = "timers are disabled")]
fn a_runtime_without_timers_is_told_when_the_endpoint_is_made() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _ = runtime.block_on(async { Endpoint::client(LOOPBACK) });
}

#[test]
fn an_empty_certificate_chain_is_called_that() {
    let key = Identity::self_signed(["localhost"]).unwrap().to_pkcs8_der();
    let refused = ServerConfig::with_certificate(Vec::new(), PrivatePkcs8KeyDer::from(key).into());
    assert_eq!(refused.unwrap_err().to_string(), "a server needs a certificate, but the chain is empty");
}

#[tokio::test]
async fn a_server_with_another_key_than_the_pinned_one_is_named_as_that() {
    watchdog(async {
        let (pair, other) = (Pair::new(), Identity::self_signed(["localhost"]).unwrap());
        let config = ClientConfig::with_pinned_key(other.pin());
        let connecting = pair.client.connect_with(&config, pair.address(), "localhost").unwrap();
        let accept = async { pair.server.accept().await.expect("the server is open").await };
        let (client, _) = tokio::join!(connecting, accept);
        let Err(ConnectionError::TransportError(error)) = client else { panic!("{client:?}") };
        assert!(error.reason.starts_with("the server's key is not the pinned one"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn names_of_protocols_that_tls_cannot_carry_are_refused() {
    let (_, config) = configs();
    let client = Endpoint::client(LOOPBACK).unwrap();
    let remote = "127.0.0.1:4433".parse().unwrap();
    for (length, fits) in [(0, false), (1, true), (255, true), (256, false)] {
        let config = config.clone().alpn([b"h3".to_vec(), vec![b'x'; length]]);
        let connecting = client.connect_with(&config, remote, "localhost");
        match connecting {
            Ok(_) => assert!(fits, "{length} bytes"),
            Err(error) => assert!(!fits && matches!(error, ConnectError::Tls(_)), "{length} bytes: {error}"),
        }
    }
}

#[tokio::test]
async fn an_address_that_names_no_host_or_no_port_is_refused_at_once() {
    let (_, config) = configs();
    let client = Endpoint::client(LOOPBACK).unwrap();
    for remote in ["127.0.0.1:0", "0.0.0.0:4433"] {
        let error = client.connect_with(&config, remote.parse().unwrap(), "localhost").map(drop).unwrap_err();
        assert!(matches!(error, ConnectError::InvalidRemote(_)), "{error}");
    }
}

/// As some resolvers give it.
#[tokio::test]
async fn an_ipv4_address_that_is_written_as_one_of_ipv6_is_what_it_is() {
    watchdog(async {
        let pair = Pair::new();
        let mapped = |address: SocketAddr| match address {
            SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V6(_) => address,
        };
        let connecting = pair.client.connect(mapped(pair.address()), "localhost").unwrap();
        let accept = async { pair.server.accept().await.expect("the server is open").await };
        let (client, server) = tokio::join!(connecting, accept);
        let (client, _server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.remote_address(), pair.address());
        let local = pair.client.bind(mapped(LOOPBACK)).unwrap();
        assert!(local.is_ipv4(), "{local}");
        let options = PathOptions::new().local(mapped(local)).remote(mapped(pair.address()));
        let path = client.add_path(options).await.unwrap();
        assert_eq!(path.network().unwrap().local, local);
        assert_eq!(path.network().unwrap().remote, pair.address());
    })
    .await;
}
