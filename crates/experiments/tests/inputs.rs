//! Plans that name files: recorded capacities and connection matrices.

use std::{fs, path::Path};

use mendpath_experiments::{Campaign, Plan, Row, Scale};

const PLAN: &str = r#"
title = "What was recorded"
metrics = ["fct_mean_ms"]
seeds = 1
topology = { kind = "dumbbell", pairs = 2, rtt_us = 20_000, rate_mbps = 1_000 }
tcp = { preset = "linux" }
fault = [{ links = "bottleneck", direction = "forward", mahimahi = "link.trace" }]
workload = { kind = "htsim", matrix = "flows.cm" }
scheme = [{ kind = "tcp" }]
"#;

/// Rows of the plan of a folder.
fn rows(folder: &Path) -> (Plan, Vec<Row>) {
    let plan = Plan::load(&folder.join("plan.toml"), Scale::Quick).unwrap();
    let rows = Campaign::new(&plan, &folder.join("out")).unwrap().run(1, &|_| {}).unwrap();
    (plan, rows)
}

fn folder(trace: &str, matrix: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("plan.toml", PLAN), ("link.trace", trace), ("flows.cm", matrix)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn metric(rows: &[Row]) -> f64 {
    rows[0].metrics[0].1.unwrap()
}

#[test]
fn a_recorded_capacity_is_what_a_link_carries() {
    // 12 Mbit/s, and 1.2: a megabyte takes 667 ms and ten times that at least.
    let matrix = "Nodes 4\nConnections 1\n0->2 id 1 start 0 size 1000000\n";
    let (fast, slow) = (folder("1\n", matrix), folder("10\n", matrix));
    let ((plan, fast_rows), (_, slow_rows)) = (rows(fast.path()), rows(slow.path()));
    let (quick, long) = (metric(&fast_rows), metric(&slow_rows));
    assert!((667.0..1_500.0).contains(&quick), "{quick} ms");
    assert!((6_670.0..15_000.0).contains(&long), "{long} ms");
    // A plan that was sent elsewhere with its files is the same plan.
    let sent = Plan::parse(&plan.name, &plan.text(), Scale::Quick).unwrap();
    assert_eq!(sent.hash, plan.hash);
    let elsewhere = Campaign::new(&sent, &fast.path().join("elsewhere")).unwrap().run(1, &|_| {}).unwrap();
    assert_eq!(elsewhere, fast_rows);
    // Another file is another plan.
    assert_ne!(fast_rows[0].plan_hash, slow_rows[0].plan_hash);
}

#[test]
fn a_matrix_starts_its_flows_when_it_says() {
    let one = folder("1\n", "0->2 start 0 size 15000\n");
    let apart = folder("1\n", "0->2 start 0 size 15000\n1->3 start 1000000000000 size 15000\n");
    let (one, apart) = (rows(one.path()).1, rows(apart.path()).1);
    assert_eq!((one[0].flows, apart[0].flows), (1, 2));
    assert!(apart[0].simulated_s > 1.0 && one[0].simulated_s < 1.0);
}

#[test]
fn what_is_wrong_in_a_file_has_its_name_and_line() {
    let good = ("1\n", "0->2 start 0 size 1\n");
    let cases = [
        (("1\n2\nx\n", good.1), "fault[1].mahimahi", "link.trace, line 3: `x` is no time"),
        ((good.0, "Nodes 4\n0->9 start 0 size 1\n"), "workload.matrix", "flows.cm, line 2: node 9"),
    ];
    for ((trace, matrix), key, words) in cases {
        let folder = folder(trace, matrix);
        let error = Plan::load(&folder.path().join("plan.toml"), Scale::Quick).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(key) && text.contains(words) && text.contains("plan.toml:"), "{text}");
    }
    let folder = folder(good.0, good.1);
    fs::remove_file(folder.path().join("flows.cm")).unwrap();
    let text = Plan::load(&folder.path().join("plan.toml"), Scale::Quick).unwrap_err().to_string();
    assert!(text.contains("workload.matrix") && text.contains("a file that can be read"), "{text}");
    let swept = PLAN.replace("\"link.trace\"", "\"$trace\"");
    let text = Plan::parse("swept", &swept, Scale::Quick).unwrap_err().to_string();
    assert!(text.contains("cannot be swept"), "{text}");
}
