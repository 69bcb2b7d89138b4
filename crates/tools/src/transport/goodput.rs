//! CTCP's lab (section 6.1) in virtual time: goodput of one transfer through a bottleneck behind a
//! lossy link.
//!
//! With `--chain` losses come in bursts instead: chances per packet that the good and the bad state
//! end, and the loss rate in the bad one.

use std::str::FromStr;

use clap::Args;
use netsim::{LinkConfig, Loss, Seed, link::QueueSize, loss::GilbertElliott};
use proto::{ControllerKind, RecoveryKind, TransportConfig};
use testkit::response::{Exchange, Incomplete, PathPlan, Response};
use units::{BitRate, Duration, LossRate};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools goodput --size 50000000
  mendpath-tools goodput --chain 1%/20%/100% --rate 50mbit --rtt 40ms --congestion auto,ctcp
  mendpath-tools goodput --rtt 20ms --jitter 40ms --paths 2 --loss 0% --congestion auto";

/// Virtual time for a transfer: a window that halves with every loss needs a while.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Goodput as a share of the bottleneck's rate, for each scheme and loss rate.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Bytes of the transfer.
    #[arg(long, default_value_t = 50_000_000)]
    size: usize,
    /// Rate of the bottleneck.
    #[arg(long, default_value = "25mbit")]
    rate: BitRate,
    /// Round-trip time without queues.
    #[arg(long, default_value = "25ms")]
    rtt: Duration,
    /// Each packet's delay differs by up to this much, each way, and packets overtake each other.
    #[arg(long, default_value = "0ms")]
    jitter: Duration,
    /// Buffer in front of the bottleneck, in packets of 1,480 bytes; the default is one and a
    /// quarter BDP of 25 Mbit/s and 25 ms.
    #[arg(long, default_value_t = 66)]
    buffer: u64,
    /// Loss rates, before the bottleneck.
    #[arg(long, value_delimiter = ',', default_value = "0%,1%,5%,10%,20%")]
    loss: Vec<LossRate>,
    /// Losses in bursts, before the bottleneck: good to bad / bad to good / loss while bad.
    #[arg(long, value_delimiter = ',', conflicts_with = "loss")]
    chain: Vec<Chain>,
    /// Number of such paths.
    #[arg(long, default_value_t = 1, value_parser = number_of_paths)]
    paths: usize,
    /// Recovery schemes.
    #[arg(long, value_delimiter = ',', default_value = "none,ctcp,auto")]
    recovery: Vec<RecoveryKind>,
    /// Congestion controllers.
    #[arg(long, value_delimiter = ',', default_value = "cubic,ctcp")]
    congestion: Vec<ControllerKind>,
    /// Decides every loss.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// As many paths as a connection may have.
pub(super) fn number_of_paths(text: &str) -> Result<usize, String> {
    let most = TransportConfig::default().max_paths as usize;
    let paths = text.parse::<usize>().ok().filter(|paths| (1..=most).contains(paths));
    paths.ok_or_else(|| format!("a connection has from 1 to {most} paths"))
}

/// A Gilbert-Elliott channel as on the command line.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    text: String,
    channel: GilbertElliott,
}

impl FromStr for Chain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rates: Vec<LossRate> =
            text.split('/').map(str::parse).collect::<Result<_, _>>().map_err(|e| format!("{e}"))?;
        let &[good_to_bad, bad_to_good, loss_in_bad] = rates.as_slice() else {
            return Err("write three rates, such as 1%/20%/100%".into());
        };
        let channel = GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good: LossRate::ZERO };
        Ok(Self { text: text.into(), channel })
    }
}

impl Chain {
    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What it loses.
    pub(super) fn loss(&self) -> Loss {
        if self.channel.good_to_bad == LossRate::ZERO {
            Loss::None
        } else {
            Loss::GilbertElliott(self.channel)
        }
    }
}

impl Arguments {
    /// What the paths lose, with a name.
    fn losses(&self) -> Vec<(String, Loss)> {
        if !self.chain.is_empty() {
            return self.chain.iter().map(|c| (c.text.clone(), Loss::GilbertElliott(c.channel))).collect();
        }
        let bernoulli = |&rate| if rate == LossRate::ZERO { Loss::None } else { Loss::Bernoulli(rate) };
        self.loss.iter().map(|rate| (rate.to_string(), bernoulli(rate))).collect()
    }

    fn transfer(
        &self,
        recovery: RecoveryKind,
        controller: ControllerKind,
        loss: &Loss,
    ) -> Result<Response, Incomplete> {
        let buffer = QueueSize::Packets(self.buffer);
        let link = LinkConfig::new().rate(self.rate).delay(self.rtt / 2).queue(buffer);
        let link = if self.jitter.is_zero() { link } else { link.jitter(self.jitter).reordering(true) };
        let path = PathPlan::symmetric(link, loss.clone());
        let paths = vec![path; self.paths];
        let transport = TransportConfig { recovery, controller, ..TransportConfig::default() };
        let mut exchange = Exchange::establish(Seed(self.seed), &paths, &transport);
        exchange.limit = PATIENCE;
        exchange.request(self.size, &paths)
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    let heading = |(title, width): (&str, usize)| print!("{title:>width$}");
    [
        ("controller", 10),
        ("recovery", 10),
        ("loss", 16),
        ("goodput", 10),
        ("extra %", 9),
        ("lost", 8),
        ("wasted", 8),
    ]
    .into_iter()
    .for_each(heading);
    println!();
    for &controller in &arguments.congestion {
        for &recovery in &arguments.recovery {
            for (name, loss) in arguments.losses() {
                let response = match arguments.transfer(recovery, controller, &loss) {
                    Ok(response) => response,
                    Err(incomplete) => {
                        let (controller, recovery) = (controller.name(), recovery.name());
                        println!("{controller:>10}{recovery:>10}{name:>16}  {}", incomplete.summary());
                        continue;
                    }
                };
                let goodput = arguments.size as f64 * 8.0
                    / response.completion.as_secs_f64()
                    / (arguments.rate.bits_per_second() * arguments.paths as u64) as f64;
                let extra = response.recovery_bytes_sent as f64 / response.bytes_sent as f64 * 100.0;
                let wasted =
                    response.stats.repair_symbols_sent.saturating_sub(response.stats.packets_rebuilt_by_peer);
                println!(
                    "{:>10}{:>10}{name:>16}{goodput:>10.3}{extra:>9.1}{:>8}{wasted:>8}",
                    controller.name(),
                    recovery.name(),
                    response.stats.packets_lost
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    /// Without any, or with more than come up, it panicked.
    #[test]
    fn a_transfer_has_as_many_paths_as_a_connection() {
        for (paths, is_taken) in [("0", false), ("1", true), ("8", true), ("9", false), ("two", false)] {
            assert_eq!(read::<Arguments>(&["goodput", "--paths", paths]).is_ok(), is_taken, "{paths}");
        }
    }

    #[test]
    fn a_slow_transfer_has_its_time() {
        let arguments: Arguments = read(&["goodput", "--rate", "1mbit", "--size", "20000000"]).unwrap();
        let response = arguments.transfer(RecoveryKind::None, ControllerKind::Cubic, &Loss::None).unwrap();
        assert!(response.completion > Duration::from_secs(160), "{}", response.completion);
    }
}
