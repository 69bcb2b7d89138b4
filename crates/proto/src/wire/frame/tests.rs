use core::ops::RangeInclusive;

use proptest::prelude::*;

use super::super::coding::MAX_VARINT;
use super::super::ids::{ConnectionId, Dir, PathId, ResetToken, StreamId};
use super::super::ranges::PacketRanges;
use super::super::varint::VarInt;
use super::*;

/// The problem of the first frame of `payload`.
fn problem(payload: &[u8]) -> FrameProblem {
    Frames::new(payload).next().unwrap().unwrap_err().problem
}

fn only(payload: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(payload);
    let frame = frames.next().unwrap().unwrap();
    assert_eq!(frames.next(), None);
    frame
}

/// A frame of type `frame_type` whose body is `fields` as varints.
fn varints(frame_type: u64, fields: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, frame_type);
    fields.iter().for_each(|&field| put_varint(&mut out, field));
    out
}

const INVALID: fn(&[u8]) -> bool = |payload| matches!(problem(payload), FrameProblem::Invalid(_));

#[test]
fn frames_follow_each_other() {
    let payload = [1, 0, 0, 0, 0x10, 5, 0x0b, 4, 1, b'a', 0x08, 4, b'b', b'c'];
    let frames: Result<Vec<_>, _> = Frames::new(&payload).collect();
    let stream = |offset, fin, data| Frame::Stream(Stream { id: StreamId(4), offset, fin, data });
    let expected = [
        Frame::Ping,
        Frame::Padding { len: 3 },
        Frame::MaxData(MaxData { maximum: 5 }),
        stream(0, true, &b"a"[..]),
        stream(0, false, b"bc"),
    ];
    assert_eq!(frames.unwrap(), expected);
}

#[test]
fn the_first_error_ends_the_walk() {
    let mut frames = Frames::new(&[1, 0x40, 1, 1, 1]);
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    let error = frames.next().unwrap().unwrap_err();
    assert_eq!(error, FrameError { frame_type: Some(1), problem: FrameProblem::TypeNotMinimal });
    assert_eq!(TransportError::from(error).code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert_eq!(frames.next(), None);
}

#[test]
fn a_payload_has_at_least_one_frame() {
    let mut frames = Frames::new(&[]);
    let error = frames.next().unwrap().unwrap_err();
    assert_eq!(TransportError::from(error).code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert_eq!(frames.next(), None);
}

#[test]
fn unknown_types_are_encoding_errors() {
    for frame_type in [0x1f, 0x21, 0x3e74, 0x3e7d, 0x0d3e_4d00, MAX_VARINT] {
        let payload = varints(frame_type, &[0; 20]);
        let error = Frames::new(&payload).next().unwrap().unwrap_err();
        assert_eq!(error, FrameError { frame_type: Some(frame_type), problem: FrameProblem::UnknownType });
        let error = TransportError::from(error);
        assert_eq!((error.code, error.frame), (TransportErrorCode::FRAME_ENCODING_ERROR, Some(frame_type)));
    }
}

/// The layouts of draft-ietf-quic-multipath-21 section 4 with the codepoints as deployed.
#[test]
fn multipath_layouts() {
    let path = PathId(3);
    assert_eq!(
        only(&varints(0x3e75, &[3, 0x3e76])),
        Frame::PathAbandon(PathAbandon { path, error_code: TransportErrorCode::PATH_UNSTABLE_OR_POOR })
    );
    let status = |backup| Frame::PathStatus(PathStatus { path, sequence: 7, backup });
    assert_eq!(only(&varints(0x3e76, &[3, 7])), status(true));
    assert_eq!(only(&varints(0x3e77, &[3, 7])), status(false));
    let mut new_id = varints(0x3e78, &[3, 9, 8]);
    new_id.extend([2, 0xaa, 0xbb]);
    new_id.extend([5; 16]);
    let expected = NewConnectionId {
        path: Some(path),
        sequence: 9,
        retire_prior_to: 8,
        id: ConnectionId::new(&[0xaa, 0xbb]).unwrap(),
        reset_token: ResetToken([5; 16]),
    };
    assert_eq!(only(&new_id), Frame::NewConnectionId(expected));
    let retire = RetireConnectionId { path: Some(path), sequence: 7 };
    assert_eq!(only(&varints(0x3e79, &[3, 7])), Frame::RetireConnectionId(retire));
    assert_eq!(only(&varints(0x3e7a, &[3])), Frame::MaxPathId(MaxPathId { maximum: path }));
    assert_eq!(only(&varints(0x3e7b, &[3])), Frame::PathsBlocked(PathsBlocked { maximum: path }));
    let blocked = PathCidsBlocked { path, next_sequence: 7 };
    assert_eq!(only(&varints(0x3e7c, &[3, 7])), Frame::PathCidsBlocked(blocked));

    let payload = varints(0x3f, &[3, 100, 9, 1, 10, 0, 5, 11, 12, 13]);
    let Frame::Ack(ack) = only(&payload) else { panic!() };
    assert_eq!((ack.path, ack.largest, ack.delay), (Some(path), 100, 9));
    assert_eq!(ack.ecn, Some(EcnCounts { ect0: 11, ect1: 12, ce: 13 }));
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [90..=100, 83..=88]);
}

#[test]
fn path_ids_have_32_bits() {
    for frame_type in [0x3e, 0x3f, 0x3e75, 0x3e76, 0x3e77, 0x3e78, 0x3e79, 0x3e7a, 0x3e7b, 0x3e7c] {
        let payload = varints(frame_type, &[1 << 32, 0, 0, 0, 0]);
        let error = Frames::new(&payload).next().unwrap().unwrap_err();
        assert_eq!(error.problem, FrameProblem::PathIdTooLarge, "{frame_type:#x}");
        assert_eq!(TransportError::from(error).code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn acks_of_negative_numbers_are_refused() {
    assert!(INVALID(&varints(0x02, &[5, 0, 0, 6])));
    // Range 4..=5, then a gap that reaches below zero, then a length that does.
    assert!(INVALID(&varints(0x02, &[5, 0, 1, 1, 3, 0])));
    assert!(INVALID(&varints(0x02, &[5, 0, 1, 1, 1, 2])));
    let payload = varints(0x02, &[5, 0, 1, 1, 1, 1]);
    let Frame::Ack(ack) = only(&payload) else { panic!() };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [4..=5, 0..=1]);
    // More ranges claimed than bytes are left.
    assert_eq!(problem(&varints(0x02, &[5, 0, MAX_VARINT, 0])), FrameProblem::Truncated);
}

#[test]
fn fields_out_of_range_are_refused() {
    let max = MAX_VARINT;
    assert!(INVALID(&[0x07, 0]), "NEW_TOKEN without a token");
    for frame_type in [0x12, 0x13, 0x16, 0x17] {
        assert!(INVALID(&varints(frame_type, &[(1 << 60) + 1])));
        only(&varints(frame_type, &[1 << 60]));
    }
    let mut stream = varints(0x0e, &[0, max, 1]);
    stream.push(0);
    assert!(INVALID(&stream), "STREAM beyond 2^62 - 1");
    only(&varints(0x0e, &[0, max, 0]));
    let mut crypto = varints(0x06, &[max, 1]);
    crypto.push(0);
    assert!(INVALID(&crypto), "CRYPTO beyond 2^62 - 1");
    for id_len in [0, 21] {
        let mut new_id = varints(0x18, &[1, 0, id_len]);
        new_id.extend([0; 40]);
        assert!(INVALID(&new_id), "connection id of {id_len} bytes");
    }
    let mut new_id = varints(0x18, &[1, 2, 4]);
    new_id.extend([0; 20]);
    assert!(INVALID(&new_id), "retire prior to beyond the sequence number");
}

fn repair(scheme: u8, count: u8, members: &[u64], symbol_id: u64, symbol: &[u8]) -> Vec<u8> {
    let mut out = varints(frame_types::REPAIR, &[1]);
    out.extend([scheme, count]);
    members.iter().for_each(|&field| put_varint(&mut out, field));
    put_varint(&mut out, symbol_id);
    put_varint(&mut out, symbol.len() as u64);
    out.extend(symbol);
    out
}

/// The layouts at the top of `repair.rs`, by hand.
#[test]
fn repair_layouts() {
    let payload = [0x8d, 0x3e, 0x4d, 0x01, 1, 1, 3, 10, 1, 1, 0, 2, 2, 2, 0xab, 0xcd];
    assert_eq!(repair(1, 3, &[10, 1, 1, 0, 2], 2, &[0xab, 0xcd]), payload);
    let Frame::Repair(frame) = only(&payload) else { panic!() };
    assert_eq!((frame.path, frame.scheme, frame.repair_count), (PathId(1), CodeScheme::ReedSolomon, 3));
    assert_eq!((frame.symbol_id, frame.symbol), (2, &[0xab, 0xcd][..]));
    assert_eq!(frame.members.packets().collect::<Vec<_>>(), [10, 11, 13, 14, 15]);

    let payload = [0x8d, 0x3e, 0x4d, 0x02, 1, 10, 1, 1, 0, 2];
    let Frame::Recovered(frame) = only(&payload) else { panic!() };
    assert_eq!(frame.path, PathId(1));
    assert_eq!(frame.packets.packets().collect::<Vec<_>>(), [10, 11, 13, 14, 15]);
}

#[test]
fn hostile_repairs_are_refused() {
    let ok = [10, 0, 4];
    only(&repair(1, 3, &ok, 2, &[1]));
    only(&repair(2, 1, &ok, MAX_VARINT, &[1]));
    assert!(INVALID(&repair(0, 3, &ok, 0, &[1])), "no such scheme");
    assert!(INVALID(&repair(4, 3, &ok, 0, &[1])), "no such scheme");
    only(&repair(3, 1, &[10, 1, 4, 181, 4], MAX_VARINT, &[1]));
    assert!(INVALID(&repair(3, 1, &[10, 1, 4, 182, 4], 0, &[1])), "a window of 193 numbers");
    assert!(INVALID(&repair(3, 0, &ok, 0, &[1])), "no repair symbols");
    assert!(INVALID(&repair(3, 1, &ok, 0, &[])), "empty symbol");
    assert!(INVALID(&repair(1, 0, &ok, 0, &[1])), "no repair symbols");
    assert!(INVALID(&repair(2, 0, &ok, 0, &[1])), "no repair symbols");
    assert!(INVALID(&repair(1, 3, &ok, 3, &[1])), "index beyond the count");
    assert!(INVALID(&repair(1, 3, &ok, 2, &[])), "empty symbol");
    only(&repair(1, 6, &[10, 0, 249], 5, &[1]));
    assert!(INVALID(&repair(1, 7, &[10, 0, 249], 5, &[1])), "more than 256 symbols");
    only(&repair(2, 7, &[10, 0, 255], 5, &[1]));
    assert!(INVALID(&repair(2, 7, &[10, 0, 256], 5, &[1])), "too many members");
    assert!(INVALID(&repair(2, 7, &[10, 0, MAX_VARINT - 10], 5, &[1])), "too many members");
    assert!(INVALID(&repair(2, 7, &[10, MAX_VARINT, 0], 5, &[1])), "too many ranges");

    let limits = RangeLimits { packets: 5, ranges: 1 };
    let with_limits = |payload: &[u8]| Frames::with_limits(payload, limits).next().unwrap().is_ok();
    assert!(with_limits(&repair(1, 3, &ok, 2, &[1])));
    assert!(!with_limits(&repair(1, 3, &[10, 0, 5], 2, &[1])));
    assert!(!with_limits(&varints(frame_types::RECOVERED, &[1, 10, 1, 0, 0, 0])));
}

fn combination(block: u64, scheme: u8, index: u64, members: &[u64], symbol: &[u8]) -> Vec<u8> {
    let mut out = varints(frame_types::COMBINATION, &[block]);
    out.push(scheme);
    put_varint(&mut out, index);
    members.iter().for_each(|&field| put_varint(&mut out, field));
    put_varint(&mut out, symbol.len() as u64);
    out.extend(symbol);
    out
}

/// The layout at the top of `combination.rs`, by hand: packets 10 and 11 of path 0, 7 of path 2.
#[test]
fn combination_layout() {
    let payload = [0x8d, 0x3e, 0x4d, 0x03, 5, 2, 9, 2, 0, 10, 0, 1, 2, 7, 0, 0, 2, 0xab, 0xcd];
    assert_eq!(combination(5, 2, 9, &[2, 0, 10, 0, 1, 2, 7, 0, 0], &[0xab, 0xcd]), payload);
    let Frame::Combination(frame) = only(&payload) else { panic!() };
    assert_eq!((frame.block, frame.seed(), frame.index, frame.symbol), (5, 5, 9, &[0xab, 0xcd][..]));
    let (zero, two) = (PathId(0), PathId(2));
    assert_eq!(frame.members.packets().collect::<Vec<_>>(), [(zero, 10), (zero, 11), (two, 7)]);
    assert_eq!((frame.members.packet_count(), frame.members.path_count()), (3, 2));
    assert_eq!(
        block_seed((1 << 30) + 3),
        3,
        "seeds wrap, so that the symbol's identifier is a legal integer"
    );
}

#[test]
fn hostile_combinations_are_refused() {
    let ok = [1, 0, 10, 0, 4];
    only(&combination(0, 2, u64::from(u32::MAX), &ok, &[1]));
    assert!(INVALID(&combination(0, 2, 1 << 32, &ok, &[1])), "index too large");
    assert!(INVALID(&combination(0, 1, 0, &ok, &[1])), "another scheme");
    assert!(INVALID(&combination(0, 3, 0, &ok, &[1])), "no such scheme");
    assert!(INVALID(&combination(0, 2, 0, &ok, &[])), "empty symbol");
    assert!(INVALID(&combination(0, 2, 0, &[0], &[1])), "no path");
    assert!(
        INVALID(&combination(0, 2, 0, &[65, 0, 1, 0, 0], &[1])),
        "too many paths, seen before any of them is read"
    );
    assert!(INVALID(&combination(0, 2, 0, &[MAX_VARINT], &[1])), "too many paths");
    only(&combination(0, 2, 0, &[2, 1, 0, 0, 0, 2, 0, 0, 0], &[1]));
    assert!(INVALID(&combination(0, 2, 0, &[2, 2, 0, 0, 0, 1, 0, 0, 0], &[1])), "paths out of order");
    assert!(INVALID(&combination(0, 2, 0, &[2, 1, 0, 0, 0, 1, 9, 0, 0], &[1])), "a path twice");
    only(&combination(0, 2, 0, &[1, 0, 0, 0, 254], &[1]));
    assert!(INVALID(&combination(0, 2, 0, &[1, 0, 0, 0, 255], &[1])), "256 members");
    only(&combination(0, 2, 0, &[2, 0, 0, 0, 127, 1, 0, 0, 126], &[1]));
    assert!(
        INVALID(&combination(0, 2, 0, &[2, 0, 0, 0, 127, 1, 0, 0, 127], &[1])),
        "256 members of two paths"
    );
    assert!(INVALID(&combination(0, 2, 0, &[1, 0, 10, MAX_VARINT, 0], &[1])), "too many ranges");
    assert!(INVALID(&combination(0, 2, 0, &[1, 0, MAX_VARINT, 0, 1], &[1])), "packet number too large");
    let cut = combination(0, 2, 0, &ok, &[1, 2, 3]);
    for len in 4..cut.len() {
        assert!(matches!(problem(&cut[..len]), FrameProblem::Truncated), "cut after {len} bytes");
    }
}

/// RFC 9000 table 3, row by row, in its letters: I, H, 0, 1.
#[test]
fn frames_and_packet_types() {
    let reason = &b""[..];
    let new_id = |path| {
        Frame::NewConnectionId(NewConnectionId {
            path,
            sequence: 0,
            retire_prior_to: 0,
            id: ConnectionId::new(&[1]).unwrap(),
            reset_token: ResetToken([0; 16]),
        })
    };
    let retire = |path| Frame::RetireConnectionId(RetireConnectionId { path, sequence: 0 });
    let transport_close =
        ConnectionClose::Transport { error_code: TransportErrorCode::NO_ERROR, frame_type: None, reason };
    let (ack, path_ack) = (varints(0x02, &[0; 4]), varints(0x3e, &[0; 5]));
    let repair = repair(1, 1, &[0, 0, 0], 0, &[1]);
    let recovered = varints(frame_types::RECOVERED, &[0; 4]);
    let combination = combination(0, 2, 0, &[1, 0, 0, 0, 0], &[1]);
    let id = StreamId(0);
    // The second letters: P for probing, N for not ack-eliciting.
    let table = [
        (Frame::Padding { len: 1 }, "IH01", "NP"),
        (Frame::Ping, "IH01", ""),
        (only(&ack), "IH1", "N"),
        (Frame::ResetStream(ResetStream { id, error_code: VarInt::from_u32(0), final_size: 0 }), "01", ""),
        (
            Frame::ResetStreamAt(ResetStreamAt {
                id,
                error_code: VarInt::from_u32(0),
                final_size: 0,
                reliable_size: 0,
            }),
            "01",
            "",
        ),
        (Frame::StopSending(StopSending { id, error_code: VarInt::from_u32(0) }), "01", ""),
        (Frame::Crypto(Crypto { offset: 0, data: b"" }), "IH1", ""),
        (Frame::NewToken(NewToken { token: b"t" }), "1", ""),
        (Frame::Stream(Stream { id, offset: 0, fin: false, data: b"" }), "01", ""),
        (Frame::MaxData(MaxData { maximum: 0 }), "01", ""),
        (Frame::MaxStreamData(MaxStreamData { id, maximum: 0 }), "01", ""),
        (Frame::MaxStreams(MaxStreams { dir: Dir::Bi, maximum: 0 }), "01", ""),
        (Frame::DataBlocked(DataBlocked { limit: 0 }), "01", ""),
        (Frame::StreamDataBlocked(StreamDataBlocked { id, limit: 0 }), "01", ""),
        (Frame::StreamsBlocked(StreamsBlocked { dir: Dir::Uni, limit: 0 }), "01", ""),
        (new_id(None), "01", "P"),
        (retire(None), "1", ""),
        (Frame::PathChallenge(PathChallenge([0; 8])), "01", "P"),
        (Frame::PathResponse(PathResponse([0; 8])), "1", "P"),
        (Frame::ConnectionClose(transport_close), "IH01", "N"),
        (
            Frame::ConnectionClose(ConnectionClose::Application { error_code: VarInt::from_u32(0), reason }),
            "01",
            "N",
        ),
        (Frame::HandshakeDone, "1", ""),
        (Frame::Datagram(Datagram { data: b"" }), "01", ""),
        (only(&path_ack), "1", "N"),
        (new_id(Some(PathId(1))), "1", "P"),
        (retire(Some(PathId(1))), "1", ""),
        (Frame::MaxPathId(MaxPathId { maximum: PathId(1) }), "1", ""),
        (only(&repair), "1", ""),
        (only(&recovered), "1", ""),
        (only(&combination), "1", ""),
    ];
    let kinds = [
        ('I', PacketKind::Initial),
        ('H', PacketKind::Handshake),
        ('0', PacketKind::ZeroRtt),
        ('1', PacketKind::OneRtt),
    ];
    for (frame, packets, marks) in table {
        for (letter, kind) in kinds {
            assert_eq!(frame.is_allowed_in(kind), packets.contains(letter), "{frame:?} in {kind:?}");
        }
        assert_eq!(frame.is_ack_eliciting(), !marks.contains('N'), "{frame:?}");
        assert_eq!(frame.is_probing(), marks.contains('P'), "{frame:?}");
        let extension = match frame.frame_type() {
            0x24 => Some(Extension::ResetStreamAt),
            0x30 | 0x31 => Some(Extension::Datagram),
            frame_types::REPAIR..=frame_types::COMBINATION => Some(Extension::Repair),
            0x3e.. => Some(Extension::Multipath),
            _ => None,
        };
        assert_eq!(frame.extension(), extension, "{frame:?}");
    }
}

#[test]
fn a_close_fits_where_it_must() {
    let reason = "détails ".repeat(20);
    let error = TransportError::internal_error(reason.clone()).in_frame(MAX_VARINT);
    let close = ConnectionClose::from(&error);
    assert_eq!(close.fitted(1000), close);
    for limit in 18..close.encoded_len() + 2 {
        let fitted = close.fitted(limit);
        assert!(fitted.encoded_len() <= limit);
        assert!(reason.starts_with(str::from_utf8(fitted.reason()).unwrap()));
        // At most a character and a longer length field are given away.
        assert!(fitted.encoded_len() + 3 >= limit.min(close.encoded_len()), "{limit}");
    }
}

#[test]
fn data_fills_a_packet_exactly() {
    let id = StreamId(77);
    for space in 0..70_000_usize {
        for explicit in [false, true] {
            let Some(data) = StreamHeader::max_data(id, 5000, space, explicit) else {
                assert!(space < StreamHeader::len(id, 5000, 0, explicit));
                continue;
            };
            assert!(StreamHeader::len(id, 5000, data, explicit) + data <= space);
            assert!(StreamHeader::len(id, 5000, data + 1, explicit) + data + 1 > space);
        }
        match CryptoHeader::max_data(5000, space) {
            Some(data) => {
                assert!(CryptoHeader::len(5000, data) + data <= space);
                assert!(CryptoHeader::len(5000, data + 1) + data + 1 > space);
            }
            None => assert!(space < CryptoHeader::len(5000, 0)),
        }
    }
}

#[test]
fn a_symbol_fills_a_packet_exactly() {
    let mut header = RepairHeader {
        path: PathId(300),
        scheme: CodeScheme::ReedSolomon,
        repair_count: 3,
        symbol_id: 2,
        symbol_len: 0,
    };
    let members = [100..=104, 110..=110].into_iter();
    assert_eq!(header.max_symbol(members.clone(), 10), None);
    for space in 100..1500 {
        header.symbol_len = header.max_symbol(members.clone(), space).unwrap();
        let mut out = Vec::new();
        header.encode(members.clone(), &mut out);
        assert_eq!(out.len(), header.encoded_len(members.clone()));
        out.resize(out.len() + header.symbol_len, 1);
        // One byte may stay unused where the length field grows.
        assert!(out.len() == space || (out.len() + 1 == space && header.symbol_len == 63), "{space}");
        let Frame::Repair(repair) = only(&out) else { panic!() };
        assert_eq!(repair.symbol.len(), header.symbol_len);
        assert!(repair.members.iter().eq(members.clone()));
    }
}

/// The count of ranges takes a second byte from 64 on: no limit is passed for that.
#[test]
fn acks_never_exceed_their_limit() {
    let ranges = (0..100_u64).map(|i| 10_000 - 2 * i..=10_000 - 2 * i);
    for limit in 0..220 {
        let mut out = Vec::new();
        let written = encode_ack(None, 0, None, ranges.clone(), limit, &mut out);
        assert!(out.len() <= limit);
        // Type, largest, delay, count and first range take 6 or 7 bytes, every further range
        // takes 2.
        let fits =
            if limit < 6 { 0 } else { (1 + (limit - 6) / 2).min(64).max(1 + limit.saturating_sub(7) / 2) };
        assert_eq!(written, fits.min(100), "{limit}");
    }
}

/// Ranges newest first, at least two packets apart, from (gap, length) pairs.
fn descending(largest: u64, pairs: &[(u64, u64)]) -> Vec<RangeInclusive<u64>> {
    let mut ranges = Vec::new();
    let mut end = largest;
    for &(gap, length) in pairs {
        let Some(start) = end.checked_sub(length) else { break };
        ranges.push(start..=end);
        let Some(next) = start.checked_sub(gap + 2) else { break };
        end = next;
    }
    ranges
}

fn varint() -> impl Strategy<Value = u64> {
    (0..=MAX_VARINT, 0..62_u32).prop_map(|(value, shift)| value >> shift)
}

fn ack_input() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    let pairs = prop::collection::vec((0..200_u64, 0..200_u64), 1..100);
    (200..=MAX_VARINT, pairs).prop_map(|(largest, pairs)| descending(largest, &pairs))
}

fn ecn() -> impl Strategy<Value = Option<EcnCounts>> {
    prop::option::of((varint(), varint(), varint()).prop_map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce }))
}

/// Any frame, already encoded by its own `encode`, with the length that it promised.
fn encoded_frame() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    prop_oneof![
        stream_frames(),
        limit_frames(),
        connection_frames(),
        multipath_frames(),
        repair_frames(),
        combinations()
    ]
}

macro_rules! encoded {
    ($frame:expr) => {{
        let frame = $frame;
        let mut out = Vec::new();
        frame.encode(&mut out);
        (out, Some(frame.encoded_len()))
    }};
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..100)
}

fn stream_frames() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    let input = (0..6_u8, varint(), varint(), 0..MAX_VARINT - 100, any::<bool>(), data());
    input.prop_map(|(which, id, number, offset, fin, data)| {
        let id = StreamId(id);
        match which {
            0 => encoded!(Stream { id, offset, fin, data: &data }),
            1 => encoded!(Crypto { offset, data: &data }),
            2 => encoded!(Datagram { data: &data }),
            3 => encoded!(ResetStream { id, error_code: VarInt::saturating(number), final_size: offset }),
            4 => encoded!(ResetStreamAt {
                id,
                error_code: VarInt::saturating(number),
                final_size: offset,
                reliable_size: number,
            }),
            _ => encoded!(StopSending { id, error_code: VarInt::saturating(number) }),
        }
    })
}

fn limit_frames() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    (0..6_u8, varint(), varint(), any::<bool>()).prop_map(|(which, id, number, bi)| {
        let id = StreamId(id);
        let dir = if bi { Dir::Bi } else { Dir::Uni };
        let streams = number.min(1 << 60);
        match which {
            0 => encoded!(MaxData { maximum: number }),
            1 => encoded!(MaxStreamData { id, maximum: number }),
            2 => encoded!(MaxStreams { dir, maximum: streams }),
            3 => encoded!(DataBlocked { limit: number }),
            4 => encoded!(StreamDataBlocked { id, limit: number }),
            _ => encoded!(StreamsBlocked { dir, limit: streams }),
        }
    })
}

fn connection_frames() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    let id = prop::collection::vec(any::<u8>(), 1..=20);
    let input = (0..5_u8, varint(), varint(), any::<Option<u32>>(), id, data());
    input.prop_map(|(which, number, other, path, id, data)| {
        let path = path.map(PathId);
        match which {
            0 => encoded!(NewToken { token: &id }),
            1 => encoded!(NewConnectionId {
                path,
                sequence: number,
                retire_prior_to: number.min(other),
                id: ConnectionId::new(&id).unwrap(),
                reset_token: ResetToken([id[0]; 16]),
            }),
            2 => encoded!(RetireConnectionId { path, sequence: number }),
            3 => encoded!(ConnectionClose::Application {
                error_code: VarInt::saturating(number),
                reason: &data
            }),
            _ => encoded!(ConnectionClose::Transport {
                error_code: TransportErrorCode(VarInt::saturating(number)),
                frame_type: Some(other).filter(|&frame_type| frame_type > 0),
                reason: &data,
            }),
        }
    })
}

fn multipath_frames() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    (0..7_u8, any::<u32>(), varint(), any::<bool>()).prop_map(|(which, path, number, backup)| {
        let path = PathId(path);
        match which {
            0 => encoded!(PathAbandon { path, error_code: TransportErrorCode(VarInt::saturating(number)) }),
            1 => encoded!(PathStatus { path, sequence: number, backup }),
            2 => encoded!(MaxPathId { maximum: path }),
            3 => encoded!(PathsBlocked { maximum: path }),
            4 => encoded!(PathCidsBlocked { path, next_sequence: number }),
            5 => (varints(0x1a + u64::from(backup), &[0; 8]), Some(PathChallenge::LEN)),
            _ => (varints(if backup { 0x01 } else { 0x1e }, &[]), None),
        }
    })
}

fn repair_frames() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    let numbers = prop::collection::btree_set(0..1000_u64, 1..100);
    let symbol = prop::collection::vec(any::<u8>(), 1..100);
    let schemes = prop::option::of(0..3_usize);
    let input = (any::<u32>(), schemes, numbers, 1..100_u8, varint(), symbol);
    input.prop_map(|(path, kind, mut numbers, repair_count, id, symbol)| {
        let path = PathId(path);
        if kind == Some(2) {
            numbers = numbers.into_iter().map(|number| number % fec::window::SPAN).collect();
        }
        let mut set = Vec::new();
        super::super::encode_packet_ranges(super::super::Runs::new(numbers.iter().copied()), &mut set);
        let members = PacketRanges::decode(&mut Reader::new(&set), RangeLimits::default()).unwrap();
        let (scheme, symbol_id) = match kind {
            None => return encoded!(Recovered { path, packets: members }),
            Some(0) => (CodeScheme::ReedSolomon, id % u64::from(repair_count)),
            Some(1) => (CodeScheme::RandomLinear, id),
            Some(_) => (CodeScheme::Window, id),
        };
        encoded!(Repair { path, scheme, repair_count, members, symbol_id, symbol: &symbol })
    })
}

fn combinations() -> impl Strategy<Value = (Vec<u8>, Option<usize>)> {
    let numbers = prop::collection::btree_set(0..1000_u64, 1..60);
    let paths = prop::collection::btree_map(any::<u32>(), numbers, 1..5);
    let symbol = prop::collection::vec(any::<u8>(), 1..100);
    (varint(), any::<u32>(), paths, symbol).prop_map(|(block, index, paths, symbol)| {
        let header = CombinationHeader { block, index, symbol_len: symbol.len() };
        let members = paths
            .iter()
            .map(|(path, numbers)| (PathId(*path), super::super::Runs::new(numbers.iter().copied())));
        let mut out = Vec::new();
        header.encode(members.clone(), &mut out);
        let len = header.encoded_len(members) + symbol.len();
        out.extend(symbol);
        (out, Some(len))
    })
}

proptest! {
    #[test]
    fn every_frame_round_trips((bytes, promised) in encoded_frame()) {
        prop_assert_eq!(bytes.len(), promised.unwrap_or(bytes.len()));
        let frame = only(&bytes);
        let mut again = Vec::new();
        frame.encode(&mut again);
        prop_assert_eq!(&again, &bytes);
        prop_assert_eq!(Reader::new(&bytes).varint(), Ok(frame.frame_type()));
        for end in 1..bytes.len() {
            prop_assert_eq!(problem(&bytes[..end]), FrameProblem::Truncated, "{:?}", frame);
        }
    }

    #[test]
    fn streams_and_datagrams_may_run_to_the_end(
        id in varint(),
        offset in 0..MAX_VARINT - 100,
        fin: bool,
        data in data(),
    ) {
        let id = StreamId(id);
        let mut out = Vec::new();
        StreamHeader { id, offset, fin, data_len: None }.encode(&mut out);
        prop_assert_eq!(out.len(), StreamHeader::len(id, offset, data.len(), false));
        out.extend(&data);
        prop_assert_eq!(only(&out), Frame::Stream(Stream { id, offset, fin, data: &data }));

        let mut out = Vec::new();
        DatagramHeader { data_len: None }.encode(&mut out);
        prop_assert_eq!(out.len(), DatagramHeader::len(data.len(), false));
        out.extend(&data);
        prop_assert_eq!(only(&out), Frame::Datagram(Datagram { data: &data }));
    }

    #[test]
    fn acks_round_trip(ranges in ack_input(), path: Option<u32>, delay in varint(), ecn in ecn()) {
        let path = path.map(PathId);
        let mut out = Vec::new();
        let written = encode_ack(path, delay, ecn, ranges.iter().cloned(), usize::MAX, &mut out);
        prop_assert_eq!(written, ranges.len());
        let Frame::Ack(ack) = only(&out) else { panic!() };
        prop_assert_eq!((ack.path, ack.delay, ack.ecn, ack.largest), (path, delay, ecn, *ranges[0].end()));
        prop_assert!(ack.ranges().eq(ranges.iter().cloned()));
        let mut again = Vec::new();
        ack.encode(&mut again);
        prop_assert_eq!(&again, &out);
        for end in 1..out.len() {
            prop_assert_eq!(problem(&out[..end]), FrameProblem::Truncated);
        }
    }

    #[test]
    fn acks_drop_the_oldest_ranges_first(
        ranges in ack_input(),
        limit in 0..400_usize,
        path: Option<u32>,
        ecn in ecn(),
    ) {
        let path = path.map(PathId);
        let mut out = vec![0xee];
        let written = encode_ack(path, 7, ecn, ranges.iter().cloned(), limit, &mut out);
        let out = &out[1..];
        prop_assert!(out.len() <= limit);
        if written > 0 {
            let Frame::Ack(ack) = only(out) else { panic!() };
            prop_assert!(ack.ranges().eq(ranges[..written].iter().cloned()));
        } else {
            prop_assert!(out.is_empty());
        }
        if written < ranges.len() {
            let mut more = Vec::new();
            encode_ack(path, 7, ecn, ranges[..written + 1].iter().cloned(), usize::MAX, &mut more);
            prop_assert!(more.len() > limit);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        frame_type in prop_oneof![0..0x40_u64, 0x3e75..=0x3e7c_u64, 0x0d3e_4d01..=0x0d3e_4d02_u64],
        body in prop::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..80),
    ) {
        let mut payload = varints(frame_type, &[]);
        payload.extend(body);
        let mut frames = 0;
        for frame in Frames::new(&payload) {
            frames += 1;
            let Ok(frame) = frame else { continue };
            let mut out = Vec::new();
            frame.encode(&mut out);
            prop_assert_eq!(only(&out), frame);
        }
        prop_assert!(frames >= 1 && frames <= payload.len());
    }
}
