//! A connection: one or several sub-flows, and the data level above them (MPTCP, RFC 8684). Plain
//! TCP is the case of one sub-flow whose sequence numbers are those of the data.

pub mod mptcp;
mod receive;
mod scheduler;
pub mod scheme;
mod send;
mod timers;

use std::collections::{BTreeMap, VecDeque};

use congestion::PathWindow;
use netsim::fabric::Packet;
use recovery::{Exposed, PacketNumber, PathId, SourceRun, UnackedView, slp_arbiter::Marks};
use units::{Duration, Instant};

use self::{mptcp::Mptcp, scheme::Scheme};
use crate::{
    own::Scheduler,
    ranges::Ranges,
    record::FlowId,
    scoreboard::{CODED, COPY, PROTECTED, SACKED},
    segment::{Segment, Words},
    subflow::{Phase, Subflow},
    transport::{Endpoints, Io, Timer, Transport},
};

/// Most sub-flows of a connection.
pub const MAX_SUBFLOWS: usize = 14;
/// Most segments that may be queued for sending on another sub-flow; more are left to their own.
const MAX_REINJECTIONS: usize = 1 << 16;

/// What an application wrote in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Data-level number after its last segment.
    pub(crate) end: u32,
    /// Payload of its last segment.
    pub(crate) tail: u16,
    /// Where its history is kept.
    pub(crate) record: FlowId,
}

/// A segment to be sent on a sub-flow other than its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reinjection {
    pub(crate) dsn: u32,
    pub(crate) payload: u16,
    pub(crate) not_on: usize,
}

/// Both ends of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) ends: Endpoints,
    pub(crate) subs: Vec<Subflow>,
    mptcp: Option<Mptcp>,
    scheduler: Option<Box<dyn Scheduler>>,
    pub(crate) scheme: Option<Box<dyn Scheme>>,
    /// Sender: next number to be sent, end of what was written, everything below is known to have
    /// arrived.
    pub(crate) dsn_next: u32,
    dsn_end: u32,
    dsn_una: u32,
    reinjections: VecDeque<Reinjection>,
    messages: VecDeque<Message>,
    /// How many of `messages`, from the front, the receiver has.
    reported: usize,
    last_record: FlowId,
    /// Receiver: redundant packets that arrived.
    extras_arrived: u32,
    /// Redundant packets sent; for each that is under way, by sub-flow and number, how many before
    /// it; and that number of the one that arrived last.
    extras_sent: u32,
    extra_order: BTreeMap<(usize, u32), u32>,
    sent_before: u32,
    /// Receiver: everything below is here; what is here beyond.
    delivered: u32,
    ahead: Ranges,
    /// Receiver: out of order segments of each sub-flow that wait for their order (not with FUSO's
    /// receiver).
    held: Vec<BTreeMap<u32, u32>>,
    /// Contents of coded segments under way, by sub-flow and number.
    coded: BTreeMap<(usize, u32), Words>,
    opened: bool,
    finished: bool,
}

impl Connection {
    /// A connection with the sub-flows of `mptcp`, or one, and what is built on that many.
    pub(crate) fn new(
        ends: Endpoints,
        mptcp: Option<Mptcp>,
        build: impl FnOnce(usize) -> Option<Box<dyn Scheme>>,
    ) -> Self {
        let count = mptcp.map_or(1, |mptcp| mptcp.subflows.clamp(1, MAX_SUBFLOWS));
        let tcp = &ends.tcp;
        Self {
            subs: (0..count).map(|sub| Subflow::new(tcp, tcp.window_of(sub, count))).collect(),
            mptcp,
            scheduler: tcp.scheduler.as_ref().map(|own| own.make(count)),
            scheme: build(count),
            dsn_next: 0,
            dsn_end: 0,
            dsn_una: 0,
            reinjections: VecDeque::new(),
            messages: VecDeque::new(),
            reported: 0,
            last_record: FlowId::NONE,
            extras_arrived: 0,
            extras_sent: 0,
            extra_order: BTreeMap::new(),
            sent_before: 0,
            delivered: 0,
            ahead: Ranges::default(),
            held: Vec::new(),
            coded: BTreeMap::new(),
            opened: !tcp.handshake,
            finished: false,
            ends,
        }
    }

    /// Payload of a data-level segment.
    #[inline]
    fn payload(&self, dsn: u32) -> u16 {
        let message = match self.messages.front() {
            Some(first) if dsn < first.end => Some(first),
            _ => self.messages.get(self.messages.partition_point(|message| message.end <= dsn)),
        };
        message.filter(|message| message.end == dsn + 1).map_or(self.ends.tcp.mss, |message| message.tail)
    }

    /// Whether a data-level segment is the last of what the application wrote in one go.
    #[inline]
    pub(crate) fn ends_message(&self, dsn: u32) -> bool {
        match self.messages.front() {
            Some(first) if dsn < first.end => dsn + 1 == first.end,
            _ => {
                let next = self.messages.partition_point(|message| message.end <= dsn);
                self.messages.get(next).is_some_and(|message| dsn + 1 == message.end)
            }
        }
    }

    /// What is special about a data-level segment (SLP's words).
    pub(crate) fn marks(&self, dsn: u32) -> Marks {
        let push = self.ends_message(dsn);
        Marks {
            push,
            fin: push && self.ends.ends_with_its_flow() && dsn + 1 == self.dsn_end,
            handshake: false,
        }
    }

    /// Whether there is data that was never sent.
    #[inline]
    pub fn has_new_data(&self) -> bool {
        self.dsn_next < self.dsn_end || !self.reinjections.is_empty()
    }

    /// Whether the next new segment may be sent as far as the receive window goes.
    #[inline]
    fn may_send_new(&self) -> bool {
        self.dsn_next < self.dsn_end && self.dsn_next - self.dsn_una < self.ends.tcp.receive_window
    }

    /// Segments of the application's data that the sender knows to have arrived.
    pub fn acknowledged(&self) -> u64 {
        self.dsn_una.into()
    }

    /// Whether the receiver has a data-level segment.
    pub(crate) fn has_delivered(&self, dsn: u32) -> bool {
        dsn < self.delivered || self.ahead.around(dsn).is_some()
    }

    /// How many sub-flows there are.
    pub fn subflows(&self) -> usize {
        self.subs.len()
    }

    /// Room in a sub-flow's window, in segments; 0 while it opens or recovers from a timeout.
    pub fn room(&self, sub: usize) -> u32 {
        let sub = &self.subs[sub];
        if matches!(sub.phase, Phase::Opening | Phase::Loss) { 0 } else { sub.room(&self.ends.tcp) }
    }

    /// A sub-flow's congestion window in segments.
    pub fn window(&self, sub: usize) -> u32 {
        self.subs[sub].control.window()
    }

    /// What the retransmission timer of a sub-flow is set to, backed off.
    pub fn rto(&self, sub: usize) -> Duration {
        self.subs[sub].rtt.rto(&self.ends.tcp)
    }

    /// Segments of a sub-flow that are in the network.
    pub fn pipe(&self, sub: usize) -> u32 {
        self.subs[sub].board.pipe()
    }

    /// A sub-flow's smoothed round-trip time; zero before the first sample.
    pub fn smoothed_rtt(&self, sub: usize) -> Duration {
        self.subs[sub].rtt.smoothed
    }

    /// RTTVAR of a sub-flow (RFC 6298).
    pub fn rtt_variance(&self, sub: usize) -> Duration {
        self.subs[sub].rtt.variance
    }

    /// Whether a sub-flow ever sent data.
    pub fn ever_sent(&self, sub: usize) -> bool {
        self.subs[sub].transmitted > 0
    }

    /// What a sub-flow's sender is doing.
    pub fn phase(&self, sub: usize) -> Phase {
        self.subs[sub].phase
    }

    /// Whether a sub-flow's segment was sent and is not acknowledged cumulatively.
    pub fn is_outstanding(&self, sub: usize, seq: u32) -> bool {
        self.outstanding(sub, seq).is_some()
    }

    /// Data-level number, payload and flags of an outstanding segment.
    pub(crate) fn outstanding(&self, sub: usize, seq: u32) -> Option<&crate::scoreboard::Sent> {
        self.subs[sub].board.segment(seq)
    }

    /// The sub-flows' windows for coupled controllers; empty if nobody looks or there is one, which
    /// then behaves as alone.
    fn group(&self, index: usize) -> Vec<PathWindow> {
        if self.subs.len() == 1 || !self.subs[index].control.looks_at_siblings() {
            return Vec::new();
        }
        let mss = self.ends.tcp.mss;
        let mut group: Vec<_> = (0..).zip(&self.subs).map(|(i, sub)| sub.path_window(i, mss)).collect();
        group[index].is_self = true;
        group
    }

    /// The history of the oldest message that is not finished, or of the last one.
    fn record_index(&self) -> FlowId {
        self.messages.front().map_or(self.last_record, |message| message.record)
    }

    fn with_scheme(&mut self, hook: impl FnOnce(&mut dyn Scheme, &mut Self)) {
        if let Some(mut scheme) = self.scheme.take() {
            hook(scheme.as_mut(), self);
            self.scheme = Some(scheme);
        }
    }

    /// Sets the event of a sub-flow's next deadline.
    #[inline]
    fn arm(&mut self, io: &mut Io<'_>, index: usize) {
        let sub = &mut self.subs[index];
        let deadline = sub.next_deadline();
        sub.alarm.set(io, deadline, Timer::Subflow(index as u8));
    }

    fn sub_started_opening(&self) -> Instant {
        self.subs.first().map_or(Instant::MAX, |sub| sub.rto_at)
    }

    /// Nothing below can be proactively resent: moves the mark forward so that the search stays
    /// short.
    pub fn refresh_resend_marks(&mut self) {
        for sub in &mut self.subs {
            let from = sub.resend_from.max(sub.board.una);
            let first = sub.board.from(from).find(|(_, sent)| !sent.has(SACKED | COPY | CODED | PROTECTED));
            sub.resend_from = first.map_or(sub.board.nxt, |(seq, _)| seq);
        }
    }
}

impl Transport for Connection {
    fn endpoints(&self) -> &Endpoints {
        &self.ends
    }

    fn write(&mut self, io: &mut Io<'_>, bytes: u64, flow: FlowId) {
        let mss = u64::from(self.ends.tcp.mss);
        let segments = u32::try_from(bytes.max(1).div_ceil(mss)).unwrap_or(u32::MAX);
        self.dsn_end = self.dsn_end.saturating_add(segments);
        let tail = (bytes.max(1) - (u64::from(segments) - 1) * mss).min(mss) as u16;
        self.messages.push_back(Message { end: self.dsn_end, tail, record: flow });
        self.last_record = flow;
        if self.opened {
            self.push(io);
        } else {
            self.open(io);
        }
    }

    fn on_packet(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        self.receive(io, packet);
    }

    fn on_timer(&mut self, io: &mut Io<'_>, timer: Timer) {
        match timer {
            Timer::Subflow(sub) => self.on_sub_timer(io, sub.into()),
            Timer::Scheme => self.on_scheme_timer(io),
            Timer::Layer => {}
        }
    }

    /// Of the data level.
    fn delivered(&self) -> u32 {
        self.delivered
    }

    fn window(&self) -> u32 {
        Self::window(self, 0)
    }

    /// Without what is under way and a scheme's own.
    fn memory(&self) -> usize {
        size_of::<Self>()
            + self.subs.capacity() * size_of::<Subflow>()
            + self.messages.capacity() * size_of::<Message>()
    }

    fn next_numbers(&self) -> Vec<u32> {
        self.subs.iter().map(|sub| sub.board.nxt).collect()
    }
}

/// "Un-ACKed" is neither acknowledged nor SACKed (FUSO section III-B): lost segments count, whose
/// retransmission may be far.
impl UnackedView for Connection {
    fn oldest_resendable(&self, path: PathId) -> Option<PacketNumber> {
        let sub = self.subs.get(path.0 as usize)?;
        let mut left = sub.board.from(sub.resend_from.max(sub.board.una));
        left.find(|(_, sent)| !sent.has(SACKED | COPY | CODED | PROTECTED)).map(|(seq, _)| number(seq))
    }

    /// Consecutive numbers, SACKed ones in between included, no copies or parities (COF-A11).
    fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun> {
        let sub = self.subs.get(path.0 as usize)?;
        let from = after.map_or(0, |after| after.0 as u32 + 1).max(sub.board.una);
        let mut rest = sub.board.from(from).skip_while(|(_, sent)| sent.has(SACKED | COPY | CODED));
        let (first, _) = rest.next()?;
        let more =
            rest.take(limit.saturating_sub(1) as usize).take_while(|(_, sent)| !sent.has(COPY | CODED));
        let last = more.last().map_or(first, |(seq, _)| seq);
        Some(SourceRun { first: number(first), last: number(last), packets: last - first + 1 })
    }

    fn any_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> bool {
        let Some(sub) = self.subs.get(path.0 as usize) else { return false };
        let from = (first.0 as u32).max(sub.board.una);
        sub.board.from(from).take_while(|(seq, _)| number(*seq) <= last).any(|(_, sent)| !sent.has(SACKED))
    }

    fn exposed(&self, path: PathId, limit: u32) -> Option<Exposed> {
        let sub = self.subs.get(path.0 as usize)?;
        let from = sub.resend_from.max(sub.board.una);
        let open = sub.board.from(from).filter(|(_, sent)| !sent.has(SACKED | COPY | CODED | PROTECTED));
        open.take(limit as usize)
            .fold(None, |all, (seq, sent)| Some(Exposed::and(all, number(seq), sent.payload.into(), sent.at)))
    }

    fn next_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> Option<PacketNumber> {
        let sub = self.subs.get(path.0 as usize)?;
        let block =
            sub.board.from((first.0 as u32).max(sub.board.una)).map(|(seq, sent)| (number(seq), sent));
        block
            .take_while(|(seq, _)| *seq <= last)
            .find(|(_, sent)| !sent.has(SACKED | COPY))
            .map(|(seq, _)| seq)
    }
}

/// A sub-flow's packet as recovery names it.
fn number(seq: u32) -> PacketNumber {
    PacketNumber(seq.into())
}
