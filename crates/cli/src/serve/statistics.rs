//! What a web server shows with `--admin`: `/metrics`, and the snapshots of its page.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{StatusCode, Version};
use mendpath::{Connection, Endpoint, EndpointStats};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use tokio::{net::TcpStream, time::Instant};

use super::{
    files::{Figures, Memory},
    hosts::Hosts,
};
use crate::{
    admin::{self, Answer, METRICS_KIND, Metric, encode_counters, encode_workers, metrics_text},
    listener::Place,
    status::{Counters, Feed, Live, PathRow, PeerRow, Role, Saved, ServerRow, Snapshot, peer},
};

/// Clients that are shown one by one.
const SHOWN: usize = 12;

/// What is shown, and to whom.
pub(crate) struct Statistics {
    books: Arc<Books>,
    feed: Arc<Feed>,
}

/// What is counted.
struct Books {
    live: Live,
    endpoint: Endpoint,
    /// Connections by TCP.
    tcp: AtomicUsize,
    /// Lines of the access log that nobody took, or that could not be written.
    lost_lines: Arc<AtomicU64>,
    /// Of files.
    memory: Arc<Memory>,
    /// By TCP and by QUIC.
    hosts: [Arc<Hosts>; 2],
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    /// Connections by HTTP/3, counted from 0.
    open: BTreeMap<u64, Client>,
    next: u64,
    /// What those that have ended have done.
    ended: Counters,
    /// The delay that mending saved for them, as far as somebody looked.
    saved: Duration,
    responses: BTreeMap<Kind, Responses>,
}

struct Client {
    connection: Connection,
    since: Instant,
    saved: Saved,
    /// Bytes that it had moved at the last look.
    moved: u64,
}

/// Responses are told apart by protocol and by the first digit of their status.
type Kind = (&'static str, &'static str);

#[derive(Clone, Copy, Debug, Default)]
struct Responses {
    count: u64,
    bytes: u64,
}

/// A connection by HTTP/3, until this is dropped.
pub(super) struct Seen {
    books: Arc<Books>,
    number: u64,
}

/// A connection by TCP, until this is dropped.
pub(super) struct SeenByTcp(Arc<Books>);

impl Drop for SeenByTcp {
    fn drop(&mut self) {
        self.0.tcp.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Statistics {
    pub(super) fn new(endpoint: Endpoint, memory: Arc<Memory>, hosts: [Arc<Hosts>; 2]) -> Arc<Self> {
        let (live, tcp, pages) = (Live::new(false), AtomicUsize::new(0), Mutex::default());
        let lost_lines = Arc::default();
        let books = Arc::new(Books { live, endpoint, tcp, lost_lines, memory, hosts, pages });
        let feed = {
            let books = books.clone();
            Feed::new(move || books.snapshot(Instant::now()))
        };
        Arc::new(Self { books, feed })
    }

    /// What `mendpath status` shows.
    pub(crate) fn feed(&self) -> Arc<Feed> {
        self.feed.clone()
    }

    /// A connection by HTTP/3 has begun.
    pub(super) fn enter(&self, connection: Connection) -> Seen {
        let mut pages = self.books.pages();
        let number = pages.next;
        pages.next += 1;
        let since = Instant::now();
        pages.open.insert(number, Client { connection, since, saved: Saved::new(since), moved: 0 });
        Seen { books: self.books.clone(), number }
    }

    /// A connection by TCP has begun.
    pub(super) fn enter_by_tcp(&self) -> SeenByTcp {
        self.books.tcp.fetch_add(1, Ordering::Relaxed);
        SeenByTcp(self.books.clone())
    }

    /// A response is over, whole or not.
    pub(super) fn on_response(&self, version: Version, status: StatusCode, bytes: u64) {
        let mut pages = self.books.pages();
        let responses = pages.responses.entry((protocol(version), class(status))).or_default();
        responses.count += 1;
        responses.bytes += bytes;
    }

    /// A line of the access log is lost.
    pub(super) fn on_lost_line(&self) {
        self.books.lost_lines.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts such lines, for whoever finds out later.
    pub(super) fn lost_lines(&self) -> Arc<AtomicU64> {
        self.books.lost_lines.clone()
    }

    /// Answers one request.
    pub(crate) async fn serve(tcp: TcpStream, place: Place, statistics: Arc<Self>) {
        let answer = |path: &str| match path {
            "/stats" => Some(admin::json(&statistics.books.pages().counters())),
            "/metrics" => Some(Answer::Text(200, METRICS_KIND, statistics.books.metrics())),
            "/events" => Some(Answer::Events(statistics.feed.clone())),
            _ => None,
        };
        admin::serve(tcp, place, "GET /, /stats or /metrics", answer).await;
    }
}

impl Books {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metrics(&self) -> String {
        let pages = self.pages();
        let counters = pages.counters();
        let scrape = Scrape {
            http3: pages.open.len(),
            tcp: self.tcp.load(Ordering::Relaxed),
            door: self.endpoint.stats(),
            workers: self.endpoint.connections_by_worker(),
            responses: pages.responses.clone(),
            lost_lines: self.lost_lines.load(Ordering::Relaxed),
            files: self.memory.figures(),
            crowded: self.hosts.each_ref().map(|hosts| hosts.refused()),
            counters,
        };
        drop(pages);
        metrics_text("web", &self.live, scrape)
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let mut pages = self.pages();
        let Pages { open, ended, saved, .. } = &mut *pages;
        let (mut counters, mut saved) = (*ended, *saved);
        let mut moved: Vec<(u64, u64)> = Vec::with_capacity(open.len());
        for (number, client) in open.iter_mut() {
            let stats = client.connection.stats();
            counters += (&stats).into();
            saved += client.saved.look_at(now, &client.connection, &stats);
            let before = std::mem::replace(&mut client.moved, stats.bytes_sent + stats.bytes_received);
            moved.push((client.moved - before, *number));
        }
        moved.sort_unstable_by(|one, other| other.cmp(one));
        let (mut busiest, mut paths) = (Vec::new(), Vec::new());
        for (_, number) in moved.into_iter().take(SHOWN) {
            open[&number].show(number, now, &mut busiest, &mut paths);
        }
        let role = ServerRow {
            listen: self.endpoint.local_addrs().iter().map(ToString::to_string).collect(),
            clients: open.len(),
            waiting: self.endpoint.stats().half_open,
            busiest,
            ..ServerRow::default()
        };
        self.live.snapshot(Role::Server(role), Some(&counters), saved, paths)
    }
}

impl Pages {
    /// What all connections by HTTP/3 have done.
    fn counters(&self) -> Counters {
        let mut counters = self.ended;
        self.open.values().for_each(|client| counters += (&client.connection.stats()).into());
        counters
    }
}

impl Client {
    fn show(&self, number: u64, now: Instant, busiest: &mut Vec<PeerRow>, rows: &mut Vec<PathRow>) {
        let (row, paths) = peer(&self.connection, number, now.duration_since(self.since));
        busiest.push(row);
        rows.extend(paths);
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut pages = self.books.pages();
        if let Some(client) = pages.open.remove(&self.number) {
            pages.ended += (&client.connection.stats()).into();
            pages.saved += client.saved.total();
        }
    }
}

/// What there is to tell at the moment.
#[derive(Debug)]
struct Scrape {
    http3: usize,
    tcp: usize,
    door: EndpointStats,
    /// QUIC connections of each worker.
    workers: Vec<usize>,
    responses: BTreeMap<Kind, Responses>,
    lost_lines: u64,
    files: Figures,
    /// Connections refused since their host had its share, by transport.
    crowded: [(&'static str, u64); 2],
    counters: Counters,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let help = "Connections, by transport";
        let open = [([("transport", "quic")], self.http3 as f64), ([("transport", "tcp")], self.tcp as f64)];
        Metric { name: "web_connections", help }.gauges(open, encoder)?;
        let help = "QUIC connections refused because there were too many, of all or of their host";
        Metric { name: "web_refused", help }.counter(self.door.refused, encoder)?;
        let help = "Connections refused or closed since their host had its share";
        let crowded = self.crowded.map(|(transport, count)| ([("transport", transport)], count));
        Metric { name: "web_crowded", help }.counters(crowded, encoder)?;
        encode_workers(&self.workers, self.door.misdirected, encoder)?;
        let all = |value: fn(&Responses) -> u64| {
            let labelled = self.responses.iter();
            labelled.map(move |((protocol, class), responses)| {
                ([("protocol", *protocol), ("status", *class)], value(responses))
            })
        };
        let help = "Responses, whole or not";
        Metric { name: "web_responses", help }.counters(all(|responses| responses.count), encoder)?;
        let help = "Bytes of their bodies";
        Metric { name: "web_response_bytes", help }.counters(all(|responses| responses.bytes), encoder)?;
        let help = "Lines of the access log that nobody took, or that could not be written";
        Metric { name: "web_log_lines_dropped", help }.counter(self.lost_lines, encoder)?;
        let Figures { names, bytes, found, opened, packed } = self.files;
        let help = "Names of files of which something is in memory";
        Metric { name: "web_memory_names", help }.gauge(names as u64, encoder)?;
        let help = "What is in memory of files, in bytes";
        Metric { name: "web_memory_bytes", help }.gauge(bytes as u64, encoder)?;
        let help = "Files that were looked up, by where they were";
        let looked = [([("from", "memory")], found), ([("from", "disk")], opened)];
        Metric { name: "web_files", help }.counters(looked, encoder)?;
        let help = "Small files that were compressed, to be kept so in memory";
        Metric { name: "web_packed", help }.counter(packed, encoder)?;
        encode_counters(&self.counters, encoder)
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_3 => "http3",
        Version::HTTP_2 => "http2",
        _ => "http1",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_are_counted_by_protocol_and_status() {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let hosts = ["tcp", "quic"].map(|transport| Hosts::new(transport, 1));
        let statistics = Statistics::new(endpoint, Arc::default(), hosts);
        let seen = [statistics.enter_by_tcp(), statistics.enter_by_tcp(), statistics.enter_by_tcp()];
        for (version, code, bytes) in [
            (Version::HTTP_3, 200, 10),
            (Version::HTTP_3, 204, 0),
            (Version::HTTP_2, 404, 7),
            (Version::HTTP_11, 599, 1),
        ] {
            statistics.on_response(version, StatusCode::from_u16(code).unwrap(), bytes);
        }
        statistics.on_lost_line();
        let metrics = statistics.books.metrics();
        for line in [
            "mendpath_web_log_lines_dropped_total 1",
            "mendpath_web_connections{transport=\"tcp\"} 3",
            "mendpath_worker_connections{worker=\"0\"} 0",
            "mendpath_web_responses_total{protocol=\"http3\",status=\"2xx\"} 2",
            "mendpath_web_response_bytes_total{protocol=\"http3\",status=\"2xx\"} 10",
            "mendpath_web_responses_total{protocol=\"http2\",status=\"4xx\"} 1",
            "mendpath_web_response_bytes_total{protocol=\"http1\",status=\"5xx\"} 1",
            "mendpath_web_memory_names 0",
            "mendpath_web_crowded_total{transport=\"tcp\"} 0",
            "mendpath_web_memory_bytes 0",
            "mendpath_web_files_total{from=\"memory\"} 0",
            "mendpath_web_packed_total 0",
        ] {
            assert!(metrics.contains(line), "{line} is not in {metrics}");
        }
        drop(seen);
        assert!(statistics.books.metrics().contains("mendpath_web_connections{transport=\"tcp\"} 0"));
        let Role::Server(row) = statistics.books.snapshot(Instant::now()).role else { panic!("a server") };
        assert_eq!((row.listen.len(), row.clients), (1, 0));
    }
}
