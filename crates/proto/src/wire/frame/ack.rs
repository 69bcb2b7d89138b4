//! ACK and PATH_ACK (RFC 9000 section 19.3, draft-ietf-quic-multipath-21 section 4.1).

use core::ops::RangeInclusive;

use super::super::coding::{Reader, put_varint, varint_len};
use super::super::ids::PathId;
use super::field::Field;
use super::{FrameProblem, frame_types};

/// How many packets arrived with each ECN codepoint, counted from the start of the packet number
/// space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked as having met congestion.
    pub ce: u64,
}

/// ACK, or PATH_ACK if it names a path. Its ranges have been validated and are still in their
/// encoded form.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The path whose packets are acknowledged; `None` in an ACK, which is about path 0 (and the
    /// handshake's spaces).
    pub path: Option<PathId>,
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// Time between the arrival of `largest` and the sending of this frame, in microseconds divided
    /// by 2 to the power of the sender's ack_delay_exponent.
    pub delay: u64,
    /// ECN counts, in frames of the type that has them.
    pub ecn: Option<EcnCounts>,
    smallest_of_first: u64,
    further: &'a [u8],
}

impl<'a> Ack<'a> {
    /// Reads and validates what follows the type, in time proportional to the length of the frame
    /// and without allocation.
    pub(super) fn decode(frame_type: u64, reader: &mut Reader<'a>) -> Result<Self, FrameProblem> {
        let has_path = matches!(frame_type, frame_types::PATH_ACK | frame_types::PATH_ACK_ECN);
        let path = if has_path { Some(PathId::read(reader)?) } else { None };
        let largest = reader.varint()?;
        let delay = reader.varint()?;
        let range_count = reader.varint()?;
        let negative = FrameProblem::Invalid("acknowledges negative packet numbers");
        let smallest_of_first = largest.checked_sub(reader.varint()?).ok_or(negative)?;

        let mut walker = reader.clone();
        let mut smallest = smallest_of_first;
        for _ in 0..range_count {
            smallest = *next_range(smallest, &mut walker)?.ok_or(negative)?.start();
        }
        let further = reader.bytes(walker.position() - reader.position())?;

        let has_ecn = matches!(frame_type, frame_types::ACK_ECN | frame_types::PATH_ACK_ECN);
        let ecn = if has_ecn {
            Some(EcnCounts { ect0: reader.varint()?, ect1: reader.varint()?, ce: reader.varint()? })
        } else {
            None
        };
        Ok(Self { path, largest, delay, ecn, smallest_of_first, further })
    }

    /// The acknowledged packet numbers, newest range first. The number of ranges is bounded by the
    /// size of the packet; their lengths are whatever the peer claims, so walk ranges, not packet
    /// numbers.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone + use<'a> {
        let mut reader = Reader::new(self.further);
        let mut next = Some(self.smallest_of_first..=self.largest);
        core::iter::from_fn(move || {
            let range = next.take()?;
            if !reader.is_empty() {
                // Validated by `decode`: this cannot fail.
                next = next_range(*range.start(), &mut reader).ok().flatten();
            }
            Some(range)
        })
    }

    pub(super) const fn frame_type(&self) -> u64 {
        frame_type(self.path, self.ecn)
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_ack(self.path, self.delay, self.ecn, self.ranges(), usize::MAX, out);
    }
}

impl PartialEq for Ack<'_> {
    /// Equal contents are equal, however long their integers are.
    fn eq(&self, other: &Self) -> bool {
        (self.path, self.delay, self.ecn) == (other.path, other.delay, other.ecn)
            && self.ranges().eq(other.ranges())
    }
}

impl Eq for Ack<'_> {}

/// The range below one that starts at `smallest`; `Ok(None)` if it would be negative.
fn next_range(smallest: u64, reader: &mut Reader<'_>) -> Result<Option<RangeInclusive<u64>>, FrameProblem> {
    let gap = reader.varint()?;
    let length = reader.varint()?;
    // Gap and length are one less than the numbers of packets they stand for.
    let Some(end) = smallest.checked_sub(gap + 2) else { return Ok(None) };
    Ok(end.checked_sub(length).map(|start| start..=end))
}

/// The type of a frame with these fields.
const fn frame_type(path: Option<PathId>, ecn: Option<EcnCounts>) -> u64 {
    match (path, ecn) {
        (None, None) => frame_types::ACK,
        (None, Some(_)) => frame_types::ACK_ECN,
        (Some(_), None) => frame_types::PATH_ACK,
        (Some(_), Some(_)) => frame_types::PATH_ACK_ECN,
    }
}

/// Appends an ACK (or a PATH_ACK, if `path` is given) of at most `limit` bytes and returns how many
/// of `ranges` it holds.
///
/// `ranges` come newest first and neither touch nor overlap; the oldest are dropped if they do not
/// fit. If not even the first fits, or there are none, nothing is appended and the answer is 0.
/// `delay` is the raw value of the field.
pub fn encode_ack(
    path: Option<PathId>,
    delay: u64,
    ecn: Option<EcnCounts>,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    limit: usize,
    out: &mut Vec<u8>,
) -> usize {
    let mut further = ranges.clone();
    let Some(first) = further.next() else { return 0 };
    let ecn_fields = ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]).into_iter().flatten();
    let fixed = 1
        + path.map_or(0, |path| varint_len(path.to_varint()))
        + varint_len(*first.end())
        + varint_len(delay)
        + varint_len(range_len(&first))
        + ecn_fields.clone().map(varint_len).sum::<usize>();
    let Some(count) = ranges_that_fit(*first.start(), further.clone(), fixed, limit) else { return 0 };

    put_varint(out, frame_type(path, ecn));
    if let Some(path) = path {
        path.put(out);
    }
    put_varint(out, *first.end());
    put_varint(out, delay);
    put_varint(out, count as u64);
    put_varint(out, range_len(&first));
    for [gap, length] in gaps_and_lengths(*first.start(), further).take(count) {
        put_varint(out, gap);
        put_varint(out, length);
    }
    ecn_fields.for_each(|field| put_varint(out, field));
    1 + count
}

/// How many of the `further` ranges fit `limit` beside `fixed` bytes and their own count; `None` if
/// the fixed part does not.
fn ranges_that_fit(
    smallest: u64,
    further: impl Iterator<Item = RangeInclusive<u64>>,
    fixed: usize,
    limit: usize,
) -> Option<usize> {
    let mut used = fixed;
    let mut count = 0;
    if used + varint_len(0) > limit {
        return None;
    }
    for [gap, length] in gaps_and_lengths(smallest, further) {
        used += varint_len(gap) + varint_len(length);
        if used + varint_len(count as u64 + 1) > limit {
            break;
        }
        count += 1;
    }
    Some(count)
}

/// The two fields of each range that follows one starting at `smallest`.
fn gaps_and_lengths(
    mut smallest: u64,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
) -> impl Iterator<Item = [u64; 2]> {
    ranges.map(move |range| {
        debug_assert!(smallest >= *range.end() + 2, "ranges must descend and not touch");
        let gap = smallest.saturating_sub(*range.end() + 2);
        smallest = *range.start();
        [gap, range_len(&range)]
    })
}

/// Packets of the range beside its largest.
fn range_len(range: &RangeInclusive<u64>) -> u64 {
    range.end().saturating_sub(*range.start())
}
