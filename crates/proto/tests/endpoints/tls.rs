//! How TLS errors end a connection (RFC 9001 sections 4.8 and 8).

use std::sync::Arc;

use mendpath_proto::{ClientConfig, ConnectionError, Event, ServerConfig, TransportConfig};
use units::Duration;

use crate::common::{Pair, Peer, tls};

/// Connects with these protocols; the close codes that client and server saw.
fn connect(client_alpn: &[&str], server_alpn: &[&str]) -> [Option<u64>; 2] {
    let (mut client, mut server) = tls();
    client.alpn_protocols = client_alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    server.alpn_protocols = server_alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    codes(client, server)
}

fn codes(client: rustls::ClientConfig, server: rustls::ServerConfig) -> [Option<u64>; 2] {
    let transport = TransportConfig::default();
    let client = ClientConfig::new(Arc::new(client), transport.clone());
    let mut pair = Pair::with(
        &client,
        ServerConfig { max_connections: 1, ..ServerConfig::new(Arc::new(server), transport) },
    );
    pair.run(Duration::from_secs(1));
    [&pair.client, &pair.server].map(close_code)
}

fn close_code(peer: &Peer) -> Option<u64> {
    peer.events.iter().find_map(|event| match event {
        Event::ConnectionLost(ConnectionError::TransportError(error)) => Some(error.code.0.into_inner()),
        Event::ConnectionLost(ConnectionError::ConnectionClosed { code, .. }) => Some(code.0.into_inner()),
        _ => None,
    })
}

#[test]
fn peers_without_a_common_protocol_part() {
    const NO_APPLICATION_PROTOCOL: Option<u64> = Some(0x178);
    assert_eq!(connect(&["a", "b"], &["b"]), [None; 2]);
    assert_eq!(connect(&["a"], &["b"]), [NO_APPLICATION_PROTOCOL; 2]);
    assert_eq!(connect(&[], &["b"]), [NO_APPLICATION_PROTOCOL; 2]);
    assert_eq!(connect(&["a"], &[]), [NO_APPLICATION_PROTOCOL; 2]);
}

#[test]
fn a_client_that_does_not_trust_the_server_says_so() {
    let ((_, server), (stranger, _)) = (tls(), tls());
    let [client, server] = codes(stranger, server);
    assert_eq!(client, server, "both know why");
    assert!(client.is_some_and(|code| (0x100..0x200).contains(&code)), "{client:?}");
}
