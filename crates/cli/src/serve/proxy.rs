//! Requests for a server behind this one.

use std::{net::SocketAddr, time::Duration};

use hyper::{
    HeaderMap, Request, StatusCode, Uri, Version,
    ext::on_informational,
    header::{HOST, HeaderValue, LINK},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use mendpath_h3::{EarlyData, Interim};
use tracing::debug;

use super::site::{Answer, SiteBody, boxed, text};
use super::websocket::{WebSocket, keep_upgrade};
use crate::hop_by_hop::strip;

/// For a connection to the server behind.
const CONNECT: Duration = Duration::from_secs(5);
/// For it to begin its answer.
const ANSWER: Duration = Duration::from_secs(60);

/// The server behind, and connections to it.
pub(super) struct Backend {
    client: Client<HttpConnector, SiteBody>,
    url: Uri,
}

impl Backend {
    pub(super) fn new(url: Uri) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { client, url }
    }

    /// Asks it; its failures are answers as well.
    pub(super) fn answer(&self, mut request: Request<SiteBody>, from: SocketAddr) -> Answer {
        let socket = WebSocket::of(&mut request);
        let hints = request.extensions().get::<Interim>().cloned();
        let Some(mut request) = self.forward(request, from) else {
            let refusal = text(StatusCode::BAD_REQUEST, "This server does not understand the request.\n");
            return Box::pin(std::future::ready(refusal));
        };
        if socket.is_some() {
            keep_upgrade(request.headers_mut());
        }
        if let Some(hints) = hints {
            on_informational(&mut request, move |interim| {
                pass_on(interim.status(), interim.headers(), &hints)
            });
        }
        let asking = self.client.request(request);
        Box::pin(async move {
            match (tokio::time::timeout(ANSWER, asking).await, socket) {
                (Ok(Ok(response)), Some(socket)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    socket.switch(response)
                }
                // It was not asked to.
                (Ok(Ok(response)), None) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    text(StatusCode::BAD_GATEWAY, "The server behind this one does not answer.\n")
                }
                (Ok(Ok(mut response)), _) => {
                    strip(response.headers_mut());
                    *response.version_mut() = Version::default();
                    response.map(boxed)
                }
                (Ok(Err(error)), _) => {
                    debug!(%error, "the server behind does not answer");
                    text(StatusCode::BAD_GATEWAY, "The server behind this one does not answer.\n")
                }
                (Err(_), _) => {
                    text(StatusCode::GATEWAY_TIMEOUT, "The server behind this one takes too long.\n")
                }
            }
        })
    }

    fn forward(&self, mut request: Request<SiteBody>, from: SocketAddr) -> Option<Request<SiteBody>> {
        let host = match request.uri().authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => request.headers().get(HOST).cloned(),
        };
        let mut uri = self.url.clone().into_parts();
        uri.path_and_query = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from_parts(uri).ok()?;
        *request.version_mut() = Version::HTTP_11;
        let early = request.extensions().get::<EarlyData>().is_some();
        let fields = request.headers_mut();
        strip(fields);
        if early {
            fields.insert("early-data", HeaderValue::from_static("1"));
        }
        // What the client says of itself is not for it to say.
        fields.insert("x-forwarded-for", HeaderValue::from_str(&from.ip().to_string()).ok()?);
        fields.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        fields.remove("x-forwarded-host");
        fields.remove("forwarded");
        if let Some(host) = host {
            fields.insert("x-forwarded-host", host.clone());
            fields.insert(HOST, host);
        }
        Some(request)
    }
}

/// Hands early hints on to the browser (RFC 8297): their links, which is what they are for.
fn pass_on(status: StatusCode, fields: &HeaderMap, hints: &Interim) {
    if status.as_u16() == 103 {
        let links = fields.get_all(LINK).iter();
        hints.send(status, links.map(|link| (LINK, link.clone())).collect());
    }
}
