//! The access log: a line for each request, written when its response is over.

use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::{
    Method, StatusCode, Version,
    body::{Body, Frame, SizeHint},
};
use tokio::time::Instant;

use super::{Statistics, site::BoxError};
use crate::{
    accounts::now,
    failure::{Failure, io_reason},
};

/// Where lines go.
#[derive(Clone)]
pub(super) struct AccessLog(Option<Arc<Mutex<Box<dyn Write + Send>>>>);

impl AccessLog {
    /// Opens the file, which grows; `-` is stdout.
    pub(super) fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(Self(None)) };
        let out: Box<dyn Write + Send> = if file == Path::new("-") {
            Box::new(std::io::stdout())
        } else {
            let opened = File::options().append(true).create(true).open(file);
            Box::new(opened.map_err(|error| {
                let tried = format!("cannot write the access log {}", file.display());
                Failure::new(tried, io_reason(&error), "Name another file with --access-log")
            })?)
        };
        Ok(Self(Some(Arc::new(Mutex::new(out)))))
    }

    /// Whether lines are wanted.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// A full disk is no reason not to answer.
    fn write(&self, line: &str) {
        if let Some(out) = &self.0 {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// What is known of a request before it is answered.
pub(super) struct Entry {
    pub(super) log: AccessLog,
    pub(super) statistics: Arc<Statistics>,
    pub(super) from: SocketAddr,
    pub(super) version: Version,
    pub(super) method: Method,
    /// As it was sent, for a log that is open: a URI holds neither spaces nor control characters.
    pub(super) path: String,
    pub(super) began: Instant,
}

/// A response's body, if it has one, that is noted when it is over.
pub(super) struct Logged<B> {
    body: Option<B>,
    entry: Entry,
    status: StatusCode,
    sent: u64,
}

impl<B> Logged<B> {
    pub(super) fn new(body: Option<B>, status: StatusCode, entry: Entry) -> Self {
        Self { body, entry, status, sent: 0 }
    }
}

impl<B> Drop for Logged<B> {
    fn drop(&mut self) {
        let Entry { log, statistics, from, version, method, path, began } = &self.entry;
        statistics.on_response(*version, self.status, self.sent);
        if !log.is_open() {
            return;
        }
        let time = humantime::format_rfc3339_millis(now());
        let took = began.elapsed().as_millis();
        let (status, sent) = (self.status.as_u16(), self.sent);
        log.write(&format!("{time} {} {version:?} {method} {path} {status} {sent} {took}\n", from.ip()));
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
            self.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
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
