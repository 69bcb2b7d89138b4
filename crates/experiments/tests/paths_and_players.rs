//! What CTCP's figures need of plans: sharing, windows over time, videos, radio channels, values
//! that belong together.

use mendpath_experiments::{Campaign, Plan, Row, Scale, Summary, write_all};

fn plan(text: &str) -> Plan {
    Plan::parse("test", text, Scale::Quick).unwrap()
}

fn rows(plan: &Plan) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    Campaign::new(plan, folder.path()).unwrap().run(1, &|_| {}).unwrap()
}

fn metric(rows: &[Row], scheme: &str, at: &str, name: &str) -> Option<f64> {
    let fits =
        |row: &&Row| row.scheme == scheme && row.point.iter().all(|(_, value)| value.to_string() == at);
    let row = rows.iter().find(fits).unwrap();
    row.metrics.iter().find(|(known, _)| known == name).unwrap().1
}

const SHARING: &str = r#"
title = "Two flows"
metrics = ["delivered_mbps", "rivals_mbps", "jain_index"]
seeds = 2
sample_ms = 50
limit_s = 100
topology = { kind = "dumbbell", pairs = 2, rate_mbps = 10, rtt_us = 20_000, queue_bdp = 1 }
workload = { kind = "rivals", from = "left", to = "right", bytes = 3_000_000, rivals = 1, rival_scheme = "scheme", rivals_later_ms = 1_000 }
scheme = [{ name = "CTCP", kind = "ctcp" }]
[[figure]]
file = "windows"
key = ["first", "second"]
panel = [{ kind = "timeline", scheme = "CTCP", heading = "tokens" }]
"#;

#[test]
fn a_run_ends_with_the_measured_flow_and_shows_its_windows() {
    let plan = plan(SHARING);
    let rows = rows(&plan);
    // 3 MB alone for a second, then with half of 10 Mbit/s.
    assert!((3.0..8.0).contains(&rows[0].simulated_s), "{}", rows[0].simulated_s);
    let rival = metric(&rows, "CTCP", "", "rivals_mbps").unwrap();
    let own = metric(&rows, "CTCP", "", "delivered_mbps").unwrap();
    assert!(rival > 0.5 && rival < own, "{own} {rival}");
    let jain = (own + rival).powi(2) / (2.0 * (own * own + rival * rival));
    assert!((metric(&rows, "CTCP", "", "jain_index").unwrap() - jain).abs() < 1e-9);
    // The first seed only, both connections, every 50 ms.
    assert!(rows[1].timeline.is_empty());
    let samples = (rows[0].simulated_s / 0.05) as usize;
    assert!(rows[0].timeline.len().abs_diff(2 * samples) <= 4, "{}", rows[0].timeline.len());
    assert!(rows[0].timeline.iter().any(|(_, connection, window)| *connection == 1 && *window > 8));
    let folder = tempfile::tempdir().unwrap();
    write_all(&plan, &rows, folder.path()).unwrap();
    let svg = std::fs::read_to_string(folder.path().join("windows.svg")).unwrap();
    for text in ["first", "second", "window (packets)", "time (s)", "the run of the first seed"] {
        assert!(svg.contains(text), "{text}");
    }
}

/// Both together have no more than the bottleneck, also if the rival's segments are half as large.
#[test]
fn goodput_is_counted_in_the_segments_of_whoever_has_it() {
    let text = SHARING.split("[[figure]]").next().unwrap();
    let text = text
        .replace("bytes = 3_000_000", "bytes = 10_000_000")
        .replace("rival_scheme = \"scheme\", rivals_later_ms = 1_000", "rival_scheme = \"tcp\"")
        .replace("name = \"CTCP\", kind = \"ctcp\"", "kind = \"tcp\", tcp = { mss = 2_920 }");
    let rows = rows(&plan(&text));
    let of = |name| metric(&rows, "tcp", "", name).unwrap();
    let (own, rival) = (of("delivered_mbps"), of("rivals_mbps"));
    assert!(rival > 0.5 && own + rival < 10.0, "{own} {rival}");
}

#[test]
fn looking_at_windows_changes_nothing_else() {
    let unseen = SHARING.split("[[figure]]").next().unwrap().replace("sample_ms = 50", "");
    let (with, without) = (rows(&plan(SHARING)), rows(&plan(&unseen)));
    assert_eq!(with[1].trace, rows(&plan(SHARING))[1].trace);
    // The end is looked for at other moments, which is up to a sample later.
    assert!((with[0].simulated_s - without[0].simulated_s).abs() < 0.1);
    let error = Plan::parse("test", &SHARING.replace("sample_ms = 50", ""), Scale::Quick).unwrap_err();
    assert!(error.to_string().contains("sample_ms"), "{error}");
}

#[test]
fn a_plan_says_one_thing_once_and_runs_for_some_time() {
    for (from, to, said) in [
        (
            "queue_bdp = 1",
            "queue_packets = 30, queue_bdp = 1",
            "`topology.queue_bdp` is 1: it must be left out where `topology.queue_packets` is given",
        ),
        (
            "queue_bdp = 1",
            "bottleneck = { queue_bytes = 9_000, queue_packets = 30 }",
            "`topology.bottleneck.queue_bytes` is 9000: it must be left out where `topology.bottleneck.queue_packets` is given",
        ),
        ("limit_s = 100", "limit_s = 0", "`limit_s` is 0: it must be a number from 0.000001 to 1000000000"),
    ] {
        let error = Plan::parse("test", &SHARING.replace(from, to), Scale::Quick).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_video_runs_dry_over_tcp_and_not_over_ctcp() {
    let plan = plan(
        r#"
        title = "A video"
        metrics = ["playout_s", "underruns", "stalled_s", "startup_ms"]
        seeds = 1
        topology = { kind = "dumbbell", pairs = 1, rate_mbps = 10, rtt_us = 20_000, queue_bdp = 1 }
        fault = [{ links = "bottleneck", loss = "$loss", data_only = true, before_rate = true }]
        workload = { kind = "video", from = "left", to = "right", length_s = 5, rate_mbps = 5, buffer_ms = 500 }
        sweep = { loss = [0, 0.05] }
        scheme = [{ name = "CTCP", kind = "ctcp" }, { name = "TCP", kind = "tcp" }]
        "#,
    );
    let rows = rows(&plan);
    let of = |scheme: &str, loss: &str| {
        ["playout_s", "underruns", "stalled_s", "startup_ms"]
            .map(|name| metric(&rows, scheme, loss, name).unwrap())
    };
    for (scheme, loss) in [("CTCP", "0"), ("TCP", "0"), ("CTCP", "0.05")] {
        let [playout, underruns, stalled, startup] = of(scheme, loss);
        assert!((5.4..6.0).contains(&playout), "{scheme} {loss}: {playout}");
        assert_eq!((underruns, stalled), (0.0, 0.0), "{scheme} {loss}");
        assert!((400.0..900.0).contains(&startup), "{scheme} {loss}: {startup}"); // the fifth piece is written after 400 ms
    }
    let [playout, underruns, stalled, startup] = of("TCP", "0.05");
    assert!(underruns >= 1.0 && playout > 6.0, "{playout} {underruns}");
    assert!((playout - 5.0 - stalled - startup / 1e3).abs() < 1e-6);
}

#[test]
fn an_oven_takes_all_of_slow_frames_and_leaves_some_of_others() {
    let plan = plan(
        r#"
        title = "An oven"
        metrics = ["delivered_mbps"]
        seeds = 1
        limit_s = 5
        topology = { kind = "wifi", air_mbps = "$air" }
        fault = [{ links = "air", interference = { air_mbps = "$air", attempts = 7, backoff_us = 310 } }]
        workload = { kind = "rivals", from = "left", to = "right", bytes = 50_000_000 }
        sweep = { air = [1, 5.5] }
        scheme = [{ name = "CTCP", kind = "ctcp" }]
        "#,
    );
    let rows = rows(&plan);
    assert_eq!(metric(&rows, "CTCP", "1", "delivered_mbps"), Some(0.0));
    let some = metric(&rows, "CTCP", "5.5", "delivered_mbps").unwrap();
    assert!((1.5..3.95).contains(&some), "{some}"); // of 3.9 Mbit/s
}

#[test]
fn interference_says_what_it_needs() {
    let with = |interference: &str| {
        let text = format!(
            "title = 'x'\nmetrics = ['delivered_mbps']\ntopology = {{ kind = 'wifi', air_mbps = 11 }}\n\
             fault = [{{ links = 'air', interference = {interference} }}]\n\
             workload = {{ kind = 'rivals', from = 'left', to = 'right', bytes = 1000 }}\nscheme = [{{ kind = 'ctcp' }}]"
        );
        Plan::parse("test", &text, Scale::Quick)
    };
    assert!(with("{ air_mbps = 11, load_mbps = 0 }").is_ok());
    for (wrong, said) in [
        ("{}", "air_mbps"),
        ("{ air_mbps = 11, burst_ms = 20 }", "period_ms"),
        ("{ air_mbps = 11, attempts = 0 }", "attempts"),
        ("{ air_mbps = 11, pulse_ms = 9 }", "pulse_ms"),
    ] {
        let error = with(wrong).unwrap_err().to_string();
        assert!(error.contains(&format!("fault[1].interference.{said}")), "{error}");
    }
}

/// CoDel may drop what comes, and trimming send it later or sooner: when it is on the air is not known.
#[test]
fn interference_is_refused_where_the_time_on_the_air_is_not_known() {
    let with = |line: &str, fault: &str| {
        let text = format!(
            "title = 'x'\nmetrics = ['delivered_mbps']\ntopology = {{ kind = 'dumbbell', bottleneck = {line} }}\n\
             fault = [{{ links = 'bottleneck', interference = {{ air_mbps = 11 }}{fault} }}]\n\
             workload = {{ kind = 'rivals', from = 'left', to = 'right', bytes = 1000 }}\nscheme = [{{ kind = 'ctcp' }}]"
        );
        Plan::parse("test", &text, Scale::Quick)
    };
    assert!(with("{ codel = false }", "").is_ok());
    assert!(with("{ codel = true }", ", before_rate = true").is_ok());
    for line in ["{ codel = true }", "{ trim = true }"] {
        for direction in ["", ", direction = 'forward'", ", direction = 'backward'"] {
            let error = with(line, direction).unwrap_err().to_string();
            assert!(error.contains("`fault[1].interference` is on a link with `codel` or `trim`"), "{error}");
        }
    }
}

#[test]
fn values_of_a_case_and_stated_ones_belong_to_their_point() {
    let plan = plan(
        r#"
        title = "Cases"
        metrics = ["fct_mean_ms"]
        seeds = 1
        topology = { kind = "dumbbell", rate_mbps = "$link.rate", rtt_us = "$link.rtt_us" }
        workload = { kind = "spaced", from = "left", to = "right", flows = 1, apart_ms = 1, bytes = 1000 }
        sweep = { link = ["near", "far"] }
        scheme = [{ name = "CTCP", kind = "ctcp" }]
        model = [{ name = "stated", kind = "stated", metric = "fct_mean_ms", value = "$link.ms" }]
        [cases.link]
        near = { rate = 10, rtt_us = 2_000, ms = 3 }
        far = { rate = 1, rtt_us = 200_000, ms = 112 }
        "#,
    );
    let summary = Summary::new(&plan, &rows(&plan)).unwrap();
    let means: Vec<f64> = summary.cells.iter().map(|cell| cell.mean).collect();
    assert_eq!((means[1], means[3]), (3.0, 112.0));
    assert!((means[0] - 2.4).abs() < 0.5 && (means[2] - 113.0).abs() < 5.0, "{means:?}");
}
