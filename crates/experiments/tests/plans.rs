//! The plans of the repository, which packages of this crate have not.

use std::path::Path;

use mendpath_experiments::{Plan, Scale};

/// Every plan of the repository can be used, at every scale.
#[test]
fn the_plans_are_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path().join("plan.toml");
        if !file.exists() {
            continue;
        }
        for (_, scale) in Scale::ALL {
            let plan = Plan::load(&file, scale).unwrap_or_else(|error| panic!("{error}"));
            assert!(!plan.claims.is_empty(), "{} names no claim", plan.name);
        }
        assert!(file.with_file_name("README.md").exists(), "{} has no README", file.display());
        count += 1;
    }
    assert!(count > 0);
}
