//! What happens when a sub-flow's timers run out.

use super::{Connection, MAX_REINJECTIONS, Reinjection};
use crate::{
    scoreboard::{CODED, SACKED},
    subflow::Phase,
    transport::Io,
};

impl Connection {
    /// The event of sub-flow `index` is due. It may be one that no deadline belongs to any more.
    pub(crate) fn on_sub_timer(&mut self, io: &mut Io<'_>, index: usize) {
        let now = io.now();
        if self.finished || !self.subs[index].alarm.rings(now) {
            return;
        }
        if self.subs[index].receiver.ack_at <= now {
            self.acknowledge(io, index);
        }
        if self.subs[index].reorder_at <= now {
            let (group, more) = (self.group(index), self.may_send_new());
            if self.subs[index].on_reorder_timer(&self.ends.tcp, now, more, &group) {
                io.totals().recoveries += 1;
                self.retransmit_first(io, index);
            }
            self.push(io);
        }
        if self.subs[index].probe_at <= now {
            self.probe(io, index);
        }
        if self.subs[index].rto_at <= now {
            self.time_out(io, index);
        }
        self.arm(io, index);
    }

    /// RFC 8985 section 7.3: new data if there is any, otherwise the last segment again.
    fn probe(&mut self, io: &mut Io<'_>, index: usize) {
        io.totals().probes += 1;
        let again = !self.may_send_new();
        if !again {
            let dsn = self.dsn_next;
            self.dsn_next += 1;
            self.send_new(io, index, dsn, self.payload(dsn), 0);
        } else if let Some(last) = self.subs[index].board.nxt.checked_sub(1) {
            self.send_again(io, index, last);
        }
        self.subs[index].on_probe_sent(&self.ends.tcp, io.now(), again);
    }

    fn time_out(&mut self, io: &mut Io<'_>, index: usize) {
        if self.subs[index].phase == Phase::Opening {
            self.subs[index].rtt.back_off();
            self.send_syn(io, index);
            return;
        }
        io.totals().timeouts += 1;
        // One that comes after the flow's last byte has arrived costs the flow nothing (FUSO-A12).
        if let Some(record) = io.record(self.record_index())
            && record.finished == units::Instant::MAX
        {
            record.timeouts += 1;
        }
        self.subs[index].on_timeout(&self.ends.tcp, io.now());
        self.with_scheme(|scheme, conn| scheme.on_timeout(conn, io, index));
        // Without another sub-flow its own retransmissions are all there is.
        if self.subs.len() > 1 && self.mptcp.is_some_and(|mptcp| mptcp.reinject_on_timeout) {
            self.reinject(index);
        }
        self.push(io);
    }

    /// The data of a sub-flow that timed out is offered to the others.
    fn reinject(&mut self, index: usize) {
        let board = &self.subs[index].board;
        for (_, sent) in board.from(board.una) {
            let wanted = !sent.has(SACKED | CODED) && sent.dsn >= self.dsn_una;
            if wanted && self.reinjections.len() < MAX_REINJECTIONS {
                let (dsn, payload) = (sent.dsn, sent.payload);
                self.reinjections.push_back(Reinjection { dsn, payload, not_on: index });
            }
        }
    }
}

impl Connection {
    /// A timer that the scheme set.
    pub(crate) fn on_scheme_timer(&mut self, io: &mut Io<'_>) {
        if !self.finished {
            self.with_scheme(|scheme, conn| scheme.on_timer(conn, io));
        }
    }
}
