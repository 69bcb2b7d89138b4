//! Runs random scenarios by their seeds, prints what breaks, and replays a single one.
//!
//! `cargo run --release -p mendpath-testkit --example scenario -- --seed 123 [--count 1000000] [--verbose]`

use clap::Parser;
use testkit::Scenario;

/// Random scenarios of the transport on a simulated network.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Print each scenario before it runs and what came of it.
    #[arg(long)]
    verbose: bool,
    /// Run each scenario once instead of twice.
    #[arg(long)]
    once: bool,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 10)]
    max_failures: u64,
}

fn main() {
    let arguments = Arguments::parse();
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let mut failures = 0;
    for seed in arguments.seed..arguments.seed + arguments.count {
        let scenario = Scenario::generate(seed);
        if arguments.verbose {
            println!("{scenario:#?}");
        }
        let failure = match testkit::run(&scenario) {
            Ok(outcome) => {
                if arguments.verbose {
                    println!("{outcome:#?}");
                }
                let hash = (!arguments.once).then(|| testkit::run(&scenario).map(|again| again.trace_hash));
                match hash {
                    Some(Ok(hash)) if hash != outcome.trace_hash => Some("two runs differ".to_owned()),
                    Some(Err(failure)) => Some(format!("two runs differ, the second: {failure}")),
                    _ => None,
                }
            }
            Err(failure) => Some(failure.to_string()),
        };
        if let Some(failure) = failure {
            println!("seed {seed}: {failure}");
            failures += 1;
            if failures == arguments.max_failures {
                break;
            }
        }
    }
    println!("{failures} failures in seeds {} to {}", arguments.seed, arguments.seed + arguments.count - 1);
    std::process::exit(i32::from(failures > 0));
}
