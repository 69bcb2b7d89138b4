//! Long TCP flows over a dumbbell, for comparison with `bench/simulators/dumbbell.tcl` and
//! `dumbbell.cc`, which take the same arguments.
//!
//! One line of JSON: segments acknowledged after the warm-up, in all and of each flow, then what
//! was sent again and timeouts in the whole run, and the mean of the packets that waited at the
//! bottleneck after the warm-up. `linux=1` has the rest of TCP as in Linux: segments of 1,448
//! bytes, RACK, probes, delayed acknowledgements; with `quick=1` beside it every segment is
//! acknowledged at once, with `rfc9438=1` CUBIC is not the kernel's but the specification's.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use congestion::CubicRules;
use netsim::{
    Loss, Seed,
    fabric::{Direction, Failure, Fault, Mark, Options, topology::Dumbbell},
};
use tcpsim::{CongestionKind, Profile, Sim, Tcp};
use units::{BitRate, Duration, Instant, LossRate};

/// What may be given as `key=value`, with defaults; numbers, apart from `tcp`.
const DEFAULTS: [(&str, f64); 14] = [
    ("flows", 10.0),
    ("mbps", 1_000.0),
    ("rtt_ms", 0.1),
    ("queue", 100.0),
    ("loss", 0.0),
    ("seed", 1.0),
    ("warmup", 0.0),
    ("seconds", 1.0),
    ("window", 65_536.0),
    ("mark", 0.0),
    ("min_rto_ms", 200.0),
    ("linux", 0.0),
    ("quick", 0.0),
    ("rfc9438", 0.0),
];

const EXAMPLES: &str = "\
Example:
  mendpath-tools dumbbell flows=1 mbps=100 rtt_ms=50 queue=10000 loss=0.01 seconds=60 warmup=5

Prints a line of JSON: segments acknowledged after the warm-up, in all and of each flow, then what
was sent again and timeouts in the whole run, and the mean of the packets that waited.";

/// Long TCP flows over a dumbbell, as `bench/simulators/dumbbell.tcl` and `dumbbell.cc` have them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Of flows, mbps, rtt_ms, queue, loss, seed, warmup, seconds, window, mark, min_rto_ms, linux,
    /// quick, rfc9438, tcp.
    ///
    /// Queue and mark are in packets, window in segments, warmup and seconds in seconds. `tcp` is
    /// reno, dctcp, cubic or another controller; `linux=1` has the rest of TCP as in Linux; with
    /// `quick=1` beside it every segment is acknowledged at once, with `rfc9438=1` CUBIC is not the
    /// kernel's but the specification's.
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
}

struct Setting {
    numbers: BTreeMap<String, f64>,
    tcp: CongestionKind,
}

impl Setting {
    fn read(words: &[String]) -> Result<Self, String> {
        let mut numbers: BTreeMap<_, _> =
            DEFAULTS.iter().map(|(key, value)| (key.to_string(), *value)).collect();
        let mut tcp = CongestionKind::Reno;
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("not key=value: {word}"))?;
            if key == "tcp" {
                tcp = match value {
                    "reno" => CongestionKind::Reno,
                    "dctcp" => CongestionKind::Dctcp,
                    other => {
                        CongestionKind::Shared(other.parse().map_err(|_| format!("no controller {other}"))?)
                    }
                };
            } else {
                let slot = numbers.get_mut(key).ok_or_else(|| format!("unknown argument: {word}"))?;
                *slot = value.parse().map_err(|_| format!("not a number: {word}"))?;
            }
        }
        Ok(Self { numbers, tcp })
    }

    fn number(&self, key: &str) -> f64 {
        self.numbers.get(key).copied().unwrap_or(0.0)
    }

    fn time(&self, key: &str, unit: f64) -> Duration {
        Duration::from_nanos((self.number(key) * unit) as u64)
    }

    fn network(&self) -> Dumbbell {
        let rate = BitRate((self.number("mbps") * 1e6) as u64);
        let (pairs, queue) = (self.number("flows") as u32, self.number("queue") as u32);
        let mut network = Dumbbell::new(pairs, rate, self.time("rtt_ms", 1e6), queue);
        let mark = self.number("mark") as u32;
        network.bottleneck.mark = (mark > 0).then_some(Mark::Packets(mark));
        network
    }

    fn options(&self) -> Options {
        let mut faults = Vec::new();
        if self.number("loss") > 0.0 {
            let rate = LossRate::new(self.number("loss").min(1.0)).unwrap_or_default();
            let failure = Failure::Loss { loss: Loss::Bernoulli(rate), data_only: true, before_rate: false };
            faults.push(Fault { link: Dumbbell::BOTTLENECK, direction: Direction::Forward, failure });
        }
        Options { seed: Seed(self.number("seed") as u64), faults, ..Options::default() }
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let setting = match Setting::read(&arguments.words) {
        Ok(setting) => setting,
        Err(error) => {
            eprintln!(
                "{error}\nthere are: tcp=reno|dctcp|cubic|..., {}",
                DEFAULTS.map(|(key, _)| key).join(", ")
            );
            return ExitCode::from(2);
        }
    };
    let mut sim = Sim::new(&setting.network().build(), &setting.options()).expect("a sound topology");
    let base = if setting.number("linux") > 0.0 { Tcp::linux() } else { Tcp::default() };
    let profile = sim.add_profile(Profile::tcp(Tcp {
        congestion: setting.tcp.clone(),
        ecn: setting.number("mark") > 0.0,
        receive_window: setting.number("window") as u32,
        min_rto: setting.time("min_rto_ms", 1e6),
        cubic_rules: if setting.number("rfc9438") > 0.0 { CubicRules::Rfc9438 } else { base.cubic_rules },
        ack_every: if setting.number("quick") > 0.0 { 1 } else { base.ack_every },
        ..base
    }));
    let pairs = setting.number("flows") as u32;
    let start = |pair: u32| Instant::ORIGIN + Duration::from_micros(u64::from(pair) * 10);
    let connections: Vec<_> = (0..pairs)
        .map(|pair| {
            let connection = sim.connect(profile, pair, pairs + pair).expect("hosts exist");
            sim.write(connection, 1 << 40, start(pair)).expect("within limits");
            connection
        })
        .collect();
    let acknowledged = |sim: &Sim| -> Vec<u64> {
        connections.iter().map(|id| sim.connection(*id).map_or(0, |conn| conn.acknowledged())).collect()
    };
    let warmup = setting.time("warmup", 1e9);
    sim.run(Instant::ORIGIN + warmup).expect("within limits");
    let before = acknowledged(&sim);
    let (port, until) = (Dumbbell::BOTTLENECK.forward(), Instant::ORIGIN + setting.time("seconds", 1e9));
    let (mut sum, mut looks) = (0_u64, 0_u64);
    // A prime number of nanoseconds, so that looking falls into no step with the packets.
    sim.run_watching(until, Duration::from_nanos(37_003), |sim| {
        sum += u64::from(sim.fabric().waiting(port).map_or(0, |(packets, _)| packets));
        looks += 1;
    })
    .expect("within limits");
    let shares: Vec<u64> = acknowledged(&sim).iter().zip(&before).map(|(now, before)| now - before).collect();
    let totals = sim.totals();
    println!(
        "{{\"delivered\":{},\"shares\":{shares:?},\"retransmissions\":{},\"timeouts\":{},\"queue\":{:.3}}}",
        shares.iter().sum::<u64>(),
        totals.retransmissions,
        totals.timeouts,
        sum as f64 / looks.max(1) as f64
    );
    ExitCode::SUCCESS
}
