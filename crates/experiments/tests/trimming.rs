//! Lines that trim, and NDP, in plans.

use mendpath_experiments::{Campaign, Plan, Row, Scale};

const INCAST: &str = r#"
title = "Incast"
metrics = ["fct_max_ms", "timeouts_per_flow", "sent_again_per_flow", "dropped_share"]
seeds = 2
topology = { kind = "parallel-paths", between = { trim = true }, down = { trim = true } }
tcp = { preset = "fuso" }
scheme = [{ name = "NDP", kind = "ndp", window = 24, paths = 3, balancing = "sub-flow" }, { name = "TCP", kind = "tcp" }]
[workload]
kind = "incast"
from = "all"
to = "all"
senders = 20
bytes = 65_536
warm_bytes = 100_000
"#;

/// A metric of each run of a scheme.
fn metric(text: &str, scheme: &str, metric: &str) -> Vec<f64> {
    let plan = Plan::parse("test", text, Scale::Quick).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let rows = Campaign::new(&plan, folder.path()).unwrap().run(1, &|_| {}).unwrap();
    let value = |row: &Row| row.metrics.iter().find(|(name, _)| name == metric)?.1;
    rows.iter().filter(|row| row.scheme == scheme).filter_map(value).collect()
}

#[test]
fn ndp_is_a_scheme_and_trimming_a_key_of_a_line() {
    // 20 answers take 10.8 ms on the receiver's line.
    assert!(metric(INCAST, "NDP", "fct_max_ms").iter().all(|ms| (10.8..12.0).contains(ms)));
    assert_eq!(metric(INCAST, "NDP", "timeouts_per_flow"), [0.0; 2]);
    assert!(metric(INCAST, "NDP", "sent_again_per_flow").iter().all(|packets| *packets > 20.0));
    // Room for four headers: others are dropped.
    let text = INCAST.replace("trim = true", "trim = true, trim_queue_bytes = 256");
    assert!(metric(&text, "NDP", "dropped_share").iter().all(|share| *share > 0.0));
    // Longer queues trim less.
    let text = INCAST.replace("trim = true", "trim = true, trim_packets = 80");
    assert!(metric(&text, "NDP", "sent_again_per_flow").iter().all(|packets| *packets < 20.0));
}

#[test]
fn who_is_not_trimmed_sees_no_difference() {
    let text = INCAST.replace("trim = true", "trim = false");
    for name in ["fct_max_ms", "dropped_share", "sent_again_per_flow"] {
        assert_eq!(metric(INCAST, "TCP", name), metric(&text, "TCP", name), "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |text: &str| Plan::parse("test", text, Scale::Quick).unwrap_err().to_string();
    let error =
        refused(&INCAST.replace("between = { trim = true }", "between = { trim = true, codel = true }"));
    assert!(error.contains("`topology.between.trim` is true: it must be off where `codel` is on"), "{error}");
    let error = refused(&INCAST.replace("trim = true", "trim_packets = 80"));
    assert!(error.contains("trim_packets` is 80: it must be left out where `topology."), "{error}");
    assert!(refused(&INCAST.replace("paths = 3", "paths = 17")).contains("paths"));
    assert!(refused(&INCAST.replace("window = 24", "window = 0")).contains("window"));
    let error = refused(&INCAST.replace("trim = true", "trim = true, trim_headers_per_packet = 0"));
    assert!(error.contains("trim_headers_per_packet` is 0: it must be a whole number from 1 "), "{error}");
}
