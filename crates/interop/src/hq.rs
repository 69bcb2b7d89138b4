//! The protocol `hq-interop`: a request line, and where in a directory it leads.

use std::path::{Component, Path, PathBuf};

use mendpath::VarInt;

/// Its name in TLS (RFC 7301).
pub(crate) const ALPN: &[u8] = b"hq-interop";

/// Longest request line, in bytes.
pub(crate) const MAX_REQUEST: usize = 4_096;

/// Code of RESET_STREAM for a request that cannot be answered: there is no such file, or it is no
/// request.
pub(crate) const NO_ANSWER: VarInt = VarInt::from_u32(1);

/// The request for a path, which begins with a slash.
pub(crate) fn request(path: &str) -> String {
    format!("GET {path}\r\n")
}

/// The file below `root` that a request asks for; `None` if it is no request, or leads elsewhere.
pub(crate) fn file(root: &Path, request: &[u8]) -> Option<PathBuf> {
    let line = std::str::from_utf8(request).ok()?;
    let path = line.strip_prefix("GET /")?.trim_end_matches(['\r', '\n']);
    let inside = |component| matches!(component, Component::Normal(_));
    if path.is_empty() || path.contains(['\0', '\\', '\r', '\n']) || !Path::new(path).components().all(inside)
    {
        return None;
    }
    // A link may lead out as well as a name.
    let root = root.canonicalize().ok()?;
    let file = root.join(path).canonicalize().ok()?;
    (file.starts_with(&root) && file.is_file()).then_some(file)
}

/// The name under which a client keeps what it fetched: the path's last part, if that is a name.
pub(crate) fn name(path: &str) -> Option<&str> {
    Path::new(path).file_name()?.to_str().filter(|name| !name.contains(['\0', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_leads_to_a_file_below_the_root_and_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(directory.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("sub/file"), "f").unwrap();
        let found = file(&root, b"GET /sub/file\r\n").unwrap();
        assert_eq!(std::fs::read(found).unwrap(), b"f");
        assert!(file(&root, b"GET /sub/file").is_some(), "some clients send no line end");
        for bad in [
            "GET /../secret\r\n",
            "GET /sub/../../secret\r\n",
            "GET //etc/passwd\r\n",
            "GET /\r\n",
            "GET /sub\r\n",
            "GET /sub\\file\r\n",
            "GET /nothing\r\n",
            "GET sub/file\r\n",
            "PUT /sub/file\r\n",
            "GET /sub/file\0\r\n",
            "",
        ] {
            assert_eq!(file(&root, bad.as_bytes()), None, "{bad:?}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(directory.path().join("secret"), root.join("link")).unwrap();
            assert_eq!(file(&root, b"GET /link\r\n"), None, "a link out of the root");
        }
    }

    #[test]
    fn a_path_gives_a_file_name() {
        assert_eq!(name("/a/b"), Some("b"));
        assert_eq!(name("/"), None);
        assert_eq!(name("/.."), None);
        assert_eq!(name("/a\\b"), None);
    }
}
