//! What `auto` is chosen by: goodput alone, shares beside others, what others lose; the figures of
//! docs/decisions/0011-auto-congestion.md and 0014-bursty-loss.md.

use super::network::{self, Chain, Link, Network, Path};
use clap::{Args, builder::PossibleValuesParser};
use congestion::ControllerKind::{self, Auto, Ctcp, Cubic, NewReno};
use units::Duration;

const KINDS: [ControllerKind; 4] = [Auto, Ctcp, Cubic, NewReno];
/// Rates in Mbit/s, round-trip times in ms, buffers in bandwidth-delay products and jitter in ms
/// that losses are tried on.
const CASES: [(u64, u64, f64, u64); 5] =
    [(25, 25, 1.25, 0), (25, 25, 1.25, 5), (25, 25, 0.25, 5), (5, 20, 1.0, 0), (100, 50, 1.0, 0)];
const LOSSES: [f64; 5] = [0.0, 0.01, 0.05, 0.1, 0.2];
/// Runs per figure, each with another seed, unless the environment says otherwise.
const SEEDS: u64 = 2;

/// A bottleneck of `rate` Mbit/s with a buffer of `share` of the bandwidth-delay product, at least
/// eight packets.
fn link(rate: u64, rtt_ms: u64, share: f64) -> Link {
    let product = (rate * 125_000 * rtt_ms / 1_000) as f64;
    Link::new(rate, ((product * share) as u64).max(8 * network::SIZE))
}

fn mean(run: impl Fn(u64) -> f64) -> f64 {
    let seeds = std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    (1..=seeds).map(run).sum::<f64>() / seeds as f64
}

/// Goodput of a lone flow, in per cent of the capacity, from second 0 to 30.
fn alone(kind: ControllerKind, rate: u64, buffer: f64, path: Path) -> f64 {
    mean(|seed| {
        let mut network = Network::new(&[link(rate, path.rtt.as_millis(), buffer)], seed);
        network.flow(kind, &[path], Duration::ZERO);
        100.0 * network.goodput(0, 30)[0][0] / rate as f64
    })
}

/// Goodputs in Mbit/s of two flows from second 15 to 45; the second starts at second 5.
fn pair(kinds: (ControllerKind, ControllerKind), rate: u64, buffer: f64, path: Path) -> (f64, f64) {
    let run = |seed| {
        let mut network = Network::new(&[link(rate, path.rtt.as_millis(), buffer)], seed);
        network.flow(kinds.0, &[path], Duration::ZERO);
        network.flow(kinds.1, &[path], Duration::from_secs(5));
        let rates = network.goodput(15, 45);
        (rates[0][0], rates[1][0])
    };
    (mean(|seed| run(seed).0), mean(|seed| run(seed).1))
}

fn goodputs(kinds: &[ControllerKind]) {
    println!("\nOne flow, 30 s from its start: goodput in per cent of the capacity\n");
    println!("| Mbit/s, RTT | buffer | jitter | controller | loss 0 % | 1 % | 5 % | 10 % | 20 % |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (rate, rtt, buffer, jitter) in CASES {
        for &kind in kinds {
            let cells: Vec<String> = LOSSES
                .into_iter()
                .map(|loss| {
                    let path = Path::new(rtt).loss(loss).jitter(jitter, false);
                    format!("{:.1}", alone(kind, rate, buffer, path))
                })
                .collect();
            println!("| {rate}, {rtt} ms | {buffer} | {jitter} ms | {kind} | {} |", cells.join(" | "));
        }
    }
}

fn jitters(kinds: &[ControllerKind]) {
    println!(
        "\nOne flow, one bandwidth-delay product of buffer, jitter that keeps order: goodput in per cent of the \
         capacity in the first 2 s / from there to 10 s / to 30 s\n"
    );
    println!("| Mbit/s, RTT | jitter | controller | loss 0 % | 0.5 % | 2 % |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let parts = [(0, 2), (2, 10), (10, 30)];
    for (rate, rtt) in [(25, 25), (25, 100), (100, 20), (100, 70), (300, 30), (300, 100)] {
        for jitter in [2, 6, 12, 25].into_iter().filter(|jitter| 2 * jitter <= rtt) {
            for &kind in kinds {
                let cells: Vec<String> = [0.0, 0.005, 0.02]
                    .into_iter()
                    .map(|loss| {
                        let path = Path::new(rtt).loss(loss).jitter(jitter, false);
                        let part = |(from, to)| {
                            let rate = mean(|seed| {
                                let mut network = Network::new(&[link(rate, rtt, 1.0)], seed);
                                network.flow(kind, &[path], Duration::ZERO);
                                100.0 * network.goodput(from, to)[0][0] / rate as f64
                            });
                            format!("{rate:.0}")
                        };
                        parts.map(part).join(" / ")
                    })
                    .collect();
                println!("| {rate}, {rtt} ms | {jitter} ms | {kind} | {} |", cells.join(" | "));
            }
        }
    }
}

fn shares() {
    println!(
        "\nTwo flows without loss: share of the first named, when it comes first / when it comes second\n"
    );
    println!("| Mbit/s, RTT | buffer | jitter | pair | share |");
    println!("| --- | --- | --- | --- | --- |");
    for (rate, rtt) in [(25, 25)] {
        for (buffer, jitter) in [(0.25, 0), (0.5, 0), (1.0, 0), (4.0, 0), (1.0, 5), (0.25, 5)] {
            for (one, other) in
                [(Auto, Cubic), (Auto, NewReno), (Auto, Auto), (Ctcp, Cubic), (Cubic, NewReno)]
            {
                let path = Path::new(rtt).jitter(jitter, false);
                let (a, b) = pair((one, other), rate, buffer, path);
                let (c, d) = pair((other, one), rate, buffer, path);
                println!(
                    "| {rate}, {rtt} ms | {buffer} | {jitter} ms | {one}, {other} | {:.2} / {:.2} |",
                    a / (a + b),
                    d / (c + d)
                );
            }
        }
    }
}

/// The larger share of two flows of one kind, of which the second starts at second 5: from second
/// 15 to 25 and from 15 to 45.
fn larger_shares(kind: ControllerKind, rate: u64, buffer: f64, path: Path) -> [f64; 2] {
    let run = |seed| {
        let mut network = Network::new(&[link(rate, path.rtt.as_millis(), buffer)], seed);
        network.flow(kind, &[path], Duration::ZERO);
        network.flow(kind, &[path], Duration::from_secs(5));
        let (early, late) = (network.goodput(15, 25), network.goodput(25, 45));
        let larger = |a: f64, b: f64| a.max(b) / (a + b);
        let sum = |flow: usize| early[flow][0] + 2.0 * late[flow][0];
        [larger(early[0][0], early[1][0]), larger(sum(0), sum(1))]
    };
    [mean(|seed| run(seed)[0]), mean(|seed| run(seed)[1])]
}

/// How soon a flow that comes later has its half.
fn convergence(kinds: &[ControllerKind]) {
    println!(
        "\nTwo flows of one controller: the larger one's share in the 10 s / the 30 s from 10 s after the second's start on\n"
    );
    println!("| Mbit/s, RTT | buffer | jitter | controller | loss 0 % | 1 % | 5 % | 10 % | 20 % |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let plain = [(25, 25, 0.25, 0), (25, 25, 0.5, 0), (25, 25, 1.0, 0), (25, 25, 4.0, 0), (25, 25, 1.0, 5)];
    for (rate, rtt, buffer, jitter) in plain.into_iter().chain(CASES) {
        for &kind in kinds {
            let losses =
                if CASES.contains(&(rate, rtt, buffer, jitter)) { &LOSSES[..] } else { &LOSSES[..1] };
            let cell = |&loss: &f64| {
                let path = Path::new(rtt).loss(loss).jitter(jitter, false);
                let [early, all] = larger_shares(kind, rate, buffer, path);
                format!("{early:.2} / {all:.2}")
            };
            let mut cells: Vec<String> = losses.iter().map(cell).collect();
            cells.resize(LOSSES.len(), String::new());
            println!("| {rate}, {rtt} ms | {buffer} | {jitter} ms | {kind} | {} |", cells.join(" | "));
        }
    }
}

/// How a flow fares that comes at any time of the first one's cycle, which is eight seconds long on such links.
fn latecomers() {
    println!(
        "\nTwo flows without loss, buffers of one bandwidth-delay product: the second one's share in its first 10 s / in \
         the 30 s after that, where it starts at each of the seconds 3 to 32: least, lower quarter, mean\n"
    );
    println!("| Mbit/s, RTT | first, second | first 10 s | next 30 s |");
    println!("| --- | --- | --- | --- |");
    for (rate, rtt) in [(100, 50), (300, 30)] {
        for kinds in [(Auto, Auto), (Cubic, Cubic), (Cubic, Auto), (Auto, Cubic)] {
            let cells = [(0, 10), (10, 40)].map(|(from, to)| {
                let mut shares: Vec<f64> = (3..33)
                    .map(|start| late_share(kinds, rate, rtt, start, (start + from, start + to)))
                    .collect();
                shares.sort_by(f64::total_cmp);
                let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                format!("{:.2}, {:.2}, {mean:.2}", shares[0], shares[shares.len() / 4])
            });
            println!("| {rate}, {rtt} ms | {}, {} | {} |", kinds.0, kinds.1, cells.join(" | "));
        }
    }
}

/// The share from one second to another of a flow that comes second, at second `start`.
fn late_share(
    kinds: (ControllerKind, ControllerKind),
    rate: u64,
    rtt: u64,
    start: u64,
    (from, to): (u64, u64),
) -> f64 {
    let mut network = Network::new(&[link(rate, rtt, 1.0)], 1);
    network.flow(kinds.0, &[Path::new(rtt)], Duration::ZERO);
    network.flow(kinds.1, &[Path::new(rtt)], Duration::from_secs(start));
    let rates = network.goodput(from, to);
    rates[1][0] / (rates[0][0] + rates[1][0])
}

fn harm() {
    println!(
        "\nA flow beside another on a lossy link (25 Mbit/s, 25 ms, buffer 1.25): its goodput in Mbit/s\n"
    );
    println!(
        "| loss | newreno beside newreno | beside auto | beside ctcp | cubic beside cubic | beside auto | auto beside auto |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for loss in [0.01, 0.02, 0.05] {
        let second = |first, second| pair((first, second), 25, 1.25, Path::new(25).loss(loss)).1;
        let cells: Vec<String> = [
            (NewReno, NewReno),
            (Auto, NewReno),
            (Ctcp, NewReno),
            (Cubic, Cubic),
            (Auto, Cubic),
            (Auto, Auto),
        ]
        .into_iter()
        .map(|(a, b)| format!("{:.2}", second(a, b)))
        .collect();
        println!("| {:.0} % | {} |", loss * 100.0, cells.join(" | "));
    }
}

/// Packets of a lone flow that find the queue full, in per cent of those that reach it, from second
/// 0 to 30.
fn overflow(kind: ControllerKind, buffer: f64, path: Path) -> f64 {
    mean(|seed| {
        let mut network = Network::new(&[link(25, path.rtt.as_millis(), buffer)], seed);
        network.flow(kind, &[path], Duration::ZERO);
        let delivered = network.goodput(0, 30)[0][0] * 30.0 * 125_000.0 / network::SIZE as f64;
        let dropped = network.links[0].overflows as f64;
        100.0 * dropped / (delivered + dropped)
    })
}

fn overflows(kinds: &[ControllerKind]) {
    println!("\nOne flow, 25 Mbit/s, 30 s: packets that find the queue full, in per cent\n");
    println!(
        "| RTT | buffer | loss | controller | no jitter | 2 ms | 5 ms | 8 ms | sender runs every 2 ms | 3 ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (rtt, buffer) in [(10, 1.0), (25, 1.0), (25, 0.25), (50, 0.25)] {
        for loss in [0.0, 0.05] {
            for &kind in kinds {
                let cells: Vec<String> = [0, 2, 5, 8]
                    .into_iter()
                    .map(|jitter| Path::new(rtt).loss(loss).jitter(jitter, false))
                    .chain([2, 3].map(|nap| Path::new(rtt).loss(loss).nap(nap)))
                    .map(|path| format!("{:.1}", overflow(kind, buffer, path)))
                    .collect();
                let loss = loss * 100.0;
                println!("| {rtt} ms | {buffer} | {loss:.0} % | {kind} | {} |", cells.join(" | "));
            }
        }
    }
}

/// The round-trip time changes after 20 s, at 5 % loss.
fn route_change() {
    println!("\nThe route changes at second 20, 25 Mbit/s, 5 % loss: Mbit/s in each second after that\n");
    for (before, after) in [(25, 75), (75, 25)] {
        for kind in [Auto, Ctcp] {
            let mut network = Network::new(&[link(25, before, 1.25)], 7);
            network.flow(kind, &[Path::new(before).loss(0.05)], Duration::ZERO);
            network.goodput(0, 20);
            network.path_mut(0, 0).rtt = Duration::from_millis(after);
            let rates: Vec<String> =
                (20..35).map(|second| format!("{:.1}", network.goodput(second, second + 1)[0][0])).collect();
            println!("{kind}, {before} to {after} ms: {}", rates.join(" "));
        }
    }
}

/// The three chains, and ten more with bursts of 2 to 20 packets.
const CHAINS: [Chain; 13] = [
    Chain::new(0.005, 0.3, 0.5),
    Chain::new(0.01, 0.2, 1.0),
    Chain::new(0.002, 0.1, 1.0),
    Chain::new(0.005, 0.5, 1.0),
    Chain::new(0.025, 0.5, 1.0),
    Chain::new(0.0033, 0.33, 1.0),
    Chain::new(0.0005, 0.2, 1.0),
    Chain::new(0.0025, 0.125, 1.0),
    Chain::new(0.008, 0.08, 0.6),
    Chain::new(0.0005, 0.05, 1.0),
    Chain::new(0.0002, 0.05, 1.0),
    Chain::new(0.0025, 0.05, 1.0),
    Chain::new(0.005, 0.05, 1.0),
];
/// Rates in Mbit/s, round-trip times in ms, and buffers in bandwidth-delay products that the chains
/// are tried on.
const CHAINED: [(u64, u64, f64); 6] =
    [(50, 40, 1.0), (50, 40, 0.25), (10, 40, 1.0), (200, 40, 1.0), (50, 10, 1.0), (50, 150, 1.0)];

/// Goodput alone where losses come in bursts.
fn bursts(kinds: &[ControllerKind]) {
    println!("\nOne flow, losses in bursts, 20 s from its start: goodput in per cent of the capacity\n");
    print!("| good to bad / bad to good / loss while bad | mean loss | controller |");
    CHAINED.iter().for_each(|(rate, rtt, buffer)| print!(" {rate} Mbit/s, {rtt} ms, {buffer} |"));
    println!("\n| --- | --- | --- |{}", " --- |".repeat(CHAINED.len()));
    for chain in CHAINS {
        for &kind in kinds {
            let cell = |&(rate, rtt, buffer): &(u64, u64, f64)| {
                let run = |seed| {
                    let mut network = Network::new(&[link(rate, rtt, buffer)], seed);
                    network.flow(kind, &[Path::new(rtt).chain(chain)], Duration::ZERO);
                    100.0 * network.goodput(0, 20)[0][0] / rate as f64
                };
                format!("{:.1}", mean(run))
            };
            let cells: Vec<String> = CHAINED.iter().map(cell).collect();
            println!(
                "| {} / {} / {:.0} % | {:.1} % | {kind} | {} |",
                chain.to_bad,
                chain.to_good,
                chain.loss_in_bad * 100.0,
                chain.loss() * 100.0,
                cells.join(" | ")
            );
        }
    }
}

/// What a flow has beside another where losses come in bursts.
fn bursty_harm() {
    println!(
        "\nA flow beside another where losses come in bursts (25 Mbit/s, 25 ms, buffer 1.25): its goodput in Mbit/s\n"
    );
    println!(
        "| good to bad / bad to good / loss while bad | cubic beside cubic | beside auto | beside ctcp | auto beside auto |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for chain in &CHAINS[..3] {
        let second = |first, second| pair((first, second), 25, 1.25, Path::new(25).chain(*chain)).1;
        let cells: Vec<String> = [(Cubic, Cubic), (Auto, Cubic), (Ctcp, Cubic), (Auto, Auto)]
            .map(|(a, b)| format!("{:.2}", second(a, b)))
            .to_vec();
        let loss = chain.loss_in_bad * 100.0;
        println!("| {} / {} / {loss:.0} % | {} |", chain.to_bad, chain.to_good, cells.join(" | "));
    }
}

/// The tables, in the order in which they are printed.
const TABLES: [&str; 10] = [
    "goodput",
    "jitter",
    "shares",
    "convergence",
    "latecomers",
    "harm",
    "overflow",
    "bursts",
    "burst-harm",
    "route",
];

const EXAMPLES: &str = "\
Examples:
  mendpath-tools auto-evidence
  SEEDS=8 mendpath-tools auto-evidence bursts auto ctcp

The environment's SEEDS is the number of runs per figure.";

/// What the controller `auto` is chosen by: goodput alone, shares beside others, what others lose.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Tables, all if none is named, and controllers, the usual four if none is.
    #[arg(value_name = "TABLE|CONTROLLER", value_parser = names())]
    names: Vec<String>,
}

fn names() -> PossibleValuesParser {
    let controllers = ControllerKind::ALL.iter().map(|kind| kind.name());
    PossibleValuesParser::new(TABLES.into_iter().chain(controllers))
}

impl Arguments {
    /// The controllers to show: all, or those that are named.
    fn kinds(&self) -> Vec<ControllerKind> {
        let named: Vec<ControllerKind> = self.names.iter().filter_map(|name| name.parse().ok()).collect();
        if named.is_empty() { KINDS.to_vec() } else { named }
    }

    /// Whether to show a table.
    fn wants(&self, table: &str) -> bool {
        let is_named = |table: &str| self.names.iter().any(|name| name == table);
        is_named(table) || !TABLES.into_iter().any(is_named)
    }
}

/// Prints what is asked for.
pub fn run(arguments: &Arguments) {
    let kinds = arguments.kinds();
    let wanted = |table| arguments.wants(table);
    if wanted("goodput") {
        goodputs(&kinds);
    }
    if wanted("jitter") {
        jitters(&kinds);
    }
    if wanted("shares") {
        shares();
    }
    if wanted("convergence") {
        convergence(&kinds);
    }
    if wanted("latecomers") {
        latecomers();
    }
    if wanted("harm") {
        harm();
    }
    if wanted("overflow") {
        overflows(&kinds);
    }
    if wanted("bursts") {
        bursts(&kinds);
    }
    if wanted("burst-harm") {
        bursty_harm();
    }
    if wanted("route") {
        route_change();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    #[test]
    fn who_names_controllers_alone_wants_all_tables() {
        let read = |words: &[&str]| read::<Arguments>(&[&["auto-evidence"], words].concat());
        let arguments = read(&["auto", "ctcp"]).unwrap();
        assert_eq!(arguments.kinds(), [Auto, Ctcp]);
        assert!(TABLES.iter().all(|table| arguments.wants(table)));
        let arguments = read(&["bursts", "auto"]).unwrap();
        assert!(arguments.wants("bursts") && !arguments.wants("goodput"));
        assert_eq!(read(&["bursts"]).unwrap().kinds(), KINDS);
        assert!(read(&["burst"]).is_err(), "there is no such table");
    }
}
