//! `mendpath experiment`.

mod merge;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use experiments::{
    Campaign, CampaignError, Files, MARKS, Parts, Plan, Progress, Row, Shard, Stop, Summary, Tail, TailError,
    publish, publishing_rival, tables, write_all,
};

use super::{Signals, print};
use crate::{
    args::{ExperimentCommand, ListArgs, RunArgs},
    console::say,
    failure::{Failure, directory_reason, io_reason},
    long_work::LongWork,
    task::came_to,
};

/// What an end in the midst leaves.
const KEPT: &str = "Finished runs are kept in --out: the same command goes on from there";

/// Returns the exit code.
pub(super) async fn run(command: ExperimentCommand) -> Result<u8, Failure> {
    match command {
        ExperimentCommand::List(args) => list(&args).map(|()| 0),
        ExperimentCommand::Run(args) => run_until_interrupted(args).await,
        ExperimentCommand::Merge(args) => merge::run(&args).map(|()| 0),
    }
}

/// Runs plans on a thread that may take its time, and ends them in their midst when the user or the
/// system wants the program to end.
async fn run_until_interrupted(args: RunArgs) -> Result<u8, Failure> {
    let (mut signals, stop) = (Signals::new(), Stop::default());
    let asked = stop.clone();
    let mut work = tokio::task::spawn_blocking(move || run_all(&args, &asked));
    let (done, ending) = tokio::select! {
        done = &mut work => (done, None),
        ending = signals.next() => {
            stop.set();
            (work.await, Some(ending))
        }
    };
    match (came_to(done), ending) {
        (Err(_), Some(ending)) => {
            say(format_args!("stopped. {KEPT}."));
            Ok(ending.exit_code())
        }
        (done, _) => done.map(|()| 0),
    }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let mut found = Vec::new();
    for file in plan_files(&args.plans)? {
        let plan = load(&file, args.scale)?;
        let runs = experiments::Point::all(&plan.axes).len() * plan.schemes.len() * plan.seeds as usize;
        found.push((plan, runs));
    }
    if args.json {
        let plan = |(plan, runs): &(Plan, usize)| {
            serde_json::json!({
                "name": plan.name, "file": plan.file, "title": plan.title, "claims": plan.claims,
                "scale": plan.scale.name(), "seeds": plan.seeds, "runs": runs,
            })
        };
        let plans: Vec<_> = found.iter().map(plan).collect();
        let all = serde_json::json!({ "schema": "mendpath-experiments/2", "plans": plans });
        return print(&(serde_json::to_string_pretty(&all).expect("plain data") + "\n"));
    }
    let width = found.iter().map(|(plan, _)| plan.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (plan, runs) in found {
        let claims = plan.claims.join(", ");
        let _ = writeln!(text, "{:width$}  {runs:>5} runs  {claims:<7}  {}", plan.name, plan.title);
    }
    print(&text)
}

/// The plan files of the folder of plans, by name.
fn plan_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let tried = format!("cannot list the plans in {}", folder.display());
    let next = "Run it where the folder `plans` is, or name another with --plans";
    let entries =
        std::fs::read_dir(folder).map_err(|error| Failure::new(tried.clone(), io_reason(&error), next))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path().join("plan.toml")));
    let mut files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::new(tried, "there are none", next));
    }
    Ok(files)
}

fn load(file: &Path, scale: experiments::Scale) -> Result<Plan, Failure> {
    load_with(file, scale, &Stop::default())
}

/// The same with what ends its runs in their midst.
fn load_with(file: &Path, scale: experiments::Scale, stop: &Stop) -> Result<Plan, Failure> {
    let next = "Mend the plan; docs/experiments.md says what may stand in it";
    let parts = Parts { stop: stop.clone(), ..Parts::default() };
    Plan::load_with(file, scale, parts).map_err(|error| Failure::usage("cannot use the plan", error, next))
}

/// The file of a plan that is to be run.
fn plan_to_run(plans: &Path, plan: &Path) -> Result<PathBuf, Failure> {
    let file = plan_file(plans, plan);
    if file.exists() {
        return Ok(file);
    }
    let reason = format!("there is no such file, nor a plan of that name in {}", plans.display());
    let next = "`mendpath experiment list` shows what there is; --plans names another folder";
    Err(Failure::usage(format!("cannot use the plan {}", plan.display()), reason, next))
}

/// A plan's file: a path to it or to its folder, or the name of a plan.
fn plan_file(plans: &Path, plan: &Path) -> PathBuf {
    let named = plans.join(plan).join("plan.toml");
    if plan.is_file() {
        plan.to_owned()
    } else if plan.join("plan.toml").is_file() || !named.is_file() {
        plan.join("plan.toml")
    } else {
        named
    }
}

fn run_all(args: &RunArgs, stop: &Stop) -> Result<(), Failure> {
    let mut plans = Vec::new();
    let files = if args.all {
        plan_files(&args.results.plans)?
    } else {
        args.plan.iter().map(|plan| plan_to_run(&args.results.plans, plan)).collect::<Result<_, _>>()?
    };
    for file in &files {
        let mut plan = load_with(file, args.scale, stop)?;
        plan.seeds = args.results.seeds.unwrap_or(plan.seeds);
        plans.push(plan);
    }
    check_names(&plans)?;
    if args.publish {
        plans.iter().try_for_each(check_place)?;
    }
    if let Some(flows) = args.tail {
        return plans.iter().try_for_each(|plan| tell_tail(args, plan, flows as usize));
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut summaries = Vec::new();
    for plan in &plans {
        let folder = results(&args.results.out, plan);
        let campaign = Campaign::new(plan, &folder).map_err(|error| failed(plan, error))?;
        if let Some(shard) = args.shard {
            run_shard(plan, &campaign.shard(shard), shard, jobs)?;
            continue;
        }
        let rows = simulate(plan, &campaign, jobs)?;
        let (summary, files) = write_all(plan, &rows, &folder).map_err(|error| failed(plan, error))?;
        if args.publish {
            let published = publish(plan, &summary, &files).map_err(|error| failed(plan, error))?;
            tell_of_readme(plan, &published);
        }
        show(plan, summary, &folder, args.results.json, &mut summaries)?;
    }
    if args.results.json {
        print_json(&summaries)?;
    }
    Ok(())
}

/// Tables that have no place are missed by nobody but who looks for them.
fn tell_of_readme(plan: &Plan, published: &Files) {
    if published.written.iter().any(|file| file.ends_with("README.md")) {
        return;
    }
    let marks = MARKS.iter().find(|(scale, ..)| *scale == plan.scale);
    let (_, begin, end) = marks.expect("every scale has its marks");
    say(format_args!(
        "no README.md beside {} has the lines {begin} and {end}, so the tables stand in none",
        plan.file.display()
    ));
}

/// Two plans of one name would have their results in one folder, the last one's in place of the
/// first one's.
fn check_names(plans: &[Plan]) -> Result<(), Failure> {
    for (place, plan) in plans.iter().enumerate() {
        if let Some(other) = plans[..place].iter().find(|other| other.name == plan.name) {
            let reason = format!("{} and {} have the same name", other.file.display(), plan.file.display());
            let next = "Run them one after the other, each with an --out of its own";
            return Err(Failure::usage("cannot keep the results apart", reason, next));
        }
    }
    Ok(())
}

/// What is published of two plans of one folder would have the same names.
fn check_place(plan: &Plan) -> Result<(), Failure> {
    let Some(other) = publishing_rival(&plan.file) else { return Ok(()) };
    let reason = format!("{} beside it would have the same summary.csv and README.md", other.display());
    let next = "Put each plan into a folder of its own, as plan.toml";
    Err(Failure::usage(format!("cannot publish {}", plan.file.display()), reason, next))
}

/// The folder of a plan's results.
fn results(out: &Path, plan: &Plan) -> PathBuf {
    out.join(format!("{}-{}", plan.name, plan.scale.name()))
}

fn failed(plan: &Plan, error: CampaignError) -> Failure {
    let tried = format!("cannot run {}", plan.name);
    match error {
        CampaignError::File { file, error } => {
            let wrong = format!("cannot write {}, {}", file.display(), directory_reason(&file, &error));
            let next = "Make room for it, or name another folder with --out; finished runs are kept there";
            Failure::new(tried, wrong, next)
        }
        taken @ CampaignError::Taken { .. } => {
            Failure::new(tried, taken, "Wait for its end, or name another folder with --out")
        }
        other => Failure::new(tried, other, KEPT),
    }
}

/// Does what is left to do.
fn simulate(plan: &Plan, campaign: &Campaign<'_>, jobs: usize) -> Result<Vec<Row>, Failure> {
    let shown = LongWork::begin(&plan.name, &format!("{} {{wide_bar}} {{pos}}/{{len}} {{eta}}", plan.name));
    let look = |progress: Progress| shown.show(progress.done as u64, progress.runs as u64, "");
    let rows = campaign.run(jobs, &look);
    shown.end();
    rows.map_err(|error| failed(plan, error))
}

fn run_shard(plan: &Plan, campaign: &Campaign<'_>, shard: Shard, jobs: usize) -> Result<(), Failure> {
    let rows = simulate(plan, campaign, jobs)?;
    print(&format!(
        "{}: the {} runs of shard {shard} are in {}. Put all shards together with `mendpath experiment merge DIR...`.\n",
        plan.name,
        rows.len(),
        campaign.journal().display()
    ))
}

/// Prints a result, or keeps it for the JSON of all.
fn show(
    plan: &Plan,
    summary: Summary,
    folder: &Path,
    as_json: bool,
    summaries: &mut Vec<Summary>,
) -> Result<(), Failure> {
    if as_json {
        summaries.push(summary);
        return Ok(());
    }
    print(&format!("{}\nFiles are in {}.\n\n", tables(plan, &summary), folder.display()))
}

fn print_json(summaries: &[Summary]) -> Result<(), Failure> {
    let all = serde_json::json!({ "schema": "mendpath-experiments/2", "results": summaries });
    print(&(serde_json::to_string_pretty(&all).expect("plain data") + "\n"))
}

/// What happened to the slowest flows of a point.
fn tell_tail(args: &RunArgs, plan: &Plan, flows: usize) -> Result<(), Failure> {
    let failed = |error: TailError| {
        let next = match error {
            TailError::WorkedOut => "Run it without --tail",
            _ => "`--at axis=value` names the point, `--scheme` one of the plan's schemes",
        };
        Failure::usage(format!("cannot tell the tail of {}", plan.name), error, next)
    };
    let at = args.at.iter().map(|text| Tail::setting(text)).collect::<Result<_, _>>().map_err(failed)?;
    let tail = Tail { at, seed: args.seed, scheme: args.scheme.clone(), ..Tail::new(flows) };
    print(&tail.text(plan).map_err(failed)?)
}
