//! Acknowledgements and losses of single flows over time, as HTPC's Fig. 6 shows them.

use mendpath_experiments::{Campaign, Plan, Row, Scale, write_all};

/// The third packet of the first of three flows is lost; the first two are followed.
const PLAN: &str = r#"
title = "Three flows"
metrics = ["fct_mean_ms"]
seeds = 2
topology = { kind = "parallel-paths" }
tcp = { preset = "fuso" }
fault = [{ links = "paths", index = 0, nth = [2], data_only = true }]
balancing = "sub-flow"
workload = { kind = "spaced", from = "first", to = "second", flows = 3, apart_ms = 50, bytes = 10_000 }
scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 2 }]
follow = { flows = 2, at_most_bytes = 10_000 }
limit_s = 10
[[figure]]
file = "single"
schemes = ["tcp"]
panel = [
    { kind = "acks", scheme = "tcp", heading = "acknowledged", x_log = true },
    { kind = "losses", heading = "lost" },
]
"#;

fn plan(text: &str) -> Plan {
    Plan::parse("test", text, Scale::Quick).unwrap()
}

fn rows(plan: &Plan) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    Campaign::new(plan, folder.path()).unwrap().run(1, &|_| {}).unwrap()
}

fn of<'a>(rows: &'a [Row], scheme: &str, seed: u64) -> &'a Row {
    rows.iter().find(|row| row.scheme == scheme && row.seed == seed).unwrap()
}

#[test]
fn a_loss_shows_as_a_flat_line_and_as_a_count() {
    let plan = plan(PLAN);
    let rows = rows(&plan);
    let [first, second] = &of(&rows, "tcp", 1).followed[..] else { panic!("two flows are followed") };
    assert_eq!((first.started_ms, first.lost_ms.len()), (0.0, 1));
    assert!(second.started_ms >= 50.0 && second.lost_ms.is_empty());
    // 10,000 bytes are seven packets: the receiver misses the third until it is sent again.
    let numbers: Vec<u32> = first.acks.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, [1, 2, 2]);
    let [.., (last, _), (end, _)] = first.acks[..] else { panic!("{first:?}") };
    let whole = second.acks.last().unwrap().0;
    assert!(end > last && end > whole, "it ends a round trip later: {first:?} {second:?}");
    assert!(of(&rows, "tcp", 2).followed.is_empty(), "the first seed's run only");

    let folder = tempfile::tempdir().unwrap();
    write_all(&plan, &rows, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let csv = read("single.csv");
    assert!(csv.contains("\n1,0,") && csv.contains("\n1,1,") && csv.contains("\n2,tcp,0,0\n"), "{csv}");
    let svg = read("single.svg");
    for text in ["acknowledged (packets)", "lost so far (packets)", "the run of the first seed"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn following_changes_nothing_of_a_run() {
    let alone = PLAN.split("[[figure]]").next().unwrap().replace("follow =", "# ");
    let (with, without) = (rows(&plan(PLAN)), rows(&plan(&alone)));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!((&with.trace, &with.metrics), (&without.trace, &without.metrics));
        assert!(without.followed.is_empty());
    }
}

#[test]
fn figures_of_flows_need_flows_that_are_followed() {
    let error = |text: &str| Plan::parse("test", text, Scale::Quick).unwrap_err().to_string();
    assert!(error(&PLAN.replace("follow =", "# ")).contains("follow"));
    assert!(error(&PLAN.replace("flows = 2,", "flows = 65,")).contains("follow.flows"));
    assert!(error(&PLAN.replace("scheme = \"tcp\"", "scheme = \"dctcp\"")).contains("dctcp"));
}
