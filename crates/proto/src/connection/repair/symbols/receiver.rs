//! The receiver of repair symbols: blocks that wait for packets or further symbols.
//!
//! CoFUSO sections 4.3 and 5.3. A block waits while more of its packets are missing than repair
//! symbols have come. It is given up when it turns out that one of its received members is no
//! longer kept (COF-A12), when a newer block needs its place, or when its path is closed.

use std::collections::VecDeque;

use fec::reed_solomon::{DecodeScratch, decode};

use crate::{
    connection::repair::{counters::Counters, credit::LOOKUP, source_log::SourceLog},
    path::received::ReceivedPackets,
    wire::{CodeScheme, PathId, Repair},
};

/// Blocks that may wait for packets or repair symbols at once.
const MAX_BLOCKS: usize = 64;
/// Buffers of symbols that are kept for the next ones.
const MAX_FREE: usize = 32;

/// A packet that was rebuilt: its number and its plaintext.
pub(crate) type Rebuilt = (u64, Vec<u8>);

/// A block of which a symbol has come.
pub(crate) struct WaitingBlock {
    path: PathId,
    /// Over the members, so that blocks are told apart without comparing all of these.
    digest: u64,
    members: Vec<u64>,
    missing: usize,
    symbols: Vec<(u8, Vec<u8>)>,
}

impl WaitingBlock {
    /// The path whose packets it protects.
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    fn bytes(&self) -> u64 {
        self.symbols.iter().map(|(_, s)| s.len() as u64).sum::<u64>() + self.members.len() as u64 * 8
    }

    fn has_member(&self, path: PathId, number: u64) -> bool {
        let ends = self.members.first().zip(self.members.last());
        let within = self.path == path && ends.is_some_and(|(a, b)| (a..=b).contains(&&number));
        within && self.members.binary_search(&number).is_ok()
    }

    /// Whether so many symbols have come as packets are missing.
    fn is_ready(&self) -> bool {
        self.missing <= self.symbols.len()
    }
}

/// What became of a repair symbol.
pub(crate) enum Taken {
    /// Nothing can be done with it.
    Useless,
    /// It waits with its block.
    Waits,
    /// Its block can be decoded, and waits no longer.
    Ready(WaitingBlock),
}

/// The blocks of one connection that wait, [`MAX_BLOCKS`] at most, the oldest first.
#[derive(Default)]
pub(crate) struct WaitingBlocks {
    blocks: VecDeque<WaitingBlock>,
    /// Bytes that `blocks` hold.
    memory: u64,
    free: Vec<Vec<u8>>,
    /// Boxed, since most connections decode nothing most of the time.
    scratch: Option<Box<DecodeScratch>>,
}

impl WaitingBlocks {
    /// Nothing has come for long: gives up the buffers that are not in use.
    pub(crate) fn rest(&mut self) {
        (self.free, self.scratch) = (Vec::new(), None);
        self.blocks.shrink_to_fit();
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// The bytes held, counted afresh.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn recount(&self) -> u64 {
        self.blocks.iter().map(WaitingBlock::bytes).sum()
    }

    /// A packet has arrived or was rebuilt: takes out the blocks that can be decoded by it, the oldest
    /// first. Those of which nothing is missing any more are dropped.
    pub(crate) fn take_ready(
        &mut self,
        path: PathId,
        number: u64,
        counters: &mut Counters,
    ) -> Vec<WaitingBlock> {
        let (mut ready, mut at) = (Vec::new(), 0);
        while at < self.blocks.len() {
            let block = &mut self.blocks[at];
            if !block.has_member(path, number) {
                at += 1;
                continue;
            }
            block.missing = block.missing.saturating_sub(1);
            if block.missing == 0 {
                self.drop_block(at, counters);
            } else if block.is_ready() {
                ready.extend(self.remove(at));
            } else {
                at += 1;
            }
        }
        ready
    }

    /// Takes a repair symbol; `received` tells which packets of the protected path have arrived,
    /// `sources` which are kept.
    pub(crate) fn take(
        &mut self,
        repair: &Repair<'_>,
        received: &ReceivedPackets,
        sources: &SourceLog,
        counters: &mut Counters,
    ) -> Taken {
        let index = u8::try_from(repair.symbol_id).ok();
        let (CodeScheme::ReedSolomon, Some(index)) = (repair.scheme, index) else { return Taken::Useless };
        let Some(at) = self.find_or_open(repair, received, sources, counters) else {
            return Taken::Useless;
        };
        let block = &mut self.blocks[at];
        let len = repair.symbol.len();
        if block.symbols.iter().any(|(i, s)| *i == index || s.len() != len) {
            return Taken::Useless;
        }
        let mut symbol = self.free.pop().unwrap_or_default();
        symbol.clear();
        symbol.extend_from_slice(repair.symbol);
        block.symbols.push((index, symbol));
        let ready = block.is_ready();
        self.memory += len as u64;
        let block = if ready { self.remove(at) } else { None };
        block.map_or(Taken::Waits, Taken::Ready)
    }

    /// The waiting block that the symbol belongs to, or a new one; `None` if nothing of it is
    /// missing or it cannot be decoded.
    fn find_or_open(
        &mut self,
        repair: &Repair<'_>,
        received: &ReceivedPackets,
        sources: &SourceLog,
        counters: &mut Counters,
    ) -> Option<usize> {
        counters.work += LOOKUP * repair.members.packet_count();
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
        let mut kept = sources.walk(repair.path);
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
            self.drop_block(0, counters);
        }
        let members: Vec<u64> = repair.members.packets().collect();
        let block = WaitingBlock { path: repair.path, digest, members, missing, symbols: Vec::new() };
        self.memory += block.bytes();
        self.blocks.push_back(block);
        Some(self.blocks.len() - 1)
    }

    /// Decodes a block that has enough symbols. Nothing comes of it if a member that had arrived is
    /// no longer kept.
    pub(crate) fn decode(
        &mut self,
        block: WaitingBlock,
        sources: &SourceLog,
        counters: &mut Counters,
    ) -> Vec<Rebuilt> {
        let kept: Vec<Option<&[u8]>> = block.members.iter().map(|n| sources.get(block.path, *n)).collect();
        let symbols: Vec<(u8, &[u8])> = block.symbols.iter().map(|(i, s)| (*i, s.as_slice())).collect();
        let lost = kept.iter().filter(|s| s.is_none()).count();
        let symbol_len = symbols.first().map_or(0, |(_, s)| s.len());
        counters.work += block.members.len() as u64 * (LOOKUP + (lost * symbol_len) as u64);
        let rebuilt: Vec<Rebuilt> = match decode(&kept, &symbols, self.scratch.get_or_insert_default()) {
            Ok(rebuilt) => rebuilt.map(|(i, bytes)| (block.members[i], bytes.to_vec())).collect(),
            Err(_) => Vec::new(),
        };
        let used = if rebuilt.is_empty() { 0 } else { lost as u64 };
        counters.used += used;
        counters.wasted += block.symbols.len() as u64 - used;
        counters.rebuilt += rebuilt.len() as u64;
        self.recycle(block);
        rebuilt
    }

    /// Gives up the block that has waited longest; false if none waits.
    pub(crate) fn drop_oldest(&mut self, counters: &mut Counters) -> bool {
        let any = !self.blocks.is_empty();
        self.drop_block(0, counters);
        any
    }

    pub(crate) fn forget_path(&mut self, path: PathId, counters: &mut Counters) {
        while let Some(at) = self.blocks.iter().position(|b| b.path == path) {
            self.drop_block(at, counters);
        }
    }

    fn drop_block(&mut self, at: usize, counters: &mut Counters) {
        let Some(block) = self.remove(at) else { return };
        counters.wasted += block.symbols.len() as u64;
        self.recycle(block);
    }

    fn remove(&mut self, at: usize) -> Option<WaitingBlock> {
        let block = self.blocks.remove(at)?;
        self.memory = self.memory.saturating_sub(block.bytes());
        Some(block)
    }

    fn recycle(&mut self, block: WaitingBlock) {
        let room = MAX_FREE.saturating_sub(self.free.len());
        self.free.extend(block.symbols.into_iter().map(|(_, symbol)| symbol).take(room));
    }
}

/// Some number that differs for different sets of packets, but for rare ones.
fn digest(packets: impl Iterator<Item = u64>) -> u64 {
    packets
        .fold(0, |digest: u64, number| (digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}
