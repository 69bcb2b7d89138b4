//! HTPC's fabric of 256 hosts under web-search traffic: every scheme in turn, one line each.

use clap::Args;
use netsim::fabric::{Balancing, Options};
use tcpsim::{Profile, SchemeKind, Sim, Tcp, quantile};
use units::{Duration, Instant};

use super::htpc_fabric;

const EXAMPLES: &str = "\
Examples:
  mendpath-tools htpc                 # load 0.8, 10,000 flows
  mendpath-tools htpc 0.5 1000 htpc   # load, flows, one scheme";

/// HTPC's fabric of 256 hosts under web-search traffic: every scheme in turn, one line each.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    what: htpc_fabric::Arguments,
}

fn simulate(scheme: SchemeKind, balancing: Balancing, load: f64, flows: usize) -> Sim {
    let network = htpc_fabric::network();
    let options = Options { balancing, ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).expect("a sound topology");
    let profile = sim.add_profile(Profile { tcp: Tcp { receive_window: 256, ..Tcp::default() }, scheme });
    sim.add_flows(profile, &htpc_fabric::traffic(&network, load, flows)).expect("hosts exist");
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1_000)).expect("within limits");
    sim
}

#[expect(clippy::disallowed_methods, reason = "measures how long a run takes")]
fn report(name: &str, run: impl FnOnce() -> Sim) {
    let start = std::time::Instant::now();
    let mut sim = run();
    let wall = start.elapsed().as_secs_f64();
    let (stats, totals) = (sim.fabric().stats(), sim.totals());
    let times = |wanted: &dyn Fn(u64) -> bool| -> Vec<Duration> {
        sim.flows()
            .iter()
            .filter(|flow| wanted(flow.bytes))
            .filter_map(|flow| flow.completion_time())
            .collect()
    };
    let mut short = times(&|bytes| bytes < 100_000);
    let all = times(&|_| true);
    let mean = all.iter().map(|time| time.as_secs_f64()).sum::<f64>() / all.len() as f64;
    println!(
        "{name:14} wall {wall:7.2} s, {:.1} M packet-hops, {:.2} M/s; short 99th {:.2} ms, all mean {:.2} ms; {} dropped, \
         {} coded, {} repaired, {} sent again, {} timeouts, {} of {} flows",
        stats.hops as f64 / 1e6,
        stats.hops as f64 / 1e6 / wall,
        quantile(&mut short, 0.99).unwrap_or_default().as_secs_f64() * 1e3,
        mean * 1e3,
        stats.dropped,
        totals.parities,
        totals.repaired,
        totals.retransmissions,
        totals.timeouts,
        all.len(),
        sim.flows().len(),
    );
}

/// Prints a line per scheme.
pub fn run(Arguments { what }: &Arguments) {
    let (load, flows, schemes) = (what.load, what.flows(10_000), what.schemes());
    for (name, scheme, balancing) in schemes {
        report(name, || simulate(scheme, balancing, load, flows));
    }
}
