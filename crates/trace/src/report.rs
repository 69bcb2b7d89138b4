//! The results as data; `docs/trace.md` describes the fields.

mod making;

use serde::Serialize;

pub(crate) use self::making::{SentAgain, Tally};
use crate::{
    clock::Class, flags::FlagCategory, grouping::Grouping, intervals::Intervals, loops::CapturePoint,
    options::Method, positions::PositionSeries, retransmission::Window, verdict::VerdictRow, what_if::WhatIf,
};

/// Names the form of the JSON; a new number means that a field changed its meaning or is gone.
pub const SCHEMA: &str = "mendpath-trace/1";

/// What was read of a file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FileReport {
    /// As the caller calls it.
    pub name: String,
    /// `pcap` or `pcapng`; `null` if it is neither.
    pub format: Option<&'static str>,
    /// Packets read.
    pub packets: u64,
    /// Bytes of the file up to the end, or to what is wrong.
    pub bytes: u64,
    /// Packets whose link layer this program does not know, and its number.
    pub unknown_link: Option<(i32, u64)>,
    /// What is wrong with it; what came before is part of the report.
    pub error: Option<String>,
}

/// Everything that was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// The captures, in the order they were read.
    pub files: Vec<FileReport>,
    /// From the first to the last packet.
    pub span_ms: f64,
    /// Packets by what they carry.
    pub packets: Packets,
    /// Connections.
    pub connections: Connections,
    /// How timeouts were told from fast retransmissions.
    pub method: Method,
    /// Retransmissions.
    pub retransmissions: RetransmissionCounts,
    /// Where those that were analysed had been captured.
    pub capture_points: CapturePoints,
    /// Retransmissions whose original was lost before the capture point.
    pub original_lost_before: ClassCounts,
    /// The same as Wireshark counts them.
    pub wireshark: WiresharkCounts,
    /// What the paper's method makes of the intervals, whether it is used or not.
    pub grouping: Grouping,
    /// The intervals by what brought the packets back.
    pub intervals: Intervals,
    /// How much was lost.
    pub loss: LossEstimate,
    /// Figures 1 and 2.
    pub positions: Vec<PositionSeries>,
    /// Figures 3 and 4.
    pub flags: Vec<FlagCategory>,
    /// Table I, for SYN, PSH and tail.
    pub what_if: Vec<WhatIf>,
    /// What the arbiter was given.
    pub arbiter: ArbiterInput,
    /// Its verdicts by class.
    pub verdicts: Vec<VerdictRow>,
    /// Its verdicts one by one, in the order of time; the first ones only.
    pub lost_packets: Vec<LostPacket>,
    /// What was sent again, one by one, in the order of time; the first ones only.
    pub resent: Vec<Resent>,
    /// What to bear in mind.
    pub warnings: Vec<String>,
}

/// Packets by what they carry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Packets {
    /// All.
    pub total: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// With TCP.
    pub tcp: u64,
    /// Those of them that take sequence numbers, so would be retransmitted: data, SYN, FIN; no
    /// probes.
    pub sequenced: u64,
    /// Without TCP.
    pub other: u64,
    /// Fragments of IP packets, left out.
    pub fragments: u64,
    /// With headers that were cut off or contradict themselves.
    pub unreadable: u64,
}

/// Connections.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Connections {
    /// All.
    pub total: u64,
    /// With both directions in the capture.
    pub paired: u64,
    /// Whose SYN or SYN/ACK is in the capture.
    pub from_the_start: u64,
    /// Whose end is in the capture.
    pub closed: u64,
    /// Cut while open because there were too many; what came after counts as another connection.
    pub evicted: u64,
    /// Nothing but SYNs that nobody answered: no part of the what-if and of the loss rate.
    pub unanswered: u64,
}

/// Retransmissions by the paper's rule: a packet with a sequence number seen before.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct RetransmissionCounts {
    /// With a sequence number seen before.
    pub seen_before: u64,
    /// Those of them with the low byte of the transmission before in IPv4's identification: the
    /// same packet seen at another place, or in one case of 256 by chance.
    pub captured_twice: u64,
    /// Those of them whose data had been acknowledged already, or that the receiver reported as
    /// duplicates (D-SACK).
    pub needless: u64,
    /// Packets below the highest sequence number whose original is not in the capture: lost before,
    /// or reordered.
    pub original_not_captured: u64,
    /// Packets whose original was forgotten, would cost too much to find, or came before the capture.
    pub original_forgotten: u64,
    /// Keep-alives and zero-window probes, left out (SLP-A11).
    pub probes: u64,
    /// How many of `seen_before` the statistics rest on; fewer than all in very large traces.
    pub analysed: u64,
    /// Timeouts among `analysed`.
    pub timeouts: u64,
    /// Their share. The paper: 10.1 %.
    pub timeout_share: Option<f64>,
    /// Brought back by acknowledgements; to the paper's method, all but the timeouts.
    pub fast: u64,
    /// Brought back by acknowledgements after a timeout; nothing to the paper's method.
    pub go_back_n: u64,
    /// Timeouts by the paper's method, whatever method is used.
    pub paper_timeouts: u64,
    /// Their share.
    pub paper_timeout_share: Option<f64>,
    /// Share of `analysed` that is a timeout to one of the methods and not to the other.
    pub methods_differ: Option<f64>,
    /// Retransmitted SYNs and SYN/ACKs among `analysed`.
    pub syn: u64,
    /// Timeouts among them. The paper: more than 70 %.
    pub syn_timeouts: u64,
    /// Retransmissions that Wireshark's fixed thresholds group differently: fast or out-of-order
    /// there but timeout here, or plain there but fast here. The paper: about 3 %. Needless ones
    /// left out.
    pub differs_from_wireshark: Option<f64>,
}

/// Retransmissions by what brought them back.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct ClassCounts {
    /// A timer.
    pub timeouts: u64,
    /// Acknowledgements.
    pub fast: u64,
    /// Acknowledgements after a timeout.
    pub go_back_n: u64,
}

/// Retransmissions by where they were captured.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct CapturePoints {
    /// At their sender.
    pub sender: u64,
    /// Between.
    pub middle: u64,
    /// At their receiver.
    pub receiver: u64,
    /// Not known: nothing was answered, or only one direction was captured.
    pub unknown: u64,
}

/// A packet that was sent again.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Resent {
    /// When it was sent again, from the start of the trace.
    pub at_ms: f64,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Of the original; its own if that was lost before it was captured.
    pub flags: String,
    /// Of the IP packet.
    pub bytes: u32,
    /// Time since the latest earlier transmission of its first byte; `null` if that was lost before
    /// it was captured.
    pub interval_ms: Option<f64>,
    /// 1 for the first retransmission of a packet; `null` likewise.
    pub attempt: Option<u8>,
    /// Its data was acknowledged before it was sent.
    pub needless: bool,
    /// What brought it back, by the clock of acknowledgements.
    pub class: Class,
    /// Whether the paper's method takes it for a timeout; `null` without an interval.
    pub paper_timeout: Option<bool>,
    /// Where it was captured.
    pub point: CapturePoint,
}

/// As Wireshark's `tcp.analysis` filters count. Its filter `retransmission` matches the first
/// three.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct WiresharkCounts {
    /// `tcp.analysis.retransmission`, neither fast nor spurious.
    pub retransmission: u64,
    /// `tcp.analysis.fast_retransmission`.
    pub fast: u64,
    /// `tcp.analysis.spurious_retransmission`.
    pub spurious: u64,
    /// `tcp.analysis.out_of_order`.
    pub out_of_order: u64,
}

/// How much was lost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LossEstimate {
    /// Packets that were lost: retransmitted and not needless, or lost before the capture and
    /// brought in later.
    pub lost: u64,
    /// Packets sent that take sequence numbers, those lost before the capture among them, SYNs that nobody
    /// answered not.
    pub sent: u64,
    /// `lost / sent`.
    pub rate: Option<f64>,
    /// Retransmissions per such packet, the usual but too high estimate.
    pub retransmission_rate: Option<f64>,
}

/// What the arbiter was given.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ArbiterInput {
    /// p.
    pub loss: f64,
    /// `trace`, `given`, or `prototype` (2 %, since the trace is too small for its own).
    pub loss_from: &'static str,
    /// bw.
    pub bandwidth_mbps: f64,
}

/// The arbiter's verdict on one lost packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LostPacket {
    /// When it was retransmitted, from the start of the trace.
    pub at_ms: f64,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Of the original.
    pub flags: String,
    /// Of the IP packet.
    pub bytes: u32,
    /// Time until it was retransmitted.
    pub interval_ms: f64,
    /// Whether a timeout brought it back.
    pub timeout: bool,
    /// What brought it back, by the clock of acknowledgements.
    pub class: Class,
    /// q.
    pub odds: f64,
    /// p q RTO.
    pub gain_ms: f64,
    /// (1 - p) bytes / bw.
    pub cost_ms: f64,
    /// Whether the arbiter would have duplicated it.
    pub duplicate: bool,
    /// Whether the duplicate would have fitted the window.
    pub window: Window,
}

impl Report {
    /// Whether there is nothing to say.
    pub fn has_no_tcp(&self) -> bool {
        self.packets.tcp == 0
    }
}
