//! The hook for what is built on TCP: one file per scheme in `schemes`.

use std::fmt;

use netsim::fabric::{Fabric, Packet};
use units::Instant;

use crate::{
    connection::Connection,
    record::{FlowRecord, Totals},
    segment::Segment,
    shim::{HostStates, Shim, Wire},
};

/// The world around a connection.
pub struct Io<'a> {
    /// The network.
    pub fabric: &'a mut Fabric<Segment>,
    /// Sums over all connections.
    pub totals: &'a mut Totals,
    pub(crate) records: &'a mut Vec<FlowRecord>,
    /// Records of flows that arrived just now.
    pub(crate) arrived: &'a mut Vec<u32>,
    pub(crate) shim: Option<&'a mut Box<dyn Shim>>,
    pub(crate) states: &'a mut HostStates,
    pub(crate) conn: u32,
}

/// Timer slot of the scheme.
pub(crate) const SCHEME_SLOT: u32 = 15;

impl Io<'_> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Sends a packet, through the layer below TCP if there is one; `window` is the sender's in segments, 0 at the receiving end.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet<Segment>, window: u32) {
        let Some(shim) = &mut self.shim else {
            self.fabric.send(packet);
            return;
        };
        let (fabric, totals, records) = (&mut *self.fabric, &mut *self.totals, &mut *self.records);
        let mut wire = Wire { fabric, totals, records, states: self.states, conn: self.conn };
        shim.on_send(&mut wire, packet, window);
    }

    /// Flow `record` is complete now, unless it was before.
    pub(crate) fn finish(&mut self, record: u32) {
        let now = self.now();
        if let Some(flow) = self.records.get_mut(record as usize)
            && flow.finished == Instant::MAX
        {
            flow.finished = now;
            self.totals.finished += 1;
            self.arrived.push(record);
        }
    }

    /// Has [`Scheme::on_timer`] called at `at`. There may be several; none can be taken back.
    pub fn set_scheme_timer(&mut self, at: Instant) {
        self.fabric.set_timer(at, self.conn << 4 | SCHEME_SLOT);
    }

    pub(crate) fn set_sub_timer(&mut self, at: Instant, sub: usize) {
        self.fabric.set_timer(at, self.conn << 4 | sub as u32);
    }

    pub(crate) fn record(&mut self, index: u32) -> Option<&mut FlowRecord> {
        self.records.get_mut(index as usize)
    }
}

/// Both ends of a scheme on one connection. Every hook has an empty default.
///
/// A scheme may look at the connection's sub-flows and send through it. What it sends by [`Connection::send_copy`] and
/// its relatives obeys the carrying sub-flow's window only if the scheme asks first ([`Connection::room`]).
pub trait Scheme: Send + fmt::Debug {
    /// A data segment left; `again` if it is a retransmission. Not called for what a hook itself sends.
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, seq: u32, again: bool) {
        let _ = (conn, io, sub, seq, again);
    }

    /// Nothing new can be sent: all data was sent once. Called after writes and acknowledgements.
    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let _ = (conn, io);
    }

    /// The receiver got a new segment of a sub-flow (data, copy or parity), before it is acknowledged.
    fn on_data(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        let _ = (conn, io, segment);
    }

    /// The receiver got a packet of kind `Extra`.
    fn on_extra(&mut self, conn: &mut Connection, io: &mut Io<'_>, segment: &Segment) {
        let _ = (conn, io, segment);
    }

    /// An acknowledgement of sub-flow `sub` was taken in, before anything is sent in answer.
    fn on_ack(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize) {
        let _ = (conn, io, sub);
    }

    /// The retransmission timer of sub-flow `sub` ran out; not while it opens.
    fn on_timeout(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize) {
        let _ = (conn, io, sub);
    }

    /// A packet of a sub-flow's handshake left: the SYN, or its answer.
    fn on_handshake(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, answer: bool) {
        let _ = (conn, io, sub, answer);
    }

    /// A timer of [`Io::set_scheme_timer`].
    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let _ = (conn, io);
    }
}
