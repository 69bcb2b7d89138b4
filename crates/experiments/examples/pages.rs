//! Writes what belongs to the committed summaries of the folder `plans` again: figures, the tables
//! of READMEs, and the page of all claims. Nothing is simulated.
//!
//! `cargo run -p mendpath-experiments --example pages`, at the root of the repository.

use std::path::Path;

use mendpath_experiments::{Scale, claims_page, redraw};

type Failure = Box<dyn std::error::Error>;

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    println!("{}", file.display());
    Ok(std::fs::write(file, text)?)
}

fn main() -> Result<(), Failure> {
    for entry in std::fs::read_dir("plans")? {
        let plan = entry?.path().join("plan.toml");
        for (_, scale) in Scale::ALL.iter().filter(|_| plan.exists()) {
            let Some(redrawn) = redraw(&plan, *scale)? else { continue };
            if redrawn.is_of_another_plan {
                println!("run again, at {}: {}", scale.name(), plan.display());
            }
            redrawn.files.iter().try_for_each(|(name, text)| write(&plan.with_file_name(name), text))?;
            redrawn.missing.iter().for_each(|name| println!("there is no {name}: {}", plan.display()));
        }
    }
    write(Path::new("docs/claims.md"), &claims_page(Path::new("plans"))?)
}
