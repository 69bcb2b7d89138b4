//! A call in virtual time over the shipping transport: frames in time, and what that costs.

use clap::Args;
use netsim::Seed;
use testkit::{
    call::{self, Call, Cuts, Outcome, Protection},
    response::PathPlan,
};
use units::{BitRate, Duration};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools call
  mendpath-tools call --rtt 100ms --time 120s
  mendpath-tools call --missed";

/// A call (audio 50 frames/s, video 30 frames/s with key frames) over datagrams with a deadline:
/// the share of frames in time, and the bytes beyond those of `none`, for every protection, loss
/// and pair of paths.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How long each call takes.
    #[arg(long, default_value = "120s")]
    time: Duration,
    /// For how long a frame is of use.
    #[arg(long, default_value = "150ms")]
    deadline: Duration,
    /// Round-trip time of each path.
    #[arg(long, default_value = "40ms")]
    rtt: Duration,
    /// Rate of each path.
    #[arg(long, default_value = "10mbit")]
    rate: BitRate,
    /// Of so many frames one may be late: how much repair `auto` and `streaming` send. Theirs: 500.
    #[arg(long, value_name = "FRAMES")]
    one_late_in: Option<u32>,
    /// Print when frames of `auto` were missed, and how many of their datagrams.
    #[arg(long)]
    missed: bool,
    /// Decides everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Mean bursts that are tried, in packets; 1 is random loss.
const BURSTS: [f64; 3] = [1.0, 3.0, 8.0];

impl Arguments {
    fn path(&self, loss: f64, burst: f64) -> PathPlan {
        call::path(self.rate, self.rtt, loss, burst)
    }

    fn call(&self, paths: &[PathPlan], protection: Protection, cuts: Option<Cuts>) -> Outcome {
        let call = Call {
            paths: paths.to_vec(),
            protection,
            time: self.time,
            deadline: self.deadline,
            cuts,
            decodes: true,
            one_late_in: self.one_late_in,
        };
        call.run(Seed(self.seed))
    }

    fn row(&self, name: &str, paths: &[PathPlan], cuts: Option<Cuts>) {
        let outcomes = Protection::ALL.map(|protection| self.call(paths, protection, cuts));
        let plain = outcomes[Protection::ALL.len() - 1].bytes_sent as f64;
        let cells = outcomes.iter().map(|outcome| {
            let frames = if cuts.is_some() { outcome.while_cut } else { outcome.frames };
            let extra = (outcome.bytes_sent as f64 / plain - 1.0) * 100.0;
            format!("{:.2} ({extra:+.1})", frames.share() * 100.0)
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        if self.missed {
            let known = outcomes[0].known;
            println!("  {known:?}");
            for (at, datagrams) in &outcomes[0].missed {
                println!("  missed at {:.3} s: {datagrams} datagrams", at.as_nanos() as f64 / 1e9);
            }
        }
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) {
    println!(
        "Frames within {} ms in per cent, and bytes beyond those of `none` in per cent; calls of {} s.",
        arguments.deadline.as_millis(),
        arguments.time.as_millis() / 1_000
    );
    let names: Vec<&str> = Protection::ALL.map(Protection::name).to_vec();
    println!("\n| paths of {} ms | {} |", arguments.rtt.as_millis(), names.join(" | "));
    println!("| --- |{}", " --- |".repeat(names.len()));
    let clean = arguments.path(0.0, 1.0);
    arguments.row("one, no loss", core::slice::from_ref(&clean), None);
    for count in [1, 2] {
        for burst in BURSTS {
            for loss in [0.01, 0.03, 0.05] {
                let mut paths = vec![arguments.path(loss, burst)];
                paths.extend((1..count).map(|_| clean.clone()));
                let which = if count == 1 { "one" } else { "two, one of them" };
                let name = format!("{which} with {} % in bursts of {burst}", loss * 100.0);
                arguments.row(&name, &paths, None);
            }
        }
    }
    let cuts = Cuts { path: 0, every: Duration::from_secs(10), time: Duration::from_secs(4) };
    arguments.row("two, one cut for 4 s of 10: frames meanwhile", &[clean.clone(), clean], Some(cuts));
}
