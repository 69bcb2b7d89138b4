//! Timeouts and fast retransmissions told apart by two-means clustering of the intervals.
//!
//! SLP section II-B: k-means with two clusters on the time between a packet and its retransmission;
//! the long ones are timeouts. No threshold is set by hand. The paper does not say on which scale;
//! both are offered (SLP-A11).
//!
//! # Departures
//! - Of all ways to split sorted intervals in two, the one with the least sum of squares is taken:
//!   what k-means looks for, and in one dimension easily found. The usual iteration from the
//!   shortest and the longest interval (SLP-A11) stops short of it when a few backoffs of many
//!   seconds make a group of their own.
//! - Any numbers can be split in two. A split is used only if there are two groups: at least
//!   [`LEAST_SAMPLES`] intervals, means at least a factor of [`LEAST_RATIO`] apart, and a valley
//!   between them.

use serde::Serialize;

/// Fewer intervals are not clustered.
pub(crate) const LEAST_SAMPLES: usize = 20;
/// Means of the groups that are closer are one group.
const LEAST_RATIO: f64 = 2.0;
/// A valley: of the intervals between the means, at most this share lies in the middle third. A
/// flat distribution has a third there, a single hump more.
const VALLEY: f64 = 1.0 / 6.0;
/// Intervals this factor around the threshold count as near it.
const NEAR: f64 = 1.25;

/// What is clustered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Intervals in milliseconds. A few of many seconds draw the threshold up.
    Linear,
    /// Their logarithms: an interval twice as long is equally far everywhere. Connections with long
    /// round trips put their fast retransmissions where near connections have their timeouts.
    Log10,
    /// Logarithms of intervals per round-trip time of the connection's handshake; ours, not the
    /// paper's. A fast retransmission takes about one round trip, a timeout three or more.
    RoundTrips,
}

impl Scale {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Log10, Self::RoundTrips];
}

/// Whether a split means anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Usable {
    /// Two groups with a valley between them.
    TwoGroups,
    /// Fewer than 20 intervals.
    TooFew,
    /// No two groups.
    OneGroup,
}

/// A split in two, and how good it is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Split {
    /// What was clustered. The numbers below are in milliseconds, or in round trips.
    pub scale: Scale,
    /// Whether it means anything.
    pub usable: Usable,
    /// Above are timeouts.
    pub threshold: f64,
    /// The longest of the short group and the shortest of the long one: any threshold between them
    /// gives the same groups.
    pub gap: [f64; 2],
    /// Intervals in the short and the long group.
    pub counts: [u64; 2],
    /// Means of the groups, geometric on the logarithmic scales.
    pub means: [f64; 2],
    /// Share of the variance that the split explains.
    pub explained: f64,
    /// Share of the intervals within a factor of 1.25 of the threshold: those that a slightly
    /// different threshold moves.
    pub near: f64,
}

/// Splits `intervals`, in milliseconds or round trips, in two groups; `None` if there are none.
///
/// ```
/// use mendpath_trace::{Scale, Usable, two_means};
///
/// let mut intervals = vec![20.0, 22.0, 25.0, 30.0].repeat(10);
/// intervals.extend([220.0, 260.0, 400.0, 1_000.0]);
/// let split = two_means(&intervals, Scale::Log10).unwrap();
/// assert_eq!((split.usable, split.counts), (Usable::TwoGroups, [40, 4]));
/// ```
pub fn two_means(intervals: &[f64], scale: Scale) -> Option<Split> {
    let mut points: Vec<f64> = intervals.iter().map(|&ms| scale.place_of(ms)).collect();
    points.sort_by(f64::total_cmp);
    let sums = Sums::new(&points);
    let n = points.len();
    // In one dimension the best two clusters are neighbours: n - 1 places to try.
    let costs = (1..n).filter(|&place| points[place - 1] < points[place]).map(|place| {
        let cost = sums.squares(0, place) + sums.squares(place, n);
        (cost, place)
    });
    let place = costs.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(n, |(_, place)| place);
    let last = *points.last()?;
    let (low, high) = (sums.mean(0, place), if place < n { sums.mean(place, n) } else { last });
    let threshold = f64::midpoint(low, high);
    let total = sums.squares(0, n);
    let within = sums.squares(0, place) + sums.squares(place, n);
    let near = {
        let ms = scale.value_at(threshold);
        let below = points.partition_point(|&point| scale.value_at(point) < ms / NEAR);
        points.partition_point(|&point| scale.value_at(point) <= ms * NEAR).saturating_sub(below)
    };
    Some(Split {
        scale,
        usable: usable(&points, low, high, scale),
        threshold: round(scale.value_at(threshold)),
        gap: [place.max(1) - 1, place.min(n - 1)].map(|i| round(scale.value_at(points[i]))),
        counts: [place as u64, (n - place) as u64],
        means: [round(scale.value_at(low)), round(scale.value_at(high))],
        explained: if total > 0.0 { round(1.0 - within / total) } else { 0.0 },
        near: round(near as f64 / n as f64),
    })
}

fn usable(points: &[f64], low: f64, high: f64, scale: Scale) -> Usable {
    if points.len() < LEAST_SAMPLES {
        return Usable::TooFew;
    }
    let within = |from: f64, to: f64| {
        points.partition_point(|&point| point < to).saturating_sub(points.partition_point(|&p| p <= from))
    };
    let third = (high - low) / 3.0;
    let (middle, between) = (within(low + third, high - third), within(low, high));
    let apart = scale.value_at(high) >= LEAST_RATIO * scale.value_at(low);
    if apart && middle as f64 <= VALLEY * between as f64 { Usable::TwoGroups } else { Usable::OneGroup }
}

impl Scale {
    fn place_of(self, ms: f64) -> f64 {
        match self {
            Self::Linear => ms,
            // A microsecond, or a thousandth of a round trip, is as good as nothing.
            Self::Log10 | Self::RoundTrips => ms.max(1e-3).log10(),
        }
    }

    fn value_at(self, point: f64) -> f64 {
        match self {
            Self::Linear => point,
            Self::Log10 | Self::RoundTrips => 10f64.powf(point),
        }
    }
}

/// Sums of the first n points and of their squares, relative to their mean.
struct Sums {
    centre: f64,
    sums: Vec<(f64, f64)>,
}

impl Sums {
    fn new(points: &[f64]) -> Self {
        let centre = points.iter().sum::<f64>() / points.len().max(1) as f64;
        let mut sums = vec![(0.0, 0.0)];
        let mut sum = (0.0, 0.0);
        for point in points {
            let x = point - centre;
            sum = (sum.0 + x, sum.1 + x * x);
            sums.push(sum);
        }
        Self { centre, sums }
    }

    fn mean(&self, from: usize, to: usize) -> f64 {
        self.centre + (self.sums[to].0 - self.sums[from].0) / (to - from) as f64
    }

    /// The sum of squared distances from the mean.
    fn squares(&self, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let (sum, squares) = (self.sums[to].0 - self.sums[from].0, self.sums[to].1 - self.sums[from].1);
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread on the logarithmic scale.
    fn spread(from: f64, to: f64, count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| from * (to / from).powf(f64::from(i) / f64::from(count - 1)))
    }

    #[test]
    fn two_groups_on_both_scales() {
        let intervals: Vec<f64> = spread(10.0, 60.0, 300).chain(spread(210.0, 900.0, 40)).collect();
        for scale in [Scale::Linear, Scale::Log10] {
            let split = two_means(&intervals, scale).unwrap();
            assert_eq!(split.usable, Usable::TwoGroups, "{split:?}");
            assert!((60.0..210.0).contains(&split.threshold) || scale == Scale::Linear, "{split:?}");
        }
    }

    #[test]
    fn long_backoffs_draw_the_linear_threshold_up_but_not_the_logarithmic_one() {
        let intervals: Vec<f64> =
            spread(10.0, 40.0, 300).chain(spread(220.0, 500.0, 40)).chain([8_000.0, 64_000.0]).collect();
        let split = |scale| two_means(&intervals, scale).unwrap();
        assert!((40.0..220.0).contains(&split(Scale::Log10).threshold), "{:?}", split(Scale::Log10));
        assert!(split(Scale::Linear).threshold > 500.0, "{:?}", split(Scale::Linear));
    }

    #[test]
    fn one_hump_or_a_flat_spread_is_one_group() {
        let flat: Vec<f64> = spread(10.0, 1_000.0, 500).collect();
        assert_eq!(two_means(&flat, Scale::Log10).unwrap().usable, Usable::OneGroup);
        let tight: Vec<f64> = spread(29.0, 31.0, 500).collect();
        assert_eq!(two_means(&tight, Scale::Log10).unwrap().usable, Usable::OneGroup);
        let same = vec![30.0; 100];
        assert_eq!(two_means(&same, Scale::Linear).unwrap().usable, Usable::OneGroup);
    }

    #[test]
    fn few_or_no_intervals() {
        assert_eq!(two_means(&[], Scale::Log10), None);
        let few: Vec<f64> = spread(1.0, 2.0, 10).chain(spread(200.0, 300.0, 9)).collect();
        assert_eq!(two_means(&few, Scale::Log10).unwrap().usable, Usable::TooFew);
        assert_eq!(two_means(&[0.0], Scale::Log10).unwrap().usable, Usable::TooFew);
    }
}
