//! RTT_min, and how it stays true: the paper's is a minimum for ever.
//!
//! - A sample below it is it.
//! - A second after the first sample, and then every [`LIFETIME`], the window is halved until a
//!   round trip of packets sent after that is through. Without that, who comes to a full queue
//!   would hold the queue for the route, keep it full, and be confirmed by it.
//! - If for [`LIFETIME`] no sample came near RTT_min, the smallest one of that round trip replaces
//!   it: the route has changed.
//! - If backoffs have brought the window down to a quarter and the delay has not followed, it is
//!   not our queue that we see. The delay is then RTT_min at once, and the window goes back to
//!   where the backoffs began.
//!
//! What half the load has too is no queue of ours: if round-trip times under half the window are on
//! average hardly less above RTT_min than under all of it, that mean is the [idle](BaseRtt::idle) delay.
//! Packets that keep their order wait for the latest of all within the jitter's span, so on a fast
//! path RTT_min is not seen again. Where half the load leaves a part of it that may well be
//! jitter, the next probe comes sooner, [`RETRIES`] times.
//!
//! # Invariants
//! A probe ends with the first ACK of a packet sent a round trip after its start.

use units::{Duration, Instant};

use crate::Ack;

/// How long RTT_min is believed without a sample near it, and the time between two probes.
const LIFETIME: Duration = Duration::from_secs(10);
/// The time before the first probe.
const YOUTH: Duration = Duration::from_secs(1);
/// The time between two probes in round trips, if that is longer: so they cost half a per cent at
/// most.
const ROUNDS_BETWEEN: u64 = 200;
/// Samples that are above RTT_min by less than this part of it are near it.
const NEAR: u64 = 16;
/// The part of the window that backoffs must have left before the delay is asked whether it
/// followed.
const DISPROVED: f64 = 0.25;
/// Part of the delay above RTT_min from which on it is not our queue, if half the window has it.
const NOT_OURS: f64 = 0.85;
/// Part from which on the next probe comes sooner, and how often that may be.
const UNCLEAR: f64 = 0.25;
const RETRIES: u8 = 4;
/// The time to such a probe in round trips, if that is longer.
const ROUNDS_TO_RETRY: u64 = 10;

/// RTT_min and what is known against it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseRtt {
    min: Option<Duration>,
    /// When a sample was last near it.
    seen_at: Instant,
    /// When the next probe is due; `None` before the first sample.
    due: Option<Instant>,
    /// Boxed, as it is seldom there: every path of every connection has a controller.
    probe: Option<Box<Probe>>,
    /// The mean round-trip time under half the window, if all of it has hardly more.
    idle: Option<Duration>,
    /// How many probes have come sooner.
    retried: u8,
    backoffs: Option<Backoffs>,
}

/// A time with half the window.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// When it began, or when the first packet was acknowledged that was sent under half the window.
    since: Instant,
    /// Round-trip times of what was sent before it.
    full: Samples,
    /// Of what was sent under half the window; none while the first of it is on its way.
    half: Samples,
}

/// What is kept of samples.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    /// Their sum in seconds.
    sum: f64,
    number: u32,
    least: Duration,
}

impl Samples {
    fn add(&mut self, sample: Duration) {
        self.least = if self.number == 0 { sample } else { sample.min(self.least) };
        self.sum += sample.as_secs_f64();
        self.number = self.number.saturating_add(1);
    }

    /// Zero without any.
    fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.sum / f64::from(self.number.max(1)))
    }
}

/// Backoffs in a row that have not shortened the delay.
#[derive(Clone, Copy, Debug)]
struct Backoffs {
    /// The delay at the first of them.
    delay: Duration,
    /// The window before the first of them, in bytes.
    window: f64,
}

impl BaseRtt {
    /// RTT_min; `None` before any sample.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The mean round-trip time that half the load has as well as all of it; `None` if that has more,
    /// and before any probe.
    pub(crate) fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// Begins with the smallest that earlier connections have seen, which is believed as if this one
    /// had seen it when its first sample came.
    pub(crate) fn recall(&mut self, min: Option<Duration>) {
        self.min = min;
    }

    /// Whether half the window is to be used.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Whoever has reason to wants the next probe at once.
    pub(crate) fn probe_soon(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Takes an ACK's sample, if it has one. A probe that is due begins if it `may`. Of the delay above
    /// RTT_min, `jitter` is known not to be a queue.
    pub(crate) fn on_ack(&mut self, ack: &Ack, may: bool, jitter: Duration) {
        let sample = ack.rtt.latest;
        if sample.is_zero() {
            return;
        }
        let min = *self.min.get_or_insert(sample);
        let due = *self.due.get_or_insert_with(|| {
            self.seen_at = ack.now;
            ack.now + YOUTH
        });
        if sample + min / NEAR < min {
            // A shorter route: what half the load had on the other is nothing to go by.
            self.idle = None;
        }
        if sample <= min + min / NEAR {
            self.min = Some(min.min(sample));
            self.seen_at = ack.now;
        }
        if may && self.probe.is_none() && ack.now >= due {
            self.probe =
                Some(Box::new(Probe { since: ack.now, full: Samples::default(), half: Samples::default() }));
        }
        self.go_on(ack, jitter);
    }

    fn go_on(&mut self, ack: &Ack, jitter: Duration) {
        let Some(probe) = &mut self.probe else { return };
        let sample = ack.rtt.latest;
        let is_later = ack.largest_sent_at > probe.since;
        if probe.half.number == 0 {
            if is_later {
                probe.since = ack.now;
                probe.half.add(sample);
            } else {
                probe.full.add(sample);
            }
        } else {
            probe.half.add(sample);
            if is_later {
                let (full, half) = (probe.full, probe.half);
                self.end_probe(ack.now, full, half, jitter);
            }
        }
    }

    /// Half the window has seen `half` where all of it has seen `full`.
    fn end_probe(&mut self, now: Instant, full: Samples, half: Samples, jitter: Duration) {
        self.probe = None;
        let min = half.least;
        let above = |mean: Duration| mean.saturating_sub(self.min.unwrap_or(min));
        let left = above(half.mean());
        let is_not_ours = left >= above(full.mean()).mul_f64(NOT_OURS);
        let is_unclear = !is_not_ours && left >= above(full.mean()).mul_f64(UNCLEAR) && jitter >= left / 2;
        self.idle = is_not_ours.then_some(half.mean());
        let wait = if is_unclear && self.retried < RETRIES {
            self.retried += 1;
            (YOUTH * (1 << (self.retried - 1))).max(min * ROUNDS_TO_RETRY)
        } else {
            LIFETIME.max(min * ROUNDS_BETWEEN)
        };
        self.due = Some(now + wait);
        if now.saturating_duration_since(self.seen_at) > LIFETIME {
            self.replace(now, min);
        }
    }

    /// RTT_min is now `min`, whatever it was.
    fn replace(&mut self, now: Instant, min: Duration) {
        (self.min, self.seen_at, self.backoffs) = (Some(min), now, None);
    }

    /// A window of `window` bytes is about to be reduced, because the delay is `delay`. Returns the
    /// window to use instead if that proves RTT_min wrong.
    pub(crate) fn on_backoff(&mut self, now: Instant, window: f64, delay: Duration) -> Option<f64> {
        self.on_round(delay);
        let first = *self.backoffs.get_or_insert(Backoffs { delay, window });
        let disproved = window <= first.window * DISPROVED;
        if disproved {
            self.replace(now, delay);
        }
        disproved.then_some(first.window)
    }

    /// The delay is now `delay`. If that is less by an eighth than at the first backoff, the
    /// backoffs have had their effect.
    pub(crate) fn on_round(&mut self, delay: Duration) {
        self.backoffs = self.backoffs.filter(|b| delay >= b.delay - b.delay / 8);
    }

    /// A loss without a queue: the backoffs before it have had their effect.
    pub(crate) fn on_idle_loss(&mut self) {
        self.backoffs = None;
    }

    /// A time-out: nothing is known any more.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rtt;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// An ACK that arrives at `now` for what was sent `rtt` ms before, of which `jitter` ms are known to be
    /// no queue.
    fn ack_behind(base: &mut BaseRtt, now: u64, rtt: u64, jitter: u64) {
        let rtt = Rtt { latest: ms(rtt), ..Rtt::default() };
        let ack = Ack { now: at(now), largest_sent_at: at(now) - rtt.latest, rtt, ..Ack::default() };
        base.on_ack(&ack, true, ms(jitter));
    }

    /// The same where no jitter is known of.
    fn ack(base: &mut BaseRtt, now: u64, rtt: u64) {
        ack_behind(base, now, rtt, 0);
    }

    /// ACKs of `rtt` ms, 10 ms apart, while a probe lasts. Returns how long it did, in ms.
    fn probe(base: &mut BaseRtt, from: u64, rtt: u64) -> u64 {
        let mut now = from;
        while base.is_probing() {
            ack(base, now, rtt);
            now += 10;
            assert!(now < from + 10 * rtt, "the probe does not end");
        }
        now - from
    }

    #[test]
    fn who_came_to_a_full_queue_finds_out_after_a_second() {
        let mut base = BaseRtt::default();
        for now in (100..1_100).step_by(100) {
            ack(&mut base, now, 50);
            assert!(!base.is_probing());
        }
        ack(&mut base, 1_100, 50);
        let lasts = probe(&mut base, 1_110, 30);
        assert!((60..=100).contains(&lasts), "{lasts}"); // two round trips
        assert_eq!(base.min(), Some(ms(30)));
    }

    /// A probe at second 2 of a path of 25 ms: round-trip times of `full` ms before it has an effect,
    /// and of `half` after that.
    fn probed(full: u64, half: u64) -> BaseRtt {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 25);
        ack(&mut base, 2_000, full);
        for now in (2_010..2_500).step_by(10) {
            if base.is_probing() {
                ack(&mut base, now, if now <= 2_000 + full { full } else { half });
            }
        }
        base
    }

    #[test]
    fn what_half_the_load_has_as_well_is_no_queue_of_ours() {
        assert_eq!(probed(50, 48).idle(), Some(ms(48)));
        assert_eq!(probed(50, 25).idle(), None, "half the load has emptied it");
        assert_eq!(probed(50, 38).idle(), None, "or half of it, where another has the other half");
    }

    #[test]
    fn a_shorter_route_has_no_idle_delay_yet() {
        let mut base = probed(50, 48);
        ack(&mut base, 3_000, 24);
        assert!(base.idle().is_some());
        ack(&mut base, 3_010, 20);
        assert_eq!(base.idle(), None);
    }

    #[test]
    fn what_half_the_load_has_taken_away_in_part_is_asked_again_soon_if_it_may_be_jitter() {
        let probes = |half, jitter| {
            let mut base = BaseRtt::default();
            ack(&mut base, 100, 25);
            let mut probes = 0;
            for now in (2_000..40_000).step_by(100) {
                let was_probing = base.is_probing();
                ack_behind(&mut base, now, if was_probing { half } else { 50 }, jitter);
                probes += u32::from(base.is_probing() && !was_probing);
            }
            probes
        };
        assert_eq!([probes(38, 7), probes(38, 6)], [7, 4], "four of them soon");
        assert_eq!([probes(25, 7), probes(48, 20)], [4, 4], "which it is or not for sure");
    }

    #[test]
    fn expires_after_ten_seconds_without_a_sample_near_it() {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 25);
        for now in (200..25_000).step_by(100) {
            ack(&mut base, now, 75);
            probe(&mut base, now + 10, 60);
            // The second probe comes 200 round trips of 60 ms after the first.
            let expected = if now <= 13_000 { 25 } else { 60 };
            assert!(
                base.min() == Some(ms(expected)) || (13_000..14_000).contains(&now),
                "{now}: {:?}",
                base.min()
            );
        }
    }

    #[test]
    fn what_earlier_connections_have_seen_expires_as_if_seen_at_first() {
        let mut base = BaseRtt::default();
        base.recall(Some(ms(25)));
        for now in (100_000..125_000).step_by(100) {
            ack(&mut base, now, 75);
            probe(&mut base, now + 10, 60);
            let expected = if now <= 113_000 { 25 } else { 60 };
            let expires = (113_000..114_000).contains(&now);
            assert!(base.min() == Some(ms(expected)) || expires, "{now}: {:?}", base.min());
        }
    }

    #[test]
    fn a_sample_near_it_prolongs_it() {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 32);
        for now in (1_000..60_000).step_by(500) {
            ack(&mut base, now, if now % 9_000 == 0 { 33 } else { 80 });
            probe(&mut base, now + 10, 70);
        }
        assert_eq!(base.min(), Some(ms(32)));
    }

    #[test]
    fn backoffs_without_effect_disprove_it() {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 25);
        assert_eq!(base.on_backoff(at(200), 60_000.0, ms(75)), None);
        assert_eq!(base.on_backoff(at(300), 25_000.0, ms(74)), None);
        assert_eq!(base.on_backoff(at(400), 10_000.0, ms(73)), Some(60_000.0));
        assert_eq!(base.min(), Some(ms(73)));
    }

    #[test]
    fn backoffs_with_effect_do_not() {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 25);
        for (window, delay) in
            [(60_000.0, 100), (40_000.0, 80), (25_000.0, 65), (20_000.0, 55), (15_000.0, 45)]
        {
            assert_eq!(base.on_backoff(at(200), window, ms(delay)), None);
        }
        for window in [60_000.0, 15_000.0, 60_000.0, 15_000.0] {
            assert_eq!(base.on_backoff(at(300), window, ms(40)), None);
            base.on_round(ms(34)); // a sawtooth: the queue was emptied in between
        }
        assert_eq!(base.on_backoff(at(300), 60_000.0, ms(40)), None);
        base.on_idle_loss();
        assert_eq!(base.on_backoff(at(300), 15_000.0, ms(40)), None);
        assert_eq!(base.min(), Some(ms(25)));
    }
}
