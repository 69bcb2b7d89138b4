//! Runs plans without the command line's other dependencies.
//!
//! ```sh
//! cargo run --release -p mendpath-experiments --example run -- plans/fuso-fig6ab --jobs 2 --readme
//! ```

use std::path::PathBuf;

use clap::Parser;
use experiments::{Campaign, Plan, Progress, Scale, Tail, write_all};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs plans.
#[derive(Parser)]
struct Arguments {
    /// Folders of plans, or plan files.
    #[arg(required = true)]
    plans: Vec<PathBuf>,
    /// quick, medium or paper.
    #[arg(long, default_value = "quick")]
    scale: Scale,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seeds instead of the plan's.
    #[arg(long)]
    seeds: Option<u32>,
    /// Where results go, in a folder per plan and scale.
    #[arg(long, default_value = "results")]
    out: PathBuf,
    /// Also put the summary into the plan's README, and the figures beside it.
    #[arg(long)]
    readme: bool,
    /// Instead: what happened to the N slowest flows of each scheme, packet by packet.
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// For --tail: the value of an axis; the first one otherwise.
    #[arg(long, value_name = "AXIS=VALUE")]
    at: Vec<String>,
    /// For --tail: the seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For --tail: one scheme.
    #[arg(long)]
    scheme: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let scale = arguments.scale;
    for path in &arguments.plans {
        let file = if path.is_dir() { path.join("plan.toml") } else { path.clone() };
        let mut plan = Plan::load(&file, scale)?;
        plan.seeds = arguments.seeds.unwrap_or(plan.seeds);
        if let Some(flows) = arguments.tail {
            let at = arguments.at.iter().map(|text| Tail::setting(text)).collect::<Result<_, _>>()?;
            let tail =
                Tail { at, seed: arguments.seed, scheme: arguments.scheme.clone(), ..Tail::new(flows) };
            print!("{}", tail.text(&plan)?);
            continue;
        }
        let folder = arguments.out.join(format!("{}-{}", plan.name, scale.name()));
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?);
        bar.set_message(plan.name.clone());
        let look = |progress: Progress| {
            bar.set_length(progress.runs as u64);
            bar.set_position(progress.done as u64);
        };
        let rows = Campaign::new(&plan, &folder)?.run(arguments.jobs, &look)?;
        bar.finish_and_clear();
        let (summary, files) = write_all(&plan, &rows, &folder)?;
        println!("{}", experiments::tables(&plan, &summary));
        if arguments.readme {
            experiments::publish(&plan, &summary, &files)?;
        }
    }
    Ok(())
}
