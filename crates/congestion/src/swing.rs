//! How far round-trip times fall while the load is low: jitter, as a path shows it before there can
//! be a queue of ours.
//!
//! Packets that keep their order wait for the latest of all within the jitter's span. So the more of
//! them there are, the longer and the more alike are their round-trip times: a fast path at full
//! load shows neither its jitter nor its shortest round-trip time any more, and all of the span looks
//! like a queue that stands.
//!
//! Between two packets of one round trip of slow start a queue of ours only grows; what falls is
//! jitter. It counts once slow start has gone on for two round trips more, with which the load was
//! far from filling the path. A queue of others falls when one of them gives way, which is not soon
//! again: no more counts than [`AGAIN`] times what the round trip after has shown.
//!
//! # Invariants
//! Never longer than the largest sample.

use units::{Duration, Instant};

/// How long it is believed.
const LIFETIME: Duration = Duration::from_secs(30);
/// How many times as far as in the next round trip they may fall in one.
const AGAIN: u64 = 3;

/// The largest fall within a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swing {
    /// The largest sample of the current round trip, and how far one has fallen below the largest
    /// before it.
    top: Duration,
    fall: Duration,
    /// The falls of the last round trips of slow start, the latest first.
    young: [Duration; 2],
    most: Duration,
    seen_at: Instant,
}

impl Swing {
    /// Takes the round-trip time of an ACK that has one.
    pub(crate) fn on_sample(&mut self, sample: Duration) {
        self.top = self.top.max(sample);
        self.fall = self.fall.max(self.top.saturating_sub(sample));
    }

    /// A round trip is over, of slow start with enough to send or not.
    pub(crate) fn end_round(&mut self, now: Instant, is_growing: bool) {
        if now.saturating_duration_since(self.seen_at) > LIFETIME {
            self.most = Duration::ZERO;
        }
        let [last, before] = self.young;
        self.young = if is_growing { [self.fall, last] } else { [Duration::ZERO; 2] };
        let seen = before.min(last * AGAIN);
        if is_growing && seen > self.most {
            (self.most, self.seen_at) = (seen, now);
        }
        (self.top, self.fall) = (Duration::ZERO, Duration::ZERO);
    }

    /// How far round-trip times fall where the load has nothing to do with it.
    pub(crate) fn most(&self) -> Duration {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ends a round trip at `second` with samples in ms.
    fn round(swing: &mut Swing, second: u64, samples: &[u64], is_growing: bool) {
        samples.iter().for_each(|&sample| swing.on_sample(ms(sample)));
        swing.end_round(Instant::ORIGIN + Duration::from_secs(second), is_growing);
    }

    #[test]
    fn counts_what_falls_two_round_trips_later() {
        let mut swing = Swing::default();
        round(&mut swing, 1, &[50, 57, 51, 58, 53], true);
        round(&mut swing, 2, &[60, 50], true);
        assert_eq!(swing.most(), Duration::ZERO);
        round(&mut swing, 3, &[54, 50], true);
        assert_eq!(swing.most(), ms(6));
        round(&mut swing, 4, &[], true);
        assert_eq!(swing.most(), ms(10));
        round(&mut swing, 5, &[], true);
        assert_eq!(swing.most(), ms(10), "the largest");
    }

    #[test]
    fn what_falls_once_is_a_queue_of_others() {
        let mut swing = Swing::default();
        for fall in [0, 9, 1, 0, 0] {
            round(&mut swing, 1, &[60, 60 - fall], true);
        }
        assert_eq!(swing.most(), ms(3));
    }

    #[test]
    fn a_queue_that_grows_is_none_nor_is_one_that_is_empty_a_round_trip_later() {
        let mut swing = Swing::default();
        for second in 1..9 {
            round(&mut swing, second, &[50, 55, 60, 70], true);
        }
        assert_eq!(swing.most(), Duration::ZERO);
    }

    #[test]
    fn the_last_round_trips_of_slow_start_and_those_after_it_do_not_count() {
        let mut swing = Swing::default();
        round(&mut swing, 1, &[57, 50], true);
        round(&mut swing, 2, &[58, 50], true);
        for second in 3..9 {
            round(&mut swing, second, &[90, 50], false);
        }
        round(&mut swing, 9, &[], true);
        round(&mut swing, 10, &[], true);
        assert_eq!(swing.most(), Duration::ZERO);
    }

    #[test]
    fn is_forgotten_after_half_a_minute() {
        let mut swing = Swing::default();
        (1..4).for_each(|second| round(&mut swing, second, &[57, 50], true));
        round(&mut swing, 33, &[], false);
        assert_eq!(swing.most(), ms(7));
        round(&mut swing, 34, &[], false);
        assert_eq!(swing.most(), Duration::ZERO);
    }
}
