//! Earliest completion first (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP Path Scheduler to Manage
//! Heterogeneous Paths", CoNEXT 2017, algorithm 1).
//!
//! While the fastest path has room it takes everything. When it has none, a slower one is used only
//! if what is left would not be there earlier by waiting for the fastest:
//!
//! | paper            | here                                       |
//! |------------------|--------------------------------------------|
//! | x_f, x_s         | the fastest; the fastest of those with room |
//! | k                | `queued`, in bytes                         |
//! | CWND, RTT, sigma | `window`, `rtt`, `rtt_variance`            |
//! | beta             | [`BETA`]: hysteresis of waiting            |

use units::Instant;

use super::{Scheduler, slow_and_fast};
use crate::{PathSnapshot, wire::PathId};

/// How much longer than at first it goes on waiting (section 4.2).
const BETA: f64 = 0.25;

#[derive(Debug, Default)]
pub(super) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], queued: u64) -> Option<PathId> {
        let (slow, fast) = slow_and_fast(paths)?;
        let Some(fast) = fast else { return Some(slow.id) };
        let (fast_rtt, slow_rtt) = (fast.rtt.as_secs_f64(), slow.rtt.as_secs_f64());
        let margin = fast.rtt_variance.max(slow.rtt_variance).as_secs_f64();
        let windows = |path: &PathSnapshot| queued as f64 / path.window.max(1) as f64;
        let patience = if self.waiting { 1.0 + BETA } else { 1.0 };
        let is_early = (1.0 + windows(fast)) * fast_rtt < patience * (slow_rtt + margin);
        if is_early && windows(slow) * slow_rtt >= 2.0 * fast_rtt + margin {
            self.waiting = true;
            return None;
        }
        if !is_early {
            self.waiting = false;
        }
        Some(slow.id)
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    fn path(id: u32, rtt: u64, in_flight: u64) -> PathSnapshot {
        let mut path = PathSnapshot::new(PathId(id), Duration::from_millis(rtt), 1_200);
        path.in_flight = in_flight * 1_200;
        path
    }

    fn choose(ecf: &mut Ecf, packets: u64, paths: &[PathSnapshot]) -> Option<u32> {
        ecf.select(Instant::ORIGIN, paths, packets * 1_200).map(|id| id.0)
    }

    #[test]
    fn it_waits_for_the_fast_one_if_that_is_earlier() {
        let ecf = &mut Ecf::default();
        assert_eq!(choose(ecf, 5, &[path(0, 10, 3), path(1, 100, 0)]), Some(0), "it has room");
        // Ten left take two rounds of 10 ms, less than 100 ms; 10/10 of 100 ms are more than 20 ms.
        let full = [path(0, 10, 10), path(1, 100, 0)];
        assert_eq!(choose(ecf, 10, &full), None);
        // So many that the fast one alone is later than the slow one's round trip.
        assert_eq!(choose(ecf, 200, &full), Some(1));
        // A single one: a tenth of a window on the slow one counts less than two fast rounds.
        assert_eq!(choose(ecf, 1, &full), Some(1));
    }

    #[test]
    fn waiting_goes_on_a_little_longer_than_it_begins() {
        let full = [path(0, 10, 10), path(1, 100, 0)];
        // 95 left: 10.5 rounds of 10 ms are more than 100 ms, but less than 125 ms.
        assert_eq!(choose(&mut Ecf::default(), 95, &full), Some(1));
        assert_eq!(choose(&mut Ecf { waiting: true }, 95, &full), None);
        assert_eq!(choose(&mut Ecf { waiting: true }, 120, &full), Some(1));
    }
}
