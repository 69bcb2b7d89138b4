//! The events of a fabric: arrivals, mostly within microseconds, and timers, mostly much later.
//!
//! What comes soon lies in a [`Wheel`], whose buckets are sorted when their turn comes; everything
//! else in an [`EventHeap`]. Besides being quicker than one heap when many events wait, that tells
//! which ones are next, dozens of them, so that memory can be asked for what they need. Figures:
//! docs/decisions/0009.

use units::Instant;

use super::{
    event_heap::{EventHeap, event, key},
    wheel::Wheel,
};

/// Events that a bucket of the wheel should have when its turn comes.
const WANTED: u64 = 16;
/// After how many events the width of buckets is looked at again.
const PERIOD: u32 = 4_096;
/// With more events than this in the bucket whose turn it is, others go to the heap.
const FEW: usize = 64;
/// Buckets of 512 ns, until it is known how fast events come.
const FIRST_SHIFT: u32 = 9;

/// Events ordered by time, then by id. Equal pairs come out in any order, and are
/// indistinguishable.
#[derive(Clone, Debug)]
pub struct Events {
    /// The bucket whose turn it is, the next event last.
    near: Vec<u128>,
    wheel: Wheel,
    heap: EventHeap,
    /// A turn has begun that [`begins_turn`](Self::begins_turn) has not told of.
    begins: bool,
    /// Events until the width of buckets is looked at again, and when that was done last.
    until_looked: u32,
    looked: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            wheel: Wheel::new(FIRST_SHIFT, 0),
            heap: EventHeap::new(),
            begins: false,
            until_looked: PERIOD,
            looked: 0,
        }
    }
}

impl Events {
    /// Adds the event `id` at time `at`.
    #[inline]
    pub fn push(&mut self, at: Instant, id: u64) {
        self.place(key(at, id));
    }

    #[inline]
    fn place(&mut self, key: u128) {
        if self.wheel.push(key) {
            return;
        }
        if self.wheel.bucket(key) == self.wheel.turn() && self.near.len() < FEW {
            let later = self.near.iter().rposition(|other| *other > key);
            self.near.insert(later.map_or(0, |later| later + 1), key);
        } else {
            self.heap.push_key(key);
        }
    }

    /// Removes the first event if its time is not after `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, u64)> {
        let first = self.first()?;
        let (at, id) = event(first);
        if at > until {
            return None;
        }
        if self.near.last() == Some(&first) {
            self.near.pop();
        } else {
            self.heap.take_first();
        }
        self.until_looked -= 1;
        if self.until_looked == 0 {
            self.adapt(at.as_nanos());
        }
        Some((at, id))
    }

    /// The first key.
    #[inline]
    fn first(&mut self) -> Option<u128> {
        let late = self.heap.first();
        if self.near.is_empty() {
            self.turn(late);
        }
        match (self.near.last(), late) {
            (Some(near), Some(late)) => Some(late.min(*near)),
            (near, late) => near.copied().or(late),
        }
    }

    /// The turn goes on to the bucket of the first event; `late` is the heap's.
    fn turn(&mut self, late: Option<u128>) {
        let late = late.map_or(u64::MAX, |late| self.wheel.bucket(late).max(self.wheel.turn()));
        let next = self.wheel.next().unwrap_or(u64::MAX);
        if late < next {
            self.wheel.take(late, &mut self.near); // it has none there
        } else if next < u64::MAX {
            self.wheel.take(next, &mut self.near);
            self.near.sort_unstable_by(|a, b| b.cmp(a));
            self.begins = true;
        }
    }

    /// Gives buckets another width if that of now has far more or fewer than [`WANTED`] events in
    /// one.
    #[cold]
    fn adapt(&mut self, now: u64) {
        let width = (now - self.looked) / (u64::from(PERIOD) / WANTED);
        (self.until_looked, self.looked) = (PERIOD, now);
        let shift = width.max(1).ilog2();
        if shift.abs_diff(self.wheel.shift()) < 2 {
            return;
        }
        let mut all = std::mem::take(&mut self.near);
        while let Some(next) = self.wheel.next() {
            self.wheel.take(next, &mut all);
        }
        self.wheel = Wheel::new(shift, now);
        all.into_iter().for_each(|key| self.place(key));
    }

    /// Time of the first event.
    pub fn next_time(&mut self) -> Option<Instant> {
        self.first().map(|first| event(first).0)
    }

    /// Whether a turn has begun since the last call: [`near`](Self::near) and
    /// [`following`](Self::following) are others.
    #[inline]
    pub(super) fn begins_turn(&mut self) -> bool {
        std::mem::take(&mut self.begins)
    }

    /// Ids of the events whose turn it is. Some of the heap's may come between.
    pub(super) fn near(&self) -> impl Iterator<Item = u64> {
        self.near.iter().map(|key| event(*key).1)
    }

    /// Ids of those that have the next turn, as far as it is known now.
    pub(super) fn following(&self) -> impl Iterator<Item = u64> {
        self.wheel.following().map(|key| event(key).1)
    }

    /// Events waiting.
    #[inline]
    pub fn len(&self) -> usize {
        self.near.len() + self.wheel.len() + self.heap.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Rng, Seed};

    /// Waits of this length in ns, about; one event in `timers` waits a thousand times as long.
    fn hold(events: &mut Events, list: &mut BTreeSet<(Instant, u64)>, rng: &mut Rng, wait: u64, steps: u64) {
        for _ in 0..steps {
            let first = list.pop_first();
            assert_eq!(events.next_time(), first.map(|(at, _)| at));
            assert_eq!(events.pop_until(Instant::MAX), first);
            let Some((at, id)) = first else { return };
            let long = if rng.chance(0.05) { 1_000 } else { 1 };
            let at = Instant::from_nanos(at.as_nanos() + rng.below(wait + 1) * long);
            events.push(at, id);
            list.insert((at, id));
            assert_eq!(events.len(), list.len());
        }
    }

    #[test]
    fn agrees_with_a_sorted_list_however_fast_events_come() {
        let mut rng = Rng::new(Seed(3));
        for size in [1, 30, 3_000] {
            let (mut events, mut list) = (Events::default(), BTreeSet::new());
            for id in 0..size {
                events.push(Instant::ORIGIN, id);
                list.insert((Instant::ORIGIN, id));
            }
            let mut widths = BTreeSet::new();
            for wait in [0, 50, 5_000, 5_000_000, 700, 0] {
                hold(&mut events, &mut list, &mut rng, wait, 20_000);
                widths.insert(events.wheel.shift());
            }
            assert!(widths.len() > 2, "{widths:?}");
            while let Some(expected) = list.pop_first() {
                assert_eq!(events.pop_until(Instant::MAX), Some(expected));
            }
            assert_eq!(events.pop_until(Instant::MAX), None);
            assert!(events.is_empty());
        }
    }

    #[test]
    fn the_following_have_the_next_turn() {
        let mut rng = Rng::new(Seed(5));
        let mut events = Events::default();
        (0..2_000).for_each(|id| events.push(Instant::from_nanos(600 + rng.below(200_000)), id));
        let (mut turns, mut announced) = (0, BTreeSet::new());
        while let Some((_, id)) = events.pop_until(Instant::MAX) {
            if events.begins_turn() {
                let near: BTreeSet<u64> = events.near().chain([id]).collect();
                assert!(turns == 0 || near == announced);
                announced = events.following().collect();
                turns += 1;
            }
        }
        assert!(turns > 300 && announced.is_empty(), "{turns}");
    }

    #[test]
    fn waits_for_its_time_and_takes_what_comes_before() {
        let mut events = Events::default();
        for at in [7_000_000, 5] {
            events.push(Instant::from_nanos(at), at);
            assert_eq!(events.pop_until(Instant::from_nanos(at - 1)), None);
        }
        assert_eq!(events.pop_until(Instant::from_nanos(5)), Some((Instant::from_nanos(5), 5)));
        assert_eq!(events.next_time(), Some(Instant::from_nanos(7_000_000)));
        events.push(Instant::from_nanos(9_000), 9);
        assert_eq!(events.pop_until(Instant::MAX), Some((Instant::from_nanos(9_000), 9)));
        assert_eq!(events.len(), 1);
    }
}
