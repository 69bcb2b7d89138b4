//! Whether one large run could use several cores, for docs/decisions/0029: packet-hops per window of
//! conservative synchronisation, and what a barrier costs.

#![expect(clippy::disallowed_methods, reason = "measures how long a barrier takes")]

use std::{sync::Barrier, thread, time};

use netsim::fabric::topology::{FatTree, LeafSpine};
use tcpsim::Sim;
use units::{BitRate, Duration, Instant};

use super::speed::web_search_to_come;

/// What is simulated: the load is steady by then.
const LENGTH: Duration = Duration::from_millis(8);
/// The beginning, which does not count.
const WARM_UP: Duration = Duration::from_millis(4);

/// Packet-hops in each window of `lookahead`, the least, the mean and the most; and ns per hop.
fn windows(mut sim: Sim, lookahead: Duration) -> (u64, u64, u64, u128) {
    let hops = |sim: &mut Sim| sim.fabric().stats().hops;
    sim.run(Instant::ORIGIN + WARM_UP).expect("within limits");
    let (mut counts, before, start) = (Vec::new(), hops(&mut sim), time::Instant::now());
    while sim.now() < Instant::ORIGIN + LENGTH {
        let last = hops(&mut sim);
        sim.run(sim.now() + lookahead).expect("within limits");
        counts.push(hops(&mut sim) - last);
    }
    let all = hops(&mut sim) - before;
    let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    let cost = start.elapsed().as_nanos() / u128::from(all.max(1));
    (least.unwrap_or(0), all / counts.len().max(1) as u64, most.unwrap_or(0), cost)
}

/// What a barrier between two threads costs that do nothing else, ns.
fn barrier() -> u128 {
    const ROUNDS: u32 = 20_000;
    let barrier = Barrier::new(2);
    let rounds = || (0..ROUNDS).for_each(|_| _ = barrier.wait());
    let start = time::Instant::now();
    thread::scope(|scope| {
        scope.spawn(rounds);
        rounds();
    });
    start.elapsed().as_nanos() / u128::from(ROUNDS)
}

/// Runs it.
pub fn run() {
    let rates = (BitRate::from_mbps(10_000), BitRate::from_mbps(40_000));
    println!("| network | lookahead | hops per window: least, mean, most | ns per hop |");
    println!("| --- | --- | --- | --- |");
    for hosts in [64, 1_024] {
        let leaf_spine = LeafSpine::new(hosts / 16, 4, 16, rates, 250);
        let fat_tree = FatTree { pods: hosts / 16, ..FatTree::fuso() };
        let networks = [
            ("leaf-spine", leaf_spine.build(), leaf_spine.fabric.delay),
            ("fat-tree", fat_tree.build(), fat_tree.fabric.delay),
        ];
        for (name, topology, lookahead) in networks {
            let (least, mean, most, cost) = windows(web_search_to_come(&topology, rates.0), lookahead);
            println!("| {name}, {hosts} hosts | {lookahead} | {least}, {mean}, {most} | {cost} |");
        }
    }
    println!("\na barrier of two threads: {} ns", barrier());
}
