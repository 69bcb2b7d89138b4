//! Sending: retransmissions, then new data, then what a scheme wants.

use netsim::fabric::{Class, Ecn, Packet};
use units::Instant;

use super::{Connection, Reinjection};
use crate::{
    scoreboard::{CODED, COPY, Sent},
    segment::{COPIED, CWR, Header, Kind, PARITY, PSH, Segment},
    subflow::{Phase, Subflow},
    transport::{Direction, Io, Role},
};

/// How a segment comes to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    New,
    Again,
}

impl Connection {
    /// Sends what the windows allow.
    #[inline]
    pub(crate) fn push(&mut self, io: &mut Io<'_>) {
        if self.finished {
            return;
        }
        let now = io.now();
        for index in 0..self.subs.len() {
            let (sub, tcp) = (&mut self.subs[index], &self.ends.tcp);
            sub.restart_if_idle(tcp, now);
            while self.subs[index].board.lost() > 0
                && self.subs[index].room(&self.ends.tcp) > 0
                && let Some(seq) = self.subs[index].board.next_lost()
            {
                self.send_again(io, index, seq);
            }
        }
        while self.has_new_data()
            && let Some(index) = self.next_subflow(now)
        {
            if !self.send_next(io, index) {
                break;
            }
        }
        self.push_rest(io);
        for index in 0..self.subs.len() {
            let (sub, tcp) = (&mut self.subs[index], &self.ends.tcp);
            sub.limited = sub.room(tcp) == 0;
            self.arm(io, index);
        }
    }

    /// Rules 3 and 4 of RFC 6675's NextSeg, and the scheme's opportunity.
    #[inline]
    fn push_rest(&mut self, io: &mut Io<'_>) {
        if self.may_send_new() {
            return;
        }
        for index in 0..self.subs.len() {
            while self.subs[index].phase == Phase::Recovery && self.subs[index].room(&self.ends.tcp) > 0 {
                let sub = &mut self.subs[index];
                if let Some(seq) = sub.board.next_hole() {
                    self.send_again(io, index, seq);
                } else if !sub.rescued
                    && self.ends.tcp.sack
                    && let Some(seq) = sub.board.last_unsacked()
                {
                    sub.rescued = true;
                    let high = sub.board.high_rxt;
                    self.send_again(io, index, seq);
                    self.subs[index].board.high_rxt = high; // rule 4 leaves HighRxt alone
                } else {
                    break;
                }
            }
        }
        if self.scheme.is_some() && !self.has_new_data() {
            self.with_scheme(|scheme, conn| scheme.on_opportunity(conn, io));
        }
    }

    /// The sub-flow that takes the next segment: the one with room and the smallest smoothed RTT,
    /// if possible not the one that failed to deliver it; or what a scheduler says.
    #[inline]
    fn next_subflow(&mut self, now: Instant) -> Option<usize> {
        let tcp = &self.ends.tcp;
        if let [only] = self.subs.as_mut_slice() {
            return only.takes_data(tcp).then_some(0);
        }
        let failed = self.reinjections.front().map(|reinjection| reinjection.not_on);
        if self.scheduler.is_some() {
            return self.scheduled(now, failed);
        }
        let tcp = &self.ends.tcp;
        let ready = |(index, sub): (usize, &mut Subflow)| {
            sub.takes_data(tcp).then_some((failed == Some(index), sub.rtt.smoothed, index))
        };
        self.subs.iter_mut().enumerate().filter_map(ready).min().map(|(.., index)| index)
    }

    /// Sends the next new segment, or one that another sub-flow failed to deliver. False if neither
    /// can be sent now.
    #[inline]
    fn send_next(&mut self, io: &mut Io<'_>, index: usize) -> bool {
        while let Some(&Reinjection { dsn, payload, not_on }) = self.reinjections.front() {
            if self.has_arrived(dsn) {
                self.reinjections.pop_front();
                continue;
            }
            if not_on == index {
                break;
            }
            self.reinjections.pop_front();
            self.send_new(io, index, dsn, payload, COPY);
            return true;
        }
        if self.may_send_new() {
            let dsn = self.dsn_next;
            self.dsn_next += 1;
            self.send_new(io, index, dsn, self.payload(dsn), 0);
            if self.dsn_next == self.dsn_end {
                let now = io.now();
                if let Some(record) = io.record(self.last_record) {
                    record.all_sent = record.all_sent.min(now);
                }
            }
            return true;
        }
        self.dsn_next < self.dsn_end && self.retransmit_opportunistically(io, index)
    }

    /// What the sender knows to have arrived at the data level.
    fn has_arrived(&self, dsn: u32) -> bool {
        dsn < self.dsn_una
    }

    /// The receive window is full: the segment that holds it up goes over this sub-flow too, if it
    /// is on another one (opportunistic retransmission; FUSO section II-D).
    fn retransmit_opportunistically(&mut self, io: &mut Io<'_>, index: usize) -> bool {
        if !self.mptcp.is_some_and(|mptcp| mptcp.opportunistic) {
            return false;
        }
        let dsn = self.dsn_una;
        let is_here = |(_, sent): (u32, &Sent)| sent.dsn == dsn && !sent.has(CODED);
        let board = &self.subs[index].board;
        if board.from(board.una).any(is_here) {
            return false;
        }
        self.send_new(io, index, dsn, self.payload(dsn), COPY);
        true
    }

    /// A new segment of sub-flow `index`; its number.
    #[inline]
    pub(super) fn send_new(
        &mut self,
        io: &mut Io<'_>,
        index: usize,
        dsn: u32,
        payload: u16,
        flags: u8,
    ) -> u32 {
        let seq = self.subs[index].board.push(Sent { at: io.now(), dsn, payload, flags });
        self.transmit(io, index, seq, How::New);
        seq
    }

    /// Sends an outstanding segment again.
    pub(super) fn send_again(&mut self, io: &mut Io<'_>, index: usize, seq: u32) {
        self.subs[index].board.on_resent(seq, io.now());
        io.totals().retransmissions += 1;
        if let Some(record) = io.record(self.record_index()) {
            record.retransmissions += 1;
        }
        self.transmit(io, index, seq, How::Again);
    }

    /// A copy of outstanding segment `seq` of sub-flow `of` as a new segment of sub-flow `on`. The
    /// original is marked as protected. False if it is not outstanding.
    pub fn send_copy(&mut self, io: &mut Io<'_>, of: usize, seq: u32, on: usize) -> bool {
        let Some(sent) = self.subs[of].board.segment_mut(seq) else { return false };
        sent.flags |= crate::scoreboard::PROTECTED;
        let (dsn, payload) = (sent.dsn, sent.payload);
        self.count_extra(io, payload, false);
        self.note_extra(on);
        self.send_new(io, on, dsn, payload, COPY);
        true
    }

    /// A coded packet with this content as a new segment of sub-flow `on`.
    pub(crate) fn send_coded(&mut self, io: &mut Io<'_>, on: usize, payload: u16, content: &impl Header) {
        self.count_extra(io, payload, true);
        self.note_extra(on);
        self.coded.insert((on, self.subs[on].board.nxt), content.pack());
        self.send_new(io, on, u32::MAX, payload, CODED);
    }

    /// The same segment once more, outside of all accounting (Proactive).
    pub fn send_duplicate(&mut self, io: &mut Io<'_>, sub: usize, seq: u32) {
        let Some(sent) = self.subs[sub].board.segment(seq) else { return };
        let packet = self.packet(sub, seq, *sent);
        self.count_extra(io, packet.body.payload, false);
        self.count_packet(io, packet.size);
        let window = self.window(sub);
        io.send(packet, window);
    }

    /// A packet outside the sequence space (TCP-IR).
    pub(crate) fn send_extra(&mut self, io: &mut Io<'_>, sub: usize, payload: u16, header: &impl Header) {
        let body = Segment { payload, sub: sub as u8, kind: Kind::Extra, ..Segment::default() };
        let packet = self.ends.packet(Direction::ToReceiver, Class::Data, body.with(header));
        self.count_extra(io, payload, true);
        self.count_packet(io, packet.size);
        let window = self.window(sub);
        io.send(packet, window);
    }

    /// The next segment of sub-flow `on` is a redundant packet: how many were sent before it.
    fn note_extra(&mut self, on: usize) {
        self.extra_order.insert((on, self.subs[on].board.nxt), self.extras_sent);
        self.extras_sent += 1;
    }

    fn count_extra(&self, io: &mut Io<'_>, payload: u16, coded: bool) {
        if coded {
            io.totals().parities += 1;
        } else {
            io.totals().copies += 1;
        }
        io.totals().extra_bytes += u64::from(payload) + u64::from(self.ends.tcp.header);
        let now = io.now();
        if let Some(record) = io.record(self.record_index()) {
            record.count_extra(now);
        }
    }

    #[inline]
    fn count_packet(&self, io: &mut Io<'_>, size: u32) {
        let redundant = self.ends.role == Role::Copy;
        let totals = io.totals();
        totals.packets += 1;
        totals.bytes += u64::from(size);
        if redundant {
            totals.copies += 1;
            totals.extra_bytes += u64::from(size);
        }
        if let Some(record) = io.record(self.record_index()) {
            record.packets += 1;
            record.extra += u32::from(redundant);
        }
    }

    #[inline]
    fn packet(&self, index: usize, seq: u32, sent: Sent) -> Packet<Segment> {
        let mut body = Segment {
            seq,
            dsn: sent.dsn,
            payload: sent.payload,
            sub: index as u8,
            flags: if self.ends_message(sent.dsn) { PSH } else { 0 },
            ..Segment::default()
        };
        if sent.flags & (COPY | CODED) != 0 {
            body.flags = if sent.has(CODED) { PARITY } else { body.flags | COPIED };
            body.words = self.coded.get(&(index, seq)).copied().unwrap_or_default();
        }
        let mut packet = self.ends.packet(Direction::ToReceiver, Class::Data, body);
        if self.ends.tcp.ecn {
            packet.ecn = Ecn::Capable;
        }
        packet
    }

    #[inline]
    fn transmit(&mut self, io: &mut Io<'_>, index: usize, seq: u32, how: How) {
        let now = io.now();
        let Some(sent) = self.subs[index].board.segment(seq) else { return };
        let mut packet = self.packet(index, seq, *sent);
        if how == How::Again && self.mptcp.is_some_and(|mptcp| mptcp.hollow) && self.has_arrived(sent.dsn) {
            packet.size -= u32::from(std::mem::take(&mut packet.body.payload));
        }
        let (sub, tcp) = (&mut self.subs[index], &self.ends.tcp);
        if how == How::New && sub.say_cwr {
            sub.say_cwr = false;
            packet.body.flags |= CWR;
        }
        sub.on_sent(tcp, now, how == How::Again && seq == sub.board.una);
        let window = sub.control.window();
        self.count_packet(io, packet.size);
        io.send(packet, window);
        if self.scheme.is_some() {
            self.with_scheme(|scheme, conn| scheme.on_sent(conn, io, index, seq, how == How::Again));
        }
    }

    /// Opens every sub-flow, or the first one if the others join it.
    pub(super) fn open(&mut self, io: &mut Io<'_>) {
        if self.sub_started_opening() != Instant::MAX {
            return;
        }
        let joins = self.mptcp.is_some_and(|mptcp| mptcp.join_later);
        for index in 0..if joins { 1 } else { self.subs.len() } {
            self.send_syn(io, index);
        }
    }

    /// The first sub-flow is open: the others join it, if they waited for that.
    pub(super) fn join(&mut self, io: &mut Io<'_>) {
        if self.mptcp.is_some_and(|mptcp| mptcp.join_later) {
            (1..self.subs.len()).for_each(|index| self.send_syn(io, index));
        }
    }

    pub(super) fn send_syn(&mut self, io: &mut Io<'_>, index: usize) {
        let now = io.now();
        let (sub, tcp) = (&mut self.subs[index], &self.ends.tcp);
        sub.last_sent = now;
        sub.rto_at = now + sub.rtt.rto(tcp);
        let body = Segment { sub: index as u8, kind: Kind::Syn, ..Segment::default() };
        io.send(self.ends.packet(Direction::ToReceiver, Class::Control, body), 0);
        self.arm(io, index);
        self.with_scheme(|scheme, conn| scheme.on_handshake(conn, io, index, false));
    }

    /// The opening of a sub-flow once more, outside of all accounting (SLP); `answer` for the
    /// receiver's part of it.
    pub(crate) fn send_handshake_again(&mut self, io: &mut Io<'_>, index: usize, answer: bool) {
        io.totals().copies += 1;
        let (kind, direction) = match answer {
            false => (Kind::Syn, Direction::ToReceiver),
            true => (Kind::SynAck, Direction::ToSender),
        };
        let body = Segment { sub: index as u8, kind, ..Segment::default() };
        let packet = self.ends.packet(direction, Class::Control, body);
        io.totals().extra_bytes += u64::from(packet.size);
        io.send(packet, 0);
    }

    /// A control packet from the receiver.
    #[inline]
    pub(super) fn answer(&mut self, io: &mut Io<'_>, index: usize, body: Segment) {
        let body = Segment { sub: index as u8, dsn: self.delivered, ..body };
        io.send(self.ends.packet(Direction::ToSender, Class::Control, body), 0);
    }
}
