//! What policies see of a path: an immutable copy.

use congestion::{PathWindow, Phase};
use recovery::loss_history::LossHistory;
use units::{BitRate, Duration, Instant};

use super::{Path, rtt::GRANULARITY};
use crate::wire::PathId;

/// Delivered packets that every path is credited with when its loss rate is estimated for the
/// scheduler: one loss among the first ten packets must not make a path look useless.
const LOSS_PRIOR: u64 = 100;

/// One path that may carry data, at the moment a policy is asked. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathSnapshot {
    /// Path id.
    pub id: PathId,
    /// Congestion window.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest datagram.
    pub mtu: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Round-trip time to expect of the next packet: the smoothed one, or more where a queue is
    /// building up.
    pub expected_rtt: Duration,
    /// The rate at which the path has delivered lately; `None` until enough has been sent to tell.
    pub delivery_rate: Option<BitRate>,
    /// Time until the oldest packet in flight should be ACKed, which opens a full window; zero if
    /// it is overdue.
    pub next_ack: Duration,
    /// Time between the sending of the oldest and the newest packet in flight: ACKs will be spread
    /// alike.
    pub ack_spread: Duration,
    /// Round-trip time variation.
    pub rtt_variance: Duration,
    /// Probe timeout, without backoff: what it costs at least if nobody speaks up about a loss (RFC
    /// 9002 section 6.2.1).
    pub probe_timeout: Duration,
    /// Whether the round-trip time has been measured.
    pub measured: bool,
    /// Loss estimate of FUSO section III-B.1 with equal weights, 0 to 1. It jumps to a half and
    /// more right after a loss.
    pub loss: f64,
    /// Losses since the path's start over packets sent, as if a hundred more had arrived: what to
    /// expect of the next packet, 0 to 1.
    pub loss_rate: f64,
    /// How much it has lost so far, and in bursts of what length, this connection and the last one
    /// to the same peer together.
    pub history: LossHistory,
    /// Whether the controller is in slow start.
    pub slow_start: bool,
    /// How long the pacer holds the next packet back; zero: not at all.
    pub pacing_wait: Duration,
    /// Whether any packet with data has ever been sent on it.
    pub ever_sent: bool,
    /// Whether new data may use it. A path that is silent or a backup may not while another works;
    /// its un-ACKed packets can still be protected.
    pub usable: bool,
    /// Whether it has an un-ACKed packet that is neither a copy nor protected by resending
    /// (FUSO-A3).
    pub protectable: bool,
}

impl PathSnapshot {
    /// An idle, usable path with a window of ten packets.
    pub fn new(id: PathId, rtt: Duration, mtu: u64) -> Self {
        Self {
            id,
            window: 10 * mtu,
            in_flight: 0,
            mtu,
            rtt,
            expected_rtt: rtt,
            delivery_rate: None,
            next_ack: rtt,
            ack_spread: Duration::ZERO,
            rtt_variance: Duration::ZERO,
            probe_timeout: rtt * 3,
            measured: true,
            loss: 0.0,
            loss_rate: 0.0,
            history: LossHistory::new(),
            slow_start: false,
            pacing_wait: Duration::ZERO,
            ever_sent: true,
            usable: true,
            protectable: false,
        }
    }

    /// Whether the window has room for a full packet.
    pub fn has_window(&self) -> bool {
        self.usable && self.in_flight + self.mtu <= self.window
    }

    /// Bytes that the window has room for.
    pub fn spare(&self) -> u64 {
        if self.usable { self.window.saturating_sub(self.in_flight) } else { 0 }
    }

    /// Whether a packet may leave at this moment.
    pub fn may_send(&self) -> bool {
        self.has_window() && self.pacing_wait.is_zero()
    }
}

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// For a scheduler, which does not ask what could be protected.
    Scheduling,
    /// For a recovery policy.
    Recovery,
}

impl Path {
    /// What policies see of the path. `usable`: new data may use it.
    pub(crate) fn snapshot(
        &mut self,
        now: Instant,
        view: View,
        max_ack_delay: Duration,
        usable: bool,
    ) -> PathSnapshot {
        let pacing_wait = self.pace(now);
        if view == View::Recovery {
            self.move_marks();
        }
        let oldest = self.space.sent.iter().next().map(|(_, p)| p.sent_at);
        let newest = self.space.last_ack_eliciting_at;
        let (measured, loss) = (&self.recovery.measured, &self.recovery.loss);
        let rtt = &measured.rtt;
        PathSnapshot {
            id: self.id,
            window: self.window(),
            in_flight: measured.in_flight,
            mtu: self.datagram_size() as u64,
            rtt: rtt.smoothed(),
            expected_rtt: self.expected_rtt(),
            delivery_rate: self.delivery_rate(),
            next_ack: oldest.map_or(Duration::ZERO, |sent| self.next_ack(sent, now)),
            ack_spread: oldest.zip(newest).map_or(Duration::ZERO, |(a, b)| b - a),
            rtt_variance: rtt.variance(),
            probe_timeout: rtt.pto_base() + max_ack_delay,
            measured: rtt.first_sample_at().is_some(),
            loss: loss.estimate(),
            loss_rate: loss.lost() as f64 / (loss.transmitted() + LOSS_PRIOR) as f64,
            history: measured.history,
            slow_start: measured.controller.state().phase == Phase::SlowStart,
            pacing_wait,
            ever_sent: loss.ever_sent(),
            usable,
            protectable: view == View::Recovery && self.is_protectable(),
        }
    }

    /// Time until the ACK of a packet that left at `sent`. If that is overdue by more than the
    /// round-trip time varies, the path may be dead: then a full round trip, as if it had been sent
    /// only now.
    fn next_ack(&self, sent: Instant, now: Instant) -> Duration {
        let rtt = self.rtt();
        let (due, variance) = (sent + rtt.smoothed(), rtt.variance().max(GRANULARITY));
        if now <= due + variance { due - now } else { rtt.smoothed() + variance }
    }

    /// What coupled controllers see of the path, when that of path `of` asks.
    pub(crate) fn sibling_of(&self, of: PathId) -> PathWindow {
        let measured = &self.recovery.measured;
        let rtt = &measured.rtt;
        PathWindow {
            path: self.id.0,
            window: measured.controller.window(),
            in_flight: measured.in_flight,
            smoothed_rtt: rtt.first_sample_at().map_or(Duration::ZERO, |_| rtt.smoothed()),
            slow_start: measured.controller.state().phase == Phase::SlowStart,
            is_self: self.id == of,
            inter_loss: measured.controller.inter_loss(),
        }
    }
}
