//! Intervals by resampling seeds.
//!
//! The runs of a plan are its clusters: flows of one run share a network, its broken links and its
//! queues, so that a thousand flows of one run say less than one flow each of a thousand. The
//! bootstrap therefore draws whole seeds with replacement ([`RESAMPLES`] times, always from the same
//! random numbers) and takes the 2.5th and 97.5th percentile of what comes out. Schemes share the
//! draws, as they share the seeds: what all of them have in common is not in the interval of a
//! ratio.
//!
//! With few seeds it is too narrow, and with fewer than [`LEAST_SEEDS`] there is no interval: three
//! seeds can be drawn in ten ways only.

use netsim::{Rng, Seed};
use units::percentile;

/// How often seeds are drawn.
pub const RESAMPLES: usize = 1_000;

/// Seeds that an interval needs at least.
pub const LEAST_SEEDS: usize = 5;

/// How often each of `seeds` is drawn, for every resample; none with too few seeds.
pub(crate) fn draws(seeds: usize) -> Vec<Vec<u32>> {
    if seeds < LEAST_SEEDS {
        return Vec::new();
    }
    let mut rng = Rng::new(Seed(0x5eed));
    let draw = |_| {
        let mut weights = vec![0; seeds];
        (0..seeds).for_each(|_| weights[rng.below(seeds as u64) as usize] += 1);
        weights
    };
    (0..RESAMPLES).map(draw).collect()
}

/// The 95 % interval of what `of` answers for each of the draws; `None` without draws, or where one
/// of them has no answer.
pub(crate) fn interval(draws: &[Vec<u32>], of: &dyn Fn(&[u32]) -> Option<f64>) -> Option<(f64, f64)> {
    let mut found: Vec<f64> = draws.iter().map(|weights| of(weights)).collect::<Option<_>>()?;
    found.sort_by(f64::total_cmp);
    Some((percentile(&found, 0.025)?, percentile(&found, 0.975)?))
}

/// The mean of `values`, the n-th taken `weights[n]` times.
pub(crate) fn weighted_mean(values: &[f64], weights: &[u32]) -> Option<f64> {
    let count: u32 = weights.iter().sum();
    let sum: f64 = values.iter().zip(weights).map(|(value, weight)| value * f64::from(*weight)).sum();
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of samples of a known distribution about 95 % of the intervals must hold its mean.
    #[test]
    fn intervals_hold_what_they_should() {
        let (mut rng, seeds, draws) = (Rng::new(Seed(3)), 20, draws(20));
        let mut hits = 0;
        for _ in 0..200 {
            let values: Vec<f64> = (0..seeds).map(|_| -libm::log(1.0 - rng.next_f64())).collect();
            let (low, high) = interval(&draws, &|weights| weighted_mean(&values, weights)).unwrap();
            assert!(low < high);
            hits += usize::from(low <= 1.0 && 1.0 <= high);
        }
        // A percentile bootstrap of 20 exponential values covers some 90 %.
        assert!((170..=198).contains(&hits), "{hits}");
    }

    #[test]
    fn the_draws_are_always_the_same_and_few_seeds_have_none() {
        assert_eq!(draws(6), draws(6));
        assert_eq!(draws(6).len(), RESAMPLES);
        assert!(draws(6).iter().all(|weights| weights.iter().sum::<u32>() == 6));
        assert!(draws(LEAST_SEEDS - 1).is_empty());
        assert_eq!(interval(&[], &|_| Some(1.0)), None);
        assert_eq!(interval(&draws(6), &|weights| (weights[0] > 0).then_some(1.0)), None);
    }
}
