//! Everything that is shown, at one moment.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use mendpath::Connection;
use serde::{Deserialize, Serialize};

use super::{Counters, EventRow, PathRow, TrafficRow};

/// The form; another one when a field changes its meaning or goes.
pub(crate) const SCHEMA: &str = "mendpath-status/1";

/// What a running client or server shows, on its page and to `mendpath status`; `docs/json.md`
/// describes the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The program's version.
    pub version: Cow<'static, str>,
    /// When it was made, in milliseconds since 1970.
    pub unix_ms: u64,
    /// For how long the program has been running.
    pub uptime_ms: u64,
    /// What only one of the two sides has.
    #[serde(flatten)]
    pub role: Role,
    /// The counters of `/stats`, by name.
    pub totals: BTreeMap<Cow<'static, str>, u64>,
    /// The delay that mending saved, estimated.
    pub saved_ms: f64,
    /// On a client all its paths; on a server those of its busiest clients.
    pub paths: Vec<PathRow>,
    /// Connections through the proxy.
    pub traffic: TrafficRow,
    /// The newest first.
    pub events: Vec<EventRow>,
}

/// What only one of the two sides has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// `mendpath client`.
    Client(ClientRow),
    /// `mendpath server`.
    Server(ServerRow),
}

/// A client's connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientRow {
    /// The server in use, as the invitation has it; without a connection the first of those.
    pub server: String,
    /// All that the invitation names.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// Connections made after the first.
    pub reconnects: u64,
    /// The recovery scheme in use; empty without a connection.
    pub recovery: String,
}

/// A server's clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerRow {
    /// The addresses listened on.
    pub listen: Vec<String>,
    /// No new clients are let in: it is about to stop.
    #[serde(default)]
    pub draining: bool,
    /// Clients at the moment.
    pub clients: usize,
    /// Clients with a token for whom there was no seat.
    pub turned_away: u64,
    /// Connections that have not shown a token.
    pub waiting: usize,
    /// The busiest clients since the last look, the busiest first.
    pub busiest: Vec<PeerRow>,
    /// The accounts with the most bytes, these first.
    pub accounts: Vec<AccountRow>,
}

/// A client as its server sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRow {
    /// Counts clients from 0.
    pub id: u64,
    /// Whose invitation it showed.
    pub account: String,
    /// The address that it came from.
    pub remote: String,
    /// How long ago.
    pub age_ms: u64,
    /// The round-trip time of its fastest path.
    pub rtt_ms: f64,
    /// Its paths.
    pub paths: usize,
    /// Bytes of UDP payload to it.
    pub bytes_sent: u64,
    /// Bytes of UDP payload from it.
    pub bytes_received: u64,
    /// Packets to it that were lost, ...
    pub packets_lost: u64,
    /// ... of these mended, ...
    pub packets_mended: u64,
    /// ... and all that were sent.
    pub packets_sent: u64,
}

/// A client of a server, and its paths, as its connection has them. `age` is how long it has been
/// there; nothing says whose invitation it showed.
pub(crate) fn peer(connection: &Connection, id: u64, age: Duration) -> (PeerRow, Vec<PathRow>) {
    let (stats, paths) = (connection.stats(), connection.path_stats());
    let fastest = paths.iter().map(|path| path.rtt).min().unwrap_or_default();
    let row = PeerRow {
        id,
        account: String::new(),
        remote: connection.remote_address().ip().to_string(),
        age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        rtt_ms: units::Duration::from(fastest).as_millis_f64(),
        paths: paths.len(),
        bytes_sent: stats.bytes_sent,
        bytes_received: stats.bytes_received,
        packets_lost: stats.packets_lost,
        packets_mended: stats.packets_mended,
        packets_sent: stats.packets_sent,
    };
    let of_path =
        |path| PathRow { client: Some(id), ..PathRow::new(path, path.network.remote.ip().to_string()) };
    (row, paths.iter().map(of_path).collect())
}

/// What all clients of one account use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AccountRow {
    /// Its name.
    pub account: String,
    /// Its clients at the moment.
    pub clients: usize,
    /// Bytes of UDP payload to them, those that are gone included.
    pub bytes_sent: u64,
    /// Bytes of UDP payload from them.
    pub bytes_received: u64,
}

/// Counters by name.
pub(crate) fn by_name(counters: &Counters) -> BTreeMap<Cow<'static, str>, u64> {
    counters.iter().map(|(counter, value)| (Cow::Borrowed(counter.name), value)).collect()
}
