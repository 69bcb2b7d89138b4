//! The hook for what is built on TCP: one file per scheme in `schemes`.

use std::fmt;

use netsim::fabric::Fabric;
use units::Instant;

use crate::{connection::Connection, record::FlowRecord, record::Totals, segment::Segment};

/// The world around a connection.
pub struct Io<'a> {
    /// The network.
    pub fabric: &'a mut Fabric<Segment>,
    /// Sums over all connections.
    pub totals: &'a mut Totals,
    pub(crate) records: &'a mut Vec<FlowRecord>,
    /// Records of flows that arrived just now.
    pub(crate) arrived: &'a mut Vec<u32>,
    pub(crate) conn: u32,
}

/// Timer slot of the scheme.
pub(crate) const SCHEME_SLOT: u32 = 15;

impl Io<'_> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
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

    /// A timer of [`Io::set_scheme_timer`].
    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let _ = (conn, io);
    }
}
