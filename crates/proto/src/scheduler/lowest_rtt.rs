//! MPTCP's default: the path with the smallest round-trip time that has window left.

use units::Instant;

use super::Scheduler;
use crate::{PathSnapshot, wire::PathId};

#[derive(Debug, Default)]
pub(super) struct LowestRtt;

impl Scheduler for LowestRtt {
    fn select(&mut self, _now: Instant, paths: &[PathSnapshot], _queued: u64) -> Option<PathId> {
        paths.iter().filter(|p| p.may_send()).min_by_key(|p| (p.rtt, p.id)).map(|p| p.id)
    }
}
