//! The link of CTCP's lab (sections 6.2 to 6.4), and what is asked of more than one controller there.

use mendpath_congestion::ControllerKind;
use units::Duration;

use super::{Link, Network, Path};

/// 25 Mbit/s, 25 ms, a buffer of `quarters` quarters of a bandwidth-delay product.
pub fn lab(quarters: u64, seed: u64) -> Network {
    Network::new(&[Link::new(25, 78_125 * quarters / 4)], seed)
}

/// Goodputs of two flows, the second of which starts at second 5, from second 15 to 45.
pub fn pair(kinds: [ControllerKind; 2], quarters: u64, loss: f64, seed: u64) -> [f64; 2] {
    let mut network = lab(quarters, seed);
    network.flow(kinds[0], &[Path::new(25).loss(loss)], Duration::ZERO);
    network.flow(kinds[1], &[Path::new(25).loss(loss)], Duration::from_secs(5));
    let rates = network.goodput(15, 45);
    [rates[0][0], rates[1][0]]
}

/// Goodput at 25 Mbit/s where round trips vary by 5 ms to both sides.
pub fn goodput_with_jitter(kind: ControllerKind, rtt: u64, loss: f64, reorder: bool) -> f64 {
    let mut network = Network::new(&[Link::new(25, 25_000 / 8 * rtt * 5 / 4)], 6);
    network.flow(kind, &[Path::new(rtt).loss(loss).jitter(5, reorder)], Duration::ZERO);
    network.goodput(2, 22)[0][0]
}

/// Goodput from 3 to 13 s after a path that loses 5 % has got another round trip, in ms.
pub fn goodput_on_another_route(kind: ControllerKind, before: u64, after: u64) -> f64 {
    let mut network = lab(5, 7);
    network.flow(kind, &[Path::new(before).loss(0.05)], Duration::ZERO);
    network.run_until(Duration::from_secs(20));
    network.path_mut(0, 0).rtt = Duration::from_millis(after);
    network.goodput(23, 33)[0][0]
}
