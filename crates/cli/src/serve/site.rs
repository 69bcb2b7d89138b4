//! What is answered, whatever the protocol.

use std::{
    cell::RefCell,
    convert::Infallible,
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Version,
    body::Body,
    header::{ALT_SVC, CONTENT_TYPE, DATE, HeaderValue, LINK, RETRY_AFTER},
};
use mendpath_h3::{EarlyData, Interim};
use rustix::io::Errno;
use tokio::signal::unix::Signal;
use tower::Service;

use super::{
    Content, ServeOptions, Statistics,
    files::{Files, Memory, takes_gzip},
    gzip::Packer,
    host::has_host,
    log::{AccessLog, Entry, Logged},
    proxy::Backend,
};
use crate::{
    accounts::{moment, now},
    descriptors,
    failure::{Failure, io_reason},
};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;
pub(super) type SiteBody = UnsyncBoxBody<Bytes, BoxError>;

/// A response under way.
pub(super) type Answer = Pin<Box<dyn Future<Output = Response<SiteBody>> + Send>>;

/// How long browsers remember that HTTP/3 is there, in seconds.
const REMEMBER: u32 = 86_400;
/// When a client may ask again where something is scarce, in seconds.
const SOON: &str = "1";

/// Answers requests.
pub(super) struct Site {
    source: Source,
    /// What is said before pages of files.
    hints: HeaderMap,
    log: AccessLog,
    /// Where HTTP/3 is (RFC 7838).
    alternative: HeaderValue,
    statistics: Arc<Statistics>,
}

enum Source {
    Files(Files, Packer),
    Backend(Box<Backend>),
}

impl Site {
    pub(super) fn new(
        options: &ServeOptions,
        port: u16,
        statistics: Arc<Statistics>,
        memory: Arc<Memory>,
    ) -> Result<Self, Failure> {
        let source = match &options.content {
            Content::Files { root, follow_symlinks } => {
                let files = Files::new(root, *follow_symlinks, memory).map_err(|error| {
                    let tried = format!("cannot serve {}", root.display());
                    let next = "Name a directory that this user may enter with --root";
                    Failure::new(tried, io_reason(&error), next)
                })?;
                Source::Files(files, Packer::default())
            }
            Content::Proxy(url) => Source::Backend(Box::new(Backend::new(url.clone()))),
        };
        let hints = options.hints.iter().map(|link| (LINK, link.clone())).collect();
        let log = AccessLog::open(options.access_log.as_deref(), &statistics)?;
        let alternative = HeaderValue::try_from(format!("h3=\":{port}\"; ma={REMEMBER}"));
        let alternative = alternative.expect("digits and quotes");
        Ok(Self { source, hints, log, alternative, statistics })
    }

    /// What the server does.
    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The service for a client by HTTP/3.
    pub(super) fn for_http3(self: &Arc<Self>, from: SocketAddr) -> ForHttp3 {
        ForHttp3 { site: self.clone(), from }
    }

    /// Opens the access log again at each of these signals.
    pub(super) async fn reopen_log_at(&self, mut signal: Option<Signal>) -> Infallible {
        while let Some(signal) = &mut signal {
            signal.recv().await;
            self.log.reopen().await;
        }
        std::future::pending().await
    }

    /// Waits until the access log is written.
    pub(super) async fn flush(&self) {
        self.log.flush().await;
    }

    fn enter<B>(&self, request: &Request<B>, from: SocketAddr) -> Entry {
        Entry::new(self.log.clone(), self.statistics.clone(), request, from)
    }

    /// What those are told who do not come by it.
    fn alternative_for(&self, version: Version) -> Option<HeaderValue> {
        (version < Version::HTTP_3).then(|| self.alternative.clone())
    }

    /// Answers a request that is not looked at any further.
    pub(super) fn refuse<B>(
        &self,
        request: &Request<B>,
        from: SocketAddr,
        refusal: Response<SiteBody>,
    ) -> Answer {
        let entry = self.enter(request, from);
        let alternative = self.alternative_for(request.version());
        Box::pin(std::future::ready(finish(refusal, alternative, entry)))
    }

    /// Notes a request that was refused before anybody could read it.
    pub(super) fn note_refusal(&self, version: Version, from: SocketAddr, status: StatusCode) {
        Entry::unread(self.log.clone(), self.statistics.clone(), version, from).refused(status);
    }

    /// Says what pages need, if the request is for one that somebody opens, and not for a part of it.
    fn hint<B>(&self, request: &Request<B>) {
        let opens = || request.headers().get("sec-fetch-dest").is_some_and(|dest| dest == "document");
        if self.hints.is_empty() || request.method() != Method::GET || !opens() {
            return;
        }
        // By HTTP/1.1 there are none.
        if let Some(interim) = request.extensions().get::<Interim>() {
            interim.send(StatusCode::EARLY_HINTS, self.hints.clone());
        }
    }

    /// Answers one request.
    pub(super) fn answer<B>(&self, request: Request<B>, from: SocketAddr) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let entry = self.enter(&request, from);
        let alternative = self.alternative_for(request.version());
        let early = request.extensions().get::<EarlyData>().is_some();
        match &self.source {
            _ if !has_host(&request) => {
                let refused =
                    text(StatusCode::BAD_REQUEST, "The request does not say which host it is for.\n");
                Box::pin(std::future::ready(finish(refused, alternative, entry)))
            }
            // It may be a replay, and the browser asks again once the handshake is complete.
            _ if early && !request.method().is_safe() => {
                let too_early = StatusCode::from_u16(425).expect("Too Early, RFC 8470");
                let refused = text(too_early, "Not before the handshake is complete.\n");
                Box::pin(std::future::ready(finish(refused, alternative, entry)))
            }
            Source::Backend(backend) => {
                let answer = backend.answer(request.map(boxed), from);
                Box::pin(async move { finish(answer.await, alternative, entry) })
            }
            Source::Files(files, packer) => {
                self.hint(&request);
                // Nobody reads a body for a file.
                let (asked, _) = request.into_parts();
                let (files, packer) = (files.clone(), packer.clone());
                Box::pin(async move {
                    let response = files.answer(&asked.method, &asked.uri, &asked.headers).await;
                    let packed = packer.pack(response, || takes_gzip(&asked.headers));
                    finish(packed, alternative, entry)
                })
            }
        }
    }
}

thread_local! {
    /// A second since 1970, the last in which somebody asked, and how it is said.
    static SAID: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
}

/// The time of day as `Date` has it, which is put into words once a second.
fn date() -> Option<HeaderValue> {
    let now = now();
    let second = now.duration_since(moment(0)).ok()?.as_secs();
    SAID.with_borrow_mut(|said| {
        if let Some((at, date)) = said
            && *at == second
        {
            return Some(date.clone());
        }
        let date = HeaderValue::try_from(httpdate::fmt_http_date(now)).ok()?;
        *said = Some((second, date.clone()));
        Some(date)
    })
}

/// What every response has, and its line in the log.
fn finish<B>(mut response: Response<B>, alternative: Option<HeaderValue>, entry: Entry) -> Response<SiteBody>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let fields = response.headers_mut();
    if !fields.contains_key(DATE)
        && let Some(date) = date()
    {
        fields.insert(DATE, date);
    }
    if let Some(alternative) = alternative
        && !fields.contains_key(ALT_SVC)
    {
        fields.insert(ALT_SVC, alternative);
    }
    let status = response.status();
    let bodiless = entry.is_head();
    response.map(|body| {
        // Not every protocol's server leaves it out by itself.
        Logged::new((!bodiless).then_some(body), status, entry).boxed_unsync()
    })
}

/// An answer in words.
pub(super) fn text(status: StatusCode, words: &'static str) -> Response<SiteBody> {
    let body = Full::new(Bytes::from_static(words.as_bytes())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The answer if an error comes from what is scarce at the moment: open files, or memory.
pub(super) fn busy(error: &io::Error) -> Option<Response<SiteBody>> {
    descriptors::tell_of_shortage(error, "browsers have to ask again");
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).filter(|error| scarce.contains(error)).map(|_| {
        let mut response = text(StatusCode::SERVICE_UNAVAILABLE, "The server is busy.\n");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(SOON));
        response
    })
}

/// A request's body in the form that the site takes.
pub(super) fn boxed<B>(body: B) -> SiteBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// The site for one client by HTTP/3.
#[derive(Clone)]
pub(super) struct ForHttp3 {
    site: Arc<Site>,
    from: SocketAddr,
}

impl Service<Request<mendpath_h3::Body>> for ForHttp3 {
    type Response = Response<SiteBody>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<mendpath_h3::Body>) -> Answered {
        *request.version_mut() = Version::HTTP_3;
        Answered(self.site.answer(request, self.from))
    }
}

/// An answer, as services give it.
pub(super) struct Answered(Answer);

impl Future for Answered {
    type Output = Result<Response<SiteBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_moment() {
        let words = || httpdate::fmt_http_date(now());
        for _ in 0..2 {
            let (before, said, after) = (words(), date().unwrap(), words());
            assert!(said == before || said == after, "{before}, {said:?}, {after}");
        }
    }
}
