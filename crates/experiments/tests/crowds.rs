//! Crowds at one bottleneck, and the transport that ships as a scheme of a plan.

use mendpath_experiments::{Campaign, Plan, Row, Scale, Summary};

const CROWD: &str = r#"
title = "A crowd"
metrics = ["fct_mean_ms", "fct_mean_ms@background", "fct_max_ms@background", "dropped_share", "settled_s", "delivered_mbps", "extra_bytes_share"]
seeds = 1
limit_s = 100
topology = { kind = "dumbbell", pairs = 4, rate_mbps = 10, rtt_us = 20_000, queue_packets = 20 }
tcp = { preset = "linux" }
sweep = { share = [0, 0.5, 1] }
scheme = [{ name = "TCP", kind = "tcp" }, { name = "Reno", kind = "tcp", tcp = { congestion = "reno" } }]
[workload]
kind = "crowd"
from = "left"
to = "right"
capacity_mbps = 10
load = 0.5
flows = 120
bytes = 20_000
tested_share = "$share"
"#;

fn rows(text: &str) -> Vec<Row> {
    let plan = Plan::parse("test", text, Scale::Quick).unwrap();
    let folder = tempfile::tempdir().unwrap();
    Campaign::new(&plan, folder.path()).unwrap().run(1, &|_| {}).unwrap()
}

fn metric(rows: &[Row], scheme: &str, share: &str, name: &str) -> Option<f64> {
    let fits = |row: &&Row| row.scheme == scheme && row.point[0].1.to_string() == share;
    let row = rows.iter().find(fits).unwrap();
    row.metrics.iter().find(|(known, _)| known == name).unwrap().1
}

/// Plain TCP under test is what everybody is without the scheme under test: the run is the same, with
/// other flows in the background.
#[test]
fn a_share_of_the_flows_is_under_test_and_the_same_flows_are_there_without_it() {
    let rows = rows(CROWD);
    let of =
        |share| rows.iter().find(|row| row.scheme == "TCP" && row.point[0].1.to_string() == share).unwrap();
    assert_eq!((of("0").flows, of("0").trace == of("0.5").trace), (120, true));
    assert_eq!(of("0.5").trace, of("1").trace);
    assert_eq!(metric(&rows, "TCP", "0", "fct_mean_ms"), None);
    assert_eq!(metric(&rows, "TCP", "1", "fct_mean_ms@background"), None);
    let worst = |share| metric(&rows, "TCP", share, "fct_max_ms@background").unwrap();
    assert!(worst("0.5") <= worst("0"), "the background of a larger share is part of that of a smaller");
    let without = rows.iter().find(|row| row.scheme == "Reno" && row.point[0].1.to_string() == "0").unwrap();
    assert_eq!(without.trace, of("0").trace, "nobody is under test");
    assert!(metric(&rows, "TCP", "0", "dropped_share").unwrap() < 0.1);
}

#[test]
fn a_surge_is_over_when_flows_are_as_fast_as_before() {
    let surge = "surge_load = 2\nsurge_from_s = 10\nsurge_s = 2\n";
    let text = CROWD.replace("flows = 120", "flows = 1_500").replace("share = [0, 0.5, 1]", "share = [1]");
    let rows = rows(&(text.clone() + surge));
    let settled = metric(&rows, "TCP", "1", "settled_s").unwrap();
    // 200 flows at load 0.5 take 6.4 s, and what was too much drains at half of the rate.
    assert!((4.0..20.0).contains(&settled), "{settled}");
    assert!(rows[0].flows > 1_500 + 100, "{} flows", rows[0].flows);
    let refused = |text: &str| Plan::parse("test", text, Scale::Quick).unwrap_err().to_string();
    let error = refused(&(text.clone() + "surge_load = 0.4\nsurge_from_s = 10\nsurge_s = 2\n"));
    assert!(error.contains("`workload.surge_load` is 0.4: it must be above `load`"), "{error}");
    assert!(refused(&(text + "surge_load = 2\n")).contains("surge_from_s"));
}

#[test]
fn neighbours_take_what_is_left() {
    let text =
        CROWD.replace("share = [0, 0.5, 1]", "share = [0.5]") + "neighbours = 2\nneighbour = \"bbr-like\"\n";
    let rows = rows(&text);
    let each = metric(&rows, "TCP", "0.5", "delivered_mbps").unwrap();
    assert!((1.0..4.5).contains(&each), "two of them beside half of 10 Mbit/s: {each}");
    let error = Plan::parse("test", &text.replace("neighbours = 2\n", ""), Scale::Quick).unwrap_err();
    assert!(error.to_string().contains("`workload.neighbour` is "), "{error}");
}

#[test]
fn codel_is_a_key_of_a_line() {
    let text = CROWD.replace(
        "queue_packets = 20 }",
        "queue_packets = 1_000, bottleneck = { codel = true, codel_target_ms = 1 } }",
    );
    let dropped = |text: &str| metric(&rows(text), "TCP", "0", "dropped_share").unwrap();
    let without = dropped(&text.replace("codel = true", "codel = false"));
    assert_eq!(without, 0.0, "the queue is long enough for all");
    let with = dropped(&text.replace("load = 0.5", "load = 0.9"));
    assert!(with > 0.0, "{with}");
    let error = Plan::parse("test", &text.replace("codel = true, ", ""), Scale::Quick).unwrap_err();
    let said = "`topology.bottleneck.codel_target_ms` is 1: it must be left out where \
                `topology.bottleneck.codel` is not given";
    assert_eq!(error.to_string(), said);
}

#[test]
fn the_transport_that_ships_is_a_scheme() {
    let text = CROWD.replace(
        "{ name = \"Reno\", kind = \"tcp\", tcp = { congestion = \"reno\" } }",
        "{ name = \"auto\", kind = \"mendpath\" }",
    );
    let rows = rows(&text);
    let alone = metric(&rows, "auto", "1", "fct_mean_ms").unwrap();
    assert!((26.0..200.0).contains(&alone), "16 ms of sending and half a round trip at least: {alone}");
    assert!(metric(&rows, "auto", "1", "extra_bytes_share").unwrap() > 0.0);
    let none = text
        .replace("kind = \"mendpath\"", "kind = \"mendpath\", recovery = \"none\", congestion = \"cubic\"");
    assert_eq!(metric(&self::rows(&none), "auto", "1", "extra_bytes_share"), Some(0.0));
    let refused = |keys: &str| {
        let text = text.replace("kind = \"mendpath\"", &format!("kind = \"mendpath\", {keys}"));
        Plan::parse("test", &text, Scale::Quick).unwrap_err().to_string()
    };
    let error = refused("recovery = \"magic\"");
    assert!(error.contains("`scheme[2].recovery` is `magic`: it must be one of none, "), "{error}");
    assert!(refused("congestion = \"magic\"").contains("auto") && refused("paths = 99").contains("paths"));
    let error = refused("tcp = { initial_window = 4 }");
    assert!(error.contains("`scheme[2].tcp` is "), "it would change nothing: {error}");
    let text = text.replace("kind = \"mendpath\"", "kind = \"fuso\", missed = 0.5");
    let error = Plan::parse("test", &text, Scale::Quick).unwrap_err().to_string();
    assert!(error.contains("`scheme[2].missed` is 0.5: it must be left out where "), "{error}");
}

/// The transport does not tell its timeouts, or what came twice: nothing is said of them, where nought would
/// read as none. Rows that were kept before say nought, and are not believed.
#[test]
fn what_nobody_counts_is_not_nought() {
    let metrics = "\"timeout_share\", \"timeout_share@background\", \"needless_share\"]";
    let text = CROWD
        .replace("\"extra_bytes_share\"]", metrics)
        .replace("share = [0, 0.5, 1]", "share = [0.5]")
        .replace("kind = \"tcp\", tcp = { congestion = \"reno\" }", "kind = \"mendpath\"");
    let mut rows = rows(&text);
    for name in ["timeout_share", "needless_share"] {
        assert!(metric(&rows, "TCP", "0.5", name).is_some());
        assert_eq!(metric(&rows, "Reno", "0.5", name), None);
    }
    assert!(metric(&rows, "Reno", "0.5", "timeout_share@background").is_some());

    let plan = Plan::parse("test", &text, Scale::Quick).unwrap();
    let of_before = rows.iter_mut().filter(|row| row.scheme == "Reno").flat_map(|row| &mut row.metrics);
    of_before.filter(|(name, _)| name == "timeout_share").for_each(|(_, value)| *value = Some(0.0));
    let summary = Summary::new(&plan, &rows).unwrap();
    let point = &rows[0].point;
    assert!(summary.find("TCP", "timeout_share", point).is_some());
    assert!(summary.find("Reno", "timeout_share", point).is_none());
    assert!(summary.find("Reno", "timeout_share@background", point).is_some());
}
