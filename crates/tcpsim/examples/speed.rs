//! How fast the simulator is: packet-hops per second and memory, one line of JSON per run.
//!
//! ```sh
//! cargo run --release -p mendpath-tcpsim --example speed            # all of them
//! cargo run --release -p mendpath-tcpsim --example speed dumbbell   # one
//! ```

use std::process::ExitCode;

use netsim::{
    Seed,
    fabric::{
        Options,
        topology::{Dumbbell, LeafSpine},
        workload::{Pairs, Poisson, SizeTable},
    },
};
use tcpsim::{Profile, Sim, Tcp};
use units::{BitRate, Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

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

/// `flows` web-search flows (those up to 8.2 MB, mean 0.94 MB) at load 0.5 over `leaves` x 4 x 16 hosts of 10 Gbit/s.
fn leaf_spine(leaves: u32, flows: usize) -> Sim {
    let (host, fabric) = (BitRate::from_mbps(10_000), BitRate::from_mbps(40_000));
    let network = LeafSpine::new(leaves, 4, 16, (host, fabric), 250);
    let mut sim = Sim::new(&network.build(), &Options::default()).expect("a sound topology");
    let tcp = sim.add_profile(Profile::tcp(Tcp {
        min_rto: Duration::from_millis(5),
        receive_window: 128,
        ..Tcp::default()
    }));
    let sizes = SizeTable::named("websearch_dctcp").expect("a known table");
    let hosts = network.hosts();
    let poisson = Poisson {
        load: 0.5,
        capacity: BitRate(host.bits_per_second() * u64::from(hosts)),
        flows,
        sizes: sizes.at_most(8_200_000.0).expect("not empty"),
        pairs: Pairs::Any(0..hosts),
        start: Instant::ORIGIN,
    };
    sim.add_flows(tcp, &poisson.flows(Seed(1))).expect("hosts exist");
    sim.run_until_done(Instant::ORIGIN + SECOND * 100).expect("within limits");
    sim
}

/// A hundred thousand hosts, each with an idle connection that has carried 10 KB.
fn idle() -> Sim {
    let rate = BitRate::from_mbps(10_000);
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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "measures how long a run takes")]
fn measure(name: &str, run: impl Fn() -> Sim) {
    let (mut best, mut sim) = (f64::INFINITY, None);
    for _ in 0..if name == "dumbbell" { 20 } else { 1 } {
        let start = std::time::Instant::now();
        let ran = run();
        best = best.min(start.elapsed().as_secs_f64());
        sim = Some(ran);
    }
    let Some(mut sim) = sim else { return };
    let (totals, (connections, bytes)) = (sim.totals(), sim.connection_memory());
    let (stats, simulated, hash) = (sim.fabric().stats(), sim.fabric().now(), sim.fabric().trace_hash());
    let done = sim.flows().iter().filter(|flow| flow.completion_time().is_some()).count();
    println!(
        "{{\"run\":\"{name}\",\"wall_s\":{best:.4},\"simulated_s\":{:.4},\"hops\":{},\"hops_per_s\":{:.0},\
         \"timers\":{},\"drops\":{},\"timeouts\":{},\"retransmissions\":{},\"flows_done\":{done},\"peak_kib\":{},\
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

fn main() -> ExitCode {
    let chosen = std::env::args().nth(1);
    let mut found = false;
    let mut run = |name: &str, make: &dyn Fn() -> Sim| {
        if chosen.as_deref().is_none_or(|chosen| chosen == name) {
            found = true;
            measure(name, make);
        }
    };
    run("dumbbell", &dumbbell);
    run("leaf-spine", &|| leaf_spine(4, 1_000));
    run("hosts-128", &|| leaf_spine(8, 2_000));
    run("hosts-256", &|| leaf_spine(16, 4_000));
    run("hosts-512", &|| leaf_spine(32, 8_000));
    run("hosts-1024", &|| leaf_spine(64, 16_000));
    run("idle", &idle);
    if !found {
        eprintln!("there are dumbbell, leaf-spine, hosts-128, hosts-256, hosts-512, hosts-1024, idle");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
