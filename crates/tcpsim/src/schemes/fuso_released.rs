//! FUSO as its authors' kernel does it, where that is not what the paper says: for whoever compares
//! with measurements that were made with that kernel.
//!
//! | the paper (section III-B)              | the released code                            |
//! |----------------------------------------|----------------------------------------------|
//! | the worst sub-flow has something to resend | the worst has packets under way; if all were resent, the round is over |
//! | C_l = 0 without a retransmission       | -1 / RTT, so that the slower one is worse, the faster one better |
//! | a sub-flow that never sent is the last choice for best | it has cost 1: better than one that just sent again |
//! | such a one is no candidate for worst   | the search for the worst ends at it          |
//! | total bytes in flight below total window | no such test                               |
//! | an attempt after every acknowledgement | not for those that a busy socket takes from its backlog: [`Released::missed`] |
//! | receiver hands up what comes out of order | off unless switched on ([`Mptcp::early_delivery`](super::Mptcp::early_delivery)) |

use recovery::{PathId, UnackedView as _};

use crate::{
    connection::{Connection, scheme::Scheme},
    transport::Io,
};

/// The released code's switches.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Released {
    /// Share of attempts that are missed, from 0 to 1, evenly spread.
    pub missed: f64,
}

/// A sub-flow's counters.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    transmitted: u32,
    retransmitted: u32,
    since_last: u32,
    /// Every packet under way was resent, as far as was looked.
    all_protected: bool,
}

impl Path {
    fn on_sent(&mut self) {
        self.transmitted += 1;
        self.since_last += 1;
    }

    /// The cost: the sum of both loss rates, or minus one over the round-trip time in us.
    fn cost(&self, rtt_us: f64) -> f64 {
        if self.retransmitted == 0 {
            return -1.0 / rtt_us.max(1.0);
        }
        f64::from(self.retransmitted) / f64::from(self.transmitted.max(1))
            + 1.0 / f64::from(self.since_last.max(1))
    }
}

#[derive(Debug)]
pub(crate) struct State {
    parameters: Released,
    paths: Vec<Path>,
    /// Part of an attempt that is missed by now.
    missing: f64,
}

impl State {
    pub(crate) fn new(parameters: Released, subflows: usize) -> Self {
        Self { parameters, paths: vec![Path::default(); subflows], missing: 0.0 }
    }

    fn cost(&self, conn: &Connection, sub: usize) -> f64 {
        self.paths[sub].cost(conn.smoothed_rtt(sub).as_secs_f64() * 1e6)
    }

    fn worst(&self, conn: &Connection) -> Option<usize> {
        let mut worst: Option<(usize, f64)> = None;
        for sub in 0..self.paths.len() {
            if self.paths[sub].transmitted == 0 {
                break;
            }
            let is_candidate = conn.pipe(sub) > 0 && !self.paths[sub].all_protected;
            let cost = self.cost(conn, sub);
            if is_candidate && worst.is_none_or(|(_, most)| cost > most) {
                worst = Some((sub, cost));
            }
        }
        worst.map(|(sub, _)| sub)
    }

    fn best(&self, conn: &Connection) -> Option<usize> {
        let cost = |sub: usize| if self.paths[sub].transmitted == 0 { 1.0 } else { self.cost(conn, sub) };
        let ready = (0..self.paths.len()).filter(|sub| conn.room(*sub) > 0);
        ready.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
    }

    /// One recovery packet, if there is one to send.
    fn step(&mut self, conn: &mut Connection, io: &mut Io<'_>) -> Option<()> {
        let (of, on) = (self.worst(conn)?, self.best(conn)?);
        let Some(packet) = conn.oldest_resendable(PathId(of as u32)) else {
            self.paths[of].all_protected = true;
            return None;
        };
        self.paths[on].on_sent();
        conn.send_copy(io, of, packet.0 as u32, on).then_some(())
    }
}

impl Scheme for State {
    fn on_sent(&mut self, _conn: &mut Connection, _io: &mut Io<'_>, sub: usize, _seq: u32, again: bool) {
        let path = &mut self.paths[sub];
        path.on_sent();
        if again {
            path.retransmitted += 1;
            path.since_last = 1;
        } else {
            path.all_protected = false;
        }
    }

    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        self.missing += self.parameters.missed;
        if self.missing >= 1.0 {
            self.missing -= 1.0;
            return;
        }
        conn.refresh_resend_marks();
        while self.step(conn, io).is_some() {
            conn.refresh_resend_marks();
        }
    }
}
