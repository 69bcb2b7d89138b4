//! The files of a directory.

mod body;
mod codings;
mod conditions;
mod memory;
mod open;
mod shown;

use std::{
    borrow::Cow,
    fs::{File, Metadata},
    io::{Error, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use headers::HeaderMap;
use http_body_util::Either;
use hyper::{
    Method, Response, StatusCode, Uri,
    header::{ALLOW, HeaderValue, LOCATION, RANGE},
};
use percent_encoding::percent_decode_str;
use rustix::io::Errno;
use tokio::time::Instant;
use tracing::warn;

use self::{
    body::{Content, FileBody, read_all},
    codings::{Coding, preferred},
    memory::{Known, Recalled},
    open::{Place, Root},
    shown::{Shown, Text},
};
pub(super) use self::{
    codings::takes_gzip,
    conditions::weaken,
    memory::{Figures, Memory, State},
};
use super::{
    gzip::{is_short_text, pack_all},
    site::{SiteBody, busy, text},
};
use crate::accounts;

/// The one hidden directory that is there (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// What stands for its directory.
const INDEX: &str = "index.html";
/// Answers requests for files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    root: Root,
    memory: Arc<Memory>,
}

/// A file, or words.
pub(super) type FilesBody = Either<FileBody, SiteBody>;

/// What a request may be answered with: a file below the root, as it is or in a coding.
struct Name {
    /// In Unicode, and without NUL.
    file: PathBuf,
    coding: Option<Coding>,
}

/// What is at a name.
enum Found {
    File(Arc<Shown>),
    /// A directory was asked for as if it was a file.
    Directory,
    /// There may be something, but the system cannot say now.
    Unreadable(Error),
}

impl Name {
    /// Where it is below the root.
    fn path(&self) -> Cow<'_, Path> {
        let Some(coding) = self.coding else { return Cow::Borrowed(&self.file) };
        let mut path = self.file.as_os_str().to_owned();
        path.push(coding.ending);
        Cow::Owned(path.into())
    }

    /// What tells it from others, also from a file that is asked for by the name of the coded one.
    fn key(&self) -> Cow<'_, str> {
        let file = self.file.to_string_lossy();
        match self.coding {
            Some(coding) => Cow::Owned(format!("{file}\0{}", coding.ending)),
            None => file,
        }
    }

    /// The kind of the contents, which a coding does not change.
    fn kind(&self) -> HeaderValue {
        let kind = mime_guess::from_path(&self.file).first_or_octet_stream();
        let kind = kind.essence_str();
        // Browsers take what says nothing for the coding of a Western office of 1995.
        let charset = if kind.starts_with("text/") { "; charset=utf-8" } else { "" };
        HeaderValue::try_from(format!("{kind}{charset}")).expect("kinds are tokens and a slash")
    }
}

impl Files {
    /// The files of the directory at `root`, and what is in memory of them. Links that lead out of it
    /// are followed only on demand.
    ///
    /// # Errors
    /// If it is no directory, or what is in it cannot be looked up.
    pub(super) fn new(root: &Path, follow_symlinks: bool, memory: Arc<Memory>) -> std::io::Result<Self> {
        Ok(Self { root: Root::new(root, follow_symlinks)?, memory })
    }

    /// The answer to a request, to HEAD as to GET: who sends it leaves the body out.
    pub(super) async fn answer(&self, method: &Method, uri: &Uri, fields: &HeaderMap) -> Response<FilesBody> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "Files can be read only.\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused.map(Either::Right);
        }
        let mut fields = Cow::Borrowed(fields);
        // Ranges are for GET alone (RFC 9110 section 14.2).
        if *method == Method::HEAD && fields.contains_key(RANGE) {
            fields.to_mut().remove(RANGE);
        }
        match self.find(uri.path(), &fields).await {
            Some(Found::File(shown)) => self.carry(&shown, &fields).map(Either::Left),
            Some(Found::Directory) => redirect(uri).map(Either::Right),
            Some(Found::Unreadable(error)) => unreadable(&error).map(Either::Right),
            None => text(StatusCode::NOT_FOUND, "There is no such page.\n").map(Either::Right),
        }
    }

    /// The answer with a file. A short text in memory is compressed once for all who take that.
    fn carry(&self, shown: &Shown, fields: &HeaderMap) -> Response<FileBody> {
        let response = shown.answer(fields);
        let is_whole = response.status() == StatusCode::OK;
        match shown.text() {
            Some(text) if is_whole && takes_gzip(fields) => {
                let packed =
                    self.memory.pack(&text.name, text.state, Instant::now(), || pack_all(&text.bytes));
                packed.map_or(response, |packed| shown.carry_packed(packed))
            }
            _ => response,
        }
    }

    /// What answers a request for this path.
    async fn find(&self, path: &str, fields: &HeaderMap) -> Option<Found> {
        let mut file = relative(path)?;
        // A name that ends so is no file's.
        let names_directory = path.ends_with('/');
        if names_directory {
            file.push(INDEX);
        }
        let mut name = Name { file, coding: None };
        let found = match self.at(&name).await? {
            Found::Directory if names_directory => return None,
            Found::File(shown) => Found::File(shown),
            other => return Some(other),
        };
        for coding in preferred(fields) {
            name.coding = Some(coding);
            if let Some(Found::File(shown)) = self.at(&name).await {
                return Some(Found::File(shown));
            }
        }
        Some(found)
    }

    /// What is at a name: as it is known, if it still is so, or as it is found now.
    async fn at(&self, name: &Name) -> Option<Found> {
        let (key, path) = (name.key(), name.path());
        // What is learned from here on is no older.
        let now = Instant::now();
        if let Some(known) = self.recall(&key, &path, now) {
            let Known::File(_, shown) = known else { return None };
            self.memory.on_found();
            return Some(Found::File(shown));
        }
        match self.root.open(&path).await {
            Ok(Place::File(file, metadata)) => {
                Some(Found::File(self.show(name, &key, file, &metadata, now).await))
            }
            Ok(Place::Directory) => {
                self.memory.forget(&key);
                Some(Found::Directory)
            }
            // Who asks for what is not there fills no memory: only what files might have is kept.
            Err(error) if error.kind() == ErrorKind::NotFound && name.coding.is_some() => {
                self.memory.keep(&key, Known::Nothing, now);
                None
            }
            Err(error) => {
                self.memory.forget(&key);
                (!is_absence(&error)).then_some(Found::Unreadable(error))
            }
        }
    }

    /// What is in memory of a path, if it still is so.
    fn recall(&self, key: &str, path: &Path, now: Instant) -> Option<Known> {
        let Recalled { known, is_fresh } = self.memory.recall(key, now)?;
        if !is_fresh {
            let still = match (self.root.look(path), &known) {
                (Ok(file), Known::File(state, _)) => State::of(&file) == *state,
                (Err(error), Known::Nothing) => error.kind() == ErrorKind::NotFound,
                _ => false,
            };
            if !still {
                return None;
            }
            self.memory.confirm(key, &known, now);
        }
        Some(known)
    }

    /// A file that was opened, which may be known already, or kept from now on.
    async fn show(
        &self,
        name: &Name,
        key: &str,
        file: File,
        metadata: &Metadata,
        asked: Instant,
    ) -> Arc<Shown> {
        let state = State::of(metadata);
        if let Some(shown) = self.memory.renew(key, state, asked) {
            self.memory.on_found();
            return shown;
        }
        self.memory.on_opened();
        let file = Arc::new(file);
        let bytes =
            if self.memory.may_keep(&state, accounts::now()) { read(&file, &state).await } else { None };
        let (is_kept, kind) = (bytes.is_some(), name.kind());
        let packs = |bytes: &&Bytes| name.coding.is_none() && is_short_text(&kind, bytes.len() as u64);
        let text = bytes.as_ref().filter(packs).map(|bytes| {
            // No file's name, nor that of a coded one.
            Text { name: format!("{key}\0gzip").into(), state, bytes: bytes.clone() }
        });
        let content = bytes.map_or(Content::File(file, state), Content::Bytes);
        let coding = name.coding.map(|coding| coding.name);
        let shown = Arc::new(Shown::new(content, metadata, kind, coding, text));
        if is_kept {
            return self.memory.share(key, state, shown, asked);
        }
        self.memory.forget(key);
        shown
    }
}

/// All of a file, if it was in this state before and after.
async fn read(file: &Arc<File>, state: &State) -> Option<Bytes> {
    let bytes = read_all(file, usize::try_from(state.len()).ok()?).await.ok()?;
    let unchanged = bytes.len() as u64 == state.len() && State::of(&file.metadata().ok()?) == *state;
    unchanged.then_some(bytes)
}

/// Whether an error says that nothing is there that may be shown; any other is ours, and passes.
fn is_absence(error: &Error) -> bool {
    let of_kind = matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename
    );
    // Links in a circle, sockets, and devices that are not there.
    let others = [Errno::LOOP, Errno::NXIO, Errno::NODEV].map(Errno::raw_os_error);
    of_kind || error.raw_os_error().is_some_and(|error| others.contains(&error))
}

/// The answer where the system cannot say what is there: not that there is nothing, which caches and
/// search engines would believe.
fn unreadable(error: &Error) -> Response<SiteBody> {
    warn!(%error, "a file cannot be read");
    busy(error).unwrap_or_else(|| text(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be read.\n"))
}

/// Sends a browser to the directory's own name, below which its links are right.
fn redirect(uri: &Uri) -> Response<SiteBody> {
    // With two slashes the first name would be a host's.
    let path = uri.path().trim_start_matches('/');
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut response = text(StatusCode::TEMPORARY_REDIRECT, "It is a directory.\n");
    if let Ok(location) = HeaderValue::try_from(format!("/{path}/{query}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
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
    use std::{io::Read as _, os::unix::fs::symlink, time::Duration};

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt as _;
    use hyper::header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
        IF_NONE_MATCH, RETRY_AFTER, VARY,
    };

    use super::{memory::Limits, *};

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

    #[test]
    fn what_the_system_cannot_say_is_not_missing() {
        for absent in
            [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::NAMETOOLONG, Errno::LOOP, Errno::NXIO]
        {
            assert!(is_absence(&absent.into()), "{absent}");
        }
        for (error, status) in [
            (Errno::MFILE, StatusCode::SERVICE_UNAVAILABLE),
            (Errno::NFILE, StatusCode::SERVICE_UNAVAILABLE),
            (Errno::NOMEM, StatusCode::SERVICE_UNAVAILABLE),
            (Errno::IO, StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            assert!(!is_absence(&error.into()), "{error}");
            let answer = unreadable(&error.into());
            assert_eq!(answer.status(), status, "{error}");
            assert_eq!(answer.headers().contains_key(RETRY_AFTER), status == StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    fn site() -> (tempfile::TempDir, Files) {
        let root = tempfile::tempdir().unwrap();
        let outside = std::fs::canonicalize(std::env::current_exe().unwrap()).unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("dir")).unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        for (name, words) in [
            ("page.html", "a page"),
            ("page.html.gz", "gzip"),
            ("page.html.br", "brotli"),
            ("dir/index.html", "index"),
            ("data", "0123456789"),
        ] {
            std::fs::write(at(name), words).unwrap();
        }
        symlink(&outside, at("data.gz")).unwrap();
        symlink(&outside, at("empty/index.html")).unwrap();
        // Of a test nobody waits until its files are settled.
        let limits = Limits { settled: Duration::ZERO, ..Limits::default() };
        let files = Files::new(root.path(), false, Arc::new(Memory::new(limits))).unwrap();
        (root, files)
    }

    /// Changes a file until the file system's clock tells it from what it was before.
    fn edit(path: &Path, words: &str) {
        let state = || std::fs::metadata(path).map(|file| State::of(&file)).ok();
        let before = state();
        while state() == before {
            std::fs::write(path, words).unwrap();
        }
    }

    async fn ask(files: &Files, method: Method, path: &str, fields: HeaderMap) -> (Response<()>, String) {
        let answer = files.answer(&method, &path.parse().unwrap(), &fields).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(parts, ()), String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(files: &Files, path: &str, takes: &'static str) -> (StatusCode, String) {
        let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(takes))]);
        let (answer, body) = ask(files, Method::GET, path, fields).await;
        (answer.status(), body)
    }

    #[tokio::test]
    async fn what_is_stored_in_a_coding_is_sent_to_who_takes_it() {
        let (_root, files) = site();
        for (path, takes, words) in [
            ("/page.html", "", "a page"),
            ("/page.html", "gzip", "gzip"),
            ("/page.html", "gzip, br", "brotli"),
            ("/dir/", "gzip, br", "index"),
            ("/data", "gzip", "0123456789"),
        ] {
            assert_eq!(get(&files, path, takes).await, (StatusCode::OK, words.into()), "{path} {takes}");
        }
        for path in ["/none", "/empty/", "/data/", "/.git", "/data.gz"] {
            assert_eq!(get(&files, path, "").await.0, StatusCode::NOT_FOUND, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_changed_shows_at_once() {
        let (root, files) = site();
        let at = |name: &str| root.path().join(name);
        let shows = async |path: &str, takes, words: &str| {
            tokio::time::advance(Limits::default().looked).await;
            let expected = if words.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
            let (status, body) = get(&files, path, takes).await;
            assert_eq!(status, expected, "{path}");
            assert!(words.is_empty() || body == words, "{path}: {body}");
        };
        let from_memory = || files.memory.figures().found;
        shows("/data", "", "0123456789").await;
        assert_eq!(from_memory(), 0);
        shows("/data", "", "0123456789").await;
        assert_eq!(from_memory(), 1);
        edit(&at("data"), "9876543210");
        shows("/data", "", "9876543210").await;
        assert_eq!(from_memory(), 1, "it was edited");
        std::fs::write(at("other"), "other data").unwrap();
        std::fs::rename(at("other"), at("data")).unwrap();
        shows("/data", "", "other data").await;
        assert_eq!(from_memory(), 1, "it was replaced");
        shows("/data", "", "other data").await;
        assert_eq!(from_memory(), 2);
        std::fs::remove_file(at("data")).unwrap();
        shows("/data", "", "").await;
        symlink(std::env::current_exe().unwrap(), at("data")).unwrap();
        shows("/data", "", "").await;

        shows("/dir/", "br", "index").await;
        std::fs::write(at("dir/index.html.br"), "brotli").unwrap();
        shows("/dir/", "br", "brotli").await;
        shows("/dir/index.html.br", "", "brotli").await;
        std::fs::remove_file(at("dir/index.html.br")).unwrap();
        shows("/dir/", "br", "index").await;
        shows("/dir/index.html.br", "", "").await;
        assert!(files.memory.figures().bytes > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_is_asked_once_in_a_millisecond() {
        let (root, files) = site();
        let shows = async |words: &str| {
            assert_eq!(get(&files, "/data", "").await, (StatusCode::OK, words.into()));
        };
        shows("0123456789").await;
        edit(&root.path().join("data"), "9876543210");
        shows("0123456789").await;
        tokio::time::advance(Limits::default().looked).await;
        for _ in 0..2 {
            shows("9876543210").await;
        }
        // Asked for again and again, it is no older.
        let half = Limits::default().looked / 2;
        edit(&root.path().join("data"), "0123456789");
        tokio::time::advance(half).await;
        shows("9876543210").await;
        tokio::time::advance(half).await;
        shows("0123456789").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_now_is_a_link_that_leads_out_is_soon_not_shown() {
        let (root, files) = site();
        let outside = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
        for _ in 0..2 {
            assert_eq!(get(&files, "/dir/", "").await.0, StatusCode::OK);
        }
        std::fs::rename(root.path().join("dir"), outside.path().join("dir")).unwrap();
        symlink(outside.path().join("dir"), root.path().join("dir")).unwrap();
        tokio::time::advance(Limits::default().walked).await;
        assert_eq!(get(&files, "/dir/", "").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_text_is_compressed_once() {
        let (root, files) = site();
        let fields = || HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let ask = async |fields: HeaderMap| {
            let answer = files.answer(&Method::GET, &"/style.css".parse().unwrap(), &fields).await;
            let (parts, body) = answer.into_parts();
            (parts, body.collect().await.unwrap().to_bytes())
        };
        for (words, times) in [("a { color: red } ", 1), ("b { color: blue } ", 2)] {
            let words = words.repeat(50);
            edit(&root.path().join("style.css"), &words);
            tokio::time::advance(Limits::default().looked).await;
            for _ in 0..3 {
                let (answer, packed) = ask(fields()).await;
                let said = &answer.headers;
                assert_eq!(said[CONTENT_ENCODING], "gzip");
                assert_eq!(said[VARY], "accept-encoding");
                assert_eq!(said[CONTENT_LENGTH], packed.len().to_string());
                assert!(said[ETAG].as_bytes().starts_with(b"W/") && !said.contains_key(ACCEPT_RANGES));
                let mut unpacked = String::new();
                GzDecoder::new(&*packed).read_to_string(&mut unpacked).unwrap();
                assert!(unpacked == words && packed.len() < words.len());
            }
            assert_eq!(files.memory.figures().packed, times);
            assert_eq!(get(&files, "/style.css", "").await, (StatusCode::OK, words.clone()));
            let mut part = fields();
            part.insert(RANGE, HeaderValue::from_static("bytes=2-8"));
            let (answer, body) = ask(part).await;
            assert_eq!((answer.status, &*body), (StatusCode::PARTIAL_CONTENT, &words.as_bytes()[2..9]));
        }
    }

    #[tokio::test]
    async fn the_answer_is_the_same_from_memory_and_from_disk() {
        let (_root, kept) = site();
        let none = Memory::new(Limits { file: 0, ..Limits::default() });
        let opened = Files { memory: Arc::new(none), ..kept.clone() };
        for range in ["bytes=0-", "bytes=3-5", "bytes=-4", "bytes=10-", "bytes=0-0,5-5", "pages=1"] {
            let fields = || HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]);
            for _ in 0..2 {
                let (one, its) = ask(&kept, Method::GET, "/data", fields()).await;
                let (other, also) = ask(&opened, Method::GET, "/data", fields()).await;
                assert_eq!((one.status(), one.headers(), its), (other.status(), other.headers(), also));
            }
        }
        assert!(kept.memory.figures().found > 0);
        assert_eq!((opened.memory.figures().found, opened.memory.figures().names), (0, 0));
    }

    #[tokio::test]
    async fn a_directory_has_a_slash() {
        let (_root, files) = site();
        for (asked, location) in [("/dir", "/dir/"), ("//dir?a=b", "/dir/?a=b"), ("/%64ir", "/%64ir/")] {
            let (answer, _) = ask(&files, Method::GET, asked, HeaderMap::new()).await;
            assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
            assert_eq!(answer.headers()[LOCATION], location);
        }
    }

    #[tokio::test]
    async fn a_response_says_what_it_carries() {
        let (_root, files) = site();
        let (whole, body) = ask(&files, Method::GET, "/data", HeaderMap::new()).await;
        assert_eq!((whole.headers()[CONTENT_LENGTH].as_bytes(), &*body), (&b"10"[..], "0123456789"));
        assert_eq!(whole.headers()[CONTENT_TYPE], "application/octet-stream");
        let (page, _) = ask(&files, Method::GET, "/page.html", HeaderMap::new()).await;
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let (head, _) = ask(&files, Method::HEAD, "/data", HeaderMap::new()).await;
        assert_eq!(head.headers(), whole.headers());
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, whole.headers()[ETAG].clone())]);
        let (same, body) = ask(&files, Method::GET, "/data", known).await;
        assert_eq!((same.status(), &*body), (StatusCode::NOT_MODIFIED, ""));
        assert_eq!(same.headers()[ETAG], whole.headers()[ETAG]);
        let range = |range| HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]);
        let (part, body) = ask(&files, Method::GET, "/data", range("bytes=3-5")).await;
        assert_eq!((part.status(), &*body), (StatusCode::PARTIAL_CONTENT, "345"));
        assert_eq!(part.headers()[CONTENT_RANGE], "bytes 3-5/10");
        assert_eq!(part.headers()[CONTENT_LENGTH], "3");
        let (beyond, body) = ask(&files, Method::GET, "/data", range("bytes=10-")).await;
        assert_eq!((beyond.status(), &*body), (StatusCode::RANGE_NOT_SATISFIABLE, ""));
        assert_eq!(beyond.headers()[CONTENT_RANGE], "bytes */10");
        let (head, _) = ask(&files, Method::HEAD, "/data", range("bytes=3-5")).await;
        assert_eq!((head.status(), head.headers()), (StatusCode::OK, whole.headers()));
        let (refused, _) = ask(&files, Method::POST, "/data", HeaderMap::new()).await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[ALLOW], "GET, HEAD");
    }
}
