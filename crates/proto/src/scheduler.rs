//! Which path carries the next data.

mod earliest_delivery;
pub(crate) mod late;
mod lowest_rtt;

use units::Instant;

use crate::{config::SchedulerKind, path::snapshot::PathSnapshot, wire::PathId};

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

/// The registry: one line per scheduler.
pub(crate) fn build(kind: SchedulerKind) -> Box<dyn Scheduler> {
    match kind {
        SchedulerKind::EarliestDelivery => Box::new(earliest_delivery::EarliestDelivery),
        SchedulerKind::LowestRtt => Box::new(lowest_rtt::LowestRtt),
    }
}
