//! The queue of the events that a fabric's [wheel](super::wheel) does not take.
//!
//! An implicit heap with four children per entry (one cache line of keys) and a *hole*: taking the
//! first event leaves the root empty, and the next event to be added falls straight in. A hop takes
//! one event and adds one, so it costs one descent instead of a descent and an ascent. Figures
//! against other structures: docs/decisions/0009.

use units::Instant;

/// Children per entry.
const ARITY: usize = 4;

/// Events ordered by time, then by id. Equal pairs come out in any order, and are
/// indistinguishable.
#[derive(Clone, Debug)]
pub struct EventHeap {
    /// Time in the high half, id in the low.
    keys: Vec<u128>,
    /// The root was taken and its place is free.
    hole: bool,
}

#[inline]
pub(super) fn key(at: Instant, id: u64) -> u128 {
    (u128::from(at.as_nanos()) << 64) | u128::from(id)
}

/// What a [`key`] is of.
#[inline]
pub(super) fn event(key: u128) -> (Instant, u64) {
    (Instant::from_nanos((key >> 64) as u64), key as u64)
}

impl EventHeap {
    /// An empty queue.
    pub fn new() -> Self {
        Self { keys: Vec::new(), hole: false }
    }

    /// Adds the event `id` at time `at`.
    #[inline]
    pub fn push(&mut self, at: Instant, id: u64) {
        self.push_key(key(at, id));
    }

    /// Adds an event by its key.
    #[inline]
    pub(super) fn push_key(&mut self, key: u128) {
        if self.hole {
            self.hole = false;
            self.sink(key);
        } else {
            let end = self.keys.len();
            self.keys.push(key);
            self.rise(end, key);
        }
    }

    /// Removes the first event if its time is not after `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, u64)> {
        let (at, id) = event(self.first()?);
        if at > until {
            return None;
        }
        self.take_first();
        Some((at, id))
    }

    /// The first key.
    #[inline]
    pub(super) fn first(&mut self) -> Option<u128> {
        if self.hole {
            self.fill();
        }
        self.keys.first().copied()
    }

    /// Removes the [first](Self::first), which there is.
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.hole = true;
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.keys.len() - usize::from(self.hole)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the hole with the last entry.
    fn fill(&mut self) {
        self.hole = false;
        if let Some(last) = self.keys.pop()
            && !self.keys.is_empty()
        {
            self.sink(last);
        }
    }

    /// Puts `key` at the root and moves it down to its place.
    #[inline]
    fn sink(&mut self, key: u128) {
        let keys = self.keys.as_mut_slice();
        let mut place = 0;
        loop {
            let first = ARITY * place + 1;
            let (child, least) = if let Some(&[a, b, c, d]) = keys.get(first..first + ARITY) {
                let (ab, i) = if b < a { (b, 1) } else { (a, 0) };
                let (cd, j) = if d < c { (d, 3) } else { (c, 2) };
                if cd < ab { (first + j, cd) } else { (first + i, ab) }
            } else {
                match (first..keys.len()).map(|i| (keys[i], i)).min() {
                    Some((least, i)) => (i, least),
                    None => break,
                }
            };
            if least >= key {
                break;
            }
            keys[place] = least;
            place = child;
        }
        keys[place] = key;
    }

    /// Moves `key` up from `place`.
    #[inline]
    fn rise(&mut self, mut place: usize, key: u128) {
        let keys = self.keys.as_mut_slice();
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if keys[parent] <= key {
                break;
            }
            keys[place] = keys[parent];
            place = parent;
        }
        keys[place] = key;
    }
}

impl Default for EventHeap {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Seed};

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut rng = Rng::new(Seed(3));
        let (mut heap, mut list) = (EventHeap::new(), std::collections::BTreeSet::new());
        for id in 0..20_000_u64 {
            let at = Instant::from_nanos(rng.below(5_000));
            heap.push(at, id);
            list.insert((at, id));
            if rng.chance(0.45) {
                assert_eq!(heap.pop_until(Instant::MAX), list.pop_first());
            }
            assert_eq!(heap.len(), list.len());
        }
        while let Some(expected) = list.pop_first() {
            assert_eq!(heap.pop_until(Instant::MAX), Some(expected));
        }
        assert_eq!(heap.pop_until(Instant::MAX), None);
        assert!(heap.is_empty());
    }

    #[test]
    fn waits_for_its_time() {
        let mut heap = EventHeap::new();
        heap.push(Instant::from_nanos(5), 1);
        assert_eq!(heap.pop_until(Instant::from_nanos(4)), None);
        assert_eq!(heap.len(), 1);
        assert_eq!(heap.pop_until(Instant::from_nanos(5)), Some((Instant::from_nanos(5), 1)));
    }
}
