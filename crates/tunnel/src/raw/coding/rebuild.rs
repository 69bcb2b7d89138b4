//! The receiving end: packets that combinations bring back.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

use fec::random_linear::MissingDecoder;
use units::{Duration, Instant};

/// Sources are kept for so many numbers of a flow: no unit is longer.
const SPAN: u64 = fec::MAX_SOURCES as u64;
/// Units in work of a flow.
const MOST_UNITS: usize = 4;
/// For so long after the last of them packets are kept for combinations.
const KEPT: Duration = Duration::from_millis(500);
/// What a packet costs besides its bytes.
const OVERHEAD: usize = 64;

/// One flow: what came of its units.
#[derive(Debug, Default)]
pub(in crate::raw) struct Rebuild {
    sources: BTreeMap<u64, Vec<u8>>,
    units: VecDeque<Unit>,
    kept: usize,
    last: Option<Instant>,
}

#[derive(Debug)]
struct Unit {
    first: u64,
    count: u8,
    decoder: MissingDecoder,
}

impl Unit {
    fn index_of(&self, sequence: u64) -> Option<usize> {
        let index = sequence.checked_sub(self.first)?;
        (index < u64::from(self.count)).then_some(index as usize)
    }
}

/// A combination that came.
#[derive(Clone, Copy, Debug)]
pub(in crate::raw) struct Combination<'a> {
    pub(in crate::raw) first: u64,
    pub(in crate::raw) count: u8,
    pub(in crate::raw) index: u8,
    pub(in crate::raw) symbol: &'a [u8],
}

impl Rebuild {
    /// Bytes that are kept: packets, and equations.
    pub(in crate::raw) fn kept(&self) -> usize {
        self.kept + self.units.iter().map(|unit| unit.decoder.memory()).sum::<usize>()
    }

    /// Packets of units may come: since when none have.
    pub(in crate::raw) fn is_stale(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) >= KEPT)
    }

    /// Whether packets of units came lately: then holes may be mended.
    pub(in crate::raw) fn is_coded(&self) -> bool {
        self.last.is_some()
    }

    /// Forgets everything.
    pub(in crate::raw) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A packet of a unit came. What it completes is given to `sink`.
    pub(in crate::raw) fn on_source(
        &mut self,
        now: Instant,
        sequence: u64,
        packet: &[u8],
        sink: &mut dyn FnMut(u64, &[u8]),
    ) {
        self.last = Some(now);
        if !self.keep(sequence, packet) {
            return;
        }
        while let Some(first) = self.sources.first_entry()
            && *first.key() + SPAN < sequence
        {
            self.kept -= first.remove().len() + OVERHEAD;
        }
        let part = self.units.iter().position(|unit| unit.index_of(sequence).is_some());
        if let Some(at) = part
            && let Some(index) = self.units[at].index_of(sequence)
        {
            // One that is longer than the unit's is none of it.
            let _ = self.units[at].decoder.add_source(index, packet);
            self.take_rebuilt(at, sink);
        }
    }

    /// False if it is here.
    fn keep(&mut self, sequence: u64, packet: &[u8]) -> bool {
        let Entry::Vacant(place) = self.sources.entry(sequence) else { return false };
        place.insert(packet.to_vec());
        self.kept += packet.len() + OVERHEAD;
        true
    }

    /// A combination came. What it completes is given to `sink`. False if it makes no sense.
    pub(in crate::raw) fn on_combination(
        &mut self,
        now: Instant,
        combination: &Combination<'_>,
        sink: &mut dyn FnMut(u64, &[u8]),
    ) -> bool {
        self.last = Some(now);
        let Combination { first, count, index, symbol } = *combination;
        let same = |unit: &Unit| (unit.first, unit.count) == (first, count);
        let at = match self.units.iter().position(same) {
            Some(at) => at,
            None => {
                let missing = |i: usize| !self.sources.contains_key(&(first + i as u64));
                let decoder = MissingDecoder::new(first as u32, count.into(), symbol.len(), missing);
                let Ok(decoder) = decoder else { return false };
                if decoder.is_complete() {
                    return true;
                }
                if self.units.len() >= MOST_UNITS {
                    self.units.pop_front();
                }
                self.units.push_back(Unit { first, count, decoder });
                self.units.len() - 1
            }
        };
        let sources = &self.sources;
        let source = |i: usize| sources.get(&(first + i as u64)).map(Vec::as_slice);
        if self.units[at].decoder.add_repair(index.into(), symbol, source).is_err() {
            self.units.remove(at);
            return false;
        }
        self.take_rebuilt(at, sink)
    }

    /// False if the unit turned out to be none.
    fn take_rebuilt(&mut self, at: usize, sink: &mut dyn FnMut(u64, &[u8])) -> bool {
        let Some(mut unit) = self.units.remove(at) else { return true };
        while let Some(rebuilt) = unit.decoder.next_rebuilt() {
            let Ok((index, packet)) = rebuilt else { return false };
            let sequence = unit.first + index as u64;
            self.keep(sequence, packet);
            sink(sequence, packet);
        }
        if !unit.decoder.is_complete() {
            self.units.push_back(unit);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use fec::random_linear::encode;
    use proptest::prelude::*;

    use super::*;

    fn symbol(packets: &[Vec<u8>], first: u64, index: u8) -> Vec<u8> {
        let sources: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut symbol = vec![0; fec::symbol_len(&sources)];
        encode(&sources, first as u32, index.into(), &mut symbol).unwrap();
        symbol
    }

    proptest! {
        /// Whatever comes in whatever order: what is rebuilt is what was sent, and with as many
        /// combinations as packets are lost everything is.
        #[test]
        fn rebuilt_packets_are_those_that_were_sent(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..40),
            first in 0u64..1 << 40,
            lost in proptest::collection::vec(any::<bool>(), 40),
            order in proptest::collection::vec(any::<u16>(), 80),
        ) {
            let count = packets.len();
            let missing = lost.iter().take(count).filter(|lost| **lost).count();
            let mut arrivals: Vec<(u16, usize)> = (0..count).filter(|n| !lost[*n]).map(|n| (order[n], n)).collect();
            // One more than it takes: a combination is useless once in 255 times.
            arrivals.extend((0..missing + missing.min(2)).map(|index| (order[40 + index % 40], count + index)));
            arrivals.sort_unstable();
            let mut rebuild = Rebuild::default();
            let mut got = BTreeMap::new();
            for (_, n) in arrivals {
                let mut sink = |sequence: u64, packet: &[u8]| {
                    got.insert(sequence, packet.to_vec());
                };
                match packets.get(n) {
                    Some(packet) => {
                        rebuild.on_source(Instant::ORIGIN, first + n as u64, packet, &mut sink);
                        got.insert(first + n as u64, packet.clone());
                    }
                    None => {
                        let index = (n - count) as u8;
                        let symbol = symbol(&packets, first, index);
                        let combination = Combination { first, count: count as u8, index, symbol: &symbol };
                        prop_assert!(rebuild.on_combination(Instant::ORIGIN, &combination, &mut sink));
                    }
                }
            }
            for (n, packet) in packets.iter().enumerate() {
                prop_assert_eq!(got.get(&(first + n as u64)), Some(packet));
            }
            prop_assert!(rebuild.units.is_empty());
        }

        /// Nonsense is refused, and takes no more than it may.
        #[test]
        fn nonsense_is_bounded(
            datagrams in proptest::collection::vec(
                (0u64..600, 0u8.., 0u8.., proptest::collection::vec(any::<u8>(), 0..30)), 1..200,
            ),
        ) {
            let mut rebuild = Rebuild::default();
            for (first, count, index, symbol) in &datagrams {
                if index % 2 == 0 {
                    rebuild.on_source(Instant::ORIGIN, *first, symbol, &mut |_, _| ());
                } else {
                    let combination = Combination { first: *first, count: *count, index: *index, symbol };
                    rebuild.on_combination(Instant::ORIGIN, &combination, &mut |_, _| ());
                }
                prop_assert!(rebuild.units.len() <= MOST_UNITS);
                prop_assert!(rebuild.sources.len() as u64 <= 600);
                let sources: usize = rebuild.sources.values().map(|packet| packet.len() + OVERHEAD).sum();
                prop_assert_eq!(rebuild.kept, sources);
            }
        }
    }

    #[test]
    fn packets_are_kept_for_as_long_as_a_unit_can_be() {
        let mut rebuild = Rebuild::default();
        for sequence in 0..1_000 {
            rebuild.on_source(Instant::ORIGIN, sequence, &[0; 100], &mut |_, _| ());
            assert!(rebuild.sources.len() as u64 <= SPAN + 1);
        }
        assert_eq!(rebuild.kept(), (SPAN as usize + 1) * (100 + OVERHEAD));
        assert!(!rebuild.is_stale(Instant::ORIGIN) && rebuild.is_stale(Instant::ORIGIN + KEPT));
        rebuild.clear();
        assert_eq!((rebuild.kept(), rebuild.is_coded()), (0, false));
    }
}
