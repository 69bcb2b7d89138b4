//! The receiving side of scheme 2: blocks of random linear combinations (docs/wire-format.md).
//!
//! A block is opened by the first combination that arrives while any of its packets is missing, and
//! closed when nothing is. In between its decoder holds equations over what is missing, and asks
//! the log of sources for the rest: what it refers to is pinned there.
//!
//! # Bounds
//! At most [`MAX_BLOCKS`] blocks, and what they rely on is at most three quarters of the decoder's
//! budget, so that making room always finds something to give up; the oldest block goes first.
//! Their memory is part of the budget. Work per combination is one pass over the block's received
//! packets, which the peer has sent, and over the equations, of which there is one for every
//! combination: the decoder's credit pays for both ahead of time.

use std::collections::VecDeque;

use fec::random_linear::{Innovation, MissingDecoder};

use crate::{
    connection::repair::{counters::Counters, credit::LOOKUP, source_log::SourceLog},
    wire::{Combination, PathId},
};

/// Blocks that may be incomplete at once; as many as a sender with the default limits has open, and
/// some.
const MAX_BLOCKS: usize = 128;

/// A packet that was rebuilt: its path, its number and its plaintext.
pub(crate) type RebuiltPacket = (PathId, u64, Vec<u8>);

/// A source of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    packet: (PathId, u64),
    /// The log has it, and the decoder relies on that.
    pinned: bool,
}

struct LinearBlock {
    number: u64,
    symbol_len: usize,
    /// In the order of the sources, which is ascending.
    members: Vec<Member>,
    decoder: MissingDecoder,
    symbols: u64,
    rebuilt: u64,
}

impl LinearBlock {
    fn open(frame: &Combination<'_>, sources: &mut SourceLog) -> Option<Self> {
        let mut members: Vec<Member> = Vec::new();
        for (path, packets) in frame.members.iter() {
            let mut walk = sources.walk(path);
            members.extend(packets.packets().map(|n| Member { packet: (path, n), pinned: walk.has(n) }));
        }
        let symbol_len = frame.symbol.len();
        let decoder = MissingDecoder::new(frame.seed(), members.len(), symbol_len, |i| !members[i].pinned);
        let decoder = decoder.ok()?;
        for member in members.iter().filter(|m| m.pinned) {
            sources.pin(member.packet.0, member.packet.1);
        }
        Some(Self { number: frame.block, symbol_len, members, decoder, symbols: 0, rebuilt: 0 })
    }

    /// Bytes that equations hold, each of which a source or a symbol is added to.
    fn equations(&self) -> u64 {
        self.decoder.memory() as u64
    }

    fn position(&self, path: PathId, number: u64) -> Option<usize> {
        let ends = self.members.first().zip(self.members.last());
        if ends.is_none_or(|(first, last)| (path, number) < first.packet || (path, number) > last.packet) {
            return None;
        }
        self.members.binary_search_by_key(&(path, number), |m| m.packet).ok()
    }

    fn bytes(&self) -> u64 {
        (self.decoder.memory() + self.members.len() * size_of::<Member>()) as u64
    }

    /// Moves what the equations have come to determine to `rebuilt`; false if it was nothing that a
    /// sender can have sent.
    fn harvest(&mut self, rebuilt: &mut Vec<RebuiltPacket>, counters: &mut Counters) -> bool {
        while let Some(next) = self.decoder.next_rebuilt() {
            let Ok((i, plaintext)) = next else { return false };
            let (path, number) = self.members[i].packet;
            rebuilt.push((path, number, plaintext.to_vec()));
            self.rebuilt += 1;
            counters.rebuilt += 1;
        }
        true
    }
}

/// The incomplete blocks of one connection, oldest first.
#[derive(Default)]
pub(in crate::connection::repair) struct LinearBlocks {
    blocks: VecDeque<LinearBlock>,
    memory: u64,
}

impl LinearBlocks {
    /// Bytes held.
    pub(in crate::connection::repair) fn memory(&self) -> u64 {
        self.memory
    }

    /// The bytes held, counted afresh.
    #[cfg(feature = "fuzzing")]
    pub(in crate::connection::repair) fn recount(&self) -> u64 {
        self.blocks.iter().map(LinearBlock::bytes).sum()
    }

    /// Takes a combination of a block of which something is missing.
    pub(in crate::connection::repair) fn on_combination(
        &mut self,
        frame: &Combination<'_>,
        sources: &mut SourceLog,
        max_pinned: u64,
        counters: &mut Counters,
    ) -> Vec<RebuiltPacket> {
        let mut rebuilt = Vec::new();
        let Some(at) = self.find_or_open(frame, sources, max_pinned, counters) else {
            counters.wasted += 1;
            return rebuilt;
        };
        let block = &mut self.blocks[at];
        let before = block.bytes();
        let members = &block.members;
        counters.work += members.len() as u64 * block.symbol_len as u64 + 2 * block.equations();
        let log = &*sources;
        let source = |i: usize| log.get(members[i].packet.0, members[i].packet.1);
        let added = block.decoder.add_repair(frame.index, frame.symbol, source);
        block.symbols += 1;
        let sound = match added {
            Ok(Innovation::Innovative) => block.harvest(&mut rebuilt, counters),
            Ok(Innovation::Redundant) => true,
            // A symbol of another length, or sources that no such symbol can cover: not a block.
            Err(_) => false,
        };
        self.memory = self.memory + block.bytes() - before;
        if !sound || block.decoder.is_complete() {
            self.close(at, sources, counters);
        }
        rebuilt
    }

    /// A packet has arrived that may be missing somewhere.
    pub(in crate::connection::repair) fn on_source(
        &mut self,
        path: PathId,
        number: u64,
        plaintext: &[u8],
        sources: &mut SourceLog,
        counters: &mut Counters,
    ) -> Vec<RebuiltPacket> {
        let mut rebuilt = Vec::new();
        let mut at = 0;
        while at < self.blocks.len() {
            let block = &mut self.blocks[at];
            let Some(i) = block.position(path, number) else {
                at += 1;
                continue;
            };
            let before = block.bytes();
            counters.work += block.equations();
            let sound =
                block.decoder.add_source(i, plaintext).is_ok() && block.harvest(&mut rebuilt, counters);
            self.memory = self.memory + block.bytes() - before;
            if !sound || block.decoder.is_complete() {
                self.close(at, sources, counters);
            } else {
                at += 1;
            }
        }
        rebuilt
    }

    /// The block that a combination is of. A block is known by its number, but only by the same
    /// members.
    fn find_or_open(
        &mut self,
        frame: &Combination<'_>,
        sources: &mut SourceLog,
        max_pinned: u64,
        counters: &mut Counters,
    ) -> Option<usize> {
        if let Some(at) = self.blocks.iter().position(|b| b.number == frame.block) {
            let same = frame.members.packets().eq(self.blocks[at].members.iter().map(|m| m.packet));
            return same.then_some(at);
        }
        counters.work += LOOKUP * frame.members.packet_count();
        let block = LinearBlock::open(frame, sources)?;
        while self.blocks.len() >= MAX_BLOCKS || sources.pinned() > max_pinned && !self.blocks.is_empty() {
            self.close(0, sources, counters);
        }
        self.memory += block.bytes();
        self.blocks.push_back(block);
        Some(self.blocks.len() - 1)
    }

    /// Gives up the oldest block; false if there is none.
    pub(in crate::connection::repair) fn drop_oldest(
        &mut self,
        sources: &mut SourceLog,
        counters: &mut Counters,
    ) -> bool {
        let any = !self.blocks.is_empty();
        if any {
            self.close(0, sources, counters);
        }
        any
    }

    /// Gives up the blocks with packets of a path.
    pub(in crate::connection::repair) fn forget_path(
        &mut self,
        path: PathId,
        sources: &mut SourceLog,
        counters: &mut Counters,
    ) {
        while let Some(at) = self.blocks.iter().position(|b| b.members.iter().any(|m| m.packet.0 == path)) {
            self.close(at, sources, counters);
        }
    }

    /// A block is complete, or will never be.
    fn close(&mut self, at: usize, sources: &mut SourceLog, counters: &mut Counters) {
        let Some(block) = self.blocks.remove(at) else { return };
        for member in block.members.iter().filter(|m| m.pinned) {
            sources.unpin(member.packet.0, member.packet.1);
        }
        self.memory -= block.bytes();
        let used = block.rebuilt.min(block.symbols);
        counters.used += used;
        counters.wasted += block.symbols - used;
    }
}
