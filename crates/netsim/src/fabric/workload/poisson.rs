//! Flows that arrive at random at a given load.

use units::{BitRate, Instant};

use super::{FlowSpec, HostId, HostRange, SizeTable, later};
use crate::{Rng, Seed};

/// Who talks to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// Any two different hosts of these.
    Any(HostRange),
    /// A sender of the first range, a receiver of the second.
    Between(HostRange, HostRange),
    /// The n-th sender always sends to the n-th receiver.
    Matched(HostRange, HostRange),
}

impl Pairs {
    /// Draws a pair; always two draws. Empty ranges give host 0.
    pub(super) fn draw(&self, rng: &mut Rng) -> (HostId, HostId) {
        let (a, b) = (rng.next_u64(), rng.next_u64());
        let pick = |range: &HostRange, word: u64, skip: u32| {
            let count = u64::from((range.end.saturating_sub(range.start)).saturating_sub(skip).max(1));
            range.start + ((u128::from(word) * u128::from(count)) >> 64) as u32
        };
        match self {
            Self::Any(range) => {
                let from = pick(range, a, 0);
                let to = pick(range, b, 1);
                (HostId(from), HostId(if to >= from { to + 1 } else { to }))
            }
            Self::Between(from, to) => (HostId(pick(from, a, 0)), HostId(pick(to, b, 0))),
            Self::Matched(from, to) => {
                let sender = pick(from, a, 0);
                (HostId(sender), HostId(to.start + (sender - from.start)))
            }
        }
    }
}

/// Poisson arrivals: `load` x `capacity` bits per second are offered on average.
#[derive(Clone, PartialEq, Debug)]
pub struct Poisson {
    /// Share of `capacity` that is offered; above 0.
    pub load: f64,
    /// What the load is a share of, for example the sum of the clients' access links (FUSO-A9).
    pub capacity: BitRate,
    /// How many flows.
    pub flows: usize,
    /// Their sizes in bytes.
    pub sizes: SizeTable,
    /// Who talks to whom.
    pub pairs: Pairs,
    /// When the first one may arrive.
    pub start: Instant,
}

impl Poisson {
    /// The flows, in order of time. Arrivals, sizes and pairs have their own streams of randomness.
    pub fn flows(&self, seed: Seed) -> Vec<FlowSpec> {
        let own = seed.child("poisson", 0);
        let (mut arrivals, mut sizes, mut pairs) =
            (own.stream("arrivals"), own.stream("sizes"), own.stream("pairs"));
        let offered = self.load * self.capacity.bits_per_second() as f64 / 8.0;
        let gap = if offered > 0.0 { self.sizes.mean() / offered } else { 0.0 };
        let mut at = self.start;
        let flow = |_| {
            at = later(at, -libm::log(1.0 - arrivals.next_f64()) * gap);
            let (from, to) = self.pairs.draw(&mut pairs);
            FlowSpec { at, from, to, bytes: self.sizes.sample(&mut sizes) }
        };
        (0..self.flows).map(flow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_what_was_asked_for() {
        let poisson = Poisson {
            load: 0.5,
            capacity: BitRate::from_mbps(1_000),
            flows: 20_000,
            sizes: SizeTable::uniform(0.0, 100_000.0),
            pairs: Pairs::Any(0..10),
            start: Instant::ORIGIN,
        };
        let flows = poisson.flows(Seed(4));
        let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
        let load = bytes as f64 * 8.0
            / 1e9
            / flows.last().unwrap().at.saturating_duration_since(Instant::ORIGIN).as_secs_f64();
        assert!((load - 0.5).abs() < 0.02, "{load}");
        assert!(flows.is_sorted_by_key(|flow| flow.at));
        assert!(flows.iter().all(|flow| flow.from != flow.to && flow.to.0 < 10));
        assert_eq!(flows, poisson.flows(Seed(4)));
        assert_ne!(flows, poisson.flows(Seed(5)));
    }

    #[test]
    fn pairs_stay_in_their_ranges() {
        let mut rng = Rng::new(Seed(1));
        for _ in 0..1_000 {
            let (from, to) = Pairs::Between(3..6, 0..3).draw(&mut rng);
            assert!((3..6).contains(&from.0) && to.0 < 3);
            let (from, to) = Pairs::Matched(3..6, 0..3).draw(&mut rng);
            assert_eq!(from.0 - 3, to.0);
        }
    }
}
