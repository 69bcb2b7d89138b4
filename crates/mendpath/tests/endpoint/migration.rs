//! Clients whose sockets change under their connections.

use std::net::UdpSocket;

use mendpath::{ClientConfig, Connection, OpenPathError, PathError, PathId, PathOptions, ServerConfig};

use crate::common::{LOOPBACK, Pair, configs, echo, watchdog};

async fn exchange(connection: &Connection, text: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(text).await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(100).await.unwrap(), text);
}

/// Both ends of a connection in use, whose server sends back what it hears.
async fn in_use(server: ServerConfig, client: ClientConfig) -> (Pair, Connection, Connection) {
    let pair = Pair::with(server, client);
    let (client, server) = pair.connect().await;
    tokio::spawn(echo(server.clone()));
    exchange(&client, b"before").await;
    (pair, client, server)
}

#[tokio::test]
async fn an_endpoint_is_rebound_under_its_connections() {
    watchdog(async {
        for max_paths in [1, 8] {
            let (server, client) = configs();
            let (server, client) = (server.max_paths(max_paths), client.max_paths(max_paths));
            let (pair, client, server) = in_use(server, client).await;
            let new = pair.client.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
            exchange(&client, b"after").await;
            assert_eq!(client.paths()[0].network().unwrap().local, new);
            assert_eq!(server.remote_address(), new);
            assert_eq!(pair.client.local_addrs(), [new]);
        }
    })
    .await;
}

/// Both cannot start at any address, which is where the first one starts.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_paths_over_a_socket_of_any_address_move_to_another_one() {
    use std::net::SocketAddr;

    use mendpath::Endpoint;

    watchdog(async {
        let (server, client) = configs();
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let client = Endpoint::builder().bind(any).client(client).build().unwrap();
        let pair = Pair { server: Endpoint::server(server, LOOPBACK).unwrap(), client };
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let second = |port: u16| SocketAddr::from(([127, 0, 0, 3], port));
        let local = second(pair.client.local_addrs()[0].port());
        client.add_path(PathOptions::new().local(local)).await.unwrap();
        let new = pair.client.rebind(UdpSocket::bind(any).unwrap()).unwrap();
        while client.paths().iter().map(|path| path.network().unwrap().local).ne([new, second(new.port())]) {
            exchange(&client, b"not yet").await;
        }
        exchange(&client, b"there").await;
    })
    .await;
}

#[tokio::test]
async fn one_path_moves_to_a_socket_of_its_own() {
    watchdog(async {
        let (server, client) = configs();
        let (_pair, client, server) = in_use(server, client).await;
        let path = client.path(PathId(0)).unwrap();
        path.migrate(&PathOptions::new().local_ip([127, 0, 0, 2].into())).unwrap();
        exchange(&client, b"after").await;
        assert_eq!(server.remote_address().ip(), std::net::IpAddr::from([127, 0, 0, 2]));
        assert!(client.path(PathId(5)).is_none());
        let error = server.path(PathId(0)).unwrap().migrate(&PathOptions::new()).unwrap_err();
        assert!(matches!(error, OpenPathError::Path(PathError::NotClient)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_server_may_forbid_it() {
    watchdog(async {
        let (server, client) = configs();
        let (_pair, client, _server) = in_use(server.migration(false), client).await;
        let error = client.path(PathId(0)).unwrap().migrate(&PathOptions::new()).unwrap_err();
        assert!(matches!(error, OpenPathError::Path(PathError::MigrationDisabled)), "{error}");
        exchange(&client, b"after").await;
    })
    .await;
}

#[tokio::test]
async fn rebound_more_often_than_there_are_connection_ids_it_moves_when_the_next_has_come() {
    watchdog(async {
        for max_paths in [1, 8] {
            let (server, client) = configs();
            let (server, client) = (server.max_paths(max_paths), client.max_paths(max_paths));
            let (pair, client, server) = in_use(server, client).await;
            let mut new = LOOPBACK;
            for _ in 0..20 {
                new = pair.client.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
            }
            assert_eq!(pair.client.local_addrs(), [new]);
            while client.paths()[0].network().unwrap().local != new {
                exchange(&client, b"after").await;
            }
            exchange(&client, b"there").await;
            assert_eq!(server.remote_address(), new);
        }
    })
    .await;
}

#[tokio::test]
async fn rebound_within_its_handshake_a_connection_moves_after_it() {
    watchdog(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address(), "localhost").unwrap();
        let new = pair.client.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
        let accept = async { pair.server.accept().await.expect("the server is open").await };
        let (client, server) = tokio::join!(connecting, accept);
        let client = client.unwrap();
        tokio::spawn(echo(server.unwrap()));
        while client.paths()[0].network().unwrap().local != new {
            exchange(&client, b"not yet").await;
        }
        exchange(&client, b"there").await;
    })
    .await;
}
