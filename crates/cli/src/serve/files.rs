//! The files of a directory.

mod body;
mod conditions;
mod open;

use std::{
    convert::Infallible,
    fs::{File, Metadata},
    future::Future,
    ops::Range,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use headers::{AcceptRanges, ContentLength, ContentRange, HeaderMap, HeaderMapExt as _};
use http_body_util::Either;
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    header::{
        ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION, VARY,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use percent_encoding::percent_decode_str;
use tower::Service;

use self::{
    body::FileBody,
    conditions::{Answer, Validators},
    open::{Place, Root},
};
use super::site::{SiteBody, text};

/// The one hidden directory that is there (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// What stands for its directory.
const INDEX: &str = "index.html";
/// How a file's name ends that is sent instead of another, and the coding; the better ones first.
const CODINGS: [(&str, &str); 2] = [(".br", "br"), (".gz", "gzip")];

/// Answers requests for files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    root: Root,
}

/// A file, or words.
pub(super) type FilesBody = Either<FileBody, SiteBody>;

/// A file that answers a request.
struct Found {
    file: File,
    metadata: Metadata,
    kind: HeaderValue,
    coding: Option<&'static str>,
}

impl Files {
    /// The files of the directory at `root`. Links that lead out of it are followed only on demand.
    ///
    /// # Errors
    /// If it is no directory, or cannot be read.
    pub(super) fn new(root: &Path, follow_symlinks: bool) -> std::io::Result<Self> {
        Ok(Self { root: Root::new(root, follow_symlinks)? })
    }

    /// The answer to a request, to HEAD as to GET: who sends it leaves the body out.
    async fn answer(&self, method: &Method, uri: &Uri, fields: &HeaderMap) -> Response<FilesBody> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "Files can be read only.\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused.map(Either::Right);
        }
        match self.find(uri.path(), fields).await {
            Some(Ok(found)) => found.answer(fields).map(Either::Left),
            Some(Err(Directory)) => redirect(uri).map(Either::Right),
            None => text(StatusCode::NOT_FOUND, "There is no such page.\n").map(Either::Right),
        }
    }

    /// The file that answers a request for this path; what is wrong with the disk is nobody's
    /// business.
    async fn find(&self, path: &str, fields: &HeaderMap) -> Option<Result<Found, Directory>> {
        let mut relative = relative(path)?;
        let mut place = self.root.open(&relative).await.ok()?;
        if path.ends_with('/') {
            // A name that ends so is no file's.
            let Place::Directory = place else { return None };
            relative.push(INDEX);
            place = self.root.open(&relative).await.ok()?;
        }
        let Place::File(file, metadata) = place else { return Some(Err(Directory)) };
        let kind = mime_guess::from_path(&relative).first_or_octet_stream();
        let kind = HeaderValue::try_from(kind.essence_str()).ok()?;
        for (ending, coding) in CODINGS {
            if takes(fields, coding)
                && let Ok(Place::File(file, metadata)) = self.root.open(&with(&relative, ending)).await
            {
                return Some(Ok(Found { file, metadata, kind, coding: Some(coding) }));
            }
        }
        Some(Ok(Found { file, metadata, kind, coding: None }))
    }
}

/// A directory was asked for as if it was a file.
struct Directory;

impl Found {
    fn answer(self, fields: &HeaderMap) -> Response<FileBody> {
        let len = self.metadata.len();
        let validators = Validators::new(&self.metadata);
        let answer = validators.answer(fields, len);
        let (status, sent) = match answer {
            Answer::Whole => (StatusCode::OK, 0..len),
            Answer::Part(ref part) => (StatusCode::PARTIAL_CONTENT, part.clone()),
            Answer::NotModified => (StatusCode::NOT_MODIFIED, 0..0),
            Answer::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, 0..0),
            Answer::NotSatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, 0..0),
        };
        let mut response = Response::new(FileBody::new(self.file, sent.clone()));
        *response.status_mut() = status;
        let said = response.headers_mut();
        if let Some(tag) = validators.tag {
            said.typed_insert(tag);
        }
        if let Some(modified) = validators.modified {
            said.typed_insert(modified);
        }
        said.insert(VARY, HeaderValue::from_static("accept-encoding"));
        said.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        match answer {
            Answer::Whole | Answer::Part(_) => {
                describe(said, &sent, self.kind, self.coding);
                if status == StatusCode::PARTIAL_CONTENT
                    && let Ok(range) = ContentRange::bytes(sent, len)
                {
                    said.typed_insert(range);
                }
            }
            Answer::NotSatisfiable => said.typed_insert(ContentRange::unsatisfied_bytes(len)),
            Answer::NotModified | Answer::PreconditionFailed => {}
        }
        response
    }
}

/// Says what a response carries.
fn describe(said: &mut HeaderMap, sent: &Range<u64>, kind: HeaderValue, coding: Option<&'static str>) {
    said.typed_insert(AcceptRanges::bytes());
    said.typed_insert(ContentLength(sent.end - sent.start));
    said.insert(CONTENT_TYPE, kind);
    if let Some(coding) = coding {
        said.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
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

/// Whether a client takes a coding (RFC 9110 section 12.5.3).
fn takes(fields: &HeaderMap, coding: &str) -> bool {
    let named = |name: &str| {
        let all = fields.get_all(ACCEPT_ENCODING).into_iter().filter_map(|field| field.to_str().ok());
        all.flat_map(|field| field.split(',')).find_map(|one| {
            let mut parts = one.split(';').map(str::trim);
            parts.next().is_some_and(|it| it.eq_ignore_ascii_case(name)).then(|| {
                let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
                weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
            })
        })
    };
    named(coding).or_else(|| named("*")).unwrap_or(false)
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

impl<B: Send + 'static> Service<Request<B>> for Files {
    type Response = Response<FilesBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let files = self.clone();
        // Nobody reads a body for a file.
        let (parts, _) = request.into_parts();
        Box::pin(async move { Ok(files.answer(&parts.method, &parts.uri, &parts.headers).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use http_body_util::BodyExt as _;
    use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_NONE_MATCH, RANGE};

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

    #[test]
    fn codings_are_taken_as_they_are_weighed() {
        let takes = |field: &'static str, coding| {
            takes(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(field))]), coding)
        };
        assert!(takes("gzip, deflate, br", "br") && takes("gzip;q=0.5", "gzip") && takes("GZIP", "gzip"));
        assert!(takes("*", "br") && takes("gzip;q=0, *", "br"));
        assert!(!takes("gzip;q=0, *", "gzip") && !takes("identity", "br") && !takes("br; q=0.0", "br"));
        assert!(!super::takes(&HeaderMap::new(), "gzip"));
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
        let files = Files::new(root.path(), false).unwrap();
        (root, files)
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
        let (refused, _) = ask(&files, Method::POST, "/data", HeaderMap::new()).await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[ALLOW], "GET, HEAD");
    }
}
