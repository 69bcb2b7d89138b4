//! From the first challenge to the last late packet.

use units::{Duration, Instant};

use super::Path;
use crate::stats::PathState;

/// Probe timeouts for which late packets of an abandoned path are awaited.
const CLOSING_PTOS: u64 = 3;

/// Who abandoned a path first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbandonedBy {
    Us,
    Peer,
}

/// Why a path may or may not carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Our challenge has not been answered yet.
    Validating,
    /// Carries data.
    Open,
    /// Abandoned by either side; kept until late packets have passed, and until the peer is known
    /// to know of it. As long as it does not, it may have no other path to us: what it says on this
    /// one must be heard.
    Closing { until: Instant, told: bool },
}

impl Path {
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closing { .. })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle == Lifecycle::Open
    }

    /// Whether it carries data and answers.
    pub(crate) fn works(&self) -> bool {
        self.is_open() && !self.is_suspect()
    }

    /// Carries data from now on, for example as the path of the handshake.
    pub(crate) fn open(&mut self) {
        self.lifecycle = Lifecycle::Open;
    }

    /// Somebody has abandoned the path. If it was the peer, it needs no telling. Its ACKs may wait for
    /// `max_ack_delay`, which is a part of a probe timeout (RFC 9002 section 6.2.1).
    pub(crate) fn close(&mut self, now: Instant, max_ack_delay: Duration, by: AbandonedBy) {
        let until = now + (self.rtt().pto_base() + max_ack_delay) * CLOSING_PTOS;
        self.lifecycle = Lifecycle::Closing { until, told: by == AbandonedBy::Peer };
        self.recovery.timeouts.cancel_probes();
    }

    /// The peer knows that the path is abandoned.
    pub(crate) fn on_abandon_told(&mut self) {
        if let Lifecycle::Closing { told, .. } = &mut self.lifecycle {
            *told = true;
        }
    }

    /// Whether the path is abandoned and the peer may not know.
    pub(crate) fn is_closing_untold(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closing { told: false, .. })
    }

    /// When a closing path may be forgotten; `None` as long as the peer may not know.
    pub(crate) fn forget_at(&self) -> Option<Instant> {
        match self.lifecycle {
            Lifecycle::Closing { until, told: true } => Some(until),
            _ => None,
        }
    }

    /// When the connection is to ask for life on a path that has been idle for so long.
    pub(crate) fn keep_alive_deadline(&self, interval: Duration) -> Option<Instant> {
        let idle = self.is_open() && !self.space.has_ack_eliciting_in_flight();
        idle.then(|| self.last_activity + interval)
    }

    /// When something last happened on the path.
    pub(crate) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    pub(crate) fn touch(&mut self, now: Instant) {
        self.last_activity = now;
    }

    pub(super) fn state(&self) -> PathState {
        match self.lifecycle {
            Lifecycle::Closing { .. } => PathState::Closing,
            Lifecycle::Validating => PathState::Validating,
            Lifecycle::Open if self.is_suspect() => PathState::Suspect,
            Lifecycle::Open if self.is_backup() => PathState::Backup,
            Lifecycle::Open => PathState::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkPath, config::TransportConfig, path::MAX_ACK_DELAY, wire::PathId};

    #[test]
    fn late_packets_of_a_closed_path_are_awaited_for_three_whole_probe_timeouts() {
        let end = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: end(1), remote: end(2) };
        let mut path = Path::new(PathId(1), network, &TransportConfig::default(), Instant::ORIGIN);
        let probe_timeout = path.rtt().pto_base() + MAX_ACK_DELAY;
        path.close(Instant::ORIGIN, MAX_ACK_DELAY, AbandonedBy::Peer);
        assert_eq!(path.forget_at(), Some(Instant::ORIGIN + probe_timeout * 3));
    }
}
