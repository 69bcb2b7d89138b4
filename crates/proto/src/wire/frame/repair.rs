//! Frames of the repair extension: REPAIR and RECOVERED.
//!
//! ```text
//! REPAIR Frame {                          RECOVERED Frame {
//!   Type (i) = 0x0d3e4d01,                  Type (i) = 0x0d3e4d02,
//!   Protected Path Identifier (i),          Path Identifier (i),
//!   Scheme (8),                             Packets (..),
//!   Repair Count (8),                     }
//!   Members (..),
//!   Symbol Identifier (i),
//!   Symbol Length (i),
//!   Symbol (..),
//! }
//! ```
//!
//! Members and Packets have the form that `ranges` describes. A block's K source symbols are the
//! payloads of its members in the order of their packet numbers.

use core::ops::RangeInclusive;

use super::super::coding::{Reader, put_varint, varint_len};
use super::super::ids::PathId;
use super::super::ranges::{PacketRanges, RangeLimits, RangesError, encode_packet_ranges, packet_ranges_len};
use super::data::max_prefixed;
use super::field::Field;
use super::{FrameProblem, frame_types};

/// The code that made a repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeScheme {
    /// Scheme 1: systematic Reed-Solomon over GF(2^8); index 0 is the XOR of the block. K + M is at
    /// most 256.
    ReedSolomon,
    /// Scheme 2: systematic random linear code over GF(2^8); its symbols travel in COMBINATION.
    RandomLinear,
    /// Scheme 3: the streaming code over GF(2^8), whose symbols cover windows of packets.
    Window,
}

impl CodeScheme {
    /// The scheme's number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::ReedSolomon => 1,
            Self::RandomLinear => 2,
            Self::Window => 3,
        }
    }

    /// The scheme with a number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::ReedSolomon),
            2 => Some(Self::RandomLinear),
            3 => Some(Self::Window),
            _ => None,
        }
    }
}

/// REPAIR: a repair symbol over packets of a path, usually sent on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair<'a> {
    /// The path whose packets are protected.
    pub path: PathId,
    /// The code.
    pub scheme: CodeScheme,
    /// M, the repair symbols that the sender made for this block; at least 1. A window has one.
    pub repair_count: u8,
    /// The packet numbers of the block's K source packets.
    pub members: PacketRanges<'a>,
    /// Reed-Solomon: the index of the symbol, below `repair_count`. Random linear: the seed. Window:
    /// the symbol's number.
    pub symbol_id: u64,
    /// The symbol, at least one byte.
    pub symbol: &'a [u8],
}

/// Members and repair symbols of a Reed-Solomon block over GF(2^8).
const MAX_REED_SOLOMON: u64 = 256;

impl<'a> Repair<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, FrameProblem> {
        let path = PathId::read(reader)?;
        let scheme =
            CodeScheme::from_number(reader.u8()?).ok_or(FrameProblem::Invalid("unknown repair scheme"))?;
        let repair_count = reader.u8()?;
        let members = PacketRanges::decode(reader, limits)?;
        let symbol_id = reader.varint()?;
        let symbol = reader.varint_prefixed()?;
        let repair = Self { path, scheme, repair_count, members, symbol_id, symbol };
        repair.check()?;
        Ok(repair)
    }

    fn check(&self) -> Result<(), FrameProblem> {
        let count = u64::from(self.repair_count);
        let reed_solomon = self.scheme == CodeScheme::ReedSolomon;
        let problem = if count == 0 {
            "block without repair symbols"
        } else if self.symbol.is_empty() {
            "empty repair symbol"
        } else if reed_solomon && self.symbol_id >= count {
            "repair index not below the repair count"
        } else if reed_solomon && self.members.packet_count() + count > MAX_REED_SOLOMON {
            "Reed-Solomon block of more than 256 symbols"
        } else if self.scheme == CodeScheme::Window && self.span() >= fec::window::SPAN {
            "window of packets too far apart"
        } else {
            return Ok(());
        };
        Err(FrameProblem::Invalid(problem))
    }

    /// From the first to the last of the members.
    fn span(&self) -> u64 {
        let first = self.members.iter().next().map_or(0, |run| *run.start());
        self.members.largest() - first
    }

    const fn header(&self) -> RepairHeader {
        let Self { path, scheme, repair_count, symbol_id, .. } = *self;
        RepairHeader { path, scheme, repair_count, symbol_id, symbol_len: self.symbol.len() }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header().encode(self.members.iter(), out);
        out.extend_from_slice(self.symbol);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        self.header().encoded_len(self.members.iter()) + self.symbol.len()
    }
}

/// What stands in front of the symbol of a REPAIR frame. The caller appends the symbol.
///
/// Members are given as ascending ranges that do not touch, as [`super::super::Runs`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// The path whose packets are protected.
    pub path: PathId,
    /// The code.
    pub scheme: CodeScheme,
    /// M, the repair symbols made for this block; at least 1.
    pub repair_count: u8,
    /// Reed-Solomon: the index of the symbol, below `repair_count`. Random linear: the seed, below
    /// 2^62. Window: the symbol's number, below 2^62.
    pub symbol_id: u64,
    /// Bytes of the symbol, at least 1.
    pub symbol_len: usize,
}

impl RepairHeader {
    /// Appends the header for a block of `members`, which must not be empty.
    pub fn encode(&self, members: impl Iterator<Item = RangeInclusive<u64>> + Clone, out: &mut Vec<u8>) {
        put_varint(out, frame_types::REPAIR);
        self.path.put(out);
        out.extend([self.scheme.number(), self.repair_count]);
        encode_packet_ranges(members, out);
        put_varint(out, self.symbol_id);
        put_varint(out, self.symbol_len as u64);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self, members: impl Iterator<Item = RangeInclusive<u64>>) -> usize {
        self.len_before_symbol_len(members) + varint_len(self.symbol_len as u64)
    }

    /// The longest symbol that fits `space` bytes together with its header (`symbol_len` is not
    /// looked at); `None` if not even the header fits.
    pub fn max_symbol(
        &self,
        members: impl Iterator<Item = RangeInclusive<u64>>,
        space: usize,
    ) -> Option<usize> {
        max_prefixed(space.checked_sub(self.len_before_symbol_len(members))?)
    }

    fn len_before_symbol_len(&self, members: impl Iterator<Item = RangeInclusive<u64>>) -> usize {
        varint_len(frame_types::REPAIR)
            + varint_len(self.path.to_varint())
            + 2
            + packet_ranges_len(members)
            + varint_len(self.symbol_id)
    }
}

/// RECOVERED: packets of a path that were rebuilt from repair symbols. It acknowledges their
/// contents, not their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered<'a> {
    /// The path on which the packets were sent and lost.
    pub path: PathId,
    /// Their packet numbers.
    pub packets: PacketRanges<'a>,
}

impl<'a> Recovered<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, FrameProblem> {
        Ok(Self { path: PathId::read(reader)?, packets: PacketRanges::decode(reader, limits)? })
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_recovered(self.path, self.packets.iter(), out);
    }

    /// Bytes that `encode` appends.
    pub fn encoded_len(&self) -> usize {
        recovered_len(self.path, self.packets.iter())
    }
}

/// Appends a RECOVERED frame for packets of `path`, given as ascending ranges that do not touch; at
/// least one.
pub fn encode_recovered(
    path: PathId,
    packets: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    out: &mut Vec<u8>,
) {
    put_varint(out, frame_types::RECOVERED);
    path.put(out);
    encode_packet_ranges(packets, out);
}

/// Bytes that [`encode_recovered`] appends.
pub fn recovered_len(path: PathId, packets: impl Iterator<Item = RangeInclusive<u64>>) -> usize {
    varint_len(frame_types::RECOVERED) + varint_len(path.to_varint()) + packet_ranges_len(packets)
}

impl From<RangesError> for FrameProblem {
    fn from(error: RangesError) -> Self {
        match error {
            RangesError::Truncated => Self::Truncated,
            RangesError::NumberTooLarge => Self::Invalid("packet number above 2^62 - 1"),
            RangesError::TooManyPackets { .. } => Self::Invalid("too many packet numbers"),
            RangesError::TooManyRanges { .. } => Self::Invalid("too many packet ranges"),
        }
    }
}
