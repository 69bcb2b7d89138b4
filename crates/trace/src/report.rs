//! The results as data; `docs/trace.md` describes the fields.

use serde::Serialize;
use units::{Duration, Instant};

use crate::{
    clock::Class,
    counted::counted,
    flags::{FlagCategory, categories},
    grouping::Grouping,
    intervals::Intervals,
    loops::CapturePoint,
    options::{Method, Options},
    positions::{PositionSeries, positions, share},
    retransmission::{Filled, Retransmission, Window},
    sequence_view::WiresharkKind,
    verdict::{Arbiter, MarkClass, VerdictRow, is_lost},
    what_if::{Cost, Outcome, Variant, WhatIf, what_if},
};

/// Names the form of the JSON; a new number means that a field changed its meaning or is gone.
pub const SCHEMA: &str = "mendpath-trace/1";

/// SLP's p, when a trace has too few packets for its own.
const PROTOTYPE_LOSS: f64 = 0.02;
/// Packets from which on a trace's own loss rate is taken.
const LOSS_SAMPLES: u64 = 1_000;

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

/// What is counted while packets come in.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) files: Vec<FileReport>,
    pub(crate) packets: Packets,
    pub(crate) connections: Connections,
    pub(crate) wireshark: WiresharkCounts,
    pub(crate) flags: [u64; 256],
    pub(crate) first: Option<Instant>,
    pub(crate) last: Instant,
    pub(crate) backwards: u64,
    pub(crate) probes: u64,
    pub(crate) again: u64,
    pub(crate) captured_twice: u64,
    pub(crate) needless: u64,
    pub(crate) duplicate_sacks: u64,
    pub(crate) fillers: u64,
    pub(crate) lost_before: u64,
    pub(crate) forgotten: u64,
    pub(crate) lost_syn_from_the_start: u64,
    /// SYNs that were sent again on connections that nobody answered.
    pub(crate) unanswered_again: u64,
    /// Of these, after a reset that answers the SYN.
    pub(crate) unanswered_needless: u64,
    pub(crate) costs: [Cost; 3],
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            packets: Packets::default(),
            connections: Connections::default(),
            wireshark: WiresharkCounts::default(),
            flags: [0; 256],
            first: None,
            last: Instant::ORIGIN,
            backwards: 0,
            probes: 0,
            again: 0,
            captured_twice: 0,
            needless: 0,
            duplicate_sacks: 0,
            fillers: 0,
            lost_before: 0,
            forgotten: 0,
            lost_syn_from_the_start: 0,
            unanswered_again: 0,
            unanswered_needless: 0,
            costs: [Cost::default(); 3],
        }
    }
}

impl Report {
    /// `outcomes` of the connections that lost a packet of each variant, and how many there were.
    pub(crate) fn new(
        options: &Options,
        tally: Tally,
        packets: &SentAgain<'_>,
        outcomes: &[Vec<Outcome>; 3],
        lost: [u64; 3],
    ) -> Self {
        let SentAgain { again: retransmissions, filled, sampled } = *packets;
        let mut warnings = tally_warnings(&tally);
        let mut of_clusters = Vec::new();
        let grouping = Grouping::new(options, retransmissions, &mut of_clusters);
        match options.method {
            Method::AckClock => warnings.extend(clock_warning(packets)),
            Method::Paper => warnings.append(&mut of_clusters),
        }
        let is_timeout = |packet: &Retransmission| match options.method {
            Method::AckClock => packet.class == Class::Timeout,
            Method::Paper => grouping.is_timeout(packet),
        };
        let loss = LossEstimate::new(&tally);
        let arbiter = arbiter(options, &loss, retransmissions, is_timeout);
        if sampled {
            warnings.push(format!(
                "Too many retransmissions to keep: the shares rest on a uniform sample of {} of {}",
                retransmissions.len(),
                tally.again
            ));
        }
        let Connections { total, from_the_start, unanswered, .. } = tally.connections;
        let of = [from_the_start, total, total].map(|all| all.saturating_sub(unanswered));
        let what_if = Variant::ALL.map(|variant| {
            let i = variant as usize;
            let lost = if variant == Variant::Syn { tally.lost_syn_from_the_start } else { lost[i] };
            what_if(variant, &outcomes[i], lost, of[i], tally.costs[i])
        });
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            span_ms: ms(tally.last.saturating_duration_since(tally.first.unwrap_or(tally.last))),
            packets: tally.packets,
            connections: tally.connections,
            method: options.method,
            retransmissions: RetransmissionCounts::new(options.method, &tally, retransmissions, &grouping),
            capture_points: CapturePoints::of(retransmissions),
            original_lost_before: ClassCounts::of(filled.iter().map(|packet| packet.class)),
            wireshark: tally.wireshark,
            loss,
            intervals: Intervals::new(options.method, &grouping, retransmissions),
            positions: positions(retransmissions, is_timeout),
            flags: categories(&tally.flags, retransmissions, is_timeout),
            what_if: what_if.into(),
            arbiter: arbiter.1,
            verdicts: arbiter.0.rows(retransmissions, is_timeout),
            lost_packets: lost_packets(options, &tally, retransmissions, &arbiter.0, is_timeout),
            resent: resent(options, &tally, packets, &grouping),
            grouping,
            files: tally.files,
            warnings,
        }
    }

    /// Whether there is nothing to say.
    pub fn has_no_tcp(&self) -> bool {
        self.packets.tcp == 0
    }
}

/// Fewer packets that were captured twice are no reason to warn.
const CAPTURED_TWICE: u64 = 5;

fn tally_warnings(tally: &Tally) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in &tally.files {
        if let Some(error) = &file.error {
            warnings.push(format!("{} {error}", file.name));
        }
        if let Some((number, count)) = file.unknown_link {
            warnings.push(format!(
                "{}: {} of link-layer type {number}, which is not supported",
                file.name,
                counted(count, "packet")
            ));
        }
    }
    let packets = &tally.packets;
    if packets.unreadable > 0 {
        warnings.push(format!(
            "{} with headers that are cut off or wrong",
            counted(packets.unreadable, "packet")
        ));
    }
    if packets.fragments > 0 {
        warnings.push(format!("{} of IP packets left out", counted(packets.fragments, "fragment")));
    }
    if tally.backwards > 0 {
        warnings.push(format!(
            "{} more than a second older than packets before: give the files in the order of time",
            counted(tally.backwards, "packet")
        ));
    }
    if tally.captured_twice >= CAPTURED_TWICE && tally.captured_twice * 2 > tally.again {
        warnings.push(format!(
            "{} of {} retransmissions are the same packet, captured at two places (both ends, or several interfaces): nothing that \
             is said of retransmissions and losses holds; analyse what was captured at one place",
            tally.captured_twice, tally.again
        ));
    }
    if tally.connections.evicted > 0 {
        warnings.push(format!(
            "{} cut because too many were open at a time",
            counted(tally.connections.evicted, "connection")
        ));
    }
    warnings
}

/// What was sent again, in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAgain<'a> {
    /// With the original in the capture.
    pub(crate) again: &'a [Retransmission],
    /// With the original lost before.
    pub(crate) filled: &'a [Filled],
    /// Whether they are not all.
    pub(crate) sampled: bool,
}

/// From this share of the retransmissions on, those whose acknowledgements are not there are worth
/// a word.
const UNCLOCKED: f64 = 0.05;

fn clock_warning(packets: &SentAgain<'_>) -> Option<String> {
    let all = packets.again.len() + packets.filled.len();
    let points = packets.again.iter().map(|packet| packet.point);
    let unknown = points.chain(packets.filled.iter().map(|packet| packet.point));
    let unknown = unknown.filter(|&point| point == CapturePoint::Unknown).count();
    (unknown as f64 > UNCLOCKED * all as f64).then(|| {
        format!(
            "{unknown} of {} on connections that show no round trip, such as those with one direction in the capture: what \
             brought them back is told by silence alone",
            counted(all as u64, "retransmission")
        )
    })
}

impl ClassCounts {
    fn of(classes: impl Iterator<Item = Class>) -> Self {
        let mut counts = Self::default();
        for class in classes {
            match class {
                Class::Timeout => counts.timeouts += 1,
                Class::Fast => counts.fast += 1,
                Class::GoBackN => counts.go_back_n += 1,
            }
        }
        counts
    }
}

impl CapturePoints {
    fn of(retransmissions: &[Retransmission]) -> Self {
        let mut counts = Self::default();
        for packet in retransmissions {
            match packet.point {
                CapturePoint::Sender => counts.sender += 1,
                CapturePoint::Middle => counts.middle += 1,
                CapturePoint::Receiver => counts.receiver += 1,
                CapturePoint::Unknown => counts.unknown += 1,
            }
        }
        counts
    }
}

impl RetransmissionCounts {
    fn new(method: Method, tally: &Tally, retransmissions: &[Retransmission], grouping: &Grouping) -> Self {
        let by_interval = |packet: &Retransmission| grouping.is_timeout(packet);
        let by_clock = |packet: &Retransmission| packet.class == Class::Timeout;
        let is_timeout = |packet: &Retransmission| match method {
            Method::AckClock => by_clock(packet),
            Method::Paper => by_interval(packet),
        };
        let count = |wanted: &dyn Fn(&Retransmission) -> bool| {
            retransmissions.iter().filter(|p| wanted(p)).count() as u64
        };
        let is_syn = |packet: &Retransmission| MarkClass::of(packet.flags) == MarkClass::Handshake;
        let fast_there = |packet: &Retransmission| {
            matches!(packet.wireshark, Some(WiresharkKind::Fast | WiresharkKind::OutOfOrder))
        };
        let compared = |packet: &Retransmission| packet.wireshark != Some(WiresharkKind::Spurious);
        let differs = |packet: &Retransmission| compared(packet) && fast_there(packet) == is_timeout(packet);
        let (analysed, timeouts) = (retransmissions.len() as u64, count(&is_timeout));
        let paper_timeouts = count(&by_interval);
        let go_back_n = match method {
            Method::AckClock => count(&|packet| packet.class == Class::GoBackN),
            Method::Paper => 0,
        };
        Self {
            seen_before: tally.again,
            captured_twice: tally.captured_twice,
            needless: tally.needless,
            original_not_captured: tally.fillers,
            original_forgotten: tally.forgotten,
            probes: tally.probes,
            analysed,
            timeouts,
            timeout_share: share(timeouts, analysed),
            fast: analysed - timeouts - go_back_n,
            go_back_n,
            paper_timeouts,
            paper_timeout_share: share(paper_timeouts, analysed),
            methods_differ: share(count(&|packet| by_clock(packet) != by_interval(packet)), analysed),
            syn: count(&is_syn),
            syn_timeouts: count(&|packet| is_syn(packet) && is_timeout(packet)),
            differs_from_wireshark: share(count(&differs), count(&compared)),
        }
    }
}

impl LossEstimate {
    fn new(tally: &Tally) -> Self {
        let unanswered = tally.unanswered_again;
        let again = tally.again.saturating_sub(unanswered);
        let needless = tally.needless.saturating_sub(tally.unanswered_needless);
        let lost = again - needless.min(again) + tally.lost_before;
        let sequenced = tally.packets.sequenced.saturating_sub(tally.connections.unanswered + unanswered);
        let sent = sequenced + tally.lost_before;
        Self { lost, sent, rate: share(lost, sent), retransmission_rate: share(again, sequenced) }
    }
}

fn arbiter(
    options: &Options,
    loss: &LossEstimate,
    retransmissions: &[Retransmission],
    is_timeout: impl Fn(&Retransmission) -> bool,
) -> (Arbiter, ArbiterInput) {
    let (p, loss_from) = match (options.loss, loss.rate) {
        (Some(given), _) => (given, "given"),
        (None, Some(rate)) if loss.sent >= LOSS_SAMPLES => (rate, "trace"),
        _ => (PROTOTYPE_LOSS, "prototype"),
    };
    let measured = MarkClass::ALL.map(|class| {
        let of_class: Vec<&Retransmission> =
            retransmissions.iter().filter(|p| is_lost(p) && MarkClass::of(p.flags) == class).collect();
        share(of_class.iter().filter(|p| is_timeout(p)).count() as u64, of_class.len() as u64)
    });
    let input =
        ArbiterInput { loss: p, loss_from, bandwidth_mbps: options.bandwidth.bits_per_second() as f64 / 1e6 };
    (Arbiter::new(p, options.bandwidth, options.odds, measured), input)
}

fn lost_packets(
    options: &Options,
    tally: &Tally,
    retransmissions: &[Retransmission],
    arbiter: &Arbiter,
    is_timeout: impl Fn(&Retransmission) -> bool,
) -> Vec<LostPacket> {
    let start = tally.first.unwrap_or(Instant::ORIGIN);
    let lost = retransmissions.iter().filter(|packet| is_lost(packet)).take(options.listed);
    lost.map(|packet| {
        let verdict = arbiter.verdict(packet);
        LostPacket {
            at_ms: ms(packet.at.saturating_duration_since(start)),
            from: packet.ends[0].to_string(),
            to: packet.ends[1].to_string(),
            flags: packet.flags.to_string(),
            bytes: packet.bytes,
            interval_ms: ms(packet.interval),
            timeout: is_timeout(packet),
            class: packet.class,
            odds: verdict.odds,
            gain_ms: (verdict.gain_ms * 1e6).round() / 1e6,
            cost_ms: (verdict.cost_ms * 1e6).round() / 1e6,
            duplicate: verdict.duplicate,
            window: packet.window,
        }
    })
    .collect()
}

fn resent(options: &Options, tally: &Tally, packets: &SentAgain<'_>, grouping: &Grouping) -> Vec<Resent> {
    let start = tally.first.unwrap_or(Instant::ORIGIN);
    let again = packets.again.iter().take(options.listed).map(|packet| {
        let resent = Resent {
            at_ms: ms(packet.at.saturating_duration_since(start)),
            from: packet.ends[0].to_string(),
            to: packet.ends[1].to_string(),
            flags: packet.flags.to_string(),
            bytes: packet.bytes,
            interval_ms: Some(ms(packet.interval)),
            attempt: Some(packet.attempt),
            needless: packet.needless,
            class: packet.class,
            paper_timeout: Some(grouping.is_timeout(packet)),
            point: packet.point,
        };
        (packet.at, resent)
    });
    let filled = packets.filled.iter().take(options.listed).map(|packet| {
        let resent = Resent {
            at_ms: ms(packet.at.saturating_duration_since(start)),
            from: packet.ends[0].to_string(),
            to: packet.ends[1].to_string(),
            flags: packet.flags.to_string(),
            bytes: packet.bytes,
            interval_ms: None,
            attempt: None,
            needless: false,
            class: packet.class,
            paper_timeout: None,
            point: packet.point,
        };
        (packet.at, resent)
    });
    let mut all: Vec<(Instant, Resent)> = again.chain(filled).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().take(options.listed).map(|(_, resent)| resent).collect()
}

/// To microseconds.
fn ms(duration: Duration) -> f64 {
    (duration.as_millis_f64() * 1e3).round() / 1e3
}
