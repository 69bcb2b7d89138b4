//! Which path carries the next data.
//!
//! A scheduler is one file of this folder: a type that implements [`Scheduler`] and begins as its
//! default. Its line in the registry below is all that the rest of the transport knows of it.

mod blest;
mod earliest_delivery;
mod ecf;
pub(crate) mod late;
mod lowest_rtt;
mod round_robin;

use core::{fmt, str::FromStr};

use units::Instant;

use crate::{
    PathSnapshot,
    names::{UnknownName, by_name},
    wire::PathId,
};

/// Makes [`SchedulerKind`]: one line per scheduler gives its variant, its file, where the type is
/// called as the variant, and its name.
macro_rules! registry {
    ($($(#[$doc:meta])* $kind:ident = $file:ident, $name:literal;)+) => {
        /// Which path carries the next data.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum SchedulerKind {
            $($(#[$doc])* $kind,)+
        }

        impl SchedulerKind {
            /// Every scheduler of the registry.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name that users type.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// The scheduler of one connection.
            pub(crate) fn build(self) -> Box<dyn Scheduler> {
                match self {
                    $(Self::$kind => Box::<$file::$kind>::default(),)+
                }
            }
        }
    };
}

registry! {
    /// The path that delivers first, waiting for a fast path where a slow one would end later.
    #[default]
    EarliestDelivery = earliest_delivery, "earliest-delivery";
    /// The path with the smallest round-trip time that has window left (MPTCP's default).
    LowestRtt = lowest_rtt, "lowest-rtt";
    /// Earliest completion first (Lim and others, CoNEXT 2017).
    Ecf = ecf, "ecf";
    /// Blocking estimation (Ferlin and others, IFIP Networking 2016), by the windows alone.
    Blest = blest, "blest";
    /// Each path with room in turn, packet by packet: spraying.
    RoundRobin = round_robin, "round-robin";
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SchedulerKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        by_name("scheduler", Self::ALL, |kind| kind.name(), name)
    }
}

/// Chooses the path of the next packet with application data.
///
/// Called before every such packet. Sees every path that may carry data, in path id order. `None`
/// means: send nothing now, although data is waiting; the connection asks again when a window
/// opens, a pacer lets go, or anything arrives.
pub trait Scheduler: Send + core::fmt::Debug {
    /// `queued` is the number of stream bytes waiting, this packet's included.
    fn select(&mut self, now: Instant, paths: &[PathSnapshot], queued: u64) -> Option<PathId>;

    /// Whether the next packet goes where the last one went, which is `last`, so that they leave
    /// together. Called after the first packet of a batch; `true` only if the path may send. If
    /// not, the batch ends.
    fn stays(&mut self, now: Instant, last: PathId, paths: &[PathSnapshot], queued: u64) -> bool {
        self.select(now, paths, queued) == Some(last)
    }
}

/// For ECF and BLEST: the fastest path that may send now, and, if that is not the fastest of all,
/// the fastest, whose window is full. `None` if no path may send.
fn slow_and_fast(paths: &[PathSnapshot]) -> Option<(&PathSnapshot, Option<&PathSnapshot>)> {
    let by_rtt = |p: &&PathSnapshot| (p.rtt, p.id);
    let open = paths.iter().filter(|p| p.may_send()).min_by_key(by_rtt)?;
    let fastest = paths.iter().filter(|p| p.usable).min_by_key(by_rtt)?;
    Some((open, (fastest.id != open.id).then_some(fastest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_every_scheduler_can_be_built() {
        for kind in SchedulerKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert_eq!(kind.build().select(Instant::ORIGIN, &[], 0), None, "{kind} without a path");
        }
        let error = "random".parse::<SchedulerKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown scheduler `random`; there are: earliest-delivery, lowest-rtt, ecf, blest, round-robin"
        );
    }
}
