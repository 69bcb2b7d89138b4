//! Mean and percentiles of completion times.

use units::percentile;

/// What a set of times comes to, in the unit of the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// `None` for no times at all.
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self { mean, p50: percentile(&sorted, 0.50)?, p99: percentile(&sorted, 0.99)?, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let times: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(Summary::of(&times), Some(Summary { mean: 100.5, p50: 100.0, p99: 198.0, max: 200.0 }));
        assert_eq!(Summary::of(&[7.0]), Some(Summary { mean: 7.0, p50: 7.0, p99: 7.0, max: 7.0 }));
        assert_eq!(Summary::of(&[]), None);
    }
}
