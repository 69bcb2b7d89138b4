//! CTCP's headers: those of data packets, and those of acknowledgements.

use units::Instant;

use crate::segment::{Header, Words};

/// What a data packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Symbol {
    /// A packet of data, by its place in the block.
    Source {
        /// From 0.
        index: u32,
    },
    /// A combination of all of the block's.
    Coded {
        /// The seed of its coefficients.
        seed: u32,
    },
}

/// A data packet's header. Its number, `seqno`, is the segment's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Data {
    pub(super) block: u32,
    pub(super) symbol: Symbol,
    /// Sources of the block, if that is final (CTCP-A13).
    pub(super) size: Option<u32>,
    /// T(seqno), which returns with the acknowledgement.
    pub(super) sent_at: Instant,
}

const CODED: u32 = 1 << 31;

fn halves(at: Instant) -> [u32; 2] {
    let nanos = at.as_nanos();
    [nanos as u32, (nanos >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> Instant {
    Instant::from_nanos(u64::from(high) << 32 | u64::from(low))
}

impl Header for Data {
    fn pack(&self) -> Words {
        let (coded, index) = match self.symbol {
            Symbol::Source { index } => (0, index),
            Symbol::Coded { seed } => (CODED, seed),
        };
        let [low, high] = halves(self.sent_at);
        [self.block, index, coded | self.size.unwrap_or(0), 0, low, high]
    }

    fn unpack(words: &Words) -> Self {
        let [block, index, size, _, low, high] = *words;
        let coded = size & CODED != 0;
        let symbol = if coded { Symbol::Coded { seed: index } } else { Symbol::Source { index } };
        let size = Some(size & !CODED).filter(|size| *size > 0);
        Self { block, symbol, size, sent_at: whole([low, high]) }
    }
}

/// An acknowledgement's header. The number that it answers, `ack_seqno`, is the segment's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Acknowledgement {
    /// ack_currblk: the first block that is not decoded.
    pub(super) block: u32,
    /// ack_currdof: its degrees of freedom.
    pub(super) dof: u32,
    /// The data packet's.
    pub(super) sent_at: Instant,
}

impl Header for Acknowledgement {
    fn pack(&self) -> Words {
        let [low, high] = halves(self.sent_at);
        [self.block, self.dof, 0, 0, low, high]
    }

    fn unpack(words: &Words) -> Self {
        let [block, dof, _, _, low, high] = *words;
        Self { block, dof, sent_at: whole([low, high]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_what_they_were() {
        let sent_at = Instant::from_nanos(5 << 32 | 7);
        for symbol in [Symbol::Source { index: 31 }, Symbol::Coded { seed: u32::MAX }] {
            for size in [None, Some(1), Some(255)] {
                let data = Data { block: 9, symbol, size, sent_at };
                assert_eq!(Data::unpack(&data.pack()), data);
            }
        }
        let ack = Acknowledgement { block: 3, dof: 30, sent_at };
        assert_eq!(Acknowledgement::unpack(&ack.pack()), ack);
    }
}
