//! Probes of a path that carries what is of use for a moment (docs/decisions/0039-live-probes.md).

use std::cell::Cell;

use mendpath_proto::{DatagramOptions, TransportConfig};
use units::Duration;

use super::net::{MS, Net};

/// How long a call may stand still before the test gives up.
const LIMIT: Duration = Duration::from_secs(30);

/// A burst that ends after a number of packets takes the ACKs of a whole window, and what is left are
/// probes.
#[test]
fn a_call_uses_up_a_long_burst_in_seconds() {
    let mut net = Net::new(TransportConfig { max_paths: 1, ..TransportConfig::default() });
    let call = DatagramOptions::new().within(std::time::Duration::from_millis(150));
    let mut stands_still = |burst: u64| {
        net.run(MS * 200);
        while net.client().receive_datagram().is_some() {}
        let left = Cell::new(burst);
        net.lose = Box::new(move |_| left.replace(left.get().saturating_sub(1)) > 0);
        let start = net.now;
        loop {
            let now = net.now;
            // One that finds no room is late anyway.
            let _ = net.server().send_datagram_with(now, vec![7; 1_100].into(), call);
            net.run(MS * 5);
            if net.client().receive_datagram().is_some() {
                return net.now - start;
            }
            assert!(net.now - start < LIMIT);
        }
    };
    for (burst, at_most) in [(0, 20), (30, 500), (50, 1_500)] {
        let still = stands_still(burst);
        println!("{burst} packets: {still}");
        assert!(still <= MS * at_most, "{burst} packets: {still}");
    }
}
