//! What streams are told of the paths: how long news takes, and how many bytes are under way when
//! nothing holds them up.

use units::{Duration, Instant};

use super::Connection;
use crate::{GRANULARITY, path::Path, streams::Network};

impl Connection {
    /// Tells the streams the time and the state of the paths; before anything that moves windows.
    pub(super) fn tell_streams(&mut self, now: Instant) {
        let works = |p: &&Path| p.works();
        let rtt = self.paths.values().filter(works).map(|p| p.rtt().smoothed()).max();
        let rtt =
            rtt.or_else(|| self.paths.values().map(|p| p.rtt().smoothed()).max()).unwrap_or(Duration::ZERO);
        // The slowest path decides how long a hole stays: for so long the others deliver behind it.
        let need = self.paths.values().filter(works).map(|p| {
            let own = p.rtt().smoothed().max(GRANULARITY);
            u128::from(p.window()) * u128::from(rtt.max(own).as_nanos()) / u128::from(own.as_nanos())
        });
        let need = u64::try_from(need.sum::<u128>()).unwrap_or(u64::MAX);
        self.streams.note_network(Network { now, rtt, need });
    }
}
