//! An estimate of the delay that mending saved.
//!
//! Had a packet not been mended, its data would have been sent again once the loss was known. The
//! peer would have had it one round trip of the path later at the least: half of one for the news
//! of the loss, half for the retransmission. Packets that are lost together are also sent again
//! together, so no more than one round trip counts for each that passed. Timers, which the ends of
//! transfers would have waited for, come on top and are not counted.

use std::{collections::BTreeMap, time::Duration};

use mendpath::{Connection, ConnectionStats, PathId, PathStats};
use tokio::time::Instant;

/// What there is to know of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mended {
    id: PathId,
    rtt: Duration,
    packets: u64,
}

impl From<&PathStats> for Mended {
    fn from(path: &PathStats) -> Self {
        Self { id: path.id, rtt: path.rtt, packets: path.packets_mended }
    }
}

/// Adds up what one connection saved, look by look.
#[derive(Debug)]
pub(crate) struct Saved {
    total: Duration,
    looked: Instant,
    /// Packets of each path that were mended at the last look.
    mended: BTreeMap<PathId, u64>,
    /// Packets of the peer that were rebuilt here at the last look.
    rebuilt: u64,
    /// Packets mended and rebuilt when a connection was looked at last.
    counted: u64,
}

impl Saved {
    /// Nothing yet, for a connection that began at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { total: Duration::ZERO, looked: now, mended: BTreeMap::new(), rebuilt: 0, counted: 0 }
    }

    /// Takes another look at a connection, whose paths are asked only if something was mended.
    pub(crate) fn look_at(
        &mut self,
        now: Instant,
        connection: &Connection,
        stats: &ConnectionStats,
    ) -> Duration {
        let counted = stats.packets_mended + stats.packets_rebuilt;
        if counted == self.counted {
            self.looked = now;
            return self.total;
        }
        self.counted = counted;
        let paths: Vec<Mended> = connection.path_stats().iter().map(Into::into).collect();
        self.look(now, &paths, stats.packets_rebuilt)
    }

    /// Takes another look, and returns what was saved since the beginning.
    pub(crate) fn look(&mut self, now: Instant, paths: &[Mended], rebuilt: u64) -> Duration {
        let passed = now.saturating_duration_since(self.looked);
        self.looked = now;
        for path in paths {
            let before = self.mended.insert(path.id, path.packets).unwrap_or(0);
            self.total += saved(path.packets.saturating_sub(before), path.rtt, passed);
        }
        self.mended.retain(|id, _| paths.iter().any(|path| path.id == *id));
        // What the peer lost may have been on any of the paths: the fastest makes the least of it.
        let fastest = paths.iter().map(|path| path.rtt).min().unwrap_or_default();
        self.total += saved(rebuilt.saturating_sub(self.rebuilt), fastest, passed);
        self.rebuilt = rebuilt;
        self.total
    }

    /// What the last look found.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}

fn saved(packets: u64, rtt: Duration, passed: Duration) -> Duration {
    rtt.saturating_mul(u32::try_from(packets).unwrap_or(u32::MAX)).min(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::tests::connected;

    fn path(id: u32, rtt_ms: u64, packets: u64) -> Mended {
        Mended { id: PathId(id), rtt: ms(rtt_ms), packets }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_round_trip_for_each_but_no_more_than_passed() {
        let start = Instant::now();
        let mut saved = Saved::new(start);
        let one = [path(0, 50, 3), path(1, 80, 0)];
        assert_eq!(saved.look(start + ms(1_000), &one, 0), ms(150));
        assert_eq!(saved.look(start + ms(2_000), &one, 0), ms(150), "each packet counts once");
        let many = [path(0, 50, 3), path(1, 80, 1_000)];
        assert_eq!(saved.look(start + ms(3_000), &many, 0), ms(1_150), "a second has passed");
        assert_eq!(saved.look(start + ms(4_000), &many, 2), ms(1_250), "rebuilt on the faster path");
    }

    /// Nobody mends anything for minutes, and then much is mended at once.
    #[tokio::test]
    async fn quiet_times_are_not_saved_later() {
        let (connection, _stream, _other) = connected().await;
        let start = Instant::now();
        let mut saved = Saved::new(start);
        let mut stats = connection.stats();
        assert_eq!(saved.look_at(start + ms(300_000), &connection, &stats), ms(0));
        stats.packets_rebuilt = 1_000_000_000;
        assert_eq!(saved.look_at(start + ms(301_000), &connection, &stats), ms(1_000));
    }

    #[test]
    fn paths_come_and_go() {
        let start = Instant::now();
        let mut saved = Saved::new(start);
        saved.look(start + ms(1_000), &[path(0, 50, 3)], 0);
        assert_eq!(saved.look(start + ms(2_000), &[], 5), ms(150), "nobody knows a round-trip time");
        assert_eq!(saved.look(start + ms(3_000), &[path(2, 10, 1)], 5), ms(160));
        assert_eq!(saved.total(), ms(160));
    }
}
