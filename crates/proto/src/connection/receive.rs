//! From datagrams to packets: connection ids, protection, addresses.

use units::Instant;

use super::{
    Connection,
    close::State,
    frames::{Contents, FrameContext},
    migration::Located,
    transmit::MIN_INITIAL_SIZE,
};
use crate::{
    ConnectionId, Datagram, Ecn, NetworkPath,
    crypto::{self, Level},
    keys::KeyPhase,
    path::received::Arrival,
    wire::{
        Frame, Frames, HeaderKind, PacketKind, PathId, ProtectedHeader, ResetToken, Side, TransportError,
        TransportErrorCode, expand_packet_number,
    },
};

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

/// A packet with its protection.
pub(super) struct Protected<'a> {
    pub(super) bytes: &'a mut [u8],
    /// Where the packet number begins.
    pub(super) number_at: usize,
    /// What the peer says that its connection id is; empty in short headers, which do not say it.
    scid: ConnectionId,
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
                self.on_packet(now, kind, arrived, Protected { bytes: packet, number_at, scid });
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

    /// Hands a packet to what reads its kind.
    fn on_packet(&mut self, now: Instant, kind: PacketKind, arrived: Arrived, packet: Protected<'_>) {
        match kind {
            PacketKind::Initial => self.on_long_packet(now, Level::Initial, arrived, packet),
            PacketKind::Handshake => self.on_long_packet(now, Level::Handshake, arrived, packet),
            PacketKind::OneRtt => match self.cids.path_of(&arrived.dcid) {
                Some(path) => self.on_short_packet(now, path, arrived, packet),
                None => self.stats.malformed_packets += 1,
            },
            PacketKind::ZeroRtt => self.on_zero_rtt_packet(now, arrived, packet),
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
    fn on_long_packet(&mut self, now: Instant, level: Level, arrived: Arrived, packet: Protected<'_>) {
        let Protected { bytes, number_at, scid } = packet;
        if !self.is_worth_opening(level, &arrived) {
            return;
        }
        let Some(space) = self.handshake.space(level) else { return };
        let Some(field) = crypto::unprotect(&*space.keys.remote.header, bytes, number_at) else { return };
        let expected = space.space.received().largest().map_or(0, |n| n + 1);
        let number = expand_packet_number(field.truncated, field.len, expected);
        if space.space.received().classify(number) == Arrival::Duplicate {
            return;
        }
        let (header, payload) = bytes.split_at_mut(number_at + field.len);
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
    fn on_short_packet(&mut self, now: Instant, id: PathId, arrived: Arrived, packet: Protected<'_>) {
        if !self.handshake.is_complete() {
            return;
        }
        let number_at = packet.number_at;
        let Some(opened) = self.open_short_packet(now, id, packet) else { return };
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
        packet: Protected<'a>,
    ) -> Option<Opened<'a>> {
        let Protected { bytes, number_at, .. } = packet;
        let one_rtt = self.handshake.one_rtt.as_mut()?;
        let field = crypto::unprotect(one_rtt.remote_header(), bytes, number_at)?;
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
        let (header, payload) = bytes.split_at_mut(number_at + field.len);
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
}
