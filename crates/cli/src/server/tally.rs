//! What all clients' connections together have sent and received, for `--admin`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mendpath::{Connection, Endpoint, EndpointStats};
use serde::Serialize;
use tokio::net::TcpStream;
use tracing::info;

use crate::{
    admin::{self, Counters, json},
    association::Hub,
    listener::Place,
};

/// The counters of ended connections, and the connections that there are; as many as the server
/// admits.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Books>);

/// What `--admin` shows.
pub(crate) struct Statistics {
    /// The clients'.
    pub(crate) tally: Arc<Tally>,
    /// Knows of those who are not let in.
    pub(crate) endpoint: Endpoint,
}

#[derive(Default)]
struct Books {
    ended: Counters,
    ended_dropped: u64,
    /// Numbered in the order of their arrival.
    open: BTreeMap<u64, (Connection, Option<Arc<Hub>>)>,
    next: u64,
    turned_away: u64,
}

/// A connection on the books; dropping this ends its account.
pub(crate) struct Entry {
    tally: Arc<Tally>,
    number: u64,
}

/// `/stats` of a server.
#[derive(Serialize)]
struct StatsRow {
    clients: usize,
    /// Clients with a token for whom there was no seat.
    turned_away: u64,
    door: DoorRow,
    association_packets_dropped: u64,
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

impl Statistics {
    /// Answers one request.
    pub(crate) async fn serve(tcp: TcpStream, place: Place, statistics: Arc<Self>) {
        let row = || json(&statistics.tally.row(statistics.endpoint.stats()));
        admin::serve(tcp, place, "GET /stats", |path| (path == "/stats").then(row)).await;
    }
}

impl Tally {
    /// A client had a token, but there was no seat.
    pub(crate) fn turned_away(&self, from: SocketAddr) {
        info!(%from, "client turned away: all seats are taken");
        self.books().turned_away += 1;
    }

    /// Counts a connection, and its associations if it has any, from now on.
    pub(crate) fn enter(self: &Arc<Self>, connection: &Connection, hub: Option<Arc<Hub>>) -> Entry {
        let mut books = self.books();
        let number = books.next;
        books.next += 1;
        books.open.insert(number, (connection.clone(), hub));
        Entry { tally: Arc::clone(self), number }
    }

    fn row(&self, door: EndpointStats) -> StatsRow {
        let books = self.books();
        let (mut counters, mut dropped) = (books.ended, books.ended_dropped);
        for (connection, hub) in books.open.values() {
            counters += (&connection.stats()).into();
            dropped += hub.as_ref().map_or(0, |hub| hub.dropped());
        }
        StatsRow {
            clients: books.open.len(),
            turned_away: books.turned_away,
            door: door.into(),
            association_packets_dropped: dropped,
            counters,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut books = self.tally.books();
        if let Some((connection, hub)) = books.open.remove(&self.number) {
            books.ended += (&connection.stats()).into();
            books.ended_dropped += hub.map_or(0, |hub| hub.dropped());
        }
    }
}
