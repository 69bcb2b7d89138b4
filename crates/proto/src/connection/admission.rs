//! What a client may use up before the application lets it in ([`Admission`]).
//!
//! Strangers cost little to make and may be many: a connection that waits for its application has
//! one stream, small windows, and no second path. Everything it was told in transport parameters
//! can be raised later; what cannot, such as the memory for decoding, is kept small in silence,
//! since none of it is a promise.

use std::sync::Arc;

use super::{Connection, EndpointEvent, event::EndpointEventKind};
use crate::{
    Admission,
    config::TransportConfig,
    streams::ReceiveLimits,
    wire::{TransportError, TransportErrorCode},
};

/// Gaps in the stream of a client that is not let in: what it has to say fits one packet.
const MAX_STRANGERS_GAPS: usize = 64;

/// The transport of a connection whose client is not let in.
pub(super) fn narrow(config: &TransportConfig, admission: &Admission) -> TransportConfig {
    let window = config.receive_window.min(admission.receive_window);
    TransportConfig {
        receive_window: window,
        stream_receive_window: window,
        initial_stream_window: Some(window),
        max_concurrent_bidi: config.max_concurrent_bidi.min(1),
        max_concurrent_uni: 0,
        datagram_receive_buffer: config.datagram_receive_buffer.min(admission.datagram_receive_buffer),
        ..config.clone()
    }
}

impl Connection {
    /// Lets the client in: from now on it may use what the configuration of the transport allows.
    /// Without [`Admission`](crate::Admission) the handshake does so.
    pub fn admit(&mut self) {
        if self.awaiting.take().is_none() {
            return;
        }
        self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::Admitted));
        self.streams.raise_limits(&ReceiveLimits {
            receive_window: self.config.receive_window,
            stream_receive_window: self.config.stream_receive_window,
            max_concurrent_bidi: self.config.max_concurrent_bidi,
            max_concurrent_uni: self.config.max_concurrent_uni,
        });
        self.datagrams.set_incoming_limit(self.config.datagram_receive_buffer);
        self.repair.decoder.set_budget(self.config.repair.decoder_memory);
    }

    /// Whether the client is let in: what it may use up is no longer limited to
    /// [`Admission`](crate::Admission).
    pub fn is_admitted(&self) -> bool {
        self.awaiting.is_none()
    }

    /// Begins with what a stranger may use up.
    pub(super) fn await_admission(&mut self, admission: Admission, wide: &Arc<TransportConfig>) {
        self.awaiting = Some(admission);
        self.config = wide.clone();
        self.repair.decoder.set_budget(admission.decoder_memory.min(wide.repair.decoder_memory));
    }

    /// A stranger's stream data with holes cost more than their bytes.
    pub(super) fn check_gaps_of_stranger(&self) -> Result<(), TransportError> {
        if self.awaiting.is_none() || self.streams.gaps() <= MAX_STRANGERS_GAPS {
            return Ok(());
        }
        let reason = "too many gaps in stream data before the client is let in";
        Err(TransportError::new(TransportErrorCode::INTERNAL_ERROR, reason))
    }
}
