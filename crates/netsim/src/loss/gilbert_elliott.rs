//! Loss in bursts: a channel that is either good or bad.
//!
//! Gilbert, "Capacity of a burst-noise channel" (1960), and Elliott (1963), with the parameters of
//! tc-netem(8) `loss gemodel p [r [1-h [1-k]]]`.
//!
//! | netem    | here             | meaning                                          |
//! |----------|------------------|--------------------------------------------------|
//! | `p`      | `good_to_bad`    | chance per packet that the good state ends       |
//! | `r`      | `bad_to_good`    | chance per packet that the bad state ends        |
//! | `1-h`    | `loss_in_bad`    | loss rate in the bad state                       |
//! | `1-k`    | `loss_in_good`   | loss rate in the good state                      |
//!
//! Per packet the transition is drawn first, then the loss, with the loss rate of the
//! state *before* the transition, as in netem. Both are drawn for every packet, whatever the state.
//!
//! # Departures
//! - netem starts in the good state; here the first state is drawn from the stationary
//!   distribution, so that many short runs together show the stationary loss rate.
//! - FUSO's bursty experiment names no parameters; its reading (FUSO-A10) is a simple Gilbert
//!   channel with a mean burst of 3 packets, see [`GilbertElliott::from_stationary`].

use units::LossRate;

use super::{LossModel, PacketInfo};
use crate::{Rng, Seed};

/// Parameters of a Gilbert-Elliott channel, all per packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GilbertElliott {
    /// Chance that a packet in the good state is the last one there (netem's p).
    pub good_to_bad: LossRate,
    /// Chance that a packet in the bad state is the last one there (netem's r).
    pub bad_to_good: LossRate,
    /// Loss rate in the bad state (netem's 1-h).
    pub loss_in_bad: LossRate,
    /// Loss rate in the good state (netem's 1-k).
    pub loss_in_good: LossRate,
}

/// A stationary loss and mean burst that no simple Gilbert channel has.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum InvalidBurst {
    /// A burst is at least one packet long.
    #[error("a mean burst of {mean_burst} packets is impossible: use a number of at least 1")]
    TooShort {
        /// What was asked for, in packets.
        mean_burst: f64,
    },
    /// The good state lasts for at least one packet, which bounds the loss rate.
    #[error(
        "a loss of {loss} in bursts of {mean_burst} packets is impossible: at this burst length use a loss of at most {highest}"
    )]
    TooMuchLoss {
        /// The loss rate that was asked for.
        loss: LossRate,
        /// The mean burst that was asked for, in packets.
        mean_burst: f64,
        /// The highest loss rate at this mean burst.
        highest: LossRate,
    },
}

impl GilbertElliott {
    /// A simple Gilbert channel: everything is lost in the bad state, nothing in the good one.
    pub fn gilbert(good_to_bad: LossRate, bad_to_good: LossRate) -> Self {
        let always = probability(1.0);
        Self { good_to_bad, bad_to_good, loss_in_bad: always, loss_in_good: LossRate::ZERO }
    }

    /// The simple Gilbert channel that loses the share `loss` in bursts of `mean_burst` packets on
    /// average: r = 1/B, p = r P / (1 - P).
    ///
    /// # Errors
    /// If the burst is shorter than one packet, or so short that the good state would have to last
    /// less than one packet.
    pub fn from_stationary(loss: LossRate, mean_burst: f64) -> Result<Self, InvalidBurst> {
        if !(mean_burst.is_finite() && mean_burst >= 1.0) {
            return Err(InvalidBurst::TooShort { mean_burst });
        }
        let bad_to_good = 1.0 / mean_burst;
        let good_to_bad = bad_to_good * loss.get() / (1.0 - loss.get());
        match LossRate::new(good_to_bad) {
            Some(good_to_bad) => Ok(Self::gilbert(good_to_bad, probability(bad_to_good))),
            None => {
                let highest = probability(mean_burst / (1.0 + mean_burst));
                Err(InvalidBurst::TooMuchLoss { loss, mean_burst, highest })
            }
        }
    }

    /// The long-run share of lost packets: (p (1-h) + r (1-k)) / (p + r).
    pub fn stationary_loss(&self) -> LossRate {
        let bad = self.stationary_bad();
        probability(bad * self.loss_in_bad.get() + (1.0 - bad) * self.loss_in_good.get())
    }

    /// Mean stay in the bad state, in packets: 1/r. In a simple Gilbert channel, the mean burst.
    pub fn mean_bad_stay(&self) -> f64 {
        1.0 / self.bad_to_good.get()
    }

    /// The long-run share of packets that meet the bad state; 0 if no state is ever left.
    fn stationary_bad(&self) -> f64 {
        let (p, r) = (self.good_to_bad.get(), self.bad_to_good.get());
        if p + r > 0.0 { p / (p + r) } else { 0.0 }
    }
}

/// A value that is known to be a probability but for rounding.
fn probability(p: f64) -> LossRate {
    LossRate::new(p.clamp(0.0, 1.0)).unwrap_or_default()
}

/// A running Gilbert-Elliott channel.
#[derive(Clone, Debug)]
pub struct GilbertElliottLoss {
    parameters: GilbertElliott,
    bad: bool,
    rng: Rng,
}

impl GilbertElliottLoss {
    /// A channel whose first state is drawn from the stationary distribution.
    pub fn new(parameters: GilbertElliott, seed: Seed) -> Self {
        let mut rng = seed.stream("gilbert-elliott");
        let bad = rng.chance(parameters.stationary_bad());
        Self { parameters, bad, rng }
    }
}

impl LossModel for GilbertElliottLoss {
    fn lose(&mut self, _: &PacketInfo) -> bool {
        let GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good } = self.parameters;
        let (leave, loss) = if self.bad { (bad_to_good, loss_in_bad) } else { (good_to_bad, loss_in_good) };
        self.bad ^= self.rng.chance(leave.get());
        self.rng.chance(loss.get())
    }
}

/// A named set of parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Preset {
    /// The name, as in `loss=wifi`.
    pub name: &'static str,
    /// netem's p, r, 1-h and 1-k.
    netem: [f64; 4],
}

impl Preset {
    /// The preset called `name`.
    pub fn find(name: &str) -> Option<Self> {
        PRESETS.into_iter().find(|preset| preset.name == name)
    }

    /// The channel.
    pub fn parameters(&self) -> GilbertElliott {
        let [good_to_bad, bad_to_good, loss_in_bad, loss_in_good] = self.netem.map(probability);
        GilbertElliott { good_to_bad, bad_to_good, loss_in_bad, loss_in_good }
    }
}

const fn preset(name: &'static str, p: f64, r: f64, loss_in_bad: f64, loss_in_good: f64) -> Preset {
    Preset { name, netem: [p, r, loss_in_bad, loss_in_good] }
}

/// Channels with a name. Plausible values, not fits to measurements: the first five after the
/// presets of the crate `str0m-netem` 0.4.0, the in-flight ones from the ends of the ranges quoted
/// for air-to-ground and satellite links.
///
/// FUSO's bursty experiment (FUSO-A10) needs no preset: it is [`GilbertElliott::from_stationary`]
/// with a burst of 3.
pub const PRESETS: [Preset; 7] = [
    preset("wifi", 0.005, 0.5, 1.0, 0.0),
    preset("wifi_lossy", 0.025, 0.5, 1.0, 0.0),
    preset("cellular", 0.01, 0.5, 1.0, 0.0),
    preset("satellite_geo", 0.01, 1.0 / 3.0, 1.0, 0.0),
    preset("congested", 0.05, 0.5, 1.0, 0.0),
    preset("inflight_low", 0.01, 0.08, 1.0, 0.02),
    preset("inflight_high", 0.08, 0.5, 0.9, 0.0),
];

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn rate(p: f64) -> LossRate {
        LossRate::new(p).unwrap()
    }

    /// Share of lost packets and mean length of a run of losses among `n` packets.
    fn measure(parameters: GilbertElliott, seed: u64, n: u64) -> (f64, f64) {
        let mut model = GilbertElliottLoss::new(parameters, Seed(seed));
        let (mut lost, mut bursts, mut in_burst) = (0u64, 0u64, false);
        for index in 0..n {
            let lose = model.lose(&PacketInfo { index, size: 1_200, at: Instant::ORIGIN });
            lost += u64::from(lose);
            bursts += u64::from(lose && !in_burst);
            in_burst = lose;
        }
        (lost as f64 / n as f64, lost as f64 / bursts as f64)
    }

    #[test]
    fn worked_example_of_two_percent_in_bursts_of_three() {
        let channel = GilbertElliott::from_stationary(rate(0.02), 3.0).unwrap();
        assert!((channel.bad_to_good.get() - 0.333_333).abs() < 1e-6);
        assert!((channel.good_to_bad.get() - 0.006_802_7).abs() < 1e-7);
        assert!((channel.stationary_loss().get() - 0.02).abs() < 1e-12);
        assert!((channel.mean_bad_stay() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn long_runs_show_the_stationary_loss_and_the_mean_burst() {
        for (seed, (loss, burst)) in
            [(0.02, 3.0), (0.1, 5.0), (0.3, 1.5), (0.01, 1.0)].into_iter().enumerate()
        {
            let channel = GilbertElliott::from_stationary(rate(loss), burst).unwrap();
            let (seen_loss, seen_burst) = measure(channel, seed as u64, 1_000_000);
            assert!((seen_loss / loss - 1.0).abs() < 0.05, "loss {seen_loss} for {loss}");
            assert!((seen_burst / burst - 1.0).abs() < 0.05, "burst {seen_burst} for {burst}");
        }
    }

    #[test]
    fn presets_have_the_tabulated_stationary_loss() {
        let table = [
            ("wifi", 0.00990),
            ("wifi_lossy", 0.04762),
            ("cellular", 0.01961),
            ("satellite_geo", 0.02913),
            ("congested", 0.09091),
            ("inflight_low", 0.12889),
            ("inflight_high", 0.12414),
        ];
        assert_eq!(table.map(|(name, _)| name), PRESETS.map(|preset| preset.name));
        for (name, loss) in table {
            let parameters = Preset::find(name).unwrap().parameters();
            assert!((parameters.stationary_loss().get() - loss).abs() < 5e-6, "{name}");
            let (seen, _) = measure(parameters, 3, 1_000_000);
            assert!((seen / loss - 1.0).abs() < 0.05, "{name}: {seen}");
        }
        assert!(Preset::find("wire").is_none());
    }

    #[test]
    fn the_loss_belongs_to_the_state_before_the_transition() {
        // Alternating states, all lost in bad: whatever the first state, the second packet has the
        // other fate.
        let channel = GilbertElliott::gilbert(rate(1.0), rate(1.0));
        let mut model = GilbertElliottLoss::new(channel, Seed(1));
        model.bad = true;
        let info = |index| PacketInfo { index, size: 1, at: Instant::ORIGIN };
        let fates: Vec<bool> = (0..4).map(|index| model.lose(&info(index))).collect();
        assert_eq!(fates, [true, false, true, false]);
    }

    #[test]
    fn many_short_runs_show_the_stationary_loss_too() {
        let channel = GilbertElliott::from_stationary(rate(0.2), 4.0).unwrap();
        let runs = 100_000;
        let lost: f64 = (0..runs).map(|seed| measure(channel, seed, 1).0).sum();
        assert!((lost / runs as f64 - 0.2).abs() < 0.006, "{lost}"); // 0.2 +- 0.0013 (one standard deviation)
    }

    #[test]
    fn impossible_bursts_are_refused() {
        assert!(matches!(
            GilbertElliott::from_stationary(rate(0.1), 0.5),
            Err(InvalidBurst::TooShort { .. })
        ));
        let error = GilbertElliott::from_stationary(rate(0.9), 3.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a loss of 90% in bursts of 3 packets is impossible: at this burst length use a loss of at most 75%"
        );
        assert!(GilbertElliott::from_stationary(rate(1.0), 3.0).is_err());
    }
}
