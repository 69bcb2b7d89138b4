//! The hook for what is built on TCP: one file per scheme in [`schemes`](crate::schemes).

use std::fmt;

use super::Connection;
use crate::{segment::Segment, transport::Io};

/// Both ends of a scheme on one connection. Every hook has an empty default.
///
/// A scheme may look at the connection's sub-flows and send through it. What it sends by
/// [`Connection::send_copy`] and its relatives obeys the carrying sub-flow's window only if the
/// scheme asks first ([`Connection::room`]).
pub trait Scheme: Send + fmt::Debug {
    /// A data segment left; `again` if it is a retransmission. Not called for what a hook itself
    /// sends.
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, seq: u32, again: bool) {
        let _ = (conn, io, sub, seq, again);
    }

    /// Nothing new can be sent: all data was sent once. Called after writes and acknowledgements.
    fn on_opportunity(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let _ = (conn, io);
    }

    /// The receiver got a new segment of a sub-flow (data, copy or parity), before it is
    /// acknowledged.
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

    /// A timer that was set as [`Timer::Scheme`](crate::transport::Timer::Scheme).
    fn on_timer(&mut self, conn: &mut Connection, io: &mut Io<'_>) {
        let _ = (conn, io);
    }
}
