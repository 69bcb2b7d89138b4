//! CTCP's lab (section 6.1) in virtual time: goodput of one transfer through a bottleneck behind a lossy link.
//!
//! `cargo run --release -p mendpath-testkit --example goodput -- --size 50000000`

use clap::Parser;
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::{ControllerKind, RecoveryKind, TransportConfig};
use testkit::response::{Exchange, PathPlan, Response};
use units::{BitRate, Duration, LossRate};

/// Goodput as a share of the bottleneck's rate, for each scheme and loss rate.
#[derive(Parser)]
struct Arguments {
    /// Bytes of the transfer.
    #[arg(long, default_value_t = 50_000_000)]
    size: usize,
    /// Rate of the bottleneck.
    #[arg(long, default_value = "25mbit")]
    rate: BitRate,
    /// Round-trip time without queues.
    #[arg(long, default_value = "25ms")]
    rtt: Duration,
    /// Buffer in front of the bottleneck, in packets of 1,480 bytes; the default is one and a quarter BDP.
    #[arg(long, default_value_t = 66)]
    buffer: u64,
    /// Loss rates, before the bottleneck.
    #[arg(long, value_delimiter = ',', default_value = "0%,1%,5%,10%,20%")]
    loss: Vec<LossRate>,
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

impl Arguments {
    fn transfer(&self, recovery: RecoveryKind, controller: ControllerKind, loss: LossRate) -> Response {
        let buffer = QueueSize::Packets(self.buffer);
        let link = LinkConfig::new().rate(self.rate).delay(self.rtt / 2).queue(buffer);
        let loss = if loss == LossRate::ZERO { Loss::None } else { Loss::Bernoulli(loss) };
        let paths = [PathPlan { up: link.clone(), down: link, loss }];
        let transport = TransportConfig { recovery, controller, ..TransportConfig::default() };
        let mut exchange = Exchange::establish(Seed(self.seed), &paths, &transport);
        exchange.request(self.size, &paths).expect("the transfer ends")
    }
}

fn main() {
    let arguments = Arguments::parse();
    let heading = |(title, width): (&str, usize)| print!("{title:>width$}");
    [
        ("controller", 10),
        ("recovery", 10),
        ("loss", 8),
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
            for &loss in &arguments.loss {
                let response = arguments.transfer(recovery, controller, loss);
                let goodput = arguments.size as f64 * 8.0
                    / response.completion.as_secs_f64()
                    / arguments.rate.bits_per_second() as f64;
                let extra = response.stats.recovery_bytes_sent as f64 / response.bytes_sent as f64 * 100.0;
                let wasted = response.stats.repair_sent.saturating_sub(response.stats.peer_recovered);
                println!(
                    "{:>10}{:>10}{:>8}{goodput:>10.3}{extra:>9.1}{:>8}{wasted:>8}",
                    controller.name(),
                    recovery.name(),
                    loss.to_string(),
                    response.stats.packets_lost
                );
            }
        }
    }
}
