//! Application data before the handshake is complete: 0-RTT of clients, and what servers answer to
//! it (RFC 9001 sections 4.6 and 5.6, RFC 9000 section 7.4.1).
//!
//! Only path 0 carries it, and neither multipath nor repair frames do: both extensions wait for the
//! handshake.

use rustls::quic::DirectionalKeys;
use units::Instant;

use super::{
    Connection, Event,
    declared::Declared,
    frames::{Contents, FrameContext},
    receive::{Arrived, Protected},
};
use crate::{
    PacketPurpose, Transmit,
    crypto::{self, Level},
    datagrams::Datagrams,
    path::{Path, received::Arrival},
    streams::Streams,
    wire::{
        PathId, Side, StreamId, TransportError, TransportErrorCode, TransportParameters, expand_packet_number,
    },
};

/// What is only there because of early data.
#[derive(Default)]
pub(super) struct EarlyData {
    /// The application lets data flow before the handshake is complete.
    started: bool,
    /// The keys of 0-RTT packets: a client seals with them, a server opens.
    pub(super) keys: Option<Box<DirectionalKeys>>,
    /// What a client assumes of the server: the parameters that came with its ticket.
    remembered: Option<Box<TransportParameters>>,
    /// Whether the server took what the client sent.
    accepted: Option<bool>,
    /// The largest stream index that a 0-RTT packet named, by direction.
    streams: [Option<u64>; 2],
}

impl Connection {
    /// Lets application data flow before the handshake is complete; call it right after the
    /// connection was made. False, and nothing changed, if that is not possible.
    ///
    /// A client sends 0-RTT packets, if the TLS configuration enables early data and a ticket from
    /// an earlier connection to the server allows it. **They can be replayed**: an attacker can let
    /// the server read them several times. Whether the server took them is known when the handshake
    /// is complete ([`early_data_accepted`](Self::early_data_accepted)); if it did not, all streams
    /// are gone without a trace, at the server as well, and the application starts over.
    ///
    /// A server reads 0-RTT data, if the TLS configuration accepts them, and answers before the
    /// client has proven that it is alive. Without this call it reads them once the handshake is
    /// complete, which a replay never brings about.
    pub fn start_early_data(&mut self, now: Instant) -> bool {
        if self.handshake.is_complete() || self.state.is_closed() || self.early.started {
            return false;
        }
        match self.side {
            Side::Client => self.start_zero_rtt(),
            Side::Server => {
                if self.handshake.one_rtt.is_some()
                    && let Err(error) = self.take_peer_parameters()
                {
                    self.fail(now, error);
                    return false;
                }
                self.early.started = self.handshake.one_rtt.is_some();
                self.early.started
            }
        }
    }

    /// Whether the server took a client's early data; `None` before the handshake is complete, and
    /// if there were none.
    pub fn early_data_accepted(&self) -> Option<bool> {
        self.early.accepted
    }

    /// Whether bytes of a stream of the client may have come in 0-RTT packets. Until the handshake
    /// is complete, they may be a replay.
    pub fn is_early(&self, id: StreamId) -> bool {
        id.initiator() == Side::Client && self.early.streams[id.dir() as usize] >= Some(id.index())
    }

    /// Application data may be sent in 1-RTT packets.
    pub(super) fn may_send_one_rtt(&self) -> bool {
        self.handshake.is_complete() || self.side == Side::Server && self.early.started
    }

    /// Application data may be sent.
    pub(super) fn may_send_data(&self) -> bool {
        self.handshake.is_complete() || self.early.started
    }

    /// Datagrams that may leave at once: until a client has shown that it is at its address, a
    /// server has a budget.
    pub(super) fn early_batch(&self) -> usize {
        if self.handshake.is_complete() {
            return usize::MAX;
        }
        let Some(path) = self.paths.of_handshake() else { return 0 };
        usize::try_from(path.amplification_budget() / path.datagram_size() as u64).unwrap_or(usize::MAX)
    }

    fn start_zero_rtt(&mut self) -> bool {
        let Some(keys) = self.handshake.tls.zero_rtt_keys() else { return false };
        let Some(encoded) = self.handshake.tls.peer_parameters() else { return false };
        let Ok(parameters) = TransportParameters::decode(encoded, Side::Server) else { return false };
        let remembered = remembered(&parameters);
        self.streams.set_peer_limits(&remembered);
        self.peer = Declared::from(&remembered);
        self.early.remembered = Some(Box::new(remembered));
        self.early.keys = Some(Box::new(keys));
        self.early.started = true;
        true
    }

    // ---- sending

    /// A 0-RTT packet, if something waits.
    pub(super) fn transmit_zero_rtt(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let waits = self.streams.has_pending() || self.datagrams.has_pending();
        if self.side != Side::Client || self.early.keys.is_none() || !waits || !self.has_window(PathId::ZERO)
        {
            return None;
        }
        let size = self.paths.of_handshake()?.datagram_size();
        let mut builder = self.begin_long(Level::ZeroRtt, size, out)?;
        self.write_streams_and_datagrams(&mut builder, out);
        self.finish_packet(now, builder, PacketPurpose::Data, out)?;
        self.transmit(now, PathId::ZERO, out, None)
    }

    // ---- receiving

    /// A server takes the keys of 0-RTT packets once TLS has accepted them. Packets that overtook
    /// the ClientHello have been dropped.
    pub(super) fn take_zero_rtt_keys(&mut self) {
        if self.side == Side::Server {
            self.early.keys = self.handshake.tls.zero_rtt_keys().map(Box::new);
        }
    }

    pub(super) fn on_zero_rtt_packet(&mut self, now: Instant, arrived: Arrived, packet: Protected<'_>) {
        let Protected { bytes, number_at, .. } = packet;
        if self.side == Side::Client {
            return;
        }
        let Some(keys) = &self.early.keys else { return };
        let here = |p: &&Path| p.network().remote == arrived.network.remote;
        let Some(path) = self.paths.of_handshake().filter(here) else { return };
        let Some(field) = crypto::unprotect(&*keys.header, bytes, number_at) else { return };
        let received = path.received();
        let number =
            expand_packet_number(field.truncated, field.len, received.largest().map_or(0, |n| n + 1));
        if received.classify(number) != Arrival::New {
            return;
        }
        let (header, payload) = bytes.split_at_mut(number_at + field.len);
        let Some(payload) = crypto::open(&*keys.packet, PathId::ZERO, number, header, payload) else {
            self.stats.malformed_packets += 1;
            return;
        };
        if self.state.is_closed() {
            return self.on_packet_while_closing();
        }
        self.on_authenticated(now, PathId::ZERO, arrived, super::migration::Located::Here);
        let context = FrameContext::new(Level::ZeroRtt, PathId::ZERO);
        let result = self.check_reserved_bits(field.reserved_bits_are_zero).and_then(|()| {
            self.observe_received(now, &context, number, payload);
            self.on_payload(now, context, payload)
        });
        match result {
            Ok(Contents { ack_eliciting, .. }) => {
                let path = self.path_zero();
                let delay = path.ack_delay();
                path.received_mut().on_packet(now, number, ack_eliciting, arrived.ecn, delay);
            }
            Err(error) => self.fail(now, error),
        }
    }

    pub(super) fn note_early_stream(&mut self, id: StreamId) {
        let largest = &mut self.early.streams[id.dir() as usize];
        *largest = (*largest).max(Some(id.index()));
    }

    /// A 1-RTT packet was read: no 0-RTT packets follow (RFC 9001 section 4.9.3).
    pub(super) fn on_first_one_rtt(&mut self) {
        self.early.keys = None;
    }

    // ---- the verdict

    /// The handshake is complete, and `peer` is what the server declares now.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if it took early data and went back on what it had promised with the
    /// ticket.
    pub(super) fn settle_early_data(&mut self, peer: &TransportParameters) -> Result<(), TransportError> {
        let Some(remembered) = self.early.remembered.take() else { return Ok(()) };
        self.early.keys = None;
        let accepted = self.handshake.tls.early_data_accepted();
        self.early.accepted = Some(accepted);
        if !accepted {
            self.forget_early_data();
        } else if shrinks(&remembered, peer) {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "0-RTT accepted with smaller limits than remembered",
            ));
        }
        // ACKs of what comes now are the first to show that the server has finished.
        self.path_zero().begin_one_rtt();
        Ok(())
    }

    /// The server took nothing: whatever was built on the old session's assumptions is void (RFC
    /// 9001 section 4.6.2).
    fn forget_early_data(&mut self) {
        self.path_zero().forget_early_data();
        let raised = self.streams.receive_limits();
        self.streams = Streams::new(self.side, &self.config.streams());
        self.streams.raise_limits(&raised);
        self.datagrams =
            Datagrams::new(self.config.datagram_send_buffer, self.config.datagram_receive_buffer);
        self.events.push_back(Event::EarlyDataRejected);
    }
}

/// What may be assumed of a server before it has answered (RFC 9000 section 7.4.1, RFC 9221
/// section 3, draft-ietf-quic-reliable-stream-reset section 3). The rest concerns the old connection
/// alone, or, as multipath and repair, is negotiated anew.
fn remembered(parameters: &TransportParameters) -> TransportParameters {
    TransportParameters {
        initial_max_data: parameters.initial_max_data,
        initial_max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
        initial_max_stream_data_uni: parameters.initial_max_stream_data_uni,
        initial_max_streams_bidi: parameters.initial_max_streams_bidi,
        initial_max_streams_uni: parameters.initial_max_streams_uni,
        active_connection_id_limit: parameters.active_connection_id_limit,
        max_datagram_frame_size: parameters.max_datagram_frame_size,
        reset_stream_at: parameters.reset_stream_at,
        ..TransportParameters::default()
    }
}

/// Whether `new` allows less than `old` of anything that early data may have used.
fn shrinks(old: &TransportParameters, new: &TransportParameters) -> bool {
    let limits = |p: &TransportParameters| {
        [
            p.initial_max_data,
            p.initial_max_stream_data_bidi_local,
            p.initial_max_stream_data_bidi_remote,
            p.initial_max_stream_data_uni,
            p.initial_max_streams_bidi,
            p.initial_max_streams_uni,
            p.active_connection_id_limit,
            p.max_datagram_frame_size,
            u8::from(p.reset_stream_at).into(),
        ]
    };
    limits(old).into_iter().zip(limits(new)).any(|(old, new)| new < old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_are_remembered_and_each_may_only_grow() {
        let old = TransportParameters {
            initial_max_data: 7u8.into(),
            initial_max_streams_uni: 3u8.into(),
            max_datagram_frame_size: 100u8.into(),
            reset_stream_at: true,
            initial_max_path_id: Some(PathId(4)),
            ack_delay_exponent: 9,
            ..TransportParameters::default()
        };
        let kept = remembered(&old);
        assert_eq!((kept.initial_max_data, kept.initial_max_streams_uni), (7u8.into(), 3u8.into()));
        assert_eq!((kept.initial_max_path_id, kept.ack_delay_exponent), (None, 3));
        assert!(!shrinks(&kept, &old));
        assert!(!shrinks(&kept, &TransportParameters { initial_max_data: 8u8.into(), ..old.clone() }));
        assert!(shrinks(&kept, &TransportParameters { initial_max_data: 6u8.into(), ..old.clone() }));
        assert!(shrinks(&kept, &TransportParameters { reset_stream_at: false, ..old.clone() }));
        assert!(shrinks(&kept, &TransportParameters { max_datagram_frame_size: 0u8.into(), ..old }));
    }
}
