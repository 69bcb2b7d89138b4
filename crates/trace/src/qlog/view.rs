//! What is kept of a trace.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    events::{Event, Events, Kind},
    goodput::Seen,
    thin::{Bins, Samples},
};

/// Paths that are told apart; what others do is counted and left out.
pub(super) const MOST_PATHS: usize = 32;
/// Kinds of decisions in the table.
const MOST_REASONS: usize = 64;
/// Letters of a name that comes from the file.
const MOST_LETTERS: usize = 60;

/// What a trace says, ready to be drawn.
#[derive(Debug, Default)]
pub struct QlogView {
    /// Connection id and role, as the file says.
    pub(super) title: String,
    /// Milliseconds from the first event to the last.
    pub(super) span_ms: f64,
    pub(super) began: Option<f64>,
    pub(super) records: u64,
    pub(super) paths: BTreeMap<u64, PathView>,
    pub(super) events: Events,
    pub(super) reasons: BTreeMap<String, u64>,
    /// Records of paths beyond those that are told apart, and records that are no events.
    pub(super) left_out: u64,
    pub(super) not_understood: u64,
    /// What is wrong with the last record, if it was left out.
    pub(super) last_record: Option<String>,
    sent: Seen,
    received: Seen,
}

/// One path.
#[derive(Debug, Default)]
pub(super) struct PathView {
    pub(super) rtt: Samples,
    pub(super) window: Samples,
    pub(super) in_flight: Samples,
    pub(super) up: Bins,
    pub(super) down: Bins,
    pub(super) losses: Bins,
    pub(super) repairs: Bins,
    pub(super) totals: Totals,
    /// When we sent a PATH_CHALLENGE that nobody has answered.
    challenged: Option<f64>,
}

/// Sums of one path.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) packets_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) packets_received: u64,
    pub(super) packets_rebuilt: u64,
    pub(super) packets_lost: u64,
    pub(super) copies: u64,
    pub(super) repairs: u64,
    pub(super) stream_bytes_sent: u64,
    pub(super) stream_bytes_received: u64,
    pub(super) probe_timeouts: u64,
    pub(super) smallest_rtt: Option<f64>,
}

impl QlogView {
    /// The file's first record.
    pub(super) fn head(&mut self, head: &Value) {
        let trace = &head["trace"];
        let id = trace["common_fields"]["group_id"].as_str().or_else(|| head["title"].as_str());
        let role = trace["vantage_point"]["type"].as_str().unwrap_or_default();
        self.title = [id.unwrap_or_default(), role].map(shortened).join(" ").trim().to_owned();
    }

    /// An event. Whatever it says may be wrong.
    pub(super) fn event(&mut self, event: &Value) {
        let (Some(time), Some(name)) = (event["time"].as_f64(), event["name"].as_str()) else {
            self.not_understood += 1;
            return;
        };
        let began = *self.began.get_or_insert(time);
        let at = (time - began).max(0.0);
        self.span_ms = self.span_ms.max(at);
        self.records += 1;
        let data = &event["data"];
        if name == "mendpath:recovery" {
            let reason = shortened(data["reason"].as_str().unwrap_or("unknown"));
            if self.reasons.len() < MOST_REASONS || self.reasons.contains_key(&reason) {
                let sum = self.reasons.entry(reason).or_default();
                *sum = sum.saturating_add(data["count"].as_u64().unwrap_or(1));
            }
            return;
        }
        let id = data["path_id"].as_u64().unwrap_or(0);
        if self.paths.len() >= MOST_PATHS && !self.paths.contains_key(&id) {
            self.left_out += 1;
            return;
        }
        if !self.paths.contains_key(&id) {
            self.note(Kind::Path, at, Some(id), "first seen".to_owned());
        }
        match name {
            "quic:packet_sent" => self.packet_sent(at, id, data),
            "quic:packet_received" => self.packet_received(at, id, data),
            "quic:packet_lost" => {
                let path = self.path(id);
                path.losses.add(at, 1.0);
                path.totals.packets_lost += 1;
            }
            "quic:recovery_metrics_updated" => self.metrics(at, id, data),
            _ => self.not_understood += 1,
        }
    }

    fn path(&mut self, id: u64) -> &mut PathView {
        self.paths.entry(id).or_default()
    }

    fn packet_sent(&mut self, at: f64, id: u64, data: &Value) {
        let purpose = data["purpose"].as_str().unwrap_or_default();
        let new = new_bytes(&mut self.sent, data);
        let path = self.path(id);
        path.totals.packets_sent += 1;
        path.totals.bytes_sent =
            path.totals.bytes_sent.saturating_add(data["raw"]["length"].as_u64().unwrap_or(0));
        path.totals.stream_bytes_sent = path.totals.stream_bytes_sent.saturating_add(new);
        path.up.add(at, new as f64);
        if purpose == "copy" || purpose == "repair" {
            path.repairs.add(at, 1.0);
            *(if purpose == "copy" { &mut path.totals.copies } else { &mut path.totals.repairs }) += 1;
        }
        self.frames(at, id, Side::Ours, data);
    }

    fn packet_received(&mut self, at: f64, id: u64, data: &Value) {
        let new = new_bytes(&mut self.received, data);
        let path = self.path(id);
        path.totals.packets_received += 1;
        path.totals.packets_rebuilt += u64::from(data["rebuilt"] == true);
        path.totals.stream_bytes_received = path.totals.stream_bytes_received.saturating_add(new);
        path.down.add(at, new as f64);
        self.frames(at, id, Side::Peers, data);
    }

    fn metrics(&mut self, at: f64, id: u64, data: &Value) {
        let path = self.path(id);
        let number = |field: &str| data[field].as_f64().filter(|value| (0.0..1e15).contains(value));
        if let Some(rtt) = number("smoothed_rtt") {
            path.rtt.add(at, rtt);
        }
        if let Some(window) = number("congestion_window") {
            path.window.add(at, window);
        }
        if let Some(in_flight) = number("bytes_in_flight") {
            path.in_flight.add(at, in_flight);
        }
        if let Some(least) = number("min_rtt").filter(|rtt| *rtt > 0.0) {
            let known = path.totals.smallest_rtt.unwrap_or(least);
            path.totals.smallest_rtt = Some(known.min(least));
        }
        if let Some(count) = data["pto_count"].as_u64().filter(|count| *count > 0) {
            path.totals.probe_timeouts += 1;
            self.note(Kind::Timeout, at, Some(id), format!("probe timeout, the {count}. in a row"));
        }
    }

    /// Frames that say what becomes of paths and of the connection, in a packet on path `id`.
    fn frames(&mut self, at: f64, id: u64, side: Side, data: &Value) {
        let who = side.says();
        for frame in data["frames"].as_array().into_iter().flatten() {
            let Some(kind) = frame["frame_type"].as_str() else { continue };
            if let Some(kind) = kind.strip_prefix("multipath:path_").filter(|kind| *kind != "cids_blocked") {
                let details = frame["details"].as_str().unwrap_or_default();
                let text = format!("{who} PATH_{}: {}", shortened(kind).to_uppercase(), shortened(details));
                self.note(Kind::Path, at, about(frame), text);
            } else if kind == "connection_close" {
                let reason = shortened(frame["reason"].as_str().unwrap_or_default());
                let code = shortened(&frame["error_code"].to_string());
                self.note(Kind::Connection, at, None, format!("{who} CONNECTION_CLOSE {code}: {reason}"));
            } else if kind == "handshake_done" {
                self.note(Kind::Connection, at, None, format!("{who} HANDSHAKE_DONE"));
            } else if kind == "path_challenge" || kind == "path_response" {
                self.validation(at, id, side, kind == "path_challenge");
            }
        }
    }

    /// A PATH_CHALLENGE or its answer. Which of several is answered the trace does not say.
    fn validation(&mut self, at: f64, id: u64, side: Side, is_challenge: bool) {
        let path = self.path(id);
        let text = match (side, is_challenge) {
            (Side::Ours, true) => {
                path.challenged.get_or_insert(at);
                "we said PATH_CHALLENGE".to_owned()
            }
            (Side::Peers, true) => "the peer said PATH_CHALLENGE".to_owned(),
            (Side::Ours, false) => "we said PATH_RESPONSE".to_owned(),
            (Side::Peers, false) => match path.challenged.take() {
                Some(since) => {
                    let after = at - since;
                    format!("path validated: PATH_RESPONSE, {after:.1} ms after the first challenge")
                }
                None => "the peer said PATH_RESPONSE once more".to_owned(),
            },
        };
        self.note(Kind::Validation, at, Some(id), text);
    }

    fn note(&mut self, kind: Kind, at_ms: f64, path: Option<u64>, text: String) {
        self.events.add(kind, Event { at_ms, path, text });
    }
}

/// Who sent something.
#[derive(Clone, Copy, Debug)]
enum Side {
    Ours,
    Peers,
}

impl Side {
    fn says(self) -> &'static str {
        match self {
            Self::Ours => "we said",
            Self::Peers => "the peer said",
        }
    }
}

/// Which path a frame is about. Older traces have it among the details alone.
fn about(frame: &Value) -> Option<u64> {
    let in_details = || {
        let (_, rest) = frame["details"].as_str()?.split_once("PathId(")?;
        rest.split_once(')')?.0.parse().ok()
    };
    frame["path_id"].as_u64().or_else(in_details)
}

/// Bytes of streams in a packet that were not in an earlier one.
fn new_bytes(seen: &mut Seen, data: &Value) -> u64 {
    let frames = data["frames"].as_array().into_iter().flatten();
    let streams = frames.filter(|frame| frame["frame_type"] == "stream");
    streams.fold(0, |sum: u64, frame| {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let (id, offset) = (number(&frame["stream_id"]), number(&frame["offset"]));
        // No datagram has more.
        let length = number(&frame["raw"]["payload_length"]).min(65_535);
        sum.saturating_add(seen.add(id, offset, length))
    })
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().filter(|letter| !letter.is_control()).take(MOST_LETTERS).collect();
    if text.chars().nth(MOST_LETTERS).is_some() {
        short.push('…');
    }
    short
}
