//! Frames that no honest peer would put together, but that each can be read.

use std::ops::RangeInclusive;

use proto::{
    ConnectionId, Dir, PathId, StreamId, TransportErrorCode, VarInt,
    wire::{
        CodeScheme, ConnectionClose, Crypto, DataBlocked, Datagram, Frame, MaxData, MaxPathId, MaxStreamData,
        MaxStreams, NewConnectionId, NewToken, PathAbandon, PathChallenge, PathCidsBlocked, PathResponse,
        PathStatus, PathsBlocked, RepairHeader, ResetStream, ResetStreamAt, ResetToken, RetireConnectionId,
        StopSending, Stream, StreamDataBlocked, StreamsBlocked, encode_ack, encode_recovered,
    },
};

use crate::input::Input;

/// A payload of up to 16 frames; never empty.
pub fn payload(input: &mut Input<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + input.below(16) {
        frame(input, &mut out);
    }
    if out.is_empty() {
        out.push(1);
    }
    out
}

fn frame(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let kind = input.u8() % 36;
    match kind {
        0 => out.extend_from_slice(input.bytes(usize::from(input.clone().u8()))),
        1..=4 => stream(input, out),
        5..=7 => ack(input, out),
        8 | 9 => repair(input, out),
        10 => encode_recovered(path(input), ranges(input).iter().cloned(), out),
        11 => {
            let offset = input.number();
            let data = data(input);
            if in_reach(offset, &data) {
                Crypto { offset, data: &data }.encode(out);
            }
        }
        12 => Datagram { data: &data(input) }.encode(out),
        13 | 14 => new_connection_id(input, out),
        15 => {
            let path = input.flag().then(|| path(input));
            RetireConnectionId { path, sequence: input.number() }.encode(out);
        }
        16 => {
            let reason = data(input);
            let error_code = TransportErrorCode(VarInt::saturating(input.number()));
            ConnectionClose::Transport { error_code, frame_type: None, reason: &reason }.encode(out);
        }
        _ => simple(kind, input, out),
    }
}

/// Frames of fixed fields.
fn simple(kind: u8, input: &mut Input<'_>, out: &mut Vec<u8>) {
    let n = input.number();
    let frame = match kind {
        17 if n & 1 == 1 => Frame::ResetStreamAt(ResetStreamAt {
            id: stream_id(input),
            error_code: VarInt::saturating(n),
            final_size: input.number(),
            reliable_size: input.number(),
        }),
        17 => Frame::ResetStream(ResetStream {
            id: stream_id(input),
            error_code: VarInt::saturating(n),
            final_size: input.number(),
        }),
        18 => Frame::StopSending(StopSending { id: stream_id(input), error_code: VarInt::saturating(n) }),
        19 => Frame::MaxData(MaxData { maximum: n }),
        20 => Frame::MaxStreamData(MaxStreamData { id: stream_id(input), maximum: n }),
        21 => Frame::MaxStreams(MaxStreams { dir: dir(input), maximum: n.min(1 << 60) }),
        22 => Frame::DataBlocked(DataBlocked { limit: n }),
        23 => Frame::StreamDataBlocked(StreamDataBlocked { id: stream_id(input), limit: n }),
        24 => Frame::StreamsBlocked(StreamsBlocked { dir: dir(input), limit: n.min(1 << 60) }),
        25 => Frame::PathChallenge(PathChallenge(n.to_be_bytes())),
        26 => Frame::PathResponse(PathResponse(n.to_be_bytes())),
        27 => Frame::PathAbandon(PathAbandon {
            path: path(input),
            error_code: TransportErrorCode(VarInt::saturating(n)),
        }),
        28 => Frame::PathStatus(PathStatus { path: path(input), sequence: n, backup: input.flag() }),
        29 => Frame::MaxPathId(MaxPathId { maximum: path(input) }),
        30 => Frame::PathsBlocked(PathsBlocked { maximum: path(input) }),
        31 => Frame::PathCidsBlocked(PathCidsBlocked { path: path(input), next_sequence: n }),
        32 => Frame::HandshakeDone,
        33 => Frame::NewToken(NewToken { token: b"a token that nobody made" }),
        34 => Frame::Padding { len: (n % 1_000) as usize + 1 },
        _ => Frame::Ping,
    };
    frame.encode(out);
}

fn stream(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let (id, offset, fin) = (stream_id(input), input.number(), input.u8() > 0xe0);
    let data = data(input);
    if in_reach(offset, &data) {
        Stream { id, offset, fin, data: &data }.encode(out);
    }
}

fn ack(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let path = input.flag().then(|| path(input));
    let ranges = ranges(input);
    encode_ack(path, input.number(), None, ranges.iter().rev().cloned(), usize::MAX, out);
}

fn repair(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let scheme = match input.u8() {
        0xe1.. => CodeScheme::RandomLinear,
        0xc1.. => CodeScheme::Window,
        _ => CodeScheme::ReedSolomon,
    };
    let (path, repair_count, symbol_id) = (path(input), input.u8(), input.number());
    let ranges = ranges(input);
    let mut symbol = data(input);
    symbol.resize(symbol.len().max(usize::from(input.u16()) % 1_400), 0);
    RepairHeader { path, scheme, repair_count, symbol_id, symbol_len: symbol.len() }
        .encode(ranges.iter().cloned(), out);
    out.extend(symbol);
}

fn new_connection_id(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let path = input.flag().then(|| path(input));
    let sequence = input.number();
    let retire_prior_to = input.number().min(sequence);
    let byte = input.u8();
    let id = ConnectionId::new(&[byte; 20][..1 + input.below(20)]).expect("at most 20 bytes");
    NewConnectionId { path, sequence, retire_prior_to, id, reset_token: ResetToken([byte; 16]) }.encode(out);
}

/// Ascending ranges that do not touch; at least one.
fn ranges(input: &mut Input<'_>) -> Vec<RangeInclusive<u64>> {
    const TOP: u64 = (1 << 62) - 1;
    let mut ranges = Vec::new();
    let mut next = input.number();
    for _ in 0..1 + input.u8() % 8 {
        let last = next.saturating_add(input.number()).min(TOP);
        ranges.push(next..=last);
        next = last + 2 + u64::from(input.u8());
        if next > TOP {
            break;
        }
    }
    ranges
}

fn path(input: &mut Input<'_>) -> PathId {
    match input.u8() {
        small @ 0..=0xf0 => PathId(u32::from(small % 6)),
        _ => PathId(input.number() as u32),
    }
}

fn dir(input: &mut Input<'_>) -> Dir {
    if input.flag() { Dir::Bi } else { Dir::Uni }
}

fn stream_id(input: &mut Input<'_>) -> StreamId {
    match input.u8() {
        small @ 0..=0xf0 => StreamId(u64::from(small % 24)),
        _ => StreamId(input.number()),
    }
}

/// Bytes that the input has, or a run of one byte.
fn data(input: &mut Input<'_>) -> Vec<u8> {
    let len = usize::from(input.u8());
    if input.flag() { input.bytes(len).to_vec() } else { vec![input.u8(); 5 * len] }
}

fn in_reach(offset: u64, data: &[u8]) -> bool {
    offset + (data.len() as u64) < 1 << 62
}
