//! Random loss: which packets of a link disappear.
//!
//! A model is asked once per packet, in order, and draws the same count of random numbers for each.
//! So its decision for the n-th packet depends on the seed and n alone, and two runs that send
//! different packets see the same pattern.

mod gilbert_elliott;
mod interference;
mod recorded;

use std::collections::BTreeSet;

use units::{Instant, LossRate};

pub use gilbert_elliott::{GilbertElliott, GilbertElliottLoss, InvalidBurst, PRESETS, Preset};
pub use interference::{Gap, Interference, InterferenceLoss};
pub use recorded::{RecordedLoss, Recording, RecordingError};

use crate::{Own, Rng, Seed};

/// What a loss model may know about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// Position among the packets that the model was asked about, from 0.
    pub index: u64,
    /// Size as the link counts it, in bytes.
    pub size: u64,
    /// When the packet reached the model; what is lost on the wire of a fabric's link: when its
    /// first bit is sent. Behind CoDel or trimming ([`Discipline`](crate::fabric::Discipline)), where
    /// that is not known when it comes: when it would be sent if nothing waited.
    pub at: Instant,
}

/// Decides which packets are lost.
pub trait LossModel {
    /// Whether this packet is lost. Called exactly once per packet, in order of `index`.
    fn lose(&mut self, packet: &PacketInfo) -> bool;
}

/// Which loss model a link has: plain data, turned into a [`LossModel`] by [`Loss::model`].
#[derive(Clone, Default, PartialEq, Debug)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Every packet is lost with the same probability, independently.
    Bernoulli(LossRate),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
    /// Another sender on the same radio channel.
    Interference(Interference),
    /// As somebody has recorded it.
    Recorded(Recording),
    /// Exactly the packets with these indices, counted from 0, are lost.
    Nth(BTreeSet<u64>),
    /// A model of one's own, made from the seed of its randomness.
    Custom(OwnLoss),
}

/// Makes loss models of one's own.
pub type OwnLoss = Own<Seed, dyn LossModel + Send>;

impl Loss {
    /// Exactly the packets with these indices, counted from 0.
    pub fn nth(indices: impl IntoIterator<Item = u64>) -> Self {
        Self::Nth(indices.into_iter().collect())
    }

    /// The long-run share of lost packets; zero for [`Loss::Nth`], which loses finitely many, and
    /// for [`Loss::Custom`], of which it is not known. For [`Loss::Interference`] that of first tries of packets of 1,500 bytes.
    pub fn stationary(&self) -> LossRate {
        match self {
            Self::None | Self::Nth(_) | Self::Custom(_) => LossRate::ZERO,
            Self::Bernoulli(rate) => *rate,
            Self::GilbertElliott(parameters) => parameters.stationary_loss(),
            Self::Recorded(recording) => recording.loss(),
            Self::Interference(parameters) => {
                LossRate::new(parameters.first_try_loss(1_500)).unwrap_or_default()
            }
        }
    }

    /// The model, with its own stream of randomness from `seed`.
    pub fn model(&self, seed: Seed) -> Box<dyn LossModel + Send> {
        match self {
            Self::None => Box::new(NoLoss),
            Self::Bernoulli(rate) => Box::new(Bernoulli::new(*rate, seed)),
            Self::GilbertElliott(parameters) => Box::new(GilbertElliottLoss::new(*parameters, seed)),
            Self::Interference(parameters) => Box::new(parameters.model(seed)),
            Self::Recorded(recording) => Box::new(recording.model(seed)),
            Self::Nth(indices) => Box::new(Nth::new(indices.iter().copied())),
            Self::Custom(own) => own.make(seed),
        }
    }
}

/// Loses nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoLoss;

impl LossModel for NoLoss {
    fn lose(&mut self, _: &PacketInfo) -> bool {
        false
    }
}

/// Loses every packet with the same probability, independently of all others.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    rate: LossRate,
    rng: Rng,
}

impl Bernoulli {
    /// Loses packets with probability `rate`.
    pub fn new(rate: LossRate, seed: Seed) -> Self {
        Self { rate, rng: seed.stream("bernoulli") }
    }
}

impl LossModel for Bernoulli {
    fn lose(&mut self, _: &PacketInfo) -> bool {
        self.rng.chance(self.rate.get())
    }
}

/// Loses exactly the listed packets: the tool for targeted tests.
#[derive(Clone, Debug)]
pub struct Nth {
    indices: BTreeSet<u64>,
}

impl Nth {
    /// Loses the packets with these indices, counted from 0.
    pub fn new(indices: impl IntoIterator<Item = u64>) -> Self {
        Self { indices: indices.into_iter().collect() }
    }
}

impl LossModel for Nth {
    fn lose(&mut self, packet: &PacketInfo) -> bool {
        self.indices.contains(&packet.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices below `n` that `loss` loses.
    fn lost(loss: &Loss, seed: u64, n: u64) -> Vec<u64> {
        let mut model = loss.model(Seed(seed));
        let info = |index| PacketInfo { index, size: 1_200, at: Instant::ORIGIN };
        (0..n).filter(|index| model.lose(&info(*index))).collect()
    }

    #[test]
    fn nth_loses_exactly_these() {
        assert_eq!(lost(&Loss::nth([3, 0, 7, 3]), 1, 100), [0, 3, 7]);
        assert!(lost(&Loss::None, 1, 100).is_empty());
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let loss = Loss::Bernoulli(LossRate::new(0.02).unwrap());
        let n = lost(&loss, 5, 200_000).len();
        assert!((3_700..=4_300).contains(&n), "{n}"); // 4,000 +- 63 (one standard deviation)
        assert_eq!(lost(&Loss::Bernoulli(LossRate::new(1.0).unwrap()), 5, 50).len(), 50);
    }

    #[test]
    fn the_pattern_depends_on_seed_and_index_only() {
        let bursty = GilbertElliott::from_stationary(LossRate::new(0.1).unwrap(), 3.0).unwrap();
        for loss in [Loss::Bernoulli(LossRate::new(0.1).unwrap()), Loss::GilbertElliott(bursty)] {
            let mut small = loss.model(Seed(9));
            let mut large = loss.model(Seed(9));
            for index in 0..1_000 {
                let at = Instant::from_nanos(index * index);
                let a = small.lose(&PacketInfo { index, size: 40, at: Instant::ORIGIN });
                let b = large.lose(&PacketInfo { index, size: 1_500, at });
                assert_eq!(a, b);
            }
            assert_ne!(lost(&loss, 9, 1_000), lost(&loss, 10, 1_000));
        }
    }
}
