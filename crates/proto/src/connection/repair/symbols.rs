//! Repair symbols over the un-ACKed packets of a path (schemes 1 and 3, docs/wire-format.md).

pub(super) mod receiver;
mod sender;
pub(super) mod windows;

use recovery::cofuso::Block;
use units::Instant;

use crate::{
    PacketPurpose,
    connection::{Connection, packet::Built},
    path::sent::SentPacket,
    wire::{CodeScheme, PathId, Repair, RepairHeader, TransportError, TransportErrorCode},
};
pub(super) use sender::EncodedBlock;

impl Connection {
    // ---- sending

    /// Sends repair symbol `index` of a block; the first one makes the block.
    pub(super) fn send_repair(
        &mut self,
        now: Instant,
        block: &Block,
        index: u16,
        of: PathId,
        on: PathId,
        out: &mut Vec<u8>,
    ) -> Option<Built> {
        let mut builder = self.begin_full(on, out)?;
        let start = out.len();
        let made = index > 0 || self.make_block(block, of, builder.limit - start);
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        if made
            && let Some(encoded) = self.repair.block(of)
            && let Some(symbol) = encoded.symbol(index)
        {
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
        self.stats.repair_symbols_sent += 1;
        self.stats.recovery_bytes_sent += built.size as u64;
        Some(built)
    }

    /// Codes the block's packets.
    fn make_block(&mut self, block: &Block, of: PathId, room: usize) -> bool {
        let members = self.choose_members(block, of, room);
        let Some(path) = self.paths.get_mut(&of) else { return false };
        for number in block.first.0..=block.last.0 {
            if let Some(packet) = path.sent_mut(number).filter(|p| p.is_codable()) {
                packet.on_coded();
            }
        }
        // One behind the other: this is no connection's memory for longer than coding takes.
        let (mut plaintexts, mut ends) = (Vec::new(), Vec::with_capacity(members.len()));
        for packet in members.iter().filter_map(|number| path.sent().get(*number)) {
            packet.source.write_plaintext(&packet.frames.streams.ranges, &self.streams, &mut plaintexts);
            ends.push(plaintexts.len());
        }
        let starts = core::iter::once(&0).chain(&ends);
        let sources: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &plaintexts[*start..*end]).collect();
        // As many symbols as the policy may ever ask for.
        let most = fec::MAX_BLOCK - members.len().min(fec::MAX_SOURCES);
        let count = usize::from(self.config.repair.m_max).max(usize::from(block.m)).min(most) as u8;
        !members.is_empty() && self.repair.encode(of, &members, &sources, count)
    }

    /// Those of the block's packets whose plaintexts can be made and whose numbers lie close enough
    /// together to be named within `room`.
    fn choose_members(&self, block: &Block, of: PathId, room: usize) -> Vec<u64> {
        let Some(path) = self.paths.get(&of) else { return Vec::new() };
        let in_block = |(n, p): &(u64, &SentPacket)| *n <= block.last.0 && p.is_codable();
        let mut members: Vec<u64> = Vec::with_capacity(usize::from(block.k));
        let (mut named, mut longest) = (0, 0);
        for (number, packet) in path.sent().iter_from(block.first.0).filter(in_block) {
            if members.len() == usize::from(block.k) {
                break;
            }
            let ranges = &packet.frames.streams.ranges;
            let Some(len) = packet.source.plaintext_len(ranges, &self.streams) else { continue };
            named += match members.last() {
                None => 12,
                Some(last) if last + 1 == number => 0,
                Some(_) => 4,
            };
            longest = longest.max(len);
            if 16 + named + 2 + longest > room {
                break;
            }
            members.push(number);
        }
        members
    }

    // ---- receiving

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
        let rebuilt = self.repair.decoder.on_repair(repair, path.received());
        for (number, plaintext) in rebuilt {
            self.on_rebuilt(now, repair.path, number, &plaintext)?;
        }
        Ok(())
    }
}
