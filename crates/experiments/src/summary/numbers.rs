//! The numbers of a cell: intervals of means, percentiles over all seeds, paired comparisons.

use super::Cell;
use crate::{
    metrics::MetricUse,
    resample::{draws, interval, weighted_mean},
    row::Row,
    sketch::{Pool, Sketch},
};

/// Student's t for a two-sided 95 % interval with 1, 2, ... degrees of freedom.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same of the normal distribution, which is that of any number of degrees of freedom.
const NORMAL95: f64 = 1.959_963_984_540_05;

/// Student's t for a two-sided 95 % interval with `freedom` degrees of freedom: the table's, and beyond
/// it Fisher's expansion around the normal distribution's (Abramowitz and Stegun, 26.7.5), which there
/// is off by less than 1e-7.
fn t95(freedom: usize) -> f64 {
    if let Some(t) = freedom.checked_sub(1).and_then(|place| T95.get(place)) {
        return *t;
    }
    let (z, n) = (NORMAL95, freedom as f64);
    let s = z * z;
    let first = z * (s + 1.0) / 4.0;
    let second = z * ((5.0 * s + 16.0) * s + 3.0) / 96.0;
    let third = z * (((3.0 * s + 19.0) * s + 17.0) * s - 15.0) / 384.0;
    let fourth = z * ((((79.0 * s + 776.0) * s + 1_482.0) * s - 1_920.0) * s - 945.0) / 92_160.0;
    z + (first + (second + (third + fourth / n) / n) / n) / n
}

/// Half the width of the interval of a mean.
pub(super) fn half_width(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    if values.iter().all(|value| *value == values[0]) {
        // Not by what was rounded when their mean was worked out, either.
        return Some(0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let deviation = (squares / freedom as f64).sqrt();
    Some(t95(freedom) * deviation / (values.len() as f64).sqrt())
}

/// A value of several seeds, by how often each is taken.
type Level<'a> = dyn Fn(&[u32]) -> Option<f64> + 'a;

/// A metric of a scheme at a point, by seed.
pub(super) struct Column<'a> {
    /// Seeds that have a value, ascending, and the value.
    pub(super) values: Vec<(u64, f64)>,
    /// Of a percentile: which, and the flows of each of these seeds.
    flows: Option<(f64, Vec<&'a Sketch>)>,
}

impl<'a> Column<'a> {
    /// The metric at `place` of the plan's.
    pub(super) fn new(rows: &[&'a Row], scheme: &str, place: usize, metric: &MetricUse) -> Self {
        let value = |row: &&&Row| row.metrics.get(place).and_then(|(_, value)| *value);
        let own = rows.iter().filter(|row| row.scheme == scheme && value(row).is_some());
        let mut own: Vec<&&Row> = own.collect();
        own.sort_by_key(|row| row.seed);
        let values = own.iter().filter_map(|row| Some((row.seed, value(row)?))).collect();
        let flows = metric.quantile().and_then(|share| {
            let sketches = own.iter().map(|row| row.times_of(metric.class_name()));
            Some((share, sketches.collect::<Option<_>>()?))
        });
        Self { values, flows }
    }

    /// The values.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }

    /// Flows behind a percentile.
    pub(super) fn samples(&self) -> Option<u64> {
        self.flows.as_ref().map(|(_, sketches)| sketches.iter().map(|sketch| sketch.len()).sum())
    }

    /// The percentile of all seeds together.
    pub(super) fn pool_into(&self, cell: &mut Cell, draws: &[Vec<u32>]) {
        let Some((share, sketches)) = &self.flows else { return };
        let pool = Pool::new(sketches);
        cell.pooled = pool.quantile(*share, &vec![1; sketches.len()]);
        let between = interval(draws, &|weights| pool.quantile(*share, weights));
        (cell.pooled_low, cell.pooled_high) = between.unzip();
    }

    /// Only these seeds.
    fn only(&self, seeds: &[u64]) -> Self {
        let keeps = |seed: &u64| seeds.contains(seed);
        let sketches = |sketches: &Vec<&'a Sketch>| {
            let kept = sketches.iter().zip(&self.values).filter(|(_, (seed, _))| keeps(seed));
            kept.map(|(sketch, _)| *sketch).collect()
        };
        Self {
            values: self.values.iter().filter(|(seed, _)| keeps(seed)).copied().collect(),
            flows: self.flows.as_ref().map(|(share, all)| (*share, sketches(all))),
        }
    }

    /// What a ratio is of, as a function of how often each seed is taken.
    fn level(&self) -> Box<Level<'_>> {
        match &self.flows {
            Some((share, sketches)) => {
                let pool = Pool::new(sketches);
                Box::new(move |weights| pool.quantile(*share, weights))
            }
            None => {
                let values = self.numbers();
                Box::new(move |weights| weighted_mean(&values, weights))
            }
        }
    }
}

/// How `own` stands to `reference`, seed by seed: those that both have.
pub(super) fn compare(own: &Column<'_>, reference: &Column<'_>, cell: &mut Cell) {
    let has = |seed: &u64| reference.values.iter().any(|(other, _)| other == seed);
    let shared: Vec<u64> = own.values.iter().map(|(seed, _)| *seed).filter(has).collect();
    if shared.is_empty() {
        return;
    }
    let (own, reference) = (own.only(&shared), reference.only(&shared));
    let pairs = own.values.iter().zip(&reference.values);
    let differences: Vec<f64> = pairs.map(|((_, own), (_, other))| own - other).collect();
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    cell.diff = Some(mean);
    cell.diff_ci95 = half_width(&differences, mean);
    let (of, to) = (own.level(), reference.level());
    let ratio = |weights: &[u32]| {
        let (of, to) = (of(weights)?, to(weights)?);
        (to > 0.0).then(|| of / to).filter(|ratio| ratio.is_finite())
    };
    let all = vec![1; shared.len()];
    cell.ratio = ratio(&all);
    (cell.ratio_low, cell.ratio_high) = interval(&draws(shared.len()), &ratio).unzip();
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    #[test]
    fn intervals_are_students() {
        // Mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let half = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0).unwrap();
        assert!((half - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-12, "{half}");
        assert_eq!(half_width(&[1.0], 1.0), None);
        assert_eq!(half_width(&vec![2.0; 100], 2.0), Some(0.0));
        let thirds = [1.0_f64 / 3.0; 10];
        let mean = thirds.iter().sum::<f64>() / 10.0;
        assert!(mean != thirds[0]);
        assert_eq!(half_width(&thirds, mean), Some(0.0));
    }

    /// Beyond the table intervals are Student's as well: 1.96 is too little for fifty seeds, and for a
    /// hundred.
    #[test]
    fn more_seeds_than_the_table_has_are_students_too() {
        let known = [(31, 2.039_513_4), (49, 2.009_575_2), (99, 1.984_217_0), (9_999, 1.960_201_3)];
        for (freedom, t) in known {
            assert!((t95(freedom) - t).abs() < 1e-6, "{freedom}: {}", t95(freedom));
        }
        // From the table into the formula, and on to the normal distribution's, it only falls.
        assert!((1..10_000).all(|freedom| t95(freedom) > t95(freedom + 1) && t95(freedom + 1) > NORMAL95));

        // A hundred values, half of them 0 and half 2: mean 1, standard deviation sqrt(100 / 99).
        let values: Vec<f64> = (0..100_u32).map(|n| f64::from(n % 2) * 2.0).collect();
        let half = half_width(&values, 1.0).unwrap();
        assert!((half - 1.984_217_0 / 99.0_f64.sqrt()).abs() < 1e-7, "{half}");
    }

    fn column(values: &[(u64, f64)]) -> Column<'static> {
        Column { values: values.to_vec(), flows: None }
    }

    /// What both have in common, here a seed that is ten times slower than others, is not in the
    /// interval of the difference; a seed that only one of them has is not compared.
    #[test]
    fn seeds_are_paired() {
        let own: Vec<(u64, f64)> = (1..=8).map(|seed| (seed, (seed * seed) as f64 * 10.0 - 1.0)).collect();
        let mut other: Vec<(u64, f64)> = (2..=9).map(|seed| (seed, (seed * seed) as f64 * 10.0)).collect();
        other[3].1 += 0.5;
        let mut cell = Cell::default();
        compare(&column(&own), &column(&other), &mut cell);
        assert!((cell.diff.unwrap() + 7.5 / 7.0).abs() < 1e-9, "{cell:?}");
        assert!(cell.diff_ci95.unwrap() < 0.2, "{cell:?}");
        assert!(cell.ratio_low.unwrap() < cell.ratio.unwrap() && cell.ratio_high.unwrap() < 1.0, "{cell:?}");
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        let mut cell = Cell::default();
        compare(&column(&[(1, 1.0)]), &column(&[(2, 1.0)]), &mut cell);
        assert_eq!(cell, Cell::default());
        compare(&column(&[(1, 1.0)]), &column(&[(1, 0.0)]), &mut cell);
        assert_eq!((cell.diff, cell.ratio), (Some(1.0), None));
    }

    /// The mean of the seeds' percentiles is not the percentile of all flows.
    #[test]
    fn percentiles_are_of_the_flows_of_all_seeds() {
        let run = |slow: u64| -> Sketch {
            let fast = (0..1_000 - slow).map(|_| Duration::from_millis(1));
            fast.chain((0..slow).map(|_| Duration::from_millis(200))).collect()
        };
        let sketches: Vec<Sketch> = [0, 0, 0, 0, 0, 60].map(run).into();
        let values = (0..6).map(|seed| (seed, if seed == 5 { 200.0 } else { 1.0 })).collect();
        let column = Column { values, flows: Some((0.99, sketches.iter().collect())) };
        let mut cell = Cell::default();
        column.pool_into(&mut cell, &draws(6));
        assert_eq!(column.samples(), Some(6_000));
        // 60 of 6,000 are exactly the last hundredth; with that seed drawn twice they are more.
        assert!((cell.pooled.unwrap() - 1.0).abs() < 0.002, "{cell:?}");
        assert!(cell.pooled_high.unwrap() > 199.0 && cell.pooled_low.unwrap() < 1.002, "{cell:?}");
    }
}
