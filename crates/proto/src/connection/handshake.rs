//! The handshake: TLS, the two packet number spaces it runs in, and what follows from the transport
//! parameters.

use std::sync::Arc;

use rand_chacha::rand_core::RngCore;
use rustls::quic::Keys;
use units::{Duration, Instant};

use super::{
    ACK_DELAY_EXPONENT, Connection, EndpointEvent, EndpointEventKind, Event, declared::Declared,
    multipath::MaxPathIds,
};
use crate::{
    cids::ACTIVE_CID_LIMIT,
    config::TransportConfig,
    crypto::{CRYPTO_WINDOW, CryptoStream, Level, NewKeys, TlsSession, initial_keys},
    datagrams::Datagrams,
    keys::OneRttKeys,
    path::{MAX_ACK_DELAY, sent::ControlFrame, space::PacketSpace},
    wire::{
        CodeSchemes, ConnectionId, DatagramHeader, PathId, RepairParameters, Side, TransportError,
        TransportErrorCode, TransportParameters, VarInt,
    },
};

/// Longest time between probes of the handshake: doubling without a bound would give a lossy
/// network a handful of attempts.
const MAX_HANDSHAKE_PROBE_INTERVAL: Duration = Duration::from_secs(4);

/// CRYPTO bytes after the handshake that are read, in all: a few tickets are all that has to come.
const MAX_POST_HANDSHAKE: u64 = 64 << 10;

/// Both for a client that is not let in.
const STRANGERS_CRYPTO: u64 = 16 << 10;

/// Initial or Handshake: its keys, its packet numbers and its CRYPTO stream.
pub(super) struct CryptoSpace {
    pub(super) keys: Keys,
    pub(super) space: PacketSpace,
    /// A probe must leave, if only to ask for an ACK.
    pub(super) probe_due: bool,
}

/// TLS and everything that is gone once the handshake is confirmed.
pub(super) struct Handshake {
    pub(super) tls: TlsSession,
    // In boxes: most of a connection's life there are none.
    initial: Option<Box<CryptoSpace>>,
    handshake: Option<Box<CryptoSpace>>,
    /// Datagrams that may leave regardless of the window, to probe.
    pub(super) probes: u8,
    pub(super) one_rtt: Option<Box<OneRttKeys>>,
    /// `None` before there is anything in it, and once its keys are gone.
    crypto: [Option<Box<CryptoStream>>; 3],
    /// Level at which TLS writes now.
    write_level: Level,
    complete: bool,
    confirmed: bool,
    /// The peer's transport parameters are in force.
    parameters_taken: bool,
    /// `None` once the connection is past all that, and at rest.
    pub(super) first: Option<Box<FirstPackets>>,
}

/// What the first packets said.
pub(super) struct FirstPackets {
    /// Destination of the client's first packet, which the server's parameters must repeat (RFC
    /// 9000 section 7.3).
    pub(super) original_cid: ConnectionId,
    /// Source of the server's Retry, which its parameters must repeat as well.
    pub(super) retry_cid: Option<ConnectionId>,
    /// What a client's Initial packets carry to show that it receives at its address.
    pub(super) token: Vec<u8>,
    /// Source of the peer's first packet, which its parameters must repeat.
    peer_cid: Option<ConnectionId>,
}

impl Handshake {
    pub(super) fn new(tls: TlsSession, side: Side, original_cid: ConnectionId, token: Vec<u8>) -> Self {
        let initial = CryptoSpace {
            keys: initial_keys(&original_cid, side),
            space: PacketSpace::default(),
            probe_due: false,
        };
        Self {
            tls,
            initial: Some(Box::new(initial)),
            handshake: None,
            probes: 0,
            one_rtt: None,
            crypto: Default::default(),
            write_level: Level::Initial,
            complete: false,
            confirmed: false,
            parameters_taken: false,
            first: Some(Box::new(FirstPackets { original_cid, retry_cid: None, token, peer_cid: None })),
        }
    }

    /// Nothing has happened for long.
    pub(super) fn rest(&mut self) {
        self.first = None;
        self.one_rtt.iter_mut().for_each(|keys| keys.rest());
        self.tls.rest();
        for level in [Level::Initial, Level::Handshake] {
            if self.space(level).is_none() {
                self.crypto[crypto_index(level)] = None;
            }
        }
    }

    /// TLS has finished (RFC 9001 section 4.1.1): application data may flow.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The peer is known to have finished too (RFC 9001 section 4.1.2).
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(super) fn space(&self, level: Level) -> Option<&CryptoSpace> {
        match level {
            Level::Initial => self.initial.as_deref(),
            Level::Handshake => self.handshake.as_deref(),
            Level::OneRtt | Level::ZeroRtt => None,
        }
    }

    pub(super) fn space_mut(&mut self, level: Level) -> Option<&mut CryptoSpace> {
        match level {
            Level::Initial => self.initial.as_deref_mut(),
            Level::Handshake => self.handshake.as_deref_mut(),
            Level::OneRtt | Level::ZeroRtt => None,
        }
    }

    /// The spaces that still exist, Initial first.
    pub(super) fn spaces(&self) -> impl Iterator<Item = &CryptoSpace> {
        self.initial.iter().chain(&self.handshake).map(|space| &**space)
    }

    pub(super) fn crypto(&self, level: Level) -> &CryptoStream {
        static EMPTY: CryptoStream = CryptoStream::EMPTY;
        self.crypto[crypto_index(level)].as_deref().unwrap_or(&EMPTY)
    }

    pub(super) fn crypto_mut(&mut self, level: Level) -> &mut CryptoStream {
        self.crypto[crypto_index(level)].get_or_insert_default()
    }

    /// The level at which TLS reads now.
    fn reads_at(&self) -> Level {
        if self.complete { Level::OneRtt } else { self.write_level.min(Level::Handshake) }
    }

    /// TLS is done with the Initial level.
    #[cfg(test)]
    pub(super) fn move_on_for_test(&mut self) {
        self.write_level = Level::Handshake;
    }

    #[cfg(test)]
    pub(super) fn complete_for_test(&mut self) {
        (self.complete, self.initial) = (true, None);
    }

    #[cfg(test)]
    pub(super) fn confirm_for_test(&mut self) {
        self.confirmed = true;
    }

    /// Whether a packet is not from whom the first one was: it is discarded (RFC 9000 section 7.2).
    pub(super) fn is_other_peer_cid(&self, cid: ConnectionId) -> bool {
        let known = self.first.as_ref().and_then(|first| first.peer_cid);
        known.is_some_and(|known| known != cid)
    }

    pub(super) fn set_peer_cid(&mut self, cid: ConnectionId) -> bool {
        let Some(first) = &mut self.first else { return false };
        let is_news = first.peer_cid.is_none();
        first.peer_cid.get_or_insert(cid);
        is_news
    }
}

/// Where a level's CRYPTO stream stands; 0-RTT packets, which have none, count as 1-RTT.
fn crypto_index(level: Level) -> usize {
    match level {
        Level::Initial => 0,
        Level::Handshake => 1,
        Level::OneRtt | Level::ZeroRtt => 2,
    }
}

/// The idle timeout as the peer is told, in whole milliseconds: a shorter one is no reason to say
/// that there is none, which zero does.
pub(super) fn told_idle_timeout(config: &TransportConfig) -> Duration {
    let timeout = Duration::from(config.max_idle_timeout);
    if timeout.is_zero() { timeout } else { timeout.max(Duration::from_millis(1)) }
}

/// The transport parameters that we send, but for what only a server sends.
pub(super) fn local_parameters(config: &TransportConfig, local_cid: ConnectionId) -> TransportParameters {
    let mut parameters = TransportParameters {
        max_idle_timeout: told_idle_timeout(config),
        ack_delay_exponent: ACK_DELAY_EXPONENT,
        max_ack_delay: MAX_ACK_DELAY,
        active_connection_id_limit: VarInt::saturating(ACTIVE_CID_LIMIT),
        initial_source_connection_id: Some(local_cid),
        max_datagram_frame_size: VarInt::from_u32(max_datagram_frame_size(config).into()),
        reset_stream_at: config.reset_stream_at,
        initial_max_path_id: (config.max_paths > 1).then(|| initial_max_path_id(config)),
        repair: config.repair.accept.then_some(RepairParameters {
            schemes: CodeSchemes::ALL,
            max_block: VarInt::from(config.repair.k_max.max(1)),
            decoder_memory: VarInt::saturating(config.repair.decoder_memory),
        }),
        ..TransportParameters::default()
    };
    config.streams().apply(&mut parameters);
    parameters
}

/// Of the longest datagram that is kept, if there is one (RFC 9221 section 3).
pub(super) fn max_datagram_frame_size(config: &TransportConfig) -> u16 {
    match Datagrams::longest_kept(config.datagram_receive_buffer) {
        0 => 0,
        longest => {
            u16::try_from(DatagramHeader::len(longest, true).saturating_add(longest)).unwrap_or(u16::MAX)
        }
    }
}

pub(super) fn initial_max_path_id(config: &TransportConfig) -> PathId {
    PathId(config.max_paths.clamp(1, 64) - 1)
}

impl Connection {
    /// Lets TLS read and write until nothing moves any more.
    pub(super) fn drive_tls(&mut self, now: Instant) {
        let mut out = Vec::new();
        loop {
            out.clear();
            let new_keys = self.handshake.tls.write(&mut out);
            let level = self.handshake.write_level;
            self.handshake.crypto_mut(level).write(&out);
            match new_keys {
                Some(NewKeys::Handshake(keys)) => {
                    let space = CryptoSpace { keys, space: PacketSpace::default(), probe_due: false };
                    self.handshake.handshake = Some(Box::new(space));
                    self.handshake.write_level = Level::Handshake;
                    self.take_zero_rtt_keys();
                }
                Some(NewKeys::OneRtt(keys)) => {
                    self.handshake.one_rtt = Some(keys);
                    self.handshake.write_level = Level::OneRtt;
                }
                None if out.is_empty() => break,
                None => {}
            }
        }
        let complete = !self.handshake.complete
            && !self.handshake.tls.is_handshaking()
            && self.handshake.one_rtt.is_some();
        if complete && let Err(error) = self.on_handshake_complete(now) {
            self.fail(now, error);
        }
    }

    /// CRYPTO bytes arrived.
    pub(super) fn on_crypto(
        &mut self,
        now: Instant,
        level: Level,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let end = offset + data.len() as u64;
        if level < self.handshake.reads_at() {
            return self.check_nothing_new(level, end);
        }
        let (window, after) = self.crypto_limits();
        if level == Level::OneRtt && end > after {
            // RFC 9000 section 7.5 lets us ignore what a server adds to its tickets without end.
            return Ok(());
        }
        self.handshake.crypto_mut(level).on_frame(offset, data, window)?;
        while let Some(bytes) = self.handshake.crypto_mut(level).read() {
            self.handshake.tls.read(level, &bytes)?;
            self.drive_tls(now);
        }
        if level < self.handshake.reads_at() { self.check_nothing_new(level, 0) } else { Ok(()) }
    }

    /// Of a level that TLS is done with, what has been read may come again, and nothing else; nor may
    /// anything be left of it behind a hole (RFC 9001 section 4.1.3). Keys that went with a frame before
    /// this one have taken along how much that was.
    fn check_nothing_new(&self, level: Level, end: u64) -> Result<(), TransportError> {
        let crypto = self.handshake.crypto(level);
        if self.handshake.space(level).is_none() || crypto.has_read(end) && crypto.buffered() == 0 {
            return Ok(());
        }
        let reason = "CRYPTO data of a level that TLS is done with";
        Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason))
    }

    /// How far CRYPTO data may be ahead of TLS, and how much of it is read after the handshake.
    fn crypto_limits(&self) -> (u64, u64) {
        if self.is_admitted() {
            (CRYPTO_WINDOW, MAX_POST_HANDSHAKE)
        } else {
            (STRANGERS_CRYPTO, STRANGERS_CRYPTO)
        }
    }

    fn on_handshake_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        self.take_peer_parameters()?;
        self.handshake.complete = true;
        self.events.push_back(Event::Connected);
        if self.side == Side::Server {
            self.handshake.tls.end();
            self.handshake_deadline = None;
            self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::HandshakeComplete));
            if self.awaiting.is_none() {
                self.endpoint_events.push_back(EndpointEvent(EndpointEventKind::Admitted));
            }
            self.issue_token(now)?;
            self.queue_control(ControlFrame::HandshakeDone)?;
            self.confirm_handshake();
        }
        self.negotiate_multipath()
    }

    /// Puts the peer's transport parameters into force, once.
    pub(super) fn take_peer_parameters(&mut self) -> Result<(), TransportError> {
        if core::mem::replace(&mut self.handshake.parameters_taken, true) {
            return Ok(());
        }
        let encoded = self.handshake.tls.peer_parameters().ok_or_else(|| {
            TransportError::new(TransportErrorCode::crypto(109), "the peer sent no transport parameters")
        })?;
        let peer = TransportParameters::decode(encoded, self.side.peer())?;
        self.authenticate_cids(&peer)?;
        self.check_multipath(&peer)?;
        self.settle_early_data(&peer)?;
        self.streams.set_peer_limits(&peer);
        self.idle.timeout = [self.config.max_idle_timeout.into(), peer.max_idle_timeout]
            .into_iter()
            .filter(|d| !d.is_zero())
            .min();
        self.clamp_mtu(peer.max_udp_payload_size.into_inner());
        self.negotiate_repair(&peer);
        self.adopt_server_cids(&peer)?;
        self.peer = Declared::from(&peer);
        Ok(())
    }

    /// The connection ids in the parameters must be those on the wire (RFC 9000 section 7.3).
    fn authenticate_cids(&self, peer: &TransportParameters) -> Result<(), TransportError> {
        let of_packets = |first: &FirstPackets| {
            let original_is_right = self.side == Side::Server
                || (peer.original_destination_connection_id == Some(first.original_cid)
                    && peer.retry_source_connection_id == first.retry_cid);
            original_is_right && peer.initial_source_connection_id == first.peer_cid
        };
        if !self.handshake.first.as_deref().is_some_and(of_packets) {
            return Err(TransportError::new(
                TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
                "connection ids in the transport parameters differ from those of the packets",
            ));
        }
        Ok(())
    }

    /// Paths are told apart by connection ids: who offers several has one to begin with
    /// (draft-ietf-quic-multipath-21 section 2.1).
    pub(super) fn check_multipath(&self, peer: &TransportParameters) -> Result<(), TransportError> {
        let offered = self.config.max_paths > 1 && peer.initial_max_path_id.is_some();
        if offered && peer.initial_source_connection_id.is_some_and(|cid| cid.is_empty()) {
            let reason = "several paths and an empty connection id";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        Ok(())
    }

    /// What a server says about its first connection ids. Its preferred address is not used, but
    /// has the id with sequence number 1 (RFC 9000 section 5.1.1).
    pub(super) fn adopt_server_cids(&mut self, peer: &TransportParameters) -> Result<(), TransportError> {
        if let Some(token) = peer.stateless_reset_token {
            self.cids.set_initial_reset_token(token);
        }
        if let Some(preferred) = &peer.preferred_address {
            if self.cids.remote(PathId::ZERO).is_some_and(|cid| cid.is_empty()) {
                // RFC 9000 section 18.2.
                let reason = "a preferred address beside an empty connection id";
                return Err(TransportError::new(TransportErrorCode::TRANSPORT_PARAMETER_ERROR, reason));
            }
            self.cids.on_new(PathId::ZERO, 1, 0, preferred.connection_id, preferred.reset_token)?;
        }
        Ok(())
    }

    /// Gives the client a token for its next connection (RFC 9000 section 8.1.3).
    fn issue_token(&mut self, now: Instant) -> Result<(), TransportError> {
        if !self.issue_tokens {
            return Ok(());
        }
        let mut nonce = [0; 12];
        self.rng.fill_bytes(&mut nonce);
        let ip = self.path_zero().network().remote.ip();
        self.new_token = self.token_key.seal_new_token(now, nonce, ip);
        self.queue_control(ControlFrame::NewToken)
    }

    pub(super) fn clamp_mtu(&mut self, peer_limit: u64) {
        let limit = u16::try_from(peer_limit).unwrap_or(u16::MAX).max(1_200);
        let config = &self.config;
        let sizes = [config.max_datagram_size, config.jumbo_datagram_size, config.initial_datagram_size];
        if sizes.iter().any(|size| *size > limit) {
            let config = Arc::make_mut(&mut self.config);
            config.max_datagram_size = config.max_datagram_size.min(limit);
            config.jumbo_datagram_size = config.jumbo_datagram_size.min(limit);
            config.initial_datagram_size = config.initial_datagram_size.min(limit);
        }
        for path in self.paths.values_mut() {
            path.clamp_mtu(limit);
        }
    }

    fn negotiate_repair(&mut self, peer: &TransportParameters) {
        // Both sides must have offered the extension: only then does the receiver keep source
        // symbols.
        if self.config.repair.accept
            && let Some(repair) = &peer.repair
        {
            self.repair.set_peer(repair);
        }
        self.instead = self.repair.begin(self.config.recovery);
    }

    fn negotiate_multipath(&mut self) -> Result<(), TransportError> {
        if self.config.max_paths > 1
            && let Some(remote) = self.peer.initial_max_path_id
        {
            self.path_ids.limits = Some(MaxPathIds { local: initial_max_path_id(&self.config), remote });
        }
        self.issue_cids()
    }

    /// The handshake is confirmed: its keys and packets are no longer needed (RFC 9001
    /// section 4.9.2).
    pub(super) fn confirm_handshake(&mut self) {
        self.handshake.confirmed = true;
        self.discard_space(Level::Handshake);
    }

    /// Gives up a packet number space with its keys, and with what it had in flight.
    pub(super) fn discard_space(&mut self, level: Level) {
        let space = match level {
            Level::Initial => self.handshake.initial.take(),
            Level::Handshake => self.handshake.handshake.take(),
            Level::OneRtt | Level::ZeroRtt => None,
        };
        let Some(space) = space else { return };
        self.handshake.crypto[crypto_index(level)] = None;
        if let Some(path) = self.paths.of_handshake_mut() {
            path.on_space_discarded(&space.space);
        }
    }

    /// Time without an answer after which the handshake's packets are probed.
    pub(super) fn handshake_probe_interval(&self, pto_base: Duration, pto_count: u32) -> Duration {
        (pto_base * (1 << pto_count.min(16))).min(MAX_HANDSHAKE_PROBE_INTERVAL.max(pto_base))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            frames::FrameContext,
            tests::{client, connected_client},
        },
        *,
    };
    use crate::{
        NetworkPath, PacketPurpose,
        path::{Path, sending::NewPacket, sent::SentFrames, source::Source, space::Space},
    };

    /// A server that abandons path 0, acknowledges nothing else and never says that it is done: the deadline of what
    /// was in flight of the handshake stayed in the past, at which the client woke without end, and nothing was
    /// probed for on other paths.
    #[test]
    fn a_handshake_whose_path_is_gone_has_no_deadline_and_keeps_no_other_path_waiting() {
        let (mut client, _) = connected_client();
        let at = |micros| Instant::ORIGIN + Duration::from_micros(micros);
        let packet = |number, level| NewPacket {
            number,
            level,
            size: 1_200,
            purpose: PacketPurpose::Data,
            ack_eliciting: true,
            frames: SentFrames::default(),
            source: Source::Nothing,
        };
        let mut space = PacketSpace::default();
        for number in 0..2 {
            let of = Space::Handshake(&mut space);
            client.path_zero().on_packet_sent(at(0), of, packet(number, Level::Handshake));
        }
        let keys = initial_keys(&ConnectionId::EMPTY, Side::Client);
        client.handshake.handshake = Some(Box::new(CryptoSpace { keys, space, probe_due: false }));
        let local = std::net::SocketAddr::from(([127, 0, 0, 3], 1));
        let network = NetworkPath { local, ..client.path_zero().network() };
        let mut path = Path::new(PathId(1), network, &client.config, at(0));
        path.open();
        path.trust_address();
        path.on_packet_sent(at(0), Space::Data, packet(0, Level::OneRtt));
        client.paths.insert(PathId(1), path);
        let mut ack = Vec::new();
        crate::wire::encode_ack(None, 0, None, core::iter::once(1..=1), 100, &mut ack);
        let context = FrameContext::new(Level::Handshake, PathId::ZERO);
        client.on_payload(at(20_000), context, &ack).unwrap();
        assert_eq!(client.poll_timeout(), Some(at(22_500)), "the other one counts as lost then");
        client.on_path_abandon(at(20_000), PathId::ZERO, TransportErrorCode::NO_ERROR).unwrap();
        assert_eq!(client.poll_timeout(), Some(at(22_500)), "what is late may still come");
        client.remove_closed_path(PathId::ZERO);
        assert!(client.poll_timeout() > Some(at(22_500)));
        assert_eq!(client.neglected(at(22_500)), None);
    }

    /// RFC 9000 section 7.3: who puts other connection ids into the first packets, which anybody can,
    /// is found out by what TLS has authenticated.
    #[test]
    fn connection_ids_must_be_those_of_the_first_packets() {
        let mut client = client();
        let cid = |n: u8| ConnectionId::new(&[n; 8]);
        client.handshake.set_peer_cid(cid(5).unwrap());
        let original = client.handshake.first.as_ref().map(|first| first.original_cid);
        let direct = TransportParameters {
            original_destination_connection_id: original,
            initial_source_connection_id: cid(5),
            ..TransportParameters::default()
        };
        let retried = TransportParameters { retry_source_connection_id: cid(6), ..direct.clone() };
        let others = [
            TransportParameters { original_destination_connection_id: cid(9), ..direct.clone() },
            TransportParameters { original_destination_connection_id: None, ..direct.clone() },
            TransportParameters { initial_source_connection_id: cid(9), ..direct.clone() },
            TransportParameters { initial_source_connection_id: None, ..direct.clone() },
            TransportParameters { retry_source_connection_id: cid(9), ..direct.clone() },
        ];
        client.authenticate_cids(&direct).unwrap();
        for other in others.iter().chain([&retried]) {
            let error = client.authenticate_cids(other).unwrap_err();
            assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR, "{other:?}");
        }
        // After a Retry that one has to be owned up to as well.
        client.handshake.first.as_mut().unwrap().retry_cid = cid(6);
        client.authenticate_cids(&retried).unwrap();
        for other in others.iter().chain([&direct]) {
            assert!(client.authenticate_cids(other).is_err(), "{other:?}");
        }
    }
}
