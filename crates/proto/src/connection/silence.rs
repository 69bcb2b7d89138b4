//! A receiver that waits for data notices silence (docs/decisions/0013-quiet-receivers.md).

use units::Instant;

use super::Connection;
use crate::{path::Path, wire::PathId};

impl Connection {
    /// When a quiet path is to be asked whether the peer is still there. What is in flight has its own probe timeout.
    pub(super) fn silence_deadline(&self, path: &Path) -> Option<Instant> {
        let idle = path.is_open()
            && path.probes_due == 0
            && !path.space.has_ack_eliciting_in_flight()
            && self.handshake.is_confirmed()
            && self.streams.may_receive();
        let probe_timeout = path.rtt.pto_base() + self.peer_max_ack_delay();
        idle.then(|| path.quiet.due(probe_timeout, self.idle_timeout)).flatten()
    }

    /// It has been quiet for long enough. The ACK goes along, since the last ones may have been lost with whatever we wait for.
    pub(super) fn on_silence(&mut self, now: Instant, id: PathId) {
        let waits = self.streams.awaits_data();
        let Some(path) = self.paths.get_mut(&id) else { return };
        if !waits {
            return path.quiet.settle();
        }
        path.quiet.on_asked();
        path.probes_due = 1;
        path.space.received.owe_again(now);
    }
}
