//! Reno (RFC 5681), counted in segments, as the papers' simulators do.
//!
//! The crate `congestion` has NewReno for QUIC (bytes, recovery periods by time, RFC 9002); TCP
//! halves what is in flight and counts recovery by sequence numbers, and simulators are compared
//! with ns-2 and ns-3 segment by segment.

use crate::own::Acked;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reno {
    pub(super) window: f64,
    pub(super) threshold: f64,
}

impl Reno {
    pub(super) fn new(window: u32) -> Self {
        Self { window: f64::from(window), threshold: f64::INFINITY }
    }

    #[inline]
    pub(super) fn window(&self) -> u32 {
        self.window as u32
    }

    #[inline]
    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Section 3.1, with as many segments as were acknowledged (RFC 3465, L unlimited).
    #[inline]
    pub(super) fn on_ack(&mut self, acked: &Acked) {
        if acked.in_recovery || !acked.limited {
            return;
        }
        let mut segments = f64::from(acked.segments);
        if self.in_slow_start() {
            let used = segments.min(self.threshold - self.window);
            self.window += used;
            segments -= used;
        }
        if segments > 0.0 {
            self.window += segments / self.window;
        }
    }

    /// Equation 4. What Limited Transmit sent beyond the window does not count, nor window that was
    /// not used.
    pub(super) fn on_loss(&mut self, flight: u32) {
        self.threshold = (f64::from(flight).min(self.window) / 2.0).floor().max(2.0);
        self.window = self.threshold;
    }

    pub(super) fn on_timeout(&mut self, flight: u32, first: bool) {
        if first {
            self.threshold = (f64::from(flight).min(self.window) / 2.0).floor().max(2.0);
        }
        self.window = 1.0;
    }

    pub(super) fn restart(&mut self, initial: u32) {
        self.window = self.window.min(f64::from(initial));
    }
}
