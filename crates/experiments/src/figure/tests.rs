use plans::Scale;

use super::*;

const PLAN: &str = r#"
    title = "Tails over loss"
    metrics = ["fct_p99_ms", "timeout_share"]
    topology = { kind = "parallel-paths" }
    tcp = { preset = "fuso" }
    fault = [{ links = "paths", index = 0, loss = "$loss" }]
    workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 50, bytes = 20_000 }
    scheme = [{ name = "one", kind = "tcp" }]
    sweep = { loss = [0, 0.25, 0.75] }
    [[figure]]
    file = "times"
    panel = [
        { heading = "tail", metric = "fct_p99_ms", x = "loss" },
        { heading = "bar", kind = "bars", metric = "fct_p99_ms", at = { loss = 0.25 } },
    ]
"#;

const HEAD: &str = "loss,scheme,metric,seeds,mean,ci95,min,max,samples\n";
const FEW: &str = "0,one,fct_p99_ms,2,,,,,120\n0.25,one,fct_p99_ms,2,,,,,90\n0.75,one,fct_p99_ms,2,,,,,80\n";

/// The figure of lines of `summary.csv`.
fn drawn(csv: &str) -> String {
    let plan = Plan::parse("p", PLAN, Scale::Quick).unwrap();
    let summary = Summary::read_csv(&plan, &format!("{HEAD}{csv}")).unwrap();
    plan.figures[0].draw(&plan, &summary, &[])
}

/// Whether a line of the picture is this text alone.
fn says(svg: &str, text: &str) -> bool {
    svg.lines().any(|line| line == text || line.contains(&format!(">{text}<")))
}

#[test]
fn a_panel_without_values_says_why() {
    let svg = drawn(FEW);
    assert_eq!(svg.matches("too few flows").count(), 2, "{svg}");
    assert!(says(&svg, "at most 120 of the 10000 that are needed"), "{svg}");
    assert!(says(&svg, "at most 90 of the 10000 that are needed"), "{svg}");
    assert!(!svg.contains("are not drawn"), "both panels say so themselves: {svg}");
    assert_eq!(drawn("").matches("nothing to show").count(), 2);
}

#[test]
fn a_panel_with_one_value_shows_the_whole_sweep() {
    let few = FEW.split_inclusive('\n').skip(1).collect::<String>();
    let svg = drawn(&format!("0,one,fct_p99_ms,1,7,,7,7,12000\n{few}"));
    assert!(says(&svg, "Percentiles of fewer than 10000 flows are not drawn."), "{svg}");
    // The panel of bars has none at its point, that of lines a dot and its axis up to 0.75.
    assert_eq!((svg.matches("too few flows").count(), svg.matches("<circle").count()), (1, 1), "{svg}");
    assert!(says(&svg, "0.2") && says(&svg, "0.6"), "{svg}");
    let more = drawn("0,one,fct_p99_ms,1,7,,7,7,12000\n0.25,one,fct_p99_ms,1,9,,9,9,12000\n");
    assert!(!more.contains("<circle") && more.contains("<polyline"), "{more}");
}

#[test]
fn an_axis_has_room_around_a_single_value() {
    let [zero, least] = [Origin::Zero, Origin::Least];
    assert_eq!(range(&[100.0], Spacing::Linear, least), (50.0, 150.0));
    assert_eq!(range(&[0.0, 0.0], Spacing::Linear, least), (-1.0, 1.0));
    assert_eq!(range(&[0.0, 0.0], Spacing::Linear, zero), (0.0, 1.0));
    assert_eq!(range(&[8.0], Spacing::Logarithmic, least), (4.0, 16.0));
    assert_eq!(range(&[8.0], Spacing::Linear, zero), (0.0, 8.4));
    assert_eq!(range(&[], Spacing::Linear, zero), (0.1, 1.0));
}
