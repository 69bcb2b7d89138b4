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

use crate::{Ack, Config, Controller, ControllerKind, Loss, PathWindow, State, aimd::Aimd};

/// RFC 9002's controller: slow start, then one packet per round trip, halved by loss.
#[derive(Clone, Debug)]
pub struct NewReno {
    /// Whole bytes.
    window: Aimd,
    /// What additive increase left over, in units of 1/window bytes.
    carry: u128,
}

impl NewReno {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self { window: Aimd::new(config), carry: 0 }
    }

    /// `OnCongestionEvent` of appendix B.6, with its kLossReductionFactor.
    fn congestion_event(&mut self, now: Instant, sent_at: Instant) {
        let half = (self.window.window() / 2.0).floor();
        if self.window.reduce_to(now, sent_at, half) {
            self.carry = 0;
        }
    }

    /// Congestion avoidance: one datagram per window of `bytes`.
    fn additive_increase(&mut self, bytes: u64) {
        let window = u128::from(self.window().max(1));
        let credit = self.window.segment() as u128 * u128::from(bytes) + self.carry;
        self.carry = credit % window;
        self.window.add((credit / window) as f64);
    }
}

impl Controller for NewReno {
    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        let bytes = self.window.on_ack(ack);
        if bytes > 0.0 {
            self.additive_increase(bytes as u64);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.congestion_event(loss.now, loss.largest_sent_at);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
        self.carry = 0;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window.undo();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.congestion_event(now, largest_sent);
        self.window.confirm();
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.window.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.window.set(window, ssthresh);
        self.carry = 0;
    }

    fn window(&self) -> u64 {
        self.window.window() as u64
    }

    fn state(&self) -> State {
        self.window.state()
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::NewReno
    }
}

#[cfg(test)]
mod tests;
