//! A fixed count of short and of long flows (HTPC sections 5.2 and 5.3, HTPC-A13).

use units::{Duration, Instant};

use super::{FlowSpec, Pairs, SizeTable, by_time, later};
use crate::Seed;

/// Short flows that start uniformly within a time, and long flows from the start.
#[derive(Clone, PartialEq, Debug)]
pub struct Mix {
    /// How many short flows.
    pub short: usize,
    /// Their sizes in bytes.
    pub short_sizes: SizeTable,
    /// The time within which they start.
    pub within: Duration,
    /// How many long flows; they start at 0.
    pub long: usize,
    /// Their sizes in bytes.
    pub long_sizes: SizeTable,
    /// Who talks to whom.
    pub pairs: Pairs,
}

impl Mix {
    /// The flows, in order of time.
    pub fn flows(&self, seed: Seed) -> Vec<FlowSpec> {
        let own = seed.child("mix", 0);
        let (mut starts, mut sizes, mut pairs) =
            (own.stream("starts"), own.stream("sizes"), own.stream("pairs"));
        let mut flow = |long: bool| {
            let within = if long { 0.0 } else { self.within.as_secs_f64() };
            let at = later(Instant::ORIGIN, starts.next_f64() * within);
            let bytes = if long { &self.long_sizes } else { &self.short_sizes }.sample(&mut sizes);
            let (from, to) = self.pairs.draw(&mut pairs);
            FlowSpec { at, from, to, bytes }
        };
        by_time((0..self.long + self.short).map(|n| flow(n < self.long)).collect())
    }
}
