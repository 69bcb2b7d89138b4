//! What policies and schedulers see of a path: an immutable copy.

use recovery::loss_history::LossHistory;
use units::{BitRate, Duration};

use crate::wire::PathId;

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
    /// The smallest round-trip time that was measured.
    pub min_rtt: Duration,
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
    /// The longest that the peer lets an ACK wait (RFC 9000 section 18.2); zero until the handshake is
    /// confirmed.
    pub ack_delay: Duration,
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
    /// to the same peer together; without doubt where losses are the load's.
    pub history: LossHistory,
    /// Whether it hardly loses anything by chance: two losses among 500 packets are too many, for
    /// half a minute and more.
    pub steady: bool,
    /// Whether the controller is in slow start.
    pub slow_start: bool,
    /// How long the pacer holds the next packet back; zero: not at all.
    pub pacing_wait: Duration,
    /// Whether any packet with data has ever been sent on it.
    pub ever_sent: bool,
    /// Whether new data may use it. A path that is silent, a backup, or held back by the amplification
    /// limit (RFC 9000 section 8) may not while another works; its un-ACKed packets can still be
    /// protected.
    pub usable: bool,
    /// Whether new data may use it and it answers, be it that copies and repair may not, as on a metered path: what is
    /// moved off a silent path goes over such ones.
    pub carries_data: bool,
    /// Whether it would be usable, and may carry recovery, but for a probe timeout that nothing has answered.
    pub silent: bool,
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
            min_rtt: rtt,
            expected_rtt: rtt,
            delivery_rate: None,
            next_ack: rtt,
            ack_spread: Duration::ZERO,
            rtt_variance: Duration::ZERO,
            ack_delay: Duration::ZERO,
            probe_timeout: rtt * 3,
            measured: true,
            loss: 0.0,
            loss_rate: 0.0,
            history: LossHistory::new(),
            steady: true,
            slow_start: false,
            pacing_wait: Duration::ZERO,
            ever_sent: true,
            usable: true,
            carries_data: true,
            silent: false,
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
