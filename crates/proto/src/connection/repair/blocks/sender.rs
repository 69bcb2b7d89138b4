//! The sender's blocks of random linear combinations: what is in them, and what has become of it.
//!
//! When to send what is [`BlockSchedule`]'s business. This module keeps what a combination is made from and what a lost source carried:
//! its stream ranges stay with the block, and are not pending, until the peer has the block or the block fails.

use std::collections::BTreeMap;

use recovery::{
    PacketNumber,
    ctcp_blocks::{BlockSchedule, Limits, Packet},
    ctcp_loss::ShortTermLoss,
};
use units::{Duration, Instant};

use crate::{
    streams::SentStreamFrames,
    wire::{CombinationHeader, PathId, Runs, block_seed},
};

/// Combinations of a block beyond this many times its size, and [`MORE_COMBINATIONS`], are not sent: whoever could not decode it with those
/// never will.
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
}

/// All blocks under way, and the loss rates that decide how many combinations they get.
pub(crate) struct Blocks {
    schedule: BlockSchedule,
    blocks: BTreeMap<u64, Block>,
    loss: BTreeMap<PathId, LossRate>,
}

/// p of a path, with the losses that no ACK has counted yet.
#[derive(Default)]
struct LossRate {
    average: ShortTermLoss,
    gap: u64,
}

impl Blocks {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { schedule: BlockSchedule::new(limits), blocks: BTreeMap::new(), loss: BTreeMap::new() }
    }

    /// The packet to send next: `waiting` tells whether there is new data, `bytes` how much a source may hold.
    pub(crate) fn next(&mut self, now: Instant, waiting: bool, bytes: u64) -> Option<Packet> {
        let loss = &self.loss;
        let rate = |path| loss.get(&path).map_or(0.0, |l: &LossRate| l.average.estimate());
        self.schedule.next(now, waiting, bytes, rate)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    pub(crate) fn on_deadline(&mut self, now: Instant) {
        self.schedule.on_deadline(now);
    }

    pub(crate) fn get(&self, block: u64) -> Option<&Block> {
        self.blocks.get(&block)
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

    /// Bytes in front of the symbol of a combination, if packet `number` of `path` were in the block too: what grows with the members.
    pub(crate) fn naming_len(&self, block: u64, path: PathId, number: u64) -> usize {
        let header = CombinationHeader { block, index: 1 << 13, symbol_len: 1 << 13 };
        let one = [(path, core::iter::once(number..=number))];
        let Some(held) = self.blocks.get(&block) else { return header.encoded_len(one.into_iter()) };
        // Another path, or a run of its own, takes as much as it takes alone; going on with a run takes at most one byte more.
        let goes_on = number.checked_sub(1).is_some_and(|last| held.position(path, last).is_some());
        let more =
            if goes_on { 1 } else { header.encoded_len(one.into_iter()) - header.encoded_len(no_paths()) };
        header.encoded_len(held.names()) + more
    }

    /// A source was sent.
    pub(crate) fn on_source_sent(&mut self, now: Instant, packet: Packet, member: Member, rtt: Duration) {
        let bytes = member.plaintext.len();
        self.schedule.on_sent(now, packet, member.path, PacketNumber(member.number), bytes as u64, rtt);
        let block = self.blocks.entry(packet.block()).or_default();
        let at = block.members.partition_point(|m| (m.path, m.number) < (member.path, member.number));
        block.longest = block.longest.max(bytes);
        block.uncovered += 1;
        block.members.insert(at, member);
    }

    /// A combination was sent as packet `number` of `path`.
    pub(crate) fn on_combination_sent(
        &mut self,
        now: Instant,
        packet: Packet,
        path: PathId,
        number: u64,
        rtt: Duration,
    ) {
        self.schedule.on_sent(now, packet, path, PacketNumber(number), 0, rtt);
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

    /// A packet in flight on `path` was acknowledged; `block` is the one that it is a source of. True if the peer has that block now.
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        path: PathId,
        number: u64,
        block: Option<u64>,
        rtt: Duration,
    ) -> bool {
        let loss = self.loss.entry(path).or_default();
        let gap = core::mem::take(&mut loss.gap);
        loss.average.on_ack(loss.average.expected() + gap);
        self.schedule.on_acked(now, path, PacketNumber(number), rtt);
        block.is_some_and(|block| self.cover(block, path, number).1)
    }

    /// A packet in flight on `path` was declared lost.
    pub(crate) fn on_lost(&mut self, path: PathId, number: u64) {
        self.loss.entry(path).or_default().gap += 1;
        self.schedule.on_lost(path, PacketNumber(number));
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

    /// The peer has the content of a source. Returns what it carried if it was lost, and whether the peer has the whole block.
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
        let closed = self.schedule.block(block).is_none_or(|(_, closed)| closed);
        (lost, held.uncovered == 0 && closed)
    }

    /// No source follows for now. Returns the block, if the peer has all of it.
    pub(crate) fn close(&mut self) -> Option<u64> {
        let last = *self.blocks.last_key_value()?.0;
        self.schedule.close_block();
        (self.blocks[&last].uncovered == 0).then_some(last)
    }

    /// The peer has the block, or it is given up.
    pub(crate) fn remove(&mut self, block: u64) -> Option<Block> {
        self.schedule.on_decoded(block);
        self.blocks.remove(&block)
    }

    /// A path has not answered for a probe timeout.
    pub(crate) fn on_path_timeout(&mut self, path: PathId) {
        self.schedule.on_path_timeout(path);
    }

    /// A path is gone; its blocks have been removed.
    pub(crate) fn on_path_closed(&mut self, path: PathId) {
        self.schedule.on_path_closed(path);
        self.loss.remove(&path);
    }
}

impl Block {
    pub(crate) fn into_members(self) -> Vec<Member> {
        self.members
    }
}

fn no_paths() -> impl Iterator<Item = (PathId, core::iter::Once<core::ops::RangeInclusive<u64>>)> {
    core::iter::empty()
}
