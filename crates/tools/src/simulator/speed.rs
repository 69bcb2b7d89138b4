//! How fast the simulator is: packet-hops per second of a processor and memory, one line of JSON
//! per run.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, builder::PossibleValuesParser};
use figures::{Axis, Chart, Layer, Picture, Sheet};
use netsim::{
    Seed,
    fabric::{
        Options, Topology,
        topology::{Dumbbell, FatTree, LeafSpine},
        workload::{FlowSpec, Pairs, Poisson, SizeTable},
    },
};
use tcpsim::{Profile, Sim, Tcp};
use units::{BitRate, Duration, Instant};

use crate::account::Account;

const SECOND: Duration = Duration::from_secs(1);
/// Of the hosts of all but the dumbbell.
const HOST_RATE: BitRate = BitRate::from_mbps(10_000);

/// Ten long TCP flows over 1 Gbit/s, 100 us, a queue of 100 packets, for a second.
fn dumbbell() -> Sim {
    let topology = Dumbbell::new(10, BitRate::from_mbps(1_000), Duration::from_micros(100), 100).build();
    let mut sim = Sim::new(&topology, &Options::default()).expect("a sound topology");
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    for pair in 0..10 {
        let start = Instant::ORIGIN + Duration::from_micros(u64::from(pair) * 10);
        sim.add_flow(tcp, pair, pair + 10, 1_000_000_000, start).expect("hosts exist");
    }
    sim.run(Instant::ORIGIN + SECOND).expect("within limits");
    sim
}

/// Sixteen web-search flows per host (those up to 8.2 MB, mean 0.94 MB) at load 0.5.
fn web_search_flows(hosts: u32, host: BitRate) -> Vec<FlowSpec> {
    let sizes = SizeTable::named("websearch_dctcp").expect("a known table");
    let poisson = Poisson {
        load: 0.5,
        capacity: BitRate(host.bits_per_second() * u64::from(hosts)),
        flows: (hosts * 125).div_ceil(8) as usize, // 1,000 for 64 hosts
        sizes: sizes.at_most(8_200_000.0).expect("not empty"),
        pairs: Pairs::Any(0..hosts),
        start: Instant::ORIGIN,
    };
    poisson.flows(Seed(1))
}

/// Those flows, on a network, all finished.
fn web_search(topology: &Topology, host: BitRate) -> Sim {
    let mut sim = web_search_to_come(topology, host);
    sim.run_until_done(Instant::ORIGIN + SECOND * 100).expect("within limits");
    sim
}

/// Those flows, on a network, none begun.
pub(super) fn web_search_to_come(topology: &Topology, host: BitRate) -> Sim {
    let mut sim = Sim::new(topology, &Options::default()).expect("a sound topology");
    let tcp = sim.add_profile(Profile::tcp(Tcp {
        min_rto: Duration::from_millis(5),
        receive_window: 128,
        ..Tcp::default()
    }));
    sim.add_flows(tcp, &web_search_flows(topology.hosts(), host)).expect("hosts exist");
    sim
}

/// The flows of the run `leaf-spine`, for other simulators: start in ns, sender, receiver, bytes.
fn print_flows() {
    for flow in web_search_flows(64, HOST_RATE) {
        println!("{} {} {} {}", flow.at.as_nanos(), flow.from.0, flow.to.0, flow.bytes);
    }
}

/// At least four leaves, at most 16 hosts on each, four spines; hosts of 10 Gbit/s, a fabric of 40
/// Gbit/s.
fn leaf_spine(hosts: u32) -> Sim {
    let (host, fabric) = (HOST_RATE, BitRate::from_mbps(40_000));
    let leaves = (hosts / 16).max(4);
    web_search(&LeafSpine::new(leaves, 4, hosts / leaves, (host, fabric), 250).build(), host)
}

/// FUSO's fat-tree (section VI-C) with as many pods of 16 hosts as needed.
fn fat_tree(hosts: u32) -> Sim {
    let network = FatTree { pods: hosts / 16, ..FatTree::fuso() };
    web_search(&network.build(), network.up.rate)
}

/// A hundred thousand hosts, each with an idle connection that has carried 10 KB.
fn idle() -> Sim {
    let rate = HOST_RATE;
    let network = LeafSpine::new(2_000, 8, 50, (rate, rate), 250);
    let mut sim = Sim::new(&network.build(), &Options::default()).expect("a sound topology");
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    for host in 0..network.hosts() {
        let conn = sim.connect(tcp, host, (host + 1_000) % network.hosts()).expect("hosts exist");
        sim.write(conn, 10_000, Instant::from_nanos(u64::from(host) * 1_000)).expect("within limits");
    }
    sim.run_until_done(Instant::ORIGIN + SECOND).expect("within limits");
    sim
}

/// The most memory that this process has used, in KiB (Linux; 0 elsewhere).
fn peak_memory() -> u64 {
    Account::own().memory("VmHWM").map_or(0, |most| most.get() / 1_024)
}

/// Seconds that this thread has been on a processor: what others run meanwhile does not count
/// (Linux; elsewhere the wall clock).
fn clock(start: std::time::Instant) -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = ran.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// The least time of several runs in seconds, and the last run.
#[expect(clippy::disallowed_methods, reason = "measures how long a run takes")]
fn best_of(rounds: u32, run: &dyn Fn() -> Sim) -> (f64, Sim) {
    let origin = std::time::Instant::now();
    let timed = || {
        let start = clock(origin);
        let sim = run();
        (clock(origin) - start, sim)
    };
    let (mut best, mut sim) = timed();
    for _ in 1..rounds {
        let (took, again) = timed();
        (best, sim) = (best.min(took), again);
    }
    (best, sim)
}

fn measure(name: &str, run: &dyn Fn() -> Sim) {
    let (best, mut sim) = best_of(if name == "dumbbell" { 20 } else { 1 }, run);
    let (totals, (connections, bytes)) = (sim.totals(), sim.connection_memory());
    let (stats, simulated, hash) = (sim.fabric().stats(), sim.fabric().now(), sim.fabric().trace_hash());
    let times: Vec<f64> =
        sim.flows().iter().filter_map(|flow| Some(flow.completion_time()?.as_secs_f64() * 1e3)).collect();
    let done = times.len();
    let mean = times.iter().sum::<f64>().abs() / done.max(1) as f64; // no times make -0
    println!(
        "{{\"run\":\"{name}\",\"cpu_s\":{best:.4},\"simulated_s\":{:.4},\"hops\":{},\"hops_per_s\":{:.0},\
         \"timers\":{},\"drops\":{},\"timeouts\":{},\"retransmissions\":{},\"flows_done\":{done},\"mean_ms\":{mean:.3},\"peak_kib\":{},\
         \"connections\":{connections},\"bytes_per_connection\":{},\"trace\":\"{hash:016x}\"}}",
        simulated.as_nanos() as f64 / 1e9,
        stats.hops,
        stats.hops as f64 / best,
        stats.timers,
        stats.dropped,
        totals.timeouts,
        totals.retransmissions,
        peak_memory(),
        bytes.checked_div(connections).unwrap_or(0),
    );
}

/// Runs a network of so many hosts.
type Make = fn(u32) -> Sim;

/// Topologies of the curve.
const CURVES: [(&str, Make); 2] = [("leaf-spine", leaf_spine), ("fat-tree", fat_tree)];

/// What a packet-hop costs in networks of 16 to 1,024 hosts; the best of three runs, of two for the
/// largest. By topology: hosts, packet-hops, CPU seconds.
fn curve() -> [Vec<(f64, f64, f64)>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    println!(
        "| hosts | leaf-spine: packet-hops | CPU s | ns per hop | fat-tree: packet-hops | CPU s | ns per hop |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for hosts in [16, 32, 64, 128, 256, 512, 1_024] {
        print!("| {hosts}");
        for (found, (_, make)) in found.iter_mut().zip(CURVES) {
            let (seconds, mut sim) = best_of(if hosts < 1_024 { 3 } else { 2 }, &|| make(hosts));
            let hops = sim.fabric().stats().hops;
            print!(" | {hops} | {seconds:.2} | {:.0}", seconds * 1e9 / hops as f64);
            found.push((f64::from(hosts), hops as f64, seconds));
        }
        println!(" |");
    }
    found
}

/// The curve as a figure: the cost of a hop by hosts, and of the run by hops.
fn draw(found: &[Vec<(f64, f64, f64)>; 2]) -> String {
    let lines = |of: fn(&(f64, f64, f64)) -> (f64, f64)| -> Vec<Layer> {
        let one = |(series, runs): (usize, &Vec<(f64, f64, f64)>)| {
            let points: Vec<(f64, f64)> = runs.iter().map(of).collect();
            [Layer::Line { series, points: points.clone() }, Layer::Dots { series, points }]
        };
        found.iter().enumerate().flat_map(one).collect()
    };
    let most = |of: fn(&(f64, f64, f64)) -> f64| found.iter().flatten().map(of).fold(0.0, f64::max);
    let per_hop = Chart {
        label: "CPU time per packet-hop",
        x: Axis::new("hosts", 14.0, 1_200.0).log().dense(),
        y: Axis::new("CPU time per packet-hop (ns)", 0.0, most(|run| run.2 * 1e9 / run.1) * 1.1)
            .with_area(62),
        layers: lines(|run| (run.0, run.2 * 1e9 / run.1)),
    };
    let whole = Chart {
        label: "CPU time of the run",
        x: Axis::new("packet-hops (millions)", 0.8, most(|run| run.1 / 1e6) * 1.3).log(),
        y: Axis::new("CPU time of the run (s)", 0.08, most(|run| run.2) * 1.5).log().with_area(62),
        layers: lines(|run| (run.1 / 1e6, run.2)),
    };
    let title = "What a simulation costs: web-search flows at load 0.5, 16 to 1,024 hosts";
    let panels: [(&str, &dyn Picture); 2] = [("a packet-hop", &per_hop), ("a whole run", &whole)];
    Sheet {
        title,
        notes: &["Processor time of one core."],
        panels: &panels,
        key: &CURVES.map(|(name, _)| name),
    }
    .svg()
}

/// A run and its name.
type Run = (&'static str, fn() -> Sim);

/// All of them.
const RUNS: [Run; 7] = [
    ("dumbbell", dumbbell),
    ("leaf-spine", || leaf_spine(64)),
    ("hosts-128", || leaf_spine(128)),
    ("hosts-256", || leaf_spine(256)),
    ("hosts-512", || leaf_spine(512)),
    ("hosts-1024", || leaf_spine(1_024)),
    ("idle", idle),
];

const EXAMPLES: &str = "\
Examples:
  mendpath-tools simulator-speed                  # all runs
  mendpath-tools simulator-speed dumbbell         # one
  mendpath-tools simulator-speed curve            # a table: cost per packet-hop by hosts
  mendpath-tools simulator-speed curve cost.svg   # and a figure of it
  mendpath-tools simulator-speed flows            # the flows of leaf-spine, for other simulators";

/// How fast the simulator is: packet-hops per second of a processor and memory, one line of JSON
/// per run.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// One run instead of all; or `curve` or `flows`, see below.
    #[arg(value_parser = PossibleValuesParser::new(RUNS.map(|(name, _)| name).into_iter().chain(["curve", "flows"])))]
    run: Option<String>,
    /// For `curve`: where to draw it, as SVG.
    #[arg(value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// Runs what is asked for.
pub fn run(arguments: &Arguments) -> ExitCode {
    match arguments.run.as_deref() {
        Some("curve") => {
            let found = curve();
            if let Some(file) = &arguments.figure
                && let Err(error) = std::fs::write(file, draw(&found))
            {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
        Some("flows") => print_flows(),
        chosen => {
            let wanted = RUNS.iter().filter(|(name, _)| chosen.is_none_or(|chosen| chosen == *name));
            wanted.for_each(|(name, run)| measure(name, run));
        }
    }
    ExitCode::SUCCESS
}
