//! What a client may use up before the application lets it in ([`crate::Admission`]).

use super::{Connection, EndpointEvent, event::EndpointEventKind};

impl Connection {
    /// Lets the client in: from now on it may use what the configuration of the transport allows. Without
    /// [`Admission`](crate::Admission) the handshake does so.
    pub fn admit(&mut self) {
        if self.awaiting.take().is_some() {
            self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::Admitted));
        }
    }

    /// Whether the client is let in: what it may use up is no longer limited to [`Admission`](crate::Admission).
    pub fn is_admitted(&self) -> bool {
        self.awaiting.is_none()
    }
}
