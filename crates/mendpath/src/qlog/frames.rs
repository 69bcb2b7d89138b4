//! Frames as qlog has them. What they carry for applications is given by its length alone.

use proto::{
    PathId,
    wire::{Ack, ConnectionClose, Frame, Frames, PacketRanges},
};
use qlog::events::{
    RawInfo,
    quic::{AckRange, QuicFrame},
};
use serde_json::{Value, json};

/// Ranges of an ACK that are listed; the newest come first.
const MAX_RANGES: usize = 64;

/// All frames of a payload.
pub(super) fn list(payload: &[u8]) -> Value {
    Frames::new(payload).map_while(Result::ok).map(|frame| describe(&frame)).collect()
}

fn describe(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Padding { len } => json!(QuicFrame::Padding { raw: raw(*len) }),
        Frame::Ping => json!(QuicFrame::Ping { raw: None }),
        Frame::Ack(ack) => describe_ack(ack),
        Frame::Crypto(crypto) => {
            json!(QuicFrame::Crypto { offset: crypto.offset, raw: raw(crypto.data.len()) })
        }
        Frame::Stream(stream) => json!(QuicFrame::Stream {
            stream_id: stream.id.0,
            offset: Some(stream.offset),
            fin: Some(stream.fin),
            raw: raw(stream.data.len()),
        }),
        Frame::Datagram(datagram) => json!(QuicFrame::Datagram { raw: raw(datagram.data.len()) }),
        Frame::ConnectionClose(close) => describe_close(close),
        Frame::HandshakeDone => json!(QuicFrame::HandshakeDone { raw: None }),
        Frame::PathChallenge(_) => json!(QuicFrame::PathChallenge { data: None, raw: None }),
        Frame::PathResponse(_) => json!(QuicFrame::PathResponse { data: None, raw: None }),
        Frame::Repair(repair) => json!({
            "frame_type": "mendpath:repair", "path_id": repair.path.0, "sources": ranges(&repair.members),
            "symbol_id": repair.symbol_id, "repair_count": repair.repair_count, "length": repair.symbol.len(),
        }),
        Frame::Combination(combination) => json!({
            "frame_type": "mendpath:combination", "block": combination.block, "index": combination.index,
            "sources": combination.members.packet_count(), "length": combination.symbol.len(),
        }),
        Frame::Recovered(recovered) => json!({
            "frame_type": "mendpath:recovered", "path_id": recovered.path.0, "packets": ranges(&recovered.packets),
        }),
        // Rare frames of one or two numbers: their fields under our names.
        Frame::PathAbandon(frame) => of_path(frame.path, named("multipath:path_abandon", frame)),
        Frame::PathStatus(frame) => of_path(frame.path, named("multipath:path_status", frame)),
        Frame::MaxPathId(frame) => named("multipath:max_path_id", frame),
        Frame::PathsBlocked(frame) => named("multipath:paths_blocked", frame),
        Frame::PathCidsBlocked(frame) => of_path(frame.path, named("multipath:path_cids_blocked", frame)),
        Frame::ResetStream(frame) => named("reset_stream", frame),
        Frame::ResetStreamAt(frame) => named("reset_stream_at", frame),
        Frame::StopSending(frame) => named("stop_sending", frame),
        Frame::MaxData(frame) => named("max_data", frame),
        Frame::MaxStreamData(frame) => named("max_stream_data", frame),
        Frame::MaxStreams(frame) => named("max_streams", frame),
        Frame::DataBlocked(frame) => named("data_blocked", frame),
        Frame::StreamDataBlocked(frame) => named("stream_data_blocked", frame),
        Frame::StreamsBlocked(frame) => named("streams_blocked", frame),
        Frame::NewConnectionId(frame) => new_connection_id(frame.path, frame.sequence),
        Frame::RetireConnectionId(frame) => json!({
            "frame_type": "retire_connection_id", "path_id": frame.path.map(|p| p.0), "sequence_number": frame.sequence,
        }),
        // A token is a secret.
        Frame::NewToken(_) => json!({"frame_type": "new_token"}),
    }
}

fn raw(len: usize) -> Option<Box<RawInfo>> {
    Some(Box::new(RawInfo { length: None, payload_length: Some(len as u64), data: None }))
}

fn named(frame_type: &str, frame: &impl core::fmt::Debug) -> Value {
    json!({"frame_type": frame_type, "details": format!("{frame:?}")})
}

/// Neither the id nor its reset token: who reads the trace shall not be able to end the connection.
fn new_connection_id(path: Option<PathId>, sequence: u64) -> Value {
    json!({"frame_type": "new_connection_id", "path_id": path.map(|p| p.0), "sequence_number": sequence})
}

fn describe_ack(ack: &Ack<'_>) -> Value {
    let acked = ack.ranges().take(MAX_RANGES).map(|r| AckRange::new(*r.start(), *r.end())).collect();
    let frame = QuicFrame::Ack {
        ack_delay: None,
        acked_ranges: Some(acked),
        ect1: None,
        ect0: None,
        ce: ack.ecn.map(|ecn| ecn.ce),
        raw: None,
    };
    let value = json!(frame);
    match ack.path {
        Some(path) => of_path(path, value),
        None => value,
    }
}

/// The frame, and which path it is about.
fn of_path(path: PathId, mut frame: Value) -> Value {
    if let Some(fields) = frame.as_object_mut() {
        fields.insert("path_id".to_owned(), json!(path.0));
    }
    frame
}

fn describe_close(close: &ConnectionClose<'_>) -> Value {
    let (space, code) = match close {
        ConnectionClose::Transport { error_code, .. } => ("transport", error_code.0.into_inner()),
        ConnectionClose::Application { error_code, .. } => ("application", error_code.into_inner()),
    };
    json!({
        "frame_type": "connection_close", "error_space": space, "error_code": code,
        "reason": String::from_utf8_lossy(close.reason()),
    })
}

fn ranges(packets: &PacketRanges<'_>) -> Vec<[u64; 2]> {
    packets.iter().take(MAX_RANGES).map(|range| [*range.start(), *range.end()]).collect()
}
