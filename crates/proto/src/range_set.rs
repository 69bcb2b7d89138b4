//! [`RangeSet`]: a set of integers kept as disjoint ranges.
//!
//! Stream offsets that have arrived, been acknowledged or been lost, and received packet numbers,
//! come in runs. The set costs one map entry per run but the highest, so that in-order traffic costs
//! nothing and an attacker's sparse traffic costs O(log runs) per operation. It does not bound
//! itself: whoever inserts what a peer chose watches [`RangeSet::len`].

use std::collections::{BTreeMap, btree_map};
use std::ops::Range;

use crate::spare_room::SpareRoom as _;

/// Disjoint, non-adjacent, non-empty half-open ranges of `u64`, in ascending order.
///
/// The highest one lies in the set itself: it is the one that grows, and often the only one.
///
/// Empty ranges given as arguments are accepted and change nothing.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RangeSet {
    /// Start and end of the highest range; equal if the set is empty.
    last: (u64, u64),
    /// Start to end of the others. Never two entries that touch.
    below: BTreeMap<u64, u64>,
    /// Sum of all lengths.
    covered: u64,
}

impl RangeSet {
    /// The empty set; allocates nothing.
    pub const fn new() -> Self {
        Self { last: (0, 0), below: BTreeMap::new(), covered: 0 }
    }

    /// Gives back the memory that is kept for ranges which are there no more.
    pub(crate) fn give_back(&mut self) {
        self.below.give_back();
    }

    /// Adds every value of `range`; returns how many of them were new. O(log n) amortised.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let Range { start, end } = range;
        if start >= end {
            return 0;
        }
        let before = self.covered;
        let (last_start, last_end) = self.last;
        if last_start <= start && start <= last_end && !self.is_empty() {
            // The common case: the highest range grows.
            self.last.1 = last_end.max(end);
            self.covered += self.last.1 - last_end;
        } else if start > last_end || self.is_empty() {
            self.raise(start, end);
        } else if end < last_start {
            self.insert_below(start, end);
        } else {
            // It joins the highest range from below, and perhaps others to it.
            let start = self.reach_down(start);
            self.covered -= last_end - last_start;
            self.swallow(start, end);
            self.last = (start, last_end.max(end));
            self.covered += self.last.1 - start;
        }
        self.covered - before
    }

    /// A range above all others.
    fn raise(&mut self, start: u64, end: u64) {
        if !self.is_empty() {
            self.below.insert(self.last.0, self.last.1);
        }
        self.last = (start, end);
        self.covered += end - start;
    }

    /// The start of the union with the range below that reaches to `start`, if there is one.
    fn reach_down(&self, start: u64) -> u64 {
        let reaches = |(_, end): &(&u64, &u64)| **end >= start;
        self.below.range(..=start).next_back().filter(reaches).map_or(start, |(&start, _)| start)
    }

    /// The same as [`insert`](Self::insert) for what does not touch the highest range.
    fn insert_below(&mut self, mut start: u64, mut end: u64) {
        if let Some((_, lower_end)) = self.below.range_mut(..=start).next_back() {
            if *lower_end >= end {
                return;
            }
            if *lower_end >= start {
                start = *lower_end;
                // Swallow what follows before growing, so that the map never holds overlapping
                // entries.
                end = self.swallow(start, end);
                let (_, lower_end) = self.below.range_mut(..=start).next_back().expect("just found");
                self.covered += end - *lower_end;
                *lower_end = end;
                return;
            }
        }
        end = self.swallow(start, end);
        self.below.insert(start, end);
        self.covered += end - start;
    }

    /// Removes the entries that start within `start..=end`, and returns where the union with them
    /// ends.
    fn swallow(&mut self, start: u64, mut end: u64) -> u64 {
        while let Some((&next, &next_end)) = self.below.range(start..=end).next() {
            self.below.remove(&next);
            self.covered -= next_end - next;
            end = end.max(next_end);
        }
        end
    }

    /// Adds one value; returns whether it was new. `value` is below `u64::MAX`.
    pub fn insert_one(&mut self, value: u64) -> bool {
        self.insert(value..value + 1) == 1
    }

    /// Removes every value of `range`; returns how many of them were present. O(log n + entries
    /// removed).
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let Range { start, end } = range;
        if start >= end || self.is_empty() {
            return 0;
        }
        let before = self.covered;
        self.remove_below(start, end);
        let (last_start, last_end) = self.last;
        let cut = start.max(last_start)..end.min(last_end);
        if cut.is_empty() {
            return before - self.covered;
        }
        self.covered -= cut.end - cut.start;
        match (cut.start > last_start, cut.end < last_end) {
            (false, false) => self.last = self.below.pop_last().unwrap_or_default(),
            (true, false) => self.last = (last_start, cut.start),
            (false, true) => self.last = (cut.end, last_end),
            (true, true) => {
                self.below.insert(last_start, cut.start);
                self.last = (cut.end, last_end);
            }
        }
        before - self.covered
    }

    /// The same for all but the highest range.
    fn remove_below(&mut self, start: u64, end: u64) {
        if let Some((&first, first_end)) = self.below.range_mut(..start).next_back()
            && *first_end > start
        {
            let old_end = *first_end;
            debug_assert!(first < start);
            *first_end = start;
            self.covered -= old_end - start;
            if old_end > end {
                self.below.insert(end, old_end);
                self.covered += old_end - end;
            }
        }
        while let Some((&next, &next_end)) = self.below.range(start..end).next() {
            self.below.remove(&next);
            self.covered -= next_end - next;
            if next_end > end {
                self.below.insert(end, next_end);
                self.covered += next_end - end;
            }
        }
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: u64) -> bool {
        self.range_around(value).is_some()
    }

    /// The range that `value` belongs to, if it is in the set.
    pub fn range_around(&self, value: u64) -> Option<Range<u64>> {
        self.range_at_or_before(value).filter(|range| range.end > value)
    }

    /// Whether every value of `range` is in the set; true for an empty range.
    pub fn contains_range(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.range_at_or_before(range.start).is_some_and(|found| found.end >= range.end)
    }

    /// The last range that starts at or before `value`.
    fn range_at_or_before(&self, value: u64) -> Option<Range<u64>> {
        let last = self.last()?;
        if last.start <= value {
            return Some(last);
        }
        self.below.range(..=value).next_back().map(|(&start, &end)| start..end)
    }

    /// The ranges in ascending order; `.rev()` gives them descending.
    pub fn iter(&self) -> Iter<'_> {
        Iter { below: self.below.iter(), last: self.last() }
    }

    /// The parts of `within` that are in the set, ascending.
    pub fn present_within(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.range_at_or_before(within.start).map_or(within.start, |range| range.start);
        let last = within.end.max(first);
        let below = self.below.range(first..last).map(|(&start, &end)| start..end);
        below.chain(self.last()).filter_map(move |range| {
            let clipped = range.start.max(within.start)..range.end.min(within.end);
            (!clipped.is_empty()).then_some(clipped)
        })
    }

    /// The parts of `within` that are not in the set, ascending: `within` minus the set.
    pub fn missing_within(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut cursor = within.start;
        self.present_within(within.clone()).chain(std::iter::once(within.end..within.end)).filter_map(
            move |present| {
                let gap = cursor..present.start;
                cursor = present.end.max(cursor);
                (!gap.is_empty()).then_some(gap)
            },
        )
    }

    /// The lowest range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.below.first_key_value().map(|(&start, &end)| start..end).or_else(|| self.last())
    }

    /// The highest range.
    pub fn last(&self) -> Option<Range<u64>> {
        Some(self.last.0..self.last.1).filter(|last| !last.is_empty())
    }

    /// Removes and returns the lowest range.
    pub fn pop_first(&mut self) -> Option<Range<u64>> {
        let first = self.below.pop_first().map(|(start, end)| start..end);
        let first = first.or_else(|| {
            let (start, end) = core::mem::take(&mut self.last);
            Some(start..end).filter(|last| !last.is_empty())
        })?;
        self.covered -= first.end - first.start;
        Some(first)
    }

    /// The lowest value.
    pub fn min(&self) -> Option<u64> {
        self.first().map(|range| range.start)
    }

    /// The highest value.
    pub fn max(&self) -> Option<u64> {
        self.last().map(|range| range.end - 1)
    }

    /// How many disjoint ranges the set consists of: its memory.
    pub fn len(&self) -> usize {
        self.below.len() + usize::from(!self.is_empty())
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(&self) -> bool {
        self.last.0 == self.last.1
    }

    /// How many values are in the set: the sum of the lengths of all ranges.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

/// The ranges of a [`RangeSet`], from both ends.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    below: btree_map::Iter<'a, u64, u64>,
    last: Option<Range<u64>>,
}

impl Iterator for Iter<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        self.below.next().map(|(&start, &end)| start..end).or_else(|| self.last.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.below.len() + usize::from(self.last.is_some());
        (len, Some(len))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.last.take().or_else(|| self.below.next_back().map(|(&start, &end)| start..end))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a RangeSet {
    type Item = Range<u64>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> Self {
        let mut set = Self::new();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SPACE: u64 = 60;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(Range<u64>),
        Remove(Range<u64>),
        PopFirst,
    }

    fn range() -> impl Strategy<Value = Range<u64>> {
        (0..SPACE, 0..12u64).prop_map(|(start, len)| start..(start + len).min(SPACE))
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![5 => range().prop_map(Op::Insert), 3 => range().prop_map(Op::Remove), 1 => Just(Op::PopFirst)]
    }

    /// The maximal runs of consecutive values.
    fn runs(values: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for value in values {
            match runs.last_mut() {
                Some(last) if last.end == value => last.end += 1,
                _ => runs.push(value..value + 1),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_integers(ops in prop::collection::vec(op(), 1..60), probe in range()) {
            let mut set = RangeSet::new();
            let mut oracle = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Insert(range) => {
                        let added = range.clone().filter(|&value| oracle.insert(value)).count();
                        prop_assert_eq!(set.insert(range), added as u64);
                    }
                    Op::Remove(range) => {
                        let removed = range.clone().filter(|value| oracle.remove(value)).count();
                        prop_assert_eq!(set.remove(range), removed as u64);
                    }
                    Op::PopFirst => {
                        let first = runs(oracle.iter().copied()).into_iter().next();
                        for value in first.clone().into_iter().flatten() {
                            oracle.remove(&value);
                        }
                        prop_assert_eq!(set.pop_first(), first);
                    }
                }
                let expected = runs(oracle.iter().copied());
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(set.iter().rev().collect::<Vec<_>>(), expected.iter().rev().cloned().collect::<Vec<_>>());
                prop_assert_eq!(set.len(), expected.len());
                prop_assert_eq!(set.is_empty(), expected.is_empty());
                prop_assert_eq!(set.covered(), oracle.len() as u64);
                prop_assert_eq!((set.min(), set.max()), (oracle.first().copied(), oracle.last().copied()));
                prop_assert_eq!(
                    set.present_within(probe.clone()).collect::<Vec<_>>(),
                    runs(probe.clone().filter(|value| oracle.contains(value)))
                );
                prop_assert_eq!(
                    set.missing_within(probe.clone()).collect::<Vec<_>>(),
                    runs(probe.clone().filter(|value| !oracle.contains(value)))
                );
                prop_assert_eq!(set.contains_range(probe.clone()), probe.clone().all(|value| oracle.contains(&value)));
                prop_assert_eq!(set.contains(probe.start), oracle.contains(&probe.start));
            }
        }
    }

    #[test]
    fn tens_of_thousands_of_ranges_join_into_one() {
        let mut set: RangeSet = (0..40_000u64).map(|i| 2 * i..2 * i + 1).collect();
        assert_eq!((set.len(), set.covered()), (40_000, 40_000));
        assert_eq!(set.missing_within(0..80_000).count(), 40_000);
        for i in (0..40_000u64).rev() {
            assert!(set.insert_one(2 * i + 1));
        }
        assert_eq!((set.len(), set.first()), (1, Some(0..80_000)));
        assert_eq!(set.remove(1..79_999), 79_998);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..1, 79_999..80_000]);
    }

    #[test]
    fn the_ends_of_the_number_space_are_ordinary() {
        let mut set = RangeSet::new();
        assert_eq!(set.insert(u64::MAX - 2..u64::MAX), 2);
        assert_eq!(set.insert(0..1), 1);
        assert!(set.missing_within(0..u64::MAX).eq(std::iter::once(1..u64::MAX - 2)));
        assert_eq!(set.max(), Some(u64::MAX - 1));
        assert_eq!(set.remove(0..u64::MAX), 3);
        assert!(set.is_empty());
    }
}
