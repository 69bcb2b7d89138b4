//! What a connection holds in memory once its handshake is over and nothing is under way.

#[path = "endpoints/common/mod.rs"]
mod common;

use common::{Pair, Peer};
use mendpath_proto::{Connection, Dir, Read, Side, StreamId, TransportConfig};
use peak_alloc::PeakAlloc;
use units::Duration;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Longer than a connection takes to rest.
const A_WHILE: Duration = Duration::from_secs(5);

/// Bytes that an end's connection held, which is gone now.
fn held(peer: &mut Peer) -> usize {
    let before = ALLOCATOR.current_usage();
    drop(peer.connection.take());
    before - ALLOCATOR.current_usage()
}

/// Bytes by which both ends grow or shrink in a while.
fn change(pair: &mut Pair, time: Duration) -> isize {
    let before = ALLOCATOR.current_usage() as isize;
    pair.run(time);
    ALLOCATOR.current_usage() as isize - before
}

fn idle_pair() -> Pair {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.run(A_WHILE);
    pair
}

/// One test alone: others would allocate meanwhile.
#[test]
fn an_idle_connection_holds_little() {
    let mut pair = idle_pair();
    let (client, server) = (held(&mut pair.client), held(&mut pair.server));
    println!("client {client} bytes, server {server} bytes");
    assert!(server < 8_350, "{server}");
    assert!(client < 9_350, "{client}");
    // An allocator's sizes are some steps apart: one byte more may cost 512.
    assert!(size_of::<Connection>() <= 2_560, "{}", size_of::<Connection>());
    what_traffic_leaves_is_given_back();
}

/// After a while, and not at once: who says something every second does not pay for it.
fn what_traffic_leaves_is_given_back() {
    let mut pair = idle_pair();
    transfer(&mut pair, 0, 300_000);
    let given_back = -change(&mut pair, A_WHILE);
    for stream in 1..5 {
        transfer(&mut pair, stream, 1);
        let in_between = -change(&mut pair, Duration::from_secs(1));
        assert!(in_between < 1_000, "{in_between}");
    }
    pair.run(A_WHILE);
    let (client, server) = (held(&mut pair.client), held(&mut pair.server));
    println!("after a transfer {given_back} bytes given back: client {client} bytes, server {server} bytes");
    // The sent packets' plaintexts, another 100 kB, were the streams' bytes and never kept beside them.
    assert!((450_000..500_000).contains(&given_back), "{given_back}");
    assert!(server < 8_650, "{server}");
    assert!(client < 9_600, "{client}");
}

/// Sends so many bytes on the client's stream of this index, of which nothing is left.
fn transfer(pair: &mut Pair, index: u64, len: usize) {
    pair.transfer(len, A_WHILE);
    pair.run(Duration::from_millis(10));
    let id = StreamId::new(Side::Client, Dir::Bi, index);
    assert_eq!(pair.client().read(id, &mut [0]), Ok(Read::Finished));
}
