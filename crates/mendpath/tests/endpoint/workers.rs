//! Servers with several workers. Where the system cannot steer they have one, and all holds as well.

use std::net::{SocketAddr, UdpSocket};

use mendpath::{Connection, ConnectionError, Endpoint, PathOptions, QuicLb, VarInt};

use crate::common::{LOOPBACK, Pair, check_pattern, configs, echo, watchdog, write_pattern};

const WORKERS: usize = if cfg!(target_os = "linux") { 4 } else { 1 };

fn pair(quic_lb: Option<QuicLb>) -> Pair {
    let (server, client) = configs();
    let builder = Endpoint::builder().server(server).bind(LOOPBACK).workers(4);
    let builder = match quic_lb {
        Some(config) => builder.quic_lb(config),
        None => builder,
    };
    let server = builder.build().unwrap();
    assert_eq!(server.workers(), WORKERS);
    let client = Endpoint::builder().bind(LOOPBACK).client(client).build().unwrap();
    Pair { server, client }
}

/// Echoes for every client, on the thread of its connection.
fn serve(server: Endpoint) {
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let runtime = incoming.runtime();
            runtime.spawn(async move { echo(incoming.await.unwrap()).await });
        }
    });
}

async fn connect(pair: &Pair) -> Connection {
    pair.client.connect(pair.address(), "localhost").unwrap().await.unwrap()
}

async fn exchange(connection: &Connection, bytes: u64) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let write = async {
        write_pattern(&mut send, 0, bytes).await;
        send.finish().unwrap();
    };
    let ((), end) = tokio::join!(write, check_pattern(&mut recv, 0));
    assert_eq!(end, bytes);
}

fn from(host: u8) -> PathOptions {
    PathOptions::new().local_ip([127, 0, 0, host].into())
}

/// Three paths from three addresses, and one of them moves to a fourth: all reach the worker that
/// has the connection, in the kernel.
#[tokio::test]
async fn paths_from_several_addresses_reach_one_connection() {
    watchdog(async {
        let readable = QuicLb::new(2, b"here", 8).unwrap().with_key(&[3; 16]);
        for quic_lb in [None, Some(readable)] {
            let pair = pair(quic_lb);
            serve(pair.server.clone());
            let mut connections = Vec::new();
            for _ in 0..16 {
                let connection = connect(&pair).await;
                let second = connection.add_path(from(2)).await.unwrap();
                connection.add_path(from(3)).await.unwrap();
                exchange(&connection, 60_000).await;
                second.migrate(&from(4)).unwrap();
                exchange(&connection, 60_000).await;
                assert_eq!(connection.paths().len(), 3);
                connections.push(connection);
            }
            let by_worker = pair.server.connections_by_worker();
            assert_eq!((by_worker.len(), by_worker.iter().sum::<usize>()), (WORKERS, 16));
            if WORKERS > 1 {
                assert!(by_worker.iter().filter(|n| **n > 0).count() > 1, "{by_worker:?}");
            }
            assert_eq!(pair.server.stats().misdirected, 0);
            assert_eq!(pair.server.open_connections(), 16);
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_bound_anew_keeps_its_connections() {
    watchdog(async {
        let pair = pair(None);
        serve(pair.server.clone());
        let connections = [connect(&pair).await, connect(&pair).await, connect(&pair).await];
        for _ in 0..2 {
            for connection in &connections {
                exchange(connection, 1_000).await;
            }
            pair.client.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
        }
        assert_eq!((pair.server.stats().accepted, pair.server.stats().misdirected), (3, 0));
    })
    .await;
}

/// All connections end, and with the last handle the sockets of all workers close: the address is
/// free again.
#[tokio::test]
async fn closing_ends_every_worker() {
    watchdog(async {
        let pair = pair(None);
        let address = pair.address();
        serve(pair.server.clone());
        let mut connections = Vec::new();
        for _ in 0..8 {
            let connection = connect(&pair).await;
            // The server, too, has completed the handshake: its words may be read.
            exchange(&connection, 1).await;
            connections.push(connection);
        }
        pair.server.close(VarInt::from_u32(7), b"enough");
        for connection in &connections {
            let closed = connection.closed().await;
            assert!(matches!(closed, ConnectionError::ApplicationClosed { .. }), "{closed}");
        }
        pair.server.wait_idle().await;
        assert_eq!(pair.server.open_connections(), 0);
        assert!(pair.server.accept().await.is_none());
        drop(pair);
        while UdpSocket::bind(address).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// What works for a client of the only worker is on its thread, and what does not ask for workers is
/// where the endpoint was made.
#[tokio::test]
async fn one_worker_has_a_thread_of_its_own() {
    watchdog(async {
        let here = std::thread::current().id();
        for workers in [Some(1), None] {
            let (server, client) = configs();
            let builder = Endpoint::builder().server(server).bind(LOOPBACK);
            let builder = workers.into_iter().fold(builder, mendpath::EndpointBuilder::workers);
            let server = builder.build().unwrap();
            let client = Endpoint::builder().bind(LOOPBACK).client(client).build().unwrap();
            let pair = Pair { server, client };
            assert_eq!(pair.server.workers(), 1);
            let (_connected, (_accepted, thread)) = tokio::join!(connect(&pair), async {
                let incoming = pair.server.accept().await.unwrap();
                let runtime = incoming.runtime();
                let served = runtime.spawn(async move {
                    let connection = incoming.await.unwrap();
                    (connection, std::thread::current().id())
                });
                served.await.unwrap()
            });
            assert_eq!(thread == here, workers.is_none());
        }
    })
    .await;
}

/// A socket that others have bound, as a service manager hands over, is one socket: one worker. One
/// that is added later is received by one worker and used by all.
#[tokio::test]
async fn sockets_of_others_serve_too() {
    watchdog(async {
        let (server, _) = configs();
        let socket = UdpSocket::bind(LOOPBACK).unwrap();
        let alone = Endpoint::builder().server(server).socket(socket).workers(4).build().unwrap();
        assert_eq!(alone.workers(), 1);
        let pair = pair(None);
        let added = pair.server.add_socket(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
        let bound = pair.server.bind(SocketAddr::from(([127, 0, 0, 9], 0))).unwrap();
        assert_eq!(pair.server.local_addrs(), [pair.address(), added, bound]);
        serve(pair.server.clone());
        for to in [added, bound] {
            for _ in 0..8 {
                let connection = pair.client.connect(to, "localhost").unwrap().await.unwrap();
                exchange(&connection, 60_000).await;
            }
        }
        if WORKERS > 1 {
            assert!(pair.server.stats().misdirected > 0, "some were for others than the first worker");
        }
    })
    .await;
}
