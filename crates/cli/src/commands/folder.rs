//! A folder that results are to go to, made before the work: what cannot be made should show then.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::unwritable;
use crate::failure::Failure;

/// A folder for results. What was made of it goes with this, unless there is something in it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The innermost one first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// The folder at `path`, which is made, with those above it, if it is not there.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn make(path: PathBuf) -> Result<Self, Failure> {
        let missing = |folder: &&Path| *folder != Path::new("") && !folder.exists();
        let made = path.ancestors().take_while(missing).map(Path::to_owned).collect();
        fs::create_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
        Ok(Self { path, made })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // One that is not empty is not removed, nor are those above it.
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_for_nothing_goes() {
        let dir = tempfile::tempdir().unwrap();
        let [there, new] = ["there", "new"].map(|name| dir.path().join(name));
        fs::create_dir(&there).unwrap();
        let (empty, used) = (new.join("deep/run"), new.join("other/run"));
        for path in [&there, &empty] {
            let folder = Folder::make(path.clone()).unwrap();
            assert!(folder.path().is_dir());
        }
        assert!(there.exists() && !new.exists());
        fs::write(Folder::make(used.clone()).unwrap().path().join("results"), "").unwrap();
        assert!(used.join("results").exists());

        let failure = Folder::make(used.join("results")).unwrap_err();
        assert_eq!(failure.parts().1, "there is a file in the place of a directory");
    }
}
