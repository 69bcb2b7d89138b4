//! Flow completion times of the transport's schemes and of the TCP family over FUSO's parallel
//! paths (section VI-A), with the same losses: FUSO Fig. 6(a) with the code that ships beside the
//! models.
//!
//! Every flow has a connection of its own, opened before it starts. The first path loses packets in
//! both directions. TCP has FUSO's timeout of at least 5 ms and 16 segments of initial window; the
//! transport has the timers of RFC 9002 and ten packets per path.

use clap::Args;
use netsim::{
    Seed,
    fabric::{Failure, Fault, Options, topology::ParallelPaths},
};
use proto::{RecoveryKind, TransportConfig};
use tcpsim::{
    Profile, SchemeKind, Tcp, quantile,
    schemes::{Cofuso, Fuso, Mptcp},
};
use testkit::fabric_host::Mixed;
use units::{Duration, Instant, LossRate};

use super::goodput::number_of_paths;

const EXAMPLES: &str = "\
Example:
  mendpath-tools fabric --flows 2000 --loss 2%";

/// Completion times over three parallel paths, of which the first loses packets.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Flows of each row.
    #[arg(long, default_value_t = 1_000)]
    flows: u32,
    /// Bytes of a flow.
    #[arg(long, default_value_t = 50_000)]
    size: u64,
    /// Loss of the first path, each way.
    #[arg(long, default_value = "2%")]
    loss: LossRate,
    /// Sub-flows, or paths of the transport.
    #[arg(long, default_value_t = 4, value_parser = number_of_paths)]
    subflows: usize,
    /// Decides every loss and every path.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Time between the starts of flows: long enough that few meet.
const APART: Duration = Duration::from_millis(5);

impl Arguments {
    fn network(&self) -> Mixed {
        let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(self.loss))];
        let options = Options { seed: Seed(self.seed), faults, ..Options::default() };
        Mixed::new(&ParallelPaths::fuso().build(), &options).expect("a sound topology")
    }

    fn flows(&self) -> impl Iterator<Item = (u32, u32, Instant)> + use<> {
        (0..self.flows).map(|n| (3 + n % 3, n / 3 % 3, Instant::ORIGIN + APART * u64::from(n)))
    }

    fn run(&self, mut network: Mixed) -> Mixed {
        let end = Instant::ORIGIN + APART * u64::from(self.flows) + Duration::from_secs(60);
        network.run_until_done(end).expect("within limits");
        network
    }

    fn tcp(&self, name: &str, scheme: SchemeKind) {
        let mut network = self.network();
        let tcp = Tcp { handshake: true, ..Tcp::fuso() };
        let profile = network.tcp().add_profile(Profile { tcp, scheme });
        for (from, to, at) in self.flows() {
            network.tcp().add_flow(profile, from, to, self.size, at).expect("hosts exist");
        }
        let mut network = self.run(network);
        let times = network.tcp().flows().iter().map(|flow| flow.completion_time()).collect();
        print_row(name, times, network.tcp().totals().extra_load());
    }

    fn transport(&self, recovery: RecoveryKind, paths: usize) {
        let mut network = self.network();
        let config = TransportConfig {
            recovery,
            initial_datagram_size: 1_472,
            max_datagram_size: 1_472,
            ..TransportConfig::default()
        };
        for (from, to, at) in self.flows() {
            network.add_flow(&config, paths, (from, to), self.size, at).expect("hosts exist");
        }
        let network = self.run(network);
        let times = network.flows().iter().map(|flow| flow.completion_time()).collect();
        let sum = |of: fn(&proto::ConnectionStats) -> u64| {
            network.flows().iter().map(|flow| of(&flow.stats)).sum::<u64>()
        };
        let extra =
            sum(|stats| stats.recovery_bytes_sent) as f64 / sum(|stats| stats.bytes_sent).max(1) as f64;
        print_row(&format!("transport, {recovery}, {paths} paths"), times, extra);
    }
}

fn print_row(name: &str, times: Vec<Option<Duration>>, extra: f64) {
    let unfinished = times.iter().filter(|time| time.is_none()).count();
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    let mean = times.iter().map(|time| time.as_millis_f64()).sum::<f64>() / times.len().max(1) as f64;
    let mut at = |q| quantile(&mut times, q).map_or(f64::NAN, |time| time.as_millis_f64());
    println!(
        "{name:<30} {mean:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.1} {unfinished:>6}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        extra * 100.0
    );
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    let subs = arguments.subflows;
    println!(
        "{:<30} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "", "mean ms", "p50", "p99", "p99.9", "max", "extra %", "open"
    );
    arguments.tcp("TCP", SchemeKind::None);
    arguments.tcp("MPTCP", SchemeKind::Mptcp(Mptcp::new(subs)));
    arguments.tcp("FUSO", SchemeKind::Fuso(Fuso::new(subs)));
    arguments.tcp("CoFUSO", SchemeKind::Cofuso(Cofuso::simulation(subs)));
    arguments.transport(RecoveryKind::None, 1);
    for recovery in [RecoveryKind::None, RecoveryKind::Fuso, RecoveryKind::Cofuso] {
        arguments.transport(recovery, subs);
    }
}
