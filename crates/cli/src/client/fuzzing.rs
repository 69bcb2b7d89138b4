//! Doors for fuzz targets (`fuzz/`): the front ends on any stream, as far as they understand a
//! request. Not part of the interface; nothing else may use it.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Credentials, http, socks5, socks5_udp};
use crate::{protocol::Packet, target::Target};

/// What SOCKS5 makes of a program's first bytes: where it wants to go; `None` if it is refused.
pub async fn socks5_target(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    credentials: Option<&Credentials>,
) -> Option<Target> {
    let (_, _, address) = socks5::greet(stream, credentials).await.ok()?;
    socks5::target_of(address)
}

/// A UDP packet of a SOCKS5 program without its header.
pub async fn socks5_unwrap(datagram: &[u8]) -> Option<Packet> {
    socks5_udp::unwrap(datagram).await
}

/// A UDP packet for a SOCKS5 program.
pub fn socks5_wrap(packet: &Packet) -> Option<Vec<u8>> {
    socks5_udp::wrap(packet)
}

/// A request to the HTTP proxy that is not refused.
#[derive(Debug)]
pub struct HttpRequest {
    /// Where to connect.
    pub target: Target,
    /// The head for the origin server; `None` for CONNECT and for what the proxy answers itself.
    pub rewritten: Option<Vec<u8>>,
    /// Whether it may use the proxy.
    pub authorized: bool,
    /// Its body; `None` if it is cut or malformed.
    pub body: Option<Vec<u8>>,
}

/// What the HTTP proxy makes of what a program sends: its requests, and the status codes of those
/// that are refused.
///
/// # Panics
/// When hyper finds another request where ours was judged.
pub async fn http_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    credentials: &Credentials,
) -> Vec<Result<HttpRequest, u16>> {
    http::understand(stream, credentials.clone()).await
}
