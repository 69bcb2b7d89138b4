//! Round-trip time of one path (RFC 9002 section 5).

use congestion::Precedents;
use units::{Duration, Instant};

use super::MAX_ACK_DELAY;
use crate::GRANULARITY;

/// How long samples may stay far above the minimum before it is forgotten: a queue is empty now and then
/// (RFC 9002 section 5.2: not too often).
const QUEUE_LASTS: Duration = Duration::from_secs(300);
/// The same after persistent congestion, which a change of the route may have been. RFC 9002 section 5.2 forgets
/// the minimum at once; but the first packets after an outage may meet a queue on the old route.
const QUEUE_LASTS_AFTER_OUTAGE: Duration = Duration::from_secs(10);
/// The longest delay of an ACK that an honest peer has: 25 ms like most, and a tick of its timers, which is
/// 16 ms long on Windows.
const HONEST_ACK_DELAY: Duration = Duration::from_millis(50);

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
    /// The smallest that earlier connections have seen, for a young one, in microseconds; later the smallest
    /// sample since there has been none near the minimum. Every path has one of these.
    known_base: u32,
    /// The second at which the minimum is forgotten unless a sample comes near it; zero after one that did.
    doubted_until: u32,
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
            doubted_until: 0,
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
        if self.is_grown(now) && self.doubted_until == 0 {
            self.known_base = u32::MAX;
        }
        // The peer's delay is only believed as far as the sample stays above the minimum: for the average not at
        // all beyond (RFC 9002 section 5.3), but such a sample shows no queue. A peer that has declared that its
        // ACKs take seconds (RFC 9000 section 18.2) hides none behind that, or losses would pass for chance.
        let adjusted = if sample >= self.min + ack_delay { sample - ack_delay } else { sample };
        let held = if ack_delay <= HONEST_ACK_DELAY { ack_delay } else { MAX_ACK_DELAY };
        self.latest_adjusted = sample.saturating_sub(held).max(self.min);
        self.variance = (self.variance * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
        self.doubt_min(now, sample);
    }

    /// Persistent congestion was found: if there is more than the minimum now, that is soon forgotten.
    pub(crate) fn on_persistent_congestion(&mut self, now: Instant) {
        if !self.is_far_above(self.min) {
            return;
        }
        let until = seconds(now + QUEUE_LASTS_AFTER_OUTAGE);
        self.doubted_until = if self.doubted_until == 0 { until } else { self.doubted_until.min(until) };
        self.known_base = self.latest.saturating_micros();
    }

    /// Forgets the minimum once no sample has come near it for long: what seemed to be a queue is a longer
    /// route.
    fn doubt_min(&mut self, now: Instant, sample: Duration) {
        if self.doubted_until == 0 && !self.is_grown(now) {
            return;
        }
        if !self.shows_queue() {
            (self.known_base, self.doubted_until) = (u32::MAX, 0);
            return;
        }
        if self.doubted_until == 0 {
            self.doubted_until = seconds(now + QUEUE_LASTS);
        }
        self.known_base = self.known_base.min(sample.saturating_micros());
        if seconds(now) >= self.doubted_until {
            self.min = Duration::from_micros(self.known_base.into());
            // A few samples since an outage have not brought the average there (RFC 9002 section 5.2).
            self.smoothed = self.smoothed.max(self.min);
            (self.known_base, self.doubted_until) = (u32::MAX, 0);
        }
    }

    /// Whether the connection is too old to ask earlier ones.
    fn is_grown(&self, now: Instant) -> bool {
        let first = self.first_sample_at;
        first.is_some_and(|first| now.saturating_duration_since(first) > Precedents::TRUSTED)
    }

    /// The latest sample.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// The latest sample without the delay that the peer added, though no less than the minimum. Of a delay
    /// beyond 50 ms no more than 25 are believed.
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
        self.is_far_above(self.min.min(Duration::from_micros(self.known_base.into())))
    }

    fn is_far_above(&self, base: Duration) -> bool {
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

/// Seconds since the origin, more than a century.
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
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
        rtt.on_persistent_congestion(Instant::ORIGIN);
        assert!(rtt.shows_queue(), "nor does it go by that");
        rtt.update(Instant::ORIGIN + Precedents::TRUSTED, MS * 75, Duration::ZERO);
        assert!(rtt.shows_queue());
        rtt.update(Instant::ORIGIN + Precedents::TRUSTED + MS, MS * 75, Duration::ZERO);
        assert!(!rtt.shows_queue(), "by now it knows better");
        let mut nearer = new.with_known_base(Some(MS * 100));
        nearer.update(Instant::ORIGIN, MS * 40, Duration::ZERO);
        assert!(!nearer.shows_queue());
    }

    fn second(n: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(n)
    }

    fn path_of_10_ms() -> RttEstimator {
        let mut rtt = RttEstimator::new(MS * 333);
        sample(&mut rtt, 0, 10);
        rtt
    }

    fn sample(rtt: &mut RttEstimator, at: u64, ms: u64) {
        rtt.update(second(at), MS * ms, Duration::ZERO);
    }

    #[test]
    fn a_longer_route_is_a_queue_for_five_minutes() {
        let mut rtt = path_of_10_ms();
        for at in 20..320 {
            sample(&mut rtt, at, if at == 100 { 590 } else { 600 });
            assert!(rtt.shows_queue() && rtt.min() == MS * 10, "{at}");
        }
        sample(&mut rtt, 320, 600);
        assert!(!rtt.shows_queue() && rtt.min() == MS * 590);
        sample(&mut rtt, 321, 20);
        assert_eq!(rtt.min(), MS * 20, "a shorter one is believed at once");
    }

    #[test]
    fn a_queue_that_is_empty_now_and_then_stays_one() {
        let mut rtt = path_of_10_ms();
        for at in 20..2_000 {
            sample(&mut rtt, at, if at % 290 == 0 { 12 } else { 60 });
            assert!(rtt.min() == MS * 10 && rtt.shows_queue() == (at % 290 != 0), "{at}");
        }
    }

    #[test]
    fn after_persistent_congestion_a_longer_route_is_a_queue_for_ten_seconds() {
        for began in [1, 100] {
            let mut rtt = path_of_10_ms();
            sample(&mut rtt, began, 600);
            rtt.on_persistent_congestion(second(began));
            for at in began + 1..began + 10 {
                sample(&mut rtt, at, 610);
                assert!(rtt.shows_queue() && rtt.min() == MS * 10, "{at}");
            }
            sample(&mut rtt, began + 10, 610);
            assert!(!rtt.shows_queue() && rtt.min() == MS * 600 && rtt.smoothed() >= rtt.min());
        }
    }

    #[test]
    fn persistent_congestion_on_the_old_route_changes_nothing() {
        let mut rtt = path_of_10_ms();
        sample(&mut rtt, 100, 11);
        rtt.on_persistent_congestion(second(100));
        (101..150).for_each(|at| sample(&mut rtt, at, 60));
        assert!(rtt.shows_queue() && rtt.min() == MS * 10);
        rtt.on_persistent_congestion(second(150));
        sample(&mut rtt, 151, 12);
        (152..200).for_each(|at| sample(&mut rtt, at, 60));
        assert!(rtt.shows_queue() && rtt.min() == MS * 10, "a queue that was empty once");
    }

    #[test]
    fn ack_delay_never_pulls_a_sample_below_the_minimum() {
        let mut rtt = RttEstimator::new(MS);
        rtt.update(Instant::ORIGIN, MS * 50, Duration::ZERO);
        rtt.update(Instant::ORIGIN, MS * 51, MS * 25);
        assert_eq!(rtt.smoothed(), Duration::from_micros(50_125));
        assert_eq!((rtt.latest(), rtt.latest_adjusted()), (MS * 51, MS * 50));
    }

    /// As after each pause, where the last packet is a lone one.
    #[test]
    fn an_ack_that_waited_for_a_slow_timer_shows_no_queue() {
        let mut rtt = path_of_10_ms();
        rtt.update(second(1), MS * 51, MS * 41);
        assert_eq!(rtt.latest_adjusted(), MS * 10);
        assert!(!rtt.shows_queue());
    }

    #[test]
    fn a_peer_hides_no_queue_behind_a_delay_of_its_own() {
        let mut rtt = RttEstimator::new(MS);
        rtt.update(Instant::ORIGIN, MS * 50, Duration::ZERO);
        rtt.update(Instant::ORIGIN, MS * 200, MS * 10_000);
        assert_eq!(rtt.latest_adjusted(), MS * 175);
    }
}
