//! `--admin`: what the client's connection is doing, as JSON and for Prometheus; `docs/json.md` describes the fields.

use std::{fmt::Write as _, net::SocketAddr, sync::Arc};

use mendpath::{ConnectionStats, PathStats};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{HANDSHAKE_TIMEOUT, Shared, listener::Listener};
use crate::failure::Failure;

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

/// Answers one request.
pub(crate) async fn serve(mut tcp: TcpStream, shared: Arc<Shared>) {
    let request = tokio::time::timeout(HANDSHAKE_TIMEOUT, read_request(&mut tcp)).await.ok().flatten();
    let (code, kind, body) = match request {
        Some(Asked::Path(path)) => answer(&path, &shared),
        Some(Asked::Strangely) | None => {
            (400, "text/plain", "mendpath: GET /paths, /stats or /metrics\n".to_owned())
        }
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

fn answer(path: &str, shared: &Shared) -> (u16, &'static str, String) {
    let session = shared.uplink.now();
    let paths: Vec<PathRow> = session
        .as_ref()
        .map(|session| session.connection.paths().iter().map(PathRow::from).collect())
        .unwrap_or_default();
    let stats =
        session.as_ref().map(|session| StatsRow::new(&session.connection.stats(), session.reconnects));
    let json =
        |value: serde_json::Result<String>| (200, "application/json", value.unwrap_or_default() + "\n");
    match path {
        "/paths" => json(serde_json::to_string_pretty(&paths)),
        "/stats" => json(serde_json::to_string_pretty(&stats)),
        "/metrics" => (200, "text/plain; version=0.0.4", metrics(&paths, stats.as_ref())),
        _ => (404, "text/plain", "mendpath: GET /paths, /stats or /metrics\n".to_owned()),
    }
}

/// A path as `/paths` shows it.
#[derive(Clone, Debug, Serialize)]
struct PathRow {
    id: u32,
    local: String,
    remote: String,
    state: String,
    rtt_ms: f64,
    rtt_min_ms: f64,
    window_bytes: u64,
    in_flight_bytes: u64,
    packets_sent: u64,
    packets_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    packets_lost: u64,
    packets_recovered: u64,
    loss_estimate: f64,
    repair_sent: u64,
    repair_used: u64,
    repair_wasted: u64,
    copies_sent: u64,
}

impl From<&PathStats> for PathRow {
    fn from(path: &PathStats) -> Self {
        Self {
            id: path.id.0,
            local: path.network.local.to_string(),
            remote: path.network.remote.to_string(),
            state: format!("{:?}", path.state).to_lowercase(),
            rtt_ms: path.rtt.as_millis_f64(),
            rtt_min_ms: path.rtt_min.as_millis_f64(),
            window_bytes: path.window,
            in_flight_bytes: path.in_flight,
            packets_sent: path.packets_sent,
            packets_received: path.packets_received,
            bytes_sent: path.bytes_sent,
            bytes_received: path.bytes_received,
            packets_lost: path.packets_lost,
            packets_recovered: path.packets_recovered,
            loss_estimate: path.loss_estimate,
            repair_sent: path.repair_sent,
            repair_used: path.repair_used,
            repair_wasted: path.repair_wasted,
            copies_sent: path.copies_sent,
        }
    }
}

/// The connection as `/stats` shows it; `null` while there is none.
#[derive(Clone, Debug, Serialize)]
struct StatsRow {
    recovery: String,
    reconnects: u64,
    bytes_sent: u64,
    bytes_received: u64,
    packets_sent: u64,
    packets_received: u64,
    packets_lost: u64,
    stream_bytes_sent: u64,
    stream_bytes_received: u64,
    recovery_bytes_sent: u64,
    copies_sent: u64,
    repair_sent: u64,
    repair_received: u64,
    repair_used: u64,
    repair_wasted: u64,
    packets_mended_here: u64,
    packets_mended_at_peer: u64,
    datagrams_dropped: u64,
}

impl StatsRow {
    fn new(stats: &ConnectionStats, reconnects: u64) -> Self {
        Self {
            recovery: stats.recovery.to_string(),
            reconnects,
            bytes_sent: stats.bytes_sent,
            bytes_received: stats.bytes_received,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.packets_lost,
            stream_bytes_sent: stats.stream_bytes_sent,
            stream_bytes_received: stats.stream_bytes_received,
            recovery_bytes_sent: stats.recovery_bytes_sent,
            copies_sent: stats.copies_sent,
            repair_sent: stats.repair_sent,
            repair_received: stats.repair_received,
            repair_used: stats.repair_used,
            repair_wasted: stats.repair_wasted,
            packets_mended_here: stats.packets_recovered,
            packets_mended_at_peer: stats.peer_recovered,
            datagrams_dropped: stats.datagrams_dropped,
        }
    }
}

/// The text format of Prometheus, version 0.0.4. Counters of a connection start again when it is made anew.
fn metrics(paths: &[PathRow], stats: Option<&StatsRow>) -> String {
    let mut out = String::new();
    metric(
        &mut out,
        "mendpath_up",
        "gauge",
        "Whether there is a connection to the server.",
        [(String::new(), stats.is_some() as u64 as f64)],
    );
    if let Some(stats) = stats {
        let counters = [
            ("mendpath_reconnects_total", "Connections made after the first.", stats.reconnects),
            ("mendpath_bytes_sent_total", "UDP payload bytes sent.", stats.bytes_sent),
            ("mendpath_bytes_received_total", "UDP payload bytes received.", stats.bytes_received),
            (
                "mendpath_recovery_bytes_sent_total",
                "Bytes of copies and repair symbols sent.",
                stats.recovery_bytes_sent,
            ),
            (
                "mendpath_packets_mended_total",
                "Packets rebuilt here by the decoder.",
                stats.packets_mended_here,
            ),
            (
                "mendpath_peer_packets_mended_total",
                "Packets of ours that the peer rebuilt.",
                stats.packets_mended_at_peer,
            ),
        ];
        for (name, help, value) in counters {
            metric(&mut out, name, "counter", help, [(String::new(), value as f64)]);
        }
    }
    let label = |path: &PathRow| format!("{{path=\"{}\",local=\"{}\"}}", path.id, path.local);
    type Value = fn(&PathRow) -> f64;
    let of_paths: [(&str, &str, &str, Value); 8] = [
        ("mendpath_path_rtt_seconds", "gauge", "Smoothed round-trip time.", |path| path.rtt_ms / 1e3),
        ("mendpath_path_window_bytes", "gauge", "Congestion window.", |path| path.window_bytes as f64),
        ("mendpath_path_in_flight_bytes", "gauge", "Bytes sent and not answered for.", |path| {
            path.in_flight_bytes as f64
        }),
        ("mendpath_path_bytes_sent_total", "counter", "UDP payload bytes sent.", |path| {
            path.bytes_sent as f64
        }),
        ("mendpath_path_bytes_received_total", "counter", "UDP payload bytes received.", |path| {
            path.bytes_received as f64
        }),
        ("mendpath_path_packets_lost_total", "counter", "Packets declared lost.", |path| {
            path.packets_lost as f64
        }),
        ("mendpath_path_repair_sent_total", "counter", "Repair symbols sent.", |path| {
            path.repair_sent as f64
        }),
        ("mendpath_path_copies_sent_total", "counter", "Copies of packets sent.", |path| {
            path.copies_sent as f64
        }),
    ];
    for (name, kind, help, value) in of_paths {
        metric(&mut out, name, kind, help, paths.iter().map(|path| (label(path), value(path))));
    }
    out
}

fn metric(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl IntoIterator<Item = (String, f64)>,
) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
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

    #[test]
    fn metrics_without_a_connection() {
        let text = metrics(&[], None);
        assert!(text.starts_with("# HELP mendpath_up "));
        assert!(text.contains("\nmendpath_up 0\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split(' ').count(), 2, "{line}");
        }
    }
}
