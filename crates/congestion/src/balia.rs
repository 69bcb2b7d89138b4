//! BALIA, the Balanced Linked Adaptation: Peng, Walid, Hwang and Low, "Multipath TCP: Analysis,
//! Design, and Implementation" (ToN 2016), and draft-walid-mptcp-congestion-control-04.
//!
//! | paper                  | here                       | unit    |
//! |------------------------|----------------------------|---------|
//! | w_r, rtt_r             | `Member::window`, `Member::rtt` | bytes, s |
//! | x_r = w_r / rtt_r      | `Member::rate`             | bytes/s |
//! | alpha_r = max_k x_k / x_r | `alpha`                 | none, at least 1 |
//!
//! Per packet acknowledged on path r the window grows by
//!
//! ```text
//! x_r / (rtt_r (sum_k x_k)^2) * (1 + alpha_r) / 2 * (4 + alpha_r) / 5
//! ```
//!
//! and a loss takes w_r / 2 * min(alpha_r, 1.5) from it. For its departures see the frame,
//! `coupled.rs`.
//!
//! # Invariants
//! A loss leaves a quarter to a half of the window.

use crate::{
    ControllerKind,
    coupled::{Coupled, Coupling, Members},
};

/// The controller of Peng et al.
pub type Balia = Coupled<Balanced>;

/// The coupling of [`Balia`].
#[derive(Clone, Copy, Default, Debug)]
pub struct Balanced;

/// alpha: how much faster than this path the fastest one is.
fn alpha(members: &Members<'_>) -> f64 {
    members.all().map(|m| m.rate()).fold(0.0, f64::max) / members.own.rate()
}

impl Coupling for Balanced {
    const KIND: ControllerKind = ControllerKind::Balia;

    fn increase(&self, members: &Members<'_>) -> f64 {
        let (alpha, rate) = (alpha(members), members.total_rate());
        members.own.rate() / members.own.rtt / (rate * rate) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
    }

    fn decrease(&self, members: &Members<'_>) -> f64 {
        1.0 - alpha(members).min(1.5) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::tests::{growth, is_reno_on_a_single_path, left};

    #[test]
    fn reno_on_one_path() {
        is_reno_on_a_single_path::<Balanced>();
    }

    #[test]
    fn worked_example() {
        // Two equal paths: alpha = 1, a quarter of Reno's growth each, half of the window lost.
        let equal = [(10_000, 50, 0), (10_000, 50, 0)];
        assert!((growth(&Balanced, &equal, 0) - 0.25).abs() < 1e-12);
        assert_eq!(left(&Balanced, &equal, 0), 0.5);
        // Rates 1 : 3. The slow path has alpha 3: (1/4)^2 * 2 * 1.4; the fast one alpha 1: (3/4)^2.
        let unequal = [(10_000, 50, 0), (30_000, 50, 0)];
        assert!((growth(&Balanced, &unequal, 0) - 0.175).abs() < 1e-12);
        assert!((growth(&Balanced, &unequal, 1) - 0.5625).abs() < 1e-12);
        assert_eq!(left(&Balanced, &unequal, 0), 0.25);
        assert_eq!(left(&Balanced, &unequal, 1), 0.5);
        // Rates 4 : 5 differ by less than one half: alpha 1.25.
        assert_eq!(left(&Balanced, &[(8_000, 50, 0), (10_000, 50, 0)], 0), 0.375);
    }
}
