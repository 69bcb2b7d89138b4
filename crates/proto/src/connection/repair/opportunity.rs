//! Recovery: what happens at an opportunity, and REPAIR and RECOVERED in both directions.

use recovery::{Exposed, SourceRun, UnackedView, cofuso::Block};
use std::collections::BTreeMap;
use units::{Duration, Instant};

use super::blocks::receiver::RebuiltPacket;
use crate::{
    connection::{
        Connection,
        packet::{Built, PacketBuilder},
        receive::FrameContext,
    },
    crypto::Level,
    keys::KeyPhase,
    path::Path,
    policy::{Carried, RecoveryAction, SentData},
    sent::{ControlFrame, PacketPurpose, SentPacket},
    wire::{
        CodeScheme, Combination, PathId, Recovered, Repair, RepairHeader, TransportError, TransportErrorCode,
    },
};

/// Records that are looked at for each source symbol that a block may hold: others lie between those that can be coded.
const MAX_RECORDS_PER_SYMBOL: usize = 8;

/// Attempts per opportunity that may come to nothing, because what they wanted to send was delivered meanwhile.
const MAX_VOID_ATTEMPTS: usize = 64;

/// The un-ACKed packets of all paths, as the pure algorithms ask for them.
pub(in crate::connection) struct Unacked<'a>(pub(in crate::connection) &'a BTreeMap<PathId, Path>);

impl UnackedView for Unacked<'_> {
    fn oldest_resendable(&self, path: u32) -> Option<u64> {
        self.0.get(&PathId(path)).and_then(oldest_protectable)
    }

    fn source_run(&self, path: u32, after: Option<u64>, limit: u32) -> Option<SourceRun> {
        let path = self.0.get(&PathId(path))?;
        let from = after.map_or(0, |n| n + 1).max(path.coded_below);
        let records = path.space.sent.iter_from(from).take(MAX_RECORDS_PER_SYMBOL * limit as usize);
        let mut codable = records.filter(|(_, p)| p.is_codable()).take(limit as usize);
        let (first, _) = codable.next()?;
        let (last, packets) = codable.fold((first, 1), |(_, n), (number, _)| (number, n + 1));
        Some(SourceRun { first, last, packets })
    }

    fn any_unacked(&self, path: u32, first: u64, last: u64) -> bool {
        let Some(path) = self.0.get(&PathId(path)) else { return false };
        path.space.sent.iter_from(first).take_while(|(n, _)| *n <= last).any(|(_, p)| p.coded && !p.repaired)
    }

    fn exposed(&self, path: u32, limit: u32) -> Option<Exposed> {
        let path = self.0.get(&PathId(path))?;
        let records =
            path.space.sent.iter_from(path.exposed_below).take(MAX_RECORDS_PER_SYMBOL * limit as usize);
        let open = records.filter(|(_, p)| p.is_exposed());
        let add = |all: Option<Exposed>, (number, packet): (u64, &SentPacket)| {
            let Exposed { first, packets, bytes, .. } =
                all.unwrap_or(Exposed { first: number, last: number, packets: 0, bytes: 0 });
            let bytes = bytes + u64::from(packet.size);
            Some(Exposed { first, last: number, packets: packets + 1, bytes })
        };
        open.take(limit as usize).fold(None, add)
    }

    fn next_unacked(&self, path: u32, first: u64, last: u64) -> Option<u64> {
        let space = &self.0.get(&PathId(path))?.space;
        let mut waiting = space.sent.iter_from(first).take_while(|(n, _)| *n <= last);
        waiting.find(|(_, p)| p.waits_for_delivery()).map(|(number, _)| number)
    }
}

/// Moves the marks below which nothing is left to protect: what cannot be resent or coded never can again, so every record is passed
/// once, and not once for every packet of recovery.
pub(in crate::connection) fn move_marks(path: &mut Path) {
    let end = path.space.sent.next_number();
    path.protected_below = oldest_protectable(path).unwrap_or(end);
    let mut codable = path.space.sent.iter_from(path.coded_below).filter(|(_, p)| p.is_codable());
    path.coded_below = codable.next().map_or(end, |(number, _)| number);
    let mut exposed = path.space.sent.iter_from(path.exposed_below).filter(|(_, p)| p.is_exposed());
    path.exposed_below = exposed.next().map_or(end, |(number, _)| number);
}

/// The oldest un-ACKed packet that recovery may resend.
pub(in crate::connection) fn oldest_protectable(path: &Path) -> Option<u64> {
    let mut candidates = path.space.sent.iter_from(path.protected_below).filter(|(_, p)| p.is_protectable());
    candidates.next().map(|(number, _)| number)
}

/// Less new data than this never counts as enough to keep paths busy.
const PLENTY: u64 = 1 << 20;

impl Connection {
    /// Whether new data lasts at least twice as long as it takes to hear of what is sent now: then no spare window comes in time to
    /// protect that. What is in flight is a round trip's worth at the rate that the paths really have.
    pub(in crate::connection) fn has_data_for_long(&self) -> bool {
        let waiting = self.streams.sendable_bytes();
        if waiting < PLENTY {
            return false;
        }
        let busy = self.paths.values().filter(|p| p.in_flight > 0);
        let slowest = busy.clone().map(|p| p.rtt.smoothed().as_nanos()).max().unwrap_or(0);
        let needed: u128 = busy
            .map(|p| {
                u128::from(p.in_flight) * u128::from(slowest) / u128::from(p.rtt.smoothed().as_nanos().max(1))
            })
            .sum();
        u128::from(waiting) > 2 * needed
    }

    /// Asks the policy for a recovery packet and builds it; `Some` is the path it is for.
    pub(in crate::connection) fn build_recovery(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        // There is more data: only our own memory keeps it from being handed over.
        if self.streams.has_writer_without_room() {
            return None;
        }
        for _ in 0..MAX_VOID_ATTEMPTS {
            let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
            self.take_snapshots(now, true, &mut snapshots);
            let action = self.policy.on_opportunity(now, &snapshots, &Unacked(&self.paths));
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
                    self.recovery_at = Some(at);
                    return None;
                }
                RecoveryAction::Reinject { on, .. } | RecoveryAction::Repair { on, .. } => on,
            };
            let sent = match action {
                RecoveryAction::Reinject { packet, of, on } => self.send_copy(now, of, packet, on, out),
                RecoveryAction::Repair { block, index, of, on } => {
                    self.send_repair(now, &block, index, of, on, out)
                }
                RecoveryAction::Nothing | RecoveryAction::Wait { .. } | RecoveryAction::WaitUntil { .. } => {
                    None
                }
            };
            let carried = sent.map(|built| Carried { number: built.number, bytes: built.size as u64 });
            self.policy.on_done(&action, carried);
            if sent.is_some() {
                return Some(on);
            }
        }
        None
    }

    /// Tells the policy of a packet with data that has just left. The snapshots are those that the scheduler has seen.
    pub(in crate::connection) fn tell_policy(&mut self, now: Instant, packet: &SentData) {
        let mut snapshots = core::mem::take(&mut self.scratch.snapshots);
        if let Some(path) = snapshots.iter_mut().find(|s| s.id == packet.path) {
            path.in_flight += packet.bytes;
        }
        self.policy.on_data(now, packet, &snapshots);
        self.scratch.snapshots = snapshots;
    }

    /// Sends the frames of an un-ACKed packet once more, minus what has been acknowledged since. `None` if nothing was left.
    pub(in crate::connection) fn send_copy(
        &mut self,
        now: Instant,
        of: PathId,
        number: u64,
        on: PathId,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let packet = self.paths.get_mut(&of)?.space.sent.get_mut(number)?;
        packet.reinjected = true;
        let frames = packet.frames.clone();
        self.note_protected(of);
        if !self.streams.unacked_data(&frames.streams) && frames.crypto.is_empty() {
            return None;
        }
        let mtu = self.paths.get(&on)?.datagram_size();
        let mut builder = self.begin_one_rtt(on, mtu, out)?;
        self.write_frames_again(&frames, &mut builder, out);
        builder.frames.copy_of = Some((of, number));
        let built = self.finish_packet(now, builder, PacketPurpose::Copy, out)?;
        if let Some(packet) = self.paths.get_mut(&of).and_then(|p| p.space.sent.get_mut(number)) {
            packet.copied = true;
        }
        self.stats.copies_sent += 1;
        self.stats.recovery_bytes_sent += built.size as u64;
        if let Some(path) = self.paths.get_mut(&on) {
            path.counters.copies_sent += 1;
        }
        Some(built)
    }

    pub(in crate::connection) fn write_frames_again(
        &mut self,
        frames: &crate::sent::SentFrames,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let limit = builder.limit;
        let wrote =
            self.streams.write_ranges(&frames.streams.ranges, out, limit, &mut builder.frames.streams);
        for range in &frames.crypto {
            self.handshake.crypto_mut(Level::OneRtt).on_lost(*range);
        }
        self.write_crypto(builder, out);
        builder.ack_eliciting |= wrote;
    }

    /// Moves the mark below which nothing of a path is left to protect.
    fn note_protected(&mut self, of: PathId) {
        if let Some(path) = self.paths.get_mut(&of) {
            move_marks(path);
        }
    }

    /// Sends repair symbol `index` of a block; the first one makes the block.
    fn send_repair(
        &mut self,
        now: Instant,
        block: &Block,
        index: u16,
        of: PathId,
        on: PathId,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let mtu = self.paths.get(&on)?.datagram_size();
        let mut builder = self.begin_one_rtt(on, mtu, out)?;
        let start = out.len();
        let made = index > 0 || self.make_block(block, of, builder.limit - start);
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        let encoded = self.repair.block(of).filter(|_| made);
        if let Some((encoded, symbol)) = encoded.and_then(|e| Some((e, e.symbol(index)?))) {
            let header = RepairHeader {
                path: of,
                scheme: CodeScheme::ReedSolomon,
                repair_count: encoded.count(),
                symbol_id: u64::from(index),
                symbol_len: symbol.len(),
            };
            header.encode(encoded.members(), out);
            out.extend_from_slice(symbol);
            if out.len() > builder.limit {
                out.truncate(start);
            }
        }
        builder.ack_eliciting = true;
        let built = self.finish_packet(now, builder, PacketPurpose::Repair, out)?;
        self.stats.repair_sent += 1;
        self.stats.recovery_bytes_sent += built.size as u64;
        if let Some(path) = self.paths.get_mut(&on) {
            path.counters.repair_sent += 1;
        }
        Some(built)
    }

    /// Codes the block's packets. Members whose numbers lie too scattered to be named within `room` are left out.
    fn make_block(&mut self, block: &Block, of: PathId, room: usize) -> bool {
        let Some(path) = self.paths.get_mut(&of) else { return false };
        let in_block = |(n, p): &(u64, &SentPacket)| *n <= block.last && p.is_codable();
        let mut members: Vec<u64> = Vec::with_capacity(usize::from(block.k));
        let (mut named, mut longest) = (0, 0);
        for (number, packet) in path.space.sent.iter_from(block.first).filter(in_block) {
            if members.len() == usize::from(block.k) {
                break;
            }
            let new_run = members.last().is_none_or(|last| last + 1 != number);
            named += if members.is_empty() {
                12
            } else if new_run {
                4
            } else {
                0
            };
            longest = longest.max(packet.payload.len());
            if 16 + named + 2 + longest > room {
                break;
            }
            members.push(number);
        }
        for number in block.first..=block.last {
            if let Some(packet) = path.space.sent.get_mut(number).filter(|p| p.is_codable()) {
                packet.coded = true;
            }
        }
        let path = &self.paths[&of];
        let sources: Vec<&[u8]> =
            members.iter().filter_map(|n| Some(path.space.sent.get(*n)?.payload.as_slice())).collect();
        // As many symbols as the policy may ever ask for.
        let most = fec::MAX_BLOCK - members.len().min(fec::MAX_SOURCES);
        let count = usize::from(self.config.repair.m_max).max(usize::from(block.m)).min(most) as u8;
        !members.is_empty() && self.repair.encode(of, &members, &sources, count)
    }

    // ---- receiving

    /// A packet arrived that may be a source symbol: it is kept, and may complete a block.
    pub(in crate::connection) fn on_source_packet(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        plaintext: &[u8],
    ) -> Result<(), TransportError> {
        // Nothing is kept for a peer that may not send repair symbols to us.
        if !self.config.repair.accept || self.peer.repair.is_none() {
            return Ok(());
        }
        let rebuilt = self.repair.decoder.on_source(path, number, plaintext);
        let of_blocks = self.repair.decoder.on_block_source(path, number, plaintext);
        for (number, plaintext) in rebuilt {
            self.on_rebuilt(now, path, number, &plaintext)?;
        }
        self.on_rebuilt_in_block(now, of_blocks)
    }

    pub(in crate::connection) fn on_combination(
        &mut self,
        now: Instant,
        combination: &Combination<'_>,
    ) -> Result<(), TransportError> {
        if combination.members.packet_count() > u64::from(self.config.repair.k_max) {
            let reason = "repair block larger than we allow";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        if !self.repair.decoder.admits_combination(combination) {
            return Ok(());
        }
        // A path that is gone, or whose first packet was lost: nothing to rebuild from.
        if combination.members.iter().any(|(path, _)| !self.paths.contains_key(&path)) {
            self.repair.decoder.on_useless_combination();
            return Ok(());
        }
        let paths = &self.paths;
        let is_settled =
            |path: PathId, number| paths.get(&path).is_some_and(|p| p.space.received.is_settled(number));
        match self.repair.decoder.on_combination(combination, is_settled) {
            Some(rebuilt) => self.on_rebuilt_in_block(now, rebuilt),
            None => self.report_again(combination),
        }
    }

    /// The sender does not seem to know that we have the block: the RECOVERED that told it may be lost.
    fn report_again(&mut self, combination: &Combination<'_>) -> Result<(), TransportError> {
        for (id, packets) in combination.members.iter() {
            let Some(path) = self.paths.get_mut(&id) else { continue };
            let mut any = false;
            for number in packets.packets().filter(|n| path.space.received.is_rebuilt(*n)) {
                path.unreported.push(number);
                any = true;
            }
            if any {
                self.queue_control(ControlFrame::Recovered { path: id })?;
            }
        }
        Ok(())
    }

    fn on_rebuilt_in_block(
        &mut self,
        now: Instant,
        rebuilt: Vec<RebuiltPacket>,
    ) -> Result<(), TransportError> {
        for (path, number, plaintext) in rebuilt {
            self.on_rebuilt(now, path, number, &plaintext)?;
        }
        Ok(())
    }

    pub(in crate::connection) fn on_repair(
        &mut self,
        now: Instant,
        repair: &Repair<'_>,
    ) -> Result<(), TransportError> {
        if repair.members.packet_count() > u64::from(self.config.repair.k_max) {
            let reason = "repair block larger than we allow";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        // A path that is gone, or whose first packet was lost: nothing to rebuild from.
        let Some(path) = self.paths.get(&repair.path) else { return Ok(()) };
        if !self.repair.decoder.admits_repair(repair) {
            return Ok(());
        }
        let rebuilt = self.repair.decoder.on_repair(repair, &path.space.received);
        for (number, plaintext) in rebuilt {
            self.on_rebuilt(now, repair.path, number, &plaintext)?;
        }
        Ok(())
    }

    /// Deals with the frames of a rebuilt packet and tells the sender.
    fn on_rebuilt(
        &mut self,
        now: Instant,
        path: PathId,
        packet: u64,
        plaintext: &[u8],
    ) -> Result<(), TransportError> {
        let Some(received) = self.paths.get_mut(&path).map(|p| &mut p.space.received) else { return Ok(()) };
        // A symbol too many may rebuild what has arrived: its frames must not be processed twice.
        if received.is_settled(packet) {
            return Ok(());
        }
        received.on_rebuilt(packet);
        let context = FrameContext {
            level: Level::OneRtt,
            path,
            phase: KeyPhase::Current,
            rebuilt: true,
            elsewhere: None,
        };
        self.observe_received(now, &context, packet, plaintext);
        self.on_payload(now, context, plaintext)?;
        if let Some(path) = self.paths.get_mut(&path) {
            path.unreported.push(packet);
        }
        self.queue_control(ControlFrame::Recovered { path })
    }

    /// The peer rebuilt packets of ours: their data has arrived, though their path lost them.
    pub(in crate::connection) fn on_recovered(
        &mut self,
        recovered: &Recovered<'_>,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get(&recovered.path) else { return Ok(()) };
        if recovered.packets.largest() >= path.space.sent.next_number() {
            let reason = "RECOVERED for a packet that was never sent";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        for number in recovered.packets.packets() {
            let Some(path) = self.paths.get_mut(&recovered.path) else { break };
            let packet = path.space.sent.get_mut(number);
            if packet.as_ref().is_some_and(|packet| packet.repaired) {
                continue;
            }
            // A report may come twice; what is no longer on record shows by what was waiting for it.
            let news = match packet {
                Some(packet) => {
                    packet.repaired = true;
                    self.streams.on_acked(&packet.frames.streams);
                    for range in &packet.frames.crypto {
                        self.handshake.crypto_mut(Level::OneRtt).on_acked(*range);
                    }
                    let control = core::mem::take(&mut packet.frames.control);
                    let block = packet.block;
                    self.on_control_delivered(&control);
                    self.cover_in_blocks(recovered.path, number, block);
                    true
                }
                None => {
                    let mended = self.note_mended(recovered.path, number);
                    self.cover_in_blocks(recovered.path, number, None) || mended
                }
            };
            if news {
                self.stats.peer_recovered += 1;
                if let Some(path) = self.paths.get_mut(&recovered.path) {
                    path.counters.repaired_by_peer += 1;
                }
            }
        }
        Ok(())
    }

    /// A recovery copy was acknowledged: if its original is not, that one's data has arrived all the same.
    pub(in crate::connection) fn on_copy_delivered(&mut self, of: PathId, number: u64) {
        let Some(path) = self.paths.get_mut(&of) else { return };
        match path.space.sent.get_mut(number) {
            Some(original) => original.copy_delivered = true,
            None => _ = self.note_mended(of, number),
        }
    }

    /// A packet was declared lost. If recovery has protected it, the answer may still show that it was in time.
    pub(in crate::connection) fn note_lost_for_recovery(
        &mut self,
        of: PathId,
        number: u64,
        packet: &SentPacket,
    ) {
        // Only what counts as lost can count as mended.
        let counts = |path: &&mut Path| packet.in_flight && packet.epoch == path.epoch;
        let Some(path) = self.paths.get_mut(&of).filter(counts) else { return };
        if packet.repaired || packet.copy_delivered {
            path.counters.mended += 1;
            self.stats.packets_mended += 1;
        } else if packet.coded || packet.reinjected {
            path.lost_protected.push(number);
        }
    }

    /// The data of a packet that is not on record has arrived. True if it was a loss that this mends.
    fn note_mended(&mut self, of: PathId, number: u64) -> bool {
        let Some(path) = self.paths.get_mut(&of) else { return false };
        let mended = path.lost_protected.take(number);
        if mended {
            path.counters.mended += 1;
            self.stats.packets_mended += 1;
        }
        mended
    }

    /// Appends the frames of the oldest un-ACKed packet, or of one `newer` packets after it, once more, for a probe.
    pub(in crate::connection) fn write_oldest_again(
        &mut self,
        id: PathId,
        newer: usize,
        builder: &mut PacketBuilder,
        out: &mut Vec<u8>,
    ) {
        let Some(path) = self.paths.get(&id) else { return };
        let waiting = path
            .space
            .sent
            .iter()
            .filter(|(_, p)| p.frames.carries_data() && !p.repaired && p.block.is_none());
        if let Some(frames) = waiting.take(newer + 1).last().map(|(_, p)| p.frames.clone()) {
            self.write_frames_again(&frames, builder, out);
        }
    }
}
