//! Several paths: opened, used, lost and closed while data flows.

use std::{net::IpAddr, time::Duration};

use mendpath::{
    BindError, Connection, OpenPathError, PathError, PathEvent, PathId, PathOptions, PathState, PathStatus,
    PathUpdate,
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::common::{LOOPBACK, Pair, check_pattern, configs, watchdog, write_pattern};

/// Any port of loopback, as a path starts there.
fn fresh() -> PathOptions {
    PathOptions::new().local(LOOPBACK).timeout(Duration::from_secs(60))
}

/// Checks one stream from the peer and returns its length.
fn receiver(server: Connection) -> JoinHandle<(u64, Connection)> {
    tokio::spawn(async move {
        let mut recv = server.accept_uni().await.unwrap();
        (check_pattern(&mut recv, 0).await, server)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_come_and_go_during_a_transfer() {
    const PART: u64 = 4 << 20;
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut events = client.path_updates();
        let received = receiver(server);
        let mut send = client.open_uni().await.unwrap();

        write_pattern(&mut send, 0, PART).await;
        let second = client.add_path(fresh()).await.unwrap().id();
        assert_ne!(second, PathId(0));
        assert_eq!(client.paths().len(), 2);
        assert_eq!(pair.client.local_addrs().len(), 2, "the path has a socket of its own");

        write_pattern(&mut send, PART, PART).await;
        client.path(PathId(0)).unwrap().close().unwrap();
        write_pattern(&mut send, 2 * PART, PART).await;
        send.finish().unwrap();
        send.finished().await.unwrap();

        let (length, server) = received.await.unwrap();
        assert_eq!(length, 3 * PART);
        let carried = server.path_stats().iter().find(|path| path.id == second).unwrap().bytes_received;
        assert!(carried >= PART, "the second path carried the last part alone, at least: {carried}");
        assert_eq!(client.path_stats().iter().filter(|path| path.state == PathState::Active).count(), 1);

        let mut seen = Vec::new();
        while !matches!(seen.last(), Some(PathEvent::Closed { .. })) {
            match events.next().await.unwrap() {
                PathUpdate::Event(event) => seen.push(event),
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.contains(&PathEvent::Validated(second)), "{seen:?}");
        assert!(
            matches!(seen.last(), Some(PathEvent::Closed { path: PathId(0), by_peer: false, .. })),
            "{seen:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_of_a_path_closes_with_it() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let before = pair.client.local_addrs();
        let path = client.add_path(fresh()).await.unwrap();
        assert_eq!(pair.client.local_addrs().len(), before.len() + 1);
        path.close().unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while pair.client.local_addrs() != before {
            tick.tick().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_path_waits_for_the_place_of_one_that_is_being_closed() {
    watchdog(async {
        let (server, client) = configs();
        let pair = Pair::with(server, client.max_paths(2));
        let (client, _server) = pair.connect().await;
        for _ in 0..3 {
            client.add_path(fresh()).await.unwrap().close().unwrap();
        }
        let _path = client.add_path(fresh()).await.unwrap();
        // Where nobody goes there is nothing to wait for.
        let error = client.add_path(fresh()).await.unwrap_err();
        assert!(matches!(error, OpenPathError::Path(PathError::TooManyPaths { max: 2 })), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_bound_socket_is_used_for_its_port() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let local = pair.client.bind(LOOPBACK).unwrap();
        let path = client.add_path(PathOptions::new().local(local)).await.unwrap();
        assert_eq!(pair.client.local_addrs().len(), 2);
        assert_eq!(path.network().unwrap().local, local);
        let error = client.add_path(PathOptions::new().local(local)).await.unwrap_err();
        assert!(
            matches!(error, OpenPathError::Path(PathError::AlreadyOpen(open)) if open == path.id()),
            "{error}"
        );
    })
    .await;
}

/// Of a socket that takes all of them, on a host that has several.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_path_starts_at_the_address_that_was_asked_for_also_over_a_socket_of_any() {
    use std::net::SocketAddr;

    use mendpath::Endpoint;

    watchdog(async {
        let (server, config) = configs();
        let server = Endpoint::server(server, LOOPBACK).unwrap();
        let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        let port = endpoint.local_addrs()[0].port();
        let at = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
        let to = server.local_addrs()[0];
        let via = PathOptions::new().local(at(2));
        let connecting = endpoint.connect_via(&config, &via, to, "localhost").unwrap();
        let accept = async { server.accept().await.unwrap().await };
        let (client, server) = tokio::join!(connecting, accept);
        let (client, server) = (client.unwrap(), server.unwrap());
        assert_eq!(server.remote_address(), at(2));
        let path = client.add_path(fresh().local(at(3))).await.unwrap();
        assert_eq!(path.network().unwrap().local, at(3));
        assert!(server.path_stats().iter().any(|path| path.network.remote == at(3)));
        path.migrate(&PathOptions::new().local(at(4))).unwrap();
        assert_eq!(path.network().unwrap().local, at(4));
        assert_eq!(endpoint.local_addrs().len(), 1);
        let foreign = SocketAddr::from(([192, 0, 2, 77], port));
        let error = client.add_path(PathOptions::new().local(foreign)).await.unwrap_err();
        assert!(matches!(error, OpenPathError::Local(BindError::Io { .. })), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_socket_of_two_paths_closes_with_the_second() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let relay = Relay::start(pair.address()).await;
        let before = pair.client.local_addrs();
        let first = client.add_path(fresh()).await.unwrap();
        let there = PathOptions::new().local(first.network().unwrap().local);
        let second = client.add_path(there.clone().remote(relay.address)).await.unwrap();
        assert_eq!(pair.client.local_addrs().len(), before.len() + 1);
        second.migrate(&there).unwrap();
        first.close().unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while first.stats().is_ok() {
            tick.tick().await;
        }
        // Longer than a socket lingers whose paths are gone.
        for _ in 0..60 {
            tick.tick().await;
        }
        assert_eq!(pair.client.local_addrs().len(), before.len() + 1);
        second.close().unwrap();
        while pair.client.local_addrs() != before {
            tick.tick().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_peer_is_where_a_path_is_open() {
    watchdog(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let relay = Relay::start(pair.address()).await;
        let _second = client.add_path(fresh().remote(relay.address)).await.unwrap();
        assert_eq!(client.remote_address(), pair.address());
        client.path(PathId(0)).unwrap().close().unwrap();
        assert_eq!(client.remote_address(), relay.address, "the first is being closed");
    })
    .await;
}

#[tokio::test]
async fn paths_that_cannot_be() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let missing = PathOptions::new().interface("no-such-if0");
        let error = client.add_path(missing).await.unwrap_err();
        assert!(matches!(error, OpenPathError::Local(BindError::NoSuchInterface { .. })), "{error}");
        let foreign = PathOptions::new().local_ip(IpAddr::from([192, 0, 2, 77]));
        let error = client.add_path(foreign).await.unwrap_err();
        assert!(matches!(error, OpenPathError::Local(BindError::Io { .. })), "{error}");
        let error = client.path(PathId(0)).unwrap().close().unwrap_err();
        assert!(matches!(error, PathError::LastPath), "{error}");
        assert!(client.path(PathId(99)).is_none());
        let nowhere = PathOptions::new().remote(LOOPBACK);
        let error = client.add_path(nowhere).await.unwrap_err();
        assert_eq!(error.to_string(), "no path leads to 127.0.0.1:0: no host or no port");
        // Nobody answers there.
        let silent = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        let options = fresh().remote(silent.local_addr().unwrap()).timeout(Duration::from_millis(200));
        let error = client.add_path(options).await.unwrap_err();
        assert!(matches!(error, OpenPathError::TimedOut { .. } | OpenPathError::Closed { .. }), "{error}");
        client.close(0u8.into(), b"");
        let error = client.add_path(fresh()).await.unwrap_err();
        assert!(matches!(error, OpenPathError::ConnectionLost(_)), "{error}");
        drop(server);
    })
    .await;
}

/// A host that moves about has many addresses in a connection's life, and hears of each that fails.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn each_local_address_that_fails_is_told_however_many_did_before() {
    const MANY: usize = 40;
    watchdog(async {
        // Paths that fail take their place for seconds.
        let (server, client) = configs();
        let pair = Pair::with(server.max_paths(64), client.max_paths(64));
        let (client, _server) = pair.connect().await;
        let mut updates = client.path_updates();
        // Nothing leaves a host from a loopback address.
        let outside = "192.0.2.1:9".parse().unwrap();
        let options = PathOptions::new().local(LOOPBACK).remote(outside).timeout(Duration::from_millis(20));
        let mut failed = 0;
        while failed < MANY {
            client.add_path(options.clone()).await.unwrap_err();
            while let Ok(update) = tokio::time::timeout(Duration::ZERO, updates.next()).await {
                failed += usize::from(matches!(update, Some(PathUpdate::LocalFailure { .. })));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_survives_a_path_whose_packets_vanish() {
    const LENGTH: u64 = 8 << 20;
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let relay = Relay::start(pair.address()).await;
        let path = client.add_path(fresh().remote(relay.address)).await.unwrap();
        let received = receiver(server);
        let mut send = client.open_uni().await.unwrap();
        write_pattern(&mut send, 0, LENGTH / 2).await;
        relay.cut.send(()).unwrap();
        write_pattern(&mut send, LENGTH / 2, LENGTH / 2).await;
        send.finish().unwrap();
        send.finished().await.unwrap();
        assert_eq!(received.await.unwrap().0, LENGTH);
        assert!(client.paths().iter().any(|open| open.id() == path.id()), "a silent path is kept and probed");
    })
    .await;
}

#[tokio::test]
async fn a_path_tells_about_itself_until_it_is_gone() {
    watchdog(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let path = client.add_path(fresh().status(PathStatus::Backup)).await.unwrap();
        assert_eq!((path.status(), path.id()), (Ok(PathStatus::Backup), PathId(1)));
        assert_eq!(path.stats().unwrap().state, PathState::Backup);
        assert_eq!(path.network().unwrap().remote, pair.address());
        assert_eq!(path.rtt().unwrap(), path.stats().unwrap().rtt);
        path.set_status(PathStatus::Available).unwrap();
        assert_eq!(
            (path.status(), path.stats().unwrap().state),
            (Ok(PathStatus::Available), PathState::Active)
        );
        assert_eq!(client.paths().iter().map(|path| path.id()).collect::<Vec<_>>(), [PathId(0), PathId(1)]);
        path.close().unwrap();
        let gone = PathError::Unknown(path.id());
        assert_eq!((path.status(), path.close()), (Err(gone.clone()), Err(gone.clone())));
        assert_eq!(path.set_status(PathStatus::Backup), Err(gone.clone()));
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while path.stats().is_ok() {
            tick.tick().await;
        }
        assert_eq!(path.rtt(), Err(gone));
        assert_eq!(client.paths().len(), 1);
        drop(server);
    })
    .await;
}

/// Forwards datagrams between one client and the server until it is cut.
struct Relay {
    address: std::net::SocketAddr,
    cut: oneshot::Sender<()>,
}

impl Relay {
    async fn start(server: std::net::SocketAddr) -> Self {
        let near = tokio::net::UdpSocket::bind(LOOPBACK).await.unwrap();
        let far = tokio::net::UdpSocket::bind(LOOPBACK).await.unwrap();
        far.connect(server).await.unwrap();
        let address = near.local_addr().unwrap();
        let (cut, mut is_cut) = oneshot::channel();
        tokio::spawn(async move {
            let (mut there, mut back) = ([0; 2_048], [0; 2_048]);
            let mut client = None;
            loop {
                tokio::select! {
                    _ = &mut is_cut => std::future::pending().await,
                    Ok((size, from)) = near.recv_from(&mut there) => {
                        client = Some(from);
                        let _ = far.send(&there[..size]).await;
                    }
                    Ok(size) = far.recv(&mut back) => {
                        if let Some(client) = client {
                            let _ = near.send_to(&back[..size], client).await;
                        }
                    }
                }
            }
        });
        Self { address, cut }
    }
}
