//! What `bench/simulators/validate` reads of `mendpath-tools single-flow`.

use std::process::Command;

/// Time or `never`, and timeouts, as the scripts for the other simulators print them.
#[test]
fn a_flow_that_never_ends_has_its_timeouts_told_like_any_other() {
    let run = |lost: std::ops::Range<u32>| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_mendpath-tools"));
        let lost = lost.map(|packet| packet.to_string());
        let output = tool.args(["single-flow", "plain", "1"]).args(lost).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let (time, timeouts) = text.trim_end().split_once(' ').expect("two words");
        (time.to_owned(), timeouts.parse::<u32>().expect("a number"))
    };
    // The packet, and then every one that a timeout sends.
    let (time, timeouts) = run(0..20);
    assert!(time == "never" && timeouts > 3, "{time} {timeouts}");
    let (time, timeouts) = run(0..1);
    assert!(time.parse::<f64>().unwrap() > 1_000.0 && timeouts == 1, "{time} {timeouts}");
}
