//! Doors for fuzz targets (`fuzz/`): the front ends on any stream, as far as they understand a request. Not part of the
//! interface; nothing else may use it.

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

/// A request to the HTTP proxy.
#[derive(Debug)]
pub struct HttpRequest {
    /// Where to connect.
    pub target: Target,
    /// The head for the origin server; `None` for CONNECT.
    pub rewritten: Option<Vec<u8>>,
    /// Whether it may use the proxy.
    pub authorized: bool,
    /// What came after the head.
    pub rest: Vec<u8>,
}

/// What the HTTP proxy makes of a program's first bytes; the error is the status code of its answer, `None` if there is none.
pub async fn http_request(
    mut stream: impl AsyncRead + Unpin,
    credentials: &Credentials,
) -> Result<HttpRequest, Option<u16>> {
    http::understand(&mut stream, credentials).await
}
