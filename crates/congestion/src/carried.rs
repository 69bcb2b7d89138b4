//! What a path has been seen to carry, and how that is found out.

use units::{BitRate, Duration, Instant};

use crate::Ack;

/// For how long it is believed. RFC 9959 leaves that to the sender; the routes and neighbours of a
/// path stay the same for minutes, often not for hours.
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);
/// The share of a new measurement where the path seems to carry less than before.
const GAIN: u64 = 8;

/// What a path carries: what a later connection over it may begin with, RFC 9959's saved
/// parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Bytes delivered within a round trip, without those that only filled a queue: `saved_cwnd`.
    pub window: u64,
    /// The smallest round-trip time: `saved_rtt`.
    pub min_rtt: Duration,
    /// The rate at which a burst from rest may leave; `None` if nothing more is known than what
    /// follows from the window.
    pub pace: Option<BitRate>,
    /// When at least half of the window was last seen to be carried.
    pub seen: Instant,
}

impl Carried {
    /// Whether it was seen lately enough to be believed.
    pub fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.seen) < LIFETIME
    }

    /// Whether `rtt` shows that there is no queue on the path: where somebody's stands, there is no
    /// room.
    pub(crate) fn is_free_at(&self, rtt: Duration) -> bool {
        rtt <= self.min_rtt + (self.min_rtt / 4).max(Duration::from_millis(2))
    }
}

/// What a controller knows of its path that another connection may begin with, and what came of
/// what it began with itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Resumption {
    /// What the path has been seen to carry.
    pub carried: Option<Carried>,
    /// How often the window was raised to what was known of the path.
    pub jumps: u64,
    /// How often that, or a burst with an old window, turned out to be too much.
    pub retreats: u64,
}

/// Counts what arrives, round trip by round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    began: Option<Instant>,
    acked: u64,
    last_ack: Instant,
    /// Whether the sender lacked data in it.
    app_limited: bool,
}

impl Rounds {
    /// Counts an acknowledgement. Returns what a round trip has carried if one has ended with it,
    /// and whether that is all that the window would have let it.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Option<(u64, bool)> {
        let ends = self.began.is_some_and(|began| ack.largest_sent_at >= began);
        let ended = ends.then(|| (self.carried(ack.rtt.min), !self.app_limited));
        if ends || self.began.is_none() {
            *self = Self { began: Some(ack.now), last_ack: ack.now, ..Self::default() };
        }
        self.acked = self.acked.saturating_add(ack.bytes);
        self.last_ack = ack.now;
        self.app_limited |= ack.app_limited;
        ended
    }

    /// What the round trip under way has carried: as much as fits into one without a queue.
    pub(crate) fn carried(&self, min_rtt: Duration) -> u64 {
        let took = self.began.map_or(Duration::ZERO, |began| self.last_ack - began).max(min_rtt);
        let share = u128::from(self.acked) * u128::from(min_rtt.as_nanos());
        (share / u128::from(took.as_nanos().max(1))) as u64
    }
}

/// Takes what a round trip has carried into account. `full`: the window would not have let it be
/// more.
pub(crate) fn learn(known: Option<Carried>, carried: u64, full: bool, ack: &Ack) -> Carried {
    let (min_rtt, seen) = (ack.rtt.min, ack.now);
    let Some(known) = known else { return Carried { window: carried, min_rtt, pace: None, seen } };
    if carried >= known.window {
        return Carried { window: carried, min_rtt, seen, ..known };
    }
    let less = if full { (known.window - carried) / GAIN } else { 0 };
    Carried {
        window: known.window - less,
        min_rtt: known.min_rtt.min(min_rtt),
        seen: if carried >= known.window / 2 { seen } else { known.seen },
        ..known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn ack(now: u64, sent: u64, bytes: u64) -> Ack {
        let rtt = Rtt { min: Duration::from_millis(50), ..Rtt::default() };
        Ack { now: at(now), largest_sent_at: at(sent), bytes, rtt, ..Ack::default() }
    }

    #[test]
    fn a_round_trip_s_bytes_count_and_a_queue_does_not() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.on_ack(&ack(50, 0, 1_000)), None);
        assert_eq!(rounds.on_ack(&ack(70, 20, 59_000)), None);
        assert_eq!(rounds.on_ack(&ack(101, 51, 1_000)), Some((60_000, true)));
        // 100 kB in 100 ms, half of them queue.
        rounds.on_ack(&ack(201, 100, 99_000));
        assert_eq!(rounds.on_ack(&ack(202, 102, 1_000)), Some((50_000, true)));
    }

    #[test]
    fn more_counts_at_once_and_less_slowly_and_only_where_the_window_was_full() {
        let first = learn(None, 80_000, false, &ack(100, 50, 0));
        assert_eq!((first.window, first.seen), (80_000, at(100)));
        let same = learn(Some(first), 10_000, false, &ack(200, 150, 0));
        assert_eq!((same.window, same.seen), (80_000, at(100)), "lacked data");
        let less = learn(Some(first), 40_000, true, &ack(200, 150, 0));
        assert_eq!((less.window, less.seen), (75_000, at(200)));
        assert_eq!(learn(Some(first), 90_000, false, &ack(300, 250, 0)).window, 90_000);
    }

    #[test]
    fn it_is_believed_for_minutes_and_where_no_queue_stands() {
        let seen = learn(None, 80_000, false, &ack(100, 50, 0));
        assert!(seen.is_fresh(at(100 + 599_000)) && !seen.is_fresh(at(100 + 600_000)));
        let free = |ms| seen.is_free_at(Duration::from_millis(ms));
        assert!(free(45) && free(50) && free(62) && !free(63));
    }
}
