//! Whatever waits has a deadline: the rule that no connection falls asleep, as a function of the
//! connection.
//!
//! Data waits for windows, for pacing, for a path, for a scheduler that expects something better.
//! Each of these ends with a packet from the peer, or with a deadline if none comes. Debug builds
//! ask after every [`poll_transmit`](Connection::poll_transmit) that has nothing more to send; so
//! do the tests of whole connections, in every build.

use units::{Duration, Instant};

use super::Connection;
use crate::path::Path;

/// What waits is looked after within this, or within so many round trips of the slowest path if
/// that is longer.
const ATTENTION: Duration = Duration::from_secs(10);
const ROUND_TRIPS: u64 = 10;

impl Connection {
    /// What waits although no deadline sees to it soon; `None` is as it should be. The idle timeout
    /// helps nobody, nor does a keep-alive.
    ///
    /// For tests: to be asked when [`poll_transmit`](Self::poll_transmit) has answered `None`.
    #[doc(hidden)]
    pub fn neglected(&self, now: Instant) -> Option<&'static str> {
        if self.state.is_closed() || !self.handshake.is_complete() {
            return None;
        }
        let waits = self.waiting()?;
        let slowest = self.paths.values().map(|p| p.rtt().pto_base()).max().unwrap_or(Duration::ZERO);
        // A peer may say that its ACKs wait for 16 s (RFC 9000 section 18.2).
        let soon = now + ATTENTION.max((slowest + self.peer_max_ack_delay()) * ROUND_TRIPS);
        self.next_duty().is_none_or(|at| at > soon).then_some(waits)
    }

    /// What waits to be sent, or to be acknowledged.
    fn waiting(&self) -> Option<&'static str> {
        let open = || self.paths.values().filter(|p| p.is_open());
        // A server that knows no validated address may have no leave to send anything, which only
        // the client can give (RFC 9000 section 8.1).
        if !open().any(Path::may_send_something) {
            return None;
        }
        // An application that pauses all paths wants its data to wait.
        let paused = !open().any(Path::may_carry_data);
        if paused && !open().any(|p| p.space().has_ack_eliciting_in_flight()) {
            return None;
        }
        if self.has_pending() {
            Some("frames wait to be sent")
        } else if self.streams.held_bytes() > 0 {
            Some("stream data waits to be acknowledged")
        } else if open().any(|p| p.space().has_ack_eliciting_in_flight()) {
            Some("packets wait to be acknowledged")
        } else {
            None
        }
    }
}
