//! WebSockets on their way to a server behind (RFC 6455), by the Upgrade of HTTP/1.1: what both say
//! after it is carried as it is.

use hyper::{
    HeaderMap, Request, Response, Version,
    body::Incoming,
    header::{CONNECTION, HeaderValue, UPGRADE},
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use tracing::debug;

use super::{
    site::{SiteBody, boxed},
    tcp::Upgraded,
};
use crate::hop_by_hop::strip;

/// The protocol.
const WEBSOCKET: &str = "websocket";

/// A client that wants to speak it.
pub(super) struct WebSocket {
    client: OnUpgrade,
    upgraded: Upgraded,
}

impl WebSocket {
    /// If the request asks for it; browsers do so by HTTP/1.1, unless a server says that it takes
    /// them otherwise.
    pub(super) fn of(request: &mut Request<SiteBody>) -> Option<Self> {
        let asked = request.version() == Version::HTTP_11 && asks(request.headers());
        let upgraded = request.extensions().get::<Upgraded>().cloned()?;
        asked.then(|| Self { client: on(request), upgraded })
    }

    /// The server behind agrees: so do we, and carry what follows.
    pub(super) fn switch(self, mut response: Response<Incoming>) -> Response<SiteBody> {
        let server = on(&mut response);
        let Self { client, upgraded } = self;
        upgraded.leave(async move {
            let (client, server) = match tokio::try_join!(client, server) {
                Ok(both) => both,
                Err(error) => return debug!(%error, "no WebSocket"),
            };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            let carried = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            debug!(?carried, "a WebSocket has ended");
        });
        strip(response.headers_mut());
        keep_upgrade(response.headers_mut());
        response.map(boxed)
    }
}

fn asks(fields: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        let values = fields.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, WEBSOCKET)
}

/// Fields of the connection that are meant for the other side as well.
pub(super) fn keep_upgrade(fields: &mut HeaderMap) {
    fields.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    fields.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
}
