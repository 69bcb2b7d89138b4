//! Percentiles by nearest rank.

/// Those of SLP's table I.
pub const PERCENTILES: [f64; 5] = [1.0, 10.0, 50.0, 90.0, 99.0];

/// [`PERCENTILES`] of `sorted`, to a microsecond if it holds milliseconds; `None` if it is empty.
pub(crate) fn percentiles(sorted: &[f64]) -> Option<[f64; 5]> {
    let last = sorted.len().checked_sub(1)?;
    Some(PERCENTILES.map(|p| {
        let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
        (sorted[rank.saturating_sub(1).min(last)] * 1e3).round() / 1e3
    }))
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
