//! RACK: loss detection by time (RFC 8985 section 6).
//!
//! | RFC              | here          |
//! |------------------|---------------|
//! | RACK.xmit_ts, RACK.segment | `latest` |
//! | RACK.rtt         | `rtt`         |
//! | RACK.reo_wnd     | a quarter of the smallest RTT, 0 in recovery while no reordering was seen |
//!
//! # Departures
//! - The reordering window does not adapt to D-SACKs (section 6.2.4): it stays at a quarter of the
//!   smallest RTT.

use units::{Duration, Instant};

use crate::{
    rtt::RttEstimator,
    scoreboard::{EVER_RESENT, LOST, RESENT, SACKED, Scoreboard, Sent, Taken},
};

/// The most recently sent segment that was delivered, and what it tells.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rack {
    latest: (Instant, u32),
    rtt: Duration,
    reordering: bool,
}

impl Rack {
    pub(crate) fn on_acked(&mut self, now: Instant, taken: &Taken, rtt: &RttEstimator) {
        self.reordering |= taken.reordered;
        if taken.segments > 0 {
            self.delivered(now, taken.sent_at, 0, taken.sample_from.is_none(), rtt);
        }
    }

    pub(crate) fn on_sacked(&mut self, now: Instant, seq: u32, sent: &Sent, below: bool, rtt: &RttEstimator) {
        let again = sent.has(EVER_RESENT);
        self.reordering |= below && !again;
        self.delivered(now, sent.at, seq, again, rtt);
    }

    /// Step 2. An acknowledgement of a retransmission that comes too soon is the original's.
    fn delivered(&mut self, now: Instant, at: Instant, seq: u32, again: bool, rtt: &RttEstimator) {
        let took = now - at;
        if (again && took < rtt.min) || (at, seq) < self.latest {
            return;
        }
        self.latest = (at, seq);
        self.rtt = took;
    }

    /// Step 5: marks as lost what was sent long enough before. When to look again, if anything is
    /// too young.
    pub(crate) fn detect(
        &self,
        board: &mut Scoreboard,
        now: Instant,
        recovering: bool,
        rtt: &RttEstimator,
    ) -> Instant {
        let window = if recovering && !self.reordering { Duration::ZERO } else { rtt.min / 4 };
        let (mut again, mut lost) = (Instant::MAX, Vec::new());
        for (seq, sent) in board.from(board.una) {
            if sent.has(SACKED) || (sent.has(LOST) && !sent.has(RESENT)) || (sent.at, seq) >= self.latest {
                continue;
            }
            let due = sent.at + self.rtt + window;
            if due <= now {
                lost.push(seq);
            } else {
                again = again.min(due);
            }
        }
        for seq in lost {
            board.mark_lost(seq);
        }
        again
    }
}
