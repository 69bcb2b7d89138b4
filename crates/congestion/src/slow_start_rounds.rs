//! The round trips of a controller that watches the delay: when slow start is over, and whether it
//! ended too early.
//!
//! Slow start ends when there is a queue (CTCP-A14), or when [`FULL_ROUNDS`] round trips in a row
//! have not delivered a quarter more than the best before: a link without a queue of its own, such
//! as a policer, shows no delay. An end by the delay is in *doubt* until a round trip that was sent
//! entirely after it has shown a queue as well; if it shows none, the delay was jitter, and slow
//! start goes on.
//!
//! Whether there is a queue is for the controller to say.

use units::{Duration, Instant};

use crate::{Ack, Loss};

/// Round trips without growth that end slow start.
const FULL_ROUNDS: u16 = 3;

/// What the current round trip has delivered and lost, and how slow start goes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SlowStartRounds {
    current: Round,
    /// Whether the application kept the current round trip from delivering more.
    limited: bool,
    /// What has been delivered since growth was last judged, and since when.
    since: Option<Instant>,
    delivered: u64,
    /// The most that was delivered from one judgement to the next.
    best: u64,
    /// Round trips in a row that have not delivered more than the best by a quarter.
    full: u16,
    /// Round trips that have ended since the delay ended slow start, until one of them has
    /// confirmed it.
    doubted: Option<u8>,
    /// A whole round trip after slow start has shown a queue: the link has been full.
    filled: bool,
    /// Whether the current round trip began in slow start.
    grows: bool,
}

/// One round trip, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Round {
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
}

impl Round {
    /// Whether more was lost than delivered, and more than a window of `minimum`.
    pub(crate) fn is_mostly_lost(&self, minimum: u64) -> bool {
        self.lost > self.delivered.max(minimum)
    }
}

impl SlowStartRounds {
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.current.delivered = self.current.delivered.saturating_add(ack.bytes);
        self.limited |= ack.app_limited;
    }

    pub(crate) fn on_loss(&mut self, loss: &Loss) {
        self.current.lost = self.current.lost.saturating_add(loss.bytes);
    }

    /// The current round trip is over at `now`, where they take `smoothed` on average: returns what
    /// it was.
    pub(crate) fn end(&mut self, now: Instant, smoothed: Duration) -> Round {
        let ended = core::mem::take(&mut self.current);
        self.delivered = self.delivered.saturating_add(ended.delivered);
        // The packet that ends a round trip may be one that overtook all others. In a third of the
        // average the window grows by a quarter, which noise hides.
        if now.saturating_duration_since(self.since.unwrap_or(Instant::ORIGIN)) >= smoothed.mul_f64(0.75) {
            self.since = Some(now);
            self.judge_growth();
        }
        ended
    }

    /// Whether the round trip that has just ended began in slow start, as the next one does or does not.
    pub(crate) fn has_grown(&mut self, grows: bool) -> bool {
        core::mem::replace(&mut self.grows, grows)
    }

    fn judge_growth(&mut self) {
        let delivered = core::mem::take(&mut self.delivered);
        let limited = core::mem::take(&mut self.limited);
        let grown = delivered > self.best.saturating_add(self.best / 4);
        self.best = self.best.max(delivered);
        self.full = if grown || limited { 0 } else { self.full.saturating_add(1) };
    }

    /// What the current round trip has lost so far, in bytes.
    pub(crate) fn lost(&self) -> u64 {
        self.current.lost
    }

    /// Whether slow start is to end, now that there is a queue or none. If it is, the queue has yet
    /// to be confirmed.
    pub(crate) fn is_over(&mut self, has_queue: bool) -> bool {
        let is_full = self.full >= FULL_ROUNDS;
        if has_queue || is_full {
            self.doubted = (!is_full).then_some(0);
        }
        has_queue || is_full
    }

    /// A round trip has ended, with a queue or none: whether slow start had been left for jitter.
    /// The second that ends after slow start was sent entirely after it, and tells.
    pub(crate) fn was_jitter(&mut self, has_queue: bool) -> bool {
        let Some(ended) = self.doubted else { return false };
        self.doubted = (ended == 0).then_some(1);
        self.filled |= ended > 0 && has_queue;
        ended > 0 && !has_queue
    }

    /// Whether a whole round trip after slow start has shown a queue. Before that a gap says
    /// little: what it saw may be a burst of one's own.
    pub(crate) fn has_filled(&self) -> bool {
        self.filled
    }

    /// What ended slow start may not have been.
    pub(crate) fn doubt(&mut self) {
        self.doubted = Some(0);
    }

    /// Whether slow start may yet go on, which the round trips to come will tell.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    /// The end of slow start was right, or is no longer of interest.
    pub(crate) fn confirm(&mut self) {
        self.doubted = None;
    }

    /// Slow start goes on.
    pub(crate) fn resume(&mut self) {
        (self.full, self.doubted) = (0, None);
    }

    /// What has been delivered so far is no measure: the route is a new one.
    pub(crate) fn forget_best(&mut self) {
        (self.best, self.filled) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends a round trip that delivered `bytes`.
    fn round(rounds: &mut SlowStartRounds, bytes: u64, app_limited: bool) {
        rounds.on_ack(&Ack { bytes, app_limited, ..Ack::default() });
        assert_eq!(rounds.end(Instant::ORIGIN, Duration::ZERO).delivered, bytes);
    }

    #[test]
    fn three_round_trips_without_growth_end_slow_start_for_good() {
        let mut rounds = SlowStartRounds::default();
        for (bytes, limited) in
            [(100, false), (125, false), (126, false), (110, true), (110, false), (110, false)]
        {
            round(&mut rounds, bytes, limited);
            assert!(!rounds.is_over(false), "{bytes}");
        }
        round(&mut rounds, 157, false); // 126 and a quarter, rounded down
        assert!(rounds.is_over(false));
        assert!(!rounds.was_jitter(false) && !rounds.was_jitter(false));
        rounds.resume();
        assert!(!rounds.is_over(false));
    }

    #[test]
    fn round_trips_that_reordering_cuts_short_are_judged_together() {
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        let mut rounds = SlowStartRounds::default();
        // A window that doubles in 60 ms, told in steps of 20.
        for n in 1..=12_u64 {
            let bytes = (1_000.0 * 2_f64.powf(n as f64 / 3.0)) as u64 * if n % 4 == 0 { 2 } else { 1 };
            rounds.on_ack(&Ack { bytes, ..Ack::default() });
            rounds.end(at(20 * n), Duration::from_millis(60));
            assert!(!rounds.is_over(false), "{n}");
        }
    }

    #[test]
    fn the_round_trip_in_which_slow_start_ends_has_grown() {
        let mut rounds = SlowStartRounds::default();
        let told = [true, true, false, false].map(|grows| rounds.has_grown(grows));
        assert_eq!(told, [false, true, true, false]);
    }

    #[test]
    fn an_end_by_the_delay_is_confirmed_by_the_second_round_trip() {
        let mut rounds = SlowStartRounds::default();
        assert!(rounds.is_over(true));
        assert!(!rounds.was_jitter(false)); // sent before the end
        let mut with_queue = rounds;
        assert!(!with_queue.has_filled() && !with_queue.was_jitter(true) && with_queue.has_filled());
        assert!(!with_queue.was_jitter(false));
        let mut without = rounds;
        assert!(without.was_jitter(false) && !without.was_jitter(false));
        rounds.confirm();
        assert!(!rounds.was_jitter(false));
        rounds.doubt();
        assert!(!rounds.was_jitter(false) && rounds.was_jitter(false) && !rounds.was_jitter(false));
    }

    #[test]
    fn a_new_route_is_measured_anew() {
        let mut rounds = SlowStartRounds::default();
        round(&mut rounds, 1_000, false);
        rounds.forget_best();
        for bytes in [10, 20, 40, 80] {
            round(&mut rounds, bytes, false);
            assert!(!rounds.is_over(false));
        }
    }

    #[test]
    fn losses_count_against_what_is_delivered_and_a_least_window() {
        let mut rounds = SlowStartRounds::default();
        rounds.on_loss(&Loss { bytes: 11, ..Loss::default() });
        assert_eq!(rounds.lost(), 11);
        rounds.on_ack(&Ack { bytes: 10, ..Ack::default() });
        let ended = rounds.end(Instant::ORIGIN, Duration::ZERO);
        assert!(ended.is_mostly_lost(10) && !ended.is_mostly_lost(11));
        assert_eq!(rounds.lost(), 0);
    }
}
