//! The share of packets that a path loses whatever the load: what round trips without a queue have
//! lost.
//!
//! Counts in packets. The memory is a few windows, so that it follows the path; a pseudo-count
//! stands for what has not been seen yet.
//!
//! # Invariants
//! `0 < share < 1`.

use crate::{chance::Chance, dispersion::Dispersion};

/// How fast the share that has been answered for follows one that falls, per round trip.
const PAID_GAIN: f64 = 1.0 / 16.0;
/// What the share that has been answered for is multiplied by, and what is added, before more than
/// that asks for an answer.
const RISE: f64 = 2.0;
const LEAST_RISE: f64 = 0.03;
/// Least number of packets that are remembered.
const LEAST_MEMORY: f64 = 300.0;
/// Windows that are remembered, if that is more.
const MEMORY_WINDOWS: f64 = 4.0;
/// What counts as seen before anything has been: a share that the first losses soon outweigh.
const PRIOR_LOST: f64 = 0.1;
const PRIOR_ALL: f64 = 50.0;
/// The index of dispersion from which on a few round trips' losses look like bursts by chance.
/// Queues that jitter or a sender's bursts hide lose with an index of 1 to 3.
const LEAST_INDEX: f64 = 6.0;
/// Standard deviations by which chance alone may exceed what is expected.
const DEVIATIONS: f64 = 4.0;
/// Lost packets in a round trip that prove nothing, beyond that: losses come in small bursts.
const BURST: f64 = 2.0;

/// Whether losing `lost` packets is more than chance makes of `expected`, small bursts allowed for,
/// where losses have the index `dispersion`.
pub(crate) fn is_more_than_chance(lost: f64, expected: f64, dispersion: f64) -> bool {
    let (lost, expected) = (lost / dispersion, expected / dispersion);
    lost > expected + DEVIATIONS * expected.sqrt() + BURST
}

/// Lost packets among all packets, in round trips without a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossFloor {
    lost: f64,
    all: f64,
    /// The share that has been answered for; `None` before the memory was full.
    paid: Option<f64>,
    /// The round trips that these are the losses of.
    rounds: Dispersion,
}

impl LossFloor {
    /// A round trip without a queue has delivered and lost so many packets; `window` packets are in
    /// flight.
    pub(crate) fn on_quiet_round(&mut self, delivered: f64, lost: f64, window: f64) {
        self.lost += lost;
        self.all += delivered + lost;
        let memory = LEAST_MEMORY.max(MEMORY_WINDOWS * window);
        if self.all > memory {
            self.rounds.scale(memory / self.all);
            self.lost *= memory / self.all;
            self.all = memory;
            let share = self.share();
            let paid = self.paid.get_or_insert(share);
            *paid += (share - *paid).min(0.0) * PAID_GAIN;
        }
        self.rounds.on_round(delivered, lost);
    }

    /// Packets lost and all packets, of those that are remembered.
    pub(crate) fn remembered(&self) -> (f64, f64) {
        (self.lost, self.all)
    }

    /// The index of dispersion of the losses that are remembered, if it is larger than that of a
    /// hidden queue's: those come in every round trip. So if `known` is.
    pub(crate) fn dispersion(&self, known: f64) -> f64 {
        let index = self.rounds.index().max(known);
        if index < LEAST_INDEX { 1.0 } else { index }
    }

    /// Whether far more is lost than has been answered for; from then on it has been. A load that
    /// grows beyond what a path carries loses more and more, too slowly for one round trip to tell,
    /// and where several flows do that half the load of one of them makes no difference. Losses
    /// have the index `known` or that of those remembered.
    pub(crate) fn has_risen(&mut self, known: f64) -> bool {
        let (share, index) = (self.share(), self.rounds.index().max(known));
        let has_risen = self.paid.is_some_and(|paid| {
            share > RISE * paid + LEAST_RISE && is_more_than_chance(self.lost, paid * self.all, index)
        });
        if has_risen {
            self.paid = Some(share);
        }
        has_risen
    }

    /// What was remembered was the load's doing: the path itself loses `share`.
    pub(crate) fn correct(&mut self, share: f64) {
        self.lost = self.lost.min(share * self.all);
    }

    /// The share that is lost whatever the load, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        (self.lost + PRIOR_LOST) / (self.all + PRIOR_ALL)
    }

    /// Whether losing `lost` of `packets` is more than the floor and some chance explain, where no
    /// queue was seen.
    pub(crate) fn is_exceeded(&self, lost: f64, packets: f64, chance: &Chance) -> bool {
        is_more_than_chance(lost, self.share().max(chance.share()) * packets, chance.index())
    }

    /// The same where a full queue suggests that the losses are its.
    pub(crate) fn is_exceeded_with_queue(&self, lost: f64, packets: f64, chance: &Chance) -> bool {
        let expected = self.share().max(chance.share()) * packets / chance.index();
        lost / chance.index() > expected + DEVIATIONS * expected.sqrt()
    }

    /// Whether losses without a queue are known of.
    pub(crate) fn is_lossy(&self) -> bool {
        self.lost >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_losses_any_loss_with_a_queue_is_congestion() {
        let (mut floor, chance) = (LossFloor::default(), Chance::default());
        for _ in 0..100 {
            floor.on_quiet_round(50.0, 0.0, 50.0);
        }
        assert!(floor.is_exceeded_with_queue(1.0, 50.0, &chance) && !floor.is_lossy());
        assert!(!floor.is_exceeded(2.0, 50.0, &chance) && floor.is_exceeded(5.0, 50.0, &chance));
    }

    #[test]
    fn what_is_lost_at_any_load_proves_nothing() {
        let (mut floor, chance) = (LossFloor::default(), Chance::default());
        for _ in 0..20 {
            floor.on_quiet_round(90.0, 10.0, 100.0);
        }
        assert!((0.08..0.1).contains(&floor.share()), "{}", floor.share());
        assert!(
            !floor.is_exceeded_with_queue(10.0, 100.0, &chance) && !floor.is_exceeded(15.0, 100.0, &chance)
        );
        assert!(floor.is_exceeded(40.0, 100.0, &chance));
    }

    #[test]
    fn follows_the_path_within_a_few_windows() {
        let mut floor = LossFloor::default();
        (0..100).for_each(|_| floor.on_quiet_round(100.0, 0.0, 100.0));
        (0..5).for_each(|_| floor.on_quiet_round(90.0, 10.0, 100.0));
        assert!(floor.share() > 0.03, "{}", floor.share());
    }

    #[test]
    fn a_rise_is_answered_once() {
        let mut floor = LossFloor::default();
        let mut rounds = |share: f64, n: usize| {
            let mut answers = 0;
            for _ in 0..n {
                floor.on_quiet_round(100.0 * (1.0 - share), 100.0 * share, 100.0);
                answers += usize::from(floor.has_risen(1.0));
            }
            answers
        };
        assert_eq!((rounds(0.05, 50), rounds(0.08, 50)), (0, 0), "what is there from the start, or about");
        assert_eq!((rounds(0.2, 50), rounds(0.05, 100)), (1, 0));
        let creeping: usize = (5..40).map(|percent| rounds(f64::from(percent) / 100.0, 2)).sum();
        assert!((2..=4).contains(&creeping), "{creeping}");
        assert_eq!(rounds(0.0, 100) + rounds(0.02, 20), 0, "two per cent are a few packets");
    }

    #[test]
    fn known_bursts_are_counted_as_one_loss_each() {
        let (mut floor, mut chance) = (LossFloor::default(), Chance::default());
        for n in 0..40 {
            let lost = if n % 5 == 4 { 10.0 } else { 0.0 };
            floor.on_quiet_round(100.0 - lost, lost, 100.0);
        }
        assert!(floor.is_exceeded(40.0, 100.0, &chance));
        let mut rounds = Dispersion::default();
        (0..40).for_each(|n| rounds.on_round(90.0, if n % 5 == 0 { 10.0 } else { 0.0 }));
        chance.on_acquitted(&rounds);
        assert!(
            !floor.is_exceeded(30.0, 100.0, &chance) && !floor.is_exceeded_with_queue(15.0, 100.0, &chance)
        );
        assert!(
            floor.is_exceeded(60.0, 100.0, &chance) && floor.is_exceeded_with_queue(40.0, 100.0, &chance)
        );
    }

    #[test]
    fn one_burst_is_seen_as_one() {
        let mut floor = LossFloor::default();
        (0..10).for_each(|_| floor.on_quiet_round(100.0, 0.0, 100.0));
        floor.on_quiet_round(80.0, 20.0, 100.0);
        assert!(floor.dispersion(1.0) > 6.0, "{}", floor.dispersion(1.0));
    }

    #[test]
    fn losses_of_every_round_trip_are_no_bursts() {
        let mut floor = LossFloor::default();
        (0..40).for_each(|n| floor.on_quiet_round(95.0, 3.0 + f64::from(n % 3), 98.0));
        assert_eq!((floor.dispersion(1.0), floor.dispersion(3.0), floor.dispersion(9.0)), (1.0, 1.0, 9.0));
    }
}
