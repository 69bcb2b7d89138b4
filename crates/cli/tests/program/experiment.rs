//! `mendpath experiment` and `mendpath demo` that are told to end.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::process::Process;

/// A run that nobody waits for to its end.
const ENDLESS: &str = r#"
title = "One long flow"
metrics = ["delivered_mbps"]
topology = { kind = "dumbbell", pairs = 1, rate_mbps = 1_000, rtt_us = 20_000 }
workload = { kind = "rivals", from = "left", to = "right", bytes = 100_000_000_000 }
scheme = [{ kind = "tcp" }]
"#;

#[test]
fn an_experiment_ends_in_its_midst() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let dir = tempfile::tempdir().unwrap();
        let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
        fs::write(&plan, ENDLESS).unwrap();
        let process =
            Process::start(&["experiment", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        // The file of its rows is there once it runs.
        let has_begun = || {
            let folder = fs::read_dir(&out).into_iter().flatten().flatten().next();
            folder
                .is_some_and(|folder| fs::read_dir(folder.path()).is_ok_and(|mut rows| rows.next().is_some()))
        };
        while !has_begun() {
            std::thread::yield_now();
        }
        kill(Pid::from_raw(process.id() as i32), signal).unwrap();
        process.line_with("stopped. Finished runs are kept in --out");
        assert_eq!(process.wait(), Some(code));
    }
}

/// The same plan twice at a time would be done twice. What a run holds is free once it has ended, however
/// that was.
#[test]
fn a_second_run_into_a_folder_says_that_there_is_a_first() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    fs::write(&plan, ENDLESS.replace("100_000_000_000", "1_000")).unwrap();
    let line = ["experiment", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    assert_eq!(Process::start(&line).wait(), Some(0));
    let folder = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let is_journal = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    let rows = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(is_journal).unwrap();

    let first = fs::File::open(rows).unwrap();
    first.lock().unwrap();
    let second = Process::start(&line);
    let told = second.line_with("another run is adding to ");
    assert!(told.ends_with("Wait for its end, or name another folder with --out."), "{told}");
    assert_eq!(second.wait(), Some(1));
    drop(first);
    assert_eq!(Process::start(&line).wait(), Some(0));
}

#[test]
fn a_demonstration_ends_in_its_midst() {
    for more in [&[][..], &["--virtual"]] {
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            let dir = tempfile::tempdir().unwrap();
            let result = dir.path().join("result.json");
            let line = ["demo", "--count=1000000", "--json", result.to_str().unwrap()];
            let process = Process::start(&[&line[..], more].concat());
            while !result.exists() {
                std::thread::yield_now();
            }
            kill(Pid::from_raw(process.id() as i32), signal).unwrap();
            process.line_with("stopped the demonstration");
            assert_eq!(process.wait(), Some(code));
        }
    }
}
