//! `mendpath client --admin`: its paths and its connection.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mendpath::ConnectionStats;
use serde::Serialize;
use tokio::{net::TcpStream, time::Instant};

use super::{PathSpec, Session, Shared, Uplink, answers::AnswerCounts, metrics::Scrape};
use crate::{
    admin::{self, Answer, METRICS_KIND, json},
    interfaces::{interface_exists, missed},
    listener::Place,
    packet_row::PacketRow,
    status::{ClientRow, Counters, Feed, PathRow, Role, Snapshot, path_name},
};

/// What is shown, and to whom.
pub(super) struct Statistics {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
}

impl Statistics {
    /// Of the connection to one of `servers`, which the invitation names.
    pub(super) fn new(shared: Arc<Shared>, servers: Vec<String>) -> Arc<Self> {
        let feed = {
            let uplink = shared.uplink.clone();
            Feed::of_client(uplink.live().clone(), move || snapshot(&uplink, &servers))
        };
        Arc::new(Self { shared, feed })
    }

    /// The snapshots.
    pub(super) fn feed(&self) -> Arc<Feed> {
        self.feed.clone()
    }

    /// Answers one request.
    pub(super) async fn serve(tcp: TcpStream, place: Place, statistics: Arc<Self>) {
        let answer = |path: &str| statistics.answer(path);
        admin::serve(tcp, place, "GET /, /paths, /stats or /metrics", answer).await;
    }

    fn answer(&self, path: &str) -> Option<Answer> {
        let session = self.shared.uplink.now();
        let paths = session.as_ref().map(paths).unwrap_or_default();
        let stats = session.as_ref().map(|session| {
            let (connection, answers) = (session.connection.stats(), self.shared.answers.counts());
            let server = session.host.to_string();
            StatsRow { server, tun: self.tun(), ..StatsRow::new(&connection, session.reconnects, answers) }
        });
        match path {
            "/paths" => Some(json(&paths)),
            "/stats" => Some(json(&stats)),
            "/metrics" => Some(Answer::Text(200, METRICS_KIND, self.metrics())),
            "/events" => Some(Answer::Events(self.feed.clone())),
            _ => None,
        }
    }

    fn tun(&self) -> Option<TunRow> {
        self.shared.tun.get().map(|tun| tun())
    }

    fn metrics(&self) -> String {
        let live = self.shared.uplink.live();
        let mut past = live.past();
        let session = self.shared.uplink.now();
        let counters = past.totals();
        if let Some(connection) = past.present.clone() {
            let life = past.reconnects;
            past.paths.look(life, &live.path_counts(&connection));
        }
        let counted = past.paths.sums().iter().map(|(name, counts)| (name.clone(), *counts)).collect();
        let mut open: Vec<PathRow> = session.as_ref().map(paths).unwrap_or_default();
        for row in &mut open {
            row.name = past.paths.label(&row.name).to_owned();
        }
        let names = past.paths.by_age().into_iter().map(str::to_owned);
        let missing = missing(names, &open, &live.specs);
        let scrape = Scrape {
            connected: session.is_some(),
            reconnects: past.reconnects,
            answers: self.shared.answers.counts(),
            counters,
            tun: self.tun(),
            counted,
            open,
            missing,
        };
        scrape.text(live)
    }
}

/// Those of the `names` whose paths should be there and are not, as far as one look can tell.
fn missing(names: impl Iterator<Item = String>, open: &[PathRow], specs: &[PathSpec]) -> BTreeSet<String> {
    let open: Vec<&str> = open.iter().map(|path| path.name.as_str()).collect();
    missed(names, &open, specs, interface_exists).collect()
}

fn paths(session: &Session) -> Vec<PathRow> {
    let names = session.live.path_names();
    session.connection.path_stats().iter().map(|path| PathRow::new(path, path_name(&names, path))).collect()
}

fn snapshot(uplink: &Uplink, servers: &[String]) -> Snapshot {
    let session = uplink.now();
    let stats = session.as_ref().map(|session| session.connection.stats());
    // Those before stay made while there is no connection.
    let reconnects = uplink.live().past().reconnects;
    let role = ClientRow {
        server: session.as_ref().map_or_else(|| servers[0].clone(), |session| session.host.to_string()),
        servers: servers.to_vec(),
        connected: session.is_some(),
        reconnects,
        recovery: stats.as_ref().map(|stats| stats.recovery.clone()).unwrap_or_default(),
    };
    let saved = session.as_ref().zip(stats.as_ref()).map(|(session, stats)| {
        let paths: Vec<_> = session.connection.path_stats().iter().map(Into::into).collect();
        session.saved().look(Instant::now(), &paths, stats.packets_rebuilt)
    });
    let counters = stats.as_ref().map(Counters::from);
    let paths = session.as_ref().map(paths).unwrap_or_default();
    uplink.live().snapshot(Role::Client(role), counters.as_ref(), saved.unwrap_or_default(), paths)
}

/// The connection as `/stats` shows it; `null` while there is none.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StatsRow {
    /// The server in use, as the invitation names it.
    server: String,
    recovery: String,
    pub(super) reconnects: u64,
    pub(super) early_answers: u64,
    pub(super) early_answers_refused: u64,
    pub(super) destinations_known: u64,
    /// Of `mendpath run` and `mendpath tunnel` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tun: Option<TunRow>,
    #[serde(flatten)]
    pub(super) counters: Counters,
}

/// What became of the packets of a TUN device, since it was made.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(not(all(feature = "tunnel", target_os = "linux")), allow(dead_code, reason = "of tunnels only"))]
pub(crate) struct TunRow {
    /// Read from the device.
    pub(crate) packets: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// TCP packets rewritten on their way between programs and the kernel's listener.
    pub(crate) rewritten: u64,
    /// Answered with a reset or an ICMP error.
    pub(crate) replies: u64,
    /// TCP connections that programs asked for, that were granted, and that were refused.
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    /// Flows forgotten to make room, or because the program did not go on.
    pub(crate) forgotten: u64,
    /// TCP flows at the moment.
    pub(crate) flows: usize,
    /// Programs' UDP sockets at the moment.
    pub(crate) udp_sockets: usize,
    /// UDP packets that found no room, or no association.
    pub(crate) udp_dropped: u64,
    /// Dropped, by reason.
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    /// Packets that are carried as they are (`--tcp raw`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<RawRow>,
}

/// What became of packets that are carried as they are.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(not(all(feature = "tunnel", target_os = "linux")), allow(dead_code, reason = "of tunnels only"))]
pub(crate) struct RawRow {
    #[serde(flatten)]
    pub(crate) packets: PacketRow,
    /// From or to addresses that the server has not given us.
    pub(crate) strange: u64,
    /// From the device while too many waited for the connection.
    pub(crate) full: u64,
}

impl StatsRow {
    pub(super) fn new(stats: &ConnectionStats, reconnects: u64, answers: AnswerCounts) -> Self {
        Self {
            server: String::new(),
            recovery: stats.recovery.to_string(),
            reconnects,
            early_answers: answers.early,
            early_answers_refused: answers.refused,
            destinations_known: answers.known,
            tun: None,
            counters: stats.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_were_made_again_are_counted_while_there_is_none() {
        let uplink = Uplink::without_server();
        uplink.live().past().reconnects = 2;
        let Role::Client(row) = snapshot(&uplink, &["vps.example:4433".into()]).role else {
            panic!("it is a client");
        };
        assert_eq!((row.connected, row.reconnects), (false, 2));
    }
}
