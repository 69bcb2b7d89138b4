//! Schedulers, one file each: which sub-flow takes the next new segment. Without one it is that with
//! room and the smallest smoothed RTT ([`Tcp::scheduler`](crate::Tcp::scheduler)).
//!
//! A new one is a file with a type that is a [`Scheduler`](crate::Scheduler), and its line here.

mod blest;
mod ecf;
mod round_robin;

use crate::own::{OwnScheduler, SubflowView};

/// Makes a scheduler's kind.
pub type Make = fn() -> OwnScheduler;

/// All of them, by their names.
pub const SCHEDULERS: &[(&str, Make)] = &[
    ("blest", || OwnScheduler::new("blest", |_| Box::new(blest::Blest))),
    ("ecf", || OwnScheduler::new("ecf", |_| Box::new(ecf::Ecf::default()))),
    ("round-robin", || OwnScheduler::new("round-robin", |_| Box::new(round_robin::RoundRobin::default()))),
];

/// The sub-flow with room and the smallest RTT, if possible not the one that failed to deliver.
fn lowest_rtt(subflows: &[SubflowView]) -> Option<&SubflowView> {
    subflows.iter().filter(|flow| flow.room > 0).min_by_key(|flow| (flow.failed, flow.rtt, flow.sub))
}

/// The fastest of those that have a sample of their RTT, whether it has room or not.
fn fastest(subflows: &[SubflowView]) -> Option<&SubflowView> {
    subflows.iter().filter(|flow| !flow.rtt.is_zero()).min_by_key(|flow| (flow.rtt, flow.sub))
}

/// The sub-flow that would take the segment, and beside it the fastest if that is faster and full: the
/// question is then whether to wait for it.
fn slow_and_fast(subflows: &[SubflowView]) -> Option<(&SubflowView, Option<&SubflowView>)> {
    let slow = lowest_rtt(subflows)?;
    let fast = fastest(subflows).filter(|fast| fast.room == 0 && fast.rtt < slow.rtt);
    Some((slow, fast))
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    /// A sub-flow with so many ms of RTT and a window of ten, so many of them in flight.
    pub(super) fn flow(sub: usize, rtt_ms: u64, in_flight: u32) -> SubflowView {
        SubflowView {
            sub,
            rtt: Duration::from_millis(rtt_ms),
            rtt_variance: Duration::ZERO,
            window: 10,
            in_flight,
            room: 10 - in_flight,
            failed: false,
        }
    }

    #[test]
    fn the_smallest_rtt_with_room_and_the_fastest_of_all() {
        let flows = [flow(0, 10, 10), flow(1, 30, 0), flow(2, 20, 0), flow(3, 0, 10)];
        assert_eq!(lowest_rtt(&flows).map(|flow| flow.sub), Some(2));
        assert_eq!(fastest(&flows).map(|flow| flow.sub), Some(0));
        let failed = [SubflowView { failed: true, ..flow(0, 10, 0) }, flow(1, 30, 0)];
        assert_eq!(lowest_rtt(&failed).map(|flow| flow.sub), Some(1));
    }
}
