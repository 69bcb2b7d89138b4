//! `mendpath client --admin`: its paths and its connection.

use std::sync::Arc;

use mendpath::ConnectionStats;
use serde::Serialize;
use tokio::{net::TcpStream, time::Instant};

use super::{
    Session, Uplink,
    answers::{AnswerCounts, Answers},
    metrics,
};
use crate::{
    admin::{self, Answer, Counters, METRICS_KIND, json},
    listener::Place,
    status::{ClientRow, Feed, PathRow, Role, Snapshot},
};

/// What is shown, and to whom.
pub(super) struct Statistics {
    uplink: Uplink,
    answers: Arc<Answers>,
    feed: Arc<Feed>,
}

impl Statistics {
    /// Of the connection to the server that `invitation` names.
    pub(super) fn new(uplink: Uplink, answers: Arc<Answers>, server: String) -> Arc<Self> {
        let feed = {
            let uplink = uplink.clone();
            Feed::of_client(uplink.live().clone(), move || snapshot(&uplink, &server))
        };
        Arc::new(Self { uplink, answers, feed })
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
        let session = self.uplink.now();
        let paths = session.as_ref().map(paths).unwrap_or_default();
        let stats = session.as_ref().map(|session| {
            StatsRow::new(&session.connection.stats(), session.reconnects, self.answers.counts())
        });
        match path {
            "/paths" => Some(json(&paths)),
            "/stats" => Some(json(&stats)),
            "/metrics" => Some(Answer::Text(200, METRICS_KIND, metrics::metrics(paths, stats))),
            "/events" => Some(Answer::Events(self.feed.clone())),
            _ => None,
        }
    }
}

fn paths(session: &Session) -> Vec<PathRow> {
    let names = session.live.path_names();
    let name = |path: &mendpath::PathStats| {
        names.get(&path.id).cloned().unwrap_or_else(|| path.network.local.ip().to_string())
    };
    session.connection.path_stats().iter().map(|path| PathRow::new(path, name(path))).collect()
}

fn snapshot(uplink: &Uplink, server: &str) -> Snapshot {
    let session = uplink.now();
    let stats = session.as_ref().map(|session| session.connection.stats());
    let role = ClientRow {
        server: server.to_owned(),
        connected: session.is_some(),
        reconnects: session.as_ref().map_or(0, |session| session.reconnects),
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
    recovery: String,
    pub(super) reconnects: u64,
    pub(super) early_answers: u64,
    pub(super) early_answers_refused: u64,
    pub(super) destinations_known: u64,
    #[serde(flatten)]
    pub(super) counters: Counters,
}

impl StatsRow {
    pub(super) fn new(stats: &ConnectionStats, reconnects: u64, answers: AnswerCounts) -> Self {
        Self {
            recovery: stats.recovery.to_string(),
            reconnects,
            early_answers: answers.early,
            early_answers_refused: answers.refused,
            destinations_known: answers.known,
            counters: stats.into(),
        }
    }
}
