//! `mendpath experiment merge`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use experiments::{Campaign, Journal, MergeError, Plan, Scale, write_all};

use super::{failed, load, plan_file, print_json, results, show, simulate};
use crate::{
    args::MergeArgs,
    failure::{Failure, io_reason},
};

/// Merges what there is of every plan.
pub(super) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let mut summaries = Vec::new();
    for ((name, hash), journals) in journals_by_plan(&args.dirs)? {
        let mut plan = plan_of(args, &name, &hash)?;
        plan.seeds = args.results.seeds.unwrap_or(plan.seeds);
        let folder = results(&args.results.out, &plan);
        let campaign = Campaign::new(&plan, &folder).map_err(|error| failed(&plan, error))?;
        campaign.merge(&journals).map_err(|error| {
            let next = match error {
                MergeError::Missing { .. } => {
                    "Name the folders of all shards, and --seeds if they were run with it; \
                     `experiment run --shard` goes on where it ended"
                }
                MergeError::Disagree { .. } => "Run that seed once more on both machines",
                _ => "Run all shards with the same program, plan, --scale and --seeds",
            };
            let tried = format!("cannot merge {name}");
            match error {
                MergeError::File { file, error } => {
                    let wrong = format_args!("{}, {}", file.display(), io_reason(&error));
                    Failure::new(tried, wrong, "See that the rows can be read, and --out be written")
                }
                error => Failure::new(tried, error, next),
            }
        })?;
        // Nothing is left to do: this puts the rows in order.
        let rows = simulate(&plan, &campaign, 1)?;
        let (summary, _) = write_all(&plan, &rows, &folder).map_err(|error| failed(&plan, error))?;
        show(&plan, summary, &folder, args.results.json, &mut summaries)?;
    }
    if args.results.json {
        print_json(&summaries)?;
    }
    Ok(())
}

/// The files of rows in folders and in the folders in those, by name and hash of the plan in their
/// first row. Files without a row count for nothing.
fn journals_by_plan(dirs: &[PathBuf]) -> Result<BTreeMap<(String, String), Vec<PathBuf>>, Failure> {
    let mut found: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for dir in dirs {
        let before = found.values().map(Vec::len).sum::<usize>();
        let inner: Vec<PathBuf> = entries(dir)?.into_iter().filter(|path| path.is_dir()).collect();
        for folder in std::iter::once(dir).chain(&inner) {
            for file in entries(folder)?.into_iter().filter(|path| is_journal(path)) {
                let rows = Journal::read(&file).map_err(|error| unreadable(&file, &error))?;
                if let Some(row) = rows.into_iter().next() {
                    found.entry((row.plan, row.plan_hash)).or_default().push(file);
                }
            }
        }
        if found.values().map(Vec::len).sum::<usize>() == before {
            let tried = format!("cannot merge what is in {}", dir.display());
            let next = "Name what was --out of `experiment run --shard`, or a plan's folder in it";
            return Err(Failure::new(tried, "there are no rows", next));
        }
    }
    Ok(found)
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let read = || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>();
    let mut paths = read().map_err(|error: std::io::Error| unreadable(folder, &error))?;
    paths.sort();
    Ok(paths)
}

fn is_journal(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("rows-") && name.ends_with(".jsonl"))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let next = "Name what was --out of `experiment run --shard`";
    Failure::new(format!("cannot read {}", path.display()), io_reason(error), next)
}

/// The plan that rows with this name and hash are of, at the scale that gives the hash.
fn plan_of(args: &MergeArgs, name: &str, hash: &str) -> Result<Plan, Failure> {
    let file = plan_file(&args.results.plans, args.plan.as_deref().unwrap_or(Path::new(name)));
    if args.plan.is_none() && !file.is_file() {
        let reason = format!("{} has no plan of that name", args.results.plans.display());
        let next = "Name the file of the plan that was run with --plan";
        return Err(Failure::usage(format!("cannot merge {name}"), reason, next));
    }
    for (_, scale) in Scale::ALL {
        // Few plans have every scale.
        match Plan::load(&file, scale) {
            Ok(plan) if plan.hash_text() == hash => return Ok(plan),
            _ => {}
        }
    }
    // Says what is wrong if it cannot be read at all.
    load(&file, Scale::Quick)?;
    let reason = format!("{} does not have the hash {hash} at any scale, as the rows say", file.display());
    Err(Failure::new(format!("cannot merge {name}"), reason, "Name the plan that was run with --plan"))
}
