//! The demo's default scenario in virtual time: completion times of short responses under each
//! recovery scheme.

use std::{process::ExitCode, sync::Arc};

use clap::Args;
use netsim::{
    LinkConfig, Loss, Seed,
    loss::{GilbertElliott, InvalidBurst},
};
use proto::{ControllerKind, RecoveryKind, SchedulerKind, TransportConfig};
use testkit::{
    response::{Exchange, PathPlan, Response},
    timeline::Timeline,
};
use units::{BitRate, Duration, LossRate, percentile};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools fct --count 1000
  mendpath-tools fct --congestion cubic --row auto";

/// Completion times of responses over two paths, of which the second loses packets.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Responses per row; the n-th meets the same losses in every row.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Bytes of a response.
    #[arg(long, default_value_t = 60_000)]
    size: usize,
    /// Loss of the second path from server to client.
    #[arg(long, default_value = "2%")]
    loss: LossRate,
    /// Mean length of a loss burst; 1 loses independently.
    #[arg(long, default_value_t = 1.0)]
    burst: f64,
    /// Loss of the first path.
    #[arg(long, default_value = "0%")]
    loss1: LossRate,
    /// Rate of both paths.
    #[arg(long, default_value = "100mbit")]
    rate: BitRate,
    /// Round-trip time of the first path.
    #[arg(long, default_value = "50ms")]
    rtt1: Duration,
    /// Round-trip time of the second path.
    #[arg(long, default_value = "50ms")]
    rtt2: Duration,
    /// UDP payload of the largest packet.
    #[arg(long, default_value_t = 1_452)]
    mtu: u16,
    /// Most repair symbols of a block.
    #[arg(long, default_value_t = 3)]
    m_max: u8,
    /// Which path carries the next data.
    #[arg(long, default_value = "earliest-delivery")]
    scheduler: SchedulerKind,
    /// Congestion controller of every path.
    #[arg(long, default_value = "auto")]
    congestion: ControllerKind,
    /// Decides every loss.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the row whose name contains this.
    #[arg(long, default_value = "")]
    row: String,
    /// Print every response that takes longer than this.
    #[arg(long)]
    slow: Option<Duration>,
    /// Only this response, with what happened to every packet.
    #[arg(long, value_name = "N")]
    trace: Option<u64>,
}

struct Row {
    name: &'static str,
    recovery: RecoveryKind,
    lossy: bool,
    /// Only the second, lossy path.
    alone: bool,
}

const ROWS: &[Row] = &[
    Row { name: "one path, none", recovery: RecoveryKind::None, lossy: true, alone: true },
    Row { name: "one path, cofuso", recovery: RecoveryKind::Cofuso, lossy: true, alone: true },
    Row { name: "one path, slp", recovery: RecoveryKind::Slp, lossy: true, alone: true },
    Row { name: "one path, auto", recovery: RecoveryKind::Auto, lossy: true, alone: true },
    Row { name: "none", recovery: RecoveryKind::None, lossy: true, alone: false },
    Row { name: "proactive", recovery: RecoveryKind::Proactive, lossy: true, alone: false },
    Row { name: "fuso", recovery: RecoveryKind::Fuso, lossy: true, alone: false },
    Row { name: "cofuso", recovery: RecoveryKind::Cofuso, lossy: true, alone: false },
    Row { name: "slp", recovery: RecoveryKind::Slp, lossy: true, alone: false },
    Row { name: "auto", recovery: RecoveryKind::Auto, lossy: true, alone: false },
    Row { name: "loss-free, none", recovery: RecoveryKind::None, lossy: false, alone: false },
    Row { name: "loss-free, cofuso", recovery: RecoveryKind::Cofuso, lossy: false, alone: false },
    Row { name: "loss-free, auto", recovery: RecoveryKind::Auto, lossy: false, alone: false },
    Row { name: "loss-free, alone, auto", recovery: RecoveryKind::Auto, lossy: false, alone: true },
];

impl Arguments {
    /// Looks whether the losses that are asked for can come in such bursts.
    fn check(&self) -> Result<(), InvalidBurst> {
        for loss in [self.loss1, self.loss] {
            if self.burst != 1.0 && loss > LossRate::ZERO {
                GilbertElliott::from_stationary(loss, self.burst)?;
            }
        }
        Ok(())
    }

    fn paths(&self, row: &Row) -> Vec<PathPlan> {
        let path = |rtt: Duration, rate: LossRate| {
            let link = LinkConfig::new().rate(self.rate).delay(rtt / 2);
            let loss = if !row.lossy || rate == LossRate::ZERO {
                Loss::None
            } else if self.burst > 1.0 {
                LinkConfig::new().bursty_loss(rate, self.burst).expect("looked at before").loss
            } else {
                Loss::Bernoulli(rate)
            };
            PathPlan::symmetric(link, loss)
        };
        let (first, second) = (path(self.rtt1, self.loss1), path(self.rtt2, self.loss));
        if row.alone { vec![second] } else { vec![first, second] }
    }

    fn transport(&self, row: &Row) -> TransportConfig {
        let mut transport = TransportConfig {
            initial_datagram_size: self.mtu,
            max_datagram_size: self.mtu,
            recovery: row.recovery,
            scheduler: self.scheduler,
            controller: self.congestion,
            ..TransportConfig::default()
        };
        transport.repair.m_max = self.m_max;
        transport
    }

    fn responses(&self, row: &Row) -> Vec<Response> {
        let (paths, mut transport) = (self.paths(row), self.transport(row));
        let timeline = Timeline::default();
        if self.trace.is_some() {
            transport.observe = Some(Arc::new(timeline.clone()));
        }
        let mut responses = Vec::new();
        for n in self.trace.map_or(0..self.count, |n| n..n + 1) {
            let mut exchange = Exchange::establish(Seed(self.seed).child("response", n), &paths, &transport);
            let start = exchange.world.now();
            let result = exchange.request(self.size, &paths);
            print!("{}", timeline.text(start));
            match result {
                Ok(response) => {
                    if self.slow.is_some_and(|slow| response.completion > slow) {
                        let (name, time) = (row.name, response.completion);
                        println!("  {name}, response {n}: {time}, lost {:?}", response.link_lost);
                    }
                    responses.push(response);
                }
                Err(error) => println!("  {}, response {n}: {error}", row.name),
            }
        }
        responses
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    if let Err(error) = arguments.check() {
        eprintln!("fct: {error}");
        return ExitCode::from(2);
    }
    println!(
        "{:<18} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "",
        "mean ms",
        "p50",
        "p99",
        "max",
        "lost",
        "mended",
        "copies",
        "symbols",
        "rebuilt",
        "extra %",
        "in/out"
    );
    for row in ROWS.iter().filter(|row| row.name.contains(&arguments.row)) {
        let responses = arguments.responses(row);
        let mut times: Vec<f64> = responses.iter().map(|r| r.completion.as_millis_f64()).collect();
        times.sort_by(f64::total_cmp);
        let quantile = |share| percentile(&times, share).unwrap_or(f64::NAN);
        let sum = |of: fn(&Response) -> u64| responses.iter().map(of).sum::<u64>();
        let extra = sum(|r| r.recovery_bytes_sent) as f64 / (sum(|r| r.bytes_sent) as f64);
        println!(
            "{:<18} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7.1} {:>7.2}",
            row.name,
            times.iter().sum::<f64>() / times.len() as f64,
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            sum(|r| r.link_lost.iter().sum()),
            sum(|r| r.stats.packets_mended),
            sum(|r| r.stats.copies_sent),
            sum(|r| r.stats.repair_symbols_sent),
            sum(|r| r.stats.packets_rebuilt_by_peer),
            extra * 100.0,
            // Nearly all that a server receives are ACKs; the set-up counts too, so only long
            // responses give the bare share.
            sum(|r| r.stats.packets_received) as f64 / sum(|r| r.stats.packets_sent) as f64
        );
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::read;

    /// It panicked with the first row that loses packets.
    #[test]
    fn bursts_that_a_loss_rate_does_not_allow_are_refused() {
        for (burst, loss, is_possible) in [
            ("1", "90%", true),
            ("3", "2%", true),
            ("1.05", "90%", false),
            ("0.5", "2%", false),
            ("0.5", "0%", true),
        ] {
            let arguments: Arguments = read(&["fct", "--burst", burst, "--loss", loss]).unwrap();
            assert_eq!(arguments.check().is_ok(), is_possible, "{burst}, {loss}");
        }
    }
}
