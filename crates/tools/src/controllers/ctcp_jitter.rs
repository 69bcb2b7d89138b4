//! What jitter, loss and route changes do to `ctcp`: the figures of
//! docs/decisions/0008-ctcp-delay-signal.md.

use super::network::{Link, Network, Path};
use congestion::ControllerKind;
use units::Duration;

/// Rate of the bottleneck in Mbit/s.
const RATE: u64 = 25;
/// Loss rates in per cent.
const LOSSES: [u64; 5] = [0, 1, 5, 10, 20];

/// A buffer of one and a quarter bandwidth-delay products, in bytes.
fn buffer(rtt_ms: u64) -> u64 {
    RATE * 1_000_000 / 8 * rtt_ms / 1_000 * 5 / 4
}

/// Goodput as a share of the capacity, from second 2 to 32, and the mean time in the queue in ms.
fn share_and_queue(kind: ControllerKind, path: Path) -> (f64, f64) {
    let mut network = Network::new(&[Link::new(RATE, buffer(path.rtt.as_millis()))], 1);
    network.flow(kind, &[path], Duration::ZERO);
    let share = network.goodput(2, 32)[0][0] / RATE as f64;
    (share, network.mean_rtt(0, 0) - path.rtt.as_millis_f64())
}

/// Prints them.
pub fn run() {
    let kinds = [ControllerKind::Ctcp, ControllerKind::NewReno, ControllerKind::Cubic];
    println!(
        "One flow, {RATE} Mbit/s, buffer 1.25 BDP, 30 s: goodput in per cent of the capacity / mean time in the queue in ms,\nthat behind late packets included\n"
    );
    println!("| RTT | jitter | controller | loss 0 % | 1 % | 5 % | 10 % | 20 % |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for rtt in [10, 25, 100] {
        for (name, span, reorder) in
            [("none", 0, false), ("5 ms, in order", 5, false), ("5 ms, reordering", 5, true)]
        {
            for kind in kinds {
                let cell = |loss: u64| {
                    let path = Path::new(rtt).loss(loss as f64 / 100.0).jitter(span, reorder);
                    let (share, queue) = share_and_queue(kind, path);
                    format!("{:.1} / {queue:.1}", 100.0 * share)
                };
                let cells: Vec<String> = LOSSES.into_iter().map(cell).collect();
                println!("| {rtt} ms | {name} | {kind} | {} |", cells.join(" | "));
            }
        }
    }
    route_change();
}

/// The round-trip time triples after 20 s.
fn route_change() {
    println!(
        "\nRTT from 25 to 75 ms (and from 75 to 25 ms) at second 20, 5 % loss: Mbit/s of `ctcp` per second\n"
    );
    for (before, after) in [(25, 75), (75, 25)] {
        let mut network = Network::new(&[Link::new(RATE, buffer(before))], 1);
        network.flow(ControllerKind::Ctcp, &[Path::new(before).loss(0.05)], Duration::ZERO);
        network.goodput(0, 20);
        network.path_mut(0, 0).rtt = Duration::from_millis(after);
        let rates: Vec<String> =
            (20..35).map(|second| format!("{:.1}", network.goodput(second, second + 1)[0][0])).collect();
        println!("{before} to {after} ms: {}", rates.join(" "));
    }
}
