//! What a running client or server shows of itself: on the page of `--admin`, and to `mendpath
//! status`. Both get the same [`Snapshot`].
//!
//! [`Live`] is what the process writes down as it goes: what happened, and what is carried where.
//! Everything else in a snapshot is asked of the transport when somebody looks.

mod control;
mod counters;
mod feed;
mod journal;
mod path_counts;
mod path_row;
mod saved;
mod silences;
mod snapshot;
mod text;
mod times;
mod traffic;
mod wishes;

pub(crate) use control::{Control, all_places, places, running};
pub(crate) use counters::Counters;
pub use feed::{Draining, Running};
pub(crate) use feed::{Feed, MAX_VIEWERS, Viewer};
pub(crate) use journal::Journal;
pub use journal::{EventKind, EventRow};
pub(crate) use path_counts::{OTHERS, PATH_COUNTERS, PathBooks, PathCounts};
pub use path_row::PathRow;
pub(crate) use saved::Saved;
pub(crate) use silences::Silences;
pub use snapshot::{AccountRow, ClientRow, PeerRow, Role, ServerRow, Snapshot};
pub(crate) use snapshot::{by_name, peer};
pub(crate) use text::screen;
pub(crate) use times::{Outcome, Protocol, Timed, Times};
pub use traffic::{DestinationRow, TrafficRow};
pub(crate) use traffic::{Flow, Traffic};
pub use wishes::{Change, Order};
pub(crate) use wishes::{Terms, Wishes};

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use mendpath::{Connection, PathId, PathStats};
use tokio::time::Instant;

use crate::interfaces::PathSpec;

/// Destinations in a snapshot.
const DESTINATIONS: usize = 40;
/// Events in a snapshot.
const EVENTS: usize = 40;

/// What a process writes down for those who look.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) journal: Journal,
    pub(crate) traffic: Traffic,
    /// What the user wants of a client's paths.
    pub(crate) wishes: Wishes,
    pub(crate) times: Times,
    /// Which paths a client was asked for; every usable one when empty.
    pub(crate) specs: Vec<PathSpec>,
    /// What a client's paths and its ended connections have counted.
    past: Mutex<Past>,
    names: Mutex<BTreeMap<PathId, String>>,
    began: Instant,
    began_unix_ms: u64,
}

/// What a client's earlier connections did, and its paths by name.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) connections: Counters,
    /// Connections made after the first.
    pub(crate) reconnects: u64,
    pub(crate) paths: PathBooks,
    /// The connection that is used, which is not among those above; also while its server does not
    /// answer.
    pub(crate) present: Option<Connection>,
    /// Those that are used no more, and over which what ran may still end, until that is written down
    /// above.
    pub(crate) left: Vec<Left>,
}

/// A connection that is used no more.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) connection: Connection,
    /// How many were made before it.
    pub(crate) number: u64,
    /// What its paths are called.
    pub(crate) names: BTreeMap<PathId, String>,
}

impl Past {
    /// Writes down what those did that have ended, and what the paths of all of them did.
    pub(crate) fn settle(&mut self) {
        let Self { connections, left, paths, .. } = self;
        left.retain(|Left { connection, number, names }| {
            let ended = connection.close_reason().is_some();
            paths.look(*number, &path_counts(connection, names));
            if ended {
                *connections += (&connection.stats()).into();
                paths.forget(*number);
            }
            !ended
        });
    }

    /// What all connections have done.
    pub(crate) fn totals(&mut self) -> Counters {
        self.settle();
        let mut totals = self.connections;
        for connection in self.left.iter().map(|left| &left.connection).chain(&self.present) {
            totals += (&connection.stats()).into();
        }
        totals
    }
}

impl Live {
    /// Nothing yet. `names`: whether to write down the hosts that connections lead to.
    pub(crate) fn new(names: bool) -> Self {
        Self {
            journal: Journal::default(),
            traffic: Traffic::new(names),
            wishes: Wishes::default(),
            times: Times::default(),
            specs: Vec::new(),
            past: Mutex::default(),
            names: Mutex::default(),
            began: Instant::now(),
            began_unix_ms: unix_ms(),
        }
    }

    /// The same of a client that was asked for these paths.
    pub(crate) fn of_client(names: bool, specs: Vec<PathSpec>) -> Self {
        Self { specs, ..Self::new(names) }
    }

    /// When the process began its work, in seconds since 1970.
    pub(crate) fn began_unix(&self) -> f64 {
        self.began_unix_ms as f64 / 1e3
    }

    /// What was before. Whoever holds this sees no connection end.
    pub(crate) fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the paths of a client's connection are called.
    pub(crate) fn path_names(&self) -> MutexGuard<'_, BTreeMap<PathId, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the paths of a client's connection have counted, by name.
    pub(crate) fn path_counts(&self, connection: &Connection) -> Vec<(String, PathId, PathCounts)> {
        path_counts(connection, &self.path_names())
    }

    /// A snapshot with what is written down here and what the transport said.
    pub(crate) fn snapshot(
        &self,
        role: Role,
        counters: Option<&Counters>,
        saved: Duration,
        paths: Vec<PathRow>,
    ) -> Snapshot {
        Snapshot {
            schema: Cow::Borrowed(snapshot::SCHEMA),
            version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
            unix_ms: unix_ms(),
            uptime_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            role,
            totals: counters.map(by_name).unwrap_or_default(),
            saved_ms: saved.as_secs_f64() * 1e3,
            paths,
            traffic: self.traffic.row(DESTINATIONS),
            events: self.journal.newest(EVENTS),
        }
    }
}

/// What people call a path of a client.
pub(crate) fn path_name(names: &BTreeMap<PathId, String>, path: &PathStats) -> String {
    names.get(&path.id).cloned().unwrap_or_else(|| path.network.local.ip().to_string())
}

fn path_counts(
    connection: &Connection,
    names: &BTreeMap<PathId, String>,
) -> Vec<(String, PathId, PathCounts)> {
    let named = |path: &PathStats| (path_name(names, path), path.id, path.into());
    connection.path_stats().iter().map(named).collect()
}

/// The wall clock, for people to read.
#[allow(clippy::disallowed_methods, reason = "people want to know when something happened")]
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{association::tests::connected, protocol::CloseCode};

    /// A download may go on for hours over a connection to a server that drains.
    #[tokio::test]
    async fn what_passes_after_a_connection_was_left_counts_too() {
        let (connection, (mut send, _receive), other) = connected().await;
        let names = BTreeMap::from([(PathId(0), "wlan0".to_owned())]);
        let left = Left { connection: connection.clone(), number: 0, names };
        let mut past = Past { left: vec![left], ..Past::default() };
        let sent = |past: &mut Past| {
            let totals = past.totals();
            let found = totals.iter().find(|(counter, _)| counter.name == "stream_bytes_sent");
            found.expect("it is a counter").1
        };
        let by_path = |past: &Past| past.paths.sums()["wlan0"].value(0);
        let before = sent(&mut past);
        let before_by_path = by_path(&past);
        send.write_all(b"more").await.unwrap();
        let _arrived = other.accept_bi().await.unwrap();
        assert_eq!(sent(&mut past), before + 4);
        assert!(by_path(&past) > before_by_path + 4, "its path counts, too");
        connection.close(CloseCode::Done.into(), b"");
        assert_eq!(sent(&mut past), before + 4, "that it ends takes nothing away");
        assert!(past.left.is_empty(), "it is written down");
    }
}
