//! `mendpath client --admin`: its paths and its connection.

use std::{fmt::Write as _, sync::Arc};

use mendpath::{ConnectionStats, PathStats};
use serde::Serialize;
use tokio::net::TcpStream;

use super::Shared;
use crate::{
    admin::{self, Answer, Counters, json},
    listener::Place,
};

/// Answers one request.
pub(super) async fn serve(tcp: TcpStream, place: Place, shared: Arc<Shared>) {
    admin::serve(tcp, place, "GET /paths, /stats or /metrics", |path| answer(path, &shared)).await;
}

fn answer(path: &str, shared: &Shared) -> Option<Answer> {
    let session = shared.uplink.now();
    let paths: Vec<PathRow> = session
        .as_ref()
        .map(|session| session.connection.path_stats().iter().map(PathRow::from).collect())
        .unwrap_or_default();
    let stats =
        session.as_ref().map(|session| StatsRow::new(&session.connection.stats(), session.reconnects));
    match path {
        "/paths" => Some(json(&paths)),
        "/stats" => Some(json(&stats)),
        "/metrics" => Some((200, "text/plain; version=0.0.4", metrics(&paths, stats.as_ref()))),
        _ => None,
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
            rtt_ms: units::Duration::from(path.rtt).as_millis_f64(),
            rtt_min_ms: units::Duration::from(path.rtt_min).as_millis_f64(),
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
    #[serde(flatten)]
    counters: Counters,
}

impl StatsRow {
    fn new(stats: &ConnectionStats, reconnects: u64) -> Self {
        Self { recovery: stats.recovery.to_string(), reconnects, counters: stats.into() }
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
            ("mendpath_bytes_sent_total", "UDP payload bytes sent.", stats.counters.bytes_sent),
            ("mendpath_bytes_received_total", "UDP payload bytes received.", stats.counters.bytes_received),
            (
                "mendpath_recovery_bytes_sent_total",
                "Bytes of copies and repair symbols sent.",
                stats.counters.recovery_bytes_sent,
            ),
            (
                "mendpath_packets_mended_total",
                "Packets rebuilt here by the decoder.",
                stats.counters.packets_mended_here,
            ),
            (
                "mendpath_peer_packets_mended_total",
                "Packets of ours that the peer rebuilt.",
                stats.counters.packets_mended_at_peer,
            ),
        ];
        for (name, help, value) in counters {
            metric(&mut out, name, "counter", help, [(String::new(), value as f64)]);
        }
        let reasons = stats.counters.recovery_reasons.named();
        metric(
            &mut out,
            "mendpath_recovery_reasons_total",
            "counter",
            "Copies and repair symbols by why they were sent, and times that none were and why.",
            reasons.map(|(reason, count)| (format!("{{reason=\"{reason}\"}}"), count as f64)),
        );
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
    fn metrics_without_a_connection() {
        let text = metrics(&[], None);
        assert!(text.starts_with("# HELP mendpath_up "));
        assert!(text.contains("\nmendpath_up 0\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split(' ').count(), 2, "{line}");
        }
    }
}
