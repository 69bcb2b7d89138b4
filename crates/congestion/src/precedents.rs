//! What earlier connections over a path have found of its load, for the next ones.
//!
//! A short connection in a crowd begins while others' queue stands and ends before it has changed: all
//! its round-trip times are alike, and what the queue drops looks like chance. Those before it knew
//! better, each a little: one has seen the queue empty, another lost packets when it was longest.
//!
//! Kept are the round-trip times that the latest [`KEPT`] connections began with, before any of them
//! had sent enough to make a queue of its own, and the evidence of
//! [`delay_at_loss`](crate::delay_at_loss). They are believed for [`LIFETIME`] after the last of these
//! connections began, and then for the first [`TRUSTED`](Precedents::TRUSTED) of a new one, which knows better by then.
//!
//! Ours; docs/decisions/0040-precedents.md.
//!
//! # Invariants
//! The evidence that is recalled lies within [`MOST_RECALLED`] of none.

use units::{Duration, Instant};

use crate::carried::LIFETIME;

/// How many connections' round-trip times are kept, and how many there must be to compare with.
const KEPT: usize = 16;
const ENOUGH: u8 = 4;
/// The most that evidence is worth to another connection, either way: the path may have changed.
const MOST_RECALLED: f32 = 4.0;

/// What earlier connections over a path have found of its load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Precedents {
    /// In microseconds, in a ring.
    round_trips: [u32; KEPT],
    next: u8,
    count: u8,
    /// When the last of them was added.
    seen: Instant,
    evidence: f32,
}

impl Precedents {
    /// For how long a new connection asks them.
    pub const TRUSTED: Duration = Duration::from_secs(10);

    /// A connection has begun, with a first round trip of `rtt`.
    pub fn begin(&mut self, now: Instant, rtt: Duration) {
        self.round_trips[usize::from(self.next)] = rtt.saturating_micros();
        self.next = (self.next + 1) % KEPT as u8;
        self.count = (self.count + 1).min(KEPT as u8);
        self.seen = now;
    }

    /// The same with what a connection has found since:
    /// [`Controller::load_evidence`](crate::Controller::load_evidence).
    pub fn with_evidence(self, evidence: f32) -> Self {
        Self { evidence: evidence.clamp(-MOST_RECALLED, MOST_RECALLED), ..self }
    }

    /// What is to be believed of it now: nothing if it is old.
    pub fn fresh(self, now: Instant) -> Self {
        if now.saturating_duration_since(self.seen) < LIFETIME { self } else { Self::default() }
    }

    /// The logarithm of the odds that losses are the load's doing, -4 to 4.
    pub fn evidence(&self) -> f32 {
        self.evidence
    }

    /// The smallest round-trip time; `None` if there is none.
    pub fn base_rtt(&self) -> Option<Duration> {
        let least = self.round_trips().iter().min();
        least.map(|micros| Duration::from_micros(u64::from(*micros)))
    }

    /// The round-trip times in microseconds, if there are enough to compare with.
    pub(crate) fn enough(&self) -> Option<&[u32]> {
        (self.count >= ENOUGH).then(|| self.round_trips())
    }

    fn round_trips(&self) -> &[u32] {
        &self.round_trips[..usize::from(self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn of(round_trips: impl IntoIterator<Item = u64>) -> Precedents {
        let mut precedents = Precedents::default();
        round_trips.into_iter().for_each(|ms| precedents.begin(at(1), Duration::from_millis(ms)));
        precedents
    }

    #[test]
    fn the_latest_round_trips_are_kept() {
        assert_eq!(Precedents::default().base_rtt(), None);
        let many = of(30..60);
        assert_eq!(many.base_rtt(), Some(Duration::from_millis(44)), "the earlier ones are forgotten");
        assert_eq!(many.enough().map(<[u32]>::len), Some(KEPT));
    }

    #[test]
    fn three_are_too_few_to_compare_with() {
        assert_eq!(of([40, 50, 60]).enough(), None);
        assert_eq!(of([40, 50, 60, 70]).enough(), Some(&[40_000, 50_000, 60_000, 70_000][..]));
    }

    #[test]
    fn evidence_is_bounded_and_all_of_it_grows_old() {
        let precedents = of([40]).with_evidence(16.0);
        assert_eq!((precedents.evidence(), precedents.with_evidence(-16.0).evidence()), (4.0, -4.0));
        assert_eq!(precedents.fresh(at(600)), precedents);
        assert_eq!(precedents.fresh(at(601)), Precedents::default());
    }
}
