//! Runs random scenarios by their seeds, or one from a file; prints what breaks, as small as it can
//! be made.

use std::{
    io::{IsTerminal, Write, stderr},
    path::PathBuf,
    process::{ExitCode, exit},
    sync::atomic::{AtomicU64, Ordering},
};

use clap::Args;
use testkit::{
    Scenario,
    run::run_twice,
    sweep::{Report, Sweep, shrink_failure},
};

use crate::console::end_with_the_reader;

const EXAMPLES: &str = "\
Examples:
  mendpath-tools scenario --seed 0 --count 1000000
  mendpath-tools scenario --seed 123 --verbose
  mendpath-tools scenario --file broken.scenario --verbose";

/// Random scenarios of the transport on a simulated network. Exit code 0: all passed; 1: some
/// failed; 2: a file could not be read.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Run the scenario of this file instead.
    #[arg(long, conflicts_with_all = ["seed", "count"])]
    file: Option<PathBuf>,
    /// Threads; 0 takes one per core.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Run one of so many seeds twice and compare; 0 never.
    #[arg(long, default_value_t = 50)]
    twice_every: u64,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 10)]
    max_failures: usize,
    /// Of a single seed or file: print the scenario, and what came of it.
    #[arg(long)]
    verbose: bool,
}

/// Runs them.
pub fn run(arguments: Arguments) -> ExitCode {
    let single = match &arguments.file {
        Some(file) => Some(read(file)),
        None if arguments.count == 1 => Some(Scenario::generate(arguments.seed)),
        None => None,
    };
    // Panics are failures like others; where they come from matters while looking at one.
    std::panic::set_hook(Box::new(move |info| {
        if arguments.verbose {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
    end_with_the_reader();
    let passed = match single {
        Some(scenario) => run_one(&scenario, arguments.verbose),
        None => run_many(&arguments),
    };
    ExitCode::from(u8::from(!passed))
}

fn read(file: &PathBuf) -> Scenario {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let parsed = text.and_then(|text| text.parse::<Scenario>().map_err(|error| error.to_string()));
    parsed.unwrap_or_else(|error| {
        eprintln!("{}: {error}", file.display());
        exit(2);
    })
}

fn run_one(scenario: &Scenario, verbose: bool) -> bool {
    if verbose {
        println!("{scenario}");
    }
    match run_twice(scenario) {
        Ok(outcome) => {
            if verbose {
                println!("{outcome:#?}");
            }
            println!("passed, trace hash {:#x}, {} steps", outcome.trace_hash, outcome.steps);
            true
        }
        Err(failure) => {
            println!("FAILED ({}): {failure}\n", failure.kind());
            println!("the smallest scenario that fails likewise:\n\n{}", shrink_failure(scenario, &failure));
            false
        }
    }
}

fn run_many(arguments: &Arguments) -> bool {
    let sweep = Sweep {
        seeds: arguments.seed..arguments.seed.saturating_add(arguments.count),
        jobs: arguments.jobs,
        twice_every: arguments.twice_every,
        max_failures: arguments.max_failures,
    };
    let (terminal, shown) = (stderr().is_terminal(), AtomicU64::new(0));
    let report = sweep.run(|done| {
        let step = (arguments.count / 1_000).max(10);
        if terminal && done / step > shown.swap(done / step, Ordering::Relaxed) {
            eprint!("\r{done} of {} scenarios", arguments.count);
            let _ = stderr().flush();
        }
    });
    if terminal {
        eprintln!("\r{:40}\r", "");
    }
    print(&report);
    if report.next_seed < sweep.seeds.end {
        let left = sweep.seeds.end - report.next_seed;
        println!("\nstopped early; go on with --seed {} --count {left}", report.next_seed);
    }
    report.failed.is_empty()
}

fn print(report: &Report) {
    for failed in &report.failed {
        println!("seed {} FAILED ({}): {}", failed.seed, failed.failure.kind(), failed.failure);
        println!("\nthe smallest scenario that fails likewise:\n\n{}", failed.shrunk);
    }
    println!("{} scenarios, {} failed; seen in how many:", report.runs, report.failed.len());
    for (what, n) in &report.seen {
        println!("{n:>9}  {:5.1} %  {what}", *n as f64 * 100.0 / report.runs.max(1) as f64);
    }
}
