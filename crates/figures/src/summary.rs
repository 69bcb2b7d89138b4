//! Mean and percentiles of times, or of anything else.

use units::percentile;

/// What a set of values comes to, in the unit of the values. Percentiles are by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// `None` for no values at all.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let at = |share| percentile(&sorted, share);
        Some(Self { mean, p50: at(0.50)?, p90: at(0.90)?, p99: at(0.99)?, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let expected = Summary { mean: 100.5, p50: 100.0, p90: 180.0, p99: 198.0, max: 200.0 };
        assert_eq!(Summary::of(&values), Some(expected));
        let one = Summary { mean: 7.0, p50: 7.0, p90: 7.0, p99: 7.0, max: 7.0 };
        assert_eq!(Summary::of(&[7.0]), Some(one));
        assert_eq!(Summary::of(&[]), None);
    }
}
