//! What can be broken: lossy links, black holes, outages.

use units::{Instant, LossRate};

use super::{
    Class, LinkId, PortId, Topology,
    capacity::{Capacity, CapacityTrace},
    port::Fate,
    workload::SizeTable,
};
use crate::{Loss, LossModel, Rng, Seed, loss::PacketInfo};

/// Which direction of a link a failure concerns.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Both, with independent draws (FUSO-A14).
    #[default]
    Both,
    /// From the link's first end to its second.
    Forward,
    /// Back.
    Backward,
}

/// What is wrong with a link.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// Packets are lost by a model.
    Loss {
        /// The model.
        loss: Loss,
        /// Only packets that carry data are asked about (CoFUSO section 6.2).
        data_only: bool,
        /// Lost before the rate limit, at no cost in capacity (CTCP section 6.1), instead of on the
        /// wire.
        before_rate: bool,
    },
    /// Nothing gets through, and nobody is told: routes stay as they are.
    BlackHole,
    /// Nothing that is offered in `from..until` gets through. What was accepted before is still
    /// sent.
    Outage {
        /// Start.
        from: Instant,
        /// End.
        until: Instant,
    },
    /// What leaves, and when, is as this was recorded, whatever the line's rate (but zero). Of
    /// several the last counts.
    Capacity(CapacityTrace),
}

impl Failure {
    /// Independent loss on the wire with probability `rate`, of packets of every class.
    pub fn random(rate: LossRate) -> Self {
        Self::Loss { loss: Loss::Bernoulli(rate), data_only: false, before_rate: false }
    }
}

/// A failure of one link.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The link.
    pub link: LinkId,
    /// Which of its directions.
    pub direction: Direction,
    /// What is wrong.
    pub failure: Failure,
}

impl Fault {
    /// `failure` in both directions of `link`.
    pub fn both(link: LinkId, failure: Failure) -> Self {
        Self { link, direction: Direction::Both, failure }
    }

    /// The ports it concerns.
    pub(super) fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        let (forward, backward) = (self.link.forward(), self.link.backward());
        let ports = match self.direction {
            Direction::Both => [Some(forward), Some(backward)],
            Direction::Forward => [Some(forward), None],
            Direction::Backward => [None, Some(backward)],
        };
        ports.into_iter().flatten()
    }
}

/// Lossy links as FUSO's simulation draws them (section VI-C): `count` different links; first the
/// level by its share in `shares` (levels without links, or with none left, get nothing), then a
/// link of that level, then its rate from `rates`.
///
/// Both directions lose with the same rate and independent draws (FUSO-A14).
pub fn lossy_links(
    topology: &Topology,
    count: usize,
    shares: &[f64],
    rates: &SizeTable,
    seed: Seed,
) -> Vec<Fault> {
    let mut rng = seed.stream("lossy links");
    let mut left: Vec<Vec<LinkId>> =
        (0..shares.len()).map(|level| topology.links_at(level as u8).collect()).collect();
    let mut faults = Vec::new();
    while faults.len() < count {
        let weights: Vec<f64> = shares
            .iter()
            .zip(&left)
            .map(|(share, links)| if links.is_empty() { 0.0 } else { *share })
            .collect();
        let Some(level) = weighted(&weights, &mut rng) else { break };
        let links = &mut left[level];
        let link = links.swap_remove(rng.below(links.len() as u64) as usize);
        let rate = LossRate::new(rates.quantile(rng.next_f64()).clamp(0.0, 1.0)).unwrap_or(LossRate::ZERO);
        faults.push(Fault::both(link, Failure::random(rate)));
    }
    faults
}

/// An index with probability proportional to its weight.
fn weighted(weights: &[f64], rng: &mut Rng) -> Option<usize> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return None;
    }
    let mut rest = rng.next_f64() * sum;
    let mut last = None;
    for (i, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        last = Some(i);
        if rest < *weight {
            break;
        }
        rest -= weight;
    }
    last
}

/// The failures of one port, ready to decide.
pub(super) struct Faults {
    faults: Vec<Active>,
    capacity: Option<Capacity>,
}

struct Active {
    failure: Failure,
    model: Option<Box<dyn LossModel + Send>>,
    asked: u64,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.faults.iter().map(|active| &active.failure)).finish()
    }
}

impl Faults {
    pub(super) fn new() -> Self {
        Self { faults: Vec::new(), capacity: None }
    }

    pub(super) fn add(&mut self, failure: &Failure, seed: Seed) {
        let model = match failure {
            Failure::Loss { loss, .. } => Some(loss.model(seed.child("fault", self.faults.len() as u64))),
            Failure::BlackHole | Failure::Outage { .. } => None,
            Failure::Capacity(trace) => {
                self.capacity = Some(Capacity::new(trace.clone()));
                return;
            }
        };
        self.faults.push(Active { failure: failure.clone(), model, asked: 0 });
    }

    /// When a packet leaves that is first in line from `starts` on, ns, if a recorded capacity says
    /// so.
    pub(super) fn leaves(&mut self, starts: u64, size: u64) -> Option<u64> {
        self.capacity.as_mut().map(|capacity| capacity.leaves(starts, size))
    }

    /// What becomes of a packet that is offered `now` and would be sent from `starts` on. Every
    /// failure is asked, whatever the others say, so that adding one changes no draws of another.
    pub(super) fn fate(&mut self, now: Instant, starts: Instant, size: u64, class: Class) -> Fate {
        self.faults.iter_mut().fold(Fate::Passes, |fate, active| {
            match (fate, active.fate(now, starts, size, class)) {
                (Fate::NeverSent, _) | (_, Fate::NeverSent) => Fate::NeverSent,
                (Fate::LostOnTheWire, _) | (_, Fate::LostOnTheWire) => Fate::LostOnTheWire,
                _ => Fate::Passes,
            }
        })
    }
}

impl Active {
    fn fate(&mut self, now: Instant, starts: Instant, size: u64, class: Class) -> Fate {
        match &self.failure {
            Failure::BlackHole => Fate::LostOnTheWire,
            Failure::Outage { from, until } if (*from..*until).contains(&now) => Fate::NeverSent,
            Failure::Outage { .. } | Failure::Capacity(_) => Fate::Passes,
            Failure::Loss { data_only: true, .. } if matches!(class, Class::Control | Class::Header) => {
                Fate::Passes
            }
            Failure::Loss { before_rate, .. } => {
                let at = if *before_rate { now } else { starts };
                let packet = PacketInfo { index: self.asked, size, at };
                self.asked += 1;
                match self.model.as_mut().is_some_and(|model| model.lose(&packet)) {
                    false => Fate::Passes,
                    true if *before_rate => Fate::NeverSent,
                    true => Fate::LostOnTheWire,
                }
            }
        }
    }
}
