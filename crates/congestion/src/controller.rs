//! The trait that every congestion controller implements, and the events that it is told.

use core::fmt;

use units::{BitRate, Duration, Instant};

use crate::{Carried, ControllerKind};

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
    /// The latest sample without the delay that the peer says it added; zero if unknown.
    pub adjusted_rtt: Duration,
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
    /// What its controller's [`inter_loss`](Controller::inter_loss) answers: OLIA's l, the larger
    /// of the bytes acknowledged between its last two losses and since the last one.
    pub inter_loss: u64,
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

/// What a controller knows of its path that another connection may begin with, and what came of
/// what it began with itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Resumption {
    /// What the path has been seen to carry.
    pub carried: Option<Carried>,
    /// How often the window was raised to what was known of the path.
    pub jumps: u64,
    /// How often that, or a burst with an old window, turned out to be too much.
    pub retreats: u64,
}

/// How much of one path may be in flight.
///
/// # Contract
/// - `now` never goes back from call to call.
/// - In one round of feedback the order is: [`on_loss`](Self::on_loss), then
///   [`on_persistent_congestion`](Self::on_persistent_congestion), then
///   [`on_ecn_ce`](Self::on_ecn_ce), then [`on_ack`](Self::on_ack); other orders are safe but may
///   grow the window by one ACK frame's worth more.
/// - `group` holds every usable path of the connection, in path id order, as it was before the
///   event. Controllers that are not coupled ignore it, and `&[]` is allowed: a coupled controller
///   then behaves as on a single path.
/// - The window never falls below [`Config::minimum_window`](crate::Config::minimum_window).
pub trait Controller: Send + fmt::Debug {
    /// A packet of `bytes` that counts as in flight was sent; `in_flight` includes it.
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }

    /// An ACK frame newly acknowledged in-flight packets. One call per ACK frame, none if it
    /// acknowledged nothing new.
    fn on_ack(&mut self, ack: &Ack, group: &[PathWindow]);

    /// Loss detection declared packets lost. One call per round of loss detection; the controller
    /// itself reacts once per recovery period (RFC 9002 section 7.3.2), which it tells by
    /// [`Loss::largest_sent_at`].
    fn on_loss(&mut self, loss: &Loss, group: &[PathWindow]);

    /// Persistent congestion was established (RFC 9002 section 7.6), by losses already told to
    /// [`on_loss`](Self::on_loss).
    fn on_persistent_congestion(&mut self, now: Instant);

    /// Every packet whose loss caused the latest reduction has been acknowledged after all: the
    /// network reordered them. Undoes the reduction if the algorithm can and nothing else has
    /// reduced the window since.
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// An ACK frame reported new ECN-CE marks; `largest_sent` is when the largest packet it
    /// acknowledged was sent. Counts as a loss event without lost packets (RFC 9002 section 7.1).
    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant);

    /// The path's maximum datagram size is now `max_datagram_size` bytes of UDP payload.
    fn on_mtu(&mut self, max_datagram_size: u64);

    /// The window is `window` bytes from now on, at least the minimum: something else than this
    /// controller knows what the path bears. Slow start goes on up to `ssthresh`, without a
    /// threshold if there is none; reductions before cannot be undone any more.
    fn set_window(&mut self, window: u64, ssthresh: Option<u64>);

    /// The congestion window in bytes: a packet may leave if it keeps the bytes in flight at or
    /// below this.
    fn window(&self) -> u64;

    /// What sibling paths' controllers are told about this one in [`PathWindow::inter_loss`]. 0
    /// from those that do not count.
    fn inter_loss(&self) -> u64 {
        0
    }

    /// What is known for other connections. Nothing from those that do not resume.
    fn resumption(&self) -> Resumption {
        Resumption::default()
    }

    /// The rate at which to spread packets: 1.25 times window over smoothed round-trip time, twice
    /// in slow start (RFC 9002 section 7.7). Unlimited before the first RTT sample.
    fn pacing_rate(&self, rtt: &Rtt) -> BitRate {
        let (gain_num, gain_den) = match self.state().phase {
            Phase::SlowStart => (2, 1),
            Phase::CongestionAvoidance | Phase::Recovery => (5, 4),
        };
        let nanos = u128::from(rtt.smoothed.as_nanos());
        if nanos == 0 {
            return BitRate(u64::MAX);
        }
        let bits = u128::from(self.window()) * 8 * gain_num * 1_000_000_000;
        BitRate(u64::try_from(bits / (nanos * gain_den)).unwrap_or(u64::MAX))
    }

    /// What the controller is doing, for statistics.
    fn state(&self) -> State;

    /// Which algorithm this is.
    fn kind(&self) -> ControllerKind;

    /// The algorithm's name, as [`ControllerKind`] parses it.
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}
