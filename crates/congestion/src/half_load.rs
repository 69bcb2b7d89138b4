//! What a path loses while the window is halved. A path that loses packets at any load loses as
//! many of them then; a queue that nobody sees, since jitter or a sender's bursts hide it, loses
//! hardly any.
//!
//! Counts in packets. The memory is some hundred packets, so that it follows the path.
//!
//! # Invariants
//! `0 <= lost <= all`.

use units::Instant;

use crate::loss_floor::is_more_than_chance;

/// Packets that are remembered.
const MEMORY: f64 = 300.0;
/// Losses that a probe may have missed by chance, and standard deviations besides.
const MISSED: f64 = 2.0;
const UNCERTAIN: f64 = 0.3;

/// Lost packets among those sent with half the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HalfLoad {
    lost: f64,
    all: f64,
    /// The largest window that these were sent with, in packets. Without a probe these are of slow start.
    load: f64,
    /// When the latest probe began, and when it ended if it has.
    probe: Option<(Instant, Option<Instant>)>,
}

impl HalfLoad {
    /// It is `now`, and a probe is under way or not; the window, halved while probing, is `window`
    /// packets. What was measured with more than that is no measure of half of it: the path is not
    /// what it was, or has others on it now.
    pub(crate) fn watch(&mut self, now: Instant, is_probing: bool, window: f64) {
        if is_probing {
            self.load = self.load.max(window);
        } else if window < self.load {
            (self.lost, self.all, self.load) = (0.0, 0.0, 0.0);
        }
        match self.probe {
            Some((from, None)) if !is_probing => self.probe = Some((from, Some(now))),
            Some((_, None)) => {}
            _ if is_probing => self.probe = Some((now, None)),
            _ => {}
        }
    }

    /// A round trip of slow start was without delay, with so many packets delivered and lost: a window that grew to
    /// twice as much would be probed with as many. It counts from [`HalfLoad::settle`] on.
    pub(crate) fn on_clear_round(&mut self, delivered: f64, lost: f64) {
        let all = delivered + lost;
        if self.probe.is_none() && all > self.load {
            let remembered = (MEMORY / all).min(1.0);
            (self.lost, self.all, self.load) = (lost * remembered, all * remembered, all);
        }
    }

    /// Whether a probe of a window of `window` packets would tell no more than a round trip of slow start has.
    pub(crate) fn covers(&self, window: f64) -> bool {
        self.probe.is_none() && self.load > 0.0 && self.load >= window / 2.0
    }

    /// What slow start has told takes the place of a probe at `now`.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.probe = Some((now, Some(now)));
    }

    /// So many packets, the last of them sent at `sent_at`, were delivered and lost.
    pub(crate) fn count(&mut self, sent_at: Instant, delivered: f64, lost: f64) {
        let Some((from, to)) = self.probe else { return };
        if sent_at <= from || to.is_some_and(|to| sent_at > to) {
            return;
        }
        self.lost += lost;
        self.all += delivered + lost;
        if self.all > MEMORY {
            self.lost *= MEMORY / self.all;
            self.all = MEMORY;
        }
    }

    /// The share that is lost with half the window, rather too large than too small, where losses
    /// have the index `dispersion`; `None` before any probe.
    pub(crate) fn share(&self, dispersion: f64) -> Option<f64> {
        self.probe?;
        let lost = self.lost / dispersion;
        let most = dispersion * (lost + MISSED + UNCERTAIN * lost.sqrt());
        (self.all >= 1.0).then(|| (most / self.all).min(1.0))
    }

    /// Whether losing `lost` of `all` packets is more than the load explains that the path loses
    /// anyway.
    pub(crate) fn is_exceeded(&self, lost: f64, all: f64, dispersion: f64) -> bool {
        self.share(dispersion).is_some_and(|share| is_more_than_chance(lost, share * all, dispersion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    /// A probe from 100 to 200 ms in which `delivered` and `lost` packets are sent, and as many
    /// again before and after.
    fn probed(delivered: f64, lost: f64) -> HalfLoad {
        let mut half = HalfLoad::default();
        half.watch(at(100), true, 50.0);
        half.count(at(100), 0.0, 100.0);
        half.count(at(150), delivered, lost);
        half.watch(at(200), false, 100.0);
        half.watch(at(250), false, 100.0);
        half.count(at(201), 0.0, 100.0);
        half
    }

    #[test]
    fn says_nothing_before_a_probe() {
        let mut half = HalfLoad::default();
        half.count(at(1), 0.0, 100.0);
        assert!(half.share(1.0).is_none() && !half.is_exceeded(300.0, 300.0, 1.0));
    }

    #[test]
    fn losses_that_half_the_load_does_not_have_are_the_load_s() {
        let half = probed(60.0, 0.0);
        assert!(half.is_exceeded(45.0, 300.0, 1.0));
        assert!(!half.is_exceeded(45.0, 300.0, 10.0), "four bursts and a half may all miss it");
        assert!(
            !half.is_exceeded(15.0, 300.0, 1.0),
            "five per cent may miss a probe of sixty packets by chance"
        );
    }

    #[test]
    fn losses_that_it_has_too_are_the_path_s() {
        for share in [0.01, 0.05, 0.1, 0.2] {
            let half = probed(100.0 * (1.0 - share), 100.0 * share);
            assert!(!half.is_exceeded(300.0 * share, 300.0, 1.0), "{share}");
        }
    }

    #[test]
    fn a_round_trip_of_slow_start_without_delay_is_as_good() {
        let mut half = HalfLoad::default();
        assert!(!half.covers(0.0));
        half.on_clear_round(1_000.0, 0.0);
        half.on_clear_round(1_980.0, 20.0);
        half.on_clear_round(600.0, 300.0); // less than before
        half.watch(at(100), false, 4_000.0);
        assert!(half.share(1.0).is_none(), "it is asked for first");
        assert!(half.covers(4_000.0) && !half.covers(4_001.0));
        half.settle(at(100));
        assert!(!half.covers(4_000.0) && half.is_exceeded(60.0, 300.0, 1.0));
        assert!(!half.is_exceeded(3.0, 300.0, 1.0), "the path's own");
        half.count(at(101), 0.0, 300.0);
        assert!(half.is_exceeded(60.0, 300.0, 1.0), "it is over");
        half.watch(at(101), false, 1_999.0);
        assert!(half.share(1.0).is_none());
    }

    #[test]
    fn a_larger_window_than_now_is_no_half() {
        let mut half = probed(60.0, 0.0);
        half.watch(at(300), false, 50.0);
        assert!(half.is_exceeded(45.0, 300.0, 1.0));
        half.watch(at(301), false, 49.0);
        assert!(half.share(1.0).is_none());
    }

    #[test]
    fn remembers_a_few_hundred_packets() {
        let mut half = probed(0.0, 300.0);
        half.watch(at(300), true, 50.0);
        half.count(at(400), 3_000.0, 0.0);
        assert!(half.share(1.0).is_some_and(|share| share < 0.12), "{half:?}");
    }
}
