//! Replays every committed input of every target: seeds, and whatever was found once.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fuzz_targets::TARGETS;

/// The workspace of the fuzzer's programs.
fn fuzz() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Files named after their targets, a seed in each line: its name, a space, its bytes in base64.
fn folder() -> PathBuf {
    fuzz().join("seeds")
}

#[test]
fn every_seed_is_survived() {
    for (target, run) in TARGETS {
        let seeds = fs::read_to_string(folder().join(format!("{target}.txt")))
            .unwrap_or_else(|error| panic!("seeds of {target}: {error}"));
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for line in seeds.lines() {
            let (name, bytes) = line.split_once(' ').unwrap_or_else(|| panic!("{target}: {line}"));
            // Printed by a failing test only: it names the culprit.
            println!("{target} {name}");
            run(&STANDARD.decode(bytes).unwrap());
        }
    }
}

#[test]
fn every_file_of_seeds_has_a_target() {
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap();
        assert!(TARGETS.iter().any(|(known, _)| name == *known), "{name:?}");
    }
}

/// Nothing else looks at the programs, which take a nightly toolchain to build.
#[test]
fn every_target_is_a_program_of_one_line() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        let path = format!("fuzz_targets/{target}.rs");
        assert!(manifest.contains(&format!("name = \"{target}\"\npath = \"{path}\"\n")), "{target}");
        let line = format!("libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::{target}::run(data));");
        assert_eq!(fs::read_to_string(fuzz().join(path)).unwrap(), format!("#![no_main]\n\n{line}\n"));
    }
    let programs = fs::read_dir(fuzz().join("fuzz_targets")).unwrap().count();
    assert_eq!((programs, manifest.matches("[[bin]]").count()), (TARGETS.len(), TARGETS.len()));
}
