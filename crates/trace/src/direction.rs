//! One direction of a connection: which sequence numbers were sent when, and what is sent again.

use std::{cmp::Ordering, collections::VecDeque};

use recovery::slp_window::{DuplicateWindow, Windows};
use units::{Duration, Instant};

use crate::{
    clock::{Again, Class, Clock, Measured, Says},
    loops::Begins,
    retransmission::Window,
    segment::{Scaling, Segment, TcpFlags},
    sequence_view::{SequenceView, WiresharkKind},
};

/// Retransmissions whose position is still open; beyond, positions stay unknown.
const OPEN_LIMIT: usize = 1_024;
/// Positions further from both ends are of no interest (SLP section II-B).
pub(crate) const FURTHEST: u32 = 100;
/// Acknowledged packets that are remembered, so that needless retransmissions have an interval too.
const ACKED_KEPT: usize = 64;
/// What it may cost to find what is sent again, for each packet that comes: remembered packets that are
/// looked at, or moved to make room for a part of one. What packets do not need is kept for later ones,
/// which need some thousands at most; what has not enough left counts as forgotten.
const EFFORT: u64 = 1_024;
/// Initial congestion window in bytes (RFC 6928), the least that stands for the window.
const INITIAL_WINDOW: u64 = 10 * 1_460;

/// A packet that was sent, or the part of one that was sent again by itself.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    /// The latest transmission of these bytes.
    at: Instant,
    /// Of the packet, among the distinct packets, from 1.
    index: u32,
    flags: TcpFlags,
    attempts: u8,
    window: Window,
    ident: u8,
}

/// A retransmission whose position waits for the connection's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) index: u32,
    pub(crate) at: Instant,
    pub(crate) interval: Duration,
    pub(crate) silence: Duration,
    pub(crate) flags: TcpFlags,
    pub(crate) bytes: u32,
    pub(crate) payload: u32,
    pub(crate) attempt: u8,
    pub(crate) needless: bool,
    pub(crate) wireshark: Option<WiresharkKind>,
    pub(crate) class: Class,
    pub(crate) window: Window,
    /// It has the identification of the transmission before: not sent again, but captured twice.
    pub(crate) same_packet: bool,
}

/// What a packet that takes sequence numbers turned out to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Seen for the first time.
    New,
    /// Seen before.
    Again(Open),
    /// Below the highest number, but never seen: lost before it was captured, or reordered. When
    /// the packet behind it was seen, if that was once only.
    Filler(Option<Instant>),
    /// Below everything that is still remembered.
    Forgotten,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    pub(crate) view: SequenceView,
    pub(crate) clock: Clock,
    sent: VecDeque<Sent>,
    open: Vec<Open>,
    resolve_at: usize,
    /// How many distinct packets there were when it was last seen whose position is known.
    resolved_at: u32,
    /// One beyond the highest sequence number, in 64 bits; 0 before the first packet.
    high: u64,
    /// Everything below is acknowledged, if acknowledgements were seen.
    acked: Option<u64>,
    forgotten_below: u64,
    /// What is left of [`EFFORT`].
    effort: u64,
    /// Distinct packets.
    pub(crate) distinct: u32,
    /// Whether the latest distinct packet was a FIN without data.
    bare_fin: bool,
    pub(crate) retransmitted: u32,
    pub(crate) needless: u32,
    pub(crate) duplicate_sacks: u32,
    /// What its latest SYN says of its windows.
    pub(crate) scaling: Scaling,
    largest_flight: u64,
    last_forward: Instant,
    last_ident: u8,
    /// Whether identifications tell packets apart: some systems, and tools that make captures,
    /// always write the same.
    idents_vary: bool,
}

impl Direction {
    /// Whether anything was sent this way.
    pub(crate) fn seen(&self) -> bool {
        self.high > 0
    }

    /// Whether nothing was sent this way but one SYN, as often as it may be.
    pub(crate) fn only_opens(&self) -> bool {
        self.distinct == 1 && self.sent.front().is_some_and(|sent| sent.flags.has(TcpFlags::SYN))
    }

    /// Space taken for remembered packets, in packets.
    pub(crate) fn capacity(&self) -> usize {
        self.sent.capacity() + self.open.capacity() * 2
    }

    /// A segment that takes sequence numbers. `receive` is the other side's window in bytes, if
    /// known.
    pub(crate) fn on_sent(
        &mut self,
        segment: &Segment,
        at: Instant,
        wireshark: Option<WiresharkKind>,
        receive: Option<u64>,
        limit: usize,
    ) -> Found {
        self.effort += EFFORT;
        let start = self.unwrap(segment.seq);
        let end = start.saturating_add(u64::from(segment.occupied()));
        let found = if start >= self.high { Found::New } else { self.look_up(start, end, segment, at) };
        let found = match found {
            Found::Again(open) => Found::Again(Open { wireshark, ..open }),
            Found::New => {
                self.append(start, end, segment, at, receive);
                Found::New
            }
            other => other,
        };
        if end > self.high {
            if !matches!(found, Found::New) {
                self.append(self.high, end, segment, at, receive);
            }
            self.high = end;
        }
        self.last_forward = at;
        while self.sent.len() > limit {
            self.forget_first();
        }
        found
    }

    /// Where `segment` begins.
    pub(crate) fn begins(&self, segment: &Segment) -> Begins {
        if self.high == 0 || !segment.occupies() {
            return Begins::Next;
        }
        match self.unwrap(segment.seq).cmp(&self.high) {
            Ordering::Less => Begins::Again,
            Ordering::Equal => Begins::Next,
            Ordering::Greater => Begins::Ahead,
        }
    }

    /// Where `segment` lies, and where what was sent so far ends.
    pub(crate) fn place(&self, segment: &Segment) -> Again {
        let start = self.unwrap(segment.seq);
        let end = start.saturating_add(u64::from(segment.occupied()));
        Again { start, end, high: self.high, attempt: 1, since: None }
    }

    /// A segment that takes none still says where the sender is.
    pub(crate) fn on_bare(&mut self, segment: &Segment) {
        if self.high == 0 {
            self.high = self.unwrap(segment.seq);
        }
    }

    /// `segment` of the other side acknowledges.
    pub(crate) fn on_ack(&mut self, segment: &Segment, at: Instant, measured: &Measured) {
        if self.high == 0 {
            return;
        }
        let ack = self.unwrap(segment.ack).min(self.high);
        let new = self.acked.is_none_or(|acked| ack > acked);
        // What has data of its own is no duplicate acknowledgement (RFC 5681), nor what says something of
        // the other paths of MPTCP.
        if new || segment.misses || !segment.occupies() && !segment.multipath {
            let says = match (new, segment.misses) {
                (true, false) => Says::More,
                (true, true) => Says::MoreAndMissed,
                (false, _) => Says::Again,
            };
            self.clock.on_ack(ack.max(self.acked.unwrap_or(0)), says, at, measured);
        }
        if !new {
            return;
        }
        self.acked = Some(ack);
        while self.sent.get(ACKED_KEPT).is_some_and(|sent| sent.end <= ack) {
            self.forget_first();
        }
        if self.sent.capacity() > 1_024 && self.sent.len() < self.sent.capacity() / 8 {
            self.sent.shrink_to(self.sent.len() * 2);
        }
    }

    /// Whether `segment` of the other side reports as duplicate what may have been sent again. The
    /// network duplicates packets too, and the byte of some keep-alives has been there before.
    pub(crate) fn has_duplicate(&mut self, segment: &Segment) -> bool {
        let Some(block) = segment.duplicate_sack else { return false };
        self.effort += EFFORT;
        let (start, end) = (self.unwrap(block.0), self.unwrap(block.1));
        if start < self.forgotten_below {
            return true;
        }
        let place = self.sent.partition_point(|sent| sent.end <= start);
        let behind = self.sent.partition_point(|sent| sent.start < end).max(place);
        self.affords(behind - place) && self.sent.range(place..behind).any(|sent| sent.attempts > 0)
    }

    /// Whether all of `segment` was acknowledged before.
    pub(crate) fn acknowledges(&self, segment: &Segment) -> bool {
        let end = self.unwrap(segment.seq).saturating_add(u64::from(segment.occupied()));
        self.acked.is_some_and(|acked| end <= acked)
    }

    /// Keeps a retransmission until its position is known. Gives back those that no longer need to
    /// wait.
    pub(crate) fn hold(&mut self, open: Open) -> Vec<Open> {
        self.open.push(open);
        if self.open.len() < self.resolve_at.max(64) { Vec::new() } else { self.settle() }
    }

    /// If there is no room for another one whose position is open: gives back those that no longer need
    /// to wait, once enough was sent since it last looked for them.
    pub(crate) fn make_room(&mut self) -> Vec<Open> {
        let may_help = self.distinct - self.resolved_at >= FURTHEST;
        if self.is_crowded() && may_help { self.settle() } else { Vec::new() }
    }

    fn settle(&mut self) -> Vec<Open> {
        let distinct = self.distinct;
        let (settled, waiting): (Vec<Open>, Vec<Open>) =
            self.open.iter().partition(|open| distinct - open.index >= FURTHEST);
        self.open = waiting;
        self.resolve_at = self.open.len() * 2;
        self.resolved_at = distinct;
        settled
    }

    /// Whether there is no room for another one whose position is open.
    pub(crate) fn is_crowded(&self) -> bool {
        self.open.len() >= OPEN_LIMIT
    }

    /// Those whose position is open until the end.
    pub(crate) fn take_open(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.open)
    }

    /// Distinct packets without a last FIN that carries no data.
    pub(crate) fn distinct_with_data(&self) -> u32 {
        self.distinct - u32::from(self.bare_fin)
    }

    /// Bytes of the last `count` packets with data, headers not counted, and how many there are.
    pub(crate) fn tail(&self, count: u32) -> (u64, u64) {
        let (mut packets, mut bytes, mut last) = (0, 0, None);
        for sent in self.sent.iter().rev().skip(usize::from(self.bare_fin)) {
            // Parts of a packet have its index.
            if last != Some(sent.index) {
                if packets == u64::from(count) {
                    break;
                }
                packets += 1;
                last = Some(sent.index);
            }
            bytes += sent.end - sent.start;
        }
        (packets, bytes)
    }

    /// `seq` in 64 bits, near the highest number so far.
    fn unwrap(&self, seq: u32) -> u64 {
        if self.high == 0 {
            return (1 << 32) + u64::from(seq);
        }
        let distance = i64::from(seq.wrapping_sub(self.high as u32) as i32);
        self.high.saturating_add_signed(distance)
    }

    fn append(&mut self, start: u64, end: u64, segment: &Segment, at: Instant, receive: Option<u64>) {
        self.distinct = self.distinct.saturating_add(1);
        self.bare_fin = segment.payload == 0 && segment.flags.has(TcpFlags::FIN);
        let window = self.room(start, end, receive);
        let (index, flags, ident) = (self.distinct, segment.flags, segment.ident);
        self.idents_vary |= self.last_ident != 0 && ident != 0 && ident != self.last_ident;
        self.last_ident = ident;
        let sent = Sent { start, end, at, index, flags, attempts: 0, window, ident };
        self.sent.push_back(sent);
    }

    /// SLP's window rule for a duplicate of the packet from `start` to `end`.
    fn room(&mut self, start: u64, end: u64, receive: Option<u64>) -> Window {
        let Some(acked) = self.acked else { return Window::Unknown };
        let windows = Windows {
            acked,
            congestion: self.largest_flight.max(INITIAL_WINDOW),
            receive: receive.unwrap_or(u64::from(u32::MAX)),
        };
        self.largest_flight = self.largest_flight.max(end.saturating_sub(acked));
        let fits = DuplicateWindow::new().may_duplicate(start, end - start, &windows);
        if fits { Window::Open } else { Window::Full }
    }

    fn forget_first(&mut self) {
        if let Some(sent) = self.sent.pop_front() {
            self.forgotten_below = sent.end;
        }
    }

    fn look_up(&mut self, start: u64, end: u64, segment: &Segment, at: Instant) -> Found {
        let place = self.sent.partition_point(|sent| sent.end <= start);
        if !self.affords(self.cost(place, start, end)) {
            return Found::Forgotten;
        }
        match self.sent.get(place) {
            Some(sent) if sent.start <= start => Found::Again(self.again(start, end, segment, at)),
            _ if start < self.forgotten_below => Found::Forgotten,
            next => {
                let behind = next.filter(|sent| sent.attempts == 0).map(|sent| sent.at);
                let end = next.map_or(end, |sent| sent.start.min(end));
                self.distinct = self.distinct.saturating_add(1);
                let index = self.distinct;
                let (window, ident) = (Window::Unknown, segment.ident);
                let sent = Sent { start, end, at, index, flags: segment.flags, attempts: 0, window, ident };
                self.sent.insert(place, sent);
                Found::Filler(behind)
            }
        }
    }

    /// What it costs to take note that the bytes from `start` to `end` are sent again: how many remembered
    /// packets, the first of them at `place`, are looked at, and how many are moved.
    fn cost(&self, place: usize, start: u64, end: u64) -> usize {
        let moved = |at: usize| at.min(self.sent.len() - at);
        let Some(first) = self.sent.get(place).filter(|sent| sent.start <= start) else {
            return moved(place);
        };
        let behind = self.sent.partition_point(|sent| sent.start < end).max(place + 1);
        let split_first = if first.start < start { moved(place) } else { 0 };
        let split_last = if self.sent[behind - 1].end > end { moved(behind) } else { 0 };
        behind - place + split_first + split_last
    }

    /// Whether there is enough left for this; then there is so much less.
    fn affords(&mut self, cost: usize) -> bool {
        let left = self.effort.checked_sub(cost as u64);
        self.effort = left.unwrap_or(self.effort);
        left.is_some()
    }

    /// Makes `at` a boundary between remembered packets, if it lies within one.
    fn split(&mut self, at: u64) {
        let place = self.sent.partition_point(|sent| sent.end <= at);
        if let Some(sent) = self.sent.get_mut(place)
            && sent.start < at
        {
            let behind = Sent { start: at, ..*sent };
            sent.end = at;
            self.sent.insert(place + 1, behind);
        }
    }

    /// The bytes from `start` to `end` are sent again: a packet, a part of one, or several. What
    /// they are compared with is the latest transmission of the first of them (SLP-A11).
    fn again(&mut self, start: u64, end: u64, segment: &Segment, at: Instant) -> Open {
        let whole = self.sent.partition_point(|sent| sent.end <= start);
        let whole = (self.sent[whole].start, self.sent[whole].end);
        self.split(start);
        self.split(end);
        let place = self.sent.partition_point(|sent| sent.end <= start);
        let original = self.sent[place];
        for sent in self.sent.range_mut(place..).take_while(|sent| sent.start < end) {
            (sent.at, sent.ident) = (at, segment.ident);
            sent.attempts = sent.attempts.saturating_add(1);
        }
        // A part of what was captured as one packet (segmentation offload) has flags of its own, and so
        // has the data of a SYN (TCP Fast Open) that is sent again without it.
        let without_syn = original.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::SYN);
        let flags = if end < whole.1 || without_syn { segment.flags } else { original.flags };
        Open {
            index: original.index,
            at,
            interval: at.saturating_duration_since(original.at),
            silence: at.saturating_duration_since(self.last_forward),
            flags,
            bytes: segment.bytes,
            payload: segment.payload,
            attempt: original.attempts.saturating_add(1),
            needless: self.acknowledges(segment),
            wireshark: None,
            class: Class::Fast,
            window: original.window,
            same_packet: self.idents_vary
                && segment.ident != 0
                && segment.ident == original.ident
                && (start, end) == whole,
        }
    }
}
