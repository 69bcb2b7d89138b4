//! What all clients' connections together have sent and received, for `--admin`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mendpath::Connection;
use serde::Serialize;
use tokio::net::TcpStream;

use crate::{
    admin::{self, Counters, json},
    association::Hub,
    listener::Place,
};

/// The counters of ended connections, and the connections that there are; as many as the server admits.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Books>);

#[derive(Default)]
struct Books {
    ended: Counters,
    ended_dropped: u64,
    /// Numbered in the order of their arrival.
    open: BTreeMap<u64, (Connection, Option<Arc<Hub>>)>,
    next: u64,
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
    association_packets_dropped: u64,
    #[serde(flatten)]
    counters: Counters,
}

impl Tally {
    /// Counts a connection, and its associations if it has any, from now on.
    pub(crate) fn enter(self: &Arc<Self>, connection: &Connection, hub: Option<Arc<Hub>>) -> Entry {
        let mut books = self.books();
        let number = books.next;
        books.next += 1;
        books.open.insert(number, (connection.clone(), hub));
        Entry { tally: Arc::clone(self), number }
    }

    /// Answers one request.
    pub(crate) async fn serve(tcp: TcpStream, place: Place, tally: Arc<Self>) {
        admin::serve(tcp, place, "GET /stats", |path| (path == "/stats").then(|| json(&tally.row()))).await;
    }

    fn row(&self) -> StatsRow {
        let books = self.books();
        let (mut counters, mut dropped) = (books.ended, books.ended_dropped);
        for (connection, hub) in books.open.values() {
            counters += (&connection.stats()).into();
            dropped += hub.as_ref().map_or(0, |hub| hub.dropped());
        }
        StatsRow { clients: books.open.len(), association_packets_dropped: dropped, counters }
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
