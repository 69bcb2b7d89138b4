//! How what was counted and kept becomes the report.

use units::{Duration, Instant};

use super::{
    ArbiterInput, CapturePoints, ClassCounts, Connections, FileReport, LossEstimate, LostPacket, Packets,
    Report, Resent, RetransmissionCounts, SCHEMA, WiresharkCounts,
};
use crate::{
    clock::Class,
    counted::counted,
    flags::categories,
    grouping::Grouping,
    intervals::Intervals,
    loops::CapturePoint,
    options::{Method, Options},
    positions::{positions, share},
    retransmission::{Filled, Retransmission},
    sequence_view::WiresharkKind,
    verdict::{Arbiter, MarkClass, is_lost},
    what_if::{Cost, Outcome, Variant, WhatIf, what_if},
};

/// SLP's p, when a trace has too few packets for its own.
const PROTOTYPE_LOSS: f64 = 0.02;
/// Packets from which on a trace's own loss rate is taken.
const LOSS_SAMPLES: u64 = 1_000;

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
        let what_if = what_ifs(&tally, outcomes, lost);
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
            what_if,
            arbiter: arbiter.1,
            verdicts: arbiter.0.rows(retransmissions, is_timeout),
            lost_packets: lost_packets(options, &tally, retransmissions, &arbiter.0, is_timeout),
            resent: resent(options, &tally, packets, &grouping),
            grouping,
            files: tally.files,
            warnings,
        }
    }
}

/// What each variant would have saved.
fn what_ifs(tally: &Tally, outcomes: &[Vec<Outcome>; 3], lost: [u64; 3]) -> Vec<WhatIf> {
    let Connections { total, from_the_start, unanswered, .. } = tally.connections;
    let of = [from_the_start, total, total].map(|all| all.saturating_sub(unanswered));
    let rows = Variant::ALL.map(|variant| {
        let i = variant as usize;
        let lost = if variant == Variant::Syn { tally.lost_syn_from_the_start } else { lost[i] };
        what_if(variant, &outcomes[i], lost, of[i], tally.costs[i])
    });
    rows.into()
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
        let &Retransmission { at, ends, flags, bytes, class, point, .. } = packet;
        let resent = Resent {
            interval_ms: Some(ms(packet.interval)),
            attempt: Some(packet.attempt),
            needless: packet.needless,
            paper_timeout: Some(grouping.is_timeout(packet)),
            ..without_original(start, &Filled { at, ends, flags, bytes, class, point })
        };
        (at, resent)
    });
    let filled = packets.filled.iter().take(options.listed);
    let filled = filled.map(|packet| (packet.at, without_original(start, packet)));
    let mut all: Vec<(Instant, Resent)> = again.chain(filled).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().take(options.listed).map(|(_, resent)| resent).collect()
}

/// What can be told of a packet that was sent again where its original is not in the capture.
fn without_original(start: Instant, packet: &Filled) -> Resent {
    Resent {
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
    }
}

/// To microseconds.
fn ms(duration: Duration) -> f64 {
    (duration.as_millis_f64() * 1e3).round() / 1e3
}
