//! How connections and endpoints end.

use std::time::Duration;

use mendpath::{ClientConfig, ConnectError, ConnectionError, Endpoint, Identity, PathOptions, WriteError};

use crate::common::{LOOPBACK, Pair, configs, echo, watchdog};

fn closed(code: u8, reason: &[u8]) -> ConnectionError {
    ConnectionError::ApplicationClosed { code: code.into(), reason: reason.to_vec() }
}

#[tokio::test]
async fn close_codes_arrive() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        client.close(42u8.into(), b"enough");
        client.close(43u8.into(), b"the first close counts");
        assert_eq!(client.closed().await, ConnectionError::LocallyClosed);
        assert_eq!(server.closed().await, closed(42, b"enough"));
        assert_eq!(server.close_reason(), Some(closed(42, b"enough")));
        assert_eq!(server.accept_bi().await.unwrap_err(), closed(42, b"enough"));
        assert_eq!(server.read_datagram().await.unwrap_err(), closed(42, b"enough"));
        assert!(server.path_updates().next().await.is_none());
        let lost = WriteError::ConnectionLost(ConnectionError::LocallyClosed);
        assert_eq!(send.write(b"late").await.unwrap_err(), lost);
        pair.client.wait_idle().await;
        pair.server.wait_idle().await;
        assert_eq!(pair.server.open_connections(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_came_before_the_end_can_be_accepted_and_read() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        send.finish().unwrap();
        send.finished().await.unwrap();
        client.close(1u8.into(), b"");
        assert_eq!(server.closed().await, closed(1, b""));
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"last words");
        assert_eq!(server.accept_uni().await.unwrap_err(), closed(1, b""));
    })
    .await;
}

/// The client has said all it had to say before the server looks whether its handshake is complete.
#[tokio::test]
async fn what_came_before_the_end_is_there_for_who_awaits_the_handshake_only_then() {
    watchdog(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        let accepted = pair.server.accept().await.unwrap().accept().unwrap();
        let client = connecting.await.unwrap();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        send.finish().unwrap();
        send.finished().await.unwrap();
        client.close(1u8.into(), b"");
        pair.server.wait_idle().await;
        let server = accepted.await.unwrap();
        assert_eq!(server.close_reason(), Some(closed(1, b"")));
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"last words");
        assert_eq!(server.accept_uni().await.unwrap_err(), closed(1, b""));
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let stream = client.open_uni().await.unwrap();
        drop(client);
        assert_eq!(server.close_reason(), None, "the stream is a handle too");
        drop(stream);
        assert_eq!(server.closed().await, closed(0, b""));
    })
    .await;
}

#[tokio::test]
async fn closing_an_endpoint_closes_its_connections() {
    watchdog(async {
        let pair = Pair::new();
        let (one, _server_one) = pair.connect().await;
        let (two, _server_two) = pair.connect().await;
        pair.server.close(7u8.into(), b"maintenance");
        assert_eq!(one.closed().await, closed(7, b"maintenance"));
        assert_eq!(two.closed().await, closed(7, b"maintenance"));
        assert!(pair.server.accept().await.is_none());
        pair.server.wait_idle().await;
        pair.client.close(0u8.into(), b"");
        let error = pair.client.connect(pair.address(), "localhost").unwrap_err();
        assert!(matches!(error, ConnectError::EndpointClosed), "{error}");
    })
    .await;
}

#[tokio::test]
async fn connections_outlive_the_endpoints_handles() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        drop(pair);
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"still here").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"still here");
    })
    .await;
}

#[tokio::test]
async fn the_socket_closes_with_the_last_handle() {
    watchdog(async {
        let (server, _) = configs();
        let endpoint = Endpoint::server(server.clone(), LOOPBACK).unwrap();
        let address = endpoint.local_addrs()[0];
        let error = Endpoint::server(server.clone(), address).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        drop(endpoint);
        // The receiving task lets go of it when it gets its turn.
        while Endpoint::server(server.clone(), address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn another_key_than_the_pinned_one_is_refused() {
    watchdog(async {
        let pair = Pair::new();
        let other = Identity::self_signed(["localhost"]).unwrap();
        let config = ClientConfig::with_pinned_key(other.pin());
        let connecting = pair.client.connect_with(&config, pair.address(), "localhost").unwrap();
        let accepted = tokio::spawn({
            let server = pair.server.clone();
            async move { server.accept().await.unwrap().await.err() }
        });
        let error = connecting.await.unwrap_err();
        assert!(
            matches!(&error, ConnectionError::TransportError(error) if error.code.tls_alert().is_some()),
            "{error:?}"
        );
        assert!(
            accepted.await.unwrap().is_some(),
            "the server must not take a connection the client refused"
        );
    })
    .await;
}

#[tokio::test]
async fn peers_without_a_common_protocol_refuse_each_other() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server.alpn(["one"]), client.alpn(["two"]));
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        let accept = async { pair.server.accept().await.unwrap().await };
        let (error, there) = tokio::join!(async { connecting.await.unwrap_err() }, accept);
        there.unwrap_err();
        assert!(
            matches!(error, ConnectionError::ConnectionClosed { code, .. } if code.tls_alert() == Some(120)),
            "{error:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn what_a_connection_knows_about_its_peer() {
    watchdog(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let server = mendpath::ServerConfig::with_identity(&identity).unwrap().alpn(["test"]);
        let client = ClientConfig::with_pinned_key(identity.pin()).alpn(["test"]);
        let pair = Pair::with(server, client);
        let (client, server) = pair.connect().await;
        assert_eq!(client.alpn().as_deref(), Some(&b"test"[..]));
        assert_eq!(client.peer_certificates().unwrap(), [identity.certificate().clone()]);
        assert_eq!(client.remote_address(), pair.address());
        assert_eq!(server.remote_address(), pair.client.local_addrs()[0]);
        assert_ne!(client.stable_id(), server.stable_id());
        assert!(client.multipath_negotiated() && server.multipath_negotiated());
    })
    .await;
}

#[tokio::test]
async fn nobody_at_the_address() {
    watchdog(async {
        let free = std::net::UdpSocket::bind(LOOPBACK).unwrap().local_addr().unwrap();
        let (_, client) = configs();
        let endpoint = Endpoint::client(LOOPBACK).unwrap();
        let config = client.idle_timeout(Duration::from_millis(300));
        let error = endpoint.connect_with(&config, free, "localhost").unwrap().await.unwrap_err();
        assert_eq!(error, ConnectionError::TimedOut);
        endpoint.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn no_socket_of_the_family() {
    let (_, client) = configs();
    let endpoint = Endpoint::client(LOOPBACK).unwrap();
    let remote = "[2001:db8::1]:443".parse().unwrap();
    let error = endpoint.connect_with(&client, remote, "localhost").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no bound socket can send to [2001:db8::1]:443: bind one of its address family"
    );
    let error = endpoint.connect(remote, "localhost").unwrap_err();
    assert!(matches!(error, ConnectError::NoClientConfig), "{error}");
    let via = PathOptions::new().interface("no-such-if0");
    let error = endpoint.connect_via(&client, &via, remote, "localhost").unwrap_err();
    assert!(error.to_string().starts_with("no interface `no-such-if0`"), "{error}");
}

/// The server's runtime is shut down: it panics nowhere, its handles say so, and the client times
/// out.
#[test]
fn a_peer_whose_runtime_is_gone() {
    let (server, client) = configs();
    let client = client.idle_timeout(Duration::from_millis(500));
    let theirs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = theirs.block_on(async { Endpoint::server(server, LOOPBACK).unwrap() });
    let address = server.local_addrs()[0];
    let accepted = theirs.spawn({
        let server = server.clone();
        async move { server.accept().await.unwrap().await.unwrap() }
    });
    let ours = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    ours.block_on(watchdog(async {
        let endpoint = Endpoint::client(LOOPBACK).unwrap();
        let connection = endpoint.connect_with(&client, address, "localhost").unwrap().await.unwrap();
        let accepted = accepted.await.unwrap();
        theirs.shutdown_background();
        // Data makes the client wait for an answer; without it the timer runs as well.
        let mut send = connection.open_uni().await.unwrap();
        let _ = send.write_all(b"anybody there?").await;
        assert_eq!(connection.closed().await, ConnectionError::TimedOut);
        assert_eq!(accepted.closed().await, ConnectionError::EndpointGone);
        accepted.close(0u8.into(), b"");
        assert!(accepted.open_bi().await.is_err());
        assert_eq!(server.open_connections(), 0);
        server.close(0u8.into(), b"");
    }));
}

/// Who waits for clients on another runtime hears that none will come.
#[test]
fn nobody_is_accepted_where_the_runtime_is_gone() {
    let (server, _) = configs();
    let theirs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = theirs.block_on(async { Endpoint::server(server, LOOPBACK).unwrap() });
    let ours = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    ours.block_on(watchdog(async {
        let waits = tokio::spawn({
            let server = server.clone();
            async move { server.accept().await.is_some() }
        });
        tokio::task::yield_now().await;
        theirs.shutdown_background();
        assert!(!waits.await.unwrap(), "who waited already");
        assert!(server.accept().await.is_none(), "who comes later");
        assert_eq!(server.local_addrs(), []);
    }));
}
