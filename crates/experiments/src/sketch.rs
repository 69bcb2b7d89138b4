//! Times of many flows in little room, to be put together over runs.
//!
//! A histogram over whole nanoseconds with 256 buckets to every doubling: below 512 ns every value
//! has its own, above a bucket is at most 1/256 of its values wide, and its middle stands for them.
//! So a quantile is off by at most 0.2 % ([`Sketch::MOST_ERROR`]), one of two sketches together by
//! no more, and there are at most 14,592 buckets however many flows there were. Only whole numbers
//! are added and compared: the same on every machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::Duration;

/// Counts by bucket.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u64)>", into = "Vec<(u32, u64)>")]
pub struct Sketch {
    counts: BTreeMap<u32, u64>,
}

/// A doubling has two to the power of this many buckets.
const BITS: u32 = 8;

impl Sketch {
    /// By how large a part of itself a quantile may be off.
    pub const MOST_ERROR: f64 = 1.0 / 512.0;

    /// Notes a flow's time.
    pub fn add(&mut self, time: Duration) {
        *self.counts.entry(bucket(time.as_nanos())).or_default() += 1;
    }

    /// How many flows there are.
    pub fn len(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl FromIterator<Duration> for Sketch {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut sketch = Self::default();
        times.into_iter().for_each(|time| sketch.add(time));
        sketch
    }
}

impl From<Vec<(u32, u64)>> for Sketch {
    fn from(counts: Vec<(u32, u64)>) -> Self {
        Self { counts: counts.into_iter().collect() }
    }
}

impl From<Sketch> for Vec<(u32, u64)> {
    fn from(sketch: Sketch) -> Self {
        sketch.counts.into_iter().collect()
    }
}

fn bucket(nanos: u64) -> u32 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS + 1);
    (shift << BITS) + (nanos >> shift) as u32
}

/// The middle of a bucket, in ms.
fn millis(bucket: u32) -> f64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let first = u64::from(bucket - (shift << BITS)) << shift;
    (first as f64 + ((1_u64 << shift) - 1) as f64 / 2.0) / 1e6
}

/// Several sketches, whose quantiles are asked for again and again with other weights.
#[derive(Debug)]
pub struct Pool {
    buckets: Vec<u32>,
    /// For each sketch, how many of its flows are in each of the buckets or below.
    below: Vec<Vec<u64>>,
}

impl Pool {
    /// Of these.
    pub fn new(sketches: &[&Sketch]) -> Self {
        let mut buckets: Vec<u32> = sketches.iter().flat_map(|s| s.counts.keys().copied()).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let below = |sketch: &&Sketch| {
            let mut sum = 0;
            let count = |bucket| sketch.counts.get(bucket).copied().unwrap_or(0);
            buckets
                .iter()
                .map(|bucket| {
                    sum += count(bucket);
                    sum
                })
                .collect()
        };
        let below = sketches.iter().map(below).collect();
        Self { buckets, below }
    }

    /// How many sketches there are.
    pub fn sketches(&self) -> usize {
        self.below.len()
    }

    /// The time in ms that a share `share` (0 to 1) of all flows does not exceed, by nearest rank,
    /// the n-th sketch taken `weights[n]` times; `None` without flows.
    pub fn quantile(&self, share: f64, weights: &[u32]) -> Option<f64> {
        let below = |place: usize| -> u64 {
            self.below.iter().zip(weights).map(|(below, weight)| below[place] * u64::from(*weight)).sum()
        };
        let flows = below(self.buckets.len().checked_sub(1)?);
        // As `units::percentile` has it: what a share lacks in precision is not a rank.
        let rank = ((share * flows as f64 - 1e-9).ceil() as u64).max(1);
        let (mut from, mut to) = (0, self.buckets.len() - 1);
        while from < to {
            let middle = usize::midpoint(from, to);
            if below(middle) < rank { from = middle + 1 } else { to = middle }
        }
        (flows > 0).then(|| millis(self.buckets[from]))
    }
}

#[cfg(test)]
mod tests {
    use netsim::{Rng, Seed};

    use super::*;

    #[test]
    fn every_bucket_is_narrow_and_holds_what_is_in_it() {
        let mut last = 0;
        for nanos in (0..70).flat_map(|bit| {
            let power = 1_u128 << (bit % 64);
            [power - 1, power, power + power / 3, power + power / 2]
        }) {
            let nanos = nanos as u64;
            let off = (millis(bucket(nanos)) * 1e6 - nanos as f64).abs();
            assert!(off <= nanos as f64 * Sketch::MOST_ERROR, "{nanos}: {off}");
            last = last.max(bucket(nanos));
        }
        assert_eq!(bucket(u64::MAX), 14_591);
        assert!(last <= 14_591);
        assert!((1..100_000).all(|nanos| bucket(nanos) - bucket(nanos - 1) <= 1));
    }

    #[test]
    fn quantiles_of_many_are_those_of_all_flows_within_the_bound() {
        let mut rng = Rng::new(Seed(5));
        let mut all = Vec::new();
        let sketches: Vec<Sketch> = (1..=7)
            .map(|run| {
                let time = |_| Duration::from_nanos(1_000 + rng.below(run * 40_000_000));
                let times: Vec<Duration> = (0..400 * run).map(time).collect();
                all.extend(times.iter().map(|time| time.as_nanos() as f64 / 1e6));
                times.into_iter().collect()
            })
            .collect();
        all.sort_by(f64::total_cmp);
        let pool = Pool::new(&sketches.iter().collect::<Vec<_>>());
        for share in [0.01, 0.5, 0.95, 0.99, 0.999, 1.0] {
            let exact = units::percentile(&all, share).unwrap();
            let found = pool.quantile(share, &[1; 7]).unwrap();
            assert!((found / exact - 1.0).abs() <= Sketch::MOST_ERROR, "{share}: {found} {exact}");
        }
        // Weights leave runs out, or take them twice.
        let only = Pool::new(&[&sketches[2]]);
        assert_eq!(pool.quantile(0.99, &[0, 0, 2, 0, 0, 0, 0]), only.quantile(0.99, &[1]));
        assert_eq!(pool.quantile(0.99, &[0; 7]), None);
        assert_eq!(Pool::new(&[]).quantile(0.5, &[]), None);
    }

    #[test]
    fn a_sketch_is_kept_and_read_again() {
        let sketch: Sketch = [3, 3, 70_000_000, u64::MAX].map(Duration::from_nanos).into_iter().collect();
        let text = serde_json::to_string(&sketch).unwrap();
        assert_eq!(serde_json::from_str::<Sketch>(&text).unwrap(), sketch);
        assert_eq!((sketch.len(), sketch.is_empty()), (4, false));
    }
}
