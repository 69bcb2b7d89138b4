//! What a path does with what its application lets it carry.

use units::{BitRate, Duration};

use super::Path;
use crate::{PathLimits, PathUse};

impl Path {
    /// What the application lets it carry.
    pub(crate) fn limits(&self) -> PathLimits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: PathLimits) {
        self.limits = limits;
    }

    /// Whether it may carry data of ours, should it work.
    pub(crate) fn may_carry_data(&self) -> bool {
        self.limits.carries != PathUse::Paused
    }

    /// Whether it may carry copies and repair symbols.
    pub(crate) fn may_carry_recovery(&self) -> bool {
        self.limits.carries == PathUse::Regular
    }

    /// `rate`, or the application's if that is less.
    pub(super) fn limited(&self, rate: BitRate) -> BitRate {
        self.limits.effective_rate().map_or(rate, |limit| limit.min(rate))
    }

    /// Whether the application holds the path back, rather than the network: its window has not
    /// been tried then, and must not grow (RFC 9002 section 7.8).
    pub(super) fn is_held_back(&self) -> bool {
        self.limits.effective_rate().is_some_and(|limit| limit < self.controllers_rate())
    }

    /// The window that the application's rate fills: what leaves within a round trip, and a burst.
    /// Schedulers would otherwise count on a window that the pacer does not let anybody use.
    pub(super) fn limits_window(&self) -> u64 {
        const BURST: u64 = 4;
        let Some(rate) = self.limits.effective_rate() else { return u64::MAX };
        let round_trip: Duration = self.rtt().smoothed() + self.rtt().smoothed() / 4;
        rate.bytes_in(round_trip) + BURST * self.datagram_size() as u64
    }
}
