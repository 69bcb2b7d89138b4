//! Round-trip time of one path (RFC 9002 section 5).

use congestion::Precedents;
use units::{Duration, Instant};

use crate::GRANULARITY;

/// Smoothed round-trip time, its variation and its minimum.
///
/// | RFC 9002   | here       |
/// |------------|------------|
/// | latest_rtt | `latest`   |
/// | smoothed_rtt | `smoothed` |
/// | rttvar     | `variance` |
/// | min_rtt    | `min`      |
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    latest: Duration,
    latest_adjusted: Duration,
    smoothed: Duration,
    variance: Duration,
    min: Duration,
    first_sample_at: Option<Instant>,
    /// The smallest that earlier connections have seen, for a young one, in microseconds. Every path has
    /// one of these.
    known_base: u32,
}

impl RttEstimator {
    pub(crate) fn new(initial: Duration) -> Self {
        Self {
            latest: initial,
            latest_adjusted: initial,
            smoothed: initial,
            variance: initial / 2,
            min: initial,
            first_sample_at: None,
            known_base: u32::MAX,
        }
    }

    /// The same for a path over which earlier connections have had such a round-trip time. It tells a
    /// queue that stands for as long as they are younger than [`Precedents::TRUSTED`]; `min_rtt` is this connection's.
    pub(crate) fn with_known_base(self, known_base: Option<Duration>) -> Self {
        Self { known_base: known_base.map_or(u32::MAX, Duration::saturating_micros), ..self }
    }

    /// Takes one sample: the age of the largest newly acknowledged packet, and the delay the peer
    /// says it added.
    pub(crate) fn update(&mut self, now: Instant, sample: Duration, ack_delay: Duration) {
        self.latest = sample;
        self.latest_adjusted = sample;
        if self.first_sample_at.is_none() {
            self.first_sample_at = Some(now);
            self.min = sample;
            self.smoothed = sample;
            self.variance = sample / 2;
            return;
        }
        self.min = self.min.min(sample);
        if self
            .first_sample_at
            .is_some_and(|first| now.saturating_duration_since(first) > Precedents::TRUSTED)
        {
            self.known_base = u32::MAX;
        }
        // The peer's delay is only believed as far as the sample stays above the minimum.
        let adjusted = if sample >= self.min + ack_delay { sample - ack_delay } else { sample };
        self.latest_adjusted = adjusted;
        self.variance = (self.variance * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// The latest sample.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// The latest sample without the delay that the peer added.
    pub(crate) fn latest_adjusted(&self) -> Duration {
        self.latest_adjusted
    }

    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    pub(crate) fn variance(&self) -> Duration {
        self.variance
    }

    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// When the first sample was taken; persistent congestion needs it (RFC 9002 section 7.6.2).
    pub(crate) fn first_sample_at(&self) -> Option<Instant> {
        self.first_sample_at
    }

    /// Probe timeout before backoff, without the peer's maximum ACK delay (RFC 9002 section 6.2.1).
    pub(crate) fn pto_base(&self) -> Duration {
        self.smoothed + (self.variance * 4).max(GRANULARITY)
    }

    /// The larger one of the smoothed and the latest: what the age of lost packets is measured by
    /// (RFC 9002 section 6.1.2).
    pub(crate) fn longest(&self) -> Duration {
        self.smoothed.max(self.latest)
    }

    /// Whether the latest sample has waited in a queue: it lies a quarter above the minimum, that of
    /// earlier connections included, and two milliseconds at least.
    pub(crate) fn shows_queue(&self) -> bool {
        let base = self.min.min(Duration::from_micros(self.known_base.into()));
        self.latest_adjusted.saturating_sub(base) > (base / 4).max(GRANULARITY * 2)
    }

    /// What controllers hear: nothing before the first sample, since what is assumed until then is none.
    /// After a move the ACKs of packets from before it would bring it many times.
    pub(crate) fn for_congestion(&self) -> congestion::Rtt {
        if self.first_sample_at.is_none() {
            return congestion::Rtt::default();
        }
        congestion::Rtt {
            latest: self.latest,
            smoothed: self.smoothed,
            min: self.min,
            variance: self.variance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn follows_rfc_9002_section_5_3() {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(Instant::ORIGIN, MS * 50, Duration::ZERO);
        assert_eq!((rtt.smoothed(), rtt.variance(), rtt.min()), (MS * 50, MS * 25, MS * 50));
        // 90 ms with 20 ms of delay counts as 70 ms: variance (75 + 20) / 4, smoothed (350 + 70)
        // / 8.
        rtt.update(Instant::ORIGIN, MS * 90, MS * 20);
        assert_eq!(rtt.variance(), Duration::from_micros(23_750));
        assert_eq!(rtt.smoothed(), Duration::from_micros(52_500));
        assert_eq!(rtt.longest(), MS * 90);
    }

    #[test]
    fn a_queue_is_a_quarter_of_the_minimum_and_not_next_to_nothing() {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        let shows = |rtt: &mut RttEstimator, sample| {
            rtt.update(Instant::ORIGIN, sample, Duration::ZERO);
            rtt.shows_queue()
        };
        assert!(!shows(&mut rtt, MS * 40) && !shows(&mut rtt, MS * 50) && shows(&mut rtt, MS * 51));
        assert!(!shows(&mut rtt, MS) && !shows(&mut rtt, MS * 3) && shows(&mut rtt, MS * 4));
    }

    #[test]
    fn a_young_connection_knows_what_earlier_ones_have_seen() {
        let new = RttEstimator::new(Duration::from_millis(333));
        let mut rtt = new.clone().with_known_base(Some(MS * 40));
        rtt.update(Instant::ORIGIN, MS * 75, Duration::ZERO);
        assert!(rtt.shows_queue() && rtt.min() == MS * 75, "a queue that stood before it came");
        rtt.update(Instant::ORIGIN + Precedents::TRUSTED, MS * 75, Duration::ZERO);
        assert!(rtt.shows_queue());
        rtt.update(Instant::ORIGIN + Precedents::TRUSTED + MS, MS * 75, Duration::ZERO);
        assert!(!rtt.shows_queue(), "by now it knows better");
        let mut nearer = new.with_known_base(Some(MS * 100));
        nearer.update(Instant::ORIGIN, MS * 40, Duration::ZERO);
        assert!(!nearer.shows_queue());
    }

    #[test]
    fn ack_delay_never_pulls_a_sample_below_the_minimum() {
        let mut rtt = RttEstimator::new(MS);
        rtt.update(Instant::ORIGIN, MS * 50, Duration::ZERO);
        rtt.update(Instant::ORIGIN, MS * 51, MS * 25);
        assert_eq!(rtt.smoothed(), Duration::from_micros(50_125));
    }
}
