//! DCTCP: RFC 8257, for data centres whose switches mark packets at a shallow threshold.
//!
//! | RFC 8257                   | here                        | unit  |
//! |----------------------------|-----------------------------|-------|
//! | g                          | `GAIN`                      | none  |
//! | DCTCP.Alpha                | `alpha`                     | share of marked bytes |
//! | DCTCP.WindowEnd            | `round_start`               | time  |
//! | DCTCP.BytesAcked, BytesMarked | `acked`, `marked`        | bytes |
//!
//! # Departures
//! - An observation window ends when something sent after its start is acknowledged: packet numbers
//!   are not at hand, send times are.
//! - QUIC reports marks as packet counts; [`Ack::ce_bytes`] is the caller's estimate of the bytes.
//! - The window is reduced at the first mark of a round trip, with the alpha known then; loss
//!   halves, as in Reno.
//!
//! # Invariants
//! 0 <= alpha <= 1, and 1 before the first observation (section 4.2); at most one reduction per
//! round trip.

use units::Instant;

use crate::{Ack, Config, Controller, ControllerKind, Loss, PathWindow, State, aimd::Aimd};

/// g: the weight of one observation window (section 4.2).
const GAIN: f64 = 1.0 / 16.0;

/// RFC 8257's controller: marks reduce the window in proportion to how many there are.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Aimd,
    alpha: f64,
    /// When the current observation window began; `None` before the first ACK.
    round_start: Option<Instant>,
    acked: u64,
    marked: u64,
}

impl Dctcp {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        Self { window: Aimd::new(config), alpha: 1.0, round_start: None, acked: 0, marked: 0 }
    }

    /// Section 3.3, steps 1 to 7.
    fn observe(&mut self, ack: &Ack) {
        self.acked = self.acked.saturating_add(ack.bytes);
        self.marked = self.marked.saturating_add(ack.ce_bytes.min(ack.bytes));
        let Some(start) = self.round_start else {
            self.round_start = Some(ack.now);
            return;
        };
        if ack.largest_sent_at >= start && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (self.alpha * (1.0 - GAIN) + GAIN * share).clamp(0.0, 1.0);
            (self.acked, self.marked, self.round_start) = (0, 0, Some(ack.now));
        }
    }
}

impl Controller for Dctcp {
    fn on_ack(&mut self, ack: &Ack, _group: &[PathWindow]) {
        self.observe(ack);
        let bytes = self.window.on_ack(ack);
        self.window.add(bytes * self.window.segment() / self.window.window());
    }

    fn on_loss(&mut self, loss: &Loss, _group: &[PathWindow]) {
        self.window.reduce(loss.now, loss.largest_sent_at, 0.5);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window.collapse();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.window.undo();
    }

    fn on_ecn_ce(&mut self, now: Instant, largest_sent: Instant) {
        self.window.reduce(now, largest_sent, 1.0 - self.alpha / 2.0);
        self.window.confirm();
    }

    fn on_mtu(&mut self, max_datagram_size: u64) {
        self.window.on_mtu(max_datagram_size);
    }

    fn set_window(&mut self, window: u64, ssthresh: Option<u64>) {
        self.window.set(window, ssthresh);
    }

    fn window(&self) -> u64 {
        self.window.window() as u64
    }

    fn state(&self) -> State {
        self.window.state()
    }

    fn kind(&self) -> ControllerKind {
        ControllerKind::Dctcp
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    fn ack(now: u64, sent: u64, bytes: u64, ce_bytes: u64) -> Ack {
        Ack { now: at(now), largest_sent_at: at(sent), bytes, ce_bytes, ..Ack::default() }
    }

    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let mut dctcp = Dctcp::new(&Config::with_max_datagram_size(1_000));
        assert_eq!(dctcp.alpha, 1.0);
        dctcp.on_ack(&ack(10, 0, 5_000, 0), &[]);
        dctcp.on_ack(&ack(11, 9, 5_000, 0), &[]); // sent before the observation began
        assert_eq!(dctcp.alpha, 1.0);
        dctcp.on_ack(&ack(21, 12, 10_000, 5_000), &[]); // a quarter of 20,000 bytes
        assert!((dctcp.alpha - (15.0 + 0.25) / 16.0).abs() < 1e-12, "{}", dctcp.alpha);
        for round in 3..300 {
            dctcp.on_ack(&ack(round * 10, round * 10 - 8, 10_000, 0), &[]);
        }
        assert!(dctcp.alpha < 1e-7);
    }

    #[test]
    fn marks_reduce_by_half_of_alpha_once_per_round() {
        let mut dctcp = Dctcp::new(&Config::with_max_datagram_size(1_000));
        dctcp.alpha = 0.2;
        dctcp.on_ecn_ce(at(100), at(90));
        assert_eq!(dctcp.window(), 9_000);
        dctcp.on_ecn_ce(at(105), at(95));
        assert_eq!(dctcp.window(), 9_000);
        dctcp.on_loss(&Loss { now: at(120), largest_sent_at: at(110), ..Loss::default() }, &[]);
        assert_eq!(dctcp.window(), 4_500);
    }
}
