//! What may come before a server commits to a connection: Retry and Version Negotiation (RFC 9000
//! sections 6 and 17.2.5), and the tokens that spare the next connection a Retry (section 8.1.3).

use units::Instant;

use super::{Connection, TokenOwner};
use crate::{
    crypto::{self, Level, TAG_LEN, initial_keys},
    wire::{ConnectionId, PathId, Side, TransportError, TransportErrorCode, Versions},
};

/// Longest token of a Retry that still leaves room for the ClientHello in datagrams of 1,200 bytes.
const MAX_RETRY_TOKEN: usize = 768;

impl Connection {
    /// A Retry packet, whole.
    ///
    /// It counts once, before any other packet, and if it has seen our first Initial
    /// (section 17.2.5.2).
    pub(super) fn on_retry(&mut self, now: Instant, scid: ConnectionId, token: &[u8], packet: &[u8]) {
        let Some((retry, tag)) = packet.split_last_chunk::<TAG_LEN>() else { return };
        let nothing_heard = self.nothing_heard();
        let Some(first) = &mut self.handshake.first else { return };
        let original = first.original_cid;
        let expected = self.side == Side::Client
            && !self.state.is_closed()
            && first.retry_cid.is_none()
            && nothing_heard
            && token.len() <= MAX_RETRY_TOKEN
            && scid != original;
        // The tag is no secret: everybody has its key.
        if !expected || crypto::retry_integrity_tag(&original, retry) != *tag {
            self.stats.malformed_packets += 1;
            return;
        }
        first.retry_cid = Some(scid);
        first.token = token.to_vec();
        self.cids.set_initial_remote(scid);
        self.restart_idle_timer(now);
        self.begin_again(now, scid);
    }

    /// Everything sent so far is sent again, under the keys that follow from the server's choice.
    /// Packet numbers go on (section 17.2.5.3); the loss of the first packets says nothing about
    /// the path.
    fn begin_again(&mut self, now: Instant, destination: ConnectionId) {
        let side = self.side;
        let Some(initial) = self.handshake.space_mut(Level::Initial) else { return };
        initial.keys = initial_keys(&destination, side);
        initial.probe_due = false;
        let discarded = initial.space.take_all();
        let in_flight = discarded.iter().map(|packet| u64::from(packet.size)).sum();
        // The server dropped what came with the first Initial (section 17.2.5.3).
        let early = self.path_zero().on_retry(now, in_flight);
        for mut packet in discarded {
            self.requeue(Level::Initial, &mut packet.frames);
        }
        for mut packet in early {
            self.requeue(Level::ZeroRtt, &mut packet.frames);
        }
    }

    /// A server that lists no version of ours ends the attempt, unless it has answered in ours
    /// before (section 6.2).
    pub(super) fn on_version_negotiation(&mut self, scid: ConnectionId, versions: Versions<'_>) {
        let no_retry = self.handshake.first.as_ref().is_some_and(|first| first.retry_cid.is_none());
        let answers_us = self.cids.remote(PathId::ZERO) == Some(scid) && no_retry;
        let lists_ours = versions.iter().any(|version| version == crate::wire::VERSION_1);
        if self.side == Side::Client && self.nothing_heard() && answers_us && !lists_ours {
            self.on_version_mismatch();
        }
    }

    /// No packet of the server has been read yet.
    fn nothing_heard(&self) -> bool {
        self.handshake.space(Level::Initial).is_some_and(|s| s.space.received().largest().is_none())
    }

    /// NEW_TOKEN.
    pub(super) fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.side == Side::Server {
            let reason = "NEW_TOKEN from a client";
            return Err(TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason));
        }
        if let Some(TokenOwner { store, name, server }) = self.token_owner.as_deref() {
            store.put(name, *server, token);
        }
        Ok(())
    }
}
