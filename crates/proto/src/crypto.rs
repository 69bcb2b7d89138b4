//! Packet protection (RFC 9001 section 5) and the TLS session, both through `rustls`'s QUIC
//! interface.

mod post_handshake;

use ring::aead;
use rustls::pki_types::CertificateDer;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, KeyChange, Keys, PacketKey, Suite, Version};
use rustls::{CertificateError, OtherError};
use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::{
    keys::OneRttKeys,
    range_set::RangeSet,
    wire::{
        ConnectionId, CryptoHeader, HeaderParts, HeaderPositions, PacketNumberField, PathId, Side,
        TransportError, TransportErrorCode, retry_pseudo_packet,
    },
};
use post_handshake::{Messages, unexpected_message};

/// Bytes that every packet's authentication adds.
pub(crate) const TAG_LEN: usize = 16;
/// Out-of-order CRYPTO bytes accepted ahead of what TLS has read (RFC 9000 section 7.5 asks for at
/// least 4,096).
pub(crate) const CRYPTO_WINDOW: u64 = 64 << 10;

/// Most pieces that those may be in: only a peer that means harm cuts a flight into more, and holes
/// cost memory as well.
const CRYPTO_PIECES: usize = 64;

/// The alert `unexpected_message` (RFC 8446 section 6).
const UNEXPECTED_MESSAGE: u8 = 10;

/// Encryption levels. 0-RTT shares the packet numbers of path 0 with 1-RTT, and carries no CRYPTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Initial,
    Handshake,
    OneRtt,
    ZeroRtt,
}

/// A range of a CRYPTO stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CryptoRange {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Keys of the Initial level: anyone who sees the client's first packet can derive them (RFC 9001
/// section 5.2).
pub(crate) fn initial_keys(client_destination: &ConnectionId, side: Side) -> Keys {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    initial_suite().keys(client_destination, side, Version::V1)
}

fn initial_suite() -> Suite {
    rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(|suite| suite.quic_suite())
        .expect("AES-128-GCM has a QUIC suite")
}

/// The integrity tag of a Retry packet (RFC 9001 section 5.8): shows that whoever sent it has seen
/// the client's Initial to `original`.
pub(crate) fn retry_integrity_tag(original: &ConnectionId, retry_without_tag: &[u8]) -> [u8; TAG_LEN] {
    const KEY: [u8; 16] =
        [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
    const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &KEY).expect("AES-128 keys have 16 bytes");
    let pseudo = retry_pseudo_packet(original, retry_without_tag);
    let tag = aead::LessSafeKey::new(key).seal_in_place_separate_tag(
        aead::Nonce::assume_unique_for_key(NONCE),
        aead::Aad::from(pseudo),
        &mut [],
    );
    *tag.expect("nothing is sealed").as_ref().first_chunk().expect("tags have 16 bytes")
}

/// Encrypts the packet at the end of `out`, whose header stands at `at`, then protects its header.
///
/// Packets of a path other than zero mix the path id into the nonce (draft-ietf-quic-multipath-21
/// section 2.4).
pub(crate) fn seal(
    (packet_key, header_key): (&dyn PacketKey, &dyn HeaderProtectionKey),
    path: PathId,
    number: u64,
    out: &mut Vec<u8>,
    at: &HeaderPositions,
) -> Result<(), rustls::Error> {
    at.patch_length(out, TAG_LEN);
    let (header, payload) = out[at.start..].split_at_mut(at.payload - at.start);
    let tag = match path {
        PathId::ZERO => packet_key.encrypt_in_place(number, header, payload)?,
        PathId(id) => packet_key.encrypt_in_place_for_path(id, number, header, payload)?,
    };
    out.extend_from_slice(tag.as_ref());
    let number_len = at.payload - at.pn_offset;
    let parts = HeaderParts::of(&mut out[at.start..], at.pn_offset - at.start);
    let parts = parts.expect("a packet is padded until it can be sampled");
    header_key.encrypt_in_place(parts.sample, parts.first, &mut parts.packet_number[..number_len])
}

/// Removes header protection in place; `None` if the packet is too short to hold a sample.
pub(crate) fn unprotect(
    key: &dyn HeaderProtectionKey,
    packet: &mut [u8],
    number_at: usize,
) -> Option<PacketNumberField> {
    let parts = HeaderParts::of(packet, number_at)?;
    key.decrypt_in_place(parts.sample, parts.first, parts.packet_number).ok()?;
    PacketNumberField::read(packet, number_at)
}

/// Decrypts a payload in place; `None` if it does not authenticate.
pub(crate) fn open<'a>(
    key: &dyn PacketKey,
    path: PathId,
    number: u64,
    header: &[u8],
    payload: &'a mut [u8],
) -> Option<&'a [u8]> {
    match path {
        PathId::ZERO => key.decrypt_in_place(number, header, payload),
        PathId(id) => key.decrypt_in_place_for_path(id, number, header, payload),
    }
    .ok()
}

/// One direction pair of CRYPTO data at one level: what TLS wants sent, and what arrived for it.
#[derive(Default)]
pub(crate) struct CryptoStream {
    /// All before has been acknowledged.
    acked_to: u64,
    /// What has not; `None` if that is nothing.
    outgoing: Option<Box<Outgoing>>,
    /// All before has been handed to TLS.
    read_to: u64,
    /// What has not; `None` if that is nothing.
    incoming: Option<Box<Incoming>>,
}

/// What TLS wants sent, from the first byte that is not acknowledged.
struct Outgoing {
    buffer: VecDeque<u8>,
    /// First offset that was never sent.
    unsent: u64,
    /// Of what the buffer holds.
    acked: RangeSet,
    lost: RangeSet,
}

/// What arrived for TLS, from the first byte that it has not read.
#[derive(Default)]
struct Incoming {
    arrived: RangeSet,
    assembly: VecDeque<u8>,
}

impl CryptoStream {
    /// Nothing was written or has arrived.
    pub(crate) const EMPTY: Self = Self { acked_to: 0, outgoing: None, read_to: 0, incoming: None };

    pub(crate) fn write(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let nothing = || Outgoing {
            buffer: VecDeque::new(),
            unsent: self.acked_to,
            acked: RangeSet::new(),
            lost: RangeSet::new(),
        };
        self.outgoing.get_or_insert_with(|| Box::new(nothing())).buffer.extend(data);
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|outgoing| outgoing.pending(self.acked_to).is_some())
    }

    /// First offset that was never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.outgoing.as_ref().map_or(self.acked_to, |outgoing| outgoing.unsent)
    }

    /// Appends one CRYPTO frame if anything waits and fits below `limit`.
    pub(crate) fn write_frame(&mut self, out: &mut Vec<u8>, limit: usize) -> Option<CryptoRange> {
        let outgoing = self.outgoing.as_deref_mut()?;
        let Range { start, end } = outgoing.pending(self.acked_to)?;
        let room = CryptoHeader::max_data(start, limit.checked_sub(out.len())?).filter(|n| *n > 0)?;
        let len = (end - start).min(room as u64);
        CryptoHeader { offset: start, data_len: len as usize }.encode(out);
        let from = (start - self.acked_to) as usize;
        out.extend(outgoing.buffer.range(from..from + len as usize));
        outgoing.lost.remove(start..start + len);
        outgoing.unsent = outgoing.unsent.max(start + len);
        Some(CryptoRange { offset: start, len })
    }

    pub(crate) fn on_acked(&mut self, range: CryptoRange) {
        let Some(outgoing) = self.outgoing.as_deref_mut() else { return };
        let range = range.offset..range.offset + range.len;
        outgoing.lost.remove(range.clone());
        outgoing.acked.insert(range.start.max(self.acked_to)..range.end);
        if let Some(first) = outgoing.acked.first().filter(|r| r.start <= self.acked_to) {
            outgoing.buffer.drain(..first.end.saturating_sub(self.acked_to) as usize);
            self.acked_to = self.acked_to.max(first.end);
            // What is gone from the buffer needs no entry.
            outgoing.acked.remove(0..self.acked_to);
            if outgoing.buffer.is_empty() {
                self.outgoing = None;
            }
        }
    }

    pub(crate) fn on_lost(&mut self, range: CryptoRange) {
        self.repeat(range, u64::MAX);
    }

    /// Makes what is un-ACKed of a range pending again, at most so many bytes; returns how many.
    pub(crate) fn repeat(&mut self, range: CryptoRange, most: u64) -> u64 {
        let Some(outgoing) = self.outgoing.as_deref_mut() else { return 0 };
        let end = range.offset + range.len;
        let mut left = most;
        for missing in outgoing.acked.missing_within(range.offset.max(self.acked_to).min(end)..end) {
            let end = missing.end.min(missing.start.saturating_add(left));
            left -= end - missing.start;
            outgoing.lost.insert(missing.start..end);
        }
        most - left
    }

    /// Takes a CRYPTO frame's bytes into order, if they are within `window` of what TLS has read.
    pub(crate) fn on_frame(&mut self, offset: u64, data: &[u8], window: u64) -> Result<(), TransportError> {
        let end = offset + data.len() as u64;
        if end > self.read_to + window {
            return Err(TransportError::new(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "CRYPTO data too far ahead of what TLS has read",
            ));
        }
        let start = offset.max(self.read_to);
        if start >= end {
            return Ok(());
        }
        let incoming = self.incoming.get_or_insert_default();
        let slots = (start - self.read_to) as usize..(end - self.read_to) as usize;
        if incoming.assembly.len() < slots.end {
            incoming.assembly.resize(slots.end, 0);
        }
        for (slot, byte) in incoming.assembly.range_mut(slots).zip(&data[(start - offset) as usize..]) {
            *slot = *byte;
        }
        incoming.arrived.insert(start..end);
        if incoming.arrived.len() > CRYPTO_PIECES {
            let reason = "CRYPTO data in too many pieces";
            return Err(TransportError::new(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED, reason));
        }
        Ok(())
    }

    /// Whether TLS has been handed all that comes before an offset.
    pub(crate) fn has_read(&self, end: u64) -> bool {
        end <= self.read_to
    }

    /// Bytes that wait for others before them.
    pub(crate) fn buffered(&self) -> usize {
        self.incoming.as_ref().map_or(0, |incoming| incoming.assembly.len())
    }

    /// Hands over the bytes that are now in order.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let incoming = self.incoming.as_deref_mut()?;
        let ready = incoming.arrived.first().filter(|r| r.start <= self.read_to)?;
        let len = (ready.end - self.read_to) as usize;
        incoming.arrived.pop_first();
        self.read_to = ready.end;
        let bytes = incoming.assembly.drain(..len).collect();
        if incoming.assembly.is_empty() {
            self.incoming = None;
        }
        Some(bytes)
    }
}

impl Outgoing {
    /// What a frame should carry next; the buffer begins at `start`.
    fn pending(&self, start: u64) -> Option<Range<u64>> {
        let end = start + self.buffer.len() as u64;
        self.lost.first().or((self.unsent < end).then_some(self.unsent..end))
    }
}

/// The TLS 1.3 session of a connection.
pub(crate) struct TlsSession {
    /// `None` once it is over: what TLS holds by then takes kilobytes.
    session: Option<Box<rustls::quic::Connection>>,
    facts: TlsFacts,
    /// What comes after the handshake.
    messages: Messages,
}

/// What is asked about a session that is over.
#[derive(Default)]
struct TlsFacts {
    resumed: bool,
    /// Tickets may come that nobody needs.
    ignores_tickets: bool,
    alpn: Option<Vec<u8>>,
    peer_certificates: Option<Vec<CertificateDer<'static>>>,
}

impl TlsFacts {
    fn of(session: &rustls::quic::Connection) -> Self {
        Self {
            resumed: session.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
            ignores_tickets: false,
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            peer_certificates: session
                .peer_certificates()
                .map(|chain| chain.iter().map(|c| c.clone().into_owned()).collect()),
        }
    }
}

/// What TLS says, or the verifier whose error it wraps: that would be shown as a programmer sees it.
fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) => reason.to_string(),
        error => error.to_string(),
    }
}

/// Keys that TLS has just made available.
pub(crate) enum NewKeys {
    Handshake(Keys),
    OneRtt(Box<OneRttKeys>),
}

impl TlsSession {
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        server_name: rustls::pki_types::ServerName<'static>,
        parameters: Vec<u8>,
    ) -> Result<Self, rustls::Error> {
        let session = rustls::quic::ClientConnection::new(config, Version::V1, server_name, parameters)?;
        Ok(Self::of(session.into()))
    }

    pub(crate) fn server(
        config: Arc<rustls::ServerConfig>,
        parameters: Vec<u8>,
    ) -> Result<Self, rustls::Error> {
        let session = rustls::quic::ServerConnection::new(config, Version::V1, parameters)?;
        Ok(Self::of(session.into()))
    }

    fn of(session: rustls::quic::Connection) -> Self {
        Self { session: Some(Box::new(session)), facts: TlsFacts::default(), messages: Messages::default() }
    }

    /// Neither side has anything to say any more, which is so for a server that has written all
    /// there was once the handshake is complete: clients send nothing after it (RFC 9001 sections
    /// 4.4 and 6).
    pub(crate) fn end(&mut self) {
        if let Some(session) = self.session.take() {
            self.facts = TlsFacts::of(&session);
        }
    }

    /// Nothing has come for long. A client has nothing to say either, and waits for tickets: their
    /// server sends them as soon as it can. Further ones are ignored if it has one by now.
    pub(crate) fn rest(&mut self) {
        if let Some(rustls::quic::Connection::Client(client)) = self.session.as_deref()
            && client.tls13_tickets_received() > 0
            && self.messages.are_whole()
        {
            self.end();
            self.facts.ignores_tickets = true;
        }
    }

    /// Feeds ordered CRYPTO bytes; a TLS alert becomes the matching close code (RFC 9001
    /// section 4.8).
    pub(crate) fn read(&mut self, level: Level, data: &[u8]) -> Result<(), TransportError> {
        let Some(session) = &mut self.session else {
            return if self.facts.ignores_tickets {
                self.messages.ignore(data)
            } else {
                Err(unexpected_message())
            };
        };
        if level == Level::OneRtt {
            self.messages.advance(data);
        }
        session.read_hs(data).map_err(|error| {
            let alert = session.alert().map(|alert| TransportErrorCode::crypto(u8::from(alert)));
            TransportError::new(alert.unwrap_or(TransportErrorCode::PROTOCOL_VIOLATION), words(&error))
        })
    }

    /// Appends what TLS wants sent at the current level; stops where keys change.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        Some(match self.session.as_mut()?.write_hs(out)? {
            KeyChange::Handshake { keys } => NewKeys::Handshake(keys),
            KeyChange::OneRtt { keys, next } => NewKeys::OneRtt(Box::new(OneRttKeys::new(keys, next))),
        })
    }

    /// Keys of 0-RTT packets: a client's once it has written a ClientHello that offers them, a
    /// server's once it accepted them.
    pub(crate) fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.session.as_ref()?.zero_rtt_keys()
    }

    /// Whether the server accepted this client's early data; known with its first flight.
    pub(crate) fn early_data_accepted(&self) -> bool {
        match self.session.as_deref() {
            Some(rustls::quic::Connection::Client(client)) => client.is_early_data_accepted(),
            Some(rustls::quic::Connection::Server(_)) | None => false,
        }
    }

    /// Whether a ticket of an earlier session was used.
    pub(crate) fn is_resumed(&self) -> bool {
        self.with_facts(|facts| facts.resumed)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// The peer's transport parameters, until the session is over.
    pub(crate) fn peer_parameters(&self) -> Option<&[u8]> {
        self.session.as_ref()?.quic_transport_parameters()
    }

    pub(crate) fn alpn(&self) -> Option<Vec<u8>> {
        self.with_facts(|facts| facts.alpn.clone())
    }

    pub(crate) fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.with_facts(|facts| facts.peer_certificates.clone())
    }

    fn with_facts<T>(&self, ask: impl FnOnce(&TlsFacts) -> T) -> T {
        match &self.session {
            Some(session) => ask(&TlsFacts::of(session)),
            None => ask(&self.facts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ShortHeader;

    #[test]
    fn crypto_stream_reorders_loses_and_resends() {
        let (mut a, mut b) = (CryptoStream::default(), CryptoStream::default());
        a.write(&(0..=255).collect::<Vec<u8>>());
        let mut frames = Vec::new();
        while a.has_pending() {
            let mut out = Vec::new();
            let range = a.write_frame(&mut out, 40).expect("fits");
            frames.push((range, out));
        }
        assert!(frames.len() > 6);
        a.on_lost(frames[1].0);
        a.on_lost(frames[1].0);
        a.on_acked(frames[0].0);
        let mut out = Vec::new();
        let again = a.write_frame(&mut out, 1_200).expect("lost range is sent again");
        assert_eq!(again, frames[1].0);
        assert!(!a.has_pending());
        for (range, out) in frames.iter().rev() {
            b.on_frame(range.offset, &out[out.len() - range.len as usize..], CRYPTO_WINDOW).unwrap();
        }
        assert_eq!(b.read().unwrap(), (0..=255).collect::<Vec<u8>>());
        assert!(b.read().is_none());
        frames.iter().for_each(|(range, _)| a.on_acked(*range));
        assert!(a.outgoing.is_none() && b.incoming.is_none(), "nothing is kept of what is done");
        frames.iter().for_each(|(range, _)| a.on_lost(*range));
        assert!(!a.has_pending());
        a.write(&[7; 3]);
        let after = CryptoRange { offset: 256, len: 3 };
        assert_eq!((a.unsent(), a.write_frame(&mut Vec::new(), 100)), (256, Some(after)));
        b.on_frame(0, &[9; 20], CRYPTO_WINDOW).unwrap();
        assert!(b.read().is_none(), "old data is not handed over again");
        assert!(b.on_frame(CRYPTO_WINDOW + 256, &[1], CRYPTO_WINDOW).is_err());
    }

    #[test]
    fn crypto_data_may_come_in_some_pieces_but_not_in_any_number() {
        let mut stream = CryptoStream::default();
        for n in 1..=CRYPTO_PIECES as u64 {
            stream.on_frame(2 * n, &[1], CRYPTO_WINDOW).unwrap();
        }
        stream.on_frame(4, &[1], CRYPTO_WINDOW).unwrap();
        assert!(stream.on_frame(1_000, &[1], CRYPTO_WINDOW).is_err());
    }

    /// RFC 9001 appendix A.4.
    #[test]
    fn retry_integrity_tag_of_the_rfc() {
        let original = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
        let scid = ConnectionId::new(&[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5]).unwrap();
        let mut retry = Vec::new();
        crate::wire::encode_retry(&ConnectionId::EMPTY, &scid, b"token", &mut retry);
        // The low four bits of the first byte are unused; the example sets them.
        retry[0] |= 0x0f;
        let tag: u128 = 0x04a2_65ba_2eff_4d82_9058_fb3f_0f24_96ba;
        assert_eq!(retry_integrity_tag(&original, &retry), tag.to_be_bytes());
    }

    /// The nonce example of draft-ietf-quic-multipath: two sealed packets differ by path, and only
    /// the right path opens.
    #[test]
    fn path_id_is_part_of_the_nonce() {
        let cid = ConnectionId::new(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let client = initial_keys(&cid, Side::Client);
        let server = initial_keys(&cid, Side::Server);
        let mut packet = Vec::new();
        let at = ShortHeader { dcid: cid, spin: false, key_phase: false }.encode(54_321, 4, &mut packet);
        packet.extend_from_slice(&[7; 40]);
        seal((&*client.local.packet, &*client.local.header), PathId(3), 54_321, &mut packet, &at).unwrap();
        let number = unprotect(&*server.remote.header, &mut packet, at.pn_offset).unwrap();
        assert_eq!((number.truncated, number.len), (54_321, 4));
        let (header, payload) = packet.split_at_mut(at.payload);
        assert!(open(&*server.remote.packet, PathId(2), 54_321, header, &mut payload.to_vec()).is_none());
        assert_eq!(open(&*server.remote.packet, PathId(3), 54_321, header, payload), Some(&[7u8; 40][..]));
    }
}
