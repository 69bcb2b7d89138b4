//! `--admin`: what connections are doing, as JSON and for Prometheus; `docs/json.md` describes the
//! fields; and a page that shows them live. Here is what client and server have in common: a small
//! HTTP server on loopback, the page, and the counters.

mod body;
mod metrics;
mod page;

pub(crate) use metrics::{METRICS_KIND, Metric, encode_counters, encode_workers, metrics_text, sentence};

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
        X_CONTENT_TYPE_OPTIONS,
    },
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::TcpStream;

use self::body::{Body, Watch};
use crate::{
    failure::Failure,
    listener::{Listener, Place},
    status::{Feed, MAX_VIEWERS},
};

/// For a program to ask, and to read the answer.
const TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEAD: usize = 8 * 1024;

/// Binds the address; loopback only, since everybody may read there.
pub(crate) async fn bind(address: Option<SocketAddr>) -> Result<Option<Listener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    if !address.ip().is_loopback() {
        return Err(Failure::usage(
            format!("refusing to show statistics on {address}"),
            "they need no password, so that everybody who reaches that address could read them",
            format!("Use --admin 127.0.0.1:{}", address.port()),
        ));
    }
    Listener::bind(address, "statistics", "--admin").await.map(Some)
}

/// What is answered.
pub(crate) enum Answer {
    /// Code, content type and body.
    Text(u16, &'static str, String),
    /// A snapshot once a second, for as long as somebody reads.
    Events(Arc<Feed>),
}

/// Answers one request: with the page, or with what `answer` says about its path; it says nothing
/// about paths that do not exist.
pub(crate) async fn serve(
    tcp: TcpStream,
    place: Place,
    usage: &str,
    answer: impl Fn(&str) -> Option<Answer>,
) {
    let watch = Watch::new(2 * TIMEOUT);
    let (place, answer, watching) = (&place, &answer, &watch);
    let service = service_fn(move |request: Request<Incoming>| async move {
        let refusal = |code| Answer::Text(code, "text/plain", format!("mendpath: {usage}\n"));
        let answer = match (check(&request), request.uri().path()) {
            (Ok(()), path) => {
                place.occupy().await;
                match path {
                    "/" => Answer::Text(200, "text/html", page::PAGE.clone()),
                    path => answer(path).unwrap_or_else(|| refusal(404)),
                }
            }
            (Err(code), _) => refusal(code),
        };
        Ok::<_, Infallible>(respond(answer, request.method() == Method::HEAD, watching))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(tcp), service);
    tokio::select! {
        _ = connection => {}
        // A program that asks and does not read is no reason to keep the answer.
        () = watch.stalled() => {}
    }
}

fn respond(answer: Answer, head_only: bool, watch: &Watch) -> Response<Body> {
    let (code, kind, body) = match answer {
        Answer::Text(code, kind, text) => (code, kind, Body::Text(Some(text.into()))),
        Answer::Events(_) if head_only => (200, "text/event-stream", Body::Text(None)),
        Answer::Events(feed) => match feed.watch() {
            Some(viewer) => (200, "text/event-stream", Body::Events(viewer, watch.clone())),
            None => {
                let text = format!("mendpath: {MAX_VIEWERS} are watching already: close one of them\n");
                (503, "text/plain", Body::Text(Some(text.into())))
            }
        },
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = HeaderValue::try_from(format!("{kind}; charset=utf-8")).expect("kinds are ours");
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(CONTENT_SECURITY_POLICY, page::POLICY.clone());
    for (name, value) in page::PROTECTION {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if code == 405 {
        fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// An answer in JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    Answer::Text(200, "application/json", text)
}

/// Whether a program on this machine asks, and not a page from elsewhere in its browser.
///
/// # Errors
/// The code to refuse it with.
fn check<B>(request: &Request<B>) -> Result<(), u16> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(405);
    }
    // RFC 9112 section 3.2: exactly one. A page must not read this through a name that it makes
    // resolve to loopback.
    let host = only(request.headers(), &HOST).filter(|host| is_loopback_name(host)).ok_or(400_u16)?;
    if request.uri().authority().is_some() {
        return Err(400);
    }
    let is_ours = |origin: &HeaderValue| {
        origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host))
    };
    let is_near = |site: &HeaderValue| site == "same-origin" || site == "none";
    let site = HeaderName::from_static("sec-fetch-site");
    let foreign = request.headers().get_all(ORIGIN).iter().any(|origin| !is_ours(origin))
        || request.headers().get_all(site).iter().any(|site| !is_near(site));
    if foreign { Err(403) } else { Ok(()) }
}

/// The value of a field that is there once.
fn only<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = fields.get_all(name).iter();
    let value = all.next()?;
    if all.next().is_some() { None } else { value.to_str().ok() }
}

fn is_loopback_name(host: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
        None => name.parse::<Ipv4Addr>().map(IpAddr::from).ok(),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<(), u16> {
        let request = Request::builder().method(method).uri(uri);
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        check(&request.body(()).unwrap())
    }

    #[test]
    fn only_loopback_names_are_answered() {
        let host = |host: &str| ask("GET", "/paths", &[("host", host)]);
        for near in [
            "localhost",
            "LocalHost:9",
            "127.0.0.1:9",
            "127.0.0.1",
            "127.1.2.3",
            "[::1]:9",
            "[::1]",
            "localhost:",
        ] {
            assert_eq!(host(near), Ok(()), "{near}");
        }
        for far in [
            "rebound.example:9",
            "localhost.example",
            "192.0.2.1",
            "[2001:db8::1]",
            "::1",
            "",
            "127.0.0.1:9:9",
            "user@localhost",
            "127.0.0.1:x",
        ] {
            assert_eq!(host(far), Err(400), "{far}");
        }
    }

    #[test]
    fn exactly_one_host() {
        assert_eq!(ask("GET", "/paths", &[]), Err(400));
        assert_eq!(ask("GET", "/paths", &[("host", "localhost"), ("host", "localhost")]), Err(400));
        assert_eq!(ask("GET", "/paths", &[("host", "localhost"), ("host", "rebound.example")]), Err(400));
        assert_eq!(ask("GET", "http://rebound.example/paths", &[("host", "localhost")]), Err(400));
    }

    #[test]
    fn pages_from_elsewhere_are_refused() {
        let with = |name, value| ask("GET", "/paths", &[("host", "127.0.0.1:9"), (name, value)]);
        assert_eq!(with("origin", "http://127.0.0.1:9"), Ok(()));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:10", "https://127.0.0.1:9", ""] {
            assert_eq!(with("origin", origin), Err(403), "{origin}");
        }
        for site in ["none", "same-origin"] {
            assert_eq!(with("sec-fetch-site", site), Ok(()), "{site}");
        }
        for site in ["cross-site", "same-site", "new"] {
            assert_eq!(with("sec-fetch-site", site), Err(403), "{site}");
        }
        assert_eq!(ask("HEAD", "/paths", &[("host", "localhost")]), Ok(()));
        for method in ["POST", "OPTIONS", "DELETE", "PUT"] {
            assert_eq!(ask(method, "/paths", &[("host", "localhost")]), Err(405), "{method}");
        }
    }
}
