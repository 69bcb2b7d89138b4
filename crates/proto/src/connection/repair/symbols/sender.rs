//! A block under way: its members and all its repair symbols, computed at once.

use core::ops::RangeInclusive;

/// One coded block of one path.
#[derive(Debug, Default)]
pub(crate) struct EncodedBlock {
    members: Vec<RangeInclusive<u64>>,
    symbols: Vec<Vec<u8>>,
    /// How many of `symbols` belong to the block; the others are spare buffers.
    count: u8,
}

impl EncodedBlock {
    /// Codes `count` repair symbols over `sources`, the plaintexts of the packets `members`
    /// (ascending). False if such a block is not possible.
    pub(crate) fn encode(&mut self, members: &[u64], sources: &[&[u8]], count: u8) -> bool {
        self.members.clear();
        for &number in members {
            match self.members.last_mut() {
                Some(run) if *run.end() + 1 == number => *run = *run.start()..=number,
                _ => self.members.push(number..=number),
            }
        }
        self.count = count;
        let len = fec::symbol_len(sources);
        self.symbols.resize_with(self.symbols.len().max(usize::from(count)), Vec::new);
        for symbol in &mut self.symbols[..usize::from(count)] {
            symbol.clear();
            symbol.resize(len, 0);
        }
        let indices: Vec<u8> = (0..count).collect();
        let mut outs: Vec<&mut [u8]> =
            self.symbols[..usize::from(count)].iter_mut().map(Vec::as_mut_slice).collect();
        let coded = fec::reed_solomon::encode_many(sources, &indices, &mut outs).is_ok();
        if !coded {
            self.count = 0;
        }
        coded
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + '_ {
        self.members.iter().cloned()
    }

    /// How many repair symbols the block has.
    pub(crate) fn count(&self) -> u8 {
        self.count
    }

    pub(crate) fn symbol(&self, index: u8) -> Option<&[u8]> {
        (index < self.count).then(|| self.symbols[usize::from(index)].as_slice())
    }
}
