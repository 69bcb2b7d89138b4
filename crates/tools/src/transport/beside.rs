//! How controllers share a link, over the shipping transport in virtual time.

use clap::Args;
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::{ControllerKind, TransportConfig};
use testkit::beside;
use units::{BitRate, Duration, LossRate};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools beside
  mendpath-tools beside --congestion auto,auto,cubic --jitter 0ms --span 60s";

/// Uploads beside each other through one bottleneck: what each of them gets.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A congestion controller for each upload; they are set up in this order.
    #[arg(long, value_delimiter = ',', default_value = "auto,cubic")]
    congestion: Vec<ControllerKind>,
    /// Rate of the bottleneck.
    #[arg(long, default_value = "50mbit")]
    rate: BitRate,
    /// Round-trip time without queues.
    #[arg(long, default_value = "20ms")]
    rtt: Duration,
    /// Each packet's delay differs by up to this much, each way, and packets overtake each other.
    #[arg(long, default_value = "40ms")]
    jitter: Duration,
    /// Buffer in front of the bottleneck, in packets of 1,480 bytes.
    #[arg(long, default_value_t = 400)]
    buffer: u64,
    /// Loss of single packets, each way.
    #[arg(long, default_value = "0%")]
    loss: LossRate,
    /// Time after which it counts what arrives.
    #[arg(long, default_value = "5s")]
    warm_up: Duration,
    /// Time for which it counts.
    #[arg(long, default_value = "30s")]
    span: Duration,
    /// Decides every loss and delay.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    let buffer = QueueSize::Packets(arguments.buffer);
    let link = LinkConfig::new().rate(arguments.rate).delay(arguments.rtt / 2).queue(buffer);
    let jitter = arguments.jitter;
    let link = if jitter.is_zero() { link } else { link.jitter(jitter).reordering(true) };
    let lossless = arguments.loss == LossRate::ZERO;
    let link = if lossless { link } else { link.loss(Loss::Bernoulli(arguments.loss)) };
    let transport = |&controller| TransportConfig { controller, ..TransportConfig::default() };
    let transports: Vec<_> = arguments.congestion.iter().map(transport).collect();
    let seed = Seed(arguments.seed);
    let shares = beside::run(seed, &link, &transports, arguments.warm_up, arguments.span);
    println!("| controller | Mbit/s | declared lost | of these arrived |");
    println!("| --- | --- | --- | --- |");
    for (controller, share) in arguments.congestion.iter().zip(shares) {
        let rate = share.delivered as f64 * 8e-6 / arguments.span.as_secs_f64();
        let (lost, spurious) = (share.path.packets_lost, share.path.spurious_losses);
        println!("| {} | {rate:.1} | {lost} | {spurious} |", controller.name());
    }
}
