//! What CTCP could reach at best on a link that loses packets before its bottleneck: the curve
//! "Theory" of Fig. 3b.
//!
//! CTCP section 6.2, equation 7. A block of N packets is sent with n coded packets ahead of any
//! feedback; those that turn out not to be needed are waste.
//!
//! | paper              | here                    |
//! |--------------------|-------------------------|
//! | N                  | `block`                 |
//! | n                  | [`forward`], by [`Rounding`] |
//! | eta                | [`eta_as_printed`]      |
//!
//! # Departures
//! - eta as printed is neither a mean nor an efficiency (CTCP-A1). [`waste`] is the mean number of
//!   coded packets that arrive without being needed, per packet of the block, and [`bound`] the
//!   efficiency that this leaves.
//! - The paper's n is floor(N / (1-p)) - N. Algorithm 3 sends until the expectation is reached,
//!   ceil(N / (1-p)) - N, one more at any small p (CTCP-A19).

use crate::htpc_model::chance;

/// How many packets of a block are sent before feedback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// floor(N / (1-p)): equation 7.
    Down,
    /// ceil(N / (1-p)): Algorithm 3.
    Up,
}

/// n: coded packets ahead of feedback for a block of `block` packets at loss rate `p`, below 1.
pub fn forward(block: u32, p: f64, rounding: Rounding) -> u32 {
    let packets = f64::from(block) / (1.0 - p);
    let packets = match rounding {
        Rounding::Down => (packets + 1e-9).floor(),
        Rounding::Up => (packets - 1e-9).ceil(),
    };
    (packets - f64::from(block)).max(0.0) as u32
}

/// Needless coded packets per packet of the block: the mean of n minus the losses, where those are
/// fewer.
pub fn waste(block: u32, p: f64, rounding: Rounding) -> f64 {
    let n = forward(block, p, rounding);
    let needless = |lost: u32| f64::from(n - lost) * chance(block + n, lost, p);
    (0..n).map(needless).sum::<f64>() / f64::from(block.max(1))
}

/// The share of the bottleneck's capacity that can carry something needed.
pub fn bound(block: u32, p: f64, rounding: Rounding) -> f64 {
    1.0 / (1.0 + waste(block, p, rounding))
}

/// Equation 7 as it is printed, with its n.
pub fn eta_as_printed(block: u32, p: f64) -> f64 {
    let n = forward(block, p, Rounding::Down);
    let power = |base: f64, n: u32| (0..n).fold(1.0, |product, _| product * base);
    let choose = |k: u32| (0..k).fold(1.0, |c, j| c * f64::from(n - j) / f64::from(j + 1));
    let term = |k: u32| f64::from(n - k) * choose(k) * power(p, k) * power(1.0 - p, block - k.min(block));
    (0..n).map(term).sum::<f64>() / f64::from(block.max(1))
}

/// The share of a link of `bdp` packets that a TCP with loss rate `p` fills by the square-root
/// formula, sqrt(1.5 / p) packets per round trip (Padhye's first term; Fig. 3a).
pub fn square_root_share(bdp: f64, p: f64) -> f64 {
    if p <= 0.0 { 1.0 } else { ((1.5 / p).sqrt() / bdp).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        for (p, n, eta, w, bound_down) in [
            (0.01, 0, 0.0, 0.0, 1.0),
            (0.03, 0, 0.0, 0.0, 1.0),
            (0.05, 1, 0.00605, 0.00575, 0.9943),
            (0.10, 3, 0.00397, 0.01418, 0.9860),
            (0.15, 5, 0.00165, 0.01856, 0.9818),
            (0.20, 8, 0.00094, 0.03120, 0.9697),
        ] {
            assert_eq!(forward(32, p, Rounding::Down), n);
            assert!((eta_as_printed(32, p) - eta).abs() < 6e-6, "{p}: {}", eta_as_printed(32, p));
            assert!((waste(32, p, Rounding::Down) - w).abs() < 6e-6, "{p}: {}", waste(32, p, Rounding::Down));
            assert!((bound(32, p, Rounding::Down) - bound_down).abs() < 6e-5, "{p}");
        }
    }

    #[test]
    fn algorithm_3_sends_one_more_at_small_loss() {
        let up = |p| 32 + forward(32, p, Rounding::Up);
        assert_eq!([0.0, 0.01, 0.05, 0.1, 0.2].map(up), [32, 33, 34, 36, 40]);
        assert!((bound(32, 0.01, Rounding::Up) - 0.978).abs() < 5e-4);
        assert_eq!(bound(32, 0.0, Rounding::Up), 1.0);
    }

    #[test]
    fn the_square_root_formula_on_the_testbed() {
        let bdp = 25e6 * 0.025 / 8.0 / 1_500.0;
        for (p, share) in
            [(0.001, 0.744), (0.005, 0.333), (0.01, 0.235), (0.02, 0.166), (0.05, 0.105), (0.1, 0.074)]
        {
            assert!((square_root_share(bdp, p) - share).abs() < 6e-4, "{p}");
        }
        assert_eq!(square_root_share(bdp, 0.0), 1.0);
    }
}
