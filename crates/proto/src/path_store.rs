//! What was learnt of paths, for the next connections to the same peers.
//!
//! A connection lasts for a few exchanges, a path's habits for hours: who begins with what the last
//! connection has learnt need neither pay for protection that a good path does not want, nor learn
//! again at a bad one's expense, nor find out anew how much it carries.

use std::{
    collections::VecDeque,
    fmt,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use congestion::{Carried, Precedents};
use recovery::loss_history::LossHistory;
use units::{Duration, Instant};

use crate::NetworkPath;

/// How paths lose, what they carry and what is known of their load, by pair of addresses, shared by the
/// connections of one configuration. Ports do not count.
///
/// At most [`MAX_PATHS`](Self::MAX_PATHS) are kept; the one that was updated least recently goes
/// first. A history of losses that is recalled weighs at most
/// [`SHARED`](recovery::loss_history::SHARED) packets from its first loss on, so a new connection soon
/// trusts what it sees itself.
#[derive(Default)]
pub struct PathStore {
    /// The least recently updated first.
    paths: Mutex<VecDeque<(Addresses, Remembered)>>,
}

/// What is remembered of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Remembered {
    pub(crate) history: LossHistory,
    pub(crate) carried: Option<Carried>,
    /// Smoothed round-trip time: what a connection may assume before its first sample (RFC 9002
    /// section 6.2.2).
    pub(crate) rtt: Option<Duration>,
    pub(crate) load: Precedents,
}

/// What a connection adds to the precedents of a path's load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    pub(crate) now: Instant,
    /// Its first round trip, once.
    pub(crate) began_with: Option<Duration>,
    pub(crate) evidence: f32,
}

impl Remembered {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self { history: LossHistory::new(), carried: None, rtt: None, load: Precedents::default() }
    }
}

/// Ours and the peer's.
type Addresses = (IpAddr, IpAddr);

impl PathStore {
    /// Paths remembered at most.
    pub const MAX_PATHS: usize = 256;

    /// Paths remembered now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Keeps what a connection has learnt. What the path carries is what was last seen of the most:
    /// a connection with little to send says nothing against one with much. The precedents of its load
    /// are those of all connections, and what this one has found.
    pub(crate) fn remember(&self, network: &NetworkPath, path: Remembered, found: &Finding) {
        let addresses = key(network);
        let mut paths = self.lock();
        let known = paths.iter().rposition(|(of, _)| *of == addresses);
        let known = known.and_then(|at| paths.remove(at));
        if known.is_none() && paths.len() >= Self::MAX_PATHS {
            paths.pop_front();
        }
        let is_fresh = |of: &Carried| path.carried.is_none_or(|carried| of.is_fresh(carried.seen));
        let known = known.map_or(Remembered::new(), |(_, known)| known);
        let others = known.carried.filter(is_fresh);
        let carried = others.into_iter().chain(path.carried).max_by_key(|carried| carried.window);
        let mut load = known.load.with_evidence(found.evidence);
        if let Some(round_trip) = found.began_with {
            load.begin(found.now, round_trip);
        }
        paths.push_back((addresses, Remembered { carried, load, ..path }));
    }

    /// Takes what the path was seen to carry: of several connections that begin at once one resumes,
    /// and the others find out what is left.
    pub(crate) fn take_carried(&self, network: &NetworkPath) -> Option<Carried> {
        let addresses = key(network);
        let mut paths = self.lock();
        paths.iter_mut().rfind(|(of, _)| *of == addresses).and_then(|(_, path)| path.carried.take())
    }

    /// What to begin with on a path; nothing is known of paths never heard of.
    pub(crate) fn recall(&self, network: &NetworkPath) -> Remembered {
        let addresses = key(network);
        let paths = self.lock();
        let known = paths.iter().rfind(|(of, _)| *of == addresses);
        known.map_or(Remembered::new(), |(_, path)| Remembered { history: path.history.shared(), ..*path })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Addresses, Remembered)>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(network: &NetworkPath) -> Addresses {
    (network.local.ip(), network.remote.ip())
}

impl fmt::Debug for PathStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathStore").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn path(host: u16, port: u16) -> NetworkPath {
        let [high, low] = host.to_be_bytes();
        NetworkPath {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([192, 0, high, low], 443)),
        }
    }

    fn lossy(sent: u64, every: u64) -> Remembered {
        let mut history = LossHistory::new();
        for number in 0..sent {
            history.on_sent();
            if number % every == 0 {
                history.on_lost(recovery::PacketNumber(number));
            }
        }
        Remembered { history, ..Remembered::new() }
    }

    const NOTHING: Finding = Finding { now: Instant::ORIGIN, began_with: None, evidence: 0.0 };

    #[test]
    fn a_path_is_known_by_its_addresses_without_ports() {
        let store = PathStore::default();
        store.remember(&path(1, 1_000), lossy(1_000, 10), &NOTHING);
        assert!((0.09..0.11).contains(&store.recall(&path(1, 2_000)).history.loss()));
        assert_eq!(store.recall(&path(2, 1_000)).history, LossHistory::new());
        assert!(store.recall(&path(1, 1)).history.sent() <= recovery::loss_history::SHARED);
        store.remember(&path(1, 1), lossy(2_000, 2_001), &NOTHING);
        assert_eq!(store.len(), 1);
        assert!(store.recall(&path(1, 1)).history.loss() < 0.01);
        let carried = Carried {
            window: 100_000,
            min_rtt: units::Duration::from_millis(50),
            pace: None,
            seen: units::Instant::ORIGIN,
        };
        store.remember(&path(1, 1), Remembered { carried: Some(carried), ..lossy(10, 2) }, &NOTHING);
        assert_eq!(store.take_carried(&path(1, 2)), Some(carried));
        assert_eq!(store.take_carried(&path(1, 2)), None, "it is one connection's");
    }

    #[test]
    fn a_connection_with_little_to_send_says_nothing_against_one_with_much() {
        let store = PathStore::default();
        let carried = |window| Carried {
            window,
            min_rtt: units::Duration::from_millis(50),
            pace: None,
            seen: units::Instant::ORIGIN,
        };
        let rest = |carried| {
            store.remember(&path(1, 1), Remembered { carried: Some(carried), ..Remembered::new() }, &NOTHING);
        };
        let rests = |window| rest(carried(window));
        rests(100_000);
        rests(2_000);
        store.remember(&path(1, 1), Remembered::new(), &NOTHING);
        assert_eq!(store.take_carried(&path(1, 1)), Some(carried(100_000)));
        rests(2_000);
        assert_eq!(store.take_carried(&path(1, 1)), Some(carried(2_000)));
        rests(100_000);
        let later = Carried { seen: units::Instant::ORIGIN + Duration::from_secs(600), ..carried(2_000) };
        rest(later);
        assert_eq!(store.take_carried(&path(1, 1)), Some(later), "what was long ago is no measure");
    }

    #[test]
    fn a_full_store_forgets_what_was_not_updated_for_longest() {
        let store = PathStore::default();
        store.remember(&path(0, 1), lossy(1_000, 2), &NOTHING);
        store.remember(&path(1, 1), lossy(1_000, 2), &NOTHING);
        for host in 2..PathStore::MAX_PATHS as u16 {
            store.remember(&path(host, 1), lossy(10, 2), &NOTHING);
        }
        store.remember(&path(0, 1), lossy(1_000, 2), &NOTHING);
        store.remember(&path(9_999, 1), lossy(10, 2), &NOTHING);
        assert_eq!(store.len(), PathStore::MAX_PATHS);
        assert!(store.recall(&path(0, 1)).history.loss() > 0.4);
        assert_eq!(store.recall(&path(1, 1)).history, LossHistory::new());
    }

    #[test]
    fn what_every_connection_has_found_of_the_load_is_kept() {
        let store = PathStore::default();
        let ms = Duration::from_millis;
        let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
        for n in 0..5 {
            let found = Finding { now: at(n), began_with: Some(ms(50 - n)), evidence: 0.5 };
            store.remember(&path(1, 1), lossy(10, 2), &found);
            store.remember(&path(1, 1), lossy(10, 2), &Finding { began_with: None, evidence: 1.5, ..found });
        }
        let load = store.recall(&path(1, 2)).load;
        assert_eq!((load.base_rtt(), load.evidence()), (Some(ms(46)), 1.5));
        assert_eq!(load.fresh(at(603)), load);
        assert_eq!(load.fresh(at(604)), Precedents::default(), "it is old");
        assert_eq!(store.recall(&path(2, 2)).load, Precedents::default());
    }
}
