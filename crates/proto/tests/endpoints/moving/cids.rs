//! Connection ids under rotation, and what is said about their lack.

use mendpath_proto::{NetworkPath, PathError, PathId, TransportConfig};
use units::Duration;

use super::net::{MS, Net, addr, server_addr};

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn connection_ids_are_rotated_during_a_transfer() {
    let mut net = Net::new(TransportConfig::default());
    net.open_path(addr(3, 1_000));
    net.lose = Box::new(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 5);
    let mut rotations = 0;
    for from_server in [true, false] {
        net.transfer(from_server, 2_000_000, LIMIT, |net, _| {
            for id in [PathId(0), PathId(1)] {
                rotations += usize::from(net.client().rotate_cids(id));
                rotations += usize::from(net.server().rotate_cids(id));
            }
        });
    }
    assert!(rotations > 20, "{rotations}");
    assert!(!net.client().is_closed() && !net.server().is_closed());
    // What was rotated away is gone for the endpoints too: packets still find their way.
    net.run(Duration::from_secs(5));
    net.transfer(true, 100_000, LIMIT, |_, _| {});
}

#[test]
fn a_server_that_allows_fewer_paths_is_told_once() {
    let server = TransportConfig { max_paths: 2, ..TransportConfig::default() };
    let mut net = Net::with(TransportConfig::default(), server);
    net.open_path(addr(3, 1));
    let before = net.client().stats().packets_sent;
    for _ in 0..50 {
        let now = net.now;
        let path = NetworkPath { local: addr(3, 2), remote: server_addr() };
        assert!(matches!(net.client().open_path(now, path), Err(PathError::TooManyPaths { max: 2 })));
        net.run(MS * 100);
    }
    let sent = net.client().stats().packets_sent - before;
    assert!((1..10).contains(&sent), "{sent} packets");
    assert!(!net.client().is_closed() && !net.server().is_closed());
    // Path ids become free as paths end.
    let now = net.now;
    net.client().close_path(now, PathId(1), 0u8.into()).unwrap();
    net.run(Duration::from_secs(5));
    assert_eq!(net.open_path(addr(3, 2)), PathId(2));
}
