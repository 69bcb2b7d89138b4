//! The share of flows with a timeout, beside FUSO's models: Fig. 2 (TCP on one lossy path) and Fig.
//! 4 (three paths, one of them lossy).
//!
//! The network is FUSO's testbed (section VI-A), loss on data packets only, as the model's one-way
//! loss. Every flow has a connection of its own with a handshake, and starts 5 ms (50 ms for 1 MB)
//! after the one before. The models neglect lost whole windows, count some cases twice, and assume
//! that one duplicate ACK is enough wherever a loss happens.

use clap::Args;
use netsim::{
    Loss, Seed,
    fabric::{Failure, Fault, Options, topology::ParallelPaths},
};
use tcpsim::{
    Profile, SchemeKind, Sim, Tcp,
    schemes::{Fuso, Mptcp},
};
use units::{Duration, Instant, LossRate};

/// Sub-flows of Fig. 4 (FUSO-A2).
const SUBFLOWS: usize = 4;

/// The share of `flows` flows of `bytes` bytes that time out.
fn share(scheme: SchemeKind, paths: u32, bytes: u64, loss: f64, flows: u32) -> f64 {
    let network = ParallelPaths { paths, ..ParallelPaths::fuso() };
    let loss = Loss::Bernoulli(LossRate::new(loss).unwrap_or_default());
    let failure = Failure::Loss { loss, data_only: true, before_rate: false };
    let faults = vec![Fault::both(ParallelPaths::path(0), failure)];
    let options = Options { seed: Seed(7), faults, ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).expect("a sound topology");
    let profile = sim.add_profile(Profile { tcp: Tcp { handshake: true, ..Tcp::fuso() }, scheme });
    let apart = Duration::from_millis(if bytes > 100_000 { 50 } else { 5 }); // a megabyte takes 8 ms
    for n in 0..flows {
        let at = Instant::ORIGIN + apart * u64::from(n);
        sim.add_flow(profile, 3 + n % 3, n % 3, bytes, at).expect("hosts exist");
    }
    sim.run_until_done(Instant::MAX).expect("within limits");
    sim.flows().iter().filter(|flow| flow.timeouts > 0).count() as f64 / f64::from(flows)
}

/// 1 - (1 - p^2)^n.
fn lost_twice(p: f64, n: f64) -> f64 {
    1.0 - (1.0 - p * p).powf(n)
}

/// Fig. 2's model, k = 1.
fn tcp_model(p: f64, segments: f64) -> f64 {
    p + lost_twice(p, segments - 1.0)
}

/// Fig. 4's models of MPTCP and FUSO with three paths.
fn multipath_models(p: f64, segments: f64) -> (f64, f64) {
    let (paths, subs) = (3.0, SUBFLOWS as f64);
    let again = lost_twice(p, segments / subs - 1.0);
    let out = p + again;
    let mptcp = 1.0 - ((paths - 1.0) / paths + (1.0 - out) / paths).powf(subs);
    let fuso = (1.0 / paths).powf(subs) * ((1.0 - 1.0 / subs) * out * out + (again + p * p) / subs);
    (mptcp, fuso)
}

/// The share of flows with a timeout, beside FUSO's models of Figs. 2 and 4.
#[derive(Args)]
#[command(after_help = "Example:\n  mendpath-tools timeouts 20000")]
pub struct Arguments {
    /// Flows of each cell of the tables.
    #[arg(value_name = "FLOWS_PER_CELL", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    flows: u32,
}

/// Prints both tables.
pub fn run(arguments: &Arguments) {
    let flows = arguments.flows;
    println!("Fig. 2, TCP on one lossy path: share of flows that time out, simulated / model");
    println!("loss      10 KB                100 KB               1 MB");
    for loss in [0.001, 0.005, 0.01, 0.02, 0.04, 0.1] {
        print!("{:5.1} %", loss * 100.0);
        for (bytes, segments, fewer) in [(10_000, 7.0, 1), (100_000, 69.0, 1), (1_000_000, 685.0, 10)] {
            let found = share(SchemeKind::None, 1, bytes, loss, flows / fewer);
            print!("   {found:.5} / {:.5}", tcp_model(loss, segments));
        }
        println!();
    }
    println!("\nFig. 4, 100 KB, three paths, one lossy, {SUBFLOWS} sub-flows: simulated / model");
    println!("loss      TCP, random path     MPTCP                FUSO");
    for loss in [0.005, 0.01, 0.02, 0.05, 0.1] {
        let (mptcp, fuso) = multipath_models(loss, 69.0);
        let find = |scheme| share(scheme, 3, 100_000, loss, flows);
        println!(
            "{:5.1} %   {:.5} / {:.5}   {:.5} / {mptcp:.5}   {:.5} / {fuso:.6}",
            loss * 100.0,
            find(SchemeKind::None),
            tcp_model(loss, 69.0) / 3.0,
            find(SchemeKind::Mptcp(Mptcp::new(SUBFLOWS))),
            find(SchemeKind::Fuso(Fuso::new(SUBFLOWS))),
        );
    }
}
