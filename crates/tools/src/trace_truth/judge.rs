//! The analysis' answers beside the kernel's.

use std::{collections::BTreeMap, fs::File, io, path::Path};

use trace::{Analyzer, CapturePoint, Class, Options, Report, Resent, read_capture};

use super::{
    kernel::{Event, Reason},
    packets::{self, Captured},
};

/// A retransmission is traced when it was handed to the device; captures are stamped before.
const TRACED_WITHIN_NS: u64 = 20_000_000;
/// tcpdump may stamp a little after the trace.
const STAMPED_AFTER_NS: u64 = 50_000;

/// A capture, analysed.
pub struct Analysed {
    pub report: Report,
    packets: Vec<Captured>,
}

impl Analysed {
    /// Reads `file` with both.
    pub fn read(file: &Path) -> io::Result<Self> {
        let mut analyzer = Analyzer::new(Options { listed: usize::MAX, ..Options::default() });
        read_capture("capture", File::open(file)?, &mut analyzer, &mut |_| ());
        Ok(Self { report: analyzer.finish(), packets: packets::read(file)? })
    }

    /// The packet of the capture that `resent` is.
    fn packet(&self, resent: &Resent) -> Option<&Captured> {
        let port = |end: &str| end.rsplit(':').next()?.parse().ok();
        let ports: (u16, u16) = (port(&resent.from)?, port(&resent.to)?);
        let at = self.packets.first()?.at + (resent.at_ms * 1e6).round() as u64;
        let from = self.packets.partition_point(|packet| packet.at + 1_000 < at);
        self.packets[from..].iter().take_while(|packet| packet.at <= at + 1_000).find(|p| p.ports == ports)
    }
}

/// The kernel's reason of every packet that was sent again, by what tells packets apart anywhere.
#[derive(Default)]
pub struct Truth {
    reasons: BTreeMap<(u16, u16, u16, u32), Reason>,
    /// Calls of the kernel for which no packet was found.
    pub missed: usize,
    /// Packets that were found and the kernel does not know of.
    pub unexplained: usize,
}

impl Truth {
    /// What the end with the port test `ours` sent, as captured where it sent.
    pub fn add(&mut self, at_sender: &Analysed, events: &[Event], ours: impl Fn((u16, u16)) -> bool) {
        let mut flows: BTreeMap<(u16, u16), Vec<(Event, bool)>> = BTreeMap::new();
        for event in events.iter().filter(|event| ours(event.ports)) {
            flows.entry(event.ports).or_default().push((*event, false));
        }
        for resent in &at_sender.report.resent {
            let Some(packet) = at_sender.packet(resent) else { continue };
            if !ours(packet.ports) {
                continue;
            }
            let events = flows.get_mut(&packet.ports).map_or(&mut [][..], Vec::as_mut_slice);
            let next = events.partition_point(|(event, _)| event.at + STAMPED_AFTER_NS < packet.at);
            match events.get_mut(next) {
                Some((event, found)) if event.at < packet.at + TRACED_WITHIN_NS => {
                    *found = true;
                    self.reasons
                        .insert((packet.ports.0, packet.ports.1, packet.id, packet.seq), event.reason);
                }
                _ => self.unexplained += 1,
            }
        }
        self.missed += flows.values().flatten().filter(|(_, found)| !found).count();
    }

    fn of(&self, packet: &Captured) -> Option<Reason> {
        self.reasons.get(&(packet.ports.0, packet.ports.1, packet.id, packet.seq)).copied()
    }
}

/// How many of each reason there were, and how many were put into the right class by the clock, and
/// into the right group by the paper's method.
#[derive(Clone, Copy, Default, Debug)]
pub struct Score {
    pub all: u64,
    pub right: u64,
    /// Those with an interval, which the paper's method needs.
    pub with_interval: u64,
    pub paper: u64,
}

/// Scores of a capture, by reason, for packets captured at one kind of point.
pub type Scores = BTreeMap<(CapturePoint, Reason), Score>;

/// Compares; `verbose` names what is wrong.
pub fn judge(capture: &Analysed, truth: &Truth, verbose: bool) -> Scores {
    let mut scores = Scores::new();
    for resent in &capture.report.resent {
        let Some(packet) = capture.packet(resent) else { continue };
        let Some(reason) = truth.of(packet) else { continue };
        let score = scores.entry((resent.point, reason)).or_default();
        score.all += 1;
        let expected = match reason {
            Reason::Timer | Reason::Probe => Class::Timeout,
            Reason::Fast => Class::Fast,
            Reason::GoBackN => Class::GoBackN,
        };
        score.right += u64::from(resent.class == expected);
        let is_timer = expected == Class::Timeout;
        score.with_interval += u64::from(resent.paper_timeout.is_some());
        score.paper += u64::from(resent.paper_timeout == Some(is_timer));
        if verbose && resent.class != expected {
            println!(
                "  {:.3} {} > {} seq {} {:?} but {:?}, interval {:?}, attempt {:?}, {:?}",
                resent.at_ms,
                resent.from,
                resent.to,
                packet.seq,
                reason,
                resent.class,
                resent.interval_ms,
                resent.attempt,
                resent.point
            );
        }
    }
    scores
}
