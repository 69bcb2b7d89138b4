//! A file under a temporary name, until it is whole.

use std::{
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::{Builder, PathPersistError, TempPath};
use tokio::io::AsyncWriteExt as _;

use crate::task::came_to;

/// Random characters of a temporary name, so that nobody can guess it.
const RANDOM: usize = 16;

/// A file that nobody else has the name of; removed unless it is published.
pub(super) struct Part {
    pub(super) file: tokio::fs::File,
    path: TempPath,
}

/// A whole file that did not get its name.
#[derive(Debug)]
pub(super) struct Unpublished {
    pub(super) error: io::Error,
    /// Where it is instead.
    pub(super) kept: PathBuf,
}

impl Part {
    /// In `dir`, for the file `name`. Whatever stands at its own name, a link included, is left
    /// alone: another name is drawn.
    pub(super) fn create(dir: &Path, name: &str) -> io::Result<Self> {
        let prefix = format!(".{name}.");
        let mut builder = Builder::new();
        // As for any new file: the umask takes away what it should.
        let builder = builder
            .prefix(&prefix)
            .suffix(".part")
            .rand_bytes(RANDOM)
            .permissions(Permissions::from_mode(0o666));
        let (file, path) = builder.tempfile_in(dir)?.into_parts();
        Ok(Self { file: file.into(), path })
    }

    /// Gives it its name; an existing file stays unless `force`.
    pub(super) async fn publish(self, name: &Path, force: bool) -> Result<(), Unpublished> {
        let Self { file, path } = self;
        drop(file);
        let name = name.to_owned();
        let published = tokio::task::spawn_blocking(move || match force {
            true => path.persist(&name).map_err(keep).inspect(|()| sync(&name)),
            false => publish_new(path, &name, TempPath::persist_noclobber).inspect(|()| sync(&name)),
        });
        came_to(published.await)
    }
}

/// Gives `path` a name that must be free. `rename` does so in one step, by renaming or a hard link;
/// where the file system can do neither, as FAT and some in user space, the name is taken with an
/// empty file that is then replaced.
fn publish_new(
    path: TempPath,
    name: &Path,
    rename: impl FnOnce(TempPath, PathBuf) -> Result<(), PathPersistError>,
) -> Result<(), Unpublished> {
    let unable = match rename(path, name.to_owned()) {
        Ok(()) => return Ok(()),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => return Err(keep(failed)),
        Err(unable) => unable,
    };
    let path = unable.path;
    if let Err(error) = OpenOptions::new().write(true).create_new(true).open(name) {
        return Err(keep(PathPersistError { error, path }));
    }
    path.persist(name).map_err(|failed| {
        let _ = fs::remove_file(name);
        keep(failed)
    })
}

/// What arrived whole is not thrown away.
fn keep(PathPersistError { error, path }: PathPersistError) -> Unpublished {
    let kept = path.to_path_buf();
    match path.keep() {
        Ok(kept) => Unpublished { error, kept },
        Err(failed) => {
            // Dropping it would remove the file.
            std::mem::forget(failed);
            Unpublished { error, kept }
        }
    }
}

/// Returns once all that was written is on the disk.
///
/// A write returns before it is done, and the next one, or flushing, tells whether it was: to synchronise
/// alone would forget that the last piece found no room.
pub(super) async fn settle(file: &mut tokio::fs::File) -> io::Result<()> {
    file.flush().await?;
    file.sync_all().await
}

/// A name is safe once its directory is.
fn sync(name: &Path) {
    let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = fs::File::open(dir).and_then(|dir| dir.sync_all());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn part(dir: &Path) -> Part {
        let mut part = Part::create(dir, "file").unwrap();
        part.file.write_all(b"whole").await.unwrap();
        settle(&mut part.file).await.unwrap();
        part
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What FAT says of renaming without replacing (on old kernels) and of hard links.
    fn unable(path: TempPath, _: PathBuf) -> Result<(), PathPersistError> {
        Err(PathPersistError { error: rustix::io::Errno::PERM.into(), path })
    }

    /// A whole file may be one piece.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_disk_that_is_full_for_the_last_piece_is_noticed() {
        let mut full = tokio::fs::File::options().write(true).open("/dev/full").await.unwrap();
        full.write_all(b"last").await.unwrap();
        let error = settle(&mut full).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[tokio::test]
    async fn a_file_gets_its_name_and_usual_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("file");
        part(dir.path()).await.publish(&name, false).await.unwrap();
        assert_eq!(
            (fs::read(&name).unwrap(), names(dir.path())),
            (b"whole".to_vec(), vec!["file".to_owned()])
        );
        fs::write(dir.path().join("other"), b"").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("file"), mode("other"));
        drop(part(dir.path()).await);
        assert_eq!(names(dir.path()), ["file", "other"], "what is given up leaves nothing");
    }

    #[tokio::test]
    async fn without_links_it_gets_its_name_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("file");
        publish_new(part(dir.path()).await.path, &name, unable).unwrap();
        assert_eq!(
            (fs::read(&name).unwrap(), names(dir.path())),
            (b"whole".to_vec(), vec!["file".to_owned()])
        );
        let unpublished = publish_new(part(dir.path()).await.path, &name, unable).unwrap_err();
        assert_eq!(unpublished.error.kind(), io::ErrorKind::AlreadyExists, "nothing is replaced");
        assert_eq!(fs::read(unpublished.kept).unwrap(), b"whole");
    }

    #[tokio::test]
    async fn a_whole_file_that_cannot_have_its_name_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("file");
        fs::create_dir(&name).unwrap();
        for force in [false, true] {
            let unpublished = part(dir.path()).await.publish(&name, force).await.unwrap_err();
            assert_eq!(fs::read(&unpublished.kept).unwrap(), b"whole");
        }
        let nowhere = dir.path().join("no/such/directory");
        let unpublished = part(dir.path()).await.publish(&nowhere, false).await.unwrap_err();
        assert_eq!(fs::read(&unpublished.kept).unwrap(), b"whole");
    }

    /// A name that can be guessed may be a link to somewhere by the time it is opened.
    #[tokio::test]
    async fn names_are_not_guessed_and_links_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = elsewhere.path().join("victim");
        let former = dir.path().join(format!(".file.{}.part", std::process::id()));
        std::os::unix::fs::symlink(&victim, former).unwrap();
        let parts: Vec<_> = (0..50).map(|_| Part::create(dir.path(), "file").unwrap()).collect();
        let mut seen: Vec<_> = parts.iter().map(|part| part.path.to_path_buf()).collect();
        seen.dedup();
        assert_eq!(seen.len(), 50);
        assert!(parts.iter().all(|part| part.path.symlink_metadata().unwrap().is_file()));
        assert!(!victim.exists());
    }
}
