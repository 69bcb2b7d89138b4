//! Random scenarios: no invariant breaks, and the same scenario runs the same way twice.

use std::{
    ops::Range,
    time::{SystemTime, UNIX_EPOCH},
};

use mendpath_testkit::{
    Scenario, run,
    sweep::{Report, Sweep},
};

/// How many run of each range where the environment variable `MENDPATH_SCENARIOS` does not say otherwise, as in CI.
const SCENARIOS: u64 = 1_000;
/// Fresh ranges begin at multiples of this, far from the fixed one.
const FRESH_STEP: u64 = 1_000_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

/// How many run of each range.
fn count() -> u64 {
    number("MENDPATH_SCENARIOS").unwrap_or(SCENARIOS)
}

/// Runs them all; fails with what is needed to replay what failed.
fn pass(seeds: Range<u64>) -> Report {
    let report = Sweep { seeds: seeds.clone(), jobs: 0, twice_every: 50, max_failures: 3 }.run(|_| {});
    let tell = |f: &mendpath_testkit::sweep::Failed| {
        let command = format!("cargo run --release -p mendpath-tools -- scenario --seed {}", f.seed);
        format!("seed {} ({}): {}\n{}\nreplay it: {command}\n", f.seed, f.failure.kind(), f.failure, f.shrunk)
    };
    let failures: String = report.failed.iter().map(tell).collect();
    assert!(failures.is_empty(), "{failures}");
    assert_eq!(report.runs, seeds.end - seeds.start);
    report
}

/// Where the fresh range begins: what `MENDPATH_SCENARIO_BASE` says, or the second that it is.
#[allow(clippy::disallowed_methods)] // nothing else tells which seeds are new; what follows from them does not depend on it
fn base() -> u64 {
    number("MENDPATH_SCENARIO_BASE").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        since.as_secs().wrapping_mul(FRESH_STEP)
    })
}

/// Scenarios that nobody has run before: the fixed range says that nothing has become worse, this
/// one whether anything was overlooked.
#[test]
fn random_scenarios_of_a_fresh_range() {
    let (base, count) = (base(), count());
    // Shown when the test fails.
    println!(
        "replay this range: MENDPATH_SCENARIOS={count} MENDPATH_SCENARIO_BASE={base} \
         cargo test -p mendpath-testkit --test transport fresh"
    );
    pass(base..base + count);
}

#[test]
fn random_scenarios() {
    let report = pass(0..count());
    // What never happens is not tested: the generator must go on reaching all of it.
    let rare = [
        "~ packet rebuilt by the decoder",
        "~ loss mended before it was noticed",
        "~ copy behind the probes of a timeout",
        "~ packet unprotected for want of memory",
        "~ path suspected (probe timeout)",
        "~ path resumed",
        "~ path closed by the peer",
        "~ malformed packet received",
        "~ datagram dropped unread",
        "~ MTU beyond Ethernet's",
        "replay",
        "sleep",
        "close",
        "corrupt",
        "pause-reading",
        "rebind",
    ];
    for event in rare {
        assert!(report.seen.contains_key(event), "{event}: not seen in {:?}", report.seen);
    }
}

#[test]
fn scenarios_differ_and_hashes_tell_them_apart() {
    let mut hashes: Vec<u64> = (0..20).map(|s| run(&Scenario::generate(s)).unwrap().trace_hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
    let (a, mut b) = (Scenario::generate(3), Scenario::generate(3));
    b.paths[0].down.delay += units::Duration::from_nanos(1);
    assert_ne!(run(&a).unwrap().trace_hash, run(&b).unwrap().trace_hash);
}
