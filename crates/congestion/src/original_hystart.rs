//! HyStart as it was first published (Ha and Rhee, "Taming the elephants: New TCP slow start",
//! Computer Networks 55, 2011) and as Linux has it: slow start ends at once when acknowledgements
//! that follow each other closely have come for half of a round trip, or when the round-trip time
//! has risen.
//!
//! | paper                          | here                      |
//! |--------------------------------|---------------------------|
//! | D_min                          | `Ack::rtt.min`            |
//! | length of the packet train     | since `Round::start`      |
//! | low_window                     | [`LOW_WINDOW`]            |
//! | nSampling                      | [`RTT_SAMPLES`]           |
//! | eta                            | an eighth of D_min, within [`MIN_RISE`] and [`MAX_RISE`] |
//!
//! # Departures
//! - Rounds are told apart by send times, as in HyStart++ here.
//! - As in Linux, half of [`ACK_DELAY`] is added to half of D_min, and rounds are looked at from a
//!   window of [`LOW_WINDOW`] on only.

use units::{Duration, Instant};

use crate::Ack;

/// Smaller windows are left to grow, in segments.
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements closer to each other are of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// What acknowledgements may be held up by offloading.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// Samples of a round after which the next one judges it.
const RTT_SAMPLES: u32 = 8;
const MIN_RISE: Duration = Duration::from_millis(4);
const MAX_RISE: Duration = Duration::from_millis(16);

/// Watches slow start.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginalHyStart(Option<Round>);

#[derive(Clone, Debug)]
struct Round {
    start: Instant,
    /// The train's latest acknowledgement.
    last_ack: Instant,
    samples: u32,
    smallest: Duration,
}

impl OriginalHyStart {
    /// Takes an acknowledgement at a window of `window` segments. Returns whether slow start ends.
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: f64) -> bool {
        if window < LOW_WINDOW {
            return false;
        }
        if self.0.as_ref().is_none_or(|round| ack.largest_sent_at >= round.start) {
            let start = ack.now;
            self.0 = Some(Round { start, last_ack: start, samples: 0, smallest: ack.rtt.latest });
        }
        self.0.as_mut().is_some_and(|round| round.has_long_train(ack) || round.has_risen(ack))
    }
}

impl Round {
    fn has_long_train(&mut self, ack: &Ack) -> bool {
        if ack.now - self.last_ack > TRAIN_GAP {
            return false;
        }
        self.last_ack = ack.now;
        ack.now - self.start > (ack.rtt.min + ACK_DELAY) / 2
    }

    fn has_risen(&mut self, ack: &Ack) -> bool {
        self.smallest = self.smallest.min(ack.rtt.latest);
        if self.samples < RTT_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.smallest > ack.rtt.min + (ack.rtt.min / 8).clamp(MIN_RISE, MAX_RISE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    /// Acknowledgements `gap_ms` apart of what was sent before time `from_ms`. How many until slow
    /// start ends.
    fn acks(from_ms: u64, gap_ms: u64, rtt_ms: u64, window: f64) -> Option<u64> {
        let (mut hystart, ms) = (OriginalHyStart::default(), Duration::from_millis);
        let rtt = Rtt { latest: ms(rtt_ms), min: ms(40), ..Rtt::default() };
        (0..100).find(|n| {
            let now = Instant::ORIGIN + ms(from_ms + gap_ms * n);
            hystart.on_ack(&Ack { now, rtt, largest_sent_at: Instant::ORIGIN, ..Ack::default() }, window)
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        // Half of 41 ms: the first at or beyond 20.5 ms after the round's first.
        assert_eq!(acks(40, 1, 40, 16.0), Some(21));
        assert_eq!(acks(40, 2, 40, 16.0), Some(11));
        assert_eq!(acks(40, 3, 40, 16.0), None); // too far apart for a train
        assert_eq!(acks(40, 1, 40, 15.9), None); // the window is too small
    }

    #[test]
    fn a_risen_round_trip_ends_slow_start() {
        // More than 40 + 40/8 ms, at the ninth sample.
        assert_eq!(acks(40, 3, 45, 100.0), None);
        assert_eq!(acks(40, 3, 46, 100.0), Some(8));
    }
}
