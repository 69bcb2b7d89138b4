//! RTT_min, and how it stays true: the paper's is a minimum for ever.
//!
//! - A sample below it is it.
//! - A second after the first sample, and then every [`LIFETIME`], the window is halved until a
//!   round trip of packets sent after that is through. Without that, who comes to a full queue
//!   would hold the queue for the route, keep it full, and be confirmed by it. Where half the window is
//!   thousands of packets, it is whole again once [`ENOUGH`] have left with half of it. On a long
//!   route the first is left out if slow start has shown what it would.
//! - If for [`LIFETIME`] no sample came near RTT_min, the smallest one of that round trip replaces
//!   it: the route has changed. Or it is what earlier connections with the same address have seen,
//!   and one of them was with a nearer host behind it.
//! - If backoffs have brought the window down to a quarter and the delay has not followed, it is
//!   not our queue that we see. The delay is then RTT_min at once, and the window goes back to
//!   where the backoffs began.
//!
//! # Invariants
//! A probe ends with the first ACK of a packet sent a round trip after its start, or after [`ENOUGH`] others.

use units::{Duration, Instant};

use crate::Ack;

/// How long RTT_min is believed without a sample near it, and the time between two probes.
const LIFETIME: Duration = Duration::from_secs(10);
/// The time before the first probe.
const YOUTH: Duration = Duration::from_secs(1);
/// The same in round trips where they are long: slow start alone takes more than a second there, and a probe costs what
/// one round trip carries. It is [`LIFETIME`] at most: what looks like a long route may be a full queue.
const YOUNG_ROUNDS: u64 = 20;
/// The time between two probes in round trips, if that is longer: so they cost half a per cent at
/// most.
const ROUNDS_BETWEEN: u64 = 200;
/// Packets sent with half the window that tell all that there is to be told: who compares losses remembers so many.
const ENOUGH: u32 = 300;
/// Samples that are above RTT_min by less than this part of it are near it.
const NEAR: u64 = 16;
/// The part of the window that backoffs must have left before the delay is asked whether it
/// followed.
const DISPROVED: f64 = 0.25;

/// RTT_min and what is known against it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseRtt {
    min: Option<Known>,
    /// When a sample was last near it.
    seen_at: Instant,
    /// When the next probe is due; `None` before the first sample.
    due: Option<Instant>,
    probe: Option<Probe>,
    /// Whether there was one.
    was_probed: bool,
    backoffs: Option<Backoffs>,
}

/// RTT_min.
#[derive(Clone, Copy, Debug)]
struct Known {
    min: Duration,
    /// Whether a sample of this connection was near it.
    own: bool,
}

/// A time with half the window.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// What was sent before is still on its way.
    Drain {
        /// When the probe began.
        since: Instant,
        /// Packets that have left since then.
        sent: u32,
    },
    /// Enough has left with half the window, of which nothing is acknowledged yet.
    Await {
        /// When the probe began.
        since: Instant,
        /// When the last of these packets left.
        until: Instant,
    },
    /// Samples of packets sent under half the window are collected.
    Measure {
        /// When the last of them left: when the first was acknowledged, if there were not enough before.
        since: Instant,
        /// The smallest sample.
        min: Duration,
        /// Whether there were.
        enough: bool,
    },
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
        self.min.map(|known| known.min)
    }

    /// Begins with the smallest that earlier connections have seen, which is believed as if this one
    /// had seen it when its first sample came.
    pub(crate) fn recall(&mut self, min: Option<Duration>) {
        self.min = min.map(|min| Known { min, own: false });
    }

    /// Whether nobody but earlier connections has been near RTT_min, though this one has had [`LIFETIME`] for it.
    pub(crate) fn is_hearsay(&self, now: Instant) -> bool {
        let is_foreign = self.min.is_some_and(|known| !known.own);
        is_foreign && self.due.is_some() && now.saturating_duration_since(self.seen_at) > LIFETIME
    }

    /// Whether the path's smallest round-trip time is `min` by now, because there has been none near it for minutes
    /// (RFC 9002 section 5.2): the route is longer than it was.
    pub(crate) fn is_outlived(&self, min: Duration) -> bool {
        self.min.is_some_and(|known| known.own && known.min + known.min / NEAR < min)
    }

    /// Whether a probe is under way.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Whether half the window is to be used: not for all of a probe, where its sender tells of packets.
    pub(crate) fn is_halving(&self) -> bool {
        matches!(self.probe, Some(Probe::Drain { .. } | Probe::Measure { enough: false, .. }))
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        let Some(Probe::Drain { since, sent }) = &mut self.probe else { return };
        *sent += 1;
        if *sent == ENOUGH {
            self.probe = Some(Probe::Await { since: *since, until: now });
        }
    }

    /// Whether so few round trips have passed since the first sample that a first probe had better wait.
    pub(crate) fn is_young(&self, now: Instant) -> bool {
        let Some((Known { min, .. }, due)) = self.min.zip(self.due) else { return true };
        !self.was_probed && now + YOUTH < due + (min * YOUNG_ROUNDS).min(LIFETIME)
    }

    /// Whether a probe costs much: twenty round trips of such a route take longer than who comes to a full queue has
    /// to wait for the first.
    pub(crate) fn is_long(&self) -> bool {
        self.min().is_some_and(|min| min * YOUNG_ROUNDS > YOUTH)
    }

    /// Whether a round trip of which the smallest sample is `delay` was without a queue.
    pub(crate) fn is_near(&self, delay: Duration) -> bool {
        self.min().is_some_and(|min| delay <= min + min / NEAR)
    }

    /// Whether the first probe is due.
    pub(crate) fn is_first_due(&self, now: Instant) -> bool {
        !self.was_probed && self.due.is_some_and(|due| now >= due)
    }

    /// The first probe is left out: all that it would tell is known.
    pub(crate) fn leave_out(&mut self, now: Instant) {
        self.was_probed = true;
        self.put_off(now, self.min().unwrap_or_default());
    }

    /// Whoever has reason to wants the next probe at once.
    pub(crate) fn probe_soon(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Takes an ACK's sample, if it has one. A probe that is due begins if it `may`.
    pub(crate) fn on_ack(&mut self, ack: &Ack, may: bool) {
        let sample = ack.rtt.latest;
        if sample.is_zero() {
            return;
        }
        let Known { min, .. } = *self.min.get_or_insert(Known { min: sample, own: true });
        let due = *self.due.get_or_insert_with(|| {
            self.seen_at = ack.now;
            ack.now + YOUTH
        });
        if self.is_near(sample) {
            self.min = Some(Known { min: min.min(sample), own: true });
            self.seen_at = ack.now;
        }
        if may && self.probe.is_none() && ack.now >= due {
            self.probe = Some(Probe::Drain { since: ack.now, sent: 0 });
            self.was_probed = true;
        }
        self.go_on(ack);
    }

    fn go_on(&mut self, ack: &Ack) {
        let sample = ack.rtt.latest;
        match self.probe {
            Some(Probe::Drain { since, .. }) if ack.largest_sent_at > since => {
                self.probe = Some(Probe::Measure { since: ack.now, min: sample, enough: false });
            }
            Some(Probe::Await { since, until }) if ack.largest_sent_at > since => {
                self.probe = Some(Probe::Measure { since: until, min: sample, enough: true });
            }
            Some(Probe::Measure { since, min, enough }) if ack.largest_sent_at <= since => {
                self.probe = Some(Probe::Measure { since, min: min.min(sample), enough });
            }
            Some(Probe::Measure { min, .. }) => self.end_probe(ack.now, min.min(sample)),
            _ => {}
        }
    }

    /// Half the window has seen a delay of `min`.
    fn end_probe(&mut self, now: Instant, min: Duration) {
        self.probe = None;
        self.put_off(now, min);
        if now.saturating_duration_since(self.seen_at) > LIFETIME {
            self.replace(now, min);
        }
    }

    /// The next probe is due when that of a route that takes `min` has paid.
    fn put_off(&mut self, now: Instant, min: Duration) {
        self.due = Some(now + LIFETIME.max(min * ROUNDS_BETWEEN));
    }

    /// RTT_min is now `min`, whatever it was.
    fn replace(&mut self, now: Instant, min: Duration) {
        (self.min, self.seen_at, self.backoffs) = (Some(Known { min, own: true }), now, None);
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

    /// An ACK that arrives at `now` for what was sent `rtt` ms before.
    fn ack(base: &mut BaseRtt, now: u64, rtt: u64) {
        let rtt = Rtt { latest: ms(rtt), ..Rtt::default() };
        base.on_ack(
            &Ack { now: at(now), largest_sent_at: at(now) - rtt.latest, rtt, ..Ack::default() },
            true,
        );
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
    fn a_long_route_is_young_for_twenty_round_trips_unless_it_was_probed() {
        let at = |ms: u64| at(600 + ms);
        let mut base = BaseRtt::default();
        assert!(base.is_young(at(0)));
        ack(&mut base, 600, 400);
        assert!(base.is_young(at(7_999)) && !base.is_young(at(8_000)));
        let mut short = BaseRtt::default();
        ack(&mut short, 600, 50);
        assert!(short.is_young(at(999)) && !short.is_young(at(1_000)));
        ack(&mut base, 2_000, 400);
        assert!(base.is_probing() && !base.is_young(at(2_000)));
    }

    #[test]
    fn a_first_probe_that_is_left_out_is_made_up_for_in_two_hundred_round_trips() {
        let mut base = BaseRtt::default();
        ack(&mut base, 600, 400);
        assert!(base.is_long() && base.is_near(ms(425)) && !base.is_near(ms(426)));
        assert!(!base.is_first_due(at(1_599)) && base.is_first_due(at(1_600)));
        base.leave_out(at(1_600));
        ack(&mut base, 81_599, 400);
        assert!(!base.is_probing() && !base.is_first_due(at(81_600)));
        ack(&mut base, 81_600, 400);
        assert!(base.is_probing());
        let mut short = BaseRtt::default();
        ack(&mut short, 600, 50);
        assert!(!short.is_long());
    }

    #[test]
    fn who_came_to_a_long_full_queue_is_young_for_ten_seconds() {
        let mut base = BaseRtt::default();
        ack(&mut base, 2_000, 1_500);
        assert!(base.is_young(at(11_999)) && !base.is_young(at(12_000)));
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

    #[test]
    fn half_a_window_of_thousands_is_used_for_no_more_than_tells() {
        let mut base = BaseRtt::default();
        ack(&mut base, 100, 50);
        ack(&mut base, 1_100, 50);
        (1..ENOUGH).for_each(|_| base.on_sent(at(1_130)));
        assert!(base.is_halving());
        base.on_sent(at(1_131));
        assert!(!base.is_halving() && base.is_probing());
        ack(&mut base, 1_150, 50);
        assert!(base.is_probing(), "what left before the probe");
        ack(&mut base, 1_165, 35);
        assert!(!base.is_halving() && base.is_probing());
        ack(&mut base, 1_182, 50);
        assert_eq!((base.is_probing(), base.min()), (false, Some(ms(35))));
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
    fn what_earlier_connections_have_seen_is_hearsay_until_a_sample_is_near_it() {
        let mut base = BaseRtt::default();
        base.recall(Some(ms(25)));
        assert!(!base.is_hearsay(at(60_000)), "no sample yet");
        ack(&mut base, 100, 75);
        assert!(!base.is_hearsay(at(10_100)) && base.is_hearsay(at(10_101)));
        ack(&mut base, 200, 26);
        assert!(!base.is_hearsay(at(60_000)));
        let mut own = BaseRtt::default();
        ack(&mut own, 100, 25);
        assert!(!own.is_hearsay(at(60_000)));
    }

    #[test]
    fn what_the_path_has_forgotten_is_outlived() {
        let mut base = BaseRtt::default();
        base.recall(Some(ms(25)));
        assert!(!base.is_outlived(ms(75)), "it never was the path's own");
        ack(&mut base, 100, 26);
        assert!(!base.is_outlived(ms(26)) && base.is_outlived(ms(75)), "what is near it confirms it");
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
