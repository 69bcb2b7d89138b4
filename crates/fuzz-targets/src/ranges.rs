//! Sets of packet numbers: as REPAIR and RECOVERED carry them, and as ACK does.

use proto::{
    RangeSet,
    wire::{
        Frame, Frames, PacketRanges, RangeLimits, Reader, Runs, encode_ack, encode_packet_ranges,
        packet_ranges_len,
    },
};

use crate::input::Input;

/// The first byte chooses: a set as bytes, or an ACK made of drawn numbers that leaves room for
/// only some of its ranges.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.flag() { encoded(&mut input) } else { acknowledged(&mut input) }
}

fn encoded(input: &mut Input<'_>) {
    let limits = RangeLimits { packets: input.number(), ranges: input.number() };
    let bytes = input.rest();
    let mut reader = Reader::new(bytes);
    let Ok(set) = PacketRanges::decode(&mut reader, limits) else { return };
    assert!(set.packet_count() <= limits.packets && set.range_count() <= limits.ranges.max(1));
    let ranges: Vec<_> = set.iter().collect();
    assert_eq!(ranges.len() as u64, set.range_count());
    assert!(ranges.len() <= bytes.len(), "two integers per range");
    assert_eq!((*ranges[0].start(), *ranges[ranges.len() - 1].end()), (set.smallest(), set.largest()));
    assert!(ranges.windows(2).all(|pair| pair[0].end() + 1 < *pair[1].start()), "apart and ascending");
    if set.packet_count() <= 4_096 {
        assert_eq!(set.packets().count() as u64, set.packet_count());
        assert!(Runs::new(set.packets()).eq(ranges.iter().cloned()));
    }
    let mut wire = Vec::new();
    encode_packet_ranges(set.iter(), &mut wire);
    assert_eq!(wire.len(), packet_ranges_len(set.iter()));
    assert!(wire.len() <= reader.position());
    assert_eq!(PacketRanges::decode(&mut Reader::new(&wire), limits), Ok(set));
}

fn acknowledged(input: &mut Input<'_>) {
    let limit = usize::from(input.u16());
    let delay = input.number();
    let mut set = RangeSet::new();
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        let start = input.number().min((1 << 62) - 300);
        set.insert(start..start + 1 + u64::from(input.u8()));
    }
    let ranges = || set.iter().rev().map(|range| range.start..=range.end - 1);
    let mut wire = Vec::new();
    let written = encode_ack(None, delay, None, ranges(), limit, &mut wire);
    if written == 0 {
        assert!(wire.is_empty());
        return;
    }
    assert!(wire.len() <= limit, "{} bytes where {limit} fit", wire.len());
    let Some(Ok(Frame::Ack(ack))) = Frames::new(&wire).next() else { panic!("an ACK was written") };
    assert_eq!(ack.delay, delay);
    assert!(ack.ranges().eq(ranges().take(written)), "the newest ranges, as many as were said");
}
