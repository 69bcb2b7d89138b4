//! Sets of packet numbers, smallest first, as REPAIR and RECOVERED carry them.
//!
//! ```text
//! Packet Ranges {
//!   First Packet Number (i),
//!   Further Ranges (i),
//!   First Length Minus One (i),
//!   Further Range { Gap Minus One (i), Length Minus One (i) } ...
//! }
//! ```
//!
//! A gap is the number of packets missing between two ranges. Ranges therefore never touch or
//! overlap, and every set has exactly one form apart from the lengths of its integers.

use core::ops::RangeInclusive;

use super::coding::{MAX_VARINT, Reader, Truncated, put_varint, varint_len};

/// How large a set a receiver is willing to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Most packet numbers in all ranges together.
    pub packets: u64,
    /// Most ranges.
    pub ranges: u64,
}

impl Default for RangeLimits {
    /// 256 of each: a Reed-Solomon block over GF(2^8) has no more members.
    fn default() -> Self {
        Self { packets: 256, ranges: 256 }
    }
}

/// Why bytes are not an acceptable set of packet numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    /// The input ended inside the set.
    #[error("the input ends inside the packet ranges")]
    Truncated,
    /// A range reaches beyond 2^62 - 1.
    #[error("a packet number exceeds 2^62 - 1")]
    NumberTooLarge,
    /// More packet numbers than [`RangeLimits::packets`].
    #[error("more than {limit} packet numbers")]
    TooManyPackets {
        /// The limit that was passed.
        limit: u64,
    },
    /// More ranges than [`RangeLimits::ranges`].
    #[error("{claimed} ranges, more than {limit}")]
    TooManyRanges {
        /// What the input says, counting the first range.
        claimed: u64,
        /// The limit that was passed.
        limit: u64,
    },
}

impl From<Truncated> for RangesError {
    fn from(Truncated: Truncated) -> Self {
        Self::Truncated
    }
}

/// A validated, non-empty set of packet numbers, still in its encoded form.
#[derive(Clone, Copy, Debug)]
pub struct PacketRanges<'a> {
    first: RangeBounds,
    largest: u64,
    packets: u64,
    ranges: u64,
    further: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct RangeBounds {
    start: u64,
    end: u64,
}

impl RangeBounds {
    /// The range of `1 + length_minus_one` packets from `start`.
    fn new(start: u64, length_minus_one: u64) -> Option<Self> {
        // Both are below 2^62 or sums of two such numbers, so nothing wraps.
        let end = start + length_minus_one;
        (end <= MAX_VARINT).then_some(Self { start, end })
    }

    /// The next range of `reader`, which follows this one.
    fn next(self, reader: &mut Reader<'_>) -> Result<Self, RangesError> {
        let start = self.end + 2 + reader.varint()?;
        Self::new(start, reader.varint()?).ok_or(RangesError::NumberTooLarge)
    }

    const fn packets(self) -> u64 {
        self.end - self.start + 1
    }
}

impl<'a> PacketRanges<'a> {
    /// Reads and validates a set, in time proportional to its encoded length and without
    /// allocation.
    ///
    /// # Errors
    /// [`RangesError`] if it is cut short, beyond `limits`, or beyond the largest packet number.
    pub fn decode(reader: &mut Reader<'a>, limits: RangeLimits) -> Result<Self, RangesError> {
        let start = reader.varint()?;
        let further_count = reader.varint()?;
        if further_count >= limits.ranges {
            return Err(RangesError::TooManyRanges { claimed: further_count + 1, limit: limits.ranges });
        }
        let first = RangeBounds::new(start, reader.varint()?).ok_or(RangesError::NumberTooLarge)?;
        let check = |packets: u64| {
            if packets > limits.packets {
                return Err(RangesError::TooManyPackets { limit: limits.packets });
            }
            Ok(packets)
        };
        let mut packets = check(first.packets())?;
        let mut walker = reader.clone();
        let mut last = first;
        for _ in 0..further_count {
            last = last.next(&mut walker)?;
            packets = check(packets + last.packets())?;
        }
        let further = reader.bytes(walker.position() - reader.position())?;
        Ok(Self { first, largest: last.end, packets, ranges: further_count + 1, further })
    }

    /// The ranges, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + use<'a> {
        let mut reader = Reader::new(self.further);
        let mut last: Option<RangeBounds> = None;
        let first = self.first;
        core::iter::from_fn(move || {
            let next = match last {
                None => first,
                Some(_) if reader.is_empty() => return None,
                // Validated by `decode`: this cannot fail.
                Some(last) => last.next(&mut reader).ok()?,
            };
            last = Some(next);
            Some(next.start..=next.end)
        })
    }

    /// Every packet number, smallest first; as many as [`PacketRanges::packet_count`], which the
    /// limits bounded.
    pub fn packets(&self) -> impl Iterator<Item = u64> + Clone + use<'a> {
        self.iter().flatten()
    }

    /// The smallest packet number.
    pub const fn smallest(&self) -> u64 {
        self.first.start
    }

    /// The largest packet number.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// Packet numbers in the set, at least 1.
    pub const fn packet_count(&self) -> u64 {
        self.packets
    }

    /// Ranges in the set, at least 1.
    pub const fn range_count(&self) -> u64 {
        self.ranges
    }
}

impl PartialEq for PacketRanges<'_> {
    /// Equal sets are equal, however long their integers are.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PacketRanges<'_> {}

/// Joins an ascending sequence of packet numbers into ranges; see [`Runs::new`].
#[derive(Clone, Debug)]
pub struct Runs<I> {
    numbers: I,
    pending: Option<u64>,
}

impl<I: Iterator<Item = u64>> Runs<I> {
    /// Ranges over `numbers`, which must be strictly ascending.
    pub fn new(mut numbers: I) -> Self {
        let pending = numbers.next();
        Self { numbers, pending }
    }
}

impl<I: Iterator<Item = u64>> Iterator for Runs<I> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let start = self.pending.take()?;
        let mut end = start;
        for number in self.numbers.by_ref() {
            debug_assert!(number > end, "packet numbers must ascend");
            if number != end + 1 {
                self.pending = Some(number);
                break;
            }
            end = number;
        }
        Some(start..=end)
    }
}

/// The varints of one range: its distance from the previous one (or its start) and its length.
fn varints(ranges: impl Iterator<Item = RangeInclusive<u64>>) -> impl Iterator<Item = [u64; 2]> {
    let mut previous_end: Option<u64> = None;
    ranges.map(move |range| {
        let (start, end) = range.into_inner();
        let lead = match previous_end {
            None => start,
            Some(previous) => {
                debug_assert!(start >= previous + 2, "ranges must ascend and not touch");
                start.saturating_sub(previous + 2)
            }
        };
        previous_end = Some(end);
        [lead, end.saturating_sub(start)]
    })
}

/// Bytes that [`encode_packet_ranges`] appends.
pub fn packet_ranges_len(ranges: impl Iterator<Item = RangeInclusive<u64>>) -> usize {
    let (count, sum) = varints(ranges).fold((0, 0), |(count, sum), [lead, length]| {
        (count + 1, sum + varint_len(lead) + varint_len(length))
    });
    sum + varint_len(u64::saturating_sub(count, 1))
}

/// Appends a set of packet numbers, given as ascending ranges that do not touch (as [`Runs`] makes
/// them). Nothing is written for no ranges, which the format cannot express.
pub fn encode_packet_ranges(ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone, out: &mut Vec<u8>) {
    let further = ranges.clone().skip(1).count() as u64;
    for (i, [lead, length]) in varints(ranges).enumerate() {
        put_varint(out, lead);
        if i == 0 {
            put_varint(out, further);
        }
        put_varint(out, length);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const GENEROUS: RangeLimits = RangeLimits { packets: u64::MAX, ranges: u64::MAX };

    fn encoded(numbers: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_packet_ranges(Runs::new(numbers.iter().copied()), &mut out);
        out
    }

    fn decoded(bytes: &[u8], limits: RangeLimits) -> Result<Vec<u64>, RangesError> {
        PacketRanges::decode(&mut Reader::new(bytes), limits).map(|ranges| ranges.packets().collect())
    }

    /// The layout at the top of this file, by hand.
    #[test]
    fn layout() {
        let bytes = [10, 2, 0, 0, 2, 4, 0];
        assert_eq!(encoded(&[10, 12, 13, 14, 20]), bytes);
        let ranges = PacketRanges::decode(&mut Reader::new(&bytes), GENEROUS).unwrap();
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..=10, 12..=14, 20..=20]);
        assert_eq!((ranges.smallest(), ranges.largest()), (10, 20));
        assert_eq!((ranges.packet_count(), ranges.range_count()), (5, 3));
    }

    #[test]
    fn limits_hold_before_anything_is_walked() {
        let bytes = encoded(&[1, 2, 4, 6]);
        let limits = |packets, ranges| RangeLimits { packets, ranges };
        assert_eq!(decoded(&bytes, limits(4, 3)), Ok(vec![1, 2, 4, 6]));
        assert_eq!(decoded(&bytes, limits(3, 3)), Err(RangesError::TooManyPackets { limit: 3 }));
        assert_eq!(decoded(&bytes, limits(4, 2)), Err(RangesError::TooManyRanges { claimed: 3, limit: 2 }));
        assert_eq!(decoded(&bytes, limits(0, 0)), Err(RangesError::TooManyRanges { claimed: 3, limit: 0 }));

        let mut claims = vec![0];
        put_varint(&mut claims, MAX_VARINT);
        claims.extend([0, 0]);
        let too_many = RangesError::TooManyRanges { claimed: MAX_VARINT + 1, limit: 256 };
        assert_eq!(decoded(&claims, RangeLimits::default()), Err(too_many));
        assert_eq!(decoded(&claims, GENEROUS), Err(RangesError::Truncated));

        let mut huge = vec![0, 0];
        put_varint(&mut huge, MAX_VARINT);
        assert_eq!(decoded(&huge, RangeLimits::default()), Err(RangesError::TooManyPackets { limit: 256 }));
    }

    #[test]
    fn numbers_end_at_two_to_the_62() {
        let mut bytes = Vec::new();
        encode_packet_ranges([MAX_VARINT..=MAX_VARINT].into_iter(), &mut bytes);
        assert_eq!(decoded(&bytes, GENEROUS), Ok(vec![MAX_VARINT]));
        *bytes.last_mut().unwrap() = 1;
        assert_eq!(decoded(&bytes, GENEROUS), Err(RangesError::NumberTooLarge));
        let mut gap = Vec::new();
        for value in [MAX_VARINT - 1, 1, 0, 0, 0] {
            put_varint(&mut gap, value);
        }
        assert_eq!(decoded(&gap, GENEROUS), Err(RangesError::NumberTooLarge));
    }

    proptest! {
        #[test]
        fn sets_round_trip(
            numbers in prop::collection::btree_set(0..5000u64, 1..200),
            base in 0..MAX_VARINT - 5000,
        ) {
            let numbers: Vec<u64> = numbers.into_iter().map(|n| n + base).collect();
            let bytes = encoded(&numbers);
            prop_assert_eq!(bytes.len(), packet_ranges_len(Runs::new(numbers.iter().copied())));
            prop_assert_eq!(decoded(&bytes, RangeLimits::default()), Ok(numbers));
            for end in 0..bytes.len() {
                prop_assert_eq!(decoded(&bytes[..end], GENEROUS), Err(RangesError::Truncated));
            }
        }

        #[test]
        fn accepted_bytes_are_sets_within_the_limits(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(numbers) = decoded(&bytes, RangeLimits::default()) {
                prop_assert!((1..=256).contains(&numbers.len()));
                let set: BTreeSet<u64> = numbers.iter().copied().collect();
                prop_assert!(set.into_iter().eq(numbers));
            }
        }
    }
}
