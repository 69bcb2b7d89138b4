//! OLIA, the Opportunistic Linked Increases Algorithm: Khalili et al., "MPTCP is not
//! Pareto-optimal" (CoNEXT 2012), and draft-khalili-mptcp-congestion-control-05.
//!
//! | paper             | here                        | unit  |
//! |-------------------|-----------------------------|-------|
//! | w_r, rtt_r        | `Member::window`, `Member::rtt` | bytes, s |
//! | l_1r, l_2r        | [`Opportunistic`]           | bytes |
//! | l_r = max(l_1r, l_2r) | [`PathWindow::inter_loss`](crate::PathWindow::inter_loss) | bytes |
//! | M                 | paths with the largest window  |    |
//! | B                 | paths with the largest l_r / rtt_r^2 |   |
//! | alpha_r           | `alpha`                     | none  |
//!
//! Per packet acknowledged on path r the window grows by
//!
//! ```text
//! (w_r / rtt_r^2) / (sum_p w_p / rtt_p)^2 + alpha_r / w_r
//! ```
//!
//! where alpha moves window from the paths with the largest windows to those that look best but
//! have small windows: with N paths, alpha_r = 1 / (N |B \ M|) for r in B \ M, -1 / (N |M|) for r
//! in M if B \ M is not empty, and 0 otherwise. Loss halves.
//!
//! # Departures
//! - l_r counts bytes acknowledged, and a loss event ends an interval whether it was a loss or a
//!   mark.
//! - For those of all coupled controllers see the frame, `coupled.rs`.
//!
//! # Invariants
//! The alphas of all paths sum to 0. The window may fall on an ACK, where alpha is negative; never
//! below the minimum.

use crate::{
    ControllerKind,
    coupled::{Coupled, Coupling, Member, Members},
};

/// The controller of Khalili et al.
pub type Olia = Coupled<Opportunistic>;

/// The coupling of [`Olia`]: how much arrived between losses.
#[derive(Clone, Copy, Default, Debug)]
pub struct Opportunistic {
    /// l_1: bytes acknowledged between the last two losses.
    between: u64,
    /// l_2: bytes acknowledged since the last loss.
    since: u64,
}

/// How good a path is presumed to be: Reno's rate on it is proportional to the root of this.
fn quality(member: &Member) -> f64 {
    member.inter_loss / (member.rtt * member.rtt)
}

/// alpha of the path that asks.
fn alpha(members: &Members<'_>) -> f64 {
    let largest = members.all().map(|m| m.window.floor()).fold(0.0, f64::max);
    let best = members.all().map(|m| quality(&m)).fold(0.0, f64::max);
    let (mut paths, mut large, mut collected) = (0.0, 0.0, 0.0);
    for member in members.all() {
        let is_large = member.window.floor() >= largest;
        paths += 1.0;
        large += f64::from(u8::from(is_large));
        collected += f64::from(u8::from(!is_large && quality(&member) >= best));
    }
    let own_is_large = members.own.window.floor() >= largest;
    if collected == 0.0 {
        0.0
    } else if own_is_large {
        -1.0 / (paths * large)
    } else if quality(&members.own) >= best {
        1.0 / (paths * collected)
    } else {
        0.0
    }
}

impl Coupling for Opportunistic {
    const KIND: ControllerKind = ControllerKind::Olia;

    fn increase(&self, members: &Members<'_>) -> f64 {
        let (own, rate) = (members.own, members.total_rate());
        own.rate() / own.rtt / (rate * rate) + alpha(members) / own.window
    }

    fn on_acked(&mut self, bytes: u64) {
        self.since = self.since.saturating_add(bytes);
    }

    fn on_reduced(&mut self) {
        self.between = core::mem::take(&mut self.since);
    }

    fn inter_loss(&self) -> u64 {
        self.between.max(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::tests::{group, growth, is_reno_on_a_single_path, left};

    fn alphas(paths: &[(u64, u64, u64)]) -> Vec<f64> {
        let alpha_of = |own: usize| {
            let group = group(paths, own);
            alpha(&Members::new(paths[own].0 as f64, paths[own].2, &group))
        };
        (0..paths.len()).map(alpha_of).collect()
    }

    #[test]
    fn reno_on_one_path() {
        is_reno_on_a_single_path::<Opportunistic>();
    }

    #[test]
    fn worked_examples_of_alpha() {
        // The best path has the largest window: nothing to move.
        assert_eq!(alphas(&[(30_000, 50, 90_000), (10_000, 50, 20_000)]), [0.0, 0.0]);
        // The best path has the smaller window.
        assert_eq!(alphas(&[(10_000, 50, 90_000), (30_000, 50, 20_000)]), [0.5, -0.5]);
        // The same l on a path with half the RTT is four times as good.
        assert_eq!(alphas(&[(10_000, 25, 30_000), (30_000, 50, 90_000)]), [0.5, -0.5]);
        // Three paths: one best, two largest, and one that is neither.
        assert_eq!(
            alphas(&[(9_000, 50, 90_000), (30_000, 50, 1), (30_000, 50, 1)]),
            [1.0 / 3.0, -1.0 / 6.0, -1.0 / 6.0]
        );
        assert_eq!(
            alphas(&[(9_000, 50, 90_000), (30_000, 50, 1), (8_000, 50, 1)]),
            [1.0 / 3.0, -1.0 / 3.0, 0.0]
        );
    }

    #[test]
    fn growth_is_the_formula() {
        let paths = [(10_000, 50, 90_000), (30_000, 50, 20_000)];
        // (w / r^2) / (sum w / r)^2 * w = (w / sum)^2, plus alpha.
        assert!((growth(&Opportunistic::default(), &paths, 0) - (0.0625 + 0.5)).abs() < 1e-12);
        assert!((growth(&Opportunistic::default(), &paths, 1) - (0.5625 - 0.5)).abs() < 1e-12);
        assert_eq!(left(&Opportunistic::default(), &paths, 1), 0.5);
    }

    #[test]
    fn inter_loss_is_the_longer_of_the_last_two_intervals() {
        let mut coupling = Opportunistic::default();
        coupling.on_acked(500);
        coupling.on_reduced();
        coupling.on_acked(200);
        assert_eq!(coupling.inter_loss(), 500);
        coupling.on_acked(400);
        assert_eq!(coupling.inter_loss(), 600);
        coupling.on_reduced();
        coupling.on_reduced();
        assert_eq!(coupling.inter_loss(), 0);
    }
}
