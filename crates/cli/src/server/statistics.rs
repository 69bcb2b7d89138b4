//! What a server shows: `/stats`, and the snapshots of its page and of `mendpath status`.

use std::sync::{Arc, OnceLock};

use mendpath::{Endpoint, EndpointStats};
use serde::Serialize;
use tokio::{net::TcpStream, time::Instant};

use super::{Drain, Tally, metrics::Scrape, tally::Sum};
use crate::{
    accounts::{self, Accounts},
    admin::{self, Answer, METRICS_KIND, json},
    listener::Place,
    packet_row::TunnelRow,
    status::{Counters, Feed, Role, ServerRow, Snapshot},
};

/// Clients that are shown one by one.
const SHOWN: usize = 12;

/// What is shown, and to whom.
pub(crate) struct Statistics {
    tally: Arc<Tally>,
    /// Knows of those who are not let in.
    endpoint: Endpoint,
    /// What clients use, if they have accounts.
    accounts: Option<Arc<Accounts>>,
    drain: Arc<Drain>,
    feed: Arc<Feed>,
    /// What becomes of tunnels' packets, where there are any.
    pub(super) tunnels: OnceLock<Box<dyn Fn() -> TunnelRow + Send + Sync>>,
}

/// `/stats` of a server.
#[derive(Serialize)]
struct StatsRow {
    /// No new clients are let in: the server is about to stop.
    draining: bool,
    clients: usize,
    /// Clients with a token for whom there was no seat.
    turned_away: u64,
    door: DoorRow,
    /// Those that were ever used.
    accounts: Vec<accounts::Row>,
    association_packets_dropped: u64,
    /// Of a server that offers tunnels of packets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnel: Option<TunnelRow>,
    #[serde(flatten)]
    counters: Counters,
}

/// How strangers are dealt with.
#[derive(Serialize)]
struct DoorRow {
    waiting: usize,
    evicted: u64,
    evicted_by_network: u64,
    refused: u64,
    retries_sent: u64,
}

impl Statistics {
    /// Of the clients in `tally` and the strangers at `endpoint`.
    pub(crate) fn new(
        tally: Arc<Tally>,
        endpoint: Endpoint,
        accounts: Option<Arc<Accounts>>,
        drain: Arc<Drain>,
    ) -> Arc<Self> {
        let feed = {
            let (tally, endpoint, drain) = (tally.clone(), endpoint.clone(), drain.clone());
            Feed::new(move || snapshot(&tally, &endpoint, drain.is_on()))
        };
        Arc::new(Self { tally, endpoint, accounts, drain, feed, tunnels: OnceLock::new() })
    }

    /// The snapshots.
    pub(crate) fn feed(&self) -> Arc<Feed> {
        self.feed.clone()
    }

    /// Answers one request.
    pub(crate) async fn serve(tcp: TcpStream, place: Place, statistics: Arc<Self>) {
        let answer = |path: &str| match path {
            "/stats" => Some(json(&statistics.row())),
            "/metrics" => Some(Answer::Text(200, METRICS_KIND, statistics.metrics())),
            "/events" => Some(Answer::Events(statistics.feed.clone())),
            _ => None,
        };
        admin::serve(tcp, place, "GET /, /stats or /metrics", answer).await;
    }

    fn row(&self) -> StatsRow {
        let accounts = self.accounts.as_ref().map(|accounts| accounts.rows()).unwrap_or_default();
        let draining = self.drain.is_on();
        let tunnel = self.tunnel();
        StatsRow { draining, tunnel, ..StatsRow::new(self.tally.sum(), self.endpoint.stats(), accounts) }
    }

    fn tunnel(&self) -> Option<TunnelRow> {
        self.tunnels.get().map(|row| row())
    }

    fn metrics(&self) -> String {
        let used = self.accounts.as_ref().map(|accounts| accounts.rows()).unwrap_or_default();
        let scrape = Scrape {
            draining: self.drain.is_on(),
            sum: self.tally.sum(),
            door: self.endpoint.stats(),
            workers: self.endpoint.connections_by_worker(),
            accounts: self.tally.by_account(used),
            tunnel: self.tunnel(),
        };
        scrape.text(self.tally.live())
    }
}

fn snapshot(tally: &Tally, endpoint: &Endpoint, draining: bool) -> Snapshot {
    let look = tally.look(Instant::now(), SHOWN);
    let role = ServerRow {
        listen: endpoint.local_addrs().iter().map(ToString::to_string).collect(),
        draining,
        clients: look.sum.clients,
        turned_away: look.sum.turned_away,
        waiting: endpoint.stats().half_open,
        busiest: look.busiest,
        accounts: look.accounts,
    };
    tally.live().snapshot(Role::Server(role), Some(&look.sum.counters), look.sum.saved, look.paths)
}

impl StatsRow {
    fn new(sum: Sum, door: EndpointStats, accounts: Vec<accounts::Row>) -> Self {
        Self {
            draining: false,
            clients: sum.clients,
            turned_away: sum.turned_away,
            door: door.into(),
            accounts,
            association_packets_dropped: sum.association_packets_dropped,
            tunnel: None,
            counters: sum.counters,
        }
    }
}

impl From<EndpointStats> for DoorRow {
    fn from(stats: EndpointStats) -> Self {
        Self {
            waiting: stats.half_open,
            evicted: stats.evicted,
            evicted_by_network: stats.evicted_by_network,
            refused: stats.refused,
            retries_sent: stats.retries_sent,
        }
    }
}
