//! Series that stay short however long a trace is.

/// Points of a line at most, and half of that at least once there were so many.
const MOST_POINTS: usize = 2_000;
/// Intervals of a sum at most.
const MOST_BINS: usize = 600;

/// Samples over time, of which every second, fourth, ... is kept as they become many.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    points: Vec<(f64, f64)>,
    /// One in so many is kept.
    stride: u64,
    seen: u64,
    last: Option<(f64, f64)>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, seen: 0, last: None }
    }
}

impl Samples {
    /// Adds a sample; those that are no numbers are left out.
    pub(super) fn add(&mut self, at: f64, value: f64) {
        if !at.is_finite() || !value.is_finite() {
            return;
        }
        if self.seen.is_multiple_of(self.stride) {
            if self.points.len() == MOST_POINTS {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.points.push((at, value));
            }
        }
        self.seen += 1;
        self.last = Some((at, value));
    }

    /// What was kept, and the last one.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        if let Some(last) = self.last
            && points.last() != Some(&last)
        {
            points.push(last);
        }
        points
    }
}

/// Sums in intervals of equal length, which doubles whenever they would become too many.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    sums: Vec<f64>,
    /// In milliseconds.
    width: f64,
}

impl Default for Bins {
    fn default() -> Self {
        Self { sums: Vec::new(), width: 1.0 }
    }
}

impl Bins {
    /// Adds to the interval that `at` milliseconds lies in.
    pub(super) fn add(&mut self, at: f64, amount: f64) {
        if !at.is_finite() || at < 0.0 {
            return;
        }
        while at / self.width >= MOST_BINS as f64 {
            self.widen();
        }
        let index = (at / self.width) as usize;
        if index >= self.sums.len() {
            self.sums.resize(index + 1, 0.0);
        }
        self.sums[index] += amount;
    }

    fn widen(&mut self) {
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.width *= 2.0;
    }

    /// The sums per second, in at most `most` intervals up to `end` milliseconds, at their middles.
    pub(super) fn rates(&self, end: f64, most: usize) -> Vec<(f64, f64)> {
        let mut bins = self.clone();
        while end / bins.width > most as f64 {
            bins.widen();
        }
        let count = (end / bins.width).ceil() as usize;
        bins.sums.resize(count.max(bins.sums.len()), 0.0);
        let middle = |index: usize| ((index as f64 + 0.5) * bins.width).min(end);
        bins.sums.iter().enumerate().map(|(i, sum)| (middle(i), sum / (bins.width / 1e3))).collect()
    }

    /// The sums added up over time, from 0 up to `end` milliseconds.
    pub(super) fn running(&self, end: f64) -> Vec<(f64, f64)> {
        let mut total = 0.0;
        let mut points = vec![(0.0, 0.0)];
        for (index, sum) in self.sums.iter().enumerate() {
            if *sum > 0.0 {
                points.push((index as f64 * self.width, total));
                total += sum;
                points.push((((index + 1) as f64 * self.width).min(end), total));
            }
        }
        points.push((end, total));
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_samples_make_few_points_in_order() {
        let mut samples = Samples::default();
        for n in 0..1_000_000 {
            samples.add(f64::from(n), f64::from(n % 100));
        }
        samples.add(f64::NAN, 1.0);
        let points = samples.points();
        assert!((MOST_POINTS / 2..=MOST_POINTS + 1).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((points[0].0, points.last().unwrap().0), (0.0, 999_999.0));
    }

    #[test]
    fn nothing_is_lost_when_intervals_widen() {
        let mut bins = Bins::default();
        for n in 0..100_000 {
            bins.add(f64::from(n), 2.0);
        }
        bins.add(1e18, 0.0);
        let mut other = Bins::default();
        (0..100_000).for_each(|n| other.add(f64::from(n), 2.0));
        let rates = other.rates(100_000.0, 50);
        assert!(rates.len() <= 50 && rates.iter().all(|(_, rate)| *rate <= 2_000.0), "{rates:?}");
        assert_eq!(other.running(100_000.0).last(), Some(&(100_000.0, 200_000.0)));
        assert!(bins.sums.len() <= MOST_BINS);
    }
}
