//! How much more the losses of round trips vary than independent losses would: the index of
//! dispersion of their counts.
//!
//! Independent losses have an index of at most 1. Where losses come in bursts of B packets on
//! average it is about 2 B - 1 (geometric lengths): dividing counts by the index makes bursts of
//! them, of which a test for independent events may be asked.
//!
//! Counts in packets. The memory is [`MEMORY`] round trips, so that it follows the path.
//!
//! # Invariants
//! `index >= 1`; `0 <= share <= 1`.

/// Round trips that are remembered.
const MEMORY: f64 = 200.0;
/// Losses with an index of 1 that count as seen before any has been.
const PRIOR: f64 = 8.0;
/// Round trips with a loss that it takes to believe in bursts, and the least index.
const ESTABLISHED_ROUNDS: f64 = 3.0;
const ESTABLISHED_INDEX: f64 = 2.0;

/// Sums over round trips of n packets of which x were lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dispersion {
    rounds: f64,
    /// Round trips with a loss.
    lossy: f64,
    all: f64,
    lost: f64,
    /// Sums of x x, n x and n n.
    squares: [f64; 3],
}

impl Dispersion {
    /// A round trip has delivered and lost so many packets.
    pub(crate) fn on_round(&mut self, delivered: f64, lost: f64) {
        let all = delivered + lost;
        if all < 1.0 {
            return;
        }
        let lossy = if lost > 0.0 { 1.0 } else { 0.0 };
        self.add(&Self { rounds: 1.0, lossy, all, lost, squares: [lost * lost, all * lost, all * all] });
    }

    /// Adds what another has seen.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.rounds + other.rounds > MEMORY && self.rounds > 0.0 {
            self.scale((MEMORY - other.rounds).max(0.0) / self.rounds);
        }
        self.rounds += other.rounds;
        self.lossy += other.lossy;
        self.all += other.all;
        self.lost += other.lost;
        self.squares.iter_mut().zip(other.squares).for_each(|(sum, square)| *sum += square);
    }

    /// Leaves only a part in memory.
    pub(crate) fn scale(&mut self, part: f64) {
        self.rounds *= part;
        self.lossy *= part;
        self.all *= part;
        self.lost *= part;
        self.squares.iter_mut().for_each(|sum| *sum *= part);
    }

    /// The share that is lost.
    pub(crate) fn share(&self) -> f64 {
        if self.all > 0.0 { self.lost / self.all } else { 0.0 }
    }

    /// The index: the mean square of what losses differ by from their expectation, over that
    /// expectation.
    pub(crate) fn index(&self) -> f64 {
        let p = self.share();
        let [xx, nx, nn] = self.squares;
        let deviations = (xx - 2.0 * p * nx + p * p * nn).max(0.0);
        ((deviations + PRIOR) / (self.lost + PRIOR)).max(1.0)
    }

    /// Whether enough has been seen to believe that losses come in bursts.
    pub(crate) fn is_established(&self) -> bool {
        self.lossy >= ESTABLISHED_ROUNDS && self.index() >= ESTABLISHED_INDEX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of `burst` packets, one in every `every` round trips of 200 packets.
    fn seen(burst: f64, every: u64, rounds: u64) -> Dispersion {
        let mut dispersion = Dispersion::default();
        for n in 1..=rounds {
            let lost = if n % every == 0 { burst } else { 0.0 };
            dispersion.on_round(200.0 - lost, lost);
        }
        dispersion
    }

    #[test]
    fn nothing_seen_is_no_burst() {
        let dispersion = Dispersion::default();
        assert_eq!((dispersion.index(), dispersion.share()), (1.0, 0.0));
        assert!(!dispersion.is_established());
    }

    #[test]
    fn losses_that_are_spread_evenly_have_an_index_of_one() {
        let dispersion = seen(10.0, 1, 100);
        assert_eq!(dispersion.index(), 1.0);
        assert!((dispersion.share() - 0.05).abs() < 1e-9 && !dispersion.is_established());
    }

    #[test]
    fn rare_bursts_of_a_size_have_their_size_for_an_index() {
        for burst in [5.0, 10.0, 20.0] {
            let dispersion = seen(burst, 10, 200);
            assert!((dispersion.index() / burst - 0.9).abs() < 0.1, "{burst}: {}", dispersion.index());
            assert!(dispersion.is_established());
        }
    }

    #[test]
    fn two_bursts_establish_nothing() {
        assert!(!seen(10.0, 10, 29).is_established() && seen(10.0, 10, 30).is_established());
    }

    #[test]
    fn what_was_seen_long_ago_fades() {
        let mut dispersion = seen(20.0, 5, 200);
        (0..3_000).for_each(|_| dispersion.on_round(200.0, 0.0));
        assert!(dispersion.share() < 1e-6 && dispersion.index() < 1.1, "{dispersion:?}");
    }
}
