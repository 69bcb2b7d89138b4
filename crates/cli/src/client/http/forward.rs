//! A plain `http://` request on its way to its origin server, and the response on its way back.

use std::sync::Mutex;

use hyper::{
    Method, Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    ext::on_informational,
    header::{ALLOW, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE},
    http::request::Parts,
};
use tokio::sync::oneshot;
use tracing::debug;

use super::{
    Answer, Far, Proxy, Tunnel,
    body::{Download, Upload},
    closing,
    head::{Framing, Head},
    origin::{self, Unanswered},
    refused,
    visit::Turn,
    words,
};
use crate::{
    client::tunnel,
    hop_by_hop,
    status::{Outcome, Protocol, Timed},
    target::Target,
};

/// The usual methods that are forwarded, as unusual ones are.
const FORWARDED: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

/// A request as the origin server is to see it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) parts: Parts,
    /// The program sends its body only when it is asked to.
    pub(super) expects: bool,
    /// The protocol it would like to go on with.
    upgrade: Option<HeaderValue>,
}

/// A request that the proxy answers itself.
#[derive(Debug)]
pub(super) enum Answered {
    /// `Expect` with something unknown (RFC 9110 section 10.1.1).
    Expectation,
    /// It would send back to the program what browsers hide from scripts.
    Trace,
    /// `Max-Forwards: 0` (RFC 9110 section 7.6.2).
    Options,
}

/// Rewrites a request for its origin server.
pub(super) fn rewrite(head: &Head, path: Uri, mut parts: Parts) -> Result<Outgoing, Answered> {
    let fields = &mut parts.headers;
    if parts.method == Method::TRACE {
        return Err(Answered::Trace);
    }
    if parts.method == Method::OPTIONS && !hop_by_hop::may_go_on(fields) {
        return Err(Answered::Options);
    }
    let has_body = head.body != Framing::Length(0);
    let expects = match fields.get(EXPECT).map(HeaderValue::as_bytes) {
        // RFC 9110 section 10.1.1: without a body, and in HTTP/1.0, it means nothing.
        _ if !has_body || parts.version < Version::HTTP_11 => {
            fields.remove(EXPECT);
            false
        }
        None => false,
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => true,
        Some(_) => return Err(Answered::Expectation),
    };
    let upgrade = head.upgrades.then(|| fields.get(UPGRADE).cloned()).flatten();
    hop_by_hop::strip(fields);
    match head.body {
        // Said in so many words, since hyper lets GET have no body otherwise.
        Framing::Chunked => _ = fields.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
        // Connection may have named it.
        Framing::Length(length) if length > 0 => _ = fields.insert(CONTENT_LENGTH, length.into()),
        Framing::Length(_) => {}
    }
    if let Some(protocol) = &upgrade {
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(UPGRADE, protocol.clone());
    }
    // RFC 9112 section 3.2.2: whatever Host said, the target counts.
    let host = host_field(&head.target);
    fields.insert(HOST, HeaderValue::from_str(&host).expect("hosts are letters, digits and punctuation"));
    (parts.uri, parts.version) = (path, Version::HTTP_11);
    Ok(Outgoing { parts, expects, upgrade })
}

fn host_field(target: &Target) -> String {
    if target.port == 80 { target.host.to_string() } else { target.to_string() }
}

impl Answered {
    fn words(&self, turn: Turn) -> Answer {
        let turn = Some(turn);
        match self {
            Self::Expectation => {
                closing(words(417, "The only expectation this proxy knows is 100-continue.", turn))
            }
            Self::Trace => {
                let mut answer = closing(words(405, "TRACE is not forwarded.", turn));
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static(FORWARDED));
                answer
            }
            Self::Options => words(200, "This is a proxy for CONNECT and plain http:// requests.", turn),
        }
    }
}

impl Proxy {
    pub(super) async fn forward(
        &self,
        head: Head,
        path: Uri,
        request: Request<Incoming>,
        turn: Turn,
    ) -> Answer {
        let (parts, body) = request.into_parts();
        let Outgoing { parts, expects, upgrade } = match rewrite(&head, path, parts) {
            Ok(outgoing) => outgoing,
            Err(answered) => return answered.words(turn),
        };
        let can_repeat = head.body == Framing::Length(0)
            && upgrade.is_none()
            && matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let again = can_repeat.then(|| {
            let parts = parts.clone();
            move || Request::from_parts(parts.clone(), Upload::none())
        });
        let (permit, granted) = oneshot::channel();
        let mut request = Request::from_parts(parts, Upload::new(body, expects.then_some(granted)));
        if expects {
            let permit = Mutex::new(Some(permit));
            on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    let permit = permit.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                    permit.map(|permit| permit.send(()));
                }
            });
        }
        let mut timed = Timed::new(self.shared.uplink.live(), Protocol::Http);
        let asked = origin::ask(&self.origins, &self.shared.uplink, &head.target, request, again).await;
        let (response, lease) = match asked {
            Ok(answered) => answered,
            Err(error) => {
                if let Unanswered::Refused(_) = &error {
                    timed.ends(Outcome::Refused);
                }
                return self.unanswered(&head.target, error, turn);
            }
        };
        if let Some(reason) = distrust(&response, upgrade.is_some()) {
            debug!(target = %head.target, reason, "the origin server's response is not passed on");
            return words(502, reason, Some(turn));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(head.target, response, turn, timed);
        }
        let (mut parts, body) = response.into_parts();
        hop_by_hop::strip(&mut parts.headers);
        hop_by_hop::say_length_once(&mut parts.headers);
        parts.version = Version::HTTP_11;
        Response::from_parts(parts, Download::relayed(body, lease, turn, timed))
    }

    /// The origin server agrees to another protocol (RFC 9110 section 7.8), with which the request goes on.
    fn switch(&self, target: Target, mut response: Response<Incoming>, turn: Turn, timed: Timed) -> Answer {
        let origin = hyper::upgrade::on(&mut response);
        let (mut parts, _) = response.into_parts();
        let protocol = parts.headers.get(UPGRADE).cloned();
        hop_by_hop::strip(&mut parts.headers);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        protocol.and_then(|protocol| parts.headers.insert(UPGRADE, protocol));
        self.become_tunnel(Tunnel { far: Far::Origin(target, origin, timed), _turn: turn });
        Response::from_parts(parts, Download::words("", None))
    }

    fn unanswered(&self, target: &Target, error: Unanswered, turn: Turn) -> Answer {
        if self.visit.is_malformed() {
            return closing(words(400, "The body of the request is not well-formed.", Some(turn)));
        }
        if self.visit.is_cut() && matches!(error, Unanswered::Broken(_)) {
            // RFC 9112 section 8: an incomplete request, whatever its origin server made of that.
            return closing(words(400, "The body of the request is incomplete.", Some(turn)));
        }
        match error {
            Unanswered::Refused(reply) => refused(&reply, turn),
            Unanswered::Lost => refused(&tunnel::lost(), turn),
            Unanswered::Broken(error) => {
                debug!(%target, %error, "no response");
                words(502, &format!("{target} sent no response that could be understood."), Some(turn))
            }
        }
    }
}

/// Why a response is not passed on, if it is not.
fn distrust(response: &Response<Incoming>, may_switch: bool) -> Option<&'static str> {
    let fields = response.headers();
    let mut encodings = fields.get_all(TRANSFER_ENCODING).iter();
    let encoding = encodings.next().map(HeaderValue::as_bytes);
    if encoding.is_some() && fields.contains_key(CONTENT_LENGTH) {
        // RFC 9112 section 6.3: somebody may want it to be read in two ways.
        return Some("The origin server's response has two lengths.");
    }
    if encodings.next().is_some()
        || encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"chunked"))
    {
        return Some("The origin server uses a transfer encoding that nobody asked for.");
    }
    match response.status() {
        // It would have the program show its password for this proxy.
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Some("The origin server asks for a proxy's password."),
        StatusCode::SWITCHING_PROTOCOLS if !may_switch => {
            Some("The origin server switches to a protocol that nobody asked for.")
        }
        _ => None,
    }
}
