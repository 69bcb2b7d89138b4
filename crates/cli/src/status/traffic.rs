//! What the connections through the proxy carry, by where they lead.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use serde::{Deserialize, Serialize};

use crate::{
    splice::{Direction, Witness},
    target::Target,
};

/// Destinations on the books. The one whose last connection began longest ago gives way, and its
/// numbers go to the others.
const MAX_DESTINATIONS: usize = 512;

/// The books.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// Whether hosts are written down.
    names: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    known: BTreeMap<Key, Arc<Destination>>,
    others: Arc<Destination>,
    /// Connections that ever began.
    begun: u64,
}

/// Host and port; the host is empty when names are not written down.
type Key = (String, u16);

#[derive(Debug, Default)]
struct Destination {
    open: AtomicU64,
    begun: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    /// How many connections had begun anywhere when its last one did.
    last: AtomicU64,
}

/// One connection on the books; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Flow(Arc<Destination>);

/// Connections to one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationRow {
    /// The host; `null` when names are not shown.
    pub host: Option<String>,
    /// The port; 0 for the row of all others.
    pub port: u16,
    /// Connections at the moment.
    pub open: u64,
    /// Connections ever.
    pub count: u64,
    /// Bytes that this side sent for them through Mendpath: on a client uploads, on a server
    /// downloads.
    pub bytes_sent: u64,
    /// Bytes that came the other way.
    pub bytes_received: u64,
}

/// The busiest destinations, and the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficRow {
    /// Whether hosts are written down.
    pub names: bool,
    /// Connections at the moment, everywhere.
    pub open: u64,
    /// Connections ever, everywhere.
    pub count: u64,
    /// Those with open connections first, then by bytes.
    pub destinations: Vec<DestinationRow>,
    /// All that are not in the list.
    pub others: DestinationRow,
}

impl Traffic {
    /// Empty books, which have hosts in them if `names` says so.
    pub(crate) fn new(names: bool) -> Self {
        Self { names: names.into(), books: Mutex::default() }
    }

    /// Whether hosts are written down.
    pub(crate) fn names(&self) -> bool {
        self.names.load(Relaxed)
    }

    /// From now on hosts are written down, or not; those that were are not told.
    pub(crate) fn set_names(&self, names: bool) {
        self.names.store(names, Relaxed);
    }

    /// A connection to `target` begins.
    pub(crate) fn begin(&self, target: &Target) -> Flow {
        let host = if self.names() { target.host.to_string() } else { String::new() };
        Flow(self.books().begin((host, target.port)))
    }

    /// At most `most` destinations.
    pub(crate) fn row(&self, most: usize) -> TrafficRow {
        let books = self.books();
        let mut all: Vec<DestinationRow> = books.known.iter().map(|(key, it)| it.row(key)).collect();
        let mut others = books.others.row(&Key::default());
        drop(books);
        if !self.names() {
            all.iter_mut().for_each(|row| row.host = None);
        }
        all.sort_by_key(|row| std::cmp::Reverse((row.open > 0, row.bytes_sent + row.bytes_received)));
        let rest = all.split_off(most.min(all.len()));
        let (mut open, mut count) = (0, 0);
        for row in &rest {
            others.open += row.open;
            others.count += row.count;
            others.bytes_sent += row.bytes_sent;
            others.bytes_received += row.bytes_received;
        }
        for row in all.iter().chain([&others]) {
            open += row.open;
            count += row.count;
        }
        TrafficRow { names: self.names(), open, count, destinations: all, others }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn begin(&mut self, key: Key) -> Arc<Destination> {
        self.begun += 1;
        if !self.known.contains_key(&key) && self.known.len() == MAX_DESTINATIONS {
            self.make_room();
        }
        let full = self.known.len() == MAX_DESTINATIONS;
        let destination = match self.known.get(&key) {
            Some(known) => known.clone(),
            None if full => self.others.clone(),
            None => self.known.entry(key).or_default().clone(),
        };
        destination.open.fetch_add(1, Relaxed);
        destination.begun.fetch_add(1, Relaxed);
        destination.last.store(self.begun, Relaxed);
        destination
    }

    /// Takes the destination out that nobody has used for longest, if one is not in use.
    fn make_room(&mut self) {
        let idle = self.known.iter().filter(|(_, it)| it.open.load(Relaxed) == 0);
        let Some(key) = idle.min_by_key(|(_, it)| it.last.load(Relaxed)).map(|(key, _)| key.clone()) else {
            return;
        };
        let gone = self.known.remove(&key).expect("it was just found");
        self.others.begun.fetch_add(gone.begun.load(Relaxed), Relaxed);
        self.others.sent.fetch_add(gone.sent.load(Relaxed), Relaxed);
        self.others.received.fetch_add(gone.received.load(Relaxed), Relaxed);
    }
}

impl Destination {
    fn row(&self, (host, port): &Key) -> DestinationRow {
        DestinationRow {
            host: (!host.is_empty()).then(|| host.clone()),
            port: *port,
            open: self.open.load(Relaxed),
            count: self.begun.load(Relaxed),
            bytes_sent: self.sent.load(Relaxed),
            bytes_received: self.received.load(Relaxed),
        }
    }
}

impl Witness for Flow {
    /// The first side of a splice is the program's or the other host's TCP connection.
    fn passed(&self, direction: Direction, bytes: usize) {
        let counter = match direction {
            Direction::Forth => &self.0.sent,
            Direction::Back => &self.0.received,
        };
        counter.fetch_add(bytes as u64, Relaxed);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: usize) -> Target {
        format!("host{n}.example:443").parse().unwrap()
    }

    #[test]
    fn connections_count_where_they_lead() {
        let traffic = Traffic::new(true);
        let (first, second) = (traffic.begin(&target(1)), traffic.begin(&target(1)));
        first.passed(Direction::Forth, 10);
        second.passed(Direction::Back, 100);
        drop(first);
        let _other = traffic.begin(&target(2));
        let row = traffic.row(10);
        assert_eq!((row.open, row.count, row.names), (2, 3, true));
        let busiest = &row.destinations[0];
        assert_eq!((busiest.host.as_deref(), busiest.port), (Some("host1.example"), 443));
        assert_eq!((busiest.open, busiest.count), (1, 2));
        assert_eq!((busiest.bytes_sent, busiest.bytes_received), (10, 100));
        let shortened = traffic.row(1);
        assert_eq!((shortened.destinations.len(), shortened.others.count, shortened.count), (1, 1, 3));
    }

    #[test]
    fn hosts_are_not_written_down_where_names_are_off() {
        let traffic = Traffic::new(false);
        let _flows = (traffic.begin(&target(1)), traffic.begin(&target(2)));
        let row = traffic.row(10);
        assert_eq!(row.destinations.len(), 1);
        assert_eq!((row.destinations[0].host.as_deref(), row.destinations[0].open), (None, 2));
        traffic.set_names(true);
        let _flow = traffic.begin(&target(3));
        let hosts =
            |traffic: &Traffic| traffic.row(10).destinations.iter().filter(|row| row.host.is_some()).count();
        assert_eq!(hosts(&traffic), 1);
        traffic.set_names(false);
        assert_eq!(hosts(&traffic), 0, "what was written down is not told any more");
    }

    #[test]
    fn the_longest_unused_destination_gives_way_and_none_in_use_does() {
        let traffic = Traffic::new(true);
        let held: Vec<_> = (0..MAX_DESTINATIONS).map(|n| traffic.begin(&target(n))).collect();
        let beyond = traffic.begin(&target(MAX_DESTINATIONS));
        beyond.passed(Direction::Forth, 7);
        let row = traffic.row(usize::MAX);
        assert_eq!(
            (row.destinations.len(), row.others.open, row.others.bytes_sent),
            (MAX_DESTINATIONS, 1, 7)
        );
        held[0].passed(Direction::Forth, 5);
        drop(held);
        let _again = (traffic.begin(&target(0)), traffic.begin(&target(MAX_DESTINATIONS)));
        let hosts: Vec<_> = traffic.row(usize::MAX).destinations;
        let has = |name: &str| hosts.iter().any(|row| row.host.as_deref() == Some(name));
        assert!(has("host0.example") && has("host512.example") && !has("host1.example"));
        assert_eq!(hosts.len(), MAX_DESTINATIONS);
        assert_eq!(traffic.row(0).others.bytes_sent, 12, "nothing is forgotten");
    }
}
