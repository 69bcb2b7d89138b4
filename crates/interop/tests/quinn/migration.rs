//! The client's address changes in the middle of a transfer (RFC 9000 section 9): it moves, or a
//! NAT on the way forgets.

use std::net::UdpSocket;

use tokio::{io::AsyncWriteExt as _, task::JoinHandle};

use crate::common::{LOOPBACK, Lab, Pair, Relay, Role, Streams, check, watchdog, write};

/// What is sent in each direction before and after.
const HALF: u64 = 2_000_000;

enum Move {
    /// The client's endpoint gets another socket.
    Rebind,
    /// Nobody at either end knows.
    Nat,
}

async fn a_client_moves(role: Role, how: Move) {
    let (ours, theirs) = Lab::new().endpoints(role);
    let server = match role {
        Role::Client => theirs.local_addr().unwrap(),
        Role::Server => ours.local_addrs()[0],
    };
    let relay = Relay::start(server).await;
    let target = if matches!(how, Move::Nat) { relay.address } else { server };
    let pair = Pair::connect(ours, theirs, role, target).await;
    let seen = client_address(&pair, role);
    let receivers = [receiver(pair.ours.clone()), receiver(pair.theirs.clone())];
    let mut here = pair.ours.open_uni().await.unwrap();
    let mut there = pair.theirs.open_uni().await.unwrap();
    tokio::join!(write(&mut here, 0, HALF), write(&mut there, 0, HALF));
    match (how, role) {
        (Move::Nat, _) => relay.rebind(),
        (Move::Rebind, Role::Client) => {
            pair.our_endpoint.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
        }
        (Move::Rebind, Role::Server) => {
            pair.their_endpoint.rebind(UdpSocket::bind(LOOPBACK).unwrap()).unwrap();
        }
    }
    tokio::join!(write(&mut here, HALF, 2 * HALF), write(&mut there, HALF, 2 * HALF));
    here.shutdown().await.unwrap();
    there.shutdown().await.unwrap();
    for receiver in receivers {
        assert_eq!(receiver.await.unwrap(), 2 * HALF);
    }
    assert_ne!(client_address(&pair, role), seen, "the server has followed");
}

/// Where the server sees the client.
fn client_address(pair: &Pair, role: Role) -> std::net::SocketAddr {
    match role {
        Role::Client => pair.theirs.remote_address(),
        Role::Server => pair.ours.remote_address(),
    }
}

fn receiver(connection: impl Streams) -> JoinHandle<u64> {
    tokio::spawn(async move { check(&mut connection.accept_uni().await.unwrap()).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_moves() {
    watchdog(a_client_moves(Role::Client, Move::Rebind)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_client_moves() {
    watchdog(a_client_moves(Role::Server, Move::Rebind)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_is_moved_by_a_nat() {
    watchdog(a_client_moves(Role::Client, Move::Nat)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_client_is_moved_by_a_nat() {
    watchdog(a_client_moves(Role::Server, Move::Nat)).await;
}
