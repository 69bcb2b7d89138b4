//! DCTCP (RFC 8257, sender side): Reno, but marks reduce the window by half their share.
//!
//! | RFC              | here                  | unit     |
//! |------------------|-----------------------|----------|
//! | DCTCP.Alpha      | `alpha`               | share    |
//! | g                | [`GAIN`]              |          |
//! | DCTCP.BytesAcked | `acked`               | segments |
//! | DCTCP.BytesMarked| `marked`              | segments |
//! | DCTCP.WindowEnd  | `window_end`: `acked` reaches the window | segments |

use super::Reno;
use crate::own::Acked;

/// g: weight of the newest window's share of marks (section 4.2 recommends 1/16).
const GAIN: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    pub(super) reno: Reno,
    alpha: f64,
    acked: u32,
    marked: u32,
    /// Segments that make up the observation window: those in flight when it began.
    window_end: u32,
}

impl Dctcp {
    /// Alpha starts at 1 (section 4.2).
    pub(super) fn new(window: u32) -> Self {
        Self { reno: Reno::new(window), alpha: 1.0, acked: 0, marked: 0, window_end: window }
    }

    #[inline]
    pub(super) fn on_ack(&mut self, acked: &Acked) {
        self.acked += acked.segments;
        self.marked += if acked.marked { acked.segments } else { 0 };
        if self.acked >= self.window_end {
            let share = f64::from(self.marked) / f64::from(self.acked.max(1));
            self.alpha += GAIN * (share - self.alpha);
            (self.acked, self.marked, self.window_end) = (0, 0, acked.flight.max(1));
        }
        self.reno.on_ack(acked);
    }

    /// Section 3.3: once per window.
    pub(super) fn on_mark(&mut self) {
        self.reno.window = (self.reno.window * (1.0 - self.alpha / 2.0)).max(2.0);
        self.reno.threshold = self.reno.window;
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    fn ack(segments: u32, marked: bool) -> Acked {
        let now = Instant::ORIGIN;
        Acked { now, segments, sent_at: now, flight: 10, limited: true, in_recovery: false, marked }
    }

    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut dctcp = Dctcp::new(10);
        dctcp.on_ack(&ack(10, false)); // a window without marks: 15/16
        assert_eq!(dctcp.alpha, 0.9375);
        dctcp.on_ack(&ack(5, true));
        dctcp.on_ack(&ack(5, false));
        assert_eq!(dctcp.alpha, 0.9375 + (0.5 - 0.9375) / 16.0);
        let window = dctcp.reno.window;
        dctcp.on_mark();
        assert_eq!(dctcp.reno.window, window * (1.0 - dctcp.alpha / 2.0));
        (0..50).for_each(|_| dctcp.on_mark());
        assert_eq!(dctcp.reno.window, 2.0);
    }
}
