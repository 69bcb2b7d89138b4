//! What a connection holds in memory once its handshake is over and nothing is under way.

mod common;

use common::{Pair, Peer};
use mendpath_proto::TransportConfig;
use peak_alloc::PeakAlloc;
use units::Duration;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes that an end's connection held, which is gone now.
fn held(peer: &mut Peer) -> usize {
    let before = ALLOCATOR.current_usage();
    drop(peer.connection.take());
    before - ALLOCATOR.current_usage()
}

/// One test alone: others would allocate meanwhile.
#[test]
fn an_idle_connection_holds_little() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.run(Duration::from_secs(5));
    // A client's TLS session stays: tickets may come at any time.
    let (client, server) = (held(&mut pair.client), held(&mut pair.server));
    println!("client {client} bytes, server {server} bytes");
    assert!(server < 15_700, "{server}");
    assert!(client < 29_500, "{client}");
}
