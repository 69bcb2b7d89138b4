//! SLP's q, learnt: how probably the loss of a packet of each kind leads to a timeout.
//!
//! SLP section II-C1 takes q from measurements made beforehand (1 for SYN, 0.1 for PSH) and leaves
//! learning it to future work. Here each kind has a beta distribution: the paper's value counts as
//! [`PRIOR_WEIGHT`] losses seen before, every loss of a packet without a duplicate adds one, and q
//! is the mean,
//!
//! ```text
//! q = (PRIOR_WEIGHT * prior + timeouts) / (PRIOR_WEIGHT + losses)
//! ```
//!
//! At [`MOST_LOSSES`] both counts are halved, so that q follows a path that changes and the counts
//! are bounded.
//!
//! # How far off it can be
//! With n losses counted (at most [`MOST_LOSSES`]) of a kind whose true q is t, the expectation of
//! q is off by at most
//! |prior - t| x `PRIOR_WEIGHT` / (`PRIOR_WEIGHT` + n), and its standard deviation is at most 1 / (2 sqrt(n)): 0.09 at 32 losses, which is when
//! counts have just been halved. The arbiter compares q with thresholds that differ by orders of
//! magnitude between kinds and sizes, so that is enough.
//!
//! # Departures
//! - Losses of packets that were duplicated are not counted: what would have happened without the
//!   copy is not known. A kind that is always duplicated keeps its q until conditions (bandwidth,
//!   window) keep it from being duplicated.
//! - The kind of a packet with several marks is its strongest one, in the order handshake, push,
//!   FIN (SLP-A6 takes the largest q; with learnt values that would mix the kinds' statistics).
//!
//! # Invariants
//! 0 <= q <= 1. Without losses q is the prior.

use crate::slp_arbiter::{Marks, TimeoutOdds};

/// How many losses the prior is worth.
pub const PRIOR_WEIGHT: f64 = 8.0;
/// Losses of a kind at which its counts are halved.
pub const MOST_LOSSES: u32 = 64;

/// What was seen of one kind of packet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    losses: u32,
    timeouts: u32,
}

impl Counts {
    fn count(&mut self, timed_out: bool) {
        self.losses += 1;
        self.timeouts += u32::from(timed_out);
        if self.losses >= MOST_LOSSES {
            (self.losses, self.timeouts) = (self.losses / 2, self.timeouts / 2);
        }
    }

    fn mean(self, prior: f64) -> f64 {
        (PRIOR_WEIGHT * prior.clamp(0.0, 1.0) + f64::from(self.timeouts))
            / (PRIOR_WEIGHT + f64::from(self.losses))
    }
}

/// Learns q for every kind of packet.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct LearntOdds {
    prior: TimeoutOdds,
    handshake: Counts,
    push: Counts,
    fin: Counts,
    plain: Counts,
}

impl LearntOdds {
    /// Nothing seen yet.
    pub fn new(prior: TimeoutOdds) -> Self {
        Self { prior, ..Self::default() }
    }

    /// A packet with `marks` that had no duplicate was declared lost: because a timer fired
    /// (`timed_out`), or by ACKs of others.
    pub fn on_lost(&mut self, marks: Marks, timed_out: bool) {
        let counts = match marks {
            Marks { handshake: true, .. } => &mut self.handshake,
            Marks { push: true, .. } => &mut self.push,
            Marks { fin: true, .. } => &mut self.fin,
            _ => &mut self.plain,
        };
        counts.count(timed_out);
    }

    /// q of every kind, for the arbiter.
    pub fn odds(&self) -> TimeoutOdds {
        TimeoutOdds {
            handshake: self.handshake.mean(self.prior.handshake),
            push: self.push.mean(self.prior.push),
            fin: self.fin.mean(self.prior.fin),
            plain: self.plain.mean(self.prior.plain),
        }
    }

    /// q of a packet with `marks`.
    pub fn of(&self, marks: Marks) -> f64 {
        self.odds().of(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Marks = Marks { handshake: false, push: true, fin: false };
    const FIN: Marks = Marks { handshake: false, push: false, fin: true };

    #[test]
    fn starts_with_the_paper_s_values() {
        assert_eq!(LearntOdds::default().odds(), TimeoutOdds::default());
    }

    #[test]
    fn hand_computed_means() {
        let mut odds = LearntOdds::default();
        odds.on_lost(PUSH, true);
        odds.on_lost(PUSH, true);
        assert!((odds.of(PUSH) - (0.8 + 2.0) / 10.0).abs() < 1e-12);
        odds.on_lost(FIN, false);
        assert_eq!(odds.of(FIN), 0.0);
        odds.on_lost(FIN, true);
        assert!((odds.of(FIN) - 0.1).abs() < 1e-12);
        // A packet with several marks counts once, and is asked for with the largest q (SLP-A6).
        let both = Marks { push: true, ..FIN };
        assert_eq!(odds.of(both), odds.of(PUSH));
        odds.on_lost(both, false);
        assert!((odds.of(PUSH) - 2.8 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn converges_within_the_stated_bound_and_follows_changes() {
        let mut random = 1_u64;
        let mut chance = |p: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) as f64) < p * (1_u64 << 31) as f64
        };
        let mut odds = LearntOdds::default();
        for truth in [0.6, 0.05, 1.0, 0.0] {
            for _ in 0..300 {
                odds.on_lost(PUSH, chance(truth));
                assert!((0.0..=1.0).contains(&odds.of(PUSH)));
            }
            let bias = (0.1_f64 - truth).abs() * PRIOR_WEIGHT / (PRIOR_WEIGHT + 32.0);
            assert!((odds.of(PUSH) - truth).abs() <= bias + 3.0 * 0.09, "{truth}: {}", odds.of(PUSH));
        }
        assert!(odds.push.losses < MOST_LOSSES);
    }
}
