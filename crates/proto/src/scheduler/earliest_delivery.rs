//! Earliest predicted delivery: a slower path never delays the end of what a faster one could have
//! delivered.
//!
//! Of the paths that can send now, the one on which the packet arrives first is the candidate. It
//! is used only if the packet arrives before the faster paths, whose window is used up or whose
//! pacer holds them back, would have delivered everything that is waiting: otherwise the packet
//! would be the last to arrive, and waiting for the faster path's window is better. This is the
//! question that the ECF and BLEST schedulers ask, with the growth of the window in slow start
//! added.
//!
//! A packet's delivery takes half a round trip and, with the path's loss probability, the round
//! trip and more that a loss would add.
//!
//! Packets that leave together stay together: a batch goes on where it began, as long as that costs
//! its packets no more than a timer can tell. Paths of equal speed would take turns by the packet
//! else, and every packet would cost a system call.
//!
//! # Invariants
//! - If no path can send, nothing is sent.
//! - With one path that can send, and no faster one, that path is used whatever its round-trip
//!   time.

use units::{Duration, Instant};

use super::Scheduler;
use crate::{GRANULARITY, PathSnapshot, wire::PathId};

/// A path is not worth waiting for unless it is faster by more than this factor.
const NEARLY_AS_FAST: f64 = 1.1;

#[derive(Debug, Default)]
pub(super) struct EarliestDelivery;

impl Scheduler for EarliestDelivery {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], queued: u64) -> Option<PathId> {
        let candidate = paths.iter().filter(|p| p.may_send()).min_by_key(|p| (arrival(p), p.id))?;
        let arrives = arrival(candidate);
        let waiting_is_better = paths
            .iter()
            .filter(|p| p.usable && !p.may_send())
            .filter(|p| one_way(p).mul_f64(NEARLY_AS_FAST) < one_way(candidate))
            .any(|faster| finish(faster, queued) <= arrives + candidate.rtt_variance);
        (!waiting_is_better).then_some(candidate.id)
    }

    fn stays(&mut self, now: Instant, last: PathId, paths: &[PathSnapshot], queued: u64) -> bool {
        let Some(best) = self.select(now, paths, queued) else { return false };
        let arrival_on = |id| paths.iter().find(|p| p.id == id && p.may_send()).map(arrival);
        best == last
            || arrival_on(last).zip(arrival_on(best)).is_some_and(|(last, best)| last <= best + GRANULARITY)
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

/// Time until a path that can send nothing at this moment would have delivered `queued` bytes by
/// itself: what its window has room for as its pacer lets it go, and the rest as its window opens.
fn finish(path: &PathSnapshot, queued: u64) -> Duration {
    let room = if path.has_window() { path.window.saturating_sub(path.in_flight) } else { 0 };
    if queued <= room {
        // The pacer spreads a window over four fifths of a round trip (RFC 9002 section 7.7).
        let spread = path.rtt.mul_f64(0.8 * queued as f64 / path.window.max(1) as f64);
        return path.pacing_wait + spread + one_way(path);
    }
    let by_window = drain(path, queued - room);
    by_rate(path, queued).map_or(by_window, |by_rate| by_rate.min(by_window))
}

/// Time until a path would have delivered `queued` bytes after all that is in flight, if it goes on
/// at the rate that it has, or that its window allows if that is less: a window that is larger than
/// the path needs says nothing about it.
fn by_rate(path: &PathSnapshot, queued: u64) -> Option<Duration> {
    let sending = path.delivery_rate.filter(|rate| rate.0 > 0)?.time_to_send(path.in_flight + queued);
    let windows = (path.in_flight + queued) as f64 / path.window.max(1) as f64;
    let until_acked = sending.max(path.min_rtt.mul_f64(windows));
    Some(until_acked.saturating_sub(path.rtt / 2).max(path.rtt / 2))
}

/// Time until a path whose window is full would have delivered `queued` bytes by itself.
///
/// ACKs of what is in flight let as much again go, twice as much in slow start, spread over time as
/// the packets were.
fn drain(path: &PathSnapshot, queued: u64) -> Duration {
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
    fn a_pacer_that_holds_the_fast_path_back_does_not_idle_the_slow_one() {
        let paced = PathSnapshot { pacing_wait: Duration::from_millis(2), ..path(0, 20, 120_000, 60_000) };
        let slow = path(1, 60, 12_000, 0);
        assert_eq!(select(&[paced, slow], 1_000_000), Some(1));
        assert_eq!(
            select(&[paced, slow], 60_000),
            None,
            "10 ms and the way: there before the slow path's 30 ms"
        );
    }

    #[test]
    fn a_path_whose_window_is_mostly_queue_is_judged_by_its_rate() {
        // 12 Mbit/s, 20 ms, and a window of which two thirds wait: 30 kB more are there in 70 ms.
        let queued = Duration::from_millis(60);
        let queueing = PathSnapshot { expected_rtt: queued, next_ack: queued, ..path(0, 20, 90_000, 90_000) };
        let slow = path(1, 180, 12_000, 0);
        assert_eq!(select(&[queueing, slow], 30_000), Some(1));
        let measured = PathSnapshot { delivery_rate: Some(units::BitRate::from_mbps(12)), ..queueing };
        assert_eq!(select(&[measured, slow], 30_000), None);
    }

    #[test]
    fn a_rate_that_the_window_does_not_allow_counts_for_nothing() {
        let rate = Some(units::BitRate::from_mbps(100));
        let narrow = PathSnapshot { delivery_rate: rate, ..path(0, 20, 12_000, 12_000) };
        let slow = path(1, 60, 12_000, 0);
        assert_eq!(select(&[narrow, slow], 120_000), Some(1), "eleven windows, not 11 ms");
        let wide = PathSnapshot { window: 250_000, in_flight: 250_000, ..narrow };
        assert_eq!(select(&[wide, slow], 12_000), None);
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
    fn a_batch_stays_where_it_began_unless_another_path_is_clearly_faster() {
        let stays =
            |paths: &[PathSnapshot]| EarliestDelivery.stays(Instant::ORIGIN, PathId(1), paths, 60_000);
        let (a, b) = (path(0, 50, 12_000, 0), path(1, 51, 12_000, 1_200));
        assert_eq!(select(&[a, b], 60_000), Some(0));
        assert!(stays(&[a, b]), "half a millisecond later");
        assert!(!stays(&[a, path(1, 53, 12_000, 1_200)]));
        assert!(!stays(&[a, PathSnapshot { in_flight: 12_000, ..b }]), "its window is used up");
        let (faster, slow) = (path(0, 20, 12_000, 12_000), path(1, 80, 12_000, 1_200));
        assert!(stays(&[faster, slow]), "with much to send");
        assert!(!EarliestDelivery.stays(Instant::ORIGIN, PathId(1), &[faster, slow], 1_200));
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
