//! What an application lets a path carry of this side's: how fast, and what.

use core::fmt;

use units::{BitRate, Duration};

use super::Path;

/// What a path may be used for by this side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathUse {
    /// For everything.
    #[default]
    Regular,
    /// For data, but neither for copies nor for repair symbols: what it carries costs money.
    Metered,
    /// For no data at all, not even if no other path works. It is kept alive: ACKs, probes and
    /// path validation go on.
    Paused,
}

impl fmt::Display for PathUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular",
            Self::Metered => "metered",
            Self::Paused => "paused",
        })
    }
}

/// What an application lets a path carry of this side's. The default is everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathLimits {
    /// What it is used for.
    pub carries: PathUse,
    /// The rate of UDP payload above which nothing is sent but ACKs and probes; `None`: as fast as
    /// congestion control lets it. At least [`PathLimits::LEAST_RATE`] counts.
    pub rate: Option<BitRate>,
}

impl PathLimits {
    /// The lowest rate that can be asked for: at less, a full datagram would take longer than
    /// timers wait for its answer.
    pub const LEAST_RATE: BitRate = BitRate(64_000);

    /// The rate that counts.
    fn effective_rate(&self) -> Option<BitRate> {
        self.rate.map(|rate| rate.max(Self::LEAST_RATE))
    }
}

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
