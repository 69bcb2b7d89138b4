//! Late re-injection: data stuck on a slow or dead path goes again over the better one, within its
//! window, when nothing else is to be sent. The scheduler's counterpart to recovery: it works with
//! every scheme, `none` included, and keeps off the same paths.

use units::{Duration, Instant};

use crate::{
    PathSnapshot,
    connection::Connection,
    path::snapshot::View,
    policy::Coding,
    scheduler::late::{self, Verdict},
    wire::PathId,
};

/// Packets per opportunity whose data turns out to have been delivered otherwise.
const MAX_VOID_ATTEMPTS: usize = 64;

impl Connection {
    /// Builds a copy of the packet that is most worth it; `Some` is the path it is for. If there is
    /// none, notes when to ask again. Comes right after the policy, which has sent nothing: what that
    /// has seen is not looked up once more, since whoever only receives passes here with every packet.
    pub(in crate::connection) fn build_reinjection(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        // Blocks get combinations over any path instead: their packets are never sent again.
        if self.repair.policy.coding() == Coding::Blocks
            || self.paths.values().filter(|p| p.is_open()).count() < 2
        {
            return None;
        }
        for attempt in 0..MAX_VOID_ATTEMPTS {
            let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
            if attempt > 0 || snapshots.is_empty() {
                self.take_snapshots(now, View::Recovery, &mut snapshots);
            }
            let choice = self.most_late(now, &snapshots);
            self.scratch.snapshots = snapshots;
            let (of, number, on, wait) = choice?;
            if !wait.is_zero() {
                self.wait_for_pacer(now, on, wait);
                return None;
            }
            if self.send_copy(now, of, number, on, out).is_some() {
                self.stats.late_copies_sent += 1;
                return Some(on);
            }
        }
        None
    }

    /// The oldest packet, among those of all paths that are late, on the path that keeps it
    /// longest; the path for its copy, and how long that one's pacer holds it back.
    fn most_late(
        &mut self,
        now: Instant,
        snapshots: &[PathSnapshot],
    ) -> Option<(PathId, u64, PathId, Duration)> {
        let mut chosen: Option<(Duration, (PathId, u64, PathId, Duration))> = None;
        for of in snapshots {
            let Some((number, sent_at)) = self.oldest_stuck(of.id) else { continue };
            let others = snapshots.iter().filter(|on| on.id != of.id && on.has_window());
            let Some(on) = others.min_by_key(|on| (on.pacing_wait + on.rtt, on.id)) else { continue };
            match late::judge(of, now - sent_at, on) {
                Verdict::Copy => {
                    let remaining = (sent_at + of.expected_rtt).saturating_duration_since(now);
                    if chosen.is_none_or(|(longest, _)| remaining > longest) {
                        chosen = Some((remaining, (of.id, number, on.id, on.pacing_wait)));
                    }
                }
                Verdict::Wait(time) => {
                    let at = now + time.max(crate::GRANULARITY);
                    self.repair.ask_at = Some(self.repair.ask_at.map_or(at, |earlier| earlier.min(at)));
                }
            }
        }
        chosen.map(|(_, choice)| choice)
    }

    /// Number and time of the oldest packet of a path that nothing but this path may bring: what recovery has
    /// copied over the same path may be as late as the packet, and what was lost brings nothing.
    fn oldest_stuck(&mut self, id: PathId) -> Option<(u64, Instant)> {
        let path = self.paths.get_mut(&id)?;
        let number = path.oldest_stuck()?;
        Some((number, path.sent().get(number)?.sent_at))
    }
}
