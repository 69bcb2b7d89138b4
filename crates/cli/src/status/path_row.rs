//! A path in figures.

use mendpath::{PathState, PathStats, PathUse};
use serde::{Deserialize, Serialize};

/// A path as `/paths`, the page and `mendpath status` show it. Sizes in bytes of UDP payload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathRow {
    /// Path id.
    pub id: u32,
    /// What people call it: interface and address on a client, the other end's address on a server.
    pub name: String,
    /// On a server, the client that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u64>,
    /// Our address.
    pub local: String,
    /// The peer's address.
    pub remote: String,
    /// `validating`, `active`, `backup`, `paused`, `suspect` or `closing`.
    pub state: String,
    /// Whether the user said that it costs money.
    #[serde(default)]
    pub metered: bool,
    /// The rate that the user lets it have in each direction, if not any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bits_per_second: Option<u64>,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Smallest round-trip time.
    pub rtt_min_ms: f64,
    /// Congestion window.
    pub window_bytes: u64,
    /// What of it is used.
    pub in_flight_bytes: u64,
    /// Packets of ours.
    pub packets_sent: u64,
    /// The peer's that arrived.
    pub packets_received: u64,
    /// The peer's that have not arrived though later ones have.
    pub packets_missing: u64,
    /// Bytes of ours.
    pub bytes_sent: u64,
    /// Bytes of the peer that arrived.
    pub bytes_received: u64,
    /// Packets of ours declared lost.
    pub packets_lost: u64,
    /// Those of them that were mended: their data had arrived otherwise before.
    pub packets_mended: u64,
    /// The loss estimate that recovery decisions use, 0 to 1.
    pub loss_estimate: f64,
    /// The least id of the paths with which it shares a bottleneck, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<u32>,
    /// Repair symbols that this path carried.
    pub repair_symbols_sent: u64,
    /// Packets of this path that the peer rebuilt.
    pub packets_rebuilt_by_peer: u64,
    /// Copies that this path carried.
    pub copies_sent: u64,
}

impl PathRow {
    /// The path under this name.
    pub(crate) fn new(path: &PathStats, name: String) -> Self {
        Self {
            id: path.id.0,
            name,
            client: None,
            local: path.network.local.to_string(),
            remote: path.network.remote.to_string(),
            state: word(path).to_owned(),
            metered: path.limits.carries == PathUse::Metered,
            cap_bits_per_second: path.limits.rate.map(|rate| rate.0),
            rtt_ms: units::Duration::from(path.rtt).as_millis_f64(),
            rtt_min_ms: units::Duration::from(path.rtt_min).as_millis_f64(),
            window_bytes: path.window,
            in_flight_bytes: path.in_flight,
            packets_sent: path.packets_sent,
            packets_received: path.packets_received,
            packets_missing: path.packets_missing,
            bytes_sent: path.bytes_sent,
            bytes_received: path.bytes_received,
            packets_lost: path.packets_lost,
            packets_mended: path.packets_mended,
            loss_estimate: path.loss_estimate,
            bottleneck: path.bottleneck.map(|group| group.0),
            repair_symbols_sent: path.repair_symbols_sent,
            packets_rebuilt_by_peer: path.packets_rebuilt_by_peer,
            copies_sent: path.copies_sent,
        }
    }
}

fn word(path: &PathStats) -> &'static str {
    match path.state {
        PathState::Active | PathState::Backup if path.limits.carries == PathUse::Paused => "paused",
        PathState::Validating => "validating",
        PathState::Active => "active",
        PathState::Backup => "backup",
        PathState::Suspect => "suspect",
        PathState::Closing => "closing",
    }
}
