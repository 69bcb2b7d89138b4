//! Sets of sequence numbers as sorted, disjoint, non-adjacent ranges.

/// A set of sequence numbers. Small: as many entries as there are gaps.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, lowest first; ends are excluded.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// One past the highest number.
    pub(crate) fn end(&self) -> Option<u32> {
        self.0.last().map(|range| range.1)
    }

    /// The range that holds `number`.
    pub(crate) fn around(&self, number: u32) -> Option<(u32, u32)> {
        let after = self.0.partition_point(|range| range.0 <= number);
        let range = *self.0.get(after.checked_sub(1)?)?;
        (number < range.1).then_some(range)
    }

    /// Adds `from..to`, and calls `fresh` for every piece that was not in the set.
    pub(crate) fn insert(&mut self, from: u32, to: u32, mut fresh: impl FnMut(u32, u32)) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|range| range.1 < from);
        let (mut low, mut high, mut at, mut last) = (from, to, from, first);
        while let Some(&(start, end)) = self.0.get(last).filter(|range| range.0 <= to) {
            if at < start {
                fresh(at, start);
            }
            at = at.max(end);
            (low, high) = (low.min(start), high.max(end));
            last += 1;
        }
        if at < to {
            fresh(at, to);
        }
        if last == first {
            self.0.insert(first, (low, high));
        } else {
            self.0[first] = (low, high);
            self.0.drain(first + 1..last);
        }
    }

    /// Takes out everything below `limit`.
    pub(crate) fn remove_below(&mut self, limit: u32) {
        let gone = self.0.partition_point(|range| range.1 <= limit);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(limit);
        }
    }

    /// If the lowest range starts at `from`, takes it out and gives its end.
    pub(crate) fn take_first_at(&mut self, from: u32) -> Option<u32> {
        let &(start, end) = self.0.first()?;
        (start <= from).then(|| {
            self.0.remove(0);
            end.max(from)
        })
    }

    /// Gives the memory back.
    pub(crate) fn shrink(&mut self) {
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_a_set() {
        let mut rng = netsim::Rng::new(netsim::Seed(2));
        for _ in 0..200 {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for _ in 0..40 {
                let from = rng.below(60) as u32;
                let to = from + rng.below(9) as u32;
                let mut fresh = Vec::new();
                ranges.insert(from, to, |a, b| fresh.extend(a..b));
                let expected: Vec<u32> = (from..to).filter(|n| set.insert(*n)).collect();
                assert_eq!(fresh, expected);
                let listed: Vec<u32> = ranges.iter().flat_map(|(a, b)| a..b).collect();
                assert!(listed.iter().eq(set.iter()));
                assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let probe = rng.below(70) as u32;
                assert_eq!(ranges.around(probe).is_some(), set.contains(&probe));
                if rng.chance(0.1) {
                    ranges.remove_below(probe);
                    set = set.split_off(&probe);
                }
            }
        }
    }
}
