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

/// The first `length` bytes of a file, or all if it has fewer; `None` if it cannot be read. Devices and pipes
/// are not: what came from there does not come again.
#[cfg(feature = "trace")]
pub(super) fn start_of(file: &Path, length: u64) -> Option<Vec<u8>> {
    use std::io::Read as _;
    if !fs::metadata(file).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut start = Vec::new();
    fs::File::open(file).ok()?.take(length).read_to_end(&mut start).ok()?;
    Some(start)
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_file_is_no_longer_than_asked_and_only_files_have_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        assert_eq!(start_of(&file, 2), None);
        for (content, start) in [("", ""), ("a", "a"), ("abc", "ab")] {
            fs::write(&file, content).unwrap();
            assert_eq!(start_of(&file, 2).as_deref(), Some(start.as_bytes()));
        }
        assert_eq!(start_of(directory.path(), 2), None);
        assert_eq!(start_of(Path::new("/dev/zero"), 2), None);
    }
}
