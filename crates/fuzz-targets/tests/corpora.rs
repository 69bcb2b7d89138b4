//! Replays every committed input of every target: seeds, and whatever was found once.

use std::{fs, path::Path};

use fuzz_targets::TARGETS;

#[test]
fn every_seed_is_survived() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(seeds.join(name))
            .unwrap_or_else(|error| panic!("seeds of {name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no seeds");
        for input in inputs {
            // Printed by a failing test only: it names the culprit.
            println!("{}", input.display());
            target(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn every_folder_of_seeds_has_a_target() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for folder in fs::read_dir(seeds).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(TARGETS.iter().any(|(known, _)| name == *known), "{name:?}");
    }
}
