//! The files that a command writes its results to, each named by a flag; `-` is stdout, in place of
//! the table.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{check_writable, print, write};
use crate::failure::Failure;

pub(super) fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// A file that cannot be written should show before the work, not after it; so should two flags that
/// name one file.
pub(super) fn check_outputs(outputs: &[(&str, &Option<PathBuf>)]) -> Result<(), Failure> {
    check_distinct(outputs)?;
    outputs.iter().filter_map(|(_, file)| file.as_deref()).try_for_each(check_writable)?;
    // Now all of them are there to be compared.
    check_distinct(outputs)
}

/// Refuses two flags that name one file: what is written last would take the other's place.
fn check_distinct(outputs: &[(&str, &Option<PathBuf>)]) -> Result<(), Failure> {
    let named: Vec<(&str, &Path)> =
        outputs.iter().filter_map(|(flag, file)| Some((*flag, file.as_deref()?))).collect();
    for (place, (flag, file)) in named.iter().enumerate() {
        let same = |(_, other): &&(&str, &Path)| other == file || same_file(other, file);
        if let Some((other, _)) = named[..place].iter().find(same) {
            let reason = "they are the same file";
            return Err(Failure::usage(format!("cannot write {other} and {flag}"), reason, "Name two files"));
        }
    }
    Ok(())
}

/// Writes a file, or to stdout.
pub(super) fn put(file: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(file) { print(text) } else { write(file, text) }
}

/// Whether both names lead to one file that is there.
pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    identity(a).is_some_and(|found| identity(b) == Some(found))
}
