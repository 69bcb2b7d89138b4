//! Acknowledgements of single flows over time, and their losses, as HTPC's Fig. 6 shows them.

use mendpath_experiments::{Campaign, Plan, Row, Scale, write_all};

/// The third packet of the first of three flows is lost; the first two are followed.
const PLAN: &str = r#"
title = "Three flows"
metrics = ["fct_mean_ms", "lost_per_flow"]
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
    { kind = "bars", metric = "lost_per_flow", heading = "lost" },
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
fn a_loss_shows_as_a_flat_line_and_is_counted() {
    let plan = plan(PLAN);
    let rows = rows(&plan);
    let [first, second] = &of(&rows, "tcp", 1).followed[..] else { panic!("two flows are followed") };
    assert_eq!((first.lost, second.lost), (1, 0));
    // 10,000 bytes are seven packets: the receiver misses the third until it is sent again.
    let numbers: Vec<u32> = first.acks.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, [1, 2, 2]);
    let [.., (last, _), (end, _)] = first.acks[..] else { panic!("{first:?}") };
    let whole = second.acks.last().unwrap().0;
    assert!(end > last && end > whole, "it ends a round trip later: {first:?} {second:?}");
    let lost = &of(&rows, "tcp", 1).metrics[1];
    assert_eq!(lost, &("lost_per_flow".to_owned(), Some(0.5)), "of the two that are followed");
    assert!(of(&rows, "tcp", 2).followed.is_empty(), "the first seed's run only");

    let folder = tempfile::tempdir().unwrap();
    write_all(&plan, &rows, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let csv = read("single.csv");
    assert!(csv.contains("\n1,0,") && csv.contains("\n1,1,") && !csv.contains("\n2,"), "{csv}");
    let svg = read("single.svg");
    for text in ["acknowledged (packets)", "lost packets per flow", "Single flows are of the first seed"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn following_changes_nothing_of_a_run() {
    let alone = PLAN.split("[[figure]]").next().unwrap().replace("follow =", "# ");
    let (with, without) = (rows(&plan(PLAN)), rows(&plan(&alone)));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!((&with.trace, &with.metrics[0]), (&without.trace, &without.metrics[0]));
        assert!(with.metrics[1].1.is_some() && without.metrics[1].1.is_none());
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
