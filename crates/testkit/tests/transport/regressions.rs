//! Every failure that was found, by name: the files of `regressions/`, whose comments say what
//! broke.

use std::{fs, path::PathBuf};

use mendpath_testkit::{Outcome, Scenario};

fn files() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let entries = fs::read_dir(directory).expect("the directory is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    files
}

/// A scenario and with how many seeds it runs: chance decides about some failures, and
/// `#! seeds 100` tries so many.
fn read(file: &PathBuf) -> (Scenario, u64) {
    let text = fs::read_to_string(file).expect("readable");
    assert!(text.starts_with("# "), "{}: say in a comment what broke", file.display());
    let seeds = text.lines().find_map(|line| line.strip_prefix("#! seeds "));
    let seeds = seeds.map_or(1, |n| n.trim().parse().expect("a number of seeds"));
    let scenario = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    (scenario, seeds)
}

/// Twice, since some differed from one run to the next.
fn succeeds(scenario: &Scenario, what: &str) -> Outcome {
    mendpath_testkit::run_twice(scenario).unwrap_or_else(|failure| panic!("{what}: {failure}\n{scenario}"))
}

#[test]
fn what_failed_once_does_not_fail_again() {
    let files = files();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let (scenario, seeds) = read(&file);
        for seed in scenario.seed..scenario.seed + seeds {
            succeeds(&Scenario { seed, ..scenario.clone() }, &file.display().to_string());
        }
    }
}

/// Limits that every packet runs into: the decoder and the pool of source symbols stay within them,
/// and the transfer completes. Blocks of new data have sources that the streams do not hold as well.
#[test]
fn memory_limits_are_reached_and_kept() {
    for recovery in ["auto", "ctcp"] {
        let settings = format!("recovery={recovery} repair.decoder_memory=6000 repair.source_memory=6000");
        let path = "path link=rate=20mbit,delay=30ms,loss=0.05";
        // Packets with bytes of several streams are kept whole.
        let exchange = "at 300ms stream client bi 4000 back 4000\n".repeat(100);
        let text =
            format!("client {settings}\nserver {settings}\n{path}\n{path}\nat 0s open-path 1\n{exchange}");
        let outcome = succeeds(&text.parse().unwrap(), "memory limits");
        for side in 0..2 {
            let (stats, paths) = (&outcome.stats[side], &outcome.paths[side]);
            assert!(stats.decoder_memory_peak > 4_000 && stats.decoder_memory_peak <= 6_000, "{stats:?}");
            let unprotected = paths.iter().map(|p| p.packets_unprotected).sum::<u64>();
            assert!(unprotected > 0, "{recovery}: {paths:?}");
        }
    }
}
