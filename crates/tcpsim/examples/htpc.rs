//! HTPC's fabric of 256 hosts under web-search traffic: every scheme in turn, one line each.
//!
//! ```sh
//! cargo run --release -p mendpath-tcpsim --example htpc                 # load 0.8, 10,000 flows
//! cargo run --release -p mendpath-tcpsim --example htpc 0.5 1000 htpc   # load, flows, one scheme
//! ```

use std::process::ExitCode;

use netsim::{
    Seed,
    fabric::{
        Balancing, Options,
        topology::LeafSpine,
        workload::{Pairs, Poisson, SizeTable},
    },
};
use tcpsim::{
    Profile, SchemeKind, Sim, Tcp, quantile,
    shims::{
        Caps, Htpc, PerWindow, ShimKind,
        coding_layer::{Common, Delivery},
    },
};
use units::{BitRate, Duration, Instant};

fn schemes() -> Vec<(&'static str, SchemeKind, Balancing)> {
    let shim = |name, shim: ShimKind| (name, SchemeKind::Shim(shim), shim.balancing());
    let in_order = Common { delivery: Delivery::InOrder, ..Common::default() };
    vec![
        ("ecmp", SchemeKind::None, Balancing::FlowHash),
        ("rps", SchemeKind::None, Balancing::Spray),
        shim("corrective", ShimKind::Corrective(PerWindow::default())),
        shim("caps", ShimKind::Caps(Caps::default())),
        shim("htpc", ShimKind::Htpc(Htpc::default())),
        shim("htpc-in-order", ShimKind::Htpc(Htpc { common: in_order, ..Htpc::default() })),
    ]
}

/// 8 leaves, 8 spines, 32 hosts per leaf, 1 Gbit/s, 100 us, 100 packets (HTPC, "Simulation evaluation").
fn simulate(scheme: SchemeKind, balancing: Balancing, load: f64, flows: usize) -> Sim {
    let rate = BitRate::from_mbps(1_000);
    let mut network = LeafSpine::new(8, 8, 32, (rate, rate), 100);
    // Round-trip propagation between leaves is 8 links.
    for line in [&mut network.up, &mut network.down, &mut network.fabric] {
        line.delay = Duration::from_nanos(12_500);
    }
    let options = Options { balancing, ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).expect("a sound topology");
    let profile = sim.add_profile(Profile { tcp: Tcp { receive_window: 256, ..Tcp::default() }, scheme });
    let poisson = Poisson {
        load,
        capacity: BitRate(8 * 8 * rate.bits_per_second()), // all links between leaves and spines (HTPC-A15)
        flows,
        sizes: SizeTable::named("websearch_dctcp").expect("a known table"),
        pairs: Pairs::Any(0..network.hosts()),
        start: Instant::ORIGIN,
    };
    sim.add_flows(profile, &poisson.flows(Seed(1))).expect("hosts exist");
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

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let load = arguments.next().map_or(Some(0.8), |text| text.parse().ok());
    let flows = arguments.next().map_or(Some(10_000), |text| text.parse().ok());
    let (Some(load), Some(flows)) = (load, flows) else {
        eprintln!("usage: htpc [LOAD [FLOWS [SCHEME]]]");
        return ExitCode::from(2);
    };
    let wanted = arguments.next();
    for (name, scheme, balancing) in schemes() {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            report(name, || simulate(scheme, balancing, load, flows));
        }
    }
    ExitCode::SUCCESS
}
