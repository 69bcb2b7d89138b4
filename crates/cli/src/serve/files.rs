//! Which file a path may name.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// The one hidden directory that is there (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// What is sent instead of a file or a directory, which must be allowed as well.
const INSTEAD: [&str; 2] = [".gz", ".br"];

/// Says what of a directory is shown.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Without links.
    pub(super) root: PathBuf,
    pub(super) follow_symlinks: bool,
}

impl Files {
    /// Whether the path of a request may be looked for: it stays within the root, also through
    /// links, and names nothing hidden. What does not exist may.
    pub(super) fn allow(&self, path: &str) -> impl Future<Output = bool> + Send + 'static {
        let (relative, files) = (relative(path), self.clone());
        async move {
            let Some(relative) = relative else { return false };
            if files.follow_symlinks {
                return true;
            }
            let looking = tokio::task::spawn_blocking(move || files.holds_all(&relative));
            looking.await.unwrap_or(false)
        }
    }

    /// Whether nothing that may be sent for this path lies elsewhere.
    fn holds_all(&self, relative: &Path) -> bool {
        let file = self.root.join(relative);
        let index = file.join("index.html");
        let beside = |base: &Path, ending: &str| {
            let mut name = base.as_os_str().to_owned();
            name.push(ending);
            self.holds(Path::new(&name))
        };
        [&file, &index]
            .iter()
            .all(|base| self.holds(base) && INSTEAD.iter().all(|ending| beside(base, ending)))
    }

    fn holds(&self, file: &Path) -> bool {
        file.canonicalize().map_or(true, |real| real.starts_with(&self.root))
    }
}

/// The path below the root; `None` if it names what is not shown.
fn relative(path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let shown = |part: &str| {
        let hidden = part.starts_with('.') && part != WELL_KNOWN;
        !hidden && !part.contains(['\\', '\0'])
    };
    let parts: Vec<_> = decoded.split('/').filter(|part| !part.is_empty()).collect();
    parts.iter().all(|part| shown(part)).then(|| parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_and_nothing_above() {
        for path in ["/", "/a/b.txt", "//a", "/a%20b", "/.well-known/acme-challenge/x", "/a..b", "/%C3%A4"] {
            assert!(relative(path).is_some(), "{path}");
        }
        for path in [
            "/..",
            "/../etc/passwd",
            "/%2e%2e/etc",
            "/a/%2E./b",
            "/.git/config",
            "/a/.env",
            "/..%2fetc",
            "/..%5cetc",
            "/%00",
            "/%ff",
        ] {
            assert!(relative(path).is_none(), "{path}");
        }
    }

    #[tokio::test]
    async fn links_stay_within_unless_they_may_leave() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        std::fs::create_dir(root.path().join("dir")).unwrap();
        std::fs::write(root.path().join("page"), "").unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.path().join(name)).unwrap();
        link(&outside.path().join("secret"), "out");
        link(outside.path(), "away");
        link(&root.path().join("page"), "in");
        link(&outside.path().join("secret"), "page2.gz");
        link(&outside.path().join("secret"), "dir/index.html");
        let mut files = Files { root: root.path().canonicalize().unwrap(), follow_symlinks: false };
        for (path, allowed) in [
            ("/page", true),
            ("/in", true),
            ("/none", true),
            ("/out", false),
            ("/away/secret", false),
            ("/page2", false),
            ("/dir/", false),
        ] {
            assert_eq!(files.allow(path).await, allowed, "{path}");
        }
        files.follow_symlinks = true;
        assert!(files.allow("/out").await);
        assert!(!files.allow("/../out").await);
    }
}
