//! The hook for congestion controllers of one's own, counted in segments.

use std::fmt;

use congestion::{PathWindow, Rtt};
use netsim::Own;
use units::Instant;

/// What an acknowledgement means for the window.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it arrived.
    pub now: Instant,
    /// Segments that it newly acknowledged cumulatively.
    pub segments: u32,
    /// When the last of them was sent.
    pub sent_at: Instant,
    /// Segments outstanding before it.
    pub flight: u32,
    /// The window was full, so that it may grow.
    pub limited: bool,
    /// The sub-flow repairs losses: windows stand still.
    pub in_recovery: bool,
    /// It echoed a mark.
    pub marked: bool,
}

/// Makes controllers of one's own, each with the initial window in segments.
pub type OwnController = Own<u32, dyn WindowControl>;

/// The congestion window of one sub-flow.
///
/// TCP decides what a loss event is, one per window of data; the controller says what becomes of the
/// window.
pub trait WindowControl: Send + fmt::Debug {
    /// The window in segments; a fraction counts for nothing, and it is at least one.
    fn window(&self) -> f64;

    /// Whether it grows by what is acknowledged.
    fn in_slow_start(&self) -> bool {
        false
    }

    /// New segments were acknowledged. `siblings` are all sub-flows' windows, in bytes; empty if
    /// there is one.
    fn on_ack(&mut self, acked: &Acked, rtt: &Rtt, siblings: &[PathWindow]);

    /// Fast recovery begins with `flight` segments outstanding.
    fn on_loss(&mut self, now: Instant, flight: u32);

    /// A mark was echoed for the first time in a window of `flight` segments.
    fn on_mark(&mut self, now: Instant, flight: u32) {
        self.on_loss(now, flight);
    }

    /// The retransmission timer ran out with `flight` segments outstanding; `first` unless it is a
    /// repetition for the same segment.
    fn on_timeout(&mut self, now: Instant, flight: u32, first: bool);

    /// Nothing was sent for an RTO: the window is to be at most `initial` again.
    fn on_idle(&mut self, initial: u32);
}
