//! What happens at an opportunity: the policy sees what is un-ACKed, and what it asks for leaves.

use recovery::{Exposed, PacketNumber, SourceRun, UnackedView};
use units::{Duration, Instant};

use crate::{
    by_path::ByPath,
    connection::Connection,
    path::{Path, snapshot::View},
    policy::{Carried, RecoveryAction, SentData},
    wire::PathId,
};

/// Records that are looked at for each source symbol that a block may hold: others lie between
/// those that can be coded.
const MAX_RECORDS_PER_SYMBOL: usize = 8;

/// Attempts per opportunity that may come to nothing, because what they wanted to send was
/// delivered meanwhile.
const MAX_VOID_ATTEMPTS: usize = 64;

/// The un-ACKed packets of all paths, as the pure algorithms ask for them.
pub(in crate::connection) struct Unacked<'a>(pub(in crate::connection) &'a ByPath<Path>);

impl UnackedView for Unacked<'_> {
    fn oldest_resendable(&self, path: PathId) -> Option<PacketNumber> {
        self.0.get(&path)?.oldest_protectable().map(PacketNumber)
    }

    fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun> {
        let path = self.0.get(&path)?;
        let from = after.map_or(0, |n| n.next().0).max(path.coded_below());
        let records = path.sent().iter_from(from).take(MAX_RECORDS_PER_SYMBOL * limit as usize);
        let mut codable = records.filter(|(_, p)| p.is_codable()).take(limit as usize);
        let (first, _) = codable.next()?;
        let (last, packets) = codable.fold((first, 1), |(_, n), (number, _)| (number, n + 1));
        Some(SourceRun { first: PacketNumber(first), last: PacketNumber(last), packets })
    }

    fn any_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> bool {
        let Some(path) = self.0.get(&path) else { return false };
        path.sent()
            .iter_from(first.0)
            .take_while(|(n, _)| *n <= last.0)
            .any(|(_, p)| p.is_coded() && !p.is_rebuilt())
    }

    fn exposed(&self, path: PathId, limit: u32) -> Option<Exposed> {
        let path = self.0.get(&path)?;
        let records =
            path.sent().iter_from(path.exposed_below()).take(MAX_RECORDS_PER_SYMBOL * limit as usize);
        let open = records.filter(|(_, p)| p.is_exposed());
        open.take(limit as usize).fold(None, |all, (number, packet)| {
            Some(Exposed::and(all, PacketNumber(number), packet.size.into(), packet.sent_at))
        })
    }

    fn next_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> Option<PacketNumber> {
        let path = self.0.get(&path)?;
        let mut waiting = path.sent().iter_from(first.0).take_while(|(n, _)| *n <= last.0);
        waiting.find(|(_, p)| p.waits_for_delivery()).map(|(number, _)| PacketNumber(number))
    }
}

/// Less new data than this never counts as enough to keep paths busy.
const PLENTY: u64 = 1 << 20;

impl Connection {
    /// Whether new data lasts at least twice as long as it takes to hear of what is sent now: then
    /// no spare window comes in time to protect that. What is in flight is a round trip's worth at
    /// the rate that the paths really have.
    fn has_data_for_long(&self) -> bool {
        let waiting = self.streams.sendable_bytes();
        if waiting < PLENTY {
            return false;
        }
        let busy = self.paths.values().filter(|p| p.in_flight() > 0);
        let slowest = busy.clone().map(|p| p.rtt().smoothed().as_nanos()).max().unwrap_or(0);
        let needed: u128 = busy
            .map(|p| {
                u128::from(p.in_flight()) * u128::from(slowest)
                    / u128::from(p.rtt().smoothed().as_nanos().max(1))
            })
            .sum();
        u128::from(waiting) > 2 * needed
    }

    /// A batch of packets begins: what needs no protection need not be kept.
    pub(in crate::connection) fn begin_batch(&mut self) {
        self.repair.ask_at = None;
        self.scratch.snapshots.clear();
        self.repair.keep_sources = !self.has_data_for_long();
    }

    /// Asks the policy for a recovery packet and builds it; `Some` is the path it is for. After `None` the
    /// snapshots are those that the policy has seen, or there are none.
    pub(in crate::connection) fn build_recovery(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        self.scratch.snapshots.clear();
        // There is more data: only our own memory keeps it from being handed over.
        if self.streams.has_writer_without_room() {
            return None;
        }
        for _ in 0..MAX_VOID_ATTEMPTS {
            let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
            self.take_snapshots(now, View::Recovery, &mut snapshots);
            let action = self.repair.policy.on_opportunity(now, &snapshots, &Unacked(&self.paths));
            let held =
                |on: PathId| snapshots.iter().find(|s| s.id == on).map_or(Duration::ZERO, |s| s.pacing_wait);
            let wait = if let RecoveryAction::Wait { on } = action { held(on) } else { Duration::ZERO };
            self.scratch.snapshots = snapshots;
            let on = match action {
                RecoveryAction::Nothing => return None,
                RecoveryAction::Wait { on } => {
                    self.wait_for_pacer(now, on, wait);
                    return None;
                }
                RecoveryAction::WaitUntil { at } => {
                    self.repair.ask_at = Some(at);
                    return None;
                }
                RecoveryAction::Reinject { on, .. } | RecoveryAction::Repair { on, .. } => on,
            };
            let sent = match action {
                RecoveryAction::Reinject { packet, of, on } => self.send_copy(now, of, packet.0, on, out),
                RecoveryAction::Repair { block, index, of, on } => {
                    self.send_repair(now, &block, index, of, on, out)
                }
                RecoveryAction::Nothing | RecoveryAction::Wait { .. } | RecoveryAction::WaitUntil { .. } => {
                    None
                }
            };
            let carried =
                sent.map(|built| Carried { number: PacketNumber(built.number), bytes: built.size as u64 });
            self.repair.policy.on_done(&action, carried);
            if sent.is_some() {
                return Some(on);
            }
        }
        self.scratch.snapshots.clear();
        None
    }

    /// Tells the policy of a packet with data that has just left. The snapshots are those that the
    /// scheduler has seen.
    pub(in crate::connection) fn tell_policy(&mut self, now: Instant, packet: &SentData) {
        let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
        if let Some(path) = snapshots.iter_mut().find(|s| s.id == packet.path) {
            path.in_flight += packet.bytes;
        }
        self.repair.policy.on_data(now, packet, &snapshots);
        self.scratch.snapshots = snapshots;
    }
}
