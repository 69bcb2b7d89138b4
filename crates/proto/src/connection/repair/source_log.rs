//! The plaintexts that arrived most recently, of all paths together: a log in slabs.
//!
//! Packets arrive by the hundred thousand a second and few of them are ever needed to decode, so
//! keeping one must cost no more than copying it: plaintexts are appended to the newest slab, and
//! the oldest slab is given up as a whole. In whatever order a peer numbers its packets, it moves
//! little of the index: what goes from the middle leaves its place behind, until half of them are
//! such, and what would have to come into the middle of a long one is not kept.

use std::collections::VecDeque;

use crate::{by_path::ByPath, wire::PathId};

/// Sizes of slabs, bytes: small while little is kept, so that a quiet connection holds little
/// memory; at most an eighth of the budget.
const SLAB_SIZES: core::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
/// What keeping a plaintext costs beyond its bytes: its places in a slab's list and in its path's
/// index.
const ENTRY_OVERHEAD: usize = 64;

/// Places of a path's index that are moved at most for a packet that comes late.
const MAX_SHIFT: usize = 4_096;

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
    /// [`GONE`] if the slab was given up.
    at: u32,
    /// A packet's payload is shorter than a datagram.
    len: u16,
    /// Blocks that rely on it.
    pins: u16,
}

/// The place of a plaintext that is kept no more.
const GONE: u32 = u32::MAX;

impl Place {
    fn is_gone(&self) -> bool {
        self.at == GONE
    }

    fn memory(&self) -> u64 {
        usize::from(self.len) as u64 + ENTRY_OVERHEAD as u64
    }
}

/// Where the plaintexts of a path are.
#[derive(Default)]
struct Index {
    /// By ascending packet number.
    places: VecDeque<Place>,
    /// How many of them are of plaintexts that are gone.
    gone: usize,
}

impl Index {
    fn find(&self, number: u64) -> Option<usize> {
        self.places.binary_search_by_key(&number, |p| p.number).ok()
    }

    /// Where a packet is, or would have to be.
    fn place_of(&self, number: u64) -> usize {
        match self.places.back() {
            Some(last) if last.number >= number => self.places.partition_point(|p| p.number < number),
            _ => self.places.len(),
        }
    }

    /// A packet's plaintext goes with its slab. Returns where it was if blocks rely on it.
    fn on_gone(&mut self, number: u64, slab: u64) -> Option<Place> {
        let at = self.find(number)?;
        let before = self.places[at];
        if before.slab != slab || before.is_gone() {
            return None;
        }
        self.places[at].at = GONE;
        self.gone += 1;
        (before.pins > 0).then_some(before)
    }

    /// A packet's plaintext that was gone is kept again.
    fn on_back(&mut self, at: usize, place: Place) {
        self.places[at] = place;
        self.gone -= 1;
    }

    /// Forgets what is gone: the oldest, and the rest once it is half of all.
    fn tidy(&mut self) {
        while self.places.front().is_some_and(Place::is_gone) {
            self.places.pop_front();
            self.gone -= 1;
        }
        if self.gone * 2 > self.places.len() {
            self.places.retain(|place| !place.is_gone());
            self.gone = 0;
        }
    }
}

/// Recent plaintexts by path and packet number.
pub(super) struct SourceLog {
    largest_slab: usize,
    slabs: VecDeque<Slab>,
    /// How many slabs have been given up.
    gone: u64,
    index: ByPath<Index>,
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

    /// Appends a plaintext unless the packet has one already; then the answer is false. One that comes
    /// very late counts as kept and given up.
    pub(super) fn keep(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> bool {
        let index = self.index.get_or_default(path);
        let (at, len) = (index.place_of(number), index.places.len());
        let known = index.places.get(at).filter(|place| place.number == number);
        let was_gone = known.is_some_and(Place::is_gone);
        if known.is_some() && !was_gone {
            return false;
        }
        if !was_gone && at.min(len - at) > MAX_SHIFT {
            return true;
        }
        let place = self.append(path, number, plaintext, 0);
        let index = self.index.get_or_default(path);
        if was_gone {
            index.on_back(at, place);
        } else {
            index.places.insert(at, place);
        }
        true
    }

    /// Appends a plaintext to the newest slab, or to a new one.
    fn append(&mut self, path: PathId, number: u64, plaintext: &[u8], pins: u16) -> Place {
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
        slab.bytes.extend_from_slice(plaintext);
        slab.packets.push((path, number));
        self.memory += ENTRY_OVERHEAD as u64;
        Place { number, slab: slab_number, at, len, pins }
    }

    /// The plaintext of a packet, if it is still kept.
    pub(super) fn get(&self, path: PathId, number: u64) -> Option<&[u8]> {
        let index = self.index.get(&path)?;
        let place = index.places[index.find(number)?];
        if place.is_gone() {
            return None;
        }
        let slab = self.slabs.get((place.slab - self.gone) as usize)?;
        slab.bytes.get(place.at as usize..place.at as usize + usize::from(place.len))
    }

    /// For looking up a path's packets in ascending order, each search beginning where the last one
    /// ended.
    pub(super) fn walk(&self, path: PathId) -> Walk<'_> {
        Walk { places: self.index.get(&path).map(|index| &index.places), at: 0 }
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
        let index = self.index.get_mut(&path)?;
        let at = index.find(number)?;
        index.places.get_mut(at).filter(|place| !place.is_gone())
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
            let Some(index) = self.index.get_mut(&path) else { continue };
            kept.extend(index.on_gone(number, self.gone).map(|place| (path, place)));
        }
        self.gone += 1;
        for (path, place) in kept {
            self.moved += u64::from(place.len);
            let bytes = &slab.bytes[place.at as usize..place.at as usize + usize::from(place.len)];
            let again = self.append(path, place.number, bytes, place.pins);
            if let Some(index) = self.index.get_mut(&path)
                && let Some(at) = index.find(place.number)
            {
                index.on_back(at, again);
            }
        }
        self.index.values_mut().for_each(Index::tidy);
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
        let Index { places, .. } = self.index.remove(&path).unwrap_or_default();
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
        places.get(self.at).is_some_and(|p| p.number == number && !p.is_gone())
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

    /// Numbers that go from the middle outwards: the oldest packets are in the middle of the index.
    #[test]
    fn what_goes_from_the_middle_moves_nothing() {
        let mut log = SourceLog::new(1 << 20);
        for step in 0..2_000 {
            log.keep(PathId(1), 10_000 - step, &[1; 100]);
            log.keep(PathId(1), 10_001 + step, &[2; 100]);
        }
        assert!(log.evict_oldest());
        let index = log.index.get(&PathId(1)).unwrap();
        assert!(index.gone > 0 && index.places.len() == 4_000, "{} are gone", index.gone);
        assert!(log.get(PathId(1), 10_000).is_none() && !log.walk(PathId(1)).has(10_001));
        assert_eq!(log.get(PathId(1), 8_001), Some(&[1; 100][..]));
        assert!(log.keep(PathId(1), 10_000, &[3; 100]), "it comes again");
        assert_eq!(log.get(PathId(1), 10_000), Some(&[3; 100][..]));
        while log.slabs() > 1 {
            log.evict_oldest();
            let index = log.index.get(&PathId(1)).unwrap();
            assert!(2 * index.gone <= index.places.len());
        }
        log.evict_oldest();
        assert!(log.index.get(&PathId(1)).is_some_and(|index| index.places.is_empty() && index.gone == 0));
    }

    #[test]
    fn what_comes_into_the_middle_of_thousands_is_not_kept() {
        let mut log = SourceLog::new(64 << 20);
        let many = MAX_SHIFT as u64 + 10;
        (0..many).chain(2 * many..3 * many).for_each(|number| _ = log.keep(PathId(1), number, &[1; 4]));
        assert!(log.keep(PathId(1), many, &[2; 4]), "as if it were given up at once");
        assert_eq!((log.get(PathId(1), many), log.get(PathId(1), many - 1)), (None, Some(&[1; 4][..])));
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
