//! Path MTU discovery (RFC 8899) over links of limited size.

use mendpath_proto::{PathId, TransportConfig};
use units::Duration;

use super::net::{MS, Net, addr};

const LIMIT: Duration = Duration::from_secs(60);

fn up_to(max_datagram_size: u16) -> TransportConfig {
    TransportConfig { max_datagram_size, ..TransportConfig::default() }
}

/// Sends from the server until its path has found `mtu`, closely enough.
fn find(net: &mut Net, mtu: usize) {
    for _ in 0..200 {
        net.transfer(true, 50_000, LIMIT, |_, _| {});
        let found = usize::from(net.server_path(PathId(0)).mtu);
        if (mtu - 19..=mtu).contains(&found) {
            return;
        }
    }
    panic!("{mtu} not found: {:?}", net.server().paths());
}

#[test]
fn links_of_every_size_are_found() {
    for mtu in [1_200, 1_280, 1_400, 1_500, 9_000] {
        let mut net = Net::with_mtu(up_to(9_000), mtu);
        find(&mut net, mtu);
        assert!(net.largest <= mtu);
        assert!(net.oversized <= 2 * 33, "{} probes too many", net.oversized);
        let lost = net.client().stats().packets_lost + net.server().stats().packets_lost;
        assert_eq!(lost, 0, "probes are no losses");
    }
}

#[test]
fn a_transfer_survives_a_route_that_narrows() {
    for (from, to) in [(1_452, 1_300), (9_000, 1_400), (1_452, 1_200)] {
        let mut net = Net::with_mtu(up_to(9_000), from);
        find(&mut net, from);
        let took = net.transfer(true, 2_000_000, LIMIT, |net, received| {
            if received > 500_000 {
                net.mtu = to;
            }
        });
        assert!(took < Duration::from_secs(5), "{took} to notice that {from} became {to}");
        assert_eq!(net.server_path(PathId(0)).mtu, 1_200);
        // Later the search begins again.
        net.run(Duration::from_secs(20));
        for _ in 0..25 {
            net.run(Duration::from_secs(2));
            net.transfer(true, 50_000, LIMIT, |_, _| {});
        }
        find(&mut net, to);
    }
}

/// One of two paths narrows: packets that were sent large are repaired and repeated in small ones.
#[test]
fn repair_fits_the_smaller_path() {
    let mut net = Net::with_mtu(up_to(1_452), 1_452);
    net.open_path(addr(3, 1_000));
    net.lose = Box::new(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 5);
    for round in 0..20 {
        net.mtu = if round % 4 == 1 { 1_250 } else { 1_452 };
        let took = net.transfer(true, 200_000, LIMIT, |_, _| {});
        assert!(took < Duration::from_secs(8), "{took} in round {round}");
        net.run(MS * 500);
    }
}

#[test]
fn a_wider_route_is_found_after_ten_minutes() {
    let mut net = Net::with_mtu(
        TransportConfig { keep_alive: Some(Duration::from_secs(10).into()), ..up_to(1_452) },
        1_200,
    );
    // So much traffic that the first search has ended.
    for _ in 0..30 {
        net.transfer(true, 50_000, LIMIT, |_, _| {});
    }
    net.mtu = 1_500;
    net.run(Duration::from_secs(500));
    assert_eq!(net.server_path(PathId(0)).mtu, 1_200);
    net.run(Duration::from_secs(200));
    assert_eq!(net.server_path(PathId(0)).mtu, 1_452);
}
