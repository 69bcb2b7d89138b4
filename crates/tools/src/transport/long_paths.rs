//! Long and fast paths in virtual time: whether windows or buffers bind, and what both ends hold in
//! memory.

use clap::Args;
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::{ControllerKind, StreamsStats, TransportConfig};
use testkit::{
    response::{Exchange, PathPlan},
    world::{ConnectionId, World},
};
use units::{BitRate, Bytes, Duration, Instant, LossRate};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools long-paths
  mendpath-tools long-paths --path 100mbit/600ms/1% --span 60s
  mendpath-tools long-paths --path 100mbit/600ms/0% --path 100mbit/20ms/0%";

/// Round trips of the longest path after which goodput is counted.
const ROUND_TRIPS: u64 = 10;

/// One download over paths with much under way: goodput after ten round trips, and the memory of
/// both ends.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A path: rate / round-trip time / loss of single packets. All that are given are used
    /// together; the default is the four cases one by one.
    #[arg(long = "path", value_name = "RATE/RTT/LOSS", value_parser = parse)]
    paths: Vec<LongPath>,
    /// Buffer in front of each bottleneck, in bandwidth-delay products.
    #[arg(long, default_value_t = 1.0)]
    buffer: f64,
    /// Time for which goodput is counted.
    #[arg(long, default_value = "10s")]
    span: Duration,
    /// The congestion controller.
    #[arg(long, default_value = "auto")]
    congestion: ControllerKind,
    /// Decides every loss.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A path as on the command line.
#[derive(Clone, Debug)]
struct LongPath {
    rate: BitRate,
    rtt: Duration,
    loss: LossRate,
}

fn parse(text: &str) -> Result<LongPath, String> {
    let wrong = |e: &dyn core::fmt::Display| format!("{text}: {e}");
    let &[rate, rtt, loss] = text.split('/').collect::<Vec<_>>().as_slice() else {
        return Err("write rate, round-trip time and loss, such as 100mbit/600ms/1%".into());
    };
    Ok(LongPath {
        rate: rate.parse().map_err(|e| wrong(&e))?,
        rtt: rtt.parse().map_err(|e| wrong(&e))?,
        loss: loss.parse().map_err(|e| wrong(&e))?,
    })
}

impl LongPath {
    fn plan(&self, buffer: f64) -> PathPlan {
        let product = self.rate.bytes_in(self.rtt) as f64;
        let queue = QueueSize::Bytes(Bytes(((product * buffer) as u64).max(20_000)));
        let link = LinkConfig::new().rate(self.rate).delay(self.rtt / 2).queue(queue);
        let loss = if self.loss == LossRate::ZERO { Loss::None } else { Loss::Bernoulli(self.loss) };
        PathPlan::symmetric(link, loss)
    }
}

/// The cases that the windows were made for.
fn cases() -> Vec<Vec<LongPath>> {
    [
        &["1gbit/300ms/0%"][..],
        &["100mbit/600ms/1%"],
        &["100mbit/600ms/0%", "100mbit/20ms/0%"],
        &["100mbit/600ms/1%", "100mbit/20ms/0%"],
    ]
    .map(|paths| paths.iter().map(|path| parse(path).expect("a sound example")).collect())
    .to_vec()
}

/// What was seen on the way.
#[derive(Default)]
struct Seen {
    /// Bytes in order at the receiver when counting began, and the latest.
    delivered: [u64; 2],
    /// The most bytes in the sender's stream buffers.
    send_buffered: u64,
    receiver: StreamsStats,
}

impl Arguments {
    fn run_case(&self, paths: &[LongPath]) {
        let plans: Vec<_> = paths.iter().map(|path| path.plan(self.buffer)).collect();
        let transport = TransportConfig { controller: self.congestion, ..TransportConfig::default() };
        let mut exchange = Exchange::establish(Seed(self.seed), &plans, &transport);
        let longest = paths.iter().map(|path| path.rtt).max().unwrap_or(Duration::ZERO);
        let capacity: u64 = paths.iter().map(|path| path.rate.bits_per_second()).sum();
        let from = exchange.world.now() + longest * ROUND_TRIPS;
        let to = from + self.span;
        let mut seen = Seen::default();
        let client = exchange.client;
        exchange.limit = longest * ROUND_TRIPS + self.span;
        let observe = |world: &mut World, server: ConnectionId| {
            seen.observe(world, client, server, [from, to]);
        };
        // More than can come: the limit ends it.
        let all =
            usize::try_from(capacity / 8 * (exchange.limit.as_millis() / 1_000 + 1)).unwrap_or(usize::MAX);
        let ended = exchange.request_observed(all, &plans, observe);
        assert!(ended.is_err(), "the transfer outlasts the run");
        let share = (seen.delivered[1] - seen.delivered[0]) as f64 * 8.0
            / (capacity as f64 * self.span.as_secs_f64());
        let name = |path: &LongPath| format!("{}, {}, {}", path.rate, path.rtt, path.loss);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "| {} | {share:.3} | {:.1} | {:.1} | {:.1} |",
            paths.iter().map(name).collect::<Vec<_>>().join(" + "),
            mib(seen.send_buffered),
            mib(seen.receiver.receive_buffered_max),
            mib(seen.receiver.largest_window),
        );
    }
}

impl Seen {
    fn observe(
        &mut self,
        world: &World,
        client: ConnectionId,
        server: ConnectionId,
        [from, to]: [Instant; 2],
    ) {
        let receiver = world.connection(client);
        let delivered = receiver.stats().stream_bytes_received;
        if world.now() < from {
            self.delivered[0] = delivered;
        }
        if world.now() <= to {
            self.delivered[1] = delivered;
        }
        self.send_buffered = self.send_buffered.max(world.connection(server).stream_stats().send_buffered);
        self.receiver = receiver.stream_stats();
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    println!(
        "| paths | share of capacity | sender holds, MiB | receiver holds, MiB | stream's window, MiB |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let cases = if arguments.paths.is_empty() { cases() } else { vec![arguments.paths.clone()] };
    cases.iter().for_each(|paths| arguments.run_case(paths));
}
