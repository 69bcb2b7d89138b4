//! CTCP's blocks from the first source packet to the receiver's word that it has them all: what to
//! send next, and when to send again.
//!
//! CTCP sections 3, 4.4 and 4.5; [`ctcp_schedule`](crate::ctcp_schedule) has the choice itself
//! (Algorithm 3).
//!
//! | paper                    | here                                  | unit    |
//! |--------------------------|---------------------------------------|---------|
//! | blksize                  | [`Limits::block_size`]                | packets |
//! | numblks                  | [`Limits::max_blocks`], [`Limits::memory`] | blocks, bytes |
//! | currblk                  | [`BlockSchedule::current`]            | block number |
//! | seqno                    | path id and packet number             |         |
//! | B(seqno), T(seqno)       | kept from [`BlockSchedule::on_sent`]  |         |
//! | ack_currblk              | [`BlockSchedule::on_decoded`]         |         |
//! | ack_currdof              | [`BlockSchedule::on_dof`], and ACKs   | packets |
//! | "use a token"            | [`BlockSchedule::next`]               |         |
//!
//! # Departures
//! - A block's packets may travel on any path (the authors' announced future work): what is on the
//!   fly is weighted by the loss rate of the path that it is on, and 1.5 RTT is that path's.
//! - Sources are not waiting in blocks but join the open block when they are first sent. While more
//!   data waits, the block counts with its full size, else with what it has (CTCP-A13). Its first
//!   combination closes it, so that every combination of a block is over the same sources.
//! - Whoever acknowledges single packets tells the degrees of freedom by that; a separate report is
//!   welcome but not needed. What was acknowledged counts for later blocks as well (CTCP-A11).
//! - A packet that the transport declares lost is not on the fly any more, without waiting for 1.5
//!   RTT: it is what a gap is to the paper.
//! - A combination may turn out not to be innovative (about one in 256). If a block has as many
//!   packets acknowledged as it has sources and the receiver does not say that it is decoded within
//!   the flight time, another one is sent.
//! - No hysteresis (CTCP-A12). At any small loss rate this adds one combination per block
//!   (CTCP-A19).
//!
//! # Invariants
//! - The earliest block in need is served first; a block is closed before the next one opens.
//! - Memory: the sources of blocks that are not decoded never exceed [`Limits::memory`] bytes nor
//!   [`Limits::max_blocks`] blocks; when either is reached no source is asked for until a block is
//!   decoded. A block never has more than four times its size on the fly.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use crate::{
    PacketNumber, PathId,
    ctcp_schedule::{BlockState, FlightTime, select},
};

/// How much may be under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Source packets of a block, 1 to 255. Default 32.
    pub block_size: u16,
    /// Most blocks that are not decoded, at least 1. Default 100 (CTCP-A14).
    pub max_blocks: usize,
    /// Most bytes of sources of such blocks. Default 4 MiB.
    pub memory: u64,
    /// How long a packet counts as on the fly.
    pub flight_time: FlightTime,
}

impl Default for Limits {
    fn default() -> Self {
        Self { block_size: 32, max_blocks: 100, memory: 4 << 20, flight_time: FlightTime::default() }
    }
}

/// What the next packet is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Packet {
    /// New data, as source `index` of the block.
    Source {
        /// The block.
        block: u64,
        /// Its place in the block.
        index: u16,
    },
    /// Combination `index` of all sources of the block.
    Coded {
        /// The block.
        block: u64,
        /// Which combination; every one is different.
        index: u32,
    },
}

impl Packet {
    /// The block that it belongs to.
    pub const fn block(self) -> u64 {
        match self {
            Self::Source { block, .. } | Self::Coded { block, .. } => block,
        }
    }
}

/// The sender's side of all blocks that are not decoded.
#[derive(Clone, Debug)]
pub struct BlockSchedule {
    limits: Limits,
    current: u64,
    blocks: VecDeque<Block>,
    memory: u64,
    /// By path and packet number.
    transmissions: BTreeMap<(PathId, PacketNumber), Transmission>,
    /// No deadline of anything on the fly is earlier.
    earliest: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    sources: u16,
    closed: bool,
    decoded: bool,
    bytes: u64,
    next_coded: u32,
    /// Packets acknowledged, or degrees of freedom reported if those are more.
    received: u32,
    sources_acked: u16,
    /// Acknowledged packets that seem not to have been innovative.
    doubts: u32,
    /// When to doubt again, if everything seems to be there.
    confirm_by: Option<Instant>,
    /// Packets on the fly by path.
    on_fly: Vec<(PathId, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    block: u64,
    is_source: bool,
    deadline: Instant,
    on_fly: bool,
}

impl BlockSchedule {
    /// No block yet; the first is block 0.
    pub fn new(limits: Limits) -> Self {
        let block_size = limits.block_size.clamp(1, 255);
        let limits = Limits { block_size, max_blocks: limits.max_blocks.max(1), ..limits };
        Self {
            limits,
            current: 0,
            blocks: VecDeque::new(),
            memory: 0,
            transmissions: BTreeMap::new(),
            earliest: None,
        }
    }

    /// currblk: the first block that is not decoded.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Blocks from the current one to the last one opened, decoded ones in between included.
    pub fn open_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of sources of blocks that are not decoded.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Sources of a block, and whether it is closed; `None` if it is decoded or was never opened.
    pub fn block(&self, number: u64) -> Option<(u16, bool)> {
        self.get(number).map(|block| (block.sources, block.closed))
    }

    /// Most sources of a block.
    pub fn block_size(&self) -> u16 {
        self.limits.block_size
    }

    /// The block that takes more sources, if there is one.
    pub fn open_block(&self) -> Option<u64> {
        let last = self.current + (self.blocks.len() as u64).checked_sub(1)?;
        self.get(last).filter(|block| !block.closed).map(|_| last)
    }

    /// The packet to send now, if any: `waiting` is how many bytes of new data the next source may
    /// hold, if any wants to be sent, and `loss` a path's loss rate. Call
    /// [`on_sent`](Self::on_sent) if it was sent.
    pub fn next(
        &mut self,
        now: Instant,
        waiting: Option<u64>,
        loss: impl Fn(PathId) -> f64,
    ) -> Option<Packet> {
        self.on_deadline(now);
        let may_add = waiting.is_some_and(|bytes| self.memory.saturating_add(bytes) <= self.limits.memory);
        let size = u32::from(self.limits.block_size);
        let states = self.blocks.iter().zip(self.current..).filter(|(block, _)| !block.decoded);
        let chosen = states.filter_map(|(block, number)| block.state(number, may_add, size, &loss));
        if let Some(number) = chosen.filter_map(|(state, p)| select([state], p)).next() {
            let block = &self.blocks[(number - self.current) as usize];
            return Some(match block.closed || !may_add {
                true => Packet::Coded { block: number, index: block.next_coded },
                false => Packet::Source { block: number, index: block.sources },
            });
        }
        let last_is_open = self.blocks.back().is_some_and(|block| !block.closed);
        let may_open = may_add && !last_is_open && self.blocks.len() < self.limits.max_blocks;
        may_open.then(|| Packet::Source { block: self.current + self.blocks.len() as u64, index: 0 })
    }

    /// The packet that [`next`](Self::next) asked for was sent as packet `number` of `path`, whose
    /// RTT is `rtt`, with `bytes` of source or combination. A packet that was not asked for is
    /// ignored.
    pub fn on_sent(
        &mut self,
        now: Instant,
        packet: Packet,
        path: PathId,
        number: PacketNumber,
        bytes: u64,
        rtt: Duration,
    ) {
        if packet.block() == self.current + self.blocks.len() as u64
            && self.blocks.len() < self.limits.max_blocks
        {
            self.blocks.push_back(Block::default());
        }
        let size = self.limits.block_size;
        let deadline = self.limits.flight_time.deadline(now, rtt);
        let Some(block) = self.get_mut(packet.block()) else { return };
        let is_source = matches!(packet, Packet::Source { .. });
        if is_source {
            block.sources += 1;
            block.bytes += bytes;
            block.closed |= block.sources >= size;
            self.memory += bytes;
        } else {
            block.next_coded += 1;
            block.closed = true;
        }
        let transmission = Transmission { block: packet.block(), is_source, deadline, on_fly: true };
        self.transmissions.insert((path, number), transmission);
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        self.count(packet.block(), path, 1);
    }

    /// Packet `number` of `path`, whose RTT is `rtt`, was acknowledged. Returns the block, if that
    /// has completed it: all its sources have arrived as they are.
    pub fn on_acked(
        &mut self,
        now: Instant,
        path: PathId,
        number: PacketNumber,
        rtt: Duration,
    ) -> Option<u64> {
        let transmission = self.remove(path, number)?;
        let deadline = self.limits.flight_time.deadline(now, rtt);
        let block = self.get_mut(transmission.block)?;
        block.received += 1;
        block.confirm_by = Some(deadline);
        block.sources_acked += u16::from(transmission.is_source);
        let complete = block.closed && block.sources_acked >= block.sources;
        if complete {
            self.on_decoded(transmission.block);
        }
        complete.then_some(transmission.block)
    }

    /// Packet `number` of `path` was declared lost.
    pub fn on_lost(&mut self, path: PathId, number: PacketNumber) {
        self.remove(path, number);
    }

    /// The receiver holds `dof` degrees of freedom of a block. A report about a decoded block is
    /// stale, an older one no news.
    pub fn on_dof(&mut self, block: u64, dof: u32) {
        if let Some(block) = self.get_mut(block) {
            block.received = block.received.max(dof.min(u32::from(block.sources)));
        }
    }

    /// The receiver has all sources of a block; its memory is free again.
    pub fn on_decoded(&mut self, number: u64) {
        let Some(block) = self.get_mut(number) else { return };
        block.decoded = true;
        // Should it be given up while it is open: it must not be in the way of the next one.
        block.closed = true;
        let bytes = core::mem::take(&mut block.bytes);
        self.memory -= bytes;
        self.transmissions.retain(|_, t| t.block != number);
        while self.blocks.front().is_some_and(|block| block.decoded) {
            self.blocks.pop_front();
            self.current += 1;
        }
    }

    /// No more sources for now (the end of what was written): the open block is closed, so that
    /// later data begins another. Returns the block, if that has completed it, because all its
    /// sources have arrived already.
    pub fn close_block(&mut self) -> Option<u64> {
        let number = self.current + (self.blocks.len() as u64).checked_sub(1)?;
        let block = self.get_mut(number)?;
        block.closed = true;
        let complete = block.sources_acked >= block.sources;
        if complete {
            self.on_decoded(number);
        }
        complete.then_some(number)
    }

    /// A time-out: nothing is on the fly any more (CTCP-A7). What was sent may still be
    /// acknowledged.
    pub fn on_timeout(&mut self) {
        self.transmissions.values_mut().for_each(|t| t.on_fly = false);
        self.blocks.iter_mut().for_each(|block| block.on_fly.clear());
        self.earliest = None;
    }

    /// A path has not answered for a probe timeout: nothing is on the fly there any more. What was
    /// sent may still be acknowledged.
    pub fn on_path_timeout(&mut self, path: PathId) {
        let of_path = self.transmissions.range_mut((path, PacketNumber::ZERO)..=(path, PacketNumber::MAX));
        of_path.for_each(|(_, t)| t.on_fly = false);
        self.blocks.iter_mut().for_each(|block| block.on_fly.retain(|(of, _)| *of != path));
    }

    /// A path is gone, and what was on the fly there.
    pub fn on_path_closed(&mut self, path: PathId) {
        self.transmissions.retain(|(of, _), _| *of != path);
        self.blocks.iter_mut().for_each(|block| block.on_fly.retain(|(of, _)| *of != path));
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called, as [`next`](Self::next) may then
    /// have a new answer although nothing has happened. May be too early, never too late.
    pub fn deadline(&self) -> Option<Instant> {
        let doubts = self.blocks.iter().filter(|b| b.seems_complete()).filter_map(|b| b.confirm_by);
        doubts.chain(self.earliest).min()
    }

    /// Takes note of what is overdue, and of blocks that should have been decoded by now.
    pub fn on_deadline(&mut self, now: Instant) {
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            self.expire(now);
        }
        for block in self.blocks.iter_mut().filter(|block| block.seems_complete()) {
            if block.confirm_by.is_some_and(|by| by <= now) {
                block.doubts = block.received + 1 - u32::from(block.sources);
                block.confirm_by = None;
            }
        }
    }

    /// What is overdue is not on the fly any more. Looks at every transmission, but not twice
    /// within half a round trip.
    fn expire(&mut self, now: Instant) {
        let mut overdue = Vec::new();
        self.earliest = None;
        for (&(path, _), transmission) in self.transmissions.iter_mut().filter(|(_, t)| t.on_fly) {
            if transmission.deadline <= now {
                transmission.on_fly = false;
                overdue.push((transmission.block, path));
            } else {
                let earliest = self.earliest.get_or_insert(transmission.deadline);
                *earliest = transmission.deadline.min(*earliest);
            }
        }
        for (block, path) in overdue {
            self.count(block, path, -1);
        }
    }

    fn remove(&mut self, path: PathId, number: PacketNumber) -> Option<Transmission> {
        let transmission = self.transmissions.remove(&(path, number))?;
        if transmission.on_fly {
            self.count(transmission.block, path, -1);
        }
        Some(transmission)
    }

    /// Changes how many packets of a block are on the fly on a path.
    fn count(&mut self, block: u64, path: PathId, change: i32) {
        let Some(block) = self.get_mut(block) else { return };
        match block.on_fly.iter_mut().find(|(of, _)| *of == path) {
            Some((_, packets)) => *packets = packets.saturating_add_signed(change),
            None if change > 0 => block.on_fly.push((path, 1)),
            None => {}
        }
    }

    fn get(&self, number: u64) -> Option<&Block> {
        let index = usize::try_from(number.checked_sub(self.current)?).ok()?;
        self.blocks.get(index).filter(|block| !block.decoded)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Block> {
        let index = usize::try_from(number.checked_sub(self.current)?).ok()?;
        self.blocks.get_mut(index).filter(|block| !block.decoded)
    }
}

impl Block {
    /// What Algorithm 3 asks, with the loss rate of what is on the fly; `None` if nothing more may
    /// be sent for it.
    fn state(
        &self,
        number: u64,
        may_add: bool,
        full: u32,
        loss: &impl Fn(PathId) -> f64,
    ) -> Option<(BlockState, f64)> {
        let size = if self.closed || !may_add { u32::from(self.sources) } else { full };
        let on_fly: u32 = self.on_fly.iter().map(|(_, packets)| packets).sum();
        let lost: f64 = self.on_fly.iter().map(|&(path, n)| f64::from(n) * loss(path).clamp(0.0, 1.0)).sum();
        let received = self.received.saturating_sub(self.doubts);
        let state = BlockState { number, size, received: received.min(size), on_fly };
        let loss = if on_fly == 0 { 0.0 } else { lost / f64::from(on_fly) };
        (self.sources > 0 && on_fly < 4 * full).then_some((state, loss))
    }

    /// Whether enough packets have been acknowledged.
    fn seems_complete(&self) -> bool {
        !self.decoded && self.closed && self.received.saturating_sub(self.doubts) >= u32::from(self.sources)
    }
}

#[cfg(test)]
mod tests;
