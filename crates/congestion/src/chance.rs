//! What a path loses by chance, burst by burst, learnt only where the load cannot have been the
//! reason.
//!
//! Losses without a queue may be those of a queue that nobody sees, and such a queue's losses come
//! in bursts as well. So a round trip teaches something only if
//!
//! - it had at most half as much under way as the path has carried lately (in the first slow start:
//!   as the path delivered later); or
//! - the same load lost nothing more afterwards ([`Trial`](crate::trial::Trial)); or
//! - it lost a smaller share than is known; or
//! - bursts are known already, and it lost no more than they explain.
//!
//! [`HalfLoad`](crate::half_load::HalfLoad) checks it later on, and takes it back.
//!
//! # Invariants
//! As of [`Dispersion`].

use crate::dispersion::Dispersion;

/// What is left of the most that the path has carried after a round trip with less.
const CARRIED_DECAY: f64 = 0.99;
/// Round trips of slow start that may wait for a larger one.
const MOST_YOUNG: usize = 32;

/// The losses that are known to be chance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chance {
    known: Dispersion,
    /// Those of them that met at most half the load.
    low: Dispersion,
    /// The most that a round trip without a queue has delivered lately, in packets.
    carried: f64,
    /// Slow start: what round trips delivered and lost that have yet to prove a low load.
    young: Vec<(f64, f64)>,
}

impl Chance {
    /// A round trip of slow start that showed no queue. It teaches once the path has delivered twice
    /// its load in another: what was merely sent says nothing of what the path carries.
    pub(crate) fn on_young_round(&mut self, delivered: f64, lost: f64) {
        self.carry(delivered);
        if self.young.len() == MOST_YOUNG {
            self.young.remove(0);
        }
        self.young.push((delivered, lost));
        let low = self.carried / 2.0;
        for &(delivered, lost) in self.young.iter().filter(|(delivered, lost)| delivered + lost <= low) {
            self.known.on_round(delivered, lost);
            self.low.on_round(delivered, lost);
        }
        self.young.retain(|(delivered, lost)| delivered + lost > low);
    }

    /// A later round trip that showed no queue and exceeded nothing, with a window of `window`
    /// packets.
    pub(crate) fn on_round(&mut self, delivered: f64, lost: f64, window: f64) {
        self.carry(delivered);
        let is_low = self.is_low(window);
        // Who loses less under any load than what is known shows that as well: it was another's load,
        // or is over.
        let is_less = lost <= self.share() * (delivered + lost);
        if is_low || is_less || self.known.is_established() {
            self.known.on_round(delivered, lost);
        }
        if is_low {
            self.low.on_round(delivered, lost);
        }
    }

    /// Round trips that were tried again with the same load, and lost nothing then.
    pub(crate) fn on_acquitted(&mut self, rounds: &Dispersion) {
        self.known.add(rounds);
    }

    /// A round trip without a queue has delivered so many packets.
    pub(crate) fn carry(&mut self, delivered: f64) {
        self.carried = delivered.max(CARRIED_DECAY * self.carried);
    }

    /// It was not chance: bursts have to be learnt again.
    pub(crate) fn take_back(&mut self) {
        (self.known, self.low) = (Dispersion::default(), Dispersion::default());
    }

    /// Whether a window of `window` packets is at most half of what the path has carried lately.
    pub(crate) fn is_low(&self, window: f64) -> bool {
        window <= self.carried / 2.0
    }

    /// The share that is lost, as far as bursts are known.
    pub(crate) fn share(&self) -> f64 {
        self.known.share()
    }

    /// The index of dispersion of the losses.
    pub(crate) fn index(&self) -> f64 {
        self.known.index()
    }

    /// The same of what met at most half the load: what a comparison with half the load may be
    /// asked with.
    pub(crate) fn low_index(&self) -> f64 {
        self.low.index()
    }

    /// Whether bursts are known.
    pub(crate) fn is_established(&self) -> bool {
        self.known.is_established()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_under_full_load_teach_nothing() {
        let mut chance = Chance::default();
        for n in 0..100 {
            chance.on_round(
                if n % 5 == 0 { 180.0 } else { 200.0 },
                if n % 5 == 0 { 20.0 } else { 0.0 },
                200.0,
            );
        }
        assert_eq!((chance.index(), chance.share()), (1.0, 0.0));
    }

    #[test]
    fn losses_under_half_the_load_do() {
        let mut chance = Chance::default();
        chance.on_round(200.0, 0.0, 200.0);
        for n in 0..20 {
            chance.on_round(60.0, if n % 5 == 0 { 20.0 } else { 0.0 }, 70.0);
        }
        assert!(chance.is_established() && chance.index() > 8.0, "{}", chance.index());
        let known = chance.index();
        (0..20).for_each(|_| chance.on_round(200.0, 0.0, 200.0));
        assert!(chance.index() != known, "and then full load teaches, too");
        chance.take_back();
        assert!(!chance.is_established());
    }

    #[test]
    fn what_a_trial_has_acquitted_says_nothing_of_half_the_load() {
        let mut chance = Chance::default();
        let mut rounds = Dispersion::default();
        (0..9).for_each(|n| rounds.on_round(180.0, if n % 3 == 0 { 20.0 } else { 0.0 }));
        chance.on_acquitted(&rounds);
        assert!(chance.is_established() && chance.index() > 8.0 && chance.low_index() == 1.0);
    }

    #[test]
    fn slow_start_teaches_once_the_load_has_doubled() {
        let mut chance = Chance::default();
        for n in [10.0, 20.0, 40.0] {
            chance.on_young_round(n - 5.0, 5.0);
        }
        assert!(!chance.is_established(), "the last one does not count yet");
        chance.on_young_round(80.0, 0.0);
        assert!(chance.share() > 0.2, "{}", chance.share());
    }

    #[test]
    fn what_was_carried_is_forgotten() {
        let mut chance = Chance::default();
        chance.carry(100.0);
        assert!(chance.is_low(50.0) && !chance.is_low(51.0));
        (0..100).for_each(|_| chance.carry(10.0));
        assert!(!chance.is_low(50.0));
    }
}
