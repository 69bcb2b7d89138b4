//! `--admin`: what connections are doing, as JSON and for Prometheus; `docs/json.md` describes the fields. Here is what client and
//! server have in common: a small HTTP server on loopback, and the counters.

use std::{net::SocketAddr, time::Duration};

use mendpath::{ConnectionStats, RecoveryReasons};
use serde::{Serialize, Serializer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{failure::Failure, listener::Listener};

/// For a program to ask.
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

/// Code, content type and body.
pub(crate) type Answer = (u16, &'static str, String);

/// Answers one request with what `answer` says about its path; it says nothing about paths that do not exist.
pub(crate) async fn serve(mut tcp: TcpStream, usage: &str, answer: impl FnOnce(&str) -> Option<Answer>) {
    let request = tokio::time::timeout(TIMEOUT, read_request(&mut tcp)).await.ok().flatten();
    let refusal = |code| (code, "text/plain", format!("mendpath: {usage}\n"));
    let (code, kind, body) = match request {
        Some(Asked::Path(path)) => answer(&path).unwrap_or_else(|| refusal(404)),
        Some(Asked::Strangely) | None => refusal(400),
    };
    let reason = if code == 200 { "OK" } else { "Error" };
    let response = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = tcp.write_all(response.as_bytes()).await;
    let _ = tcp.shutdown().await;
}

/// An answer in JSON.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    (200, "application/json", serde_json::to_string_pretty(value).unwrap_or_default() + "\n")
}

/// What `/stats` counts, of one connection or of several.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub(crate) struct Counters {
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) packets_lost: u64,
    pub(crate) stream_bytes_sent: u64,
    pub(crate) stream_bytes_received: u64,
    pub(crate) recovery_bytes_sent: u64,
    pub(crate) copies_sent: u64,
    pub(crate) late_copies_sent: u64,
    pub(crate) repair_sent: u64,
    pub(crate) repair_received: u64,
    pub(crate) repair_used: u64,
    pub(crate) repair_wasted: u64,
    pub(crate) packets_mended_here: u64,
    pub(crate) packets_mended_at_peer: u64,
    pub(crate) losses_mended: u64,
    pub(crate) datagrams_dropped: u64,
    #[serde(serialize_with = "by_name")]
    pub(crate) recovery_reasons: RecoveryReasons,
}

fn by_name<S: Serializer>(reasons: &RecoveryReasons, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(reasons.named())
}

impl From<&ConnectionStats> for Counters {
    fn from(stats: &ConnectionStats) -> Self {
        Self {
            bytes_sent: stats.bytes_sent,
            bytes_received: stats.bytes_received,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.packets_lost,
            stream_bytes_sent: stats.stream_bytes_sent,
            stream_bytes_received: stats.stream_bytes_received,
            recovery_bytes_sent: stats.recovery_bytes_sent,
            copies_sent: stats.copies_sent,
            late_copies_sent: stats.late_copies_sent,
            repair_sent: stats.repair_sent,
            repair_received: stats.repair_received,
            repair_used: stats.repair_used,
            repair_wasted: stats.repair_wasted,
            packets_mended_here: stats.packets_recovered,
            packets_mended_at_peer: stats.peer_recovered,
            losses_mended: stats.packets_mended,
            datagrams_dropped: stats.datagrams_dropped,
            recovery_reasons: stats.reasons,
        }
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.packets_lost += other.packets_lost;
        self.stream_bytes_sent += other.stream_bytes_sent;
        self.stream_bytes_received += other.stream_bytes_received;
        self.recovery_bytes_sent += other.recovery_bytes_sent;
        self.copies_sent += other.copies_sent;
        self.late_copies_sent += other.late_copies_sent;
        self.repair_sent += other.repair_sent;
        self.repair_received += other.repair_received;
        self.repair_used += other.repair_used;
        self.repair_wasted += other.repair_wasted;
        self.packets_mended_here += other.packets_mended_here;
        self.packets_mended_at_peer += other.packets_mended_at_peer;
        self.losses_mended += other.losses_mended;
        self.datagrams_dropped += other.datagrams_dropped;
        self.recovery_reasons += other.recovery_reasons;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Path(String),
    Strangely,
}

async fn read_request(tcp: &mut TcpStream) -> Option<Asked> {
    let mut buffer = Vec::with_capacity(1_024);
    while buffer.len() < MAX_HEAD && tcp.read_buf(&mut buffer).await.ok()? > 0 {
        if let Some(asked) = parse(&buffer) {
            return Some(asked);
        }
    }
    None
}

/// `None` while the request is incomplete.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Asked::Strangely),
    }
    // A web page elsewhere must not read this through a name that it makes resolve to loopback.
    let host = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
    let here = host.is_none_or(|host| str::from_utf8(host.value).is_ok_and(is_loopback_name));
    match (request.method, request.path) {
        (Some("GET"), Some(path)) if here => Some(Asked::Path(path.to_owned())),
        _ => Some(Asked::Strangely),
    }
}

fn is_loopback_name(host: &str) -> bool {
    let name = host.parse::<SocketAddr>().map_or_else(
        |_| host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned(),
        |address| address.ip().to_string(),
    );
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_answered() {
        let ask = |host: &str| parse(format!("GET /paths HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        for host in ["localhost", "localhost:9", "127.0.0.1:9", "127.0.0.1", "[::1]:9"] {
            assert_eq!(ask(host), Some(Asked::Path("/paths".into())), "{host}");
        }
        assert_eq!(ask("rebound.example:9"), Some(Asked::Strangely));
        assert_eq!(parse(b"POST / HTTP/1.1\r\n\r\n"), Some(Asked::Strangely));
        assert_eq!(parse(b"GET /paths HTTP/1.1\r\n"), None);
    }
}
