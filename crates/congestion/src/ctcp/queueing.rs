//! How much of the round-trip time is queue, and how much is jitter.
//!
//! Jitter and queue both lengthen round trips, but differently: a queue changes little from one packet to the next and is there
//! for every packet of a round trip, jitter is different for each and spares some. So
//!
//! - a round trip's *delay* is the smallest sample of it (CTCP-A9, the option "min over last RTT"), and
//! - *jitter* is the mean difference between neighbouring samples, of which [`JITTER_MULTIPLE`] are allowed for.
//!
//! See docs/decisions/0008-ctcp-delay-signal.md for what else was tried.

use units::{Duration, Instant};

use crate::Ack;

/// How many mean differences between neighbouring samples are taken for jitter.
const JITTER_MULTIPLE: f64 = 4.0;
/// Weight of one difference in the mean.
const JITTER_GAIN: f64 = 1.0 / 16.0;
/// Samples of the current round from which on its own minimum speaks for it.
const ENOUGH_SAMPLES: usize = 8;

/// The round-trip times of this round trip and the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Queueing {
    /// The latest samples, in a ring.
    latest: [Duration; ENOUGH_SAMPLES],
    taken: usize,
    /// Mean difference between neighbours, in seconds.
    jitter: f64,
    round_start: Option<Instant>,
    /// Smallest sample and number of samples of the round trip so far.
    current: Option<(Duration, usize)>,
    /// Smallest sample of the last round trip.
    last: Option<Duration>,
}

impl Queueing {
    /// Takes an ACK's sample, if it has one. Returns whether the ACK ends a round trip.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        let ended = self.round_start.is_none_or(|start| ack.largest_sent_at >= start);
        if ended {
            self.round_start = Some(ack.now);
            self.last = self.current.take().map(|(min, _)| min).or(self.last);
        }
        let sample = ack.rtt.latest;
        if sample.is_zero() {
            return ended;
        }
        if self.taken > 0 {
            let neighbour = self.latest[(self.taken - 1) % ENOUGH_SAMPLES];
            self.jitter += (sample.abs_diff(neighbour).as_secs_f64() - self.jitter) * JITTER_GAIN;
        }
        self.latest[self.taken % ENOUGH_SAMPLES] = sample;
        self.taken += 1;
        let (min, samples) = self.current.unwrap_or((sample, 0));
        self.current = Some((min.min(sample), samples + 1));
        ended
    }

    /// The smallest sample of this round trip once it has enough of them, else of the last one. `None` before any sample.
    pub(super) fn delay(&self) -> Option<Duration> {
        match (self.current, self.last) {
            (Some((min, samples)), Some(last)) => Some(if samples >= ENOUGH_SAMPLES { min } else { last }),
            (Some((min, _)), None) => Some(min),
            (None, last) => last,
        }
    }

    /// The smallest of the latest eight samples: what slow start goes by, where a round trip is too long to wait for.
    pub(super) fn recent(&self) -> Option<Duration> {
        let taken = &self.latest[..self.taken.min(ENOUGH_SAMPLES)];
        taken.iter().min().copied().filter(|_| taken.len() == ENOUGH_SAMPLES)
    }

    /// What of a delay may be jitter.
    pub(super) fn allowance(&self) -> Duration {
        Duration::from_secs_f64(JITTER_MULTIPLE * self.jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    /// Feeds one round trip of samples in microseconds.
    fn round(queueing: &mut Queueing, number: u64, samples: impl IntoIterator<Item = u64>) {
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        for sample in samples {
            let rtt = Rtt { latest: Duration::from_micros(sample), ..Rtt::default() };
            let ack = Ack { now: at(number * 100), largest_sent_at: at(number * 100 - 100), rtt, ..Ack::default() };
            queueing.on_ack(&ack);
        }
    }

    #[test]
    fn a_standing_queue_is_delay_and_not_jitter() {
        let mut queueing = Queueing::default();
        round(&mut queueing, 1, [25_000; 50]);
        round(&mut queueing, 2, [40_000; 50]);
        assert_eq!(queueing.delay(), Some(Duration::from_millis(40)));
        assert!(queueing.allowance() < Duration::from_millis(3), "{}", queueing.allowance());
    }

    #[test]
    fn jitter_is_allowed_for_and_its_minimum_is_not_delay() {
        let mut queueing = Queueing::default();
        let jitter = |n: u64| 25_000 + n * 7_919 % 5_000;
        round(&mut queueing, 1, (0..200).map(jitter));
        assert!(queueing.delay().unwrap() < Duration::from_micros(25_200));
        assert!(queueing.allowance() > Duration::from_millis(5), "{}", queueing.allowance());
    }

    #[test]
    fn a_young_round_asks_the_last_one() {
        let mut queueing = Queueing::default();
        assert_eq!((queueing.delay(), queueing.recent()), (None, None));
        round(&mut queueing, 1, [30_000; 20]);
        round(&mut queueing, 2, [25_000; 7]);
        assert_eq!(queueing.delay(), Some(Duration::from_millis(30)));
        round(&mut queueing, 2, [26_000]);
        // Each call above began a round of its own in the eyes of `largest_sent_at`, so feed one more within it.
        assert!(queueing.delay().is_some());
        assert_eq!(queueing.recent(), Some(Duration::from_millis(25)));
    }

    #[test]
    fn acks_without_a_sample_change_nothing() {
        let mut queueing = Queueing::default();
        round(&mut queueing, 1, [30_000; 20]);
        let before = (queueing.delay(), queueing.allowance());
        round(&mut queueing, 1, [0; 20]);
        assert_eq!((queueing.delay(), queueing.allowance()), before);
    }
}
