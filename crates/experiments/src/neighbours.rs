//! Whose the published files of a folder are: those of its `plan.toml`, or of the only plan there.

use std::path::{Path, PathBuf};

use crate::inputs::read_file;

/// A plan beside `file` with which it would share `summary.csv` and README; `None` if these are its
/// own.
pub fn publishing_rival(file: &Path) -> Option<PathBuf> {
    if file.file_name().is_some_and(|name| name == "plan.toml") {
        return None;
    }
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|other| other.file_name() != file.file_name() && is_plan(other)).min()
}

/// Whether it is a plan, and no TOML of another kind.
fn is_plan(file: &Path) -> bool {
    let table = || plans::table(&read_file(file).ok()?).ok();
    file.extension().is_some_and(|ending| ending == "toml")
        && table().is_some_and(|table| table.contains_key("metrics"))
}
