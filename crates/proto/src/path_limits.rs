//! What an application lets a path carry of this side's: how fast, and what.

use core::fmt;

use units::BitRate;

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
    pub(crate) fn effective_rate(&self) -> Option<BitRate> {
        self.rate.map(|rate| rate.max(Self::LEAST_RATE))
    }
}
