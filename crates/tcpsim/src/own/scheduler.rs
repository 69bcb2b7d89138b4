//! The hook for schedulers of one's own: which sub-flow takes the next new segment.

use std::fmt;

use netsim::Own;
use units::{Duration, Instant};

/// Makes schedulers of one's own, each for a connection with so many sub-flows.
pub type OwnScheduler = Own<usize, dyn Scheduler>;

/// What a scheduler sees of a sub-flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubflowView {
    /// Its number, from 0.
    pub sub: usize,
    /// Its smoothed round-trip time; zero before the first sample.
    pub rtt: Duration,
    /// RTTVAR of RFC 6298.
    pub rtt_variance: Duration,
    /// Its congestion window in segments.
    pub window: u32,
    /// Its segments in the network.
    pub in_flight: u32,
    /// Segments that it may send now: none while it opens, repairs losses or its window is full.
    pub room: u32,
    /// It sent the next segment already and failed to deliver it.
    pub failed: bool,
}

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsent {
    /// Segments that were written and not sent yet, or are to be sent again on another sub-flow.
    pub segments: u32,
    /// New segments that the receive window has room for.
    pub allowed: u32,
}

/// Which sub-flow takes the next new segment, in one connection.
pub trait Scheduler: Send + fmt::Debug {
    /// The number of a sub-flow with room, or nothing to wait until something is acknowledged. Asked
    /// when a sub-flow has room and there is new data; `subflows` come in the order of their numbers.
    fn choose(&mut self, now: Instant, unsent: Unsent, subflows: &[SubflowView]) -> Option<usize>;
}
