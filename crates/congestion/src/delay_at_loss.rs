//! Whether packets are lost when the delay is at its highest.
//!
//! A queue that overflows is full at that moment, whoever has filled it: the packet that comes
//! through next has waited for all of it. Chance picks packets whatever their delay. So each loss
//! has a *rank*: the share of the latest round-trip times that lie below that of the first packet
//! sent after the lost one. It needs no idea of the route's own delay, so it tells in a crowd, whose
//! short flows have never seen the queue empty, where a queue that is short against the round-trip
//! time lies within what counts as none, and behind jitter that is not much larger than the queue.
//!
//! Ranks r of losses by chance are uniform; those of overflowing queues are taken for distributed
//! like the largest of four, with a tenth of uniform ones among them, so that no single loss decides.
//! The sum of the logarithms of the odds `0.1 + 0.9 * 4 r^3` is the evidence, as in a sequential
//! test. It is bounded: [`MOST_FOR_CHANCE`] is what many losses by chance are worth before a streak
//! of high ranks makes them congestion, [`MOST_FOR_LOAD`] the same the other way.
//!
//! Round-trip times that differ by less than a 64th of the smallest count as equal. Where nothing
//! else is noise a queue that grows by a packet a round trip would rank each loss highest, since what
//! follows it is the latest.
//!
//! Where most samples equal the one in question, which they do while somebody else's queue stands as
//! well as where there is none, they tell nothing. A young connection that came when at least half of
//! the queue stood then ranks it among the round trips that [earlier ones](crate::Precedents) began
//! with.
//!
//! Ours; that losses and delay go together under congestion alone is an old idea (Biaz and Vaidya,
//! "Discriminating congestion losses from wireless losses using inter-arrival times at the
//! receiver", 1999).
//!
//! # Invariants
//! The evidence stays within its bounds; the rank of a loss is above 0 and below 1; losses before
//! the same packet count once.

use units::Instant;

use crate::{Ack, Precedents};

/// Round-trip times that a loss is compared with.
const SAMPLES: usize = 32;
/// Part of the smallest round-trip time below which two count as equal.
const EQUAL: u32 = 64;
/// The share of equal ones from which on samples tell nothing.
const MOSTLY: f32 = 0.5;
/// Bounds of the evidence.
const MOST_FOR_LOAD: f32 = 4.0;
const MOST_FOR_CHANCE: f32 = 16.0;
/// Evidence below which it is beyond doubt that losses are chance.
pub(crate) const SURELY_CHANCE: f32 = -1.0;
/// Evidence below which so was one that came before there was any.
pub(crate) const FAR_FROM_LOAD: f32 = -2.0;
/// Evidence below which so was one that came with what looked like a queue.
pub(crate) const DESPITE_A_QUEUE: f32 = -4.0;
/// Share of the losses under load that may have any rank.
const ANY_RANK: f32 = 0.1;

/// A round-trip time, and when its packet was sent. In microseconds, the latter modulo 2^32: every
/// path of every connection keeps these.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    sent_at: u32,
    delay: u32,
}

/// The evidence for losses being the load's doing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DelayAtLoss {
    /// The latest samples, in a ring that grows to [`SAMPLES`]: an idle connection has few.
    latest: Vec<Sample>,
    /// Where the next one goes once there are so many.
    oldest: u8,
    /// The sample that the latest loss was judged by: losses before one packet are one overflow.
    judged_by: Option<u32>,
    evidence: f32,
    /// What earlier connections have found, until this one knows better.
    before: Option<Box<Precedents>>,
    /// The first sample, with when it came.
    first: Option<Sample>,
}

impl DelayAtLoss {
    /// Takes an ACK's sample, if it has one.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let delay = ack.delay();
        if delay.is_zero() {
            return;
        }
        let delay = delay.saturating_micros();
        let first = *self.first.get_or_insert(Sample { sent_at: micros(ack.now), delay });
        let age = micros(ack.now).wrapping_sub(first.sent_at);
        self.before.take_if(|_| u64::from(age) > Precedents::TRUSTED.as_micros());
        let sample = Sample { sent_at: micros(ack.largest_sent_at), delay };
        if self.latest.len() < SAMPLES {
            return self.latest.push(sample);
        }
        self.latest[usize::from(self.oldest)] = sample;
        self.oldest = (self.oldest + 1) % SAMPLES as u8;
    }

    /// Packets were lost, the last of which was sent at `sent_at`. Returns whether that is the load's
    /// doing, as far as delays tell: not if nothing has come through since.
    pub(crate) fn on_loss(&mut self, sent_at: Instant) -> bool {
        let Some(next) = self.next(micros(sent_at)) else { return false };
        if self.judged_by.replace(next.sent_at) != Some(next.sent_at) {
            let odds = ANY_RANK + (1.0 - ANY_RANK) * 4.0 * self.rank(next).powi(3);
            self.evidence = (self.evidence + odds.ln()).clamp(-MOST_FOR_CHANCE, MOST_FOR_LOAD);
        }
        self.is_load()
    }

    /// Whether losses come with the load, as far as they have shown it.
    pub(crate) fn is_load(&self) -> bool {
        self.evidence > 0.0
    }

    /// Whether losses have come at any delay, as two without a queue do.
    pub(crate) fn is_chance(&self) -> bool {
        self.evidence < SURELY_CHANCE
    }

    /// The sum.
    pub(crate) fn evidence(&self) -> f32 {
        self.evidence
    }

    /// Begins with what earlier connections have found.
    pub(crate) fn recall(&mut self, before: &Precedents) {
        self.evidence = before.evidence();
        self.before = before.enough().map(|_| Box::new(*before));
    }

    /// What was sent first from `lost_at` on and came through; `None` if nothing has, or too much since.
    fn next(&self, lost_at: u32) -> Option<Sample> {
        let since = |sample: &Sample| sample.sent_at.wrapping_sub(lost_at);
        let is_later = |sample: &Sample| since(sample) <= u32::MAX / 2;
        if self.overtakes() && self.is_forgotten(lost_at) {
            return None;
        }
        self.latest.iter().copied().filter(is_later).min_by_key(|s| since(s))
    }

    /// Whether packets are known to overtake each other. That of the latest which was sent first is then the one
    /// that took longest, whatever took one that was lost long before.
    fn overtakes(&self) -> bool {
        let (last, first) = self.latest.split_at(usize::from(self.oldest));
        let came = first.iter().chain(last);
        let is_overtaken =
            |(one, next): (&Sample, &Sample)| next.sent_at.wrapping_sub(one.sent_at) > u32::MAX / 2;
        self.latest.len() == SAMPLES && came.clone().zip(came.skip(1)).any(is_overtaken)
    }

    /// Whether all of the latest came so late that what came first after a loss may have been pushed out since.
    fn is_forgotten(&self, lost_at: u32) -> bool {
        let least = self.latest.iter().map(|sample| sample.delay).min().unwrap_or(0);
        let came = |sample: &Sample| sample.sent_at.wrapping_sub(lost_at).wrapping_add(sample.delay);
        self.latest.iter().all(|sample| came(sample).wrapping_sub(least) <= u32::MAX / 2)
    }

    /// The share of the samples that lie below one of them; of those of earlier connections if that
    /// one is like most of them and its queue stood before.
    fn rank(&self, next: Sample) -> f32 {
        let samples = self.latest.iter().map(|sample| sample.delay);
        let before = self.before.as_ref().and_then(|before| before.enough());
        match (rank(samples, next.delay), before) {
            ((_, equal), Some(before)) if equal >= MOSTLY && self.found(next.delay, before) => {
                rank(before.iter().copied(), next.delay).0
            }
            ((rank, _), _) => rank,
        }
    }

    /// Whether at least half of the queue that `delay` shows above the least `before` was there when the
    /// connection came.
    fn found(&self, delay: u32, before: &[u32]) -> bool {
        let least = before.iter().min().copied().unwrap_or(0);
        let queue = |delay: u32| delay.saturating_sub(least);
        self.first.is_some_and(|first| queue(first.delay) >= queue(delay) / 2)
    }
}

/// The share of the samples that lie below `delay`, and that of those that equal it.
fn rank(samples: impl Iterator<Item = u32> + Clone, delay: u32) -> (f32, f32) {
    let margin = samples.clone().min().unwrap_or(0) / EQUAL;
    let (mut all, mut below, mut above) = (0.0, 0.0, 0.0);
    for sample in samples {
        all += 1.0;
        if sample.saturating_add(margin) < delay {
            below += 1.0;
        } else if sample > delay.saturating_add(margin) {
            above += 1.0;
        }
    }
    let equal = all - below - above;
    // Half of the equal ones, and half a sample more that is either.
    ((below + equal / 2.0 + 0.25) / (all + 0.5), equal / all)
}

/// Microseconds modulo 2^32, which is more than an hour.
fn micros(at: Instant) -> u32 {
    (at.saturating_duration_since(Instant::ORIGIN)).as_micros() as u32
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::Rtt;

    fn at(ms: u64) -> Instant {
        // Close to where 32 bits of microseconds end.
        Instant::ORIGIN + Duration::from_millis(4_294_900 + ms)
    }

    fn ack(delays: &mut DelayAtLoss, sent_ms: u64, delay_us: u64) {
        let rtt = Rtt { latest: Duration::from_micros(delay_us), ..Rtt::default() };
        delays.on_ack(&Ack { largest_sent_at: at(sent_ms), rtt, ..Ack::default() });
    }

    /// A packet a millisecond whose delay is `delay(n)`; each for which `is_lost(n)` holds is lost,
    /// and that is known three packets later.
    fn run(delays: &mut DelayAtLoss, delay: impl Fn(u64) -> u64, is_lost: impl Fn(u64) -> bool) {
        for n in 0..400 {
            if !is_lost(n) {
                ack(delays, n, delay(n));
            }
            if n >= 3 && is_lost(n - 3) {
                delays.on_loss(at(n - 3));
            }
        }
    }

    /// A queue of up to 4 ms that fills and empties.
    fn saw(n: u64) -> u64 {
        40_000 + n % 40 * 100
    }

    #[test]
    fn losses_at_the_top_are_the_loads() {
        let mut delays = DelayAtLoss::default();
        run(&mut delays, saw, |n| n % 40 == 37);
        assert!(delays.is_load() && delays.evidence == MOST_FOR_LOAD, "{}", delays.evidence);
    }

    #[test]
    fn losses_anywhere_are_chance() {
        let mut delays = DelayAtLoss::default();
        run(&mut delays, saw, |n| n * 2_654_435_761 % 23 == 5);
        assert!(delays.is_chance() && delays.evidence < -4.0, "{}", delays.evidence);
    }

    #[test]
    fn without_a_queue_every_loss_is_chance() {
        let mut delays = DelayAtLoss::default();
        run(&mut delays, |_| 40_000, |n| n == 100);
        assert!(!delays.is_load() && (-0.7..-0.5).contains(&delays.evidence), "{}", delays.evidence);
        assert!(!delays.is_chance(), "one loss is not beyond doubt");
    }

    #[test]
    fn a_delay_that_creeps_up_is_no_queue_that_overflows() {
        let mut delays = DelayAtLoss::default();
        run(&mut delays, |n| 40_000 + 10 * n, |n| n % 20 == 7);
        assert!(!delays.is_load(), "{}", delays.evidence);
    }

    #[test]
    fn what_was_chance_becomes_load_after_a_streak_and_back() {
        let mut delays = DelayAtLoss::default();
        run(&mut delays, saw, |n| n * 2_654_435_761 % 23 == 5);
        run(&mut delays, saw, |n| n % 40 == 37 && n < 120);
        assert!(!delays.is_load(), "three losses are no streak: {}", delays.evidence);
        run(&mut delays, saw, |n| n % 40 == 37);
        assert!(delays.is_load());
        run(&mut delays, saw, |n| n * 2_654_435_761 % 23 == 5);
        assert!(!delays.is_load());
    }

    /// Of a path whose earlier connections have met its queue of up to 4 ms at any length.
    fn known(evidence: f32) -> DelayAtLoss {
        let mut before = Precedents::default();
        (0..16).for_each(|n| before.begin(at(0), Duration::from_micros(40_000 + n * 250)));
        let mut delays = DelayAtLoss::default();
        delays.recall(&before.with_evidence(evidence));
        delays
    }

    #[test]
    fn a_queue_that_stands_is_known_by_those_who_have_seen_it_empty() {
        let full = |n| 43_700 + n % 7 * 50;
        let lost = |n| n * 2_654_435_761 % 23 == 5;
        let mut first = DelayAtLoss::default();
        run(&mut first, full, lost);
        assert!(first.is_chance(), "who has seen nothing else takes it for none: {}", first.evidence);
        let mut later = known(0.0);
        run(&mut later, full, lost);
        assert_eq!(later.evidence, MOST_FOR_LOAD);
        // Where it is empty, the same losses are chance, and where it is one's own, too.
        let mut later = known(0.0);
        run(&mut later, |n| 40_000 + n % 7 * 50, lost);
        assert!(later.is_chance(), "{}", later.evidence);
        let mut alone = known(0.0);
        run(&mut alone, |n| if n < 5 { 40_000 } else { full(n) }, lost);
        assert!(alone.is_chance(), "{}", alone.evidence);
    }

    #[test]
    fn delays_that_differ_speak_for_themselves() {
        // A queue of one's own above all that others have seen, and losses at any length of it.
        let mut delays = known(0.0);
        run(&mut delays, |n| 44_000 + n % 40 * 100, |n| n * 2_654_435_761 % 23 == 5);
        assert!(delays.is_chance(), "{}", delays.evidence);
    }

    #[test]
    fn evidence_goes_on_where_the_last_connection_has_ended() {
        let mut delays = known(3.0);
        assert!(delays.is_load());
        ack(&mut delays, 1, 40_000);
        assert!(delays.on_loss(at(1)), "a single loss does not change that");
        run(&mut delays, |_| 40_000, |n| n % 20 == 7);
        assert!(delays.is_chance(), "{}", delays.evidence);
    }

    #[test]
    fn others_are_asked_no_longer_than_ten_seconds() {
        let acked = |delays: &mut DelayAtLoss, s| {
            let rtt = Rtt { latest: Duration::from_millis(44), ..Rtt::default() };
            let now = Instant::ORIGIN + Duration::from_secs(s);
            delays.on_ack(&Ack { now, largest_sent_at: now, rtt, ..Ack::default() });
        };
        let mut delays = known(0.0);
        (5..=15).for_each(|s| acked(&mut delays, s));
        assert!(delays.before.is_some());
        acked(&mut delays, 16);
        assert!(delays.before.is_none());
    }

    #[test]
    fn a_loss_that_is_known_of_late_has_no_rank() {
        // Packets of up to 20 ms of jitter overtake each other, ten of them a ms. Which of those that came last
        // was sent first has taken longest, and says nothing about a packet that was sent long before.
        let mut delays = DelayAtLoss::default();
        for came in 0..400 {
            let jitter = came * 2_654_435_761 % 20;
            ack(&mut delays, 100 + came / 10 - jitter, 40_000 + jitter * 1_000);
        }
        assert!(!delays.on_loss(at(100)) && delays.evidence == 0.0, "{}", delays.evidence);
        // One that was sent after the first of them has come is theirs.
        delays.on_loss(at(179));
        assert_eq!(delays.evidence, 0.0, "nothing has followed it");
        (0..40).for_each(|n| ack(&mut delays, 180 + n, 40_000));
        assert!(!delays.on_loss(at(190)) && delays.evidence < 0.0, "{}", delays.evidence);
    }

    #[test]
    fn losses_that_nothing_followed_and_those_counted_before_do_not_count() {
        let mut delays = DelayAtLoss::default();
        assert!(!delays.on_loss(at(5)) && delays.evidence == 0.0);
        (0..9).for_each(|n| ack(&mut delays, n, 40_000 + n * 1_000));
        assert!(delays.on_loss(at(7)));
        let once = delays.evidence;
        assert!(once > 0.5, "{once}");
        assert!(delays.on_loss(at(7)) && !delays.on_loss(at(9)), "nothing has come through since");
        assert_eq!(delays.evidence, once);
    }
}
