//! A TCP connection while it is followed: both directions as far as they are captured, the
//! handshake, and what duplicates would have saved.

use units::{Duration, Instant};

use crate::{
    clock::{Again, Measured},
    direction::{Direction, Found, Open},
    loops::Loops,
    retransmission::{Filled, Half, Heading, Position, Retransmission},
    segment::{Pair, Scaling, Segment, TcpFlags},
    sequence_view::{WiresharkKind, view},
    what_if::{Outcome, Saving},
};

/// What SLP assumes before a connection has measured anything (SLP-A4).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// A loop through the sender that is shorter tells nothing of reordering.
const ANSWER: Duration = Duration::from_millis(1);
/// Who was silent for so long when the capture ended has nothing more to say, as far as one can tell.
const UNDER_WAY: Duration = Duration::from_secs(10);
/// The least retransmission timeout of common systems.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// What one packet added, for the totals.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Noted {
    pub(crate) kind: Option<crate::WiresharkKind>,
    pub(crate) again: bool,
    pub(crate) captured_twice: bool,
    pub(crate) filler: bool,
    /// A filler that was lost before it was captured, not reordered.
    pub(crate) filled: Option<Filled>,
    pub(crate) forgotten: bool,
    pub(crate) probe: bool,
    pub(crate) distinct: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pair: Pair,
    pub(crate) ways: [Direction; 2],
    /// The place of the client in the pair.
    client: Option<usize>,
    /// The client's initial sequence number.
    initial: Option<u32>,
    /// That of the other side, if it opened as well before it heard of the client (RFC 9293 section 3.5),
    /// and who has answered since.
    crossed: Option<u32>,
    answered: [bool; 2],
    /// The client has acknowledged something: it was answered, captured or not.
    heard: bool,
    /// The sequence number of each side's latest SYN, with ACK or without.
    opened: [Option<u32>; 2],
    /// The latest SYN, the first SYN/ACK after it, and the latest SYN/ACK.
    syn_at: Option<Instant>,
    answered_at: Option<Instant>,
    synack_at: Option<Instant>,
    round_trip: Option<Duration>,
    loops: Loops,
    /// Wireshark's: from the latest SYN to the acknowledgement, whatever was sent again between.
    initial_round_trip: Option<Duration>,
    began: Instant,
    pub(crate) latest: Instant,
    completed: Instant,
    /// Where each side's FIN ends, and whether it was acknowledged.
    ends: [Option<u32>; 2],
    finished: [bool; 2],
    pub(crate) closed: bool,
    lost_syn: bool,
    lost_push: bool,
    syn: Saving,
    push: Saving,
}

impl Connection {
    /// Begins with its first packet.
    pub(crate) fn new(pair: Pair, at: Instant) -> Self {
        Self {
            pair,
            ways: Default::default(),
            client: None,
            initial: None,
            crossed: None,
            answered: [false; 2],
            heard: false,
            opened: [None; 2],
            syn_at: None,
            answered_at: None,
            synack_at: None,
            round_trip: None,
            loops: Loops::default(),
            initial_round_trip: None,
            began: at,
            latest: at,
            completed: at,
            ends: [None; 2],
            finished: [false; 2],
            closed: false,
            lost_syn: false,
            lost_push: false,
            syn: Saving::default(),
            push: Saving::default(),
        }
    }

    /// Whether `segment` opens another connection between the same ends, or answers what opened one.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        match (segment.flags.has(TcpFlags::SYN), segment.flags.has(TcpFlags::ACK)) {
            (true, false) => self.is_succeeded_by_syn(segment),
            (true, true) => self.is_succeeded_by_answer(segment),
            (false, _) => false,
        }
    }

    fn is_succeeded_by_syn(&self, segment: &Segment) -> bool {
        let known = if self.client == Some(segment.from) { self.initial } else { self.crossed };
        (self.client.is_some() || self.ways[segment.from].seen())
            && known != Some(segment.seq)
            && !self.is_crossed_by(segment)
    }

    /// Whether a SYN/ACK belongs to another connection, whose SYN is not in the capture: both numbers are
    /// others. A server that keeps no state (RFC 4987) may answer one SYN with several numbers of its own,
    /// and the two sides of a simultaneous open repeat theirs.
    fn is_succeeded_by_answer(&self, segment: &Segment) -> bool {
        let is_other = |known: Option<u32>, number: u32| known.is_some_and(|known| known != number);
        is_other(self.opened[segment.from], segment.seq)
            && is_other(self.initial, segment.ack.wrapping_sub(1))
    }

    /// Whether the other side opens the connection as well: nothing but a SYN of the client was there.
    fn is_crossed_by(&self, segment: &Segment) -> bool {
        let client = self.client.filter(|client| *client != segment.from);
        client.is_some_and(|client| self.ways[client].only_opens())
            && self.crossed.is_none()
            && !self.closed
            && !self.ways[segment.from].seen()
    }

    /// Whether `segment` is the answer to a SYN of one that has sent its own before: the same sequence
    /// number once more, but not for want of an answer.
    fn is_crossed_answer(&mut self, segment: &Segment) -> bool {
        let answers = segment.flags.has(TcpFlags::SYN) && segment.flags.has(TcpFlags::ACK);
        let first = answers && self.crossed.is_some();
        first && !std::mem::replace(&mut self.answered[segment.from], true)
    }

    /// Space taken for remembered packets, in packets.
    pub(crate) fn capacity(&self) -> usize {
        self.ways.iter().map(Direction::capacity).sum()
    }

    /// Whether both directions are in the capture.
    pub(crate) fn is_paired(&self) -> bool {
        self.ways.iter().all(Direction::seen)
    }

    /// Whether the capture shows who opened it.
    pub(crate) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Whether it is nothing but SYNs that nobody has answered, or with a reset only: there may be nobody.
    pub(crate) fn is_unanswered(&self) -> bool {
        let Some(client) = self.client else { return false };
        !self.heard && self.ways[client].only_opens() && self.ways[1 - client].distinct == 0
    }

    /// Whether it may have gone on behind the capture, which ended at `end`.
    pub(crate) fn is_under_way(&self, end: Instant) -> bool {
        !self.closed && end.saturating_duration_since(self.latest) < UNDER_WAY
    }

    /// The next packet. Retransmissions that need not wait for the end go to `out`.
    pub(crate) fn on_segment(
        &mut self,
        segment: &Segment,
        at: Instant,
        limit: usize,
        out: &mut impl FnMut(Retransmission),
    ) -> Noted {
        self.latest = self.latest.max(at);
        self.note_handshake(segment, at);
        self.heard |= segment.acknowledges() && self.client == Some(segment.from);
        let (forward, reverse) = pair_mut(&mut self.ways, segment.from);
        let view = view(&mut forward.view, &reverse.view, segment, at, self.initial_round_trip);
        let mut noted = Noted { kind: view.kind, probe: view.probe, ..Noted::default() };
        self.loops.on_segment(segment, forward.begins(segment), at);
        if segment.acknowledges() {
            let measured = measured(&self.loops, 1 - segment.from);
            let has_duplicate = reverse.has_duplicate(segment);
            reverse.duplicate_sacks += u32::from(has_duplicate);
            reverse.on_ack(segment, at, &measured);
        }
        if !segment.occupies() || view.probe {
            forward.on_bare(segment);
        } else if !self.is_crossed_answer(segment) {
            self.on_sequenced(segment, at, limit, &mut noted, out);
        }
        self.note_end(segment);
        noted
    }

    /// A segment that takes sequence numbers, and is no probe.
    fn on_sequenced(
        &mut self,
        segment: &Segment,
        at: Instant,
        limit: usize,
        noted: &mut Noted,
        out: &mut impl FnMut(Retransmission),
    ) {
        let receive = self.receive_window(segment.from, segment);
        let measured = measured(&self.loops, segment.from);
        let way = &mut self.ways[segment.from];
        let again = way.place(segment);
        let mut found = way.on_sent(segment, at, noted.kind, receive, limit);
        match &mut found {
            Found::Again(open) => {
                let again = Again { attempt: open.attempt, since: Some(at - open.interval), ..again };
                open.class = way.clock.on_again(&again, segment.flags, at, &measured);
            }
            Found::New => way.clock.on_new(&again, at, &measured),
            Found::Filler(behind) if is_reordered(*behind, noted.kind, at, &measured) => {}
            Found::Filler(_) => {
                noted.filled = Some(Filled {
                    at,
                    ends: [self.pair.ends[segment.from], self.pair.ends[1 - segment.from]],
                    flags: segment.flags,
                    bytes: segment.bytes,
                    class: way.clock.on_again(&again, segment.flags, at, &measured),
                    point: self.loops.point(segment.from),
                });
            }
            Found::Forgotten => {
                way.clock.on_again(&again, segment.flags, at, &measured);
            }
        }
        self.on_found(found, segment, at, noted, out);
    }

    fn on_found(
        &mut self,
        found: Found,
        segment: &Segment,
        at: Instant,
        noted: &mut Noted,
        out: &mut impl FnMut(Retransmission),
    ) {
        match found {
            Found::New => noted.distinct = true,
            Found::Filler(_) => (noted.filler, noted.distinct) = (true, true),
            Found::Forgotten => noted.forgotten = true,
            Found::Again(open) => {
                (noted.again, noted.captured_twice) = (true, open.same_packet);
                self.on_again(open, segment.from, out);
                if open.needless {
                    return;
                }
            }
        }
        if segment.payload > 0 || segment.flags.has(TcpFlags::SYN) {
            self.completed = self.completed.max(at);
        }
    }

    fn on_again(&mut self, open: Open, from: usize, out: &mut impl FnMut(Retransmission)) {
        let way = &mut self.ways[from];
        way.retransmitted += 1;
        way.needless += u32::from(open.needless);
        if !open.needless {
            if open.flags.has(TcpFlags::SYN) {
                self.lost_syn = true;
                self.syn.add(open.at, open.silence);
            }
            if open.flags.has(TcpFlags::PSH) {
                self.lost_push = true;
                self.push.add(open.at, open.silence);
            }
        }
        let mut settled = self.ways[from].make_room();
        if self.ways[from].is_crowded() {
            out(self.retransmission(open, from, Position::Unknown));
        } else {
            settled.extend(self.ways[from].hold(open));
        }
        for settled in settled {
            let position = self.position(settled.index, self.ways[from].distinct);
            out(self.retransmission(settled, from, position));
        }
    }

    /// Finishes: gives every retransmission that was still waiting, and what duplicates would have
    /// saved. `cut` if it went on: then the end of a direction without a FIN is not known.
    pub(crate) fn finish(mut self, tail: u32, cut: bool, out: &mut impl FnMut(Retransmission)) -> Outcome {
        let unanswered = self.is_unanswered();
        let mut tails: Vec<Open> = Vec::new();
        let mut tail_cost = (0, 0);
        for from in 0..2 {
            let cut = cut && self.ends[from].is_none();
            let (distinct, with_data) = (self.ways[from].distinct, self.ways[from].distinct_with_data());
            if !cut {
                let (packets, bytes) = self.ways[from].tail(tail);
                tail_cost = (tail_cost.0 + packets, tail_cost.1 + bytes);
            }
            for open in self.ways[from].take_open() {
                let position = match self.position(open.index, distinct) {
                    Position::At(Half::Second, _) if cut => Position::Unknown,
                    position => position,
                };
                out(Retransmission { unanswered, ..self.retransmission(open, from, position) });
                let near_end = !cut && with_data >= open.index && with_data - open.index < tail;
                let of_data = open.payload > 0 || open.flags.has(TcpFlags::SYN);
                if near_end && !open.needless && of_data && !unanswered {
                    tails.push(open);
                }
            }
        }
        tails.sort_by_key(|open| open.at);
        let mut tail = Saving::default();
        tails.iter().for_each(|open| tail.add(open.at, open.silence));
        Outcome {
            took: self.completed.saturating_duration_since(self.began),
            began_captured: self.client.is_some(),
            syn: (self.lost_syn && !unanswered).then_some(self.syn.total()),
            push: self.lost_push.then_some(self.push.total()),
            tail: (!tails.is_empty()).then_some(tail.total()),
            tail_cost,
        }
    }

    fn note_handshake(&mut self, segment: &Segment, at: Instant) {
        let flags = segment.flags;
        if flags.has(TcpFlags::SYN) {
            self.ways[segment.from].scaling = segment.scaling;
            self.opened[segment.from] = Some(segment.seq);
            if flags.has(TcpFlags::ACK) {
                let client = *self.client.get_or_insert(1 - segment.from);
                // Of a SYN that is not in the capture, or comes out of order behind its answer.
                self.initial.get_or_insert(segment.ack.wrapping_sub(1));
                // The client answers where both have opened.
                if client != segment.from {
                    self.answered_at.get_or_insert(at);
                    self.synack_at = Some(at);
                }
            } else if self.is_crossed_by(segment) {
                self.crossed = Some(segment.seq);
            } else if self.client != Some(1 - segment.from) || self.crossed.is_none() {
                self.client = Some(segment.from);
                self.initial = Some(segment.seq);
                self.syn_at = Some(at);
                self.answered_at = None;
            }
        } else if self.round_trip.is_none()
            && self.client == Some(segment.from)
            && flags.has(TcpFlags::ACK)
            && let (Some(syn), Some(answered), Some(synack)) = (self.syn_at, self.answered_at, self.synack_at)
        {
            let (there, back) = (answered - syn, at - synack);
            self.round_trip = Some(there + back);
            self.initial_round_trip = Some(at - syn);
        }
    }

    /// Closed is what was reset, and what both sides have ended and heard so of each other.
    fn note_end(&mut self, segment: &Segment) {
        let (from, flags) = (segment.from, segment.flags);
        if flags.has(TcpFlags::FIN) {
            self.ends[from] = Some(segment.seq.wrapping_add(segment.occupied()));
        }
        let answered = |end: Option<u32>| end.is_some_and(|end| (segment.ack.wrapping_sub(end) as i32) >= 0);
        self.finished[1 - from] |= segment.acknowledges() && answered(self.ends[1 - from]);
        self.closed |= flags.has(TcpFlags::RST) || self.finished == [true; 2];
    }

    /// The receiver's window in bytes, if its scale is known: it is scaled if both SYNs say so (RFC 7323
    /// section 1.3).
    fn receive_window(&self, from: usize, segment: &Segment) -> Option<u64> {
        let window = self.ways[1 - from].view.window()?;
        if segment.flags.has(TcpFlags::SYN) {
            return None;
        }
        let shift = match (self.ways[from].scaling, self.ways[1 - from].scaling) {
            (Scaling::Off, _) | (_, Scaling::Off) => 0,
            (Scaling::By(_), Scaling::By(shift)) => shift,
            (Scaling::Unknown, _) | (_, Scaling::Unknown) => return None,
        };
        Some(u64::from(window) << shift)
    }

    fn heading(&self, from: usize) -> Heading {
        match self.client {
            Some(client) if client == from => Heading::ClientToServer,
            Some(_) => Heading::ServerToClient,
            None => Heading::Unknown,
        }
    }

    /// Of the packet `index` among `distinct`. Without its beginning, a connection has only an end.
    fn position(&self, index: u32, distinct: u32) -> Position {
        let from_end = distinct - index + 1;
        let first_half = index <= distinct.div_ceil(2);
        let (half, place) = if first_half { (Half::First, index) } else { (Half::Second, from_end) };
        match (half, self.client) {
            (Half::First, None) => Position::Unknown,
            _ if place <= crate::direction::FURTHEST => Position::At(half, place),
            _ => Position::Middle,
        }
    }

    /// RFC 6298's first timeout from the handshake's round trip: SRTT + 4 RTTVAR = 3 RTT.
    fn timeout(&self, flags: TcpFlags) -> Duration {
        match self.round_trip {
            Some(rtt) if !flags.has(TcpFlags::SYN) => (rtt * 3).max(LEAST_TIMEOUT),
            _ => INITIAL_TIMEOUT,
        }
    }

    fn retransmission(&self, open: Open, from: usize, position: Position) -> Retransmission {
        Retransmission {
            at: open.at,
            interval: open.interval,
            silence: open.silence,
            class: open.class,
            point: self.loops.point(from),
            ends: [self.pair.ends[from], self.pair.ends[1 - from]],
            flags: open.flags,
            bytes: open.bytes,
            payload: open.payload,
            heading: self.heading(from),
            position,
            attempt: open.attempt,
            needless: open.needless,
            unanswered: false,
            wireshark: open.wireshark,
            window: open.window,
            round_trip: self.round_trip,
            timeout: self.timeout(open.flags),
        }
    }
}

/// What is known of the round trip when the end at `from` sends. Where nothing is, the capture is
/// taken to be made there.
fn measured(loops: &Loops, from: usize) -> Measured {
    let near = [loops.least(from), loops.recent(from)].map(Option::unwrap_or_default);
    Measured {
        near: (near[0], near[1]),
        least: loops.least(0).zip(loops.least(1)).map(|(one, other)| one + other),
        round_trip: loops.round_trip(),
        longest: loops.longest(),
    }
}

/// Whether a packet that fills a hole, after which the next packet was seen at `behind`, came late
/// without having been lost: sooner than its sender could have answered that one, or, where that
/// takes no time, if Wireshark says so.
fn is_reordered(
    behind: Option<Instant>,
    kind: Option<WiresharkKind>,
    at: Instant,
    measured: &Measured,
) -> bool {
    match behind {
        Some(behind) if measured.near.0 >= ANSWER => at - behind < measured.near.0 * 7 / 8,
        _ => kind == Some(WiresharkKind::OutOfOrder),
    }
}

fn pair_mut(ways: &mut [Direction; 2], from: usize) -> (&mut Direction, &mut Direction) {
    let [a, b] = ways;
    if from == 0 { (a, b) } else { (b, a) }
}
