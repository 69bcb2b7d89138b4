//! The plans of the repository, which packages of this crate have not.

use std::path::{Path, PathBuf};

use mendpath_experiments::{Plan, Scale, claims_page, redraw};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

fn plan_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path().join("plan.toml"));
    let files: Vec<PathBuf> = entries.filter(|file| file.exists()).collect();
    assert!(!files.is_empty());
    files
}

/// Every plan of the repository can be used, at every scale.
#[test]
fn the_plans_are_sound() {
    for file in plan_files() {
        for (_, scale) in Scale::ALL {
            let plan = Plan::load(&file, scale).unwrap_or_else(|error| panic!("{error}"));
            assert!(!plan.claims.is_empty(), "{} names no claim", plan.name);
        }
        assert!(file.with_file_name("README.md").exists(), "{} has no README", file.display());
    }
}

/// Figures and tables that are committed are those of the summary that is committed beside them, as
/// the code draws them today; the summary is of the plan as it stands, and no figure is left over
/// that none of the plan's scales draws. `cargo run -p mendpath-experiments --example pages` writes
/// them.
#[test]
fn committed_figures_and_tables_belong_to_their_data() {
    let mut drawn = 0;
    for file in plan_files() {
        let mut known = Vec::new();
        for (_, scale) in Scale::ALL {
            let redrawn = redraw(&file, scale).unwrap_or_else(|error| panic!("{error}"));
            let Some(redrawn) = redrawn else { continue };
            let (name, stale) = (scale.name(), redrawn.is_of_another_plan);
            assert!(!stale, "{}: the summary at {name} is of the plan before a change", file.display());
            assert!(redrawn.missing.is_empty(), "{}: no {:?}", file.display(), redrawn.missing);
            for (name, text) in redrawn.files {
                let beside = file.with_file_name(&name);
                let committed = std::fs::read_to_string(&beside).unwrap_or_default();
                assert!(committed == text, "{} is not that of its summary", beside.display());
                known.push(name);
            }
        }
        for entry in std::fs::read_dir(file.parent().unwrap()).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            let is_figure = name.ends_with(".svg");
            assert!(!is_figure || known.contains(&name), "{name} beside {}", file.display());
            drawn += usize::from(is_figure);
        }
    }
    assert!(drawn > 50, "{drawn} figures");
}

/// The page of all claims has the numbers of the committed summaries.
#[test]
fn the_page_of_claims_agrees_with_the_data() {
    let page = claims_page(&folder()).unwrap_or_else(|error| panic!("{error}"));
    let committed = std::fs::read_to_string(folder().join("../docs/claims.md")).unwrap_or_default();
    assert!(page == committed, "docs/claims.md: `cargo run -p mendpath-experiments --example pages`");
    let ids = ["F", "C", "T", "H", "S"].into_iter().zip([11, 8, 5, 2, 3]);
    for (letter, count) in ids {
        for n in 1..=count {
            assert!(page.contains(&format!("\n| {letter}{n} |")), "{letter}{n} is not on the page");
        }
    }
}
