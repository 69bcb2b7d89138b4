//! The sender's blocks of random linear combinations: what is in them, and what has become of it.
//!
//! When to send what is the policy's business. This module keeps what a combination is made from
//! and what a lost source carried: its stream ranges stay with the block, and are not pending,
//! until the peer has the block or the block fails.

use std::collections::BTreeMap;

use super::Place;
use crate::{
    spare_room::SpareRoom as _,
    streams::SentStreamFrames,
    wire::{CombinationHeader, PathId, Runs, block_seed},
};

/// Combinations of a block beyond this many times its size, and [`MORE_COMBINATIONS`], are not
/// sent: whoever could not decode it with those never will.
const COMBINATIONS_PER_SOURCE: u32 = 4;
const MORE_COMBINATIONS: u32 = 16;

/// One source of a block.
pub(crate) struct Member {
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) plaintext: Vec<u8>,
    /// The peer has its content.
    pub(crate) covered: bool,
    /// It was declared lost, and carried this for streams.
    pub(crate) lost: Option<SentStreamFrames>,
    /// It carried a datagram.
    pub(crate) datagram: bool,
}

/// A block that the peer may not have in full.
#[derive(Default)]
pub(crate) struct Block {
    /// In the order of the code's sources: by path and number.
    members: Vec<Member>,
    uncovered: usize,
    longest: usize,
    /// It gets no more sources.
    closed: bool,
}

impl Block {
    fn position(&self, path: PathId, number: u64) -> Option<usize> {
        self.members.binary_search_by_key(&(path, number), |m| (m.path, m.number)).ok()
    }

    /// The packets' numbers by path.
    fn names(
        &self,
    ) -> impl Iterator<Item = (PathId, impl Iterator<Item = core::ops::RangeInclusive<u64>> + Clone)> + Clone
    {
        let of_path = self.members.chunk_by(|a, b| a.path == b.path);
        of_path.map(|members| (members[0].path, Runs::new(members.iter().map(|m| m.number))))
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn into_members(self) -> Vec<Member> {
        self.members
    }

    /// Whether the peer has all of it.
    fn is_complete(&self) -> bool {
        self.closed && self.uncovered == 0
    }
}

/// All blocks under way.
#[derive(Default)]
pub(crate) struct Blocks {
    blocks: BTreeMap<u64, Block>,
}

impl Blocks {
    pub(crate) fn get(&self, block: u64) -> Option<&Block> {
        self.blocks.get(&block)
    }

    /// Nothing has happened for long.
    pub(crate) fn rest(&mut self) {
        self.blocks.give_back();
    }

    /// The block that a packet which may have been declared lost is a member of.
    pub(crate) fn find(&self, path: PathId, number: u64) -> Option<u64> {
        self.blocks.iter().find(|(_, b)| b.position(path, number).is_some()).map(|(block, _)| *block)
    }

    /// Blocks with packets of a path.
    pub(crate) fn on_path(&self, path: PathId) -> Vec<u64> {
        let with = self.blocks.iter().filter(|(_, b)| b.members.iter().any(|m| m.path == path));
        with.map(|(block, _)| *block).collect()
    }

    /// Bytes in front of the symbol of a combination, if packet `number` of `path` were in the
    /// block too: what grows with the members.
    pub(crate) fn naming_len(&self, block: u64, path: PathId, number: u64) -> usize {
        let header = CombinationHeader { block, index: 1 << 13, symbol_len: 1 << 13 };
        let one = [(path, core::iter::once(number..=number))];
        let Some(held) = self.blocks.get(&block) else { return header.encoded_len(one.into_iter()) };
        // Another path, or a run of its own, takes as much as it takes alone; going on with a run
        // takes at most one byte more.
        let goes_on = number.checked_sub(1).is_some_and(|last| held.position(path, last).is_some());
        let more =
            if goes_on { 1 } else { header.encoded_len(one.into_iter()) - header.encoded_len(no_paths()) };
        header.encoded_len(held.names()) + more
    }

    /// A source was sent.
    pub(super) fn on_source_sent(&mut self, place: Place, member: Member) {
        let block = self.blocks.entry(place.block).or_default();
        let at = block.members.partition_point(|m| (m.path, m.number) < (member.path, member.number));
        block.longest = block.longest.max(member.plaintext.len());
        block.uncovered += 1;
        block.closed |= place.last;
        block.members.insert(at, member);
    }

    /// A combination was sent: every one of a block is over the same sources.
    pub(crate) fn on_combination_sent(&mut self, block: u64) {
        if let Some(held) = self.blocks.get_mut(&block) {
            held.closed = true;
        }
    }

    /// Length of a COMBINATION frame of the block; zero if there is no such block.
    pub(crate) fn frame_len(&self, block: u64, index: u32) -> usize {
        let Some(held) = self.blocks.get(&block) else { return 0 };
        let symbol_len = fec::PREFIX + held.longest;
        CombinationHeader { block, index, symbol_len }.encoded_len(held.names()) + symbol_len
    }

    /// Appends a COMBINATION frame.
    pub(crate) fn write(&self, block: u64, index: u32, out: &mut Vec<u8>) -> bool {
        let Some(held) = self.blocks.get(&block) else { return false };
        let symbol_len = fec::PREFIX + held.longest;
        CombinationHeader { block, index, symbol_len }.encode(held.names(), out);
        let at = out.len();
        out.resize(at + symbol_len, 0);
        let sources: Vec<&[u8]> = held.members.iter().map(|m| m.plaintext.as_slice()).collect();
        fec::random_linear::encode(&sources, block_seed(block), index, &mut out[at..]).is_ok()
    }

    /// Whether a block has had more combinations than can be of use.
    pub(crate) fn is_hopeless(&self, block: u64, index: u32) -> bool {
        let sources = self.blocks.get(&block).map_or(0, |b| b.members.len()) as u32;
        index >= COMBINATIONS_PER_SOURCE * sources + MORE_COMBINATIONS
    }

    /// Gives a lost source's stream ranges to its block; back if there is none that needs them.
    pub(crate) fn hold(
        &mut self,
        block: u64,
        path: PathId,
        number: u64,
        frames: SentStreamFrames,
    ) -> Result<(), SentStreamFrames> {
        let held = self.blocks.get_mut(&block).and_then(|b| {
            let at = b.position(path, number)?;
            Some(&mut b.members[at])
        });
        match held.filter(|m| !m.covered) {
            Some(member) => {
                member.lost = Some(frames);
                Ok(())
            }
            None => Err(frames),
        }
    }

    /// The peer has the content of a source. Returns what it carried if it was lost, and whether
    /// the peer has the whole block.
    pub(crate) fn cover(
        &mut self,
        block: u64,
        path: PathId,
        number: u64,
    ) -> (Option<SentStreamFrames>, bool) {
        let Some(held) = self.blocks.get_mut(&block) else { return (None, false) };
        let Some(at) = held.position(path, number) else { return (None, false) };
        let member = &mut held.members[at];
        let lost = member.lost.take();
        held.uncovered -= usize::from(!core::mem::replace(&mut member.covered, true));
        (lost, held.is_complete())
    }

    /// A block gets no more sources. True if the peer has all of it.
    pub(crate) fn close(&mut self, block: u64) -> bool {
        self.blocks.get_mut(&block).is_some_and(|held| {
            held.closed = true;
            held.is_complete()
        })
    }

    /// The peer has the block, or it is given up.
    pub(crate) fn remove(&mut self, block: u64) -> Option<Block> {
        self.blocks.remove(&block)
    }
}

fn no_paths() -> impl Iterator<Item = (PathId, core::iter::Once<core::ops::RangeInclusive<u64>>)> {
    core::iter::empty()
}
