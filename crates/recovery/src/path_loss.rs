//! Packet loss estimate of one path: the input of every recovery decision.
//!
//! FUSO section III-B.1, CoFUSO section 4.2.4.
//!
//! | paper                       | here                     | unit         |
//! |-----------------------------|--------------------------|--------------|
//! | alpha, beta; alpha1, beta1  | [`Weights`]              | none, sum 1  |
//! | lossrate, lossrate_overall  | [`PathLoss::overall`]    | probability  |
//! | lossrate_last               | [`PathLoss::recent`]     | probability  |
//! | C_l, L                      | [`PathLoss::estimate`]   | probability  |
//!
//! # Departures
//! - Lost packets stand for retransmitted ones: the transport never resends a packet as such. The
//!   new packet that carries a lost packet's data counts as transmitted on the path that it takes.
//! - A loss that turns out to be reordering can be taken back ([`PathLoss::on_spurious_loss`]); the
//!   papers keep it.
//!
//! # Invariants
//! `0 <= estimate <= 1` for weights that sum to at most 1; no loss yet means exactly 0.

/// How much the overall and the recent loss rate count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Weights {
    /// alpha: weight of the loss rate since the start.
    pub overall: f64,
    /// beta: weight of the loss rate since the last loss.
    pub recent: f64,
}

impl Weights {
    /// FUSO's experiments (section VI-A): 0.5 and 0.5.
    pub const fn fuso() -> Self {
        Self { overall: 0.5, recent: 0.5 }
    }

    /// CoFUSO's testbed (section 5.2): 0.05 and 0.95.
    pub const fn cofuso_testbed() -> Self {
        Self { overall: 0.05, recent: 0.95 }
    }

    /// CoFUSO's simulation (section 6.2): 0.5 and 0.5.
    pub const fn cofuso_simulation() -> Self {
        Self { overall: 0.5, recent: 0.5 }
    }
}

impl Default for Weights {
    /// 0.5 and 0.5, as in FUSO and in CoFUSO's simulation.
    fn default() -> Self {
        Self::fuso()
    }
}

/// Counts what one path transmitted and lost, and estimates its loss rate.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct PathLoss {
    weights: Weights,
    transmitted: u64,
    lost: u64,
    since_last_loss: u64,
}

impl PathLoss {
    /// A path that has transmitted nothing.
    pub fn new(weights: Weights) -> Self {
        Self { weights, ..Self::default() }
    }

    /// `packets` were transmitted; recovery packets count like any other.
    pub fn on_sent(&mut self, packets: u64) {
        self.transmitted = self.transmitted.saturating_add(packets);
        if self.lost > 0 {
            self.since_last_loss = self.since_last_loss.saturating_add(packets);
        }
    }

    /// `packets` were declared lost on this path, whether or not their data was mended meanwhile.
    pub fn on_lost(&mut self, packets: u64) {
        if packets > 0 {
            self.lost = self.lost.saturating_add(packets);
            self.since_last_loss = 1;
        }
    }

    /// `packets` that were declared lost have been acknowledged after all.
    pub fn on_spurious_loss(&mut self, packets: u64) {
        self.lost = self.lost.saturating_sub(packets);
        if self.lost == 0 {
            self.since_last_loss = 0;
        }
    }

    /// Packets transmitted since the start.
    pub fn transmitted(&self) -> u64 {
        self.transmitted
    }

    /// Packets lost since the start.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether anything was ever transmitted. A path without is the last choice for recovery
    /// packets.
    pub fn ever_sent(&self) -> bool {
        self.transmitted > 0
    }

    /// lossrate: lost over transmitted packets since the start.
    pub fn overall(&self) -> f64 {
        if self.lost == 0 {
            return 0.0;
        }
        (self.lost as f64 / self.transmitted.max(1) as f64).min(1.0)
    }

    /// lossrate_last: one over the packets transmitted since the last loss, the lost one included.
    /// 0 without a loss.
    pub fn recent(&self) -> f64 {
        if self.lost == 0 { 0.0 } else { 1.0 / self.since_last_loss.max(1) as f64 }
    }

    /// C_l of FUSO, L of CoFUSO: the weighted sum of both.
    pub fn estimate(&self) -> f64 {
        self.weights.overall * self.overall() + self.weights.recent * self.recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that lost `lost` of `transmitted` packets, the last of them `since` packets ago
    /// (included).
    fn path(weights: Weights, lost: u64, transmitted: u64, since: u64) -> PathLoss {
        let mut path = PathLoss::new(weights);
        path.on_sent(transmitted + 1 - since);
        path.on_lost(lost);
        path.on_sent(since - 1);
        path
    }

    #[test]
    fn worked_example_of_both_papers() {
        for (lost, transmitted, since, fuso, testbed) in [
            (0, 500, 1, 0.0, 0.0),
            (1, 10, 1, 0.55, 0.955),
            (1, 20, 11, 0.070455, 0.088864),
            (2, 100, 50, 0.02, 0.02),
            (10, 1000, 100, 0.01, 0.01),
        ] {
            let check = |weights, expected: f64| {
                let path = path(weights, lost, transmitted, since);
                assert_eq!((path.lost(), path.transmitted()), (lost, transmitted));
                assert!((path.estimate() - expected).abs() < 5e-7, "{path:?}: {expected}");
            };
            check(Weights::fuso(), fuso);
            check(Weights::cofuso_simulation(), fuso);
            check(Weights::cofuso_testbed(), testbed);
        }
    }

    #[test]
    fn counts_do_not_overflow() {
        let mut path = PathLoss::new(Weights::fuso());
        for _ in 0..2 {
            path.on_lost(u64::MAX);
            path.on_sent(u64::MAX);
        }
        assert_eq!((path.transmitted(), path.lost()), (u64::MAX, u64::MAX));
        assert!((0.0..=1.0).contains(&path.estimate()));
    }

    #[test]
    fn spurious_losses_are_forgotten() {
        let mut path = path(Weights::default(), 2, 10, 3);
        path.on_spurious_loss(1);
        assert_eq!(path.overall(), 0.1);
        path.on_spurious_loss(1);
        assert_eq!(path.estimate(), 0.0);
        path.on_sent(5);
        path.on_lost(1);
        assert_eq!(path.recent(), 1.0);
    }

    #[test]
    fn estimate_is_a_probability() {
        let mut path = PathLoss::new(Weights::cofuso_testbed());
        assert!(!path.ever_sent());
        for n in 0..1_000_u64 {
            path.on_sent(1);
            path.on_lost(u64::from(n % 3 == 0));
            assert!((0.0..=1.0).contains(&path.estimate()));
        }
    }
}
