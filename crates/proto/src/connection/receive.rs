//! From datagrams to packets to frames to the subsystems.

use units::Instant;

use super::{
    ACK_DELAY_EXPONENT, Connection, close::State, handshake::max_datagram_frame_size, migration::Located,
    transmit::MIN_INITIAL_SIZE,
};
use crate::{
    ConnectionId, Datagram, Ecn, Event, NetworkPath,
    crypto::{self, Level},
    keys::KeyPhase,
    path::{received::Arrival, sent::ControlFrame},
    wire::{
        DatagramHeader, Frame, Frames, HeaderKind, NewConnectionId, PacketKind, PathId, ProtectedHeader,
        RangeLimits, ResetToken, RetireConnectionId, Side, TransportError, TransportErrorCode,
        expand_packet_number,
    },
};

/// RETIRE_CONNECTION_ID frames on their way at once, per path that may be open: twice our
/// active_connection_id_limit (RFC 9000 section 5.1.2).
const MAX_RETIRING: usize = 8;

/// What is known about a packet before its frames are read.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) network: NetworkPath,
    /// Our connection id that it was sent to.
    pub(super) dcid: ConnectionId,
    pub(super) ecn: Option<Ecn>,
    /// Bytes of the datagram, counted once per datagram.
    pub(super) size: u64,
    /// Bytes of the datagram.
    pub(super) datagram: u64,
}

/// Where a frame came from.
#[derive(Clone, Copy)]
pub(super) struct FrameContext {
    pub(super) level: Level,
    pub(super) path: PathId,
    /// The keys of its packet, at the 1-RTT level.
    pub(super) phase: KeyPhase,
    /// Its packet did not arrive but was rebuilt from repair symbols.
    pub(super) rebuilt: bool,
    /// Where it came from, if not from where its path runs.
    pub(super) elsewhere: Option<NetworkPath>,
}

impl FrameContext {
    /// Of a packet that came from where its path runs, with the present keys.
    pub(super) fn new(level: Level, path: PathId) -> Self {
        Self { level, path, phase: KeyPhase::Current, rebuilt: false, elsewhere: None }
    }
}

/// A 1-RTT packet without its protection.
struct Opened<'a> {
    number: u64,
    /// One more than the largest number that had come.
    expected: u64,
    arrival: Arrival,
    phase: KeyPhase,
    reserved_bits_are_zero: bool,
    payload: &'a [u8],
}

/// What a packet turned out to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    pub(super) ack_eliciting: bool,
    /// It may be a source symbol of the peer's.
    pub(super) worth_rebuilding: bool,
    /// It has stream data.
    pub(super) stream_data: bool,
}

impl Connection {
    /// Takes a datagram that the endpoint found to be for this connection.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        match self.state {
            State::Draining { .. } | State::Drained => return,
            State::Open | State::Closing(_) => {}
        }
        self.tell_streams(now);
        let Datagram { path: network, ecn, data } = datagram;
        let size = data.len() as u64;
        let mut arrived = Arrived { network, dcid: ConnectionId::EMPTY, ecn, size, datagram: size };
        // Packets are decrypted in place: what the datagram ends with must be seen before (RFC 9000
        // section 10.3.1).
        let end = data.last_chunk().copied();
        let read_before = self.stats.packets_received;
        let (mut rest, mut first) = (data, None);
        while !rest.is_empty() {
            let Ok(header) = ProtectedHeader::decode(rest, self.cids.local_len()) else {
                self.stats.malformed_packets += 1;
                break;
            };
            let (number_at, len) = (header.pn_offset, header.len);
            let (dcid, scid) = (header.dcid, header.scid);
            arrived.dcid = dcid;
            // Packets that come together are for one connection id (RFC 9000 section 12.2).
            let is_stray = *first.get_or_insert(dcid) != dcid;
            let kind = match header.kind {
                _ if is_stray => None,
                // Only clients show one (RFC 9000 section 17.2.2).
                HeaderKind::Initial { token } if self.side == Side::Client && !token.is_empty() => None,
                HeaderKind::VersionNegotiation { versions } => {
                    self.on_version_negotiation(scid, versions);
                    break;
                }
                HeaderKind::Retry { token, .. } => {
                    self.on_retry(now, scid, token, rest);
                    break;
                }
                kind => kind.packet_kind(),
            };
            let (packet, tail) = rest.split_at_mut(len);
            if let Some(kind) = kind {
                self.on_packet(now, kind, arrived, packet, number_at, scid);
            }
            if self.stats.packets_received != read_before {
                arrived.size = 0;
            }
            rest = tail;
        }
        if self.stats.packets_received == read_before {
            self.on_unreadable_datagram(now, arrived, end);
        }
    }

    /// Hands a packet to what reads its kind; only long headers say `scid`.
    fn on_packet(
        &mut self,
        now: Instant,
        kind: PacketKind,
        arrived: Arrived,
        packet: &mut [u8],
        number_at: usize,
        scid: ConnectionId,
    ) {
        match kind {
            PacketKind::Initial => {
                self.on_long_packet(now, Level::Initial, arrived, packet, number_at, scid);
            }
            PacketKind::Handshake => {
                self.on_long_packet(now, Level::Handshake, arrived, packet, number_at, scid);
            }
            PacketKind::OneRtt => match self.cids.path_of(&arrived.dcid) {
                Some(path) => self.on_short_packet(now, path, arrived, packet, number_at),
                None => self.stats.malformed_packets += 1,
            },
            PacketKind::ZeroRtt => self.on_zero_rtt_packet(now, arrived, packet, number_at),
        }
    }

    /// Nothing in a datagram could be read, or was to be, since the connection is closing: it may be a
    /// stateless reset. If not, it still counts for the amplification limit (RFC 9000 section 8.1).
    fn on_unreadable_datagram(&mut self, now: Instant, arrived: Arrived, end: Option<[u8; ResetToken::LEN]>) {
        if end.is_some_and(|end| self.cids.is_reset(&end)) {
            return self.on_stateless_reset(now);
        }
        let closing = if self.state.is_closed() { self.cids.path_of(&arrived.dcid) } else { None };
        if let Some(path) = self.paths.get_mut(&closing.unwrap_or(PathId::ZERO))
            && !path.is_address_validated()
            && path.network() == arrived.network
        {
            path.earn_budget(arrived.size);
        }
    }

    /// An Initial or Handshake packet.
    fn on_long_packet(
        &mut self,
        now: Instant,
        level: Level,
        arrived: Arrived,
        packet: &mut [u8],
        number_at: usize,
        scid: ConnectionId,
    ) {
        if !self.is_worth_opening(level, &arrived) {
            return;
        }
        let Some(space) = self.handshake.space(level) else { return };
        let Some(field) = crypto::unprotect(&*space.keys.remote.header, packet, number_at) else { return };
        let expected = space.space.received().largest().map_or(0, |n| n + 1);
        let number = expand_packet_number(field.truncated, field.len, expected);
        if space.space.received().classify(number) == Arrival::Duplicate {
            return;
        }
        let (header, payload) = packet.split_at_mut(number_at + field.len);
        let opened = crypto::open(&*space.keys.remote.packet, PathId::ZERO, number, header, payload);
        let Some(payload) = opened else {
            self.stats.malformed_packets += 1;
            return;
        };
        if self.state.is_closed() {
            return self.on_packet_while_closing();
        }
        if self.handshake.is_other_peer_cid(scid) {
            return;
        }
        if self.handshake.set_peer_cid(scid) && self.side == Side::Client {
            self.cids.set_initial_remote(scid);
        }
        self.on_authenticated(now, PathId::ZERO, arrived, Located::Here);
        if level == Level::Handshake && self.side == Side::Server {
            self.path_zero().trust_address();
            self.discard_space(Level::Initial);
        }
        let result = self.check_reserved_bits(field.reserved_bits_are_zero).and_then(|()| {
            let context = FrameContext::new(level, PathId::ZERO);
            self.observe_received(now, &context, number, payload);
            self.on_payload(now, context, payload)
        });
        match result {
            Ok(Contents { ack_eliciting, .. }) => {
                if let Some(space) = self.handshake.space_mut(level) {
                    let received = space.space.received_mut();
                    // Handshake ACKs never wait (RFC 9000 section 13.2.1).
                    received.on_packet(now, number, ack_eliciting, arrived.ecn, units::Duration::ZERO);
                }
            }
            Err(error) => self.fail(now, error),
        }
    }

    /// Whether an Initial or Handshake packet comes from where it may, in a datagram of the size that
    /// it must have.
    fn is_worth_opening(&self, level: Level, arrived: &Arrived) -> bool {
        // Addresses do not change before the handshake is confirmed (RFC 9000 section 9).
        if self.paths.of_handshake().is_none_or(|p| p.network().remote != arrived.network.remote) {
            return false;
        }
        // Clients fill the datagrams of their Initials (RFC 9000 section 14.1).
        let must_be_full = level == Level::Initial && self.side == Side::Server;
        !must_be_full || arrived.datagram >= MIN_INITIAL_SIZE as u64
    }

    /// A 1-RTT packet for `path`.
    fn on_short_packet(
        &mut self,
        now: Instant,
        id: PathId,
        arrived: Arrived,
        packet: &mut [u8],
        number_at: usize,
    ) {
        if !self.handshake.is_complete() {
            return;
        }
        let Some(opened) = self.open_short_packet(now, id, packet, number_at) else { return };
        let Opened { number, expected, payload, .. } = opened;
        if self.state.is_closed() {
            if Frames::new(payload).any(|f| matches!(f, Ok(Frame::ConnectionClose(_)))) {
                self.state = State::Draining { until: now };
            }
            return self.on_packet_while_closing();
        }
        if !self.paths.contains_key(&id) && !self.accept_path(now, id, arrived.network) {
            return;
        }
        let newest = number >= expected;
        let located = self.locate(now, id, &arrived, newest, payload);
        if located == Located::Refused {
            return;
        }
        self.on_authenticated(now, id, arrived, located);
        self.on_first_one_rtt();
        self.repair.decoder.on_bytes((number_at + payload.len()) as u64);
        let elsewhere = (located == Located::Elsewhere).then_some(arrived.network);
        match self.on_opened(now, id, &opened, elsewhere) {
            Ok(Contents { ack_eliciting, stream_data, .. }) => {
                self.note_arrival(now, number, expected, arrived.size, stream_data);
                if let Some(path) = self.paths.get_mut(&id) {
                    let delay = path.ack_delay();
                    path.received_mut().on_packet(now, number, ack_eliciting, arrived.ecn, delay);
                }
            }
            Err(error) => self.fail(now, error),
        }
    }

    /// Removes the protection of a 1-RTT packet; `None` if that fails, or the packet came before.
    fn open_short_packet<'a>(
        &mut self,
        now: Instant,
        id: PathId,
        packet: &'a mut [u8],
        number_at: usize,
    ) -> Option<Opened<'a>> {
        let one_rtt = self.handshake.one_rtt.as_mut()?;
        let field = crypto::unprotect(one_rtt.remote_header(), packet, number_at)?;
        let path = self.paths.get(&id);
        let received = path.map(|p| p.received());
        let expected = received.and_then(|r| r.largest()).map_or(0, |n| n + 1);
        let number = expand_packet_number(field.truncated, field.len, expected);
        let arrival = received.map_or(Arrival::New, |r| r.classify(number));
        if arrival == Arrival::Duplicate {
            return None;
        }
        let bounds = path.map(|p| *p.phase()).unwrap_or_default();
        let phase = one_rtt.phase_of(field.key_phase, number, &bounds);
        let (header, payload) = packet.split_at_mut(number_at + field.len);
        let Some(payload) = crypto::open(one_rtt.remote(phase), id, number, header, payload) else {
            self.on_failed_decryption(now);
            return None;
        };
        let reserved_bits_are_zero = field.reserved_bits_are_zero;
        Some(Opened { number, expected, arrival, phase, reserved_bits_are_zero, payload })
    }

    /// Deals with what a 1-RTT packet holds, which came from `elsewhere` or from where its path runs.
    fn on_opened(
        &mut self,
        now: Instant,
        id: PathId,
        opened: &Opened<'_>,
        elsewhere: Option<NetworkPath>,
    ) -> Result<Contents, TransportError> {
        let &Opened { number, arrival, phase, payload, .. } = opened;
        self.check_reserved_bits(opened.reserved_bits_are_zero)?;
        self.on_key_phase(now, id, number, phase)?;
        // A rebuilt packet has been dealt with; its number alone is news.
        if arrival == Arrival::AlreadyRebuilt {
            return Ok(Contents { ack_eliciting: true, ..Contents::default() });
        }
        let context = FrameContext { phase, elsewhere, ..FrameContext::new(Level::OneRtt, id) };
        self.observe_received(now, &context, number, payload);
        let contents = self.on_payload(now, context, payload)?;
        if contents.worth_rebuilding {
            self.on_source_packet(now, id, number, payload)?;
        }
        Ok(contents)
    }

    /// Counts a packet that has been authenticated.
    pub(super) fn on_authenticated(&mut self, now: Instant, id: PathId, arrived: Arrived, located: Located) {
        self.restart_idle_timer(now);
        self.idle.sent_since_heard = false;
        self.stats.packets_received += 1;
        self.stats.bytes_received += arrived.size;
        if let Some(path) = self.paths.get_mut(&id) {
            path.on_packet_received(now, arrived.size);
            if located == Located::Here {
                path.earn_budget(arrived.size);
            }
        }
    }

    pub(super) fn check_reserved_bits(&self, zero: bool) -> Result<(), TransportError> {
        if zero {
            return Ok(());
        }
        Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "reserved header bits are not zero"))
    }

    /// Deals with the frames of a packet.
    pub(super) fn on_payload(
        &mut self,
        now: Instant,
        context: FrameContext,
        payload: &[u8],
    ) -> Result<Contents, TransportError> {
        let kind = context.level.kind();
        let mut contents = Contents::default();
        let (mut active, mut symbols) = (false, 0);
        for frame in Frames::with_limits(payload, RangeLimits { packets: 256, ranges: 256 }) {
            let frame = frame?;
            if !frame.is_allowed_in(kind) {
                return Err(TransportError::new(
                    TransportErrorCode::PROTOCOL_VIOLATION,
                    "frame not allowed in this packet",
                )
                .in_frame(frame.frame_type()));
            }
            symbols +=
                u32::from(matches!(frame, Frame::Repair(_) | Frame::Combination(_)) && !context.rebuilt);
            if symbols > 1 {
                let reason = "more than one repair symbol in a packet";
                return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason)
                    .in_frame(frame.frame_type()));
            }
            contents.ack_eliciting |= frame.is_ack_eliciting();
            contents.worth_rebuilding |= frame.is_worth_rebuilding();
            contents.stream_data |= matches!(frame, Frame::Stream(_));
            active |= frame.is_ack_eliciting() && !is_probe(&frame);
            self.on_frame(now, context, frame)?;
            if self.state.is_closed() {
                break;
            }
        }
        if active && let Some(path) = self.paths.get_mut(&context.path) {
            path.on_activity(now);
        }
        Ok(contents)
    }

    fn on_frame(
        &mut self,
        now: Instant,
        context: FrameContext,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        self.check_negotiated(&frame)?;
        match frame {
            Frame::Padding { .. } | Frame::Ping => Ok(()),
            Frame::NewToken(f) => self.on_new_token(f.token),
            // ACKs and challenges of a rebuilt packet are old news about a path it did not travel.
            // Repair symbols are never source symbols, so one inside a rebuilt packet is an attempt
            // to make us recurse.
            Frame::Ack(_)
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::Repair(_)
            | Frame::Combination(_)
                if context.rebuilt =>
            {
                Ok(())
            }
            Frame::Ack(ack) => {
                let delay = ack.delay.saturating_mul(1_000 << self.peer.ack_delay_exponent.min(20));
                self.on_ack(now, context, &ack, units::Duration::from_nanos(delay))
            }
            Frame::Crypto(crypto) => self.on_crypto(now, context.level, crypto.offset, crypto.data),
            Frame::Stream(s) => {
                if context.level == Level::ZeroRtt {
                    self.note_early_stream(s.id);
                }
                self.streams.on_stream(s.id, s.offset, s.data, s.fin)?;
                self.check_gaps_of_stranger()
            }
            Frame::ResetStream(f) => self.streams.on_reset_stream(f.id, f.error_code, f.final_size),
            Frame::ResetStreamAt(f) => {
                self.streams.on_reset_stream_at(f.id, f.error_code, f.final_size, f.reliable_size)
            }
            Frame::StopSending(f) => self.streams.on_stop_sending(f.id, f.error_code),
            Frame::MaxData(f) => {
                self.streams.on_max_data(f.maximum);
                Ok(())
            }
            Frame::MaxStreamData(f) => self.streams.on_max_stream_data(f.id, f.maximum),
            Frame::MaxStreams(f) => self.streams.on_max_streams(f.dir, f.maximum),
            Frame::DataBlocked(f) => {
                self.streams.on_data_blocked(f.limit);
                Ok(())
            }
            Frame::StreamDataBlocked(f) => self.streams.on_stream_data_blocked(f.id, f.limit),
            Frame::StreamsBlocked(f) => self.streams.on_streams_blocked(f.dir, f.limit),
            Frame::Datagram(d) => self.on_datagram(context.path, d.data),
            Frame::ConnectionClose(close) => {
                self.on_connection_close(now, &close);
                Ok(())
            }
            Frame::HandshakeDone => self.on_handshake_done(),
            Frame::NewConnectionId(f) => self.on_new_connection_id(&f),
            Frame::RetireConnectionId(f) => self.on_retire_connection_id(&f),
            Frame::PathChallenge(f) => self.on_path_challenge(context, f.0),
            Frame::PathResponse(f) => self.on_path_response(now, f.0),
            Frame::PathAbandon(f) => self.on_path_abandon(now, f.path, f.error_code),
            Frame::PathStatus(f) => self.on_path_status(f.path, f.backup, f.sequence),
            Frame::MaxPathId(f) => self.on_max_path_id(f.maximum),
            Frame::PathsBlocked(f) => self.on_paths_blocked(f.maximum),
            Frame::PathCidsBlocked(f) => self.on_path_cids_blocked(f.path, f.next_sequence),
            Frame::Repair(repair) => self.on_repair(now, &repair),
            Frame::Recovered(recovered) => self.on_recovered(now, &recovered),
            Frame::Combination(combination) => self.on_combination(now, &combination),
        }
    }

    /// A frame of an extension that was not negotiated is an unknown frame.
    fn check_negotiated(&self, frame: &Frame<'_>) -> Result<(), TransportError> {
        use crate::wire::Extension;
        let negotiated = match frame.extension() {
            // Of datagrams it is a matter of their length.
            None | Some(Extension::Datagram) => true,
            Some(Extension::Multipath) => return self.check_path_id(frame),
            Some(Extension::Repair) => self.config.repair.accept && self.peer.repair,
            Some(Extension::ResetStreamAt) => self.config.reset_stream_at,
        };
        if negotiated {
            return Ok(());
        }
        let reason = "frame of an extension that was not negotiated";
        Err(TransportError::new(TransportErrorCode::FRAME_ENCODING_ERROR, reason)
            .in_frame(frame.frame_type()))
    }

    /// Multipath frames are refused unless both sides offered the extension, and for path ids that
    /// we do not allow (draft-ietf-quic-multipath-21 section 4).
    fn check_path_id(&self, frame: &Frame<'_>) -> Result<(), TransportError> {
        let violation = |code, reason| Err(TransportError::new(code, reason).in_frame(frame.frame_type()));
        let Some(max) = self.path_ids.limits else {
            let reason = "multipath frame without multipath";
            return violation(TransportErrorCode::FRAME_ENCODING_ERROR, reason);
        };
        match frame.path_id() {
            Some(id) if id > max.local => {
                let reason = "path id above the maximum that we allow";
                violation(TransportErrorCode::PROTOCOL_VIOLATION, reason)
            }
            _ => Ok(()),
        }
    }

    /// A datagram of the application. A client notes that more may follow: should its address change,
    /// it is the one that has to speak up.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the frame, which may have come without a length, is longer than what we have
    /// declared, or we take none (RFC 9221 section 3).
    fn on_datagram(&mut self, id: PathId, data: &[u8]) -> Result<(), TransportError> {
        let longest = usize::from(max_datagram_frame_size(&self.config));
        if DatagramHeader::len(data.len(), false) + data.len() > longest {
            let reason = "DATAGRAM longer than max_datagram_frame_size";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        self.end_bulk_run();
        if self.side == Side::Client
            && let Some(path) = self.paths.get_mut(&id)
        {
            path.on_datagram();
        }
        // However many there are, it is one piece of news: thousands of empty ones fit into a packet.
        if self.datagrams.on_received(data)
            && !self.events.iter().any(|event| matches!(event, Event::DatagramReceived))
        {
            self.events.push_back(Event::DatagramReceived);
        }
        Ok(())
    }

    fn on_handshake_done(&mut self) -> Result<(), TransportError> {
        if self.side == Side::Server {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "HANDSHAKE_DONE from a client",
            ));
        }
        if !self.handshake.is_confirmed() {
            self.confirm_handshake();
        }
        Ok(())
    }

    fn on_new_connection_id(&mut self, frame: &NewConnectionId) -> Result<(), TransportError> {
        let path = frame.path.unwrap_or(PathId::ZERO);
        if self.path_ids.limits.map_or(path != PathId::ZERO, |max| path > max.local) {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "connection id for a path id that is not allowed",
            ));
        }
        if self.path_is_gone(path) {
            return Ok(());
        }
        let retired =
            self.cids.on_new(path, frame.sequence, frame.retire_prior_to, frame.id, frame.reset_token)?;
        for sequence in retired {
            self.owe_retirement(path, sequence)?;
        }
        Ok(())
    }

    /// A connection id of the peer's is not used any more, and the peer must hear of it.
    pub(super) fn owe_retirement(&mut self, path: PathId, sequence: u64) -> Result<(), TransportError> {
        let frame = ControlFrame::RetireConnectionId { path, sequence };
        if self.control.contains(&frame) {
            return Ok(());
        }
        self.cids.on_retiring(MAX_RETIRING * self.config.max_paths.clamp(1, 64) as usize)?;
        self.queue_control(frame)
    }

    fn on_retire_connection_id(&mut self, frame: &RetireConnectionId) -> Result<(), TransportError> {
        let (path, sequence) = (frame.path.unwrap_or(PathId::ZERO), frame.sequence);
        // What has not left yet nobody can know (RFC 9000 section 19.16). Hundreds of such frames fit a
        // packet, each of which would have another one made.
        if self.control.contains(&ControlFrame::NewConnectionId { path, sequence, again: false }) {
            let reason = "a connection id was retired that was never sent";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        if let Some(cid) = self.cids.on_retire(path, sequence)? {
            self.retire_cid(cid);
            self.issue_cids()?;
        }
        Ok(())
    }

    /// The ack_delay field of our ACKs.
    pub(super) fn encode_ack_delay(delay: units::Duration) -> u64 {
        delay.as_micros() >> ACK_DELAY_EXPONENT
    }
}

/// Whether a frame only asks whether somebody is there, or answers that.
fn is_probe(frame: &Frame<'_>) -> bool {
    matches!(frame, Frame::Ping | Frame::PathChallenge(_) | Frame::PathResponse(_))
}
