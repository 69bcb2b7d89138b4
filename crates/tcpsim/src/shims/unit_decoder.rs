//! The receiving end's equations: which packets of which coding units are rebuilt from what
//! arrived.
//!
//! Payloads do not exist: every source is the empty symbol, and what counts is whether the
//! coefficients of the packets that arrived have the rank that it takes (HTPC, equations 6 to 8).

use std::collections::VecDeque;

use fec::{PREFIX, random_linear::MissingDecoder};

use crate::ranges::Ranges;

/// Most units with equations; of one more, the oldest is given up.
const MAX_UNITS: usize = 64;

/// A unit that misses more than its coded packets have rebuilt so far.
#[derive(Debug)]
struct Unit {
    first: u32,
    end: u32,
    decoder: MissingDecoder,
}

/// What has arrived, and the units in work.
#[derive(Debug, Default)]
pub(super) struct UnitDecoder {
    arrived: Ranges,
    units: VecDeque<Unit>,
}

impl UnitDecoder {
    fn has(&self, seq: u32) -> bool {
        self.arrived.around(seq).is_some()
    }

    /// Source packet `seq` arrived. Adds to `rebuilt` what it completes. False if it was here
    /// before.
    pub(super) fn on_source(&mut self, seq: u32, rebuilt: &mut Vec<u32>) -> bool {
        let mut fresh = false;
        self.arrived.insert(seq, seq.saturating_add(1), |_, _| fresh = true);
        if fresh && let Some(at) = self.units.iter().position(|unit| (unit.first..unit.end).contains(&seq)) {
            let unit = &mut self.units[at];
            // The only error would be a packet outside of the unit.
            let _ = unit.decoder.add_source((seq - unit.first) as usize, &[]);
            self.take_rebuilt(at, rebuilt);
        }
        fresh
    }

    /// Coded packet `index` of the unit `first..end` arrived. Adds to `rebuilt` what it completes.
    pub(super) fn on_coded(&mut self, first: u32, end: u32, index: u32, rebuilt: &mut Vec<u32>) {
        if self.arrived.around(first).is_some_and(|range| range.1 >= end) {
            return;
        }
        let at = match self.units.iter().position(|unit| unit.first == first) {
            Some(at) => at,
            None => {
                let missing = |i: usize| !self.has(first + i as u32);
                let Ok(decoder) = MissingDecoder::new(first, (end - first) as usize, PREFIX, missing) else {
                    return;
                };
                if self.units.len() >= MAX_UNITS {
                    self.units.pop_front();
                }
                self.units.push_back(Unit { first, end, decoder });
                self.units.len() - 1
            }
        };
        let _ = self.units[at].decoder.add_repair(index, &[0; PREFIX], |_| Some(&[]));
        self.take_rebuilt(at, rebuilt);
    }

    fn take_rebuilt(&mut self, at: usize, rebuilt: &mut Vec<u32>) {
        let unit = &mut self.units[at];
        while let Some(Ok((index, _))) = unit.decoder.next_rebuilt() {
            let seq = unit.first + index as u32;
            self.arrived.insert(seq, seq + 1, |seq, _| rebuilt.push(seq));
        }
        if unit.decoder.is_complete() {
            self.units.remove(at);
        }
    }

    /// Units that wait for more packets.
    #[cfg(test)]
    pub(super) fn open_units(&self) -> usize {
        self.units.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_coded_packets_as_are_missing_rebuild_a_unit() {
        let mut decoder = UnitDecoder::default();
        let mut rebuilt = Vec::new();
        for seq in [0, 1, 3, 4, 6, 9] {
            assert!(decoder.on_source(seq, &mut rebuilt));
        }
        for index in 0..3 {
            decoder.on_coded(0, 10, index, &mut rebuilt);
            assert!(rebuilt.is_empty(), "four are missing, {} coded ones are here", index + 1);
        }
        decoder.on_coded(0, 10, 2, &mut rebuilt); // the same again teaches nothing
        assert!(rebuilt.is_empty());
        decoder.on_coded(0, 10, 3, &mut rebuilt);
        assert_eq!((rebuilt.clone(), decoder.open_units()), (vec![2, 5, 7, 8], 0));
        assert!(!decoder.on_source(5, &mut rebuilt)); // late
        decoder.on_coded(0, 10, 4, &mut rebuilt);
        assert_eq!((rebuilt.len(), decoder.open_units()), (4, 0));
    }

    #[test]
    fn a_source_that_comes_after_the_coded_packets_completes_them() {
        let mut decoder = UnitDecoder::default();
        let mut rebuilt = Vec::new();
        decoder.on_coded(5, 8, 0, &mut rebuilt);
        decoder.on_coded(5, 8, 1, &mut rebuilt);
        decoder.on_source(9, &mut rebuilt); // of another unit
        assert!(rebuilt.is_empty());
        decoder.on_source(6, &mut rebuilt);
        assert_eq!(rebuilt, [5, 7]);
    }

    #[test]
    fn the_oldest_unit_gives_way() {
        let mut decoder = UnitDecoder::default();
        let mut rebuilt = Vec::new();
        for unit in 0..=MAX_UNITS as u32 {
            decoder.on_coded(unit * 10, unit * 10 + 10, 0, &mut rebuilt);
        }
        assert_eq!(decoder.open_units(), MAX_UNITS);
        (1..10).for_each(|seq| assert!(decoder.on_source(seq, &mut rebuilt)));
        assert!(rebuilt.is_empty()); // its coded packet was forgotten
        (11..20).for_each(|seq| assert!(decoder.on_source(seq, &mut rebuilt)));
        assert_eq!(rebuilt, [10]);
    }

    #[test]
    fn units_without_packets_are_ignored() {
        let mut rebuilt = Vec::new();
        let mut decoder = UnitDecoder::default();
        decoder.on_coded(5, 5, 0, &mut rebuilt);
        decoder.on_coded(0, 400, 0, &mut rebuilt);
        assert_eq!(decoder.open_units(), 0);
    }
}
