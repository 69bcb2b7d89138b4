//! Hundreds of random scenarios, each run twice: no invariant breaks, and both runs are the same.

use testkit::Scenario;

/// Runs these seeds; the message of a failure holds the command that replays it.
fn run_seeds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let replay = format!("cargo run -p mendpath-testkit --example scenario -- --seed {seed} --verbose");
        let scenario = Scenario::generate(seed);
        let outcome =
            testkit::run(&scenario).unwrap_or_else(|failure| panic!("{failure}\nreplay it: {replay}"));
        let again =
            testkit::run(&scenario).unwrap_or_else(|failure| panic!("{failure}\nreplay it: {replay}"));
        assert_eq!(outcome.trace_hash, again.trace_hash, "two runs differ\nreplay them: {replay}");
    }
}

// In parts, so that they share the cores.

#[test]
fn seeds_from_0() {
    run_seeds(0..250);
}

#[test]
fn seeds_from_250() {
    run_seeds(250..500);
}

#[test]
fn seeds_from_500() {
    run_seeds(500..750);
}

#[test]
fn seeds_from_750() {
    run_seeds(750..1_000);
}

/// `MENDPATH_SEED=123 cargo test -p mendpath-testkit replay -- --nocapture`
#[test]
fn replay() {
    let Ok(seed) = std::env::var("MENDPATH_SEED") else { return };
    let seed = seed.parse().expect("MENDPATH_SEED is a number");
    println!("{:#?}", Scenario::generate(seed));
    run_seeds(seed..seed + 1);
}

#[test]
fn scenarios_differ_and_hashes_tell_them_apart() {
    let mut hashes: Vec<u64> =
        (0..20).map(|s| testkit::run(&Scenario::generate(s)).unwrap().trace_hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
    let (a, mut b) = (Scenario::generate(3), Scenario::generate(3));
    b.paths[0].down.delay += units::Duration::from_nanos(1);
    assert_ne!(testkit::run(&a).unwrap().trace_hash, testkit::run(&b).unwrap().trace_hash);
}
