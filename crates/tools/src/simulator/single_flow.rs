//! One flow over 12 Mbit/s and 10 ms each way, with losses at given packets: the network of
//! `tests/timelines.rs`, for comparison with `bench/simulators/single_flow.tcl`.
//!
//! The first argument is the flow's length in segments, the others are the data packets that the
//! link loses, from 0. Prints when the last acknowledgement is back at the sender, in ms, or `never`
//! if that takes longer than a minute; then the timeouts. Words before the numbers: with
//! `handshake`, time counts from the end of a handshake, which has given a first sample of the
//! round-trip time; with `plain`, there is no Early Retransmit. With `linux` or `linux-reno`, TCP is
//! Linux's, segments have 1,448 bytes, and what is printed is when the last byte is with a receiver
//! that asked for it by a short request, as `mendpath lab` measures it. With `quick`, every segment
//! is acknowledged at once. With `timeline`, what happened to every packet follows.

use std::process::ExitCode;

use clap::Args;
use netsim::{
    Loss,
    fabric::{Direction, Failure, Fault, Line, LinkId, Options, Topology},
};
use tcpsim::{
    CongestionKind, Profile, Sim, Tcp,
    timeline::text::{PortNames, text},
};
use units::{BitRate, Duration, Instant};

/// Words before the numbers.
const WORDS: [&str; 6] = ["handshake", "plain", "linux", "linux-reno", "quick", "timeline"];

/// One flow over 12 Mbit/s and 10 ms each way, with losses at given packets.
///
/// Prints when the last acknowledgement is back at the sender, in ms, and the timeouts.
#[derive(Args)]
#[command(after_help = "Example:\n  mendpath-tools single-flow 100 40 41 42")]
pub struct Arguments {
    /// [handshake] [plain] [linux | linux-reno] [quick] [timeline] SEGMENTS [LOST_PACKET]...
    ///
    /// The flow's length in segments, and the data packets that the link loses, from 0. Words
    /// before them: with `handshake`, time counts from the end of a handshake, which has given a
    /// first sample of the round-trip time; with `plain`, there is no Early Retransmit. With
    /// `linux` or `linux-reno`, TCP is Linux's, segments have 1,448 bytes, and what is printed is
    /// when the last byte is with a receiver that asked for it by a short request. With `quick`,
    /// every segment is acknowledged at once. With `timeline`, what happened to every packet
    /// follows.
    #[arg(value_name = "WORD|NUMBER", required = true)]
    words: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let (words, numbers): (Vec<_>, Vec<_>) =
        arguments.words.iter().partition(|word| WORDS.contains(&word.as_str()));
    let [handshake, plain, linux, reno, quick, timeline] =
        WORDS.map(|option| words.iter().any(|word| *word == option));
    let arguments: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let Ok(arguments) = arguments else { return usage() };
    let Some((segments, lost)) = arguments.split_first() else { return usage() };
    let slow = Line::new(BitRate::from_mbps(12), Duration::from_millis(10), 10_000);
    let fast = Line { rate: BitRate::from_mbps(12_000), delay: Duration::ZERO, ..slow };
    let mut topology = Topology::new(2, 1);
    topology.attach(0, 0, slow, Line { rate: fast.rate, ..slow });
    topology.attach(1, 0, fast, fast);
    let failure =
        Failure::Loss { loss: Loss::nth(lost.iter().copied()), data_only: true, before_rate: false };
    let faults = vec![Fault { link: LinkId(0), direction: Direction::Forward, failure }];
    let mut sim = Sim::new(&topology, &Options { faults, ..Options::default() }).expect("a sound topology");
    let tcp = if linux || reno {
        let congestion = if reno { CongestionKind::Reno } else { Tcp::linux().congestion };
        Tcp { congestion, ack_every: if quick { 1 } else { 2 }, ..Tcp::linux() }
    } else {
        Tcp { handshake, early_retransmit: !plain, ..Tcp::default() }
    };
    let bytes = segments.max(&1) * u64::from(tcp.mss);
    let tcp = sim.add_profile(Profile::tcp(tcp));
    let flow = sim.add_flow(tcp, 0, 1, bytes, Instant::ORIGIN).expect("hosts exist");
    let timelines = timeline.then(|| sim.watch(&[flow]));
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(60)).expect("within limits");
    // Half a round trip on top: the last acknowledgement's, or the request's.
    let time = sim.flow(flow).and_then(|flow| flow.completion_time());
    let time = time.map(|time| format!("{:.6}", time.as_millis_f64() + 10.000_054));
    println!("{} {}", time.as_deref().unwrap_or("never"), sim.totals().timeouts);
    if let Some(timelines) = timelines {
        print!("{}", text(&timelines.of(flow), &PortNames::new(&topology), usize::MAX));
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: mendpath-tools single-flow [handshake] [plain] [linux | linux-reno] [quick] [timeline] SEGMENTS [LOST_PACKET]..."
    );
    ExitCode::from(2)
}
