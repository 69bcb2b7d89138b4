//! What a controller is told of its path, and what it says of itself.

use core::fmt;

use units::{Duration, Instant};

/// The round-trip time of a path, as RFC 9002 section 5 estimates it.
///
/// All zero means that no sample has been taken yet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Rtt {
    /// The latest sample, `latest_rtt`.
    pub latest: Duration,
    /// The moving average, `smoothed_rtt`.
    pub smoothed: Duration,
    /// The smallest sample, `min_rtt`.
    pub min: Duration,
    /// The mean deviation, `rttvar`.
    pub variance: Duration,
}

/// The packets that one ACK frame newly acknowledged.
///
/// Build it with `..Ack::default()`, so that a field that a later controller needs is no surprise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ack {
    /// When the ACK frame arrived.
    pub now: Instant,
    /// Size of the newly acknowledged in-flight packets, in bytes. Packets that do not count as in
    /// flight are left out.
    pub bytes: u64,
    /// When the largest newly acknowledged packet was sent.
    pub largest_sent_at: Instant,
    /// Bytes in flight before this ACK frame was applied.
    pub in_flight_before: u64,
    /// Whether the sender left window unused because it lacked data or was blocked by flow control
    /// or pacing (RFC 9002 section 7.8). Such ACKs do not grow the window.
    pub app_limited: bool,
    /// How many of `bytes` the network marked CE, as far as the ECN counts of the ACK frame tell:
    /// newly reported marks times the mean size of the packets acknowledged. Only `dctcp` asks.
    pub ce_bytes: u64,
    /// The round-trip time, this ACK frame's sample included.
    pub rtt: Rtt,
    /// The latest sample without the delay that the peer says it added, though no less than the smallest
    /// sample; zero if unknown.
    pub adjusted_rtt: Duration,
}

impl Ack {
    /// How long the latest sample was on its way: without the delay that the peer added, where that is known.
    /// Zero if there is none.
    pub(crate) fn delay(&self) -> Duration {
        if self.adjusted_rtt.is_zero() { self.rtt.latest } else { self.adjusted_rtt }
    }
}

/// The packets that one round of loss detection declared lost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Loss {
    /// When they were declared lost.
    pub now: Instant,
    /// Their size, in bytes.
    pub bytes: u64,
    /// How many they are.
    pub packets: u32,
    /// When the last of them was sent. It decides whether this is the current recovery period's
    /// loss or a new one.
    pub largest_sent_at: Instant,
    /// The round-trip time at that moment.
    pub rtt: Rtt,
}

/// What a coupled controller sees of one path of the connection (the caller's own included).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PathWindow {
    /// The path's id.
    pub path: u32,
    /// Its congestion window, in bytes.
    pub window: u64,
    /// Its bytes in flight.
    pub in_flight: u64,
    /// Its smoothed round-trip time; zero before the first sample.
    pub smoothed_rtt: Duration,
    /// Whether its controller is in slow start.
    pub slow_start: bool,
    /// Whether it is the path that the event belongs to.
    pub is_self: bool,
    /// What its controller's [`inter_loss`](crate::Controller::inter_loss) answers: OLIA's l, the larger
    /// of the bytes acknowledged between its last two losses and since the last one.
    pub inter_loss: u64,
    /// Whether it is known to share a bottleneck with the path that the event belongs to; see
    /// [`Bottlenecks`](crate::Bottlenecks).
    pub shared: bool,
    /// What its controller's [`congested_at`](crate::Controller::congested_at) answers.
    pub congested_at: Option<Instant>,
}

/// What a controller is doing (RFC 9002 section 7.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The window grows by what is acknowledged.
    SlowStart,
    /// The window grows slowly, in search of the next loss.
    CongestionAvoidance,
    /// The window has just been reduced, and nothing sent since then has been acknowledged yet.
    Recovery,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SlowStart => "slow start",
            Self::CongestionAvoidance => "congestion avoidance",
            Self::Recovery => "recovery",
        })
    }
}

/// A controller's state, for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// What it is doing.
    pub phase: Phase,
    /// Slow start threshold in bytes; `None` while it is still unlimited.
    pub ssthresh: Option<u64>,
    /// Congestion window in bytes.
    pub window: u64,
}
