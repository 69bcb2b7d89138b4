//! Two paths against the better one alone, in virtual time.

use clap::Args;
use netsim::Seed;
use proto::{ControllerKind, RecoveryKind, SchedulerKind, TransportConfig};
use testkit::pairs::{Comparison, Pair, compare};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools never-worse                        # six named pairs, 20 MiB
  mendpath-tools never-worse --swap --size 60000    # short, either path first
  mendpath-tools never-worse --random 30 --seeds 1  # pairs drawn from a seed";

/// Responses over two paths, and over each alone: how much faster are both, and how near to the
/// sum?
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Runs of every pair, each with other losses.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// So many pairs drawn at random, instead of the named ones.
    #[arg(long, default_value_t = 0)]
    random: u64,
    /// The first pair that is drawn.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only the named pair of this number, from 1 on.
    #[arg(long, value_parser = named_pair)]
    pair: Option<usize>,
    /// Bytes of a response.
    #[arg(long, default_value_t = 20 << 20)]
    size: usize,
    /// Congestion controller of every path.
    #[arg(long)]
    congestion: Option<ControllerKind>,
    /// What spare window is used for.
    #[arg(long)]
    recovery: Option<RecoveryKind>,
    /// Which path carries the next data.
    #[arg(long, default_value = "earliest-delivery")]
    scheduler: SchedulerKind,
    /// Print each pair with the second path first, too.
    #[arg(long)]
    swap: bool,
    /// Decides everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The number of a pair that there is.
fn named_pair(text: &str) -> Result<usize, String> {
    let pairs = Pair::named().len();
    let number = text.parse::<usize>().ok().filter(|number| (1..=pairs).contains(number));
    number.ok_or_else(|| format!("there are pairs from 1 to {pairs}"))
}

impl Arguments {
    fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig { scheduler: self.scheduler, ..TransportConfig::default() };
        transport.controller = self.congestion.unwrap_or(transport.controller);
        transport.recovery = self.recovery.unwrap_or(transport.recovery);
        transport
    }

    fn pairs(&self) -> Vec<Pair> {
        let pairs: Vec<Pair> = if self.random > 0 {
            (self.from..self.from.saturating_add(self.random))
                .map(|n| Pair::random(Seed(self.seed), n))
                .collect()
        } else {
            let wanted = |n: usize| self.pair.is_none_or(|pair| pair == n + 1);
            Pair::named().into_iter().enumerate().filter(|(n, _)| wanted(*n)).map(|(_, p)| p).collect()
        };
        if !self.swap {
            return pairs;
        }
        pairs.iter().flat_map(|pair| [*pair, pair.swapped()]).collect()
    }
}

/// What the runs of one pair took, on average.
struct Mean {
    /// Seconds over both, over the first alone, over the second alone.
    times: [f64; 3],
    /// Megabytes that each path carried.
    sent: [f64; 2],
    /// Bytes for recovery, in per cent of all.
    extra: f64,
}

impl Mean {
    fn of(runs: &[Comparison]) -> Self {
        let mean = |of: &dyn Fn(&Comparison) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let sent = |i: usize| mean(&|run| run.both.paths.get(i).map_or(0.0, |p| p.bytes_sent as f64 / 1e6));
        Self {
            times: [
                mean(&|run| run.both.completion.as_secs_f64()),
                mean(&|run| run.alone[0].as_secs_f64()),
                mean(&|run| run.alone[1].as_secs_f64()),
            ],
            sent: [sent(0), sent(1)],
            extra: mean(&|run| 100.0 * run.both.recovery_bytes_sent as f64 / run.both.bytes_sent as f64),
        }
    }

    fn to_best(&self) -> f64 {
        self.times[1].min(self.times[2]) / self.times[0]
    }

    fn to_sum(&self) -> f64 {
        let [both, a, b] = self.times;
        a * b / (a + b) / both
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    let transport = arguments.transport();
    println!(
        "{} over {}, {} bytes, means of {} runs",
        transport.recovery, transport.controller, arguments.size, arguments.seeds
    );
    println!(
        "{:<52} {:>9} {:>9} {:>9} {:>14} {:>7} {:>7} {:>7}",
        "pair (Mbit/s / RTT ms)", "1 alone", "2 alone", "both ms", "sent MB", "extra %", "to best", "to sum"
    );
    let (mut to_best, mut to_sum) = (Vec::new(), Vec::new());
    for pair in arguments.pairs() {
        let run = |seed| {
            let result = compare(Seed(arguments.seed).child("run", seed), pair, &transport, arguments.size);
            result.inspect_err(|error| println!("{pair}: {error}")).ok()
        };
        let runs: Vec<Comparison> = (0..arguments.seeds).filter_map(run).collect();
        if runs.is_empty() {
            continue;
        }
        let mean = Mean::of(&runs);
        print(pair, &mean);
        to_best.push(mean.to_best());
        to_sum.push(mean.to_sum());
    }
    summarise("to best", to_best);
    summarise("to sum", to_sum);
}

fn summarise(name: &str, mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    let below = |limit: f64| ratios.iter().filter(|r| **r < limit).count();
    let quantile = |q: f64| ratios.get((ratios.len() as f64 * q) as usize).copied().unwrap_or(0.0);
    println!(
        "{name}: least {:.3}, a tenth below {:.3}, half below {:.3}; {} of {} below 0.95, {} below 0.9",
        quantile(0.0),
        quantile(0.1),
        quantile(0.5),
        below(0.95),
        ratios.len(),
        below(0.9)
    );
}

fn print(pair: Pair, mean: &Mean) {
    let [both, first, second] = mean.times.map(|seconds| seconds * 1e3);
    println!(
        "{:<52} {first:>9.1} {second:>9.1} {both:>9.1} {:>6.2} + {:>5.2} {:>7.1} {:>7.3} {:>7.3}",
        pair.to_string(),
        mean.sent[0],
        mean.sent[1],
        mean.extra,
        mean.to_best(),
        mean.to_sum()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    /// With another number, or without a run, it printed that nothing is below 0.95.
    #[test]
    fn what_there_is_not_is_not_compared() {
        assert_eq!(read::<Arguments>(&["never-worse", "--pair", "6"]).unwrap().pairs().len(), 1);
        for wrong in [["--pair", "0"], ["--pair", "7"], ["--pair", "all"], ["--seeds", "0"]] {
            assert!(read::<Arguments>(&[&["never-worse"][..], &wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
