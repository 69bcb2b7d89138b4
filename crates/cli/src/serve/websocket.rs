//! WebSockets on their way to a server behind (RFC 6455), by the Upgrade of HTTP/1.1: what both say
//! after it is carried as it is.

use std::{io::Result, pin::pin, time::Duration};

use hyper::{
    HeaderMap, Request, Response, Version,
    body::Incoming,
    header::{CONNECTION, HeaderValue, UPGRADE},
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, split},
    time::timeout,
};
use tracing::debug;

use super::{
    site::{SiteBody, boxed},
    tcp::Upgraded,
};
use crate::hop_by_hop::strip;

/// For the other side to end once one has: neither has more to say that the first could answer, and a
/// connection that nobody ends keeps its seat.
const FAREWELL: Duration = Duration::from_secs(60);
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
            let carried = carry(TokioIo::new(client), TokioIo::new(server)).await;
            debug!(?carried, "a WebSocket has ended");
        });
        strip(response.headers_mut());
        keep_upgrade(response.headers_mut());
        response.map(boxed)
    }
}

/// Carries bytes both ways until both sides have ended, for which the second has [`FAREWELL`].
async fn carry<C, S>(client: C, server: S) -> Result<()>
where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    let (mut forth, mut back) = (pin!(pass(from_client, to_server)), pin!(pass(from_server, to_client)));
    tokio::select! {
        ended = &mut forth => {
            ended?;
            timeout(FAREWELL, back).await?
        }
        ended = &mut back => {
            ended?;
            timeout(FAREWELL, forth).await?
        }
    }
}

/// Carries bytes one way, and their end.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> Result<()> {
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::{
        io::{AsyncReadExt as _, duplex},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_end_when_the_other_has_is_not_waited_for_without_a_limit() {
        for client_ends in [true, false] {
            let ((client, its), (server, also)) = (duplex(100), duplex(100));
            let carrying = tokio::spawn(carry(its, also));
            let (mut ends, mut stays) = if client_ends { (client, server) } else { (server, client) };
            ends.write_all(b"bye").await.unwrap();
            ends.shutdown().await.unwrap();
            let mut heard = String::new();
            stays.read_to_string(&mut heard).await.unwrap();
            assert_eq!(heard, "bye", "and the end");
            // What it says meanwhile is heard.
            stays.write_all(b"what").await.unwrap();
            let begin = Instant::now();
            timeout(FAREWELL * 2, ends.read_to_string(&mut heard)).await.expect("an end").unwrap();
            assert_eq!((heard.as_str(), begin.elapsed() >= FAREWELL), ("byewhat", true));
            assert_eq!(carrying.await.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
        }
    }

    #[tokio::test]
    async fn both_may_end() {
        let ((mut client, its), (mut server, also)) = (duplex(100), duplex(100));
        let carrying = tokio::spawn(carry(its, also));
        for side in [&mut client, &mut server] {
            side.shutdown().await.unwrap();
        }
        carrying.await.unwrap().unwrap();
    }
}
