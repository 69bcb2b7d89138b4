//! Files of a directory, opened.

use std::{
    fs::{File, Metadata},
    io::{Error, ErrorKind, Result},
    path::Path,
    sync::Arc,
};

/// A directory whose files are shown.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// Looked up for each file: a directory that is put in its place counts at once, and where it is a link,
    /// so does another place to which that leads.
    path: Arc<Path>,
    follow_symlinks: bool,
}

/// What stands at a path.
#[derive(Debug)]
pub(super) enum Place {
    /// A file and what the system says about it.
    File(File, Metadata),
    /// A directory.
    Directory,
}

impl Root {
    /// The directory at this path.
    ///
    /// # Errors
    /// If it is no directory, or what is in it cannot be looked up.
    pub(super) fn new(path: &Path, follow_symlinks: bool) -> Result<Self> {
        let path = std::path::absolute(path)?;
        if !path.metadata()?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        // Where this user may not enter it each page would be missing, and nobody would hear why.
        path.join(".").metadata()?;
        Ok(Self { path: path.into(), follow_symlinks })
    }

    /// Opens what is at a path below the root, which names nothing above itself. Nothing is there
    /// where a link leads out of the root, unless those are followed.
    ///
    /// Nobody waits for a disk: what the system has at hand is opened at once, everything else by a
    /// thread that may wait.
    ///
    /// # Errors
    /// If nothing is there that may be shown.
    pub(super) async fn open(&self, relative: &Path) -> Result<Place> {
        if let Some(place) = self.open_at_hand(relative) {
            return place;
        }
        let (root, relative) = (self.clone(), relative.to_owned());
        let opening = tokio::task::spawn_blocking(move || root.open_on_disk(&relative));
        opening.await.map_err(Error::other)?
    }

    /// What the system says of a file to which the way was walked a moment ago, at the cost of one
    /// call: links are followed wherever they lead.
    ///
    /// # Errors
    /// If there is nothing.
    pub(super) fn look(&self, relative: &Path) -> Result<Metadata> {
        std::fs::metadata(self.path.join(relative))
    }

    /// The same of what the system has in memory; `None` where it has to look.
    #[cfg(target_os = "linux")]
    fn open_at_hand(&self, relative: &Path) -> Option<Result<Place>> {
        self.resolve(relative, rustix::fs::ResolveFlags::CACHED)
    }

    #[cfg(not(target_os = "linux"))]
    fn open_at_hand(&self, _relative: &Path) -> Option<Result<Place>> {
        None
    }

    fn open_on_disk(&self, relative: &Path) -> Result<Place> {
        #[cfg(target_os = "linux")]
        if let Some(place) = self.resolve(relative, rustix::fs::ResolveFlags::empty()) {
            return place;
        }
        let root = self.path.canonicalize()?;
        let real = root.join(relative).canonicalize()?;
        if !self.follow_symlinks && !real.starts_with(&root) {
            return Err(ErrorKind::NotFound.into());
        }
        place(open_without_waiting(&real)?)
    }

    /// What is there as the kernel says, which follows links only within the root (openat2(2)).
    /// `None` where it does not say: something is not at hand, a link leads out and may come back,
    /// or it is older than Linux 5.6.
    #[cfg(target_os = "linux")]
    fn resolve(&self, relative: &Path, how: rustix::fs::ResolveFlags) -> Option<Result<Place>> {
        use rustix::{
            fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
            io::Errno,
        };
        let named = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, &*self.path, named, Mode::empty(), how).ok()?;
        let mut how = how | ResolveFlags::NO_MAGICLINKS;
        how.set(ResolveFlags::BENEATH, !self.follow_symlinks);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // The root itself is no name below it.
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        match openat2(&root, relative, flags, Mode::empty(), how) {
            Ok(file) => Some(place(file.into())),
            Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS)) => Some(Err(error.into())),
            Err(_) => None,
        }
    }
}

/// Opens a file; where a pipe has nobody at its other end, that is not waited for.
fn open_without_waiting(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    File::options().read(true).custom_flags(nonblocking.cast_signed()).open(path)
}

fn place(file: File) -> Result<Place> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        Ok(Place::Directory)
    } else if metadata.is_file() {
        Ok(Place::File(file, metadata))
    } else {
        // Pipes, devices and sockets have no end to send.
        Err(ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_there(root: &Root, path: &str) -> bool {
        root.open(Path::new(path)).await.is_ok()
    }

    #[tokio::test]
    async fn links_stay_within_unless_they_may_leave() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        std::fs::create_dir_all(at("real/deep")).unwrap();
        std::fs::write(at("page"), "").unwrap();
        std::fs::write(at("real/deep/page"), "").unwrap();
        link(&outside.path().join("secret"), "out");
        link(outside.path(), "away");
        link(&at("page"), "in");
        link(Path::new("page"), "beside");
        link(&at("real"), "also");
        link(Path::new("loop"), "loop");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for (path, there, followed) in [
            ("", true, true),
            ("page", true, true),
            ("in", true, true),
            ("beside", true, true),
            ("real", true, true),
            ("real/deep/page", true, true),
            ("also/deep/page", true, true),
            ("out", false, true),
            ("away", false, true),
            ("away/secret", false, true),
            ("none", false, false),
            ("page/below", false, false),
            ("loop", false, false),
            ("pipe", false, false),
        ] {
            for (follow, expected) in [(false, there), (true, followed)] {
                let root = Root::new(root.path(), follow).unwrap();
                // The second time it is at hand.
                assert_eq!(is_there(&root, path).await, expected, "{path}, followed: {follow}");
                assert_eq!(is_there(&root, path).await, expected, "{path} again, followed: {follow}");
                assert_eq!(root.open_on_disk(Path::new(path)).is_ok(), expected, "{path} on disk");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_opened_lately_is_at_hand() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("page"), "here").unwrap();
        let root = Root::new(directory.path(), false).unwrap();
        root.open_on_disk(Path::new("page")).unwrap();
        assert!(matches!(root.open_at_hand(Path::new("page")), Some(Ok(Place::File(..)))));
        assert!(matches!(root.open_at_hand(Path::new("")), Some(Ok(Place::Directory))));
    }

    #[tokio::test]
    async fn a_directory_that_takes_the_place_of_the_root_is_shown() {
        let parent = tempfile::tempdir().unwrap();
        let at = parent.path().join("root");
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("old"), "").unwrap();
        let root = Root::new(&at, false).unwrap();
        assert!(is_there(&root, "old").await);
        std::fs::rename(&at, parent.path().join("away")).unwrap();
        assert!(!is_there(&root, "old").await);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("new"), "").unwrap();
        assert!(is_there(&root, "new").await && !is_there(&root, "old").await);
    }

    /// As a new version of a site is shown in one step: its link takes the place of the old one.
    #[tokio::test]
    async fn a_root_that_is_a_link_is_where_it_leads_now() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let lead = |to: &str| {
            std::os::unix::fs::symlink(to, at("next")).unwrap();
            std::fs::rename(at("next"), at("current")).unwrap();
        };
        for version in ["old", "new"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join(version), "").unwrap();
        }
        lead("old");
        let root = Root::new(&at("current"), false).unwrap();
        assert!(is_there(&root, "old").await && !is_there(&root, "new").await);
        lead("new");
        assert!(!is_there(&root, "old").await && is_there(&root, "new").await);
    }

    #[test]
    fn a_directory_that_may_not_be_entered_is_no_root() {
        use std::os::unix::fs::PermissionsExt as _;
        if rustix::process::geteuid().is_root() {
            return eprintln!("skipped: root may enter every directory");
        }
        let root = tempfile::tempdir().unwrap();
        let may = |mode| {
            std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        may(0o600);
        assert_eq!(Root::new(root.path(), false).unwrap_err().kind(), ErrorKind::PermissionDenied);
        may(0o100);
        assert!(Root::new(root.path(), false).is_ok(), "nobody asks what is in it");
        may(0o700);
    }

    #[test]
    fn a_file_is_no_root() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Root::new(file.path(), false).unwrap_err().kind(), ErrorKind::NotADirectory);
    }
}
