//! COMBINATION of the repair extension: a random linear combination over a block of packets, on
//! whatever paths they were sent.
//!
//! ```text
//! COMBINATION Frame {
//!   Type (i) = 0x0d3e4d03,
//!   Block (i),
//!   Scheme (8) = 2,
//!   Index (i),
//!   Path Count (i),
//!   Path { Path Identifier (i), Members (Packet Ranges) } ...
//!   Symbol Length (i),
//!   Symbol (..),
//! }
//! ```
//!
//! Paths come in ascending order. Source i of the block is the i-th member by path id, then packet
//! number; K is how many there are. The generator's Symbol Identifier is seed x 2^32 + Index, where
//! the seed is Block modulo 2^30.

use core::ops::RangeInclusive;

use super::super::coding::{MAX_VARINT, Reader, put_varint, varint_len};
use super::super::ids::PathId;
use super::super::ranges::{PacketRanges, RangeLimits, encode_packet_ranges, packet_ranges_len};
use super::field::Field;
use super::{CodeScheme, FrameProblem, frame_types};

/// Most members of a block of a code over GF(2^8).
const MAX_MEMBERS: u64 = 255;
/// Most paths that one block may have travelled: as many as a connection has at most.
const MAX_PATHS: u64 = 64;
/// Seeds are below this, so that a symbol identifier is a legal integer.
const SEEDS: u64 = 1 << 30;

/// COMBINATION: a repair symbol of scheme 2 over the members of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination<'a> {
    /// The sender's number of the block.
    pub block: u64,
    /// Which of the block's combinations.
    pub index: u32,
    /// The block's K packets.
    pub members: BlockMembers<'a>,
    /// The symbol, at least one byte.
    pub symbol: &'a [u8],
}

/// A validated, non-empty set of packets of one or more paths, still in its encoded form.
#[derive(Clone, Copy, Debug)]
pub struct BlockMembers<'a> {
    paths: u64,
    packets: u64,
    encoded: &'a [u8],
}

impl<'a> BlockMembers<'a> {
    fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, FrameProblem> {
        let paths = reader.varint()?;
        if paths == 0 || paths > MAX_PATHS {
            return Err(FrameProblem::Invalid("block of no path, or of more than 64"));
        }
        let mut walker = reader.clone();
        let (mut packets, mut last) = (0, None);
        for _ in 0..paths {
            let path = PathId::read(&mut walker)?;
            if last.is_some_and(|last| last >= path) {
                return Err(FrameProblem::Invalid("paths of a block not in ascending order"));
            }
            packets += PacketRanges::decode(&mut walker, limits)?.packet_count();
            if packets > MAX_MEMBERS {
                return Err(FrameProblem::Invalid("block of more than 255 packets"));
            }
            last = Some(path);
        }
        let encoded = reader.bytes(walker.position() - reader.position())?;
        Ok(Self { paths, packets, encoded })
    }

    /// The packets by path, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, PacketRanges<'a>)> + Clone + use<'a> {
        let mut reader = Reader::new(self.encoded);
        let no_limits = RangeLimits { packets: MAX_VARINT, ranges: MAX_VARINT };
        core::iter::from_fn(move || {
            if reader.is_empty() {
                return None;
            }
            // Validated by `decode`: this cannot fail.
            let path = PathId::read(&mut reader).ok()?;
            Some((path, PacketRanges::decode(&mut reader, no_limits).ok()?))
        })
    }

    /// Every packet in the order of the block's sources.
    pub fn packets(&self) -> impl Iterator<Item = (PathId, u64)> + Clone + use<'a> {
        self.iter().flat_map(|(path, ranges)| ranges.packets().map(move |number| (path, number)))
    }

    /// K: the packets in the set, 1 to 255.
    pub const fn packet_count(&self) -> u64 {
        self.packets
    }

    /// The paths in the set, 1 to 64.
    pub const fn path_count(&self) -> u64 {
        self.paths
    }
}

impl PartialEq for BlockMembers<'_> {
    /// Equal sets are equal, however long their integers are.
    fn eq(&self, other: &Self) -> bool {
        self.packets().eq(other.packets())
    }
}

impl Eq for BlockMembers<'_> {}

impl<'a> Combination<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, FrameProblem> {
        let block = reader.varint()?;
        if CodeScheme::from_number(reader.u8()?) != Some(CodeScheme::RandomLinear) {
            return Err(FrameProblem::Invalid("a combination is of scheme 2"));
        }
        let index = u32::try_from(reader.varint()?);
        let index = index.map_err(|_| FrameProblem::Invalid("index of a combination above 2^32 - 1"))?;
        let members = BlockMembers::decode(reader, limits)?;
        let symbol = reader.varint_prefixed()?;
        if symbol.is_empty() {
            return Err(FrameProblem::Invalid("empty repair symbol"));
        }
        Ok(Self { block, index, members, symbol })
    }

    /// The seed of the block's coefficients.
    pub const fn seed(&self) -> u32 {
        block_seed(self.block)
    }

    const fn header(&self) -> CombinationHeader {
        CombinationHeader { block: self.block, index: self.index, symbol_len: self.symbol.len() }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header().encode(self.members.iter().map(|(path, ranges)| (path, ranges.iter())), out);
        out.extend_from_slice(self.symbol);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        let members = self.members.iter().map(|(path, ranges)| (path, ranges.iter()));
        self.header().encoded_len(members) + self.symbol.len()
    }
}

/// The seed of a block's coefficients.
pub const fn block_seed(block: u64) -> u32 {
    (block % SEEDS) as u32
}

/// What stands in front of the symbol of a COMBINATION frame. The caller appends the symbol.
///
/// Members are given by path in ascending order, each with ascending ranges that do not touch, as
/// [`super::super::Runs`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinationHeader {
    /// The block's number, below 2^62.
    pub block: u64,
    /// Which of the block's combinations.
    pub index: u32,
    /// Bytes of the symbol, at least 1.
    pub symbol_len: usize,
}

impl CombinationHeader {
    /// Appends the header for a block of `members`, which must not be empty.
    pub fn encode<R>(&self, members: impl Iterator<Item = (PathId, R)> + Clone, out: &mut Vec<u8>)
    where
        R: Iterator<Item = RangeInclusive<u64>> + Clone,
    {
        put_varint(out, frame_types::COMBINATION);
        put_varint(out, self.block);
        out.push(CodeScheme::RandomLinear.number());
        put_varint(out, u64::from(self.index));
        put_varint(out, members.clone().count() as u64);
        for (path, ranges) in members {
            path.put(out);
            encode_packet_ranges(ranges, out);
        }
        put_varint(out, self.symbol_len as u64);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len<R>(&self, members: impl Iterator<Item = (PathId, R)>) -> usize
    where
        R: Iterator<Item = RangeInclusive<u64>>,
    {
        let (mut paths, mut len) = (0, 0);
        for (path, ranges) in members {
            paths += 1;
            len += varint_len(path.to_varint()) + packet_ranges_len(ranges);
        }
        let fields =
            [frame_types::COMBINATION, self.block, u64::from(self.index), paths, self.symbol_len as u64];
        fields.into_iter().map(varint_len).sum::<usize>() + 1 + len
    }
}
