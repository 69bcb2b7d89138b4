//! `mendpath client --admin`: its paths and its connection.

use std::sync::Arc;

use mendpath::{ConnectionStats, PathStats};
use serde::Serialize;
use tokio::net::TcpStream;

use super::{Shared, metrics};
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
        "/metrics" => Some((200, metrics::KIND, metrics::metrics(paths, stats))),
        _ => None,
    }
}

/// A path as `/paths` shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PathRow {
    pub(super) id: u32,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) state: String,
    pub(super) rtt_ms: f64,
    pub(super) rtt_min_ms: f64,
    pub(super) window_bytes: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) packets_lost: u64,
    pub(super) packets_mended: u64,
    pub(super) loss_estimate: f64,
    pub(super) repair_symbols_sent: u64,
    pub(super) packets_rebuilt_by_peer: u64,
    pub(super) copies_sent: u64,
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
            packets_mended: path.packets_mended,
            loss_estimate: path.loss_estimate,
            repair_symbols_sent: path.repair_symbols_sent,
            packets_rebuilt_by_peer: path.packets_rebuilt_by_peer,
            copies_sent: path.copies_sent,
        }
    }
}

/// The connection as `/stats` shows it; `null` while there is none.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StatsRow {
    recovery: String,
    pub(super) reconnects: u64,
    #[serde(flatten)]
    pub(super) counters: Counters,
}

impl StatsRow {
    pub(super) fn new(stats: &ConnectionStats, reconnects: u64) -> Self {
        Self { recovery: stats.recovery.to_string(), reconnects, counters: stats.into() }
    }
}
