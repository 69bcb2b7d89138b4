//! The percentiles of completion times that SLP shows.

use units::percentile;

/// Those of SLP's table I.
pub const PERCENTILES: [f64; 5] = [1.0, 10.0, 50.0, 90.0, 99.0];

/// [`PERCENTILES`] of `sorted`, to a microsecond if it holds milliseconds; `None` if it is empty.
pub(crate) fn percentiles(sorted: &[f64]) -> Option<[f64; 5]> {
    let mut found = [0.0; PERCENTILES.len()];
    for (found, p) in found.iter_mut().zip(PERCENTILES) {
        *found = (percentile(sorted, p / 100.0)? * 1e3).round() / 1e3;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentiles(&values), Some([2.0, 20.0, 100.0, 180.0, 198.0]));
        assert_eq!(percentiles(&[7.0]), Some([7.0; 5]));
        assert_eq!(percentiles(&[]), None);
    }
}
