//! CTCP's receiving end: blocks, their degrees of freedom, and what can be delivered.

use std::collections::BTreeMap;

use fec::{PREFIX, random_linear::MissingDecoder};
use recovery::ctcp_blocks::Limits;

use super::header::{Acknowledgement, Data, Symbol};
use crate::{
    ranges::Ranges,
    segment::{Kind, Segment},
};

/// A block that is not complete.
#[derive(Debug, Default)]
struct Block {
    /// Number of its first packet of data.
    first: u32,
    /// Sources in it, once known.
    size: Option<u32>,
    /// Sources that arrived.
    sources: Ranges,
    arrived: u32,
    /// Made by the first combination.
    decoder: Option<MissingDecoder>,
}

impl Block {
    /// Degrees of freedom.
    fn rank(&self) -> u32 {
        self.decoder.as_ref().map_or(self.arrived, |decoder| decoder.rank() as u32)
    }

    fn is_complete(&self, full: u32) -> bool {
        self.rank() >= self.size.unwrap_or(full)
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    limits: Limits,
    /// ack_currblk.
    current: u32,
    blocks: BTreeMap<u32, Block>,
    delivered: u32,
    ahead: Ranges,
}

impl Receiver {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, current: 0, blocks: BTreeMap::new(), delivered: 0, ahead: Ranges::default() }
    }

    pub(super) fn delivered(&self) -> u32 {
        self.delivered
    }

    /// A data packet arrived. How many packets of data were rebuilt by it.
    pub(super) fn on_packet(&mut self, body: &Segment) -> u32 {
        let Data { block: number, symbol, size, .. } = body.header();
        let blocks = u32::try_from(self.limits.max_blocks).unwrap_or(u32::MAX);
        if number < self.current || number - self.current >= blocks {
            return 0;
        }
        let block = self.blocks.entry(number).or_default();
        block.size = size.or(block.size);
        match symbol {
            Symbol::Source { index } => {
                block.first = body.dsn.saturating_sub(index);
                self.on_source(number, index);
            }
            Symbol::Coded { seed } => {
                block.first = body.dsn;
                self.on_combination(number, seed, size.unwrap_or(0));
            }
        }
        let rebuilt = self.take_rebuilt(number);
        let full = u32::from(self.limits.block_size);
        while self.blocks.get(&self.current).is_some_and(|block| block.is_complete(full)) {
            self.blocks.remove(&self.current);
            self.current += 1;
        }
        rebuilt
    }

    fn on_source(&mut self, number: u32, index: u32) {
        let Some(block) = self.blocks.get_mut(&number) else { return };
        block.sources.insert(index, index + 1, |_, _| block.arrived += 1);
        if let Some(decoder) = &mut block.decoder {
            let _ = decoder.add_source(index as usize, &[]);
        }
        let dsn = block.first + index;
        self.deliver(dsn);
    }

    fn on_combination(&mut self, number: u32, index: u32, size: u32) {
        let Some(block) = self.blocks.get_mut(&number) else { return };
        if block.decoder.is_none() {
            let sources = &block.sources;
            let missing = |i: usize| sources.around(i as u32).is_none();
            block.decoder = MissingDecoder::new(number, size as usize, PREFIX, missing).ok();
        }
        if let Some(decoder) = &mut block.decoder {
            let _ = decoder.add_repair(index, &[0; PREFIX], |_| Some(&[]));
        }
    }

    fn take_rebuilt(&mut self, number: u32) -> u32 {
        let mut rebuilt = 0;
        while let Some(block) = self.blocks.get_mut(&number)
            && let Some(Ok((index, _))) = block.decoder.as_mut().and_then(MissingDecoder::next_rebuilt)
        {
            let dsn = block.first + index as u32;
            self.deliver(dsn);
            rebuilt += 1;
        }
        rebuilt
    }

    fn deliver(&mut self, dsn: u32) {
        self.ahead.insert(dsn, dsn.saturating_add(1), |_, _| {});
        while let Some(end) = self.ahead.take_first_at(self.delivered) {
            self.delivered = end;
        }
    }

    /// The acknowledgement of the packet that has just arrived.
    pub(super) fn acknowledge(&self, body: &Segment) -> Segment {
        let Data { sent_at, .. } = body.header();
        let dof = self.blocks.get(&self.current).map_or(0, Block::rank);
        Segment { kind: Kind::Ack, seq: body.seq, dsn: self.delivered, ..Segment::default() }
            .with(&Acknowledgement { block: self.current, dof, sent_at })
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn packet(dsn: u32, block: u32, symbol: Symbol, size: u32) -> Segment {
        let size = Some(size).filter(|size| *size > 0);
        let header = Data { block, symbol, size, sent_at: Instant::ORIGIN };
        Segment { dsn, ..Segment::default() }.with(&header)
    }

    fn source(block: u32, index: u32, first: u32, size: u32) -> Segment {
        packet(first + index, block, Symbol::Source { index }, size)
    }

    fn combination(block: u32, seed: u32, first: u32, size: u32) -> Segment {
        packet(first, block, Symbol::Coded { seed }, size)
    }

    /// The block that is wanted, and its degrees of freedom.
    fn state(receiver: &Receiver) -> (u32, u32) {
        let Acknowledgement { block, dof, .. } = receiver.acknowledge(&source(0, 0, 0, 0)).header();
        (block, dof)
    }

    #[test]
    fn combinations_stand_in_for_any_source() {
        let mut receiver = Receiver::new(Limits { block_size: 4, ..Limits::default() });
        receiver.on_packet(&source(0, 0, 0, 0));
        receiver.on_packet(&source(0, 3, 0, 4));
        assert_eq!((receiver.delivered(), state(&receiver)), (1, (0, 2)));
        assert_eq!(receiver.on_packet(&combination(0, 0, 0, 4)), 0);
        assert_eq!(state(&receiver), (0, 3));
        assert_eq!(receiver.on_packet(&combination(0, 0, 0, 4)), 0); // not innovative
        assert_eq!(receiver.on_packet(&combination(0, 1, 0, 4)), 2);
        assert_eq!((receiver.delivered(), state(&receiver)), (4, (1, 0)));
        assert_eq!(receiver.on_packet(&combination(0, 2, 0, 4)), 0); // stale
    }

    #[test]
    fn a_short_block_is_complete_when_its_size_is_known() {
        let mut receiver = Receiver::new(Limits::default());
        receiver.on_packet(&source(0, 1, 0, 2));
        receiver.on_packet(&source(0, 0, 0, 0));
        assert_eq!((receiver.delivered(), receiver.current), (2, 1));
    }

    #[test]
    fn later_blocks_wait_and_far_ones_are_ignored() {
        let mut receiver = Receiver::new(Limits { block_size: 2, max_blocks: 3, ..Limits::default() });
        receiver.on_packet(&source(1, 0, 2, 0));
        receiver.on_packet(&source(1, 1, 2, 2));
        receiver.on_packet(&source(3, 0, 6, 0)); // the fourth
        assert_eq!((receiver.delivered(), receiver.current, receiver.blocks.len()), (0, 0, 1));
        receiver.on_packet(&source(0, 0, 0, 0));
        receiver.on_packet(&combination(0, 0, 0, 2));
        assert_eq!((receiver.delivered(), receiver.current), (4, 2));
    }
}
