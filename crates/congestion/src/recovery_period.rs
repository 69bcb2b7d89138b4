//! One reduction per round trip: the recovery period of RFC 9002 section 7.3.2.

use units::Instant;

/// Tells whether a loss belongs to the reduction that has already been made.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RecoveryPeriod {
    start: Option<Instant>,
    open: bool,
}

impl RecoveryPeriod {
    /// Whether a packet sent at `sent_at` left before (or while) the window was last reduced.
    pub(crate) fn covers(&self, sent_at: Instant) -> bool {
        self.start.is_some_and(|start| sent_at <= start)
    }

    /// The window is reduced now.
    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self { start: Some(now), open: true };
    }

    /// A packet sent at `sent_at` was acknowledged: the first one sent after the reduction ends the
    /// period.
    pub(crate) fn on_ack(&mut self, sent_at: Instant) {
        self.open = self.open && self.covers(sent_at);
    }

    /// Whether nothing sent since the reduction has been acknowledged yet.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Forgets the reduction, as after persistent congestion.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
