//! Proactive: every data packet is sent twice on the same path, retransmissions too.
//!
//! FUSO section VI-A. The copy follows the original at once, outside the window: TCP below does not
//! know of it.

use crate::{
    connection::{Connection, scheme::Scheme},
    transport::Io,
};

/// Sends everything twice.
#[derive(Clone, Copy, Debug)]
pub struct Proactive;

impl Scheme for Proactive {
    fn on_sent(&mut self, conn: &mut Connection, io: &mut Io<'_>, sub: usize, seq: u32, _again: bool) {
        conn.send_duplicate(io, sub, seq);
    }
}
