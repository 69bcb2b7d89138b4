//! The worst path, which needs help, and the best one, which gives it.
//!
//! FUSO section III-B.1 ([`fuso`]), CoFUSO section 4.2.4 ([`cofuso`]).
//!
//! | paper                         | here                         | unit        |
//! |-------------------------------|------------------------------|-------------|
//! | sub-flow                      | [`PathSample::path`]         | id          |
//! | C_l, L                        | [`PathSample::loss`]         | probability |
//! | RTT                           | [`PathSample::rtt`]          | time        |
//! | has spare cwnd                | [`PathSample::spare`]        |             |
//! | has un-ACKed data (FUSO-A3)   | [`PathSample::protectable`]  |             |
//! | C_l = infinity                | not [`PathSample::ever_sent`]|             |
//! | alpha2, beta2                 | [`cofuso::Weights`]          | none, sum 1 |
//!
//! # Departures
//! - Where the paper picks at random (all candidates never used), the lowest id is taken: equal
//!   inputs give equal answers.
//!
//! # Invariants
//! The answer does not depend on the order of the samples. Worst and best may be the same path.

use core::cmp::Ordering;

use units::Duration;

use crate::PathId;

/// One path at the moment of a decision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathSample {
    /// The path's id, unique among the samples.
    pub path: PathId,
    /// Its loss estimate ([`PathLoss::estimate`](crate::PathLoss::estimate)).
    pub loss: f64,
    /// Its measured round-trip time.
    pub rtt: Duration,
    /// Whether its congestion controller lets a packet go now (FUSO-A5).
    pub spare: bool,
    /// Whether it has an un-ACKed packet that is neither a recovery packet nor was resent before
    /// (FUSO-A3).
    pub protectable: bool,
    /// Whether it ever transmitted data. A path that never did is the last choice for best.
    pub ever_sent: bool,
}

/// The candidate that `order` puts first; the lower id wins a tie.
fn first(
    candidates: impl Iterator<Item = PathSample>,
    order: impl Fn(&PathSample, &PathSample) -> Ordering,
) -> Option<PathId> {
    candidates.min_by(|a, b| order(a, b).then(a.path.cmp(&b.path))).map(|sample| sample.path)
}

/// FUSO's choice: by loss, the RTT decides ties (FUSO-A6).
pub mod fuso {
    use super::{Ordering, PathId, PathSample, first};

    fn by_loss(a: &PathSample, b: &PathSample) -> Ordering {
        a.loss.total_cmp(&b.loss).then(a.rtt.cmp(&b.rtt))
    }

    /// The protectable path with the largest loss estimate, then the largest RTT, then the lowest
    /// id.
    pub fn worst(samples: &[PathSample]) -> Option<PathId> {
        first(samples.iter().copied().filter(|s| s.protectable), |a, b| by_loss(b, a))
    }

    /// The path with spare window and the smallest loss estimate, then the smallest RTT, then the
    /// lowest id. Never used paths come last, among themselves by id.
    pub fn best(samples: &[PathSample]) -> Option<PathId> {
        let spare = || samples.iter().copied().filter(|s| s.spare);
        first(spare().filter(|s| s.ever_sent), by_loss).or_else(|| first(spare(), |_, _| Ordering::Equal))
    }
}

/// CoFUSO's choice: by a weighted sum of loss and RTT, each relative to the largest among the
/// candidates (COF-A14).
pub mod cofuso {
    use super::{Ordering, PathId, PathSample, first};

    /// How much loss and RTT count.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct Weights {
        /// alpha2: weight of the loss estimate.
        pub loss: f64,
        /// beta2: weight of the RTT.
        pub rtt: f64,
    }

    impl Default for Weights {
        /// 0.5 and 0.5 (CoFUSO sections 5.2 and 6.2).
        fn default() -> Self {
            Self { loss: 0.5, rtt: 0.5 }
        }
    }

    /// A metric over the samples that `eligible` lets through: larger is worse.
    fn metric(
        weights: Weights,
        samples: &[PathSample],
        eligible: impl Fn(&PathSample) -> bool,
    ) -> impl Fn(&PathSample) -> f64 {
        let (mut max_loss, mut max_rtt) = (0.0_f64, 0.0_f64);
        for sample in samples.iter().filter(|s| eligible(s)) {
            max_loss = max_loss.max(sample.loss);
            max_rtt = max_rtt.max(sample.rtt.as_secs_f64());
        }
        let share = |value: f64, max: f64| if max > 0.0 { value / max } else { 0.0 };
        move |s| weights.loss * share(s.loss, max_loss) + weights.rtt * share(s.rtt.as_secs_f64(), max_rtt)
    }

    /// The protectable path with the largest metric, then the largest RTT, then the lowest id.
    pub fn worst(samples: &[PathSample], weights: Weights) -> Option<PathId> {
        let metric = metric(weights, samples, |s| s.protectable);
        let order = |a: &PathSample, b: &PathSample| metric(b).total_cmp(&metric(a)).then(b.rtt.cmp(&a.rtt));
        first(samples.iter().copied().filter(|s| s.protectable), order)
    }

    /// The path with spare window and the smallest metric, then the smallest RTT, then the lowest
    /// id. Never used paths come last, among themselves by id.
    pub fn best(samples: &[PathSample], weights: Weights) -> Option<PathId> {
        let used = |s: &PathSample| s.spare && s.ever_sent;
        let metric = metric(weights, samples, used);
        let order = |a: &PathSample, b: &PathSample| metric(a).total_cmp(&metric(b)).then(a.rtt.cmp(&b.rtt));
        first(samples.iter().copied().filter(used), order)
            .or_else(|| first(samples.iter().copied().filter(|s| s.spare), |_, _| Ordering::Equal))
    }
}

#[cfg(test)]
mod tests;
