//! NewReno for QUIC: RFC 9002 section 7 and appendix B.
//!
//! # Departures
//! - Appendix B looks at acknowledged packets one by one, this at the packets of one ACK frame
//!   together. A batch that straddles the recovery period counts as sent after it if its largest
//!   packet was; a batch that crosses the slow start threshold is split at the threshold.
//! - Fractions of a byte of additive increase are carried to the next ACK rather than dropped.
//!
//! # Invariants
//! The window is never below the minimum, and falls at most once per recovery period.

use units::Instant;

use crate::{
    Ack, Config, Controller, ControllerKind, Loss, PathWindow, Phase, State, recovery_period::RecoveryPeriod,
};

/// RFC 9002's controller: slow start, then one packet per round trip, halved by loss.
#[derive(Clone, Debug)]
pub struct NewReno {
    config: Config,
    window: u64,
    ssthresh: Option<u64>,
    /// What additive increase left over, in units of 1/window bytes.
    carry: u128,
    recovery: RecoveryPeriod,
    undo: Option<Undo>,
    /// Nothing has been acknowledged or lost yet, so that a new datagram size means a new initial
    /// window.
    fresh: bool,
}

/// What a reduction overwrote.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: u64,
    ssthresh: Option<u64>,
    recovery: RecoveryPeriod,
}

impl NewReno {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            window: config.initial_window(),
            ssthresh: None,
            carry: 0,
            recovery: RecoveryPeriod::default(),
            undo: None,
            fresh: true,
        }
    }

    /// `OnCongestionEvent` of appendix B.6.
    fn congestion_event(&mut self, now: Instant, sent_at: Instant) {
        self.fresh = false;
        if self.recovery.covers(sent_at) {
            return;
        }
        self.undo = Some(Undo { window: self.window, ssthresh: self.ssthresh, recovery: self.recovery });
        self.recovery.begin(now);
        let ssthresh = self.window / 2; // kLossReductionFactor
        self.ssthresh = Some(ssthresh);
        self.window = ssthresh.max(self.config.minimum_window());
        self.carry = 0;
    }

    /// Slow start: the window grows by `bytes`, at most up to the threshold. Returns what is left
    /// over.
    fn slow_start(&mut self, bytes: u64) -> u64 {
        let room = self.ssthresh.map_or(u64::MAX, |ssthresh| ssthresh.saturating_sub(self.window));
        let used = bytes.min(room);
        self.window = self.window.saturating_add(used);
        bytes - used
    }

    /// Congestion avoidance: one datagram per window of `bytes`.
    fn additive_increase(&mut self, bytes: u64) {
        let window = u128::from(self.window.max(1));
        let credit = u128::from(self.config.max_datagram_size) * u128::from(bytes) + self.carry;
        self.carry = credit % window;
        self.window = self.window.saturating_add(u64::try_from(credit / window).unwrap_or(u64::MAX));
    }
}

impl Controller for NewReno {
    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.fresh = false;
        self.recovery.on_ack(ack.largest_sent_at);
        if ack.app_limited || self.recovery.covers(ack.largest_sent_at) {
            return;
        }
        let rest = self.slow_start(ack.bytes);
        if rest > 0 {
            self.additive_increase(rest);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.congestion_event(loss.now, loss.largest_sent_at);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window = self.config.minimum_window();
        self.carry = 0;
        self.undo = None;
        self.recovery.clear();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        let Some(undo) = self.undo.take() else { return };
        self.window = self.window.max(undo.window);
        self.ssthresh = undo.ssthresh;
        self.recovery = undo.recovery;
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.congestion_event(now, largest_sent);
        self.undo = None; // a mark is never a mistake, even if the losses beside it were
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.config.max_datagram_size = max_datagram_size;
        let floor = if self.fresh { self.config.initial_window() } else { self.config.minimum_window() };
        self.window = if self.fresh { floor } else { self.window.max(floor) };
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn state(&self) -> State {
        let phase = if self.recovery.is_open() {
            Phase::Recovery
        } else if self.ssthresh.is_none_or(|ssthresh| self.window < ssthresh) {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        };
        State { phase, ssthresh: self.ssthresh, window: self.window }
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::NewReno
    }
}

#[cfg(test)]
mod tests;
