//! Which file a path may name.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// The one hidden directory that is there (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// What is sent instead of a file or a directory, which must be allowed as well.
const INSTEAD: [&str; 2] = [".gz", ".br"];
/// What stands for its directory.
const INDEX: &str = "index.html";

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

    /// Whether nothing that may be sent for this path lies elsewhere. Only what is a link, or below
    /// one, has to be followed to know; there are none on the way to most files.
    fn holds_all(&self, relative: &Path) -> bool {
        let mut file = self.root.clone();
        let (above, name) = (relative.parent().unwrap_or(relative), relative.file_name());
        for part in above {
            file.push(part);
            match Kind::of(&file) {
                Kind::Link => return self.really_holds_all(&self.root.join(relative)),
                Kind::Directory => {}
                Kind::Other => return true,
            }
        }
        file.extend(name);
        let unlinked = |base: &Path| INSTEAD.iter().all(|ending| Kind::of(&with(base, ending)) != Kind::Link);
        let is_simple = unlinked(&file)
            && match Kind::of(&file) {
                Kind::Link => false,
                Kind::Other => true,
                Kind::Directory => {
                    let index = file.join(INDEX);
                    Kind::of(&index) != Kind::Link && unlinked(&index)
                }
            };
        is_simple || self.really_holds_all(&file)
    }

    /// The same by following whatever links there are.
    fn really_holds_all(&self, file: &Path) -> bool {
        let all =
            |base: &Path| self.holds(base) && INSTEAD.iter().all(|ending| self.holds(&with(base, ending)));
        all(file) && all(&file.join(INDEX))
    }

    fn holds(&self, file: &Path) -> bool {
        file.canonicalize().map_or(true, |real| real.starts_with(&self.root))
    }
}

/// What stands at a place, links not followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Link,
    Directory,
    /// A file, or nothing at all: nothing is below it.
    Other,
}

impl Kind {
    fn of(place: &Path) -> Self {
        match place.symlink_metadata() {
            Ok(found) if found.is_symlink() => Self::Link,
            Ok(found) if found.is_dir() => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// The file's name with this ending.
fn with(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
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
        for dir in ["real", "real/deep", "gone"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join("real/deep/page"), "").unwrap();
        link(&root.path().join("real"), "also");
        link(&outside.path().join("secret"), "real/page.br");
        link(&outside.path().join("secret"), "gone/index.html.gz");
        let mut files = Files { root: root.path().canonicalize().unwrap(), follow_symlinks: false };
        for (path, allowed) in [
            ("/page", true),
            ("/in", true),
            ("/none", true),
            ("/out", false),
            ("/away/secret", false),
            ("/page2", false),
            ("/dir/", false),
            ("/gone/", false),
            ("/real/", true),
            ("/real/page", false),
            ("/real/deep/page", true),
            ("/also/deep/page", true),
            ("/also/page", false),
            ("/page/below", true),
            ("/none/page.gz", true),
        ] {
            assert_eq!(files.allow(path).await, allowed, "{path}");
        }
        files.follow_symlinks = true;
        assert!(files.allow("/out").await);
        assert!(!files.allow("/../out").await);
    }
}
