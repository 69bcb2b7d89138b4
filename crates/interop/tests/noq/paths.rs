//! Several paths (draft-ietf-quic-multipath-21): opened by either stack, used, closed by either,
//! lost, made a backup.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use mendpath::{Connection, PathEvent, PathId, PathOptions, PathState, PathUpdate};
use noq::PathStatus;
use tokio::{io::AsyncWriteExt as _, task::JoinHandle};
use tokio_stream::StreamExt as _;

use crate::common::{LOOPBACK, Lab, Pair, Relay, Role, Streams, check, watchdog, write};

/// Any port of another address of the loopback network.
const SECOND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 0);

/// What is sent in each direction before and after something happens to a path.
const HALF: u64 = 10_000_000;

/// Two endpoints that speak multipath, connected over one path. Ours has a second socket.
async fn multipath(role: Role) -> (Pair, SocketAddr) {
    let mut lab = Lab::new();
    lab.theirs.max_concurrent_multipath_paths(4);
    lab.theirs.default_path_max_idle_timeout(Some(Duration::from_secs(3)));
    let (ours, theirs) = lab.endpoints(role);
    let second = ours.bind(SECOND).unwrap();
    let server = match role {
        Role::Client => theirs.local_addr().unwrap(),
        Role::Server => ours.local_addrs()[0],
    };
    let pair = Pair::connect(ours, theirs, role, server).await;
    assert!(pair.ours.multipath_negotiated() && pair.theirs.is_multipath_enabled());
    (pair, second)
}

/// The client opens a second path, through `relay` if there is one.
async fn open_second(pair: &Pair, role: Role, second: SocketAddr, relay: Option<&Relay>) -> PathId {
    match role {
        Role::Client => {
            let options = PathOptions::new().timeout(Duration::from_secs(60));
            let options = match relay {
                Some(relay) => options.local(LOOPBACK).remote(relay.address),
                None => options.local(second),
            };
            pair.ours.add_path(options).await.unwrap().id()
        }
        Role::Server => {
            let mut events = pair.ours.path_updates();
            let remote = relay.map_or(second, |relay| relay.address);
            let path = loop {
                match pair.theirs.open_path(remote, PathStatus::Available).await {
                    // Our connection ids for it are still on their way.
                    Err(noq::PathError::RemoteCidsExhausted) => tokio::task::yield_now().await,
                    opened => break opened.unwrap(),
                }
            };
            let id = PathId(1);
            assert_eq!(path.id(), noq::PathId::from(id.0), "the first one after the handshake's");
            // Theirs is open once we have answered; ours, once they have.
            while !pair.ours.path_stats().iter().any(|path| path.id == id && path.state == PathState::Active)
            {
                events.next().await.unwrap();
            }
            id
        }
    }
}

/// A transfer in each direction, half of which is written.
struct Transfer {
    senders: [Sender; 2],
    receivers: [JoinHandle<u64>; 2],
}

type Sender = Box<dyn tokio::io::AsyncWrite + Send + Unpin>;

impl Transfer {
    async fn first_half(pair: &Pair) -> Self {
        let receivers = [receiver(pair.ours.clone()), receiver(pair.theirs.clone())];
        let [up, down] = [sender(pair.ours.clone()), sender(pair.theirs.clone())];
        Self { senders: [up.await.unwrap(), down.await.unwrap()], receivers }
    }

    async fn second_half(self) {
        let rest = self.senders.map(|mut stream| {
            tokio::spawn(async move {
                write(&mut stream, HALF, 2 * HALF).await;
                stream.shutdown().await.unwrap();
            })
        });
        for rest in rest {
            rest.await.unwrap();
        }
        for receiver in self.receivers {
            assert_eq!(receiver.await.unwrap(), 2 * HALF);
        }
    }
}

fn sender(connection: impl Streams) -> JoinHandle<Sender> {
    tokio::spawn(async move {
        let mut stream = connection.open_uni().await.unwrap();
        write(&mut stream, 0, HALF).await;
        Box::new(stream) as Sender
    })
}

fn receiver(connection: impl Streams) -> JoinHandle<u64> {
    tokio::spawn(async move { check(&mut connection.accept_uni().await.unwrap()).await })
}

fn stats(connection: &Connection, id: PathId) -> mendpath::PathStats {
    connection.path_stats().into_iter().find(|path| path.id == id).unwrap()
}

fn their_path(pair: &Pair, id: PathId) -> noq::Path {
    let id = noq::PathId::from(id.0);
    pair.theirs.path(id).unwrap()
}

/// Waits until a path is gone here, and says who closed it.
async fn closed(events: &mut mendpath::PathUpdates, id: PathId) -> bool {
    loop {
        if let PathUpdate::Event(PathEvent::Closed { path, by_peer, .. }) = events.next().await.unwrap()
            && path == id
        {
            return by_peer;
        }
    }
}

/// Both paths carry the first half, and the one that is left the second.
async fn a_path_is_removed(role: Role, by_us: bool) {
    let (pair, second) = multipath(role).await;
    let mut events = pair.ours.path_updates();
    let id = open_second(&pair, role, second, None).await;
    let transfer = Transfer::first_half(&pair).await;
    let before = stats(&pair.ours, id);
    if by_us {
        pair.ours.path(PathId(0)).unwrap().close().unwrap();
    } else {
        their_path(&pair, PathId(0)).close().unwrap();
    }
    assert_eq!(closed(&mut events, PathId(0)).await, !by_us);
    transfer.second_half().await;
    let after = stats(&pair.ours, id);
    // What was under way when the path closed may have arrived over either.
    assert!(after.bytes_received - before.bytes_received >= HALF / 10, "{after:?}");
    assert!(after.bytes_sent - before.bytes_sent >= HALF / 10, "{after:?}");
    assert!(pair.ours.close_reason().is_none() && pair.theirs.close_reason().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_remove_a_path_as_client() {
    watchdog(a_path_is_removed(Role::Client, true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_remove_a_path_as_server() {
    watchdog(a_path_is_removed(Role::Server, true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_remove_a_path_as_server() {
    watchdog(a_path_is_removed(Role::Client, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_remove_a_path_as_client() {
    watchdog(a_path_is_removed(Role::Server, false)).await;
}

/// One path goes silent in the middle; everything arrives over the other.
async fn a_path_is_lost(role: Role) {
    let (pair, second) = multipath(role).await;
    let server = match role {
        Role::Client => pair.their_endpoint.local_addr().unwrap(),
        Role::Server => second,
    };
    let relay = Relay::start(server).await;
    open_second(&pair, role, second, Some(&relay)).await;
    let transfer = Transfer::first_half(&pair).await;
    relay.cut();
    transfer.second_half().await;
    assert!(pair.ours.close_reason().is_none() && pair.theirs.close_reason().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_lost_as_client() {
    watchdog(a_path_is_lost(Role::Client)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_lost_as_server() {
    watchdog(a_path_is_lost(Role::Server)).await;
}

/// A path that either side makes a backup carries no data from us while the other works.
async fn a_backup(role: Role, by_us: bool) {
    let (pair, second) = multipath(role).await;
    let mut news = pair.theirs.path_events();
    let id = open_second(&pair, role, second, None).await;
    tokio::spawn(crate::common::echo(pair.theirs.clone()));
    if by_us {
        pair.ours.path(id).unwrap().set_status(mendpath::PathStatus::Backup).unwrap();
        loop {
            if let noq::PathEvent::RemoteStatus { id: path, status, .. } = news.next().await.unwrap().unwrap()
            {
                assert_eq!((path, status), (noq::PathId::from(id.0), PathStatus::Backup));
                break;
            }
        }
    } else {
        their_path(&pair, id).set_status(PathStatus::Backup).unwrap();
        // Nothing tells when it arrived but a look.
        while stats(&pair.ours, id).state != PathState::Backup {
            round_trip(&pair).await;
        }
    }
    // One after the other: should the regular path be silent for a moment, as on a busy machine,
    // few use the backup.
    let before = stats(&pair.ours, id).bytes_sent;
    for _ in 0..ROUND_TRIPS {
        round_trip(&pair).await;
    }
    let carried = stats(&pair.ours, id).bytes_sent - before;
    assert!(carried < (ROUND_TRIPS * ROUND_TRIP_BYTES / 2) as u64, "{carried} bytes over the backup");
}

const ROUND_TRIPS: usize = 200;
const ROUND_TRIP_BYTES: usize = 1_000;

async fn round_trip(pair: &Pair) {
    let (mut send, mut recv) = pair.ours.open_bi().await.unwrap();
    send.write_all(&[7; ROUND_TRIP_BYTES]).await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(ROUND_TRIP_BYTES).await.unwrap(), [7; ROUND_TRIP_BYTES]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_backup_as_client() {
    watchdog(a_backup(Role::Client, true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_backup_as_server() {
    watchdog(a_backup(Role::Server, true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_backup_as_server() {
    watchdog(a_backup(Role::Client, false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_backup_as_client() {
    watchdog(a_backup(Role::Server, false)).await;
}

/// An endpoint that has multipath off is a plain QUIC peer.
#[tokio::test]
async fn no_multipath_without_both() {
    watchdog(async {
        let pair = Lab::new().connect(Role::Client).await;
        assert!(!pair.ours.multipath_negotiated() && !pair.theirs.is_multipath_enabled());
        let error = pair.ours.add_path(PathOptions::new().local(SECOND)).await.unwrap_err();
        assert!(
            matches!(error, mendpath::OpenPathError::Path(mendpath::PathError::MultipathNotNegotiated)),
            "{error}"
        );
    })
    .await;
}
