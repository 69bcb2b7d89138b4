//! The receiving side: recent plaintexts per path, blocks that wait, and decoding as soon as enough
//! is there.
//!
//! CoFUSO sections 4.3 and 5.3. A block waits while more of its packets are missing than repair
//! symbols have come. It is given up when it turns out that one of its received members is no
//! longer kept (COF-A12), when a newer block needs its place, or when its path is closed.
//!
//! # Bounds
//! Plaintexts and repair symbols together never exceed the budget; at most [`MAX_BLOCKS`] blocks
//! wait. What a hostile peer can make us compute is bounded by the bytes it sends: a block is
//! decoded once at most, and each symbol is paid for out of a [`Credit`] before anything is done
//! about it.

use std::collections::VecDeque;

use fec::reed_solomon::{DecodeScratch, decode};

use super::{
    blocks::receiver::{LinearBlocks, RebuiltPacket},
    credit::{Credit, LOOKUP},
    source_log::SourceLog,
};
use crate::{
    path::received::ReceivedPackets,
    wire::{CodeScheme, Combination, PathId, Repair},
};

/// Blocks that may wait for packets or repair symbols at once.
const MAX_BLOCKS: usize = 64;

/// What the decoder has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received: u64,
    pub(crate) used: u64,
    pub(crate) wasted: u64,
    pub(crate) rebuilt: u64,
    /// Symbols that nothing was done about, because more had come than the peer's bytes pay for.
    pub(crate) refused: u64,
    /// Bytes that were multiplied and added, and [`LOOKUP`] for each packet looked up: what
    /// decoding has cost, counted where it is done.
    pub(crate) work: u64,
    pub(crate) memory_peak: u64,
}

/// A packet that was rebuilt: its number and its plaintext.
pub(crate) type Rebuilt = (u64, Vec<u8>);

struct WaitingBlock {
    path: PathId,
    /// Over the members, so that blocks are told apart without comparing all of these.
    digest: u64,
    members: Vec<u64>,
    missing: usize,
    symbols: Vec<(u8, Vec<u8>)>,
}

impl WaitingBlock {
    fn bytes(&self) -> u64 {
        self.symbols.iter().map(|(_, s)| s.len() as u64).sum::<u64>() + self.members.len() as u64 * 8
    }
}

/// Received plaintexts and waiting blocks of one connection.
pub(crate) struct Decoder {
    budget: u64,
    sources: SourceLog,
    /// Bytes that `blocks` hold.
    block_memory: u64,
    blocks: VecDeque<WaitingBlock>,
    /// Blocks of scheme 2.
    linear: LinearBlocks,
    free: Vec<Vec<u8>>,
    scratch: DecodeScratch,
    credit: Credit,
    counters: Counters,
}

impl Decoder {
    /// A decoder that holds `budget` bytes at most, for blocks of so many members.
    pub(crate) fn new(budget: u64, largest_block: u8) -> Self {
        Self {
            budget,
            credit: Credit::new(largest_block),
            sources: SourceLog::new(budget),
            block_memory: 0,
            blocks: VecDeque::new(),
            linear: LinearBlocks::default(),
            free: Vec::new(),
            scratch: DecodeScratch::new(),
            counters: Counters::default(),
        }
    }

    /// Changes how many bytes are kept from now on.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
        self.sources.set_budget(budget);
        self.make_room();
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { work: self.counters.work + self.sources.moved(), ..self.counters }
    }

    /// Bytes of the peer's have arrived in protected packets: they pay for decoding.
    pub(crate) fn on_bytes(&mut self, bytes: u64) {
        self.credit.earn(bytes);
    }

    /// Pays for a REPAIR frame. If the credit is used up, it counts as received and wasted, and
    /// nothing is to be done about it.
    pub(crate) fn admits_repair(&mut self, repair: &Repair<'_>) -> bool {
        let paid = self.credit.spend(repair.members.packet_count(), repair.symbol.len(), 0);
        self.count_unless(paid)
    }

    /// The same for a COMBINATION.
    pub(crate) fn admits_combination(&mut self, frame: &Combination<'_>) -> bool {
        let members = frame.members.packet_count();
        let paid = self.credit.spend(members, frame.symbol.len(), members / 2);
        self.count_unless(paid)
    }

    fn count_unless(&mut self, paid: bool) -> bool {
        if !paid {
            self.counters.received += 1;
            self.counters.wasted += 1;
            self.counters.refused += 1;
        }
        paid
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> u64 {
        self.sources.memory() + self.block_memory + self.linear.memory()
    }

    /// The bytes held, counted afresh: must be what [`memory`](Self::memory) says.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn recount(&self) -> u64 {
        let blocks = self.blocks.iter().map(WaitingBlock::bytes).sum::<u64>();
        self.sources.recount() + blocks + self.linear.recount()
    }

    /// Keeps an arrived packet's plaintext, and decodes the block that it completes.
    pub(crate) fn on_source(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> Vec<Rebuilt> {
        self.keep(path, number, plaintext);
        let mut rebuilt = Vec::new();
        let mut at = 0;
        while at < self.blocks.len() {
            let block = &mut self.blocks[at];
            let ends = block.members.first().zip(block.members.last());
            let within = block.path == path && ends.is_some_and(|(a, b)| (a..=b).contains(&&number));
            if !within || block.members.binary_search(&number).is_err() {
                at += 1;
                continue;
            }
            block.missing = block.missing.saturating_sub(1);
            if block.missing == 0 {
                self.drop_block(at);
            } else if block.missing <= block.symbols.len() {
                rebuilt.extend(self.decode_block(at));
            } else {
                at += 1;
            }
        }
        rebuilt
    }

    /// Takes a repair symbol; `received` tells which packets of the protected path have arrived.
    pub(crate) fn on_repair(&mut self, repair: &Repair<'_>, received: &ReceivedPackets) -> Vec<Rebuilt> {
        self.counters.received += 1;
        let index = u8::try_from(repair.symbol_id).ok();
        let (CodeScheme::ReedSolomon, Some(index)) = (repair.scheme, index) else {
            self.counters.wasted += 1;
            return Vec::new();
        };
        let Some(at) = self.find_or_open(repair, received) else {
            self.counters.wasted += 1;
            return Vec::new();
        };
        let block = &mut self.blocks[at];
        let len = repair.symbol.len();
        let repeated = block.symbols.iter().any(|(i, s)| *i == index || s.len() != len);
        if repeated {
            self.counters.wasted += 1;
            return Vec::new();
        }
        let mut symbol = self.free.pop().unwrap_or_default();
        symbol.clear();
        symbol.extend_from_slice(repair.symbol);
        block.symbols.push((index, symbol));
        let ready = block.missing <= block.symbols.len();
        self.block_memory += len as u64;
        if ready {
            return self.decode_block(at);
        }
        // Only now: making room may drop blocks, and then `at` names another one.
        self.make_room();
        Vec::new()
    }

    /// What a packet that [`on_source`](Self::on_source) has taken tells about blocks of scheme 2.
    pub(crate) fn on_block_source(
        &mut self,
        path: PathId,
        number: u64,
        plaintext: &[u8],
    ) -> Vec<RebuiltPacket> {
        let rebuilt = self.linear.on_source(path, number, plaintext, &mut self.sources, &mut self.counters);
        self.make_room();
        rebuilt
    }

    /// Takes a combination; `is_settled` tells which packets have arrived or were rebuilt. `None`:
    /// all of the block's are, so it comes too late.
    pub(crate) fn on_combination(
        &mut self,
        frame: &Combination<'_>,
        is_settled: impl Fn(PathId, u64) -> bool,
    ) -> Option<Vec<RebuiltPacket>> {
        self.counters.received += 1;
        self.counters.work += LOOKUP * frame.members.packet_count();
        if frame.members.packets().all(|(path, number)| is_settled(path, number)) {
            self.counters.wasted += 1;
            return None;
        }
        // A sender keeps to half of the budget.
        let max_pinned = self.budget / 4 * 3;
        let rebuilt = self.linear.on_combination(frame, &mut self.sources, max_pinned, &mut self.counters);
        self.make_room();
        Some(rebuilt)
    }

    /// A combination that nothing can be done with.
    pub(crate) fn on_useless_combination(&mut self) {
        self.counters.received += 1;
        self.counters.wasted += 1;
    }

    /// The waiting block that the symbol belongs to, or a new one; `None` if nothing of it is
    /// missing or it cannot be decoded.
    fn find_or_open(&mut self, repair: &Repair<'_>, received: &ReceivedPackets) -> Option<usize> {
        self.counters.work += LOOKUP * repair.members.packet_count();
        let digest = digest(repair.members.packets());
        let same = |b: &WaitingBlock| {
            b.digest == digest
                && b.path == repair.path
                && repair.members.packets().eq(b.members.iter().copied())
        };
        if let Some(at) = self.blocks.iter().position(same) {
            return Some(at);
        }
        let mut missing = 0;
        let mut kept = self.sources.walk(repair.path);
        for number in repair.members.packets() {
            if kept.has(number) {
                continue;
            }
            // Arrived, but no longer kept: the block can never be decoded.
            if received.is_settled(number) {
                return None;
            }
            missing += 1;
        }
        // More may be missing than the block has symbols: a repair symbol that took a faster path
        // is here before its sources.
        if missing == 0 {
            return None;
        }
        if self.blocks.len() >= MAX_BLOCKS {
            self.drop_block(0);
        }
        let members: Vec<u64> = repair.members.packets().collect();
        let block = WaitingBlock { path: repair.path, digest, members, missing, symbols: Vec::new() };
        self.block_memory += block.bytes();
        self.blocks.push_back(block);
        Some(self.blocks.len() - 1)
    }

    /// Decodes and removes a block that has enough symbols.
    fn decode_block(&mut self, at: usize) -> Vec<Rebuilt> {
        let Some(block) = self.blocks.remove(at) else { return Vec::new() };
        self.block_memory = self.block_memory.saturating_sub(block.bytes());
        let sources: Vec<Option<&[u8]>> =
            block.members.iter().map(|n| self.sources.get(block.path, *n)).collect();
        let symbols: Vec<(u8, &[u8])> = block.symbols.iter().map(|(i, s)| (*i, s.as_slice())).collect();
        let lost = sources.iter().filter(|s| s.is_none()).count();
        let symbol_len = symbols.first().map_or(0, |(_, s)| s.len());
        self.counters.work += block.members.len() as u64 * (LOOKUP + (lost * symbol_len) as u64);
        let rebuilt: Vec<Rebuilt> = match decode(&sources, &symbols, &mut self.scratch) {
            Ok(rebuilt) => rebuilt.map(|(i, bytes)| (block.members[i], bytes.to_vec())).collect(),
            Err(_) => Vec::new(),
        };
        let used = if rebuilt.is_empty() { 0 } else { lost as u64 };
        self.counters.used += used;
        self.counters.wasted += block.symbols.len() as u64 - used;
        self.counters.rebuilt += rebuilt.len() as u64;
        for (number, plaintext) in &rebuilt {
            // Other blocks may need it.
            self.keep(block.path, *number, plaintext);
        }
        self.recycle_block(block);
        rebuilt
    }

    fn drop_block(&mut self, at: usize) {
        let Some(block) = self.blocks.remove(at) else { return };
        self.block_memory = self.block_memory.saturating_sub(block.bytes());
        self.counters.wasted += block.symbols.len() as u64;
        self.recycle_block(block);
    }

    fn recycle_block(&mut self, block: WaitingBlock) {
        for (_, symbol) in block.symbols {
            self.recycle(symbol);
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.free.len() < 32 {
            self.free.push(buffer);
        }
    }

    fn keep(&mut self, path: PathId, number: u64, plaintext: &[u8]) {
        self.sources.keep(path, number, plaintext);
        self.make_room();
    }

    /// Keeps to the budget: the oldest plaintexts go first, but for those that a block of scheme 2
    /// relies on; then the oldest blocks, also if so little of the plaintexts is free to go that
    /// moving the others costs more than that gains. A block of scheme 1 that needs a plaintext
    /// which is gone is found out when it is to be decoded.
    fn make_room(&mut self) {
        let mut slabs = self.sources.slabs();
        while self.memory() > self.budget {
            // Pinned plaintexts move to the end: once around is enough to know that the rest is
            // pinned.
            if slabs > 0 && self.sources.is_mostly_free() && self.sources.evict_oldest() {
                slabs -= 1;
                continue;
            }
            if self.linear.drop_oldest(&mut self.sources, &mut self.counters) {
                slabs = self.sources.slabs();
                continue;
            }
            if self.blocks.is_empty() {
                break;
            }
            self.drop_block(0);
        }
        self.counters.memory_peak = self.counters.memory_peak.max(self.memory());
    }

    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.sources.forget_path(path);
        self.linear.forget_path(path, &mut self.sources, &mut self.counters);
        while let Some(at) = self.blocks.iter().position(|b| b.path == path) {
            self.drop_block(at);
        }
    }
}

/// Some number that differs for different sets of packets, but for rare ones.
fn digest(packets: impl Iterator<Item = u64>) -> u64 {
    packets
        .fold(0, |digest: u64, number| (digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Frame, Frames, RepairHeader, Runs};

    /// REPAIR number 0 of `members`, the XOR of `sources`.
    fn repair_frame(members: &[u64], sources: &[&[u8]]) -> Vec<u8> {
        let mut symbol = vec![0; fec::symbol_len(sources)];
        fec::xor::encode(sources, &mut symbol).unwrap();
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme: CodeScheme::ReedSolomon,
            repair_count: 1,
            symbol_id: 0,
            symbol_len: symbol.len(),
        };
        let mut frame = Vec::new();
        header.encode(Runs::new(members.iter().copied()), &mut frame);
        frame.extend_from_slice(&symbol);
        frame
    }

    fn receive(decoder: &mut Decoder, frame: &[u8]) -> Vec<Rebuilt> {
        let Some(Ok(Frame::Repair(repair))) = Frames::new(frame).next() else { panic!("a REPAIR frame") };
        decoder.on_repair(&repair, &ReceivedPackets::default())
    }

    /// Making room for the symbol drops an older block; the index of the one that is ready then
    /// named nothing.
    #[test]
    fn a_ready_block_is_decoded_although_the_memory_is_full() {
        let mut decoder = Decoder::new(3_600, 128);
        let (old, new, lost) = ([1; 1_000], [2; 1_000], [3; 1_000]);
        decoder.on_source(PathId::ZERO, 0, &old);
        assert!(receive(&mut decoder, &repair_frame(&[0, 100, 101], &[&old, &lost, &lost])).is_empty());
        decoder.on_source(PathId::ZERO, 10, &new);
        let rebuilt = receive(&mut decoder, &repair_frame(&[10, 11], &[&new, &lost]));
        assert_eq!(rebuilt, [(11, lost.to_vec())]);
        assert!(decoder.memory() <= 3_600);
    }
}
