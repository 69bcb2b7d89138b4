//! How paths have lost, for the next connections to the same peers.
//!
//! A connection lasts for a few exchanges, a path's habits for hours: who begins with what the last
//! connection has learnt need neither pay for protection that a good path does not want, nor learn
//! again at a bad one's expense.

use std::{
    collections::VecDeque,
    fmt,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use recovery::loss_history::LossHistory;

use crate::NetworkPath;

/// Loss histories by pair of addresses, shared by the connections of one configuration. Ports do
/// not count.
///
/// At most [`MAX_PATHS`](Self::MAX_PATHS) are kept; the one that was updated least recently goes
/// first. A history that is recalled weighs at most [`SHARED`](recovery::loss_history::SHARED)
/// packets, so a new connection soon trusts what it sees itself.
#[derive(Default)]
pub struct LossStore {
    /// The least recently updated first.
    histories: Mutex<VecDeque<(Addresses, LossHistory)>>,
}

/// Ours and the peer's.
type Addresses = (IpAddr, IpAddr);

impl LossStore {
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

    pub(crate) fn remember(&self, network: &NetworkPath, history: &LossHistory) {
        let addresses = key(network);
        let mut histories = self.lock();
        match histories.iter().rposition(|(of, _)| *of == addresses) {
            Some(known) => _ = histories.remove(known),
            None if histories.len() >= Self::MAX_PATHS => _ = histories.pop_front(),
            None => {}
        }
        histories.push_back((addresses, *history));
    }

    /// What to begin with on a path; nothing is known of paths never heard of.
    pub(crate) fn recall(&self, network: &NetworkPath) -> LossHistory {
        let addresses = key(network);
        let histories = self.lock();
        let known = histories.iter().rfind(|(of, _)| *of == addresses);
        known.map_or_else(LossHistory::new, |(_, history)| history.shared())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Addresses, LossHistory)>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(network: &NetworkPath) -> Addresses {
    (network.local.ip(), network.remote.ip())
}

impl fmt::Debug for LossStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossStore").field("len", &self.len()).finish_non_exhaustive()
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

    fn history(sent: u64, every: u64) -> LossHistory {
        let mut history = LossHistory::new();
        for number in 0..sent {
            history.on_sent();
            if number % every == 0 {
                history.on_lost(recovery::PacketNumber(number));
            }
        }
        history
    }

    #[test]
    fn a_path_is_known_by_its_addresses_without_ports() {
        let store = LossStore::default();
        store.remember(&path(1, 1_000), &history(1_000, 10));
        assert!((0.09..0.11).contains(&store.recall(&path(1, 2_000)).loss()));
        assert_eq!(store.recall(&path(2, 1_000)), LossHistory::new());
        assert!(store.recall(&path(1, 1)).sent() <= recovery::loss_history::SHARED);
        store.remember(&path(1, 1), &history(2_000, 2_001));
        assert_eq!(store.len(), 1);
        assert!(store.recall(&path(1, 1)).loss() < 0.01);
    }

    #[test]
    fn a_full_store_forgets_what_was_not_updated_for_longest() {
        let store = LossStore::default();
        store.remember(&path(0, 1), &history(1_000, 2));
        store.remember(&path(1, 1), &history(1_000, 2));
        for host in 2..LossStore::MAX_PATHS as u16 {
            store.remember(&path(host, 1), &history(10, 2));
        }
        store.remember(&path(0, 1), &history(1_000, 2));
        store.remember(&path(9_999, 1), &history(10, 2));
        assert_eq!(store.len(), LossStore::MAX_PATHS);
        assert!(store.recall(&path(0, 1)).loss() > 0.4);
        assert_eq!(store.recall(&path(1, 1)), LossHistory::new());
    }
}
