//! Doors for fuzz targets (`fuzz/`): internals under hostile input without the handshake in front
//! of them. Not part of the interface; nothing else may use it.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use units::{Duration, Instant};

pub use crate::streams::{SentStreamFrames, Streams, StreamsConfig};
use crate::{
    connection::repair::{Decoder, Rebuilt},
    crypto,
    path::received::ReceivedPackets,
    token::TokenKey,
    wire::{ConnectionId, LongHeader, PacketKind, PathId, Repair, Side},
};

/// The repair decoder, with the books about received packets that a connection keeps for it.
pub struct RepairDecoder {
    decoder: Decoder,
    received: BTreeMap<PathId, ReceivedPackets>,
}

impl RepairDecoder {
    /// A decoder that may hold `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Self { decoder: Decoder::new(budget, u8::MAX), received: BTreeMap::new() }
    }

    /// Whether a packet has arrived or was rebuilt.
    pub fn has(&self, path: PathId, number: u64) -> bool {
        self.received.get(&path).is_some_and(|received| received.is_settled(number))
    }

    /// A source packet arrives, for the first time or not.
    pub fn on_source(&mut self, path: PathId, number: u64, plaintext: &[u8]) -> Vec<Rebuilt> {
        let known = self.has(path, number);
        let received = self.received.entry(path).or_default();
        received.on_packet(Instant::ORIGIN, number, true, None, Duration::ZERO);
        let rebuilt = if known { Vec::new() } else { self.decoder.on_source(path, number, plaintext) };
        self.note(path, rebuilt)
    }

    /// A REPAIR frame arrives.
    pub fn on_repair(&mut self, repair: &Repair<'_>) -> Vec<Rebuilt> {
        let received = self.received.entry(repair.path).or_default();
        let rebuilt = self.decoder.on_repair(repair, received);
        self.note(repair.path, rebuilt)
    }

    /// A path closes.
    pub fn forget_path(&mut self, path: PathId) {
        self.decoder.forget_path(path);
    }

    /// Bytes held, and the same counted afresh.
    pub fn memory(&self) -> (u64, u64) {
        (self.decoder.memory(), self.decoder.recount())
    }

    /// Leaves those that are news, as a connection does.
    fn note(&mut self, path: PathId, rebuilt: Vec<Rebuilt>) -> Vec<Rebuilt> {
        let received = self.received.entry(path).or_default();
        rebuilt
            .into_iter()
            .filter(|(number, _)| {
                let news = !received.is_settled(*number);
                received.on_rebuilt(*number);
                news
            })
            .collect()
    }
}

/// Address validation tokens under a fixed key.
pub struct Tokens(TokenKey);

impl Default for Tokens {
    fn default() -> Self {
        Self(TokenKey::new(&[7; 16]))
    }
}

impl Tokens {
    /// A Retry token, or one of NEW_TOKEN if there is no `retry`.
    pub fn seal(
        &self,
        now: Instant,
        nonce: [u8; 12],
        remote: SocketAddr,
        retry: Option<(&ConnectionId, &ConnectionId)>,
    ) -> Vec<u8> {
        match retry {
            Some((original, retry)) => self.0.seal_retry(now, nonce, remote, original, retry),
            None => self.0.seal_new_token(now, nonce, remote.ip()),
        }
    }

    /// The original destination that a Retry token tells.
    pub fn open_retry(
        &self,
        now: Instant,
        token: &[u8],
        remote: SocketAddr,
        destination: &ConnectionId,
    ) -> Option<ConnectionId> {
        self.0.open_retry(now, token, remote, destination)
    }

    /// Whether a token of NEW_TOKEN is good.
    pub fn open_new_token(&self, now: Instant, token: &[u8], remote: SocketAddr) -> bool {
        self.0.open_new_token(now, token, remote.ip()).is_some()
    }
}

/// An Initial packet that anybody can make who has seen the client's first one, which went to
/// `original`. `from` is who it seems to come from.
pub fn initial_packet(
    original: &ConnectionId,
    from: Side,
    (dcid, scid): (ConnectionId, ConnectionId),
    token: &[u8],
    number: u64,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let keys = crypto::initial_keys(original, from);
    let mut out = Vec::new();
    let at = LongHeader { kind: PacketKind::Initial, token, dcid, scid }.encode(number, 4, &mut out);
    out.extend_from_slice(payload);
    crypto::seal((&*keys.local.packet, &*keys.local.header), PathId::ZERO, number, &mut out, &at).ok()?;
    Some(out)
}
