//! Series that stay short however long a trace is.

/// Groups of samples of a line at most, each of which is drawn with two points.
const MOST_GROUPS: usize = 1_000;
/// Intervals of a sum at most.
const MOST_BINS: usize = 600;

/// A moment in milliseconds, and a value.
type Sample = (f64, f64);

/// Samples over time. As they become many, those that follow each other are put together in groups,
/// of which the least and the greatest are kept: no peak is lost.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    groups: Vec<Group>,
    /// Samples in each group, and in the last one so far.
    size: u64,
    in_last: u64,
    last: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    least: Sample,
    greatest: Sample,
}

impl Group {
    fn with(self, other: Self) -> Self {
        Self {
            least: if other.least.1 < self.least.1 { other.least } else { self.least },
            greatest: if other.greatest.1 > self.greatest.1 { other.greatest } else { self.greatest },
        }
    }

    /// In the order of time.
    fn points(self) -> impl Iterator<Item = Sample> {
        let (first, second) = match self.least.0 <= self.greatest.0 {
            true => (self.least, self.greatest),
            false => (self.greatest, self.least),
        };
        [Some(first), (second != first).then_some(second)].into_iter().flatten()
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self { groups: Vec::new(), size: 1, in_last: 0, last: None }
    }
}

impl Samples {
    /// Adds a sample; those that are no numbers are left out.
    pub(super) fn add(&mut self, at: f64, value: f64) {
        if !at.is_finite() || !value.is_finite() {
            return;
        }
        self.last = Some((at, value));
        let group = Group { least: (at, value), greatest: (at, value) };
        if let Some(last) = self.groups.last_mut()
            && self.in_last < self.size
        {
            *last = last.with(group);
            self.in_last += 1;
            return;
        }
        if self.groups.len() == MOST_GROUPS {
            self.groups = self
                .groups
                .chunks(2)
                .map(|pair| pair.iter().skip(1).fold(pair[0], |a, b| a.with(*b)))
                .collect();
            self.size *= 2;
        }
        self.groups.push(group);
        self.in_last = 1;
    }

    /// How many samples there are to a group: 1 while every one of them is kept.
    pub(super) fn together(&self) -> u64 {
        self.size
    }

    /// What was kept, and the last one.
    pub(super) fn points(&self) -> Vec<Sample> {
        let mut points: Vec<Sample> = self.groups.iter().flat_map(|group| group.points()).collect();
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
    fn a_million_samples_make_few_points_in_order_and_no_peak_is_lost() {
        let mut samples = Samples::default();
        for n in 0..1_000_000 {
            let value = match n {
                777_777 => 1e6,
                123_456 => -1e6,
                n => f64::from(n % 100),
            };
            samples.add(f64::from(n), value);
        }
        samples.add(f64::NAN, 1.0);
        let points = samples.points();
        assert!((MOST_GROUPS..=2 * MOST_GROUPS + 1).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((points[0].0, *points.last().unwrap()), (0.0, (999_999.0, 99.0)));
        assert!(points.contains(&(777_777.0, 1e6)) && points.contains(&(123_456.0, -1e6)));
        assert_eq!(samples.together(), 1_024);
    }

    #[test]
    fn few_samples_are_all_kept() {
        let mut samples = Samples::default();
        (0..1_000).for_each(|n| samples.add(f64::from(n), f64::from(n % 7)));
        assert_eq!((samples.points().len(), samples.together()), (1_000, 1));
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
