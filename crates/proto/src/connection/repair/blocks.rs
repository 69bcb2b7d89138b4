//! Data in blocks (scheme 2, docs/wire-format.md): which packet of which block is next, and what
//! its fate means.
//!
//! `sender` keeps the blocks that we send, `receiver` those that the peer sends. Here they meet
//! paths, streams and the wire.

pub(in crate::connection::repair) mod receiver;
mod sender;

use recovery::PacketNumber;
use units::Instant;

use crate::{
    PacketPurpose,
    connection::{Connection, packet::Built},
    crypto::{Level, TAG_LEN},
    path::sent::{ControlFrame, SentFrames, SentPacket},
    policy::{Ahead, BlockSource, Coding, RecoveryEvent},
    streams::SentStreamFrames,
    wire::{Combination, PathId, TransportError, TransportErrorCode},
};
use receiver::RebuiltPacket;
pub(super) use sender::Blocks;
use sender::Member;

/// Longest header of a 1-RTT packet, besides the connection id.
const SHORT_HEADER: usize = 1 + 4;
/// How much longer the packet number of a combination may be than those of its sources.
const PN_GROWTH: usize = 3;
/// Answers of a policy for one packet that may come to nothing: more than there can be blocks.
const MAX_ANSWERS: usize = 1 << 17;

/// A source's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Place {
    pub(in crate::connection) block: u64,
    /// The block gets no more sources after it.
    last: bool,
}

/// What the next packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Next {
    /// Data in no block, if any waits.
    Data,
    /// What is neither stream data nor datagrams, for which a combination is about to leave.
    Control,
    /// Data, as a source of a block.
    Source(Place),
    /// A combination.
    Combination { block: u64, index: u32 },
    /// A copy.
    Copy { packet: PacketNumber, of: PathId, on: PathId },
}

impl Connection {
    /// What is to be sent next, if the window lets a packet go.
    pub(in crate::connection) fn next_packet(&mut self, now: Instant) -> Next {
        for _ in 0..MAX_ANSWERS {
            // Failing blocks may make data wait that did not.
            let waits = self.streams.has_data() || self.datagrams.has_pending();
            let bytes = self.paths.values().map(|p| p.datagram_size() as u64).max().unwrap_or(0);
            match self.repair.policy.ahead_of_data(now, waits.then_some(bytes)) {
                Ahead::Nothing => return Next::Data,
                Ahead::Copy { packet, of, on } => return Next::Copy { packet, of, on },
                Ahead::Source { block, last } => return Next::Source(Place { block, last }),
                Ahead::Close { block } => self.close_block(now, block),
                Ahead::Combination { block, index } => {
                    if !self.is_needed(block) {
                        self.remove_block(now, block);
                    } else if self.repair.blocks.is_hopeless(block, index) || !self.has_path_for(block, index)
                    {
                        self.fail_block(now, block);
                    } else if !self.control.is_empty() || self.streams.has_control() {
                        return Next::Control;
                    } else {
                        return Next::Combination { block, index };
                    }
                }
            }
        }
        Next::Data
    }

    fn close_block(&mut self, now: Instant, block: u64) {
        if self.repair.blocks.close(block) {
            self.remove_block(now, block);
        }
    }

    /// Whether the next packet of `path` can be a member of `block`: the names of all members must
    /// fit the headroom. If not, the block is closed, and the next packet begins another.
    pub(in crate::connection) fn may_join(&mut self, now: Instant, block: u64, path: PathId) -> bool {
        let Some(on) = self.paths.get(&path) else { return true };
        let named = self.repair.blocks.naming_len(block, path, on.space().next_number());
        let first = self.repair.blocks.get(block).is_none();
        if named + fec::PREFIX + PN_GROWTH <= self.repair.headroom() || first {
            return true;
        }
        self.repair.on_event(now, &RecoveryEvent::BlockClosed { block });
        self.close_block(now, block);
        false
    }

    /// The place of the packet with `frames` that is about to leave on `path`, if it has one; then
    /// its plaintext is kept.
    pub(in crate::connection) fn place_of(
        &mut self,
        next: Next,
        path: PathId,
        frames: &SentFrames,
    ) -> Option<Place> {
        if self.repair.policy.coding() != Coding::Blocks {
            return None;
        }
        let place = match next {
            Next::Source(place) if frames.is_worth_coding() => Some(place),
            _ => None,
        };
        self.repair.keep_sources = place.is_some();
        if next == Next::Data
            && frames.is_worth_coding()
            && let Some(path) = self.paths.get_mut(&path)
        {
            path.count_unprotected();
        }
        place
    }

    /// A data packet has been built that was to be a source. `None` if there was no memory for
    /// another.
    pub(in crate::connection) fn on_source_built(
        &mut self,
        path: PathId,
        number: u64,
        place: Place,
    ) -> Option<BlockSource> {
        let record = self.paths.sent_packet_mut(path, number)?;
        let plaintext = record.source.take_plaintext();
        if plaintext.is_empty() {
            return None;
        }
        record.join_block(place.block);
        let bytes = plaintext.len() as u64;
        let datagram = record.frames.datagram;
        let member = Member { path, number, plaintext, covered: false, lost: None, datagram };
        self.repair.blocks.on_source_sent(place, member);
        Some(BlockSource { block: place.block, bytes })
    }

    /// Size of a packet with a combination.
    fn combination_size(&self, block: u64, index: u32) -> usize {
        let ids = self.paths.values().filter_map(|path| self.cids.remote(path.id()));
        let cid_len = ids.map(|cid| cid.len()).max().unwrap_or_default();
        SHORT_HEADER + cid_len + self.repair.blocks.frame_len(block, index) + TAG_LEN
    }

    /// Whether any path carries a packet with a combination of the block. One that is a backup, or
    /// silent, while another works does not: nobody knows how long the block would wait for it.
    fn has_path_for(&self, block: u64, index: u32) -> bool {
        let (size, usable) = (self.combination_size(block, index), self.usable());
        self.paths.values().any(|p| usable(p) && p.datagram_size() >= size)
    }

    /// Sends a combination on the path of the scheduler's choice.
    pub(in crate::connection) fn build_combination(
        &mut self,
        now: Instant,
        block: u64,
        index: u32,
        out: &mut Vec<u8>,
    ) -> Option<PathId> {
        let size = self.combination_size(block, index);
        let queued = self.streams.sendable_bytes() + size as u64;
        let on = self.choose_path(now, queued, size)?;
        self.send_combination(now, on, (block, index), PacketPurpose::Repair, out)?;
        Some(on)
    }

    fn send_combination(
        &mut self,
        now: Instant,
        on: PathId,
        (block, index): (u64, u32),
        purpose: PacketPurpose,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let mut builder = self.begin_full(on, out)?;
        let start = out.len();
        let written = self.repair.blocks.write(block, index, out);
        if !written || out.len() > builder.limit {
            out.truncate(start);
        }
        builder.ack_eliciting = true;
        let built = self.finish_packet(now, builder, purpose, out)?;
        self.stats.repair_symbols_sent += 1;
        self.stats.recovery_bytes_sent += built.size as u64;
        let rtt = self.paths.get(&on)?.expected_rtt(now);
        self.repair.blocks.on_combination_sent(block);
        let number = PacketNumber(built.number);
        let sent = RecoveryEvent::CombinationSent { block, index, path: on, number, rtt };
        self.repair.on_event(now, &sent);
        Some(built)
    }

    /// A combination as a probe of a path, of at most `size` bytes: it tells the peer more than any
    /// packet sent before.
    pub(in crate::connection) fn send_coded_probe(
        &mut self,
        now: Instant,
        on: PathId,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        match self.next_packet(now) {
            Next::Combination { block, index } if self.combination_size(block, index) <= size => {
                self.send_combination(now, on, (block, index), PacketPurpose::Probe, out)
            }
            _ => None,
        }
    }

    // ---- receiving

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
            |path: PathId, number| paths.get(&path).is_some_and(|p| p.received().is_settled(number));
        match self.repair.decoder.on_combination(combination, is_settled) {
            Some(rebuilt) => self.on_rebuilt_in_block(now, rebuilt),
            None => self.report_again(combination),
        }
    }

    /// The sender does not seem to know that we have the block: the RECOVERED that told it may be
    /// lost.
    fn report_again(&mut self, combination: &Combination<'_>) -> Result<(), TransportError> {
        for (id, packets) in combination.members.iter() {
            let Some(path) = self.paths.get_mut(&id) else { continue };
            let mut any = false;
            for number in packets.packets() {
                if path.received().is_rebuilt(number) {
                    path.report_rebuilt(number);
                    any = true;
                }
            }
            if any {
                self.queue_control(ControlFrame::Recovered { path: id })?;
            }
        }
        Ok(())
    }

    pub(super) fn on_rebuilt_in_block(
        &mut self,
        now: Instant,
        rebuilt: Vec<RebuiltPacket>,
    ) -> Result<(), TransportError> {
        for (path, number, plaintext) in rebuilt {
            self.on_rebuilt(now, path, number, &plaintext)?;
        }
        Ok(())
    }

    // ---- what becomes of packets

    /// A packet was acknowledged on its path.
    pub(in crate::connection) fn on_acked_in_blocks(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        packet: &SentPacket,
    ) {
        if packet.is_in_flight()
            && let Some(block) = packet.block()
            && self.repair.blocks.cover(block, path, number).1
        {
            self.remove_block(now, block);
        }
    }

    /// A packet was declared lost. What a source carried for streams stays with its block.
    pub(in crate::connection) fn on_lost_in_blocks(
        &mut self,
        path: PathId,
        number: u64,
        packet: &mut SentPacket,
    ) {
        let Some(block) = packet.block() else { return };
        if packet.is_rebuilt() {
            return;
        }
        let ranges = SentStreamFrames::of_ranges(core::mem::take(&mut packet.frames.streams.ranges));
        if let Err(frames) = self.repair.blocks.hold(block, path, number, ranges) {
            packet.frames.streams.ranges = frames.ranges;
        }
    }

    /// The peer has the content of a packet, without its path having delivered it in time: it was
    /// rebuilt, or came late.
    pub(in crate::connection) fn cover_in_blocks(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        block: Option<u64>,
    ) -> bool {
        let Some(block) = block.or_else(|| self.repair.blocks.find(path, number)) else { return false };
        let (lost, complete) = self.repair.blocks.cover(block, path, number);
        let waited = lost.is_some();
        if let Some(frames) = lost {
            self.streams.on_acked(&frames);
        }
        if complete {
            self.remove_block(now, block);
        }
        waited
    }

    /// Makes pending again what a packet carried beside a block's stream ranges, which wait for the
    /// block.
    pub(in crate::connection) fn requeue_for_other_paths(
        &mut self,
        packet_block: Option<u64>,
        frames: &mut SentFrames,
    ) {
        if packet_block.is_none() {
            return self.requeue(Level::OneRtt, frames);
        }
        let ranges = core::mem::take(&mut frames.streams.ranges);
        self.requeue(Level::OneRtt, frames);
        frames.streams = SentStreamFrames::of_ranges(ranges);
    }

    // ---- the end of blocks

    /// Whether the peer may lack anything of a block that it still needs: a stream may have been
    /// reset, or delivered by other packets.
    fn is_needed(&self, block: u64) -> bool {
        let Some(held) = self.repair.blocks.get(block) else { return false };
        held.members().iter().filter(|m| !m.covered).any(|member| {
            let lost = member.lost.as_ref().is_some_and(|frames| self.streams.unacked_data(frames));
            let record = self.paths.sent_packet(member.path, member.number);
            lost || member.datagram || record.is_some_and(|r| self.streams.unacked_data(&r.frames.streams))
        })
    }

    /// The peer has a block, or needs nothing of it any more.
    fn remove_block(&mut self, now: Instant, block: u64) {
        self.repair.on_event(now, &RecoveryEvent::BlockSettled { block });
        let Some(removed) = self.repair.blocks.remove(block) else { return };
        for member in removed.into_members() {
            self.repair.recycle(member.plaintext);
        }
    }

    /// A block cannot be decoded: what its lost packets carried becomes pending again, and the
    /// others are packets as any.
    fn fail_block(&mut self, now: Instant, block: u64) {
        let Some(removed) = self.repair.blocks.remove(block) else { return };
        self.repair.on_event(now, &RecoveryEvent::BlockSettled { block });
        for member in removed.into_members() {
            if let Some(mut frames) = member.lost {
                self.streams.on_lost(&mut frames);
            } else if let Some(record) = self.paths.sent_packet_mut(member.path, member.number) {
                record.leave_block();
                // A probe timeout has moved everything else to other paths.
                if record.is_resent() && !record.is_rebuilt() {
                    self.streams.on_lost(&mut record.frames.streams);
                }
            }
            self.repair.recycle(member.plaintext);
        }
    }

    /// A path is given up, and with it what the receiver keeps of it: no block with a packet of it
    /// can be decoded.
    pub(in crate::connection) fn fail_blocks_of(&mut self, now: Instant, path: PathId) {
        for block in self.repair.blocks.on_path(path) {
            self.fail_block(now, block);
        }
    }
}
