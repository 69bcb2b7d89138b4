//! The arguments of `mendpath experiment`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What there is to do with plans of experiments.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Show which plans there are.
    List(ListArgs),
    /// Run plans: simulate, and write tables and figures.
    #[command(long_about = "Run plans: simulate, and write tables and figures.\n\n\
                  Every finished run is kept; after an interruption the same command goes on, and with more --seeds only the new ones are \
                  run. Results depend on plan and seed, not on --jobs.")]
    Run(RunArgs),
    /// Put rows of several machines together, and write tables and figures.
    #[command(
        long_about = "Put rows of several machines together, and write tables and figures, the same as one machine would have made.\n\n\
                  Rows of another plan, scale or version of the program are refused, and so are results that contradict each other or \
                  are not complete."
    )]
    Merge(MergeArgs),
}

/// Arguments of `experiment list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of the plans.
    #[arg(long, value_name = "DIR", default_value = "plans")]
    pub plans: PathBuf,
    /// How much would be run: quick, medium or paper.
    #[arg(long, default_value = "quick")]
    pub scale: experiments::Scale,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `experiment run` and `experiment merge` do with rows.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// Seeds of every point and scheme [default: the plan's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// Where results go, in a folder per plan and scale.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Folder of the plans.
    #[arg(long, value_name = "DIR", default_value = "plans")]
    pub plans: PathBuf,
    /// Print the summaries as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `experiment run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath experiment list\n  \
                  mendpath experiment run fuso-fig6ab\n  \
                  mendpath experiment run fuso-fig6ab cofuso-fig10 --scale paper --jobs 8\n  \
                  mendpath experiment run --all    some ten minutes on two cores\n  \
                  mendpath experiment run my/plan.toml --seeds 20 --out my/results\n  \
                  mendpath experiment run fuso-fig6ab --scale paper --shard 3/8    on the third of eight machines\n  \
                  mendpath experiment run cofuso-fig10 --tail 2 --at sizes=mid    why are the slowest flows slow?")]
pub struct RunArgs {
    /// Names of plans, their folders or files.
    #[arg(required_unless_present = "all", value_name = "PLAN")]
    pub plan: Vec<PathBuf>,
    /// Every plan of the folder.
    #[arg(long, conflicts_with_all = ["plan", "tail"])]
    pub all: bool,
    /// How much is run: quick (minutes), medium (an hour; the large plans have it) or paper (the
    /// paper's numbers).
    #[arg(long, default_value = "quick")]
    pub scale: experiments::Scale,
    /// Runs at a time [default: one per core].
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    pub jobs: Option<usize>,
    /// What is summarised, and where it goes.
    #[command(flatten)]
    pub results: ResultsArgs,
    /// Also put the summary into the plan's README, and summary.csv and the figures beside it.
    #[arg(long)]
    pub publish: bool,
    /// Only every Nth run, from the Ith on, for one of N machines; put together by `experiment
    /// merge`.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["json", "publish", "tail"])]
    pub shard: Option<experiments::Shard>,
    /// Instead: run one point, and tell packet by packet what happened to the N slowest flows of
    /// each scheme.
    #[arg(long, value_name = "N", conflicts_with_all = ["jobs", "seeds", "json", "publish"],
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub tail: Option<u32>,
    /// With --tail: the value of an axis of the sweep, or a part of its name [default: the first
    /// value of every axis].
    #[arg(long, value_name = "AXIS=VALUE", requires = "tail")]
    pub at: Vec<String>,
    /// With --tail: the seed.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tail")]
    pub seed: u64,
    /// With --tail: only this scheme.
    #[arg(long, value_name = "NAME", requires = "tail")]
    pub scheme: Option<String>,
}

/// Arguments of `experiment merge`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath experiment merge machine1/results machine2/results\n  \
                  mendpath experiment merge shards/ --plan my/plan.toml --out my/results")]
pub struct MergeArgs {
    /// Folders with rows: what --out was, or a plan's folder in it.
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The plan's file or folder [default: of the name that the rows have, in --plans].
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// What is summarised, and where it goes.
    #[command(flatten)]
    pub results: ResultsArgs,
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=1_024).contains(jobs));
    jobs.ok_or_else(|| "use a number from 1 to 1024".to_owned())
}
