//! LIA, the Linked Increases Algorithm: RFC 6356.
//!
//! | RFC 6356            | here                       | unit  |
//! |---------------------|----------------------------|-------|
//! | cwnd_i, rtt_i       | `Member::window`, `Member::rtt` | bytes, s |
//! | cwnd_total          | `total`                    | bytes |
//! | alpha (section 4)   | `alpha`                    | none  |
//!
//! Per byte acknowledged on path i the window grows by min(alpha / cwnd_total, 1 / cwnd_i) packets,
//! where alpha makes the connection as fast as a single-path flow would be on its best path:
//!
//! ```text
//! alpha = cwnd_total * max_i(cwnd_i / rtt_i^2) / (sum_i cwnd_i / rtt_i)^2
//! ```
//!
//! Loss halves. For its departures see the frame, `coupled.rs`.
//!
//! # Invariants
//! A path never grows faster than Reno's, and on a single path exactly as fast.

use crate::{
    ControllerKind,
    coupled::{Coupled, Coupling, Members},
};

/// RFC 6356's controller.
pub type Lia = Coupled<LinkedIncreases>;

/// The coupling of [`Lia`].
#[derive(Clone, Copy, Default, Debug)]
pub struct LinkedIncreases;

impl Coupling for LinkedIncreases {
    const KIND: ControllerKind = ControllerKind::Lia;

    fn increase(&self, members: &Members<'_>) -> f64 {
        let total: f64 = members.all().map(|m| m.window).sum();
        let fastest = members.all().map(|m| m.window / (m.rtt * m.rtt)).fold(0.0, f64::max);
        let rate = members.total_rate();
        let alpha = total * fastest / (rate * rate);
        (alpha / total).min(1.0 / members.own.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::tests::{growth, is_reno_on_a_single_path, left};

    #[test]
    fn reno_on_one_path() {
        is_reno_on_a_single_path::<LinkedIncreases>();
    }

    #[test]
    fn worked_example() {
        // Two equal paths: alpha = 2w (w/r^2) / (2w/r)^2 = 1/2, so each grows by a quarter of a
        // packet per round trip.
        let equal = [(10_000, 50, 0), (10_000, 50, 0)];
        assert!((growth(&LinkedIncreases, &equal, 0) - 0.25).abs() < 1e-12);
        // 10 kB and 30 kB at 100 ms: alpha = 40 * 30 / 40^2 = 0.75; the first grows by 0.75 * 10
        // / 40.
        let unequal = [(10_000, 100, 0), (30_000, 100, 0)];
        assert!((growth(&LinkedIncreases, &unequal, 0) - 0.1875).abs() < 1e-12);
        assert!((growth(&LinkedIncreases, &unequal, 1) - 0.5625).abs() < 1e-12);
        assert_eq!(left(&LinkedIncreases, &unequal, 0), 0.5);
    }

    #[test]
    fn never_more_aggressive_than_reno() {
        for (a, b, rtt_a, rtt_b) in
            [(2_400, 90_000, 10, 300), (90_000, 2_400, 10, 300), (5_000, 5_000, 1, 900)]
        {
            for own in [0, 1] {
                let growth = growth(&LinkedIncreases, &[(a, rtt_a, 0), (b, rtt_b, 0)], own);
                assert!(growth > 0.0 && growth <= 1.0 + 1e-12, "{growth}");
            }
        }
    }
}
