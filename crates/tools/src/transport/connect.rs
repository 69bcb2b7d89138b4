//! A small request and its small answer, as a proxy's request to connect is, and a response after a
//! rest, on paths that lose in bursts: how long both take together, in virtual time.

use clap::Args;
use netsim::{LinkConfig, Loss, Seed, link::QueueSize, network::Direction};
use proto::{RecoveryKind, TransportConfig};
use testkit::response::{Exchange, PathPlan};
use units::{BitRate, Duration};

use super::goodput::{Chain, number_of_paths};

const EXAMPLES: &str = "\
Example:
  mendpath-tools connect --chain 1%/20%/100%,0.5%/30%/50%,0%/100%/0% --count 500 --paths 1";

/// Times of connect and response over a connection that is kept, and over a new one, on paths that
/// lose in bursts both ways.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Exchanges of each row.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Losses: good to bad / bad to good / loss while bad.
    #[arg(long, value_delimiter = ',', default_value = "1%/20%/100%,0.5%/30%/50%,0%/100%/0%")]
    chain: Vec<Chain>,
    /// Bytes of the response.
    #[arg(long, default_value_t = 60_000)]
    size: usize,
    /// Rate of each path.
    #[arg(long, default_value = "50mbit")]
    rate: BitRate,
    /// Round-trip time of each path.
    #[arg(long, default_value = "40ms")]
    rtt: Duration,
    /// Numbers of paths.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = number_of_paths)]
    paths: Vec<usize>,
    /// The recovery scheme.
    #[arg(long, default_value = "auto")]
    recovery: RecoveryKind,
    /// Decides every loss.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Bytes of the answer to the request to connect.
const ANSWER: usize = 20;
/// Bytes of a response from which a connection learns how its paths lose.
const LESSON: usize = 2_000_000;

/// What one row saw, in ms.
#[derive(Default)]
struct Row {
    connect: Vec<f64>,
    both: Vec<f64>,
    /// Bytes both ends sent, and those of recovery.
    bytes: [u64; 2],
}

impl Row {
    fn print(mut self, name: &str, paths: usize, chain: &str) {
        let exchanges = self.both.len() as f64;
        let mut at = |q: f64, of: fn(&mut Self) -> &mut Vec<f64>| {
            let times = of(&mut self);
            times.sort_by(f64::total_cmp);
            units::percentile(times, q).unwrap_or(f64::NAN)
        };
        let [c50, c99, c100] = [0.5, 0.99, 1.0].map(|q| at(q, |row| &mut row.connect));
        let [b50, b99, b100] = [0.5, 0.99, 1.0].map(|q| at(q, |row| &mut row.both));
        println!(
            "| {chain} | {paths} | {name} | {c50:.0} | {c99:.0} | {c100:.0} | {b50:.0} | {b99:.0} | {b100:.0} | {:.0} | {:.0} |",
            self.bytes[0] as f64 / exchanges,
            self.bytes[1] as f64 / exchanges
        );
    }
}

impl Arguments {
    fn plan(&self, loss: &Loss) -> PathPlan {
        let link = LinkConfig::new().rate(self.rate).delay(self.rtt / 2).queue(QueueSize::Packets(170));
        PathPlan::symmetric(link, loss.clone())
    }

    /// One connection that has learnt and carries one exchange after the other.
    fn kept(&self, loss: &Loss, paths: usize, transport: &TransportConfig) -> Row {
        let plans = vec![self.plan(&Loss::None); paths];
        let mut exchange = Exchange::establish(Seed(self.seed), &plans, transport);
        for path in 0..paths {
            for (n, direction) in [Direction::Forward, Direction::Backward].into_iter().enumerate() {
                let seed = Seed(self.seed).child("chain", path as u64 * 2 + n as u64);
                exchange.lose(path, direction, seed, loss);
            }
        }
        exchange.respond(LESSON, |_, _| {}).expect("the lesson ends");
        let mut row = Row::default();
        for _ in 0..self.count {
            let before = sent(&exchange);
            let connect = exchange.respond(ANSWER, |_, _| {}).expect("it ends").completion;
            let all = exchange.respond(self.size, |_, _| {}).expect("it ends").completion;
            let after = sent(&exchange);
            row.connect.push(connect.as_millis_f64());
            row.both.push((connect + all).as_millis_f64());
            (0..2).for_each(|n| row.bytes[n] += after[n] - before[n]);
        }
        row
    }

    /// A new connection for each response, over one path, which knows what those before it have
    /// learnt.
    fn new_ones(&self, loss: &Loss, transport: &TransportConfig) -> Row {
        let mut row = Row::default();
        for n in 0..self.count {
            let plan = self.plan(loss);
            let plan =
                PathPlan { up: plan.up.loss(loss.clone()), down: plan.down.loss(loss.clone()), ..plan };
            let seed = Seed(self.seed).child("new", n);
            let (all, response) = Exchange::fetch(seed, &plan, transport, self.size).expect("it ends");
            row.connect.push((all - response.completion).as_millis_f64());
            row.both.push(all.as_millis_f64());
            for stats in [&response.client_stats, &response.stats] {
                row.bytes[0] += stats.bytes_sent;
                row.bytes[1] += stats.recovery_bytes_sent;
            }
        }
        row
    }
}

/// Bytes that both ends have sent, and those of recovery.
fn sent(exchange: &Exchange) -> [u64; 2] {
    let stats = [exchange.client, exchange.server].map(|side| exchange.world.connection(side).stats());
    [
        stats.iter().map(|stats| stats.bytes_sent).sum(),
        stats.iter().map(|stats| stats.recovery_bytes_sent).sum(),
    ]
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    println!(
        "| chain | paths | connection | connect, ms: p50 | p99 | max | with the response: p50 | p99 | max | bytes | of recovery |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for chain in &arguments.chain {
        let loss = chain.loss();
        for &paths in &arguments.paths {
            let transport = TransportConfig { recovery: arguments.recovery, ..TransportConfig::default() };
            arguments.kept(&loss, paths, &transport).print("kept", paths, chain.text());
        }
        let transport = TransportConfig { recovery: arguments.recovery, ..TransportConfig::default() };
        arguments.new_ones(&loss, &transport).print("new", 1, chain.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    #[test]
    fn every_number_of_paths_is_one_that_a_connection_may_have() {
        assert_eq!(read::<Arguments>(&["connect", "--paths", "1,8"]).unwrap().paths, [1, 8]);
        assert!(read::<Arguments>(&["connect", "--paths", "1,0"]).is_err());
        assert!(read::<Arguments>(&["connect", "--count", "0"]).is_err());
    }

    #[test]
    fn what_a_new_client_copies_counts_as_the_servers_copies_do() {
        let arguments: Arguments = read(&["connect", "--count", "1", "--size", "200"]).unwrap();
        let transport = TransportConfig { recovery: RecoveryKind::Slp, ..TransportConfig::default() };
        let Row { bytes: [all, recovery], .. } = arguments.new_ones(&Loss::None, &transport);
        let (plan, seed) = (arguments.plan(&Loss::None), Seed(1).child("new", 0));
        let (_, response) = Exchange::fetch(seed, &plan, &transport, 200).unwrap();
        // Its first flight, filled up, leaves twice; signatures differ by some bytes.
        let servers = response.stats.recovery_bytes_sent;
        assert!(recovery > servers + 1_000, "{recovery} of {all}, the server's {servers}");
    }
}
