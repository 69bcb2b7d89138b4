//! All ports of a fabric, apart by what is looked at together.

use std::{collections::BTreeMap, hint::black_box};

use super::{
    Line,
    port::{Port, PortMut, PortStats, SendTimes, Terms},
};
use crate::Seed;

/// A hop takes from one port and gives to another, whose counters it moves: three cache lines. What
/// ports have in common stays in the first-level cache, however many there are.
#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<Port>,
    terms: Vec<(Terms, SendTimes)>,
    stats: Vec<Counters>,
}

/// In a cache line of its own.
#[derive(Default, Debug)]
#[repr(align(64))]
struct Counters(PortStats);

impl Ports {
    /// Ports with these lines that lead to these ends; `seed` is for what they draw.
    pub(super) fn new<'a>(lines: impl Iterator<Item = (&'a Line, u32)>, seed: Seed) -> Self {
        let mut known: BTreeMap<Terms, u32> = BTreeMap::new();
        let mut ports = Self { ports: Vec::new(), terms: Vec::new(), stats: Vec::new() };
        for (line, end) in lines {
            let terms = Terms::from(line);
            let index = *known.entry(terms).or_insert_with(|| {
                ports.terms.push((terms, SendTimes::default()));
                ports.terms.len() as u32 - 1
            });
            let own = seed.child("discipline", ports.ports.len() as u64);
            ports.ports.push(Port::new(line, index, end, own));
            ports.stats.push(Counters::default());
        }
        ports
    }

    /// A port with all that belongs to it.
    #[inline]
    pub(super) fn at(&mut self, port: u32) -> PortMut<'_> {
        let stats = &mut self.stats[port as usize].0;
        let port = &mut self.ports[port as usize];
        let (terms, times) = &mut self.terms[port.terms as usize];
        PortMut { port, terms, times, stats }
    }

    /// A port's own record.
    #[inline]
    pub(super) fn get(&mut self, port: u32) -> &mut Port {
        &mut self.ports[port as usize]
    }

    /// Reads a port's record, for an event to come.
    #[inline]
    pub(super) fn read_ahead(&self, port: u32) {
        black_box(self.ports[port as usize].end);
    }

    /// What a port has done so far.
    pub(super) fn stats(&self, port: u32) -> Option<PortStats> {
        self.stats.get(port as usize).map(|stats| stats.0)
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.ports.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use units::{BitRate, Duration, Instant};

    use super::*;
    use crate::fabric::{Codel, pool::Pool};

    #[test]
    fn equal_lines_are_kept_once() {
        let line = Line::new(BitRate::from_mbps(8), Duration::from_micros(5), 10);
        let slow = Line { rate: BitRate::from_mbps(1), ..line };
        let managed = line.with_codel(Codel::default());
        let lines = [&line, &slow, &line, &managed, &slow];
        let mut ports = Ports::new((0..).zip(lines).map(|(end, line)| (line, end)), Seed(1));
        assert_eq!((ports.len(), ports.terms.len()), (5, 2));
        assert_eq!(*ports.at(4).terms, Terms::from(&slow));
        assert_eq!(ports.get(4).end, 4);
        assert_eq!(ports.at(3).waiting(Instant::ORIGIN, &mut Pool::<u32>::new(1)), (0, 0));
        assert_eq!(ports.stats(5), None);
    }
}
