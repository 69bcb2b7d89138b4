//! Who may become a connection: the first Initial packet of a stranger (RFC 9000 sections
//! 5.2.2, 8.1 and 17.2.5).
//!
//! Cheap refusals come first. Nothing derives keys for a datagram that is too small, while the
//! server is off, or, but for a limited number of answers a second, while it has as many
//! connections as it takes. Retry keeps no state and authenticates nothing.
//!
//! Those who pass wait in the [lobby](super::lobby) until they are let in, first for the
//! application's [decision](super::incoming) and then for their handshake, where newcomers displace
//! the oldest. Who has not shown that it receives at its address displaces nobody, unless the
//! server never asks for that: it gets a Retry.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, PoisonError},
};

use ring::aead::NONCE_LEN;
use units::Instant;

use super::{Endpoint, EndpointOutput, Incoming, MAX_EVICTED, MIN_INITIAL_DATAGRAM, lobby::Full, reply};
use crate::{
    AddressValidation, Datagram, ServerConfig,
    connection::{AddressToken, FirstInitial},
    crypto::{self, TAG_LEN},
    token::{TokenNonce, is_retry_token},
    wire::{
        ConnectionClose, ConnectionId, LongHeader, PacketKind, PathId, Side, TransportErrorCode, encode_retry,
    },
};

use rand_chacha::rand_core::RngCore;

/// Longest CONNECTION_CLOSE that a client is refused with, in bytes.
const MAX_REFUSAL: usize = 256;

/// Shortest destination connection id of a client's first packet (RFC 9000 section 7.2).
const MIN_FIRST_CID: usize = 8;

/// What the header of a stranger's Initial packet says.
pub(super) struct Knock<'a> {
    pub(super) destination: ConnectionId,
    pub(super) source: ConnectionId,
    pub(super) token: &'a [u8],
    /// Where the packet number begins, and where the packet ends.
    pub(super) number_at: usize,
    pub(super) end: usize,
}

/// What a token proves.
enum Proof {
    /// There is none, or it is as good as none.
    Nothing,
    /// The client answered our Retry; its first packet went to this id.
    Retried(ConnectionId),
    /// The client has been here before.
    Returning(TokenNonce),
    /// It claims to answer a Retry of ours, and does not.
    Forged,
}

impl Proof {
    fn token(&self) -> AddressToken {
        match self {
            Self::Retried(original) => AddressToken::Retry(*original),
            Self::Returning(_) => AddressToken::New,
            Self::Nothing | Self::Forged => AddressToken::None,
        }
    }
}

impl Endpoint {
    pub(super) fn admit(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        knock: &Knock<'_>,
        out: &mut Vec<u8>,
    ) -> Option<EndpointOutput> {
        let Some(server) = self.server.clone() else {
            self.stats.dropped += 1;
            return None;
        };
        if datagram.data.len() < MIN_INITIAL_DATAGRAM || knock.destination.len() < MIN_FIRST_CID {
            self.stats.dropped += 1;
            return None;
        }
        if self.routes.connections_of_all() >= server.max_connections || server.max_half_open == 0 {
            let initial = FirstInitial {
                destination: knock.destination,
                source: knock.source,
                token: AddressToken::None,
            };
            let (code, reason) = (TransportErrorCode::CONNECTION_REFUSED, b"too many connections");
            self.write_refusal(now, &initial, code, reason, out)?;
            return Some(reply(&datagram, out));
        }
        let proof = self.check_token(now, &datagram, knock);
        let must_prove = match server.address_validation {
            AddressValidation::Never => false,
            AddressValidation::Always => true,
            AddressValidation::WhenBusy { half_open } => {
                self.lobby.len() >= self.part(half_open)
                    || self.lobby.rival(datagram.path.remote.ip(), self.part(server.max_half_open)).is_some()
            }
        };
        let initial =
            FirstInitial { destination: knock.destination, source: knock.source, token: proof.token() };
        match proof {
            Proof::Forged => {
                let reason = b"the token of the Retry is not valid";
                self.write_refusal(now, &initial, TransportErrorCode::INVALID_TOKEN, reason, out)?;
                Some(reply(&datagram, out))
            }
            Proof::Nothing if must_prove => {
                self.write_retry(now, datagram.path.remote, &initial, out);
                Some(reply(&datagram, out))
            }
            _ if !opens(&knock.destination, &datagram.data[..knock.end], knock.number_at) => {
                self.stats.dropped += 1;
                None
            }
            proof => {
                if let Proof::Returning(nonce) = &proof {
                    self.used_tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(now, nonce);
                }
                Some(EndpointOutput::Incoming(Box::new(self.seat(server, datagram, initial))))
            }
        }
    }

    fn check_token(&self, now: Instant, datagram: &Datagram<'_>, knock: &Knock<'_>) -> Proof {
        let remote = datagram.path.remote;
        if is_retry_token(knock.token) {
            let original = self.token_key.open_retry(now, knock.token, remote, &knock.destination);
            return original.map_or(Proof::Forged, Proof::Retried);
        }
        let nonce = self.token_key.open_new_token(now, knock.token, remote.ip());
        let used = |nonce: &TokenNonce| {
            self.used_tokens.lock().unwrap_or_else(PoisonError::into_inner).contains(nonce)
        };
        nonce.filter(|nonce| !used(nonce)).map_or(Proof::Nothing, Proof::Returning)
    }

    /// Gives a client a place in the lobby, and its packets a way to it.
    fn seat(&mut self, server: Arc<ServerConfig>, datagram: Datagram<'_>, initial: FirstInitial) -> Incoming {
        let remote = datagram.path.remote.ip();
        self.make_room(remote, self.part(server.max_half_open));
        // Until it has seen our choice, the client sends to its own.
        let handle = self.routes.add(&[initial.destination]);
        self.lobby.enter(handle, remote, initial.token != AddressToken::None);
        Incoming {
            handle,
            server,
            initial,
            path: datagram.path,
            ecn: datagram.ecn,
            datagram: datagram.data.to_vec(),
        }
    }

    /// Puts out of the lobby whoever has to go for a newcomer from this address.
    fn make_room(&mut self, address: IpAddr, capacity: usize) {
        while let Some((handle, full)) = self.lobby.rival(address, capacity) {
            self.forget(handle);
            self.stats.evicted += 1;
            self.stats.evicted_by_network += u64::from(full == Full::Network);
            if self.evicted.len() >= MAX_EVICTED {
                self.evicted.pop_front();
            }
            self.evicted.push_back(handle);
        }
    }

    /// Asks a client to show that it receives (section 8.1.2): a tenth of the bytes it sent, and no
    /// memory.
    pub(super) fn write_retry(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        initial: &FirstInitial,
        out: &mut Vec<u8>,
    ) {
        let retry = self.new_cid();
        let mut nonce = [0; NONCE_LEN];
        self.rng.fill_bytes(&mut nonce);
        let token = self.token_key.seal_retry(now, nonce, remote, &initial.destination, &retry);
        out.clear();
        encode_retry(&initial.source, &retry, &token, out);
        let tag = crypto::retry_integrity_tag(&initial.destination, out);
        out.extend_from_slice(&tag);
        self.stats.retries_sent += 1;
    }

    /// Answers an Initial with CONNECTION_CLOSE (sections 5.2.2 and 8.1.3) without keeping any
    /// state. `None` if enough clients were told this second.
    pub(super) fn write_refusal(
        &mut self,
        now: Instant,
        initial: &FirstInitial,
        error_code: TransportErrorCode,
        reason: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        self.stats.refused += 1;
        if !self.refusals.take(now) {
            return None;
        }
        let keys = crypto::initial_keys(&initial.destination, Side::Server);
        out.clear();
        let (dcid, scid) = (initial.source, initial.destination);
        let header = LongHeader { kind: PacketKind::Initial, token: &[], dcid, scid };
        let at = header.encode(0, 1, out);
        let close = ConnectionClose::Transport { error_code, frame_type: None, reason };
        close.fitted(MAX_REFUSAL).encode(out);
        out.resize(out.len().max(at.pn_offset + 4 + TAG_LEN), 0);
        crypto::seal((&*keys.local.packet, &*keys.local.header), PathId::ZERO, 0, out, &at).ok()
    }
}

/// Whether a first Initial packet authenticates: garbage must not make a connection.
fn opens(dcid: &ConnectionId, packet: &[u8], number_at: usize) -> bool {
    let keys = crypto::initial_keys(dcid, Side::Server);
    let mut packet = packet.to_vec();
    let Some(field) = crypto::unprotect(&*keys.remote.header, &mut packet, number_at) else { return false };
    let (header, payload) = packet.split_at_mut(number_at + field.len);
    crypto::open(&*keys.remote.packet, PathId::ZERO, u64::from(field.truncated), header, payload).is_some()
}
