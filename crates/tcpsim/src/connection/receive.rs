//! Receiving: data at one end, acknowledgements at the other.

use netsim::fabric::{Ecn, Packet};

use super::Connection;
use crate::{
    receiver::Reply,
    segment::{COPIED, Kind, PARITY, Segment},
    subflow::Phase,
    transport::Io,
};

impl Connection {
    /// A packet of this connection reached the host that it was for.
    #[inline]
    pub(crate) fn receive(&mut self, io: &mut Io<'_>, packet: &Packet<Segment>) {
        let segment = &packet.body;
        let index = usize::from(segment.sub);
        if index >= self.subs.len() {
            return;
        }
        match segment.kind {
            Kind::Data => self.receive_data(io, index, segment, packet.ecn == Ecn::Marked),
            Kind::Ack => self.receive_ack(io, index, segment),
            Kind::Syn => {
                self.answer(io, index, Segment { kind: Kind::SynAck, ..Segment::default() });
                self.with_scheme(|scheme, conn| scheme.on_handshake(conn, io, index, true));
            }
            Kind::SynAck => self.receive_syn_ack(io, index),
            Kind::Extra => self.with_scheme(|scheme, conn| scheme.on_extra(conn, io, segment)),
            Kind::Foreign => {}
        }
    }

    #[inline]
    fn receive_data(&mut self, io: &mut Io<'_>, index: usize, segment: &Segment, marked: bool) {
        let receiver = &mut self.subs[index].receiver;
        let was = receiver.next;
        let arrival = receiver.arrive(segment.seq);
        if self.mptcp.is_none() {
            io.totals().duplicates += u64::from(!arrival.is_new());
            if arrival.is_new() && self.scheme.is_some() {
                self.with_scheme(|scheme, conn| scheme.on_data(conn, io, segment));
            }
            self.delivered = self.subs[index].receiver.next;
        } else if arrival.is_new() {
            self.receive_mapped(io, index, segment, was);
        }
        self.report_finished(io);
        let now = io.now();
        let (receiver, tcp) = (&mut self.subs[index].receiver, &self.ends.tcp);
        match receiver.reply(tcp, now, arrival, marked, segment.flags) {
            Reply::Now => self.acknowledge(io, index),
            Reply::Wait => self.arm(io, index),
        }
    }

    /// A new segment of a sub-flow whose numbers are not those of the data.
    fn receive_mapped(&mut self, io: &mut Io<'_>, index: usize, segment: &Segment, was: u32) {
        if segment.has(PARITY) || segment.has(COPIED) {
            self.extras_arrived += 1;
            if let Some(before) = self.extra_order.remove(&(index, segment.seq)) {
                self.sent_before = before;
            }
        }
        if !segment.has(PARITY) {
            if self.mptcp.is_some_and(|mptcp| mptcp.early_delivery) || segment.seq == was {
                self.deliver(io, segment.dsn, segment.has(COPIED));
            } else {
                self.held.resize_with(self.subs.len(), Default::default);
                self.held[index].insert(segment.seq, segment.dsn);
            }
        }
        let next = self.subs[index].receiver.next;
        while let Some(held) = self.held.get_mut(index).and_then(|held| held.first_entry())
            && *held.key() < next
        {
            let dsn = held.remove();
            self.deliver(io, dsn, false);
        }
        self.with_scheme(|scheme, conn| scheme.on_data(conn, io, segment));
    }

    /// A data-level segment is here, as such or `by_repair`. False if it was here before.
    pub(crate) fn deliver(&mut self, io: &mut Io<'_>, dsn: u32, by_repair: bool) -> bool {
        let mut fresh = false;
        if dsn == self.delivered {
            fresh = true;
            self.delivered += 1;
            while let Some(end) = self.ahead.take_first_at(self.delivered) {
                self.delivered = end;
            }
        } else if dsn > self.delivered {
            self.ahead.insert(dsn, dsn.saturating_add(1), |_, _| fresh = true);
        }
        if !fresh {
            io.totals().duplicates += 1;
        } else if by_repair {
            self.count_repair(io);
        }
        fresh
    }

    /// A copy or coded packet brought a segment that was not here.
    pub(crate) fn count_repair(&mut self, io: &mut Io<'_>) {
        io.totals().repaired += 1;
        io.totals().useful += 1;
        let (before, sent_before) = (self.extras_arrived.saturating_sub(1), self.sent_before);
        if let Some(record) = io.record(self.record_index()) {
            if record.repaired == 0 {
                (record.before_hit, record.sent_before_hit) = (before, sent_before);
            }
            record.repaired += 1;
        }
    }

    /// Notes the messages that are complete now.
    #[inline]
    pub(crate) fn report_finished(&mut self, io: &mut Io<'_>) {
        while let Some(message) = self.messages.get(self.reported)
            && message.end <= self.delivered
        {
            self.reported += 1;
            io.finish(message.record);
        }
    }

    #[inline]
    pub(crate) fn acknowledge(&mut self, io: &mut Io<'_>, index: usize) {
        let accurate = self.ends.tcp.congestion.wants_each_mark();
        let mut ack = self.subs[index].receiver.acknowledge(accurate);
        if !self.ends.tcp.sack {
            (ack.sacks, ack.words) = (0, Default::default());
        }
        self.answer(io, index, ack);
    }

    #[inline]
    fn receive_ack(&mut self, io: &mut Io<'_>, index: usize, ack: &Segment) {
        let (now, group, more) = (io.now(), self.group(index), self.may_send_new());
        let (sub, tcp) = (&mut self.subs[index], &self.ends.tcp);
        let outcome = sub.on_ack(tcp, now, ack, more, &group);
        if ack.dsn > self.dsn_una {
            self.on_data_ack(ack.dsn);
        }
        if !self.coded.is_empty() || !self.extra_order.is_empty() {
            let una = self.subs[index].board.una;
            self.coded.retain(|(sub, seq), _| *sub != index || *seq >= una);
            self.extra_order.retain(|(sub, seq), _| *sub != index || *seq >= una);
        }
        if self.scheme.is_some() {
            self.with_scheme(|scheme, conn| scheme.on_ack(conn, io, index));
        }
        if self.finished {
            return io.close();
        }
        if outcome.entered {
            io.totals().recoveries += 1;
        }
        if outcome.entered || outcome.partial {
            self.retransmit_first(io, index);
        }
        if outcome.acked > 0 || outcome.newly_sacked > 0 || outcome.entered {
            self.push(io);
        } else {
            self.arm(io, index);
        }
    }

    /// The first retransmission of a recovery does not wait for the window (RFC 6675 section 5,
    /// step 4.3).
    pub(super) fn retransmit_first(&mut self, io: &mut Io<'_>, index: usize) {
        if let Some(seq) = self.subs[index].board.next_lost() {
            self.send_again(io, index, seq);
        }
    }

    /// Everything below `ack` has arrived at the data level.
    fn on_data_ack(&mut self, ack: u32) {
        self.dsn_una = ack;
        while self.reported > 0
            && let Some(message) = self.messages.front()
            && message.end <= ack
        {
            self.last_record = message.record;
            self.messages.pop_front();
            self.reported -= 1;
        }
        if self.messages.is_empty() {
            self.finished = self.ends.ends_with_its_flow();
            if self.subs.iter().all(|sub| sub.board.flight() == 0) {
                self.release_memory();
            }
        }
    }

    /// An idle connection keeps no buffers.
    fn release_memory(&mut self) {
        self.subs.iter_mut().for_each(|sub| sub.board.shrink());
        self.messages = Default::default();
        self.reinjections = Default::default();
        self.ahead.shrink();
        self.held = Vec::new();
    }

    fn receive_syn_ack(&mut self, io: &mut Io<'_>, index: usize) {
        let now = io.now();
        let sub = &mut self.subs[index];
        if sub.phase != Phase::Opening {
            return;
        }
        sub.phase = Phase::Open;
        sub.rtt.sample(now - sub.last_sent);
        sub.rtt.reset_backoff();
        sub.rto_at = units::Instant::MAX;
        if !self.opened {
            self.opened = true;
            for message in &self.messages {
                if let Some(record) = io.record(message.record) {
                    record.started = record.started.max(now);
                }
            }
            self.join(io);
        }
        self.push(io);
    }
}

impl Connection {
    /// The receiver of a single-path connection repaired a segment by itself: deliver and
    /// acknowledge.
    pub(crate) fn on_repaired_in_place(&mut self, io: &mut Io<'_>, was: u32) {
        self.delivered = self.subs[0].receiver.next;
        if self.delivered != was {
            self.report_finished(io);
        }
        self.acknowledge(io, 0);
    }
}
