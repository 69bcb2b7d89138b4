//! The plaintexts that arrived most recently, of all paths together: a log in slabs.
//!
//! Packets arrive by the hundred thousand a second and few of them are ever needed to decode, so
//! keeping one must cost no more than copying it: plaintexts are appended to the newest slab, and
//! the oldest slab is given up as a whole.

use std::collections::VecDeque;

use crate::{by_path::ByPath, wire::PathId};

/// Sizes of slabs, bytes: small while little is kept, so that a quiet connection holds little
/// memory; at most an eighth of the budget.
const SLAB_SIZES: core::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
/// What keeping a plaintext costs beyond its bytes: its places in a slab's list and in its path's
/// index.
const ENTRY_OVERHEAD: usize = 64;

/// A piece of the log.
#[derive(Default)]
struct Slab {
    bytes: Vec<u8>,
    packets: Vec<(PathId, u64)>,
}

impl Slab {
    fn memory(&self) -> u64 {
        (self.bytes.capacity() + self.packets.len() * ENTRY_OVERHEAD) as u64
    }
}

/// Where a packet's plaintext is.
#[derive(Clone, Copy)]
struct Place {
    number: u64,
    /// Slabs are counted from the first that there ever was.
    slab: u64,
    at: u32,
    /// A packet's payload is shorter than a datagram.
    len: u16,
    /// Blocks that rely on it.
    pins: u16,
}

impl Place {
    fn memory(&self) -> u64 {
        usize::from(self.len) as u64 + ENTRY_OVERHEAD as u64
    }
}

/// Recent plaintexts by path and packet number.
pub(super) struct SourceLog {
    largest_slab: usize,
    slabs: VecDeque<Slab>,
    /// How many slabs have been given up.
    gone: u64,
    /// Of each path, by ascending packet number.
    index: ByPath<VecDeque<Place>>,
    memory: u64,
    /// Bytes of plaintexts that blocks rely on.
    pinned: u64,
    /// Bytes that were moved because somebody relies on them, ever.
    moved: u64,
    /// The slab given up last, to be used again.
    spare: Option<Slab>,
}

fn largest_slab(budget: u64) -> usize {
    usize::try_from(budget / 8).unwrap_or(usize::MAX).min(*SLAB_SIZES.end())
}

impl SourceLog {
    /// A log that is to stay within `budget` bytes; its owner evicts.
    pub(super) fn new(budget: u64) -> Self {
        Self {
            largest_slab: largest_slab(budget),
            slabs: VecDeque::new(),
            gone: 0,
            index: ByPath::new(),
            memory: 0,
            pinned: 0,
            moved: 0,
            spare: None,
        }
    }

    /// Another budget: later slabs follow it.
    pub(super) fn set_budget(&mut self, budget: u64) {
        self.largest_slab = largest_slab(budget);
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// The bytes held, counted afresh.
    #[cfg(feature = "fuzzing")]
    pub(super) fn recount(&self) -> u64 {
        self.slabs.iter().map(Slab::memory).sum()
    }

    /// Bytes held that blocks rely on.
    pub(super) fn pinned(&self) -> u64 {
        self.pinned
    }

    /// Whether giving up the oldest slabs is worth moving what blocks rely on: at most four bytes
    /// for each that is gained.
    pub(super) fn is_mostly_free(&self) -> bool {
        (self.memory - self.pinned.min(self.memory)) * 4 >= self.pinned
    }

    /// Bytes moved so far to make room around those that blocks rely on.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Appends a plaintext unless the packet has one already; then the answer is false.
    pub(super) fn keep(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> bool {
        self.keep_pinned(path, number, plaintext, 0)
    }

    fn keep_pinned(&mut self, path: PathId, number: u64, plaintext: &[u8], pins: u16) -> bool {
        let places = self.index.get_or_default(path);
        let after = match places.back() {
            Some(last) if last.number >= number => places.partition_point(|p| p.number < number),
            _ => places.len(),
        };
        if places.get(after).is_some_and(|p| p.number == number) {
            return false;
        }
        let full = |slab: &Slab| slab.bytes.len() + plaintext.len() > slab.bytes.capacity();
        if self.slabs.back().is_none_or(full) {
            let size =
                (self.memory as usize).max(*SLAB_SIZES.start()).min(self.largest_slab).max(plaintext.len());
            let slab = fresh_slab(self.spare.take(), size);
            self.memory += slab.memory();
            self.slabs.push_back(slab);
        }
        let slab_number = self.gone + self.slabs.len() as u64 - 1;
        let slab = self.slabs.back_mut().expect("there is one with room");
        let (at, len) = (slab.bytes.len() as u32, plaintext.len() as u16);
        let place = Place { number, slab: slab_number, at, len, pins };
        places.insert(after, place);
        slab.bytes.extend_from_slice(plaintext);
        slab.packets.push((path, number));
        self.memory += ENTRY_OVERHEAD as u64;
        true
    }

    /// The plaintext of a packet, if it is still kept.
    pub(super) fn get(&self, path: PathId, number: u64) -> Option<&[u8]> {
        let places = self.index.get(&path)?;
        let place = places[places.binary_search_by_key(&number, |p| p.number).ok()?];
        let slab = self.slabs.get((place.slab - self.gone) as usize)?;
        slab.bytes.get(place.at as usize..place.at as usize + usize::from(place.len))
    }

    /// For looking up a path's packets in ascending order, each search beginning where the last one
    /// ended.
    pub(super) fn walk(&self, path: PathId) -> Walk<'_> {
        Walk { places: self.index.get(&path), at: 0 }
    }

    /// A block relies on a packet. What is not kept is left alone.
    pub(super) fn pin(&mut self, path: PathId, number: u64) {
        let Some(place) = self.place_mut(path, number) else { return };
        place.pins = place.pins.saturating_add(1);
        if place.pins == 1 {
            self.pinned += place.memory();
        }
    }

    /// A block relies on a packet no more.
    pub(super) fn unpin(&mut self, path: PathId, number: u64) {
        let Some(place) = self.place_mut(path, number).filter(|place| place.pins > 0) else { return };
        place.pins -= 1;
        if place.pins == 0 {
            self.pinned -= place.memory();
        }
    }

    fn place_mut(&mut self, path: PathId, number: u64) -> Option<&mut Place> {
        let places = self.index.get_mut(&path)?;
        let at = places.binary_search_by_key(&number, |p| p.number).ok()?;
        places.get_mut(at)
    }

    /// How many slabs there are.
    pub(super) fn slabs(&self) -> usize {
        self.slabs.len()
    }

    /// Gives up the oldest slab; `false` if there is none. Of its plaintexts, those that blocks
    /// rely on start again as the newest.
    pub(super) fn evict_oldest(&mut self) -> bool {
        let Some(mut slab) = self.slabs.pop_front() else { return false };
        self.memory -= slab.memory();
        let mut kept = Vec::new();
        for (path, number) in slab.packets.drain(..) {
            let Some(places) = self.index.get_mut(&path) else { continue };
            if let Ok(at) = places.binary_search_by_key(&number, |p| p.number)
                && places[at].slab == self.gone
                && let Some(place) = places.remove(at)
                && place.pins > 0
            {
                kept.push((path, number, place));
            }
        }
        self.gone += 1;
        for (path, number, place) in kept {
            self.moved += u64::from(place.len);
            let bytes = &slab.bytes[place.at as usize..place.at as usize + usize::from(place.len)];
            self.keep_pinned(path, number, bytes, place.pins);
        }
        self.spare = Some(slab);
        true
    }

    /// Gives up everything, and the memory that is kept to be used again, unless blocks rely on
    /// some of it.
    pub(super) fn clear(&mut self) {
        if self.pinned > 0 {
            return;
        }
        self.gone += self.slabs.len() as u64;
        (self.slabs, self.spare, self.index, self.memory) = (VecDeque::new(), None, ByPath::new(), 0);
    }

    /// Forgets a path's packets. Their bytes go with their slabs.
    pub(super) fn forget_path(&mut self, path: PathId) {
        let places = self.index.remove(&path).unwrap_or_default();
        self.pinned -= places.iter().filter(|p| p.pins > 0).map(Place::memory).sum::<u64>();
    }
}

/// See [`SourceLog::walk`].
pub(super) struct Walk<'a> {
    places: Option<&'a VecDeque<Place>>,
    at: usize,
}

impl Walk<'_> {
    /// Whether a packet is kept; its number is above that of the last call.
    pub(super) fn has(&mut self, number: u64) -> bool {
        let Some(places) = self.places else { return false };
        let below = |at: usize| places.get(at).is_some_and(|p| p.number < number);
        if below(self.at) {
            // Neighbours are the rule; further away, in steps that double, and back in halves.
            let mut step = 1;
            while below(self.at + step) {
                self.at += step;
                step *= 2;
            }
            let (mut low, mut high) = (self.at + 1, self.at + step);
            while low < high {
                let middle = low.midpoint(high);
                if below(middle) { low = middle + 1 } else { high = middle }
            }
            self.at = low;
        }
        places.get(self.at).is_some_and(|p| p.number == number)
    }
}

/// An empty slab of `size` bytes.
fn fresh_slab(spare: Option<Slab>, size: usize) -> Slab {
    let mut slab = spare.filter(|slab| slab.bytes.capacity() == size).unwrap_or_default();
    slab.bytes.clear();
    slab.bytes.reserve_exact(size);
    slab
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain map: what is found is right, the newest is always found, and eviction
        /// goes by age.
        #[test]
        fn behaves_as_a_map_that_forgets_the_oldest(
            steps in prop::collection::vec((0..3u32, 0..40u64, 0..9_000usize, 0..20u8), 1..200),
        ) {
            let mut log = SourceLog::new(1 << 20);
            let mut model: BTreeMap<(PathId, u64), Vec<u8>> = BTreeMap::new();
            for (path, number, len, action) in steps {
                let path = PathId(path);
                match action {
                    0 => log.forget_path(path),
                    1 if len % 8 == 0 => log.clear(),
                    1 => { log.evict_oldest(); }
                    2 if len % 2 == 0 => log.pin(path, number),
                    2 => log.unpin(path, number),
                    _ => {
                        let plaintext = vec![action; len];
                        log.keep(path, number, &plaintext);
                        if log.get(path, number) == Some(&plaintext[..]) {
                            model.insert((path, number), plaintext);
                        }
                        prop_assert!(log.get(path, number).is_some());
                    }
                }
                for ((path, number), plaintext) in &model {
                    if let Some(kept) = log.get(*path, *number) {
                        prop_assert_eq!(kept, &plaintext[..]);
                    }
                }
            }
            for path in (0..3).map(PathId) {
                let mut walk = log.walk(path);
                for number in (0..40).filter(|number| number % 3 != 1) {
                    prop_assert_eq!(walk.has(number), log.get(path, number).is_some());
                }
                log.forget_path(path);
            }
            prop_assert_eq!(log.pinned(), 0);
            while log.evict_oldest() {}
            prop_assert_eq!(log.memory(), 0);
            prop_assert!(model.keys().all(|(path, number)| log.get(*path, *number).is_none()));
        }
    }

    #[test]
    fn the_oldest_go_first_and_little_is_held_for_little() {
        let mut log = SourceLog::new(1 << 20);
        log.keep(PathId(1), 7, &[1; 100]);
        assert!(log.memory() < 2_000, "{}", log.memory());
        for number in 8..200 {
            log.keep(PathId(1), number, &[2; 1_400]);
        }
        log.pin(PathId(1), 8);
        assert_eq!(log.pinned(), 1_464);
        assert!(log.evict_oldest());
        assert!(log.get(PathId(1), 7).is_none() && log.get(PathId(1), 8).is_some());
        assert_eq!(log.get(PathId(1), 199), Some(&[2; 1_400][..]));
    }

    #[test]
    fn all_goes_at_once_unless_a_block_relies_on_some() {
        let mut log = SourceLog::new(1 << 20);
        (0..9).for_each(|number| _ = log.keep(PathId(1), number, &[number as u8; 500]));
        log.pin(PathId(1), 4);
        log.clear();
        assert!(log.get(PathId(1), 3).is_some());
        log.unpin(PathId(1), 4);
        log.clear();
        assert_eq!((log.get(PathId(1), 3), log.memory(), log.slabs()), (None, 0, 0));
        log.keep(PathId(1), 9, &[9; 500]);
        assert_eq!(log.get(PathId(1), 9), Some(&[9; 500][..]));
    }
}
