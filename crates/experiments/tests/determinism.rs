//! The same plan and seed give the same rows and files, however they are run.

use std::path::{Path, PathBuf};

use mendpath_experiments::{
    Campaign, MergeError, Plan, Row, Scale, distributions_table, runs_table, write_all,
};

/// Every scheme on FUSO's testbed, with random losses, requests and responses.
const PLAN: &str = r#"
title = "Everything at once"
metrics = ["fct_mean_ms", "fct_p99_ms", "timeout_share", "extra_share", "fct_p50_ms@small", "fct_mean_ms@background"]
distributions = true
min_samples = 50
seeds = 2
classes = { small = [0, 10_000] }
topology = { kind = "parallel-paths" }
tcp = { preset = "fuso" }
workload = { kind = "requests", clients = "second", servers = "first", flows = 60, load = "$load", sizes = "websearch_dctcp", at_most_bytes = 300_000, tested_bytes = 100_000, start_ms = 600 }
sweep = { load = [0.1, 0.6], loss = [0, 0.03] }

[[fault]]
links = "paths"
index = 0
loss = "$loss"

[[scheme]]
kind = "tcp"
[[scheme]]
kind = "tlp"
[[scheme]]
kind = "tcp-ir"
[[scheme]]
kind = "proactive"
[[scheme]]
kind = "repflow"
[[scheme]]
kind = "mptcp"
[[scheme]]
kind = "fuso"
[[scheme]]
kind = "cofuso"

[[figure]]
file = "times"
panel = [
    { heading = "(a)", metric = "fct_p99_ms", x = "load", at = { loss = 0.03 } },
    { heading = "(b)", kind = "cdf", x_log = true, at = { loss = 0.03, load = 0.6 } },
    { heading = "(c)", kind = "bars", metric = "timeout_share", at = { loss = 0.03, load = 0.1 } },
]
"#;

fn rows(plan: &Plan, folder: &Path, jobs: usize) -> Vec<Row> {
    Campaign::new(plan, folder).unwrap().run(jobs, &|_| {}).unwrap()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|ending| ending != "jsonl"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn threads_change_nothing_and_interruptions_cost_nothing() {
    let plan = Plan::parse("everything", PLAN, Scale::Quick).unwrap();
    let [one, three] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let alone = rows(&plan, one.path(), 1);
    assert_eq!(alone.len(), 2 * 2 * 8 * 2);
    write_all(&plan, &alone, one.path()).unwrap();

    // The second time it is interrupted: half of the journal is there, and a torn line.
    let journal = std::fs::read_dir(one.path()).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.into_iter().find(|path| path.extension().is_some_and(|e| e == "jsonl")).unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(three.path().join(journal.file_name().unwrap()), &text[..text.len() / 2]).unwrap();
    let todo = std::sync::Mutex::new(Vec::new());
    let campaign = Campaign::new(&plan, three.path()).unwrap();
    let again = campaign.run(3, &|progress| todo.lock().unwrap().push(progress.done)).unwrap();
    assert_eq!(again, alone);
    let (first, last) = {
        let todo = todo.lock().unwrap();
        (todo[0], *todo.iter().max().unwrap())
    };
    assert!((28..=32).contains(&first) && last == 64, "{first} {last}");
    write_all(&plan, &again, three.path()).unwrap();
    assert_eq!(files(one.path()), files(three.path()));
    assert_eq!(files(one.path()).len(), 7);
}

#[test]
fn optimisation_changes_nothing() {
    // Both profiles must find these. They change when what plain TCP does on this network changes,
    // or the workload: then look whether it was meant to, and put the new ones here.
    let plan = PLAN.replace("loss = [0, 0.03]", "loss = [0.03]").replace("seeds = 2", "seeds = 1");
    let start = plan.find("[[scheme]]\nkind = \"tlp\"").unwrap();
    let end = plan.find("[[figure]]").unwrap();
    let plan = format!("{}{}", &plan[..start], &plan[end..]);
    let plan = Plan::parse("everything", &plan, Scale::Quick).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&plan, folder.path(), 1);
    let found: Vec<(&str, Option<f64>)> =
        rows.iter().map(|row| (row.trace.as_str(), row.metrics[0].1)).collect();
    assert_eq!(
        found,
        [("64a0713e2df6b424", Some(1.3877454999999999)), ("aeae4634cd8b5edf", Some(1.7145808888888892))]
    );
}

#[test]
fn what_is_only_shown_is_not_hashed_and_what_is_simulated_is() {
    let hash = |text: &str, scale| Plan::parse("p", text, scale).unwrap().hash;
    let shown = PLAN.replace("Everything at once", "All").replace("seeds = 2", "seeds = 9");
    assert_eq!(hash(PLAN, Scale::Quick), hash(&shown, Scale::Quick));
    assert_ne!(hash(PLAN, Scale::Quick), hash(&PLAN.replace("0.03", "0.04"), Scale::Quick));
    let scaled = format!("{PLAN}\n[scale.paper]\nworkload.flows = 70\n");
    assert_eq!(hash(PLAN, Scale::Quick), hash(&scaled, Scale::Quick));
    assert_ne!(hash(&scaled, Scale::Paper), hash(&scaled, Scale::Quick));
}

#[test]
fn wrong_plans_say_what_is_allowed() {
    let error = |from: &str, to: &str| {
        assert!(PLAN.contains(from), "{from}");
        Plan::parse("p", &PLAN.replacen(from, to, 1), Scale::Quick).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("parallel-paths", "paralel", "`topology.kind` is `paralel`: it must be one of dumbbell, fat-tree"),
        ("kind = \"tlp\"", "kind = \"tlb\"", "`scheme[2].kind` is `tlb`: it must be one of caps, cofuso"),
        (
            "kind = \"fuso\"",
            "kind = \"fuso\"\nsubflows = 20",
            "`scheme[7].subflows` is 20: it must be a whole number from 1 to 14",
        ),
        ("\"$loss\"", "\"$los\"", "`loss` is `$los`: it must be an axis of `sweep`: load, loss"),
        ("\"$loss\"", "0.01", "`sweep.loss` is not used"),
        ("\"$loss\"", "\"$load\"", "`sweep.loss` is not used"),
        ("index = 0", "index = 3", "`fault[1].index` is 3: it must be a whole number from 0 to 2"),
        ("websearch_dctcp", "websearch", "one of websearch_dctcp, websearch_pfabric_pkts"),
        ("@small", "@tiny", "of one of the classes small"),
        ("flows = 60", "flow = 60", "`workload.flows` is missing"),
        (
            "preset = \"fuso\"",
            "preset = \"fuso\", initial_rto_ms = 0",
            "`tcp.initial_rto_ms` is 0: it must be 0.001 or more",
        ),
        ("flows = 60", "flows = 60, bogus = 1", "there is no key `workload.bogus`: here are"),
        (
            "at = { loss = 0.03 }",
            "at = { loss = 0.02 }",
            "`figure[1].panel[1].at.loss` is 0.02: it must be one of 0, 0.03",
        ),
        ("seeds = 2", "seeds = [", "expected"),
        (
            "[[figure]]",
            "[[figure]]\nfile = \"times\"\n[[figure]]",
            "`figure[2].file` is `times` again: it must be different",
        ),
        (
            "x = \"load\", at = { loss = 0.03 }",
            "x = \"loss\", x_log = true, at = { load = 0.1 }",
            "`figure[1].panel[1].x_log` is true: it must be false, since 0 of `loss` has no logarithm",
        ),
        ("loss = [0, 0.03]", "loss = [0, 0]", "`sweep.loss` is 0 more than once"),
        ("\"fct_p99_ms\", ", "\"fct_mean_ms\", ", "`metrics` is `fct_mean_ms` twice"),
        ("sweep = {", "sweep = { scheme = [1],", "`sweep.scheme` is the name of another column"),
        ("sweep = {", "sweep = { pooled_low = [1],", "`sweep.pooled_low` is the name"),
        ("sweep = {", "sweep = { fct_p99_ms = [1],", "`sweep.fct_p99_ms` is the name"),
    ] {
        let found = error(from, to);
        assert!(found.contains(expected), "{from} -> {to}: {found}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    let scaled = format!("{PLAN}\n[scale.quick]\nseeds = 0");
    let at_another = scaled.replace("quick", "paper");
    for (text, wrong, key) in [
        (PLAN.replacen("\"tlp\"", "\"tlb\"", 1), "\"tlb\"", "scheme[2].kind"),
        (scaled, "seeds = 0", "seeds"),
        (at_another, "seeds = 0", "seeds"),
        (format!("{PLAN}\n[scale.paper]\nworkload.flows = 0"), "workload.flows = 0", "workload.flows"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let line = 1 + text.lines().position(|line| line.contains(wrong)).unwrap();
        let error = Plan::load(&file, Scale::Quick).unwrap_err().to_string();
        assert!(error.contains(&format!("plan.toml:{line}: `{key}` is ")), "{error}");
    }
    let missing = Plan::load(Path::new("nowhere/plan.toml"), Scale::Quick).unwrap_err().to_string();
    assert!(missing.starts_with("nowhere/plan.toml: cannot be read"), "{missing}");
}

/// Readers of Parquet take no name twice; an axis called `trace` or `share` makes sense.
#[test]
fn no_two_columns_have_one_name() {
    let text = PLAN.replace("loss = [0, 0.03]", "trace = [0.03]").replace("\"$loss\"", "\"$trace\"");
    let text = text.replace("load = [0.1, 0.6]", "share = [0.1]").replace("\"$load\"", "\"$share\"");
    let text = text.split("[[figure]]").next().unwrap().replace("flows = 60", "flows = 5");
    let plan = Plan::parse("everything", &text, Scale::Quick).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&plan, folder.path(), 1);
    let (summary, _) = write_all(&plan, &rows, folder.path()).unwrap();
    let tables = [runs_table(&plan, &rows), distributions_table(&plan, &rows), summary.columns(&plan)];
    let [runs, distributions, summary] = tables.map(|table| {
        let csv = table.csv();
        let mut names: Vec<String> = csv.lines().next().unwrap().split(',').map(str::to_owned).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{csv}");
        names
    });
    assert!(
        ["trace", "run_trace", "share", "flows"].iter().all(|name| runs.contains(&(*name).into())),
        "{runs:?}"
    );
    assert!(
        ["share", "run_share"].iter().all(|name| distributions.contains(&(*name).into())),
        "{distributions:?}"
    );
    // No axis may be called like any of these.
    for name in summary.iter().filter(|name| !["share", "trace"].contains(&name.as_str())) {
        let text = text.replace("trace = [0.03]", &format!("{name} = [0.03]"));
        let error = Plan::parse("everything", &text, Scale::Quick).unwrap_err().to_string();
        assert!(error.contains(&format!("`sweep.{name}` is the name of another column")), "{error}");
    }
}

#[test]
fn a_plan_may_be_worked_out_alone() {
    let text = "
        title = 'retransmission against coding'
        metrics = ['goodput_share']
        sweep = { loss = [0, 0.1] }
        model = [{ name = 'ARQ', kind = 'slp-arq', metric = 'goodput_share', loss = '$loss' }]
        figure = [{ file = 'goodput', panel = [{ metric = 'goodput_share', x = 'loss' }] }]";
    let plan = Plan::parse("models", text, Scale::Quick).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&plan, folder.path(), 1);
    assert!(rows.is_empty());
    let (summary, _) = write_all(&plan, &rows, folder.path()).unwrap();
    let values: Vec<(f64, usize)> = summary.cells.iter().map(|cell| (cell.mean, cell.seeds)).collect();
    assert_eq!(values, [(1.0, 0), (0.9, 0)]);
    let table = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(table.contains("worked out, not simulated") && table.contains("| 0.1 | 90.0 |"), "{table}");
    let svg = std::fs::read_to_string(folder.path().join("goodput.svg")).unwrap();
    assert!(svg.contains("Worked out, not simulated."));

    let error = |text: &str| Plan::parse("models", text, Scale::Quick).unwrap_err().to_string();
    assert!(error(&text.replace("'$loss'", "0.1")).contains("`sweep.loss` is not used"));
    let neither = "title = 'x'\nmetrics = ['goodput_share']";
    assert!(error(neither).contains("at least one `[[scheme]]`, or a `[[model]]`"));
}

#[test]
fn plans_in_one_folder_have_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| {
        let file = folder.path().join("mine").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, PLAN).unwrap();
        Plan::load(&file, Scale::Quick).unwrap().name
    };
    assert_eq!(["plan.toml", "first.toml", "second.toml"].map(name), ["mine", "first", "second"]);
}

fn shard(plan: &Plan, folder: &Path, which: &str) -> PathBuf {
    let campaign = Campaign::new(plan, folder).unwrap().shard(which.parse().unwrap());
    campaign.run(1, &|_| {}).unwrap();
    campaign.journal().to_owned()
}

#[test]
fn shards_put_together_are_one_run() {
    let plan = Plan::parse("everything", PLAN, Scale::Quick).unwrap();
    let [one, merged, machine] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let alone = rows(&plan, one.path(), 2);
    write_all(&plan, &alone, one.path()).unwrap();

    let shards = ["1/3", "2/3", "3/3"].map(|which| shard(&plan, machine.path(), which));
    let campaign = Campaign::new(&plan, merged.path()).unwrap();
    let error = campaign.merge(&shards[..2]).unwrap_err();
    assert!(matches!(error, MergeError::Missing { missing: 21, runs: 64, .. }), "{error}");
    // A shard twice is no harm.
    campaign.merge(&[&shards[..], &shards[..1]].concat()).unwrap();
    let again = campaign.run(1, &|progress| assert_eq!(progress.done, 64, "nothing is left to do")).unwrap();
    assert_eq!(again, alone);
    write_all(&plan, &again, merged.path()).unwrap();
    assert_eq!(files(one.path()), files(merged.path()));

    // What was done here before must agree as well.
    let own = std::fs::read_to_string(campaign.journal()).unwrap();
    std::fs::write(campaign.journal(), own.replacen("\"hops\":", "\"hops\":1", 1)).unwrap();
    let error = campaign.merge(&shards).unwrap_err();
    assert!(matches!(error, MergeError::Disagree { .. }), "{error}");
}

#[test]
fn rows_that_are_not_of_the_plan_are_refused() {
    let plan = Plan::parse("everything", PLAN, Scale::Quick).unwrap();
    let [folder, machine] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let journal = shard(&plan, machine.path(), "7/20");
    let text = std::fs::read_to_string(&journal).unwrap();
    let refusal = |from: &str, to: &str| {
        let other = machine.path().join("other.jsonl");
        std::fs::write(&other, text.replacen(from, to, 1)).unwrap();
        let campaign = Campaign::new(&plan, folder.path()).unwrap();
        let error = campaign.merge(&[journal.clone(), other]).unwrap_err();
        assert!(!campaign.journal().exists(), "nothing is kept");
        error
    };
    let hash = plan.hash_text();
    assert!(matches!(refusal(&hash, "0123456789abcdef"), MergeError::OtherPlan { .. }));
    assert!(matches!(refusal("\"everything\"", "\"nothing\""), MergeError::OtherPlan { .. }));
    assert!(matches!(refusal("\"version\":\"", "\"version\":\"9."), MergeError::OtherRun { .. }));
    assert!(matches!(refusal("\"hops\":", "\"hops\":1"), MergeError::Disagree { .. }));
}

#[test]
fn runs_done_elsewhere_are_kept_as_if_done_here() {
    let plan = Plan::parse("all", PLAN, Scale::Quick).unwrap();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let campaign = Campaign::new(&plan, here.path()).unwrap();
    let worker = Campaign::new(&plan, there.path()).unwrap();
    let all = campaign.left().unwrap();
    let some: Vec<usize> = all.iter().copied().filter(|run| run % 5 == 0).collect();
    campaign.keep(&worker.run_these(&some).unwrap()).unwrap();
    assert_eq!(worker.left().unwrap(), all, "who does runs for others keeps nothing");
    let left = campaign.left().unwrap();
    assert!(left.iter().all(|run| run % 5 != 0) && left.len() + some.len() == all.len());

    // A run that was stopped goes on from there, and the rows are those of one that was not.
    let finished = campaign.run_while(1, &|progress| progress.done < some.len() + 3).unwrap();
    assert_eq!(finished.len(), some.len() + 3);
    assert_eq!(campaign.run(2, &|_| {}).unwrap(), worker.run(2, &|_| {}).unwrap());

    let mut strange = worker.run_these(&[0]).unwrap();
    strange[0].seed = 99;
    assert!(campaign.keep(&strange).unwrap_err().to_string().contains("of no run of this plan"));
}

/// Tables and figures would show nothing in its place, without a word.
#[test]
fn a_row_whose_values_were_edited_away_is_run_again() {
    let plan = Plan::parse("all", PLAN, Scale::Quick).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let campaign = Campaign::new(&plan, folder.path()).unwrap();
    let rows = campaign.run(2, &|_| {}).unwrap();
    let kept = std::fs::read_to_string(campaign.journal()).unwrap();
    let named = format!("[\"{}\",", rows[0].metrics[0].0);
    assert!(kept.contains(&named));
    std::fs::write(campaign.journal(), kept.replacen(&named, "[\"other\",", 1)).unwrap();
    assert_eq!(campaign.left().unwrap().len(), 1);
    assert_eq!(campaign.run(2, &|_| {}).unwrap(), rows);
}

/// Names are free text: tables in Markdown stay tables.
#[test]
fn names_do_not_break_tables() {
    let name = "[[scheme]]\nname = '''a|b\nc'''\nkind = \"tcp\"";
    let text = PLAN.split("[[figure]]").next().unwrap().replace("flows = 60", "flows = 5");
    let text = text.replace("loss = [0, 0.03]", "loss = [0]").replace("load = [0.1, 0.6]", "load = [0.1]");
    let plan = Plan::parse("names", &text.replacen("[[scheme]]\nkind = \"tcp\"", name, 1), Scale::Quick);
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    write_all(&plan, &rows(&plan, folder.path(), 1), folder.path()).unwrap();
    let tables = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(tables.contains("| load | loss | a\\|b c | tlp |"), "{tables}");
}
