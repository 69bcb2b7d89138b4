//! The world around a connection: the network, the clock, the books.

use std::collections::BTreeMap;

use netsim::fabric::{Fabric, HostId, Packet};
use recovery::htpc_state::NetworkState;
use units::Instant;

use super::{
    pulls::Pulls,
    timer::{Timer, Token},
};
use crate::{
    record::{FlowId, FlowRecord, Totals},
    segment::Segment,
};

/// What all connections of a simulation share.
#[derive(Default, Debug)]
pub(crate) struct Books {
    pub(crate) records: Vec<FlowRecord>,
    /// Flows that arrived just now.
    pub(crate) arrived: Vec<FlowId>,
    pub(crate) totals: Totals,
    /// What hosts' layers below TCP know of the network together, by host.
    pub(crate) networks: BTreeMap<HostId, NetworkState>,
    /// What hosts have their senders send next ([`ndp`](crate::ndp)).
    pub(crate) pulls: Pulls,
}

/// A packet that a layer below takes instead of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) packet: Packet<Segment>,
    /// The sender's window in segments, 0 at the receiving end.
    pub(crate) window: u32,
}

/// The world around a connection, while it acts.
pub struct Io<'a> {
    /// The network.
    pub fabric: &'a mut Fabric<Segment>,
    pub(crate) books: &'a mut Books,
    /// Where packets go if a layer below takes them.
    outbox: Option<&'a mut Vec<Outgoing>>,
    conn: u32,
    closed: bool,
}

impl<'a> Io<'a> {
    pub(crate) fn new(fabric: &'a mut Fabric<Segment>, books: &'a mut Books, conn: u32) -> Self {
        Self { fabric, books, outbox: None, conn, closed: false }
    }

    /// The same world for whatever is on top of a layer, which takes the packets.
    pub(crate) fn above(&mut self, outbox: &mut Vec<Outgoing>, act: impl FnOnce(&mut Io<'_>)) {
        let (fabric, books) = (&mut *self.fabric, &mut *self.books);
        let mut io = Io { fabric, books, outbox: Some(outbox), conn: self.conn, closed: false };
        act(&mut io);
        self.closed |= io.closed;
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// The connection that acts.
    pub fn connection(&self) -> u32 {
        self.conn
    }

    /// Sums over all connections.
    pub fn totals(&mut self) -> &mut Totals {
        &mut self.books.totals
    }

    /// A flow's history; `None` if there is none.
    pub fn record(&mut self, flow: FlowId) -> Option<&mut FlowRecord> {
        self.books.records.get_mut(flow.0 as usize)
    }

    /// Sends a packet; through the layer below if there is one, which is told the sender's `window`
    /// in segments, 0 at the receiving end.
    #[inline]
    pub fn send(&mut self, packet: Packet<Segment>, window: u32) {
        match &mut self.outbox {
            None => _ = self.fabric.send(packet),
            Some(outbox) => outbox.push(Outgoing { packet, window }),
        }
    }

    /// Has [`Transport::on_timer`](super::Transport::on_timer) called with `timer` at `at`. There
    /// may be several; none can be taken back.
    #[inline]
    pub fn set_timer(&mut self, at: Instant, timer: Timer) {
        self.fabric.set_timer(at, Token::Connection(self.conn, timer).pack());
    }

    /// All of `flow` has arrived now, unless it had before.
    pub fn finish(&mut self, flow: FlowId) {
        let now = self.now();
        if let Some(record) = self.record(flow)
            && record.finished == Instant::MAX
        {
            record.finished = now;
            self.books.totals.finished += 1;
            self.books.arrived.push(flow);
        }
    }

    /// The connection has done all that it was for: it is forgotten as soon as it has acted.
    #[inline]
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether it has.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
