//! Random scenarios: no invariant breaks, and the same scenario runs the same way twice.

use testkit::{Scenario, run, sweep::Sweep};

/// How many run here; CI asks for more by the environment variable `MENDPATH_SCENARIOS`.
const SCENARIOS: u64 = 1_000;

#[test]
fn random_scenarios() {
    let wanted =
        std::env::var("MENDPATH_SCENARIOS").ok().map(|n| n.parse().expect("MENDPATH_SCENARIOS is a number"));
    let seeds = 0..wanted.unwrap_or(SCENARIOS);
    let report = Sweep { seeds: seeds.clone(), jobs: 0, twice_every: 10, max_failures: 3 }.run(|_| {});
    let tell = |f: &testkit::sweep::Failed| {
        let command =
            format!("cargo run --release -p mendpath-testkit --example scenario -- --seed {}", f.seed);
        format!("seed {} ({}): {}\n{}\nreplay it: {command}\n", f.seed, f.failure.kind(), f.failure, f.shrunk)
    };
    let failures: String = report.failed.iter().map(tell).collect();
    assert!(failures.is_empty(), "{failures}");
    assert_eq!(report.runs, seeds.end);
    // What never happens is not tested: the generator must go on reaching all of it.
    let rare = [
        "~ packet rebuilt by the decoder",
        "~ loss mended before it was noticed",
        "~ packet unprotected for want of memory",
        "~ path suspected (probe timeout)",
        "~ path recovered",
        "~ path closed by the peer",
        "~ malformed packet received",
        "~ datagram dropped unread",
        "replay",
        "sleep",
        "close",
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
