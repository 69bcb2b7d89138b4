//! Percentiles by nearest rank: always a value that occurred.

/// What a product of a share and a count may be too large by because a share such as 0.07 has no
/// exact form.
const NOISE: f64 = 1e-9;

/// The smallest value that at least `share` (0 to 1) of all values do not exceed; `None` without
/// values.
///
/// `values` are in ascending order. A share of 0 gives the first, anything above 1 the last.
///
/// ```
/// let times = [10, 20, 30, 40];
/// assert_eq!(mendpath_units::percentile(&times, 0.5), Some(20));
/// assert_eq!(mendpath_units::percentile(&times, 0.51), Some(30));
/// ```
pub fn percentile<T: Copy>(values: &[T], share: f64) -> Option<T> {
    let rank = (share * values.len() as f64 - NOISE).ceil().max(1.0) as usize;
    values.get(rank - 1).or(values.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values: Vec<u32> = (1..=200).collect();
        let shares = [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.995, 1.0, 1.5];
        let expected = [1, 2, 20, 100, 180, 198, 199, 200, 200];
        assert_eq!(shares.map(|share| percentile(&values, share)), expected.map(Some));
        assert_eq!(percentile(&[7.0], 0.01), Some(7.0));
        assert_eq!(percentile::<f64>(&[], 0.5), None);
    }

    #[test]
    fn what_a_share_lacks_in_precision_is_not_a_rank() {
        assert_eq!(0.07_f64 * 100.0, 7.000_000_000_000_001);
        let values: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&values, 0.07), Some(7));
    }
}
