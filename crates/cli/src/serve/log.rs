//! The access log: a line for each request, written when its response is over.

mod writer;

use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Method, Request, StatusCode, Uri, Version,
    body::{Body, Frame, SizeHint},
};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use tokio::time::{Instant, timeout};

use self::writer::Writer;
use super::{Statistics, site::BoxError};
use crate::{
    accounts::now,
    failure::{Failure, io_reason},
};

/// How long the last lines may take to be written.
const LAST: Duration = Duration::from_secs(2);
/// The longest path in a line, in bytes: thousands of lines may wait to be written.
const LONGEST_PATH: usize = 4 << 10;
/// The same of a method, which by HTTP/1.1 may be as long as all fields of a request; those that there are have
/// less.
const LONGEST_METHOD: usize = 32;
/// Stands for the rest of either.
const CUT: &str = "...";
/// The status of a request whose client went away before its answer began, as other servers note it.
const GIVEN_UP: u16 = 499;

/// Where lines go.
#[derive(Clone)]
pub(super) struct AccessLog(Option<Writer>);

impl AccessLog {
    /// Opens the file, which grows; `-` is stdout. Lines that cannot be written count in the `statistics`.
    pub(super) fn open(file: Option<&Path>, statistics: &Statistics) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(Self(None)) };
        let failed = |error: std::io::Error| {
            let tried = format!("cannot write the access log {}", file.display());
            Failure::new(tried, io_reason(&error), "Name another file with --access-log")
        };
        let name = file.to_owned();
        let open = move || -> std::io::Result<Box<dyn Write + Send>> {
            if name == Path::new("-") {
                return Ok(Box::new(std::io::stdout()));
            }
            Ok(Box::new(File::options().append(true).create(true).open(&name)?))
        };
        let lines = statistics.lost_lines();
        let lost = move || _ = lines.fetch_add(1, Ordering::Relaxed);
        Ok(Self(Some(Writer::new(open, lost).map_err(failed)?)))
    }

    /// Opens the file again for the lines from here on: somebody may have moved it away.
    pub(super) async fn reopen(&self) {
        if let Some(writer) = &self.0 {
            writer.reopen().await;
        }
    }

    /// Waits until the lines so far are written, unless nobody takes them.
    pub(super) async fn flush(&self) {
        if let Some(writer) = &self.0 {
            let _ = timeout(LAST, writer.flush()).await;
        }
    }
}

/// A request, which is noted when this is dropped: at the end of its response, or when it is given up
/// before.
pub(super) struct Entry {
    log: AccessLog,
    statistics: Arc<Statistics>,
    from: SocketAddr,
    version: Version,
    method: Method,
    /// For a log that is open.
    path: String,
    began: Instant,
    status: StatusCode,
    sent: u64,
}

impl Entry {
    pub(super) fn new<B>(
        log: AccessLog,
        statistics: Arc<Statistics>,
        request: &Request<B>,
        from: SocketAddr,
    ) -> Self {
        let path = if log.0.is_some() { path(request) } else { String::new() };
        Self {
            log,
            statistics,
            from,
            version: request.version(),
            method: request.method().clone(),
            path,
            began: Instant::now(),
            status: StatusCode::from_u16(GIVEN_UP).expect("it has three digits"),
            sent: 0,
        }
    }

    /// A request that nobody could read.
    pub(super) fn unread(
        log: AccessLog,
        statistics: Arc<Statistics>,
        version: Version,
        from: SocketAddr,
    ) -> Self {
        let mut unread = Request::new(());
        *unread.version_mut() = version;
        *unread.method_mut() = Method::from_bytes(b"-").expect("it is a token");
        *unread.uri_mut() = Uri::from_static("-");
        Self::new(log, statistics, &unread, from)
    }

    /// It was answered so, by whoever tried to read it.
    pub(super) fn refused(mut self, status: StatusCode) {
        self.status = status;
    }

    /// Whether the answer has no body whatever its fields say.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }
}

/// The path in one word of ASCII, or its beginning. A URI holds neither spaces nor control characters.
fn path<B>(request: &Request<B>) -> String {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    if path.is_empty() {
        return "-".to_owned();
    }
    let mut word = utf8_percent_encode(path, CONTROLS).to_string();
    if word.len() > LONGEST_PATH {
        word.truncate(LONGEST_PATH);
        word.push_str(CUT);
        word.shrink_to_fit();
    }
    word
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Self { log, statistics, from, version, method, path, began, status, sent } = self;
        statistics.on_response(*version, *status, *sent);
        let Some(writer) = &log.0 else { return };
        let time = humantime::format_rfc3339_millis(now());
        let took = began.elapsed().as_millis();
        let (from, status) = (from.ip(), status.as_u16());
        let method = method.as_str();
        let is_long = method.len() > LONGEST_METHOD;
        // It is of ASCII.
        let (method, cut) = if is_long { (&method[..LONGEST_METHOD], CUT) } else { (method, "") };
        if !writer.write(format!("{time} {from} {version:?} {method}{cut} {path} {status} {sent} {took}\n")) {
            statistics.on_lost_line();
        }
    }
}

/// A response's body, if it has one, that is noted when it is over.
pub(super) struct Logged<B> {
    body: Option<B>,
    entry: Entry,
}

impl<B> Logged<B> {
    pub(super) fn new(body: Option<B>, status: StatusCode, mut entry: Entry) -> Self {
        entry.status = status;
        Self { body, entry }
    }
}

impl<B> Body for Logged<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.entry.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use mendpath::Endpoint;

    use super::*;

    fn statistics() -> Arc<Statistics> {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let hosts = ["tcp", "quic"].map(|transport| crate::serve::hosts::Hosts::new(transport, 1));
        Statistics::new(endpoint, Arc::default(), hosts)
    }

    #[test]
    fn a_path_is_one_word_of_ascii() {
        for (uri, word) in [
            ("/a?b=c", "/a?b=c"),
            ("/%C3%A4", "/%C3%A4"),
            ("/\u{e4}\u{202e}", "/%C3%A4%E2%80%AE"),
            ("localhost:443", "-"),
        ] {
            assert_eq!(path(&Request::get(uri).body(()).unwrap()), word);
        }
        let long = Request::get(format!("/{}", "\u{e4}".repeat(5_000))).body(()).unwrap();
        let word = path(&long);
        assert!(word.starts_with("/%C3%A4") && word.ends_with("...") && word.len() == LONGEST_PATH + 3);
    }

    #[tokio::test]
    async fn a_file_that_was_moved_away_keeps_the_lines_of_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (file, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let statistics = statistics();
        let log = AccessLog::open(Some(&file), &statistics).unwrap();
        let note = |path: &str| {
            let request = Request::get(path).body(()).unwrap();
            drop(Entry::new(log.clone(), statistics.clone(), &request, "192.0.2.7:1".parse().unwrap()));
        };
        note("/before");
        log.flush().await;
        std::fs::rename(&file, &moved).unwrap();
        note("/meanwhile");
        log.reopen().await;
        note("/after");
        log.flush().await;
        let paths = |file| {
            let lines = std::fs::read_to_string(file).unwrap();
            lines.lines().map(|line| line.split(' ').nth(4).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&moved), ["/before", "/meanwhile"]);
        assert_eq!(paths(&file), ["/after"]);
    }

    #[tokio::test]
    async fn a_request_has_a_line_whether_it_is_answered_or_given_up() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let statistics = statistics();
        let log = AccessLog::open(Some(file.path()), &statistics).unwrap();
        let request = Request::get("/page").body(()).unwrap();
        let entry = || Entry::new(log.clone(), statistics.clone(), &request, "192.0.2.7:1".parse().unwrap());
        drop(Logged::<String>::new(None, StatusCode::NOT_FOUND, entry()));
        drop(entry());
        let long = Request::builder().method(&*"M".repeat(60_000)).uri("/page").body(()).unwrap();
        drop(Entry::new(log.clone(), statistics.clone(), &long, "192.0.2.7:1".parse().unwrap()));
        log.flush().await;
        let lines = std::fs::read_to_string(file.path()).unwrap();
        let statuses: Vec<_> = lines.lines().map(|line| line.split(' ').nth(5).unwrap()).collect();
        assert_eq!(statuses, ["404", "499", "499"], "{lines}");
        assert!(lines.contains(" 192.0.2.7 HTTP/1.1 GET /page 404 0 "), "{lines}");
        assert!(lines.contains(&format!(" {}... /page 499 ", "M".repeat(LONGEST_METHOD))), "{lines}");
    }
}
