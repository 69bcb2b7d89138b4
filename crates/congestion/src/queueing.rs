//! How much of the round-trip time is queue, and how much is jitter.
//!
//! Jitter and queue both lengthen round trips, but differently: a queue changes little from one
//! packet to the next, is there for every packet of a round trip, and in congestion avoidance grows
//! by a packet per round trip. Jitter is different for each packet and spares some. So
//!
//! - the *delay* is the smallest sample of the last round trip and the current one (CTCP-A9 has the
//!   option of one), and
//! - *jitter* is twice by how much samples that are [`LAG`] apart fall on average, of which
//!   [`JITTER_MULTIPLE`] are allowed for. Neighbours would not do: where jitter does not reorder,
//!   they wait for the same late packet.
//!
//! An ACK that the peer held back, as of the last packet before a pause, is no queue: samples are without that
//! time where it is known.
//!
//! See docs/decisions/0008-ctcp-delay-signal.md for what else was tried.

use core::num::NonZeroU32;

use units::{Duration, Instant};

use crate::Ack;

/// The most that is ever taken for jitter, unless half of the smallest round-trip time is more.
const MOST_JITTER: Duration = Duration::from_millis(10);
/// How many mean differences are taken for jitter.
const JITTER_MULTIPLE: f64 = 5.0;
/// Least weight of one difference in the mean.
const JITTER_GAIN: f64 = 1.0 / 64.0;
/// Bounds of the queue that ends slow start.
const LEAST_QUEUE: Duration = Duration::from_millis(4);
const MOST_QUEUE: Duration = Duration::from_millis(16);
/// Distance of the samples that are compared.
const LAG: usize = 8;
/// Samples of the current round from which on its own minimum counts.
const ENOUGH: NonZeroU32 = NonZeroU32::new(LAG as u32).expect("some");

/// The round-trip times of the last round trips.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queueing {
    /// The latest samples, in a ring.
    latest: [Duration; LAG],
    taken: usize,
    /// Mean difference, in seconds.
    jitter: f64,
    round_start: Option<Instant>,
    /// Smallest sample and number of samples of the round trip so far.
    current: Option<(Duration, NonZeroU32)>,
    /// Smallest sample of the round trip before.
    last: Option<Duration>,
}

impl Queueing {
    /// Takes an ACK's sample, if it has one. Returns whether the ACK ends a round trip.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        let ended = self.round_start.is_none_or(|start| ack.largest_sent_at >= start);
        if ended {
            self.round_start = Some(ack.now);
            self.last = self.current.take().map(|(min, _)| min).or(self.last);
        }
        let sample = ack.delay();
        if sample.is_zero() {
            return ended;
        }
        if self.taken >= LAG {
            // What falls is jitter; what rises may be a queue of one's own that grows, in slow
            // start by milliseconds in so many samples.
            let difference = 2.0 * self.latest[self.taken % LAG].saturating_sub(sample).as_secs_f64();
            let gain = JITTER_GAIN.max(1.0 / (self.taken - LAG + 1) as f64);
            self.jitter += (difference - self.jitter) * gain;
        }
        self.latest[self.taken % LAG] = sample;
        self.taken += 1;
        let taken = self.current.map(|(min, samples)| (min.min(sample), samples.saturating_add(1)));
        self.current = taken.or(Some((sample, NonZeroU32::MIN)));
        ended
    }

    /// The smallest sample of the last round trips; the current one counts once it has enough of
    /// them. `None` before any sample.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let last = self.last;
        match self.current {
            Some((min, samples)) if samples >= ENOUGH => Some(last.map_or(min, |last| last.min(min))),
            Some((min, _)) => last.or(Some(min)),
            None => last,
        }
    }

    /// The smallest sample of the round trip that ended last.
    pub(crate) fn last_round(&self) -> Option<Duration> {
        self.last
    }

    /// The smallest of the latest eight samples: what slow start goes by, where a round trip is too
    /// long to wait for. `None` before there are so many.
    pub(crate) fn recent(&self) -> Option<Duration> {
        if self.taken >= LAG { self.latest.iter().min().copied() } else { None }
    }

    /// Slow start is over: round trips from before the queue say nothing about it any more.
    pub(crate) fn forget_rounds(&mut self) {
        self.last = None;
        self.current = self.recent().map(|recent| (recent, ENOUGH));
    }

    /// How much of `delay` is queue where the route takes `min`: what is left when jitter has been
    /// allowed for.
    pub(crate) fn queue(&self, delay: Duration, min: Duration) -> Duration {
        delay.saturating_sub(min).saturating_sub(self.allowance().min(MOST_JITTER.max(min / 2)))
    }

    /// The queue from which on slow start is over for who backs off when it was too long, where the
    /// route takes `min`: an eighth of it, but 4 to 16 ms as in RFC 9406 section 4.2, and on short
    /// routes half of it. Bursts of one's own and jitter make shorter queues without filling the
    /// link.
    pub(crate) fn threshold(min: Duration) -> Duration {
        (min / 8).clamp(LEAST_QUEUE.min(min / 2), MOST_QUEUE)
    }

    /// What of a delay may be jitter.
    fn allowance(&self) -> Duration {
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
        for (n, sample) in samples.into_iter().enumerate() {
            let rtt = Rtt { latest: Duration::from_micros(sample), ..Rtt::default() };
            let sent = if n == 0 { number * 100 } else { number * 100 - 1 };
            let ended = queueing.on_ack(&Ack {
                now: at(number * 100),
                largest_sent_at: at(sent),
                rtt,
                ..Ack::default()
            });
            assert_eq!(ended, n == 0);
        }
    }

    #[test]
    fn a_standing_queue_is_delay_and_not_jitter() {
        let mut queueing = Queueing::default();
        round(&mut queueing, 1, [25_000; 50]);
        assert_eq!(queueing.delay(), Some(Duration::from_millis(25)));
        (2..6).for_each(|number| round(&mut queueing, number, [40_000; 80]));
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
    fn the_smallest_of_the_last_round_trips_counts() {
        let mut queueing = Queueing::default();
        assert_eq!((queueing.delay(), queueing.recent(), queueing.last_round()), (None, None, None));
        for (number, sample, delay) in [(1, 30, 30), (2, 25, 25), (3, 31, 25), (4, 32, 31), (5, 33, 32)] {
            round(&mut queueing, number, [sample * 1_000; 20]);
            assert_eq!(queueing.delay(), Some(Duration::from_millis(delay)), "{number}");
        }
        assert_eq!(queueing.last_round(), Some(Duration::from_millis(32)));
        round(&mut queueing, 6, [20_000; 7]); // not enough of them
        assert_eq!(queueing.delay(), Some(Duration::from_millis(33)));
        assert_eq!(queueing.recent(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn the_end_of_slow_start_forgets_the_time_without_a_queue() {
        let mut queueing = Queueing::default();
        round(&mut queueing, 1, [25_000; 20]);
        round(&mut queueing, 2, [40_000; 20]);
        queueing.forget_rounds();
        assert_eq!(queueing.delay(), Some(Duration::from_millis(40)));
    }

    #[test]
    fn an_ack_that_was_held_back_is_no_queue() {
        let mut queueing = Queueing::default();
        round(&mut queueing, 1, [40_000; 8]);
        let rtt = Rtt { latest: Duration::from_millis(65), ..Rtt::default() };
        let at = Instant::ORIGIN + Duration::from_millis(200);
        let adjusted_rtt = Duration::from_millis(40);
        queueing.on_ack(&Ack { now: at, largest_sent_at: at, rtt, adjusted_rtt, ..Ack::default() });
        round(&mut queueing, 3, [40_000; 2]);
        assert_eq!((queueing.delay(), queueing.last_round()), (Some(adjusted_rtt), Some(adjusted_rtt)));
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
