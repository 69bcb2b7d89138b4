//! Earliest predicted delivery: a slower path never delays the end of what a faster one could have delivered.
//!
//! Of the paths with window left, the one on which the packet arrives first is the candidate. It is used only if the packet
//! arrives before the faster paths, all their window used, would have delivered everything that is waiting: otherwise the
//! packet would be the last to arrive, and waiting for the faster path's window is better. This is the question that the
//! ECF and BLEST schedulers ask, with the growth of the window in slow start added.
//!
//! A packet's delivery takes half a round trip, the pacer's wait, and, with the path's loss probability, the round trip and
//! more that a loss would add.
//!
//! # Invariants
//! - If every path is full, nothing is sent.
//! - With one path that has window left, and no faster one, that path is used whatever its round-trip time.

use units::{Duration, Instant};

use super::Scheduler;
use crate::{snapshot::PathSnapshot, wire::PathId};

/// A path is not worth waiting for unless it is faster by more than this factor.
const NEARLY_AS_FAST: f64 = 1.1;

#[derive(Debug)]
pub(super) struct EarliestDelivery;

impl Scheduler for EarliestDelivery {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], queued: u64) -> Option<PathId> {
        let candidate = paths.iter().filter(|p| p.has_window()).min_by_key(|p| (arrival(p), p.id))?;
        let arrives = arrival(candidate);
        let waiting_is_better = paths
            .iter()
            .filter(|p| {
                p.usable && !p.has_window() && one_way(p).mul_f64(NEARLY_AS_FAST) < one_way(candidate)
            })
            .any(|faster| finish(faster, queued) <= arrives + candidate.rtt_variance);
        if waiting_is_better || !candidate.pacing_wait.is_zero() {
            return None;
        }
        Some(candidate.id)
    }
}

/// Time a packet takes on a path, losses included in proportion to their probability.
fn one_way(path: &PathSnapshot) -> Duration {
    let repair = (path.rtt + path.rtt_variance * 2).mul_f64(path.loss_rate.min(0.5));
    path.rtt / 2 + (path.expected_rtt - path.rtt) + repair
}

/// Time until a packet sent next on a path with window left arrives.
fn arrival(path: &PathSnapshot) -> Duration {
    path.pacing_wait + one_way(path)
}

/// Time until a path whose window is full would have delivered `queued` bytes by itself.
///
/// ACKs of what is in flight let as much again go, twice as much in slow start, spread over time as the packets were.
fn finish(path: &PathSnapshot, queued: u64) -> Duration {
    let windows = queued as f64 / path.window.max(1) as f64;
    let rounds = if path.slow_start { (1.0 + windows).log2() } else { windows };
    let first_round = path.next_ack + path.ack_spread.min(path.rtt).mul_f64(rounds.min(1.0));
    first_round + path.rtt.mul_f64((rounds - 1.0).max(0.0)) + one_way(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(id: u32, rtt_ms: u64, window: u64, in_flight: u64) -> PathSnapshot {
        PathSnapshot {
            window,
            in_flight,
            ..PathSnapshot::new(PathId(id), Duration::from_millis(rtt_ms), 1_200)
        }
    }

    fn select(paths: &[PathSnapshot], queued: u64) -> Option<u32> {
        EarliestDelivery.select(Instant::ORIGIN, paths, queued).map(|p| p.0)
    }

    #[test]
    fn the_faster_path_first_then_both_while_much_is_waiting() {
        let (fast, slow) = (path(0, 20, 12_000, 0), path(1, 60, 12_000, 0));
        assert_eq!(select(&[fast, slow], 1_000_000), Some(0));
        let full = PathSnapshot { in_flight: 12_000, ..fast };
        assert_eq!(select(&[full, slow], 1_000_000), Some(1), "the fast path alone would take far longer");
        assert_eq!(
            select(&[full, slow], 1_200),
            None,
            "the fast path delivers the rest before the slow one could"
        );
        let slow_full = PathSnapshot { in_flight: 12_000, ..slow };
        assert_eq!(select(&[full, slow_full], 1_000_000), None);
    }

    #[test]
    fn equal_paths_share() {
        let (a, b) = (path(0, 50, 12_000, 12_000), path(1, 50, 12_000, 0));
        assert_eq!(select(&[a, b], 1_200), Some(1));
    }

    #[test]
    fn nobody_waits_for_a_path_that_is_not_usable() {
        let (dead, slow) = (path(0, 20, 12_000, 12_000), path(1, 60, 12_000, 0));
        assert_eq!(select(&[PathSnapshot { usable: false, ..dead }, slow], 1_200), Some(1));
    }

    #[test]
    fn a_lossy_path_counts_as_slower() {
        let (a, b) = (path(0, 50, 12_000, 0), path(1, 50, 12_000, 0));
        assert_eq!(select(&[PathSnapshot { loss_rate: 0.02, ..a }, b], 60_000), Some(1));
    }

    #[test]
    fn slow_start_makes_the_fast_path_faster() {
        let full = path(0, 20, 12_000, 12_000);
        let slow = path(1, 150, 12_000, 0);
        assert_eq!(select(&[full, slow], 60_000), Some(1), "60 kB need five windows, 110 ms");
        let growing = PathSnapshot { slow_start: true, ..full };
        assert_eq!(select(&[growing, slow], 60_000), None, "or two to three in slow start, 62 ms");
    }
}
