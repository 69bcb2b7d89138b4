//! When keys are updated, and what a peer must not do about it (RFC 9001 section 6).

use units::{Duration, Instant};

use super::Connection;
use crate::{
    keys::KeyPhase,
    path::Path,
    wire::{PathId, TransportError, TransportErrorCode},
};

/// Probe timeouts for which keys of the previous phase are kept, and which pass between two updates
/// (RFC 9001 section 6.5).
const RETENTION_PTOS: u64 = 3;

impl Connection {
    /// Updates the keys of 1-RTT packets as soon as the rules allow it: the handshake is confirmed,
    /// and the previous update is settled on every path in use (RFC 9001 section 6.1). They are
    /// also updated without being asked, after
    /// [`TransportConfig::key_update_interval`](crate::TransportConfig::key_update_interval)
    /// packets.
    pub fn force_key_update(&mut self) {
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.requested = true;
        }
    }

    /// Begins an update if one is wanted and allowed.
    pub(super) fn update_keys_if_due(&mut self) {
        let Some(keys) = &self.handshake.one_rtt else { return };
        let limit = self.config.key_update_interval.clamp(1, keys.confidentiality_limit() / 2);
        let unsettled = keys.has_previous() || keys.settled_at.is_some() || !self.handshake.is_confirmed();
        if unsettled || !keys.requested && keys.sealed < limit {
            return;
        }
        let sent = |p: &&Path| p.sent().iter_from(p.phase().first_sent).next().is_some();
        if self.paths.values().any(|p| p.phase().confirmed) {
            // Every path in use must have shown that the peer follows; one that is suspect must not
            // hold up the rest.
            let open = |p: &&Path| p.works() && !p.phase().confirmed;
            if !self.paths.values().filter(open).any(|p| sent(&p)) {
                self.next_key_phase();
            }
        } else if !self.paths.values().any(|p| sent(&p)) {
            // Whoever sends nothing but ACKs has to ask for one (RFC 9001 section 6.6). Nothing has
            // been lost, so the window holds; while it is full, what fills it will be acknowledged
            // or probed for.
            let room = |p: &&mut Path| p.is_open() && p.has_spare_datagram();
            if let Some(path) = self.paths.values_mut().find(room) {
                path.ask_for_probe();
            }
        }
    }

    /// Seals and opens with the next keys from now on.
    pub(super) fn next_key_phase(&mut self) {
        let Some(keys) = &mut self.handshake.one_rtt else { return };
        keys.update();
        for path in self.paths.values_mut() {
            path.on_key_update();
        }
        self.stats.key_updates += 1;
    }

    /// A packet has been opened with the keys of `phase`.
    ///
    /// # Errors
    /// KEY_UPDATE_ERROR if the peer updated twice without waiting for us (RFC 9001 section 6.2), or
    /// used older keys for higher packet numbers (section 6.4).
    pub(super) fn on_key_phase(
        &mut self,
        now: Instant,
        id: PathId,
        number: u64,
        phase: KeyPhase,
    ) -> Result<(), TransportError> {
        let Some(keys) = &self.handshake.one_rtt else { return Ok(()) };
        if phase == KeyPhase::Next {
            let behind = self.paths.get(&id).and_then(|p| p.received().largest()) > Some(number);
            if behind || !keys.acknowledged {
                return Err(key_update_error("keys updated twice, or for lower packet numbers"));
            }
            self.next_key_phase();
        }
        let Some(path) = self.paths.get_mut(&id) else { return Ok(()) };
        let bounds = path.phase_mut();
        if phase == KeyPhase::Previous {
            bounds.last_before = bounds.last_before.max(Some(number));
            return Ok(());
        }
        if bounds.last_before > Some(number) {
            return Err(key_update_error("older keys used for higher packet numbers"));
        }
        let first = bounds.first_received.get_or_insert(number);
        *first = number.min(*first);
        if self.handshake.one_rtt.as_ref().is_some_and(|k| k.has_previous() && k.previous_until.is_none()) {
            let until = now + self.key_retention();
            if let Some(keys) = &mut self.handshake.one_rtt {
                keys.previous_until = Some(until);
            }
        }
        Ok(())
    }

    /// An ACK came for packets of path `id` up to `largest`, in a packet of the given phase.
    ///
    /// # Errors
    /// KEY_UPDATE_ERROR if it came under older keys than what it acknowledges (RFC 9001
    /// section 6.2).
    pub(super) fn on_ack_in_phase(
        &mut self,
        now: Instant,
        id: PathId,
        largest: u64,
        phase: KeyPhase,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get_mut(&id) else { return Ok(()) };
        if largest < path.phase().first_sent {
            return Ok(());
        }
        if phase == KeyPhase::Previous {
            return Err(key_update_error("packets of new keys acknowledged under old ones"));
        }
        if !core::mem::replace(&mut path.phase_mut().confirmed, true) {
            let until = now + self.key_retention();
            if let Some(keys) = &mut self.handshake.one_rtt {
                keys.settled_at = Some(until);
            }
        }
        Ok(())
    }

    /// An ACK is about to leave that covers packets of the current keys.
    pub(super) fn note_update_acknowledged(&mut self) {
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.acknowledged = true;
        }
    }

    /// A 1-RTT packet did not authenticate (RFC 9001 section 6.6).
    pub(super) fn on_failed_decryption(&mut self, now: Instant) {
        self.stats.malformed_packets += 1;
        let Some(keys) = &mut self.handshake.one_rtt else { return };
        keys.failed += 1;
        if keys.integrity_is_spent() {
            let reason = "too many packets failed to authenticate";
            self.fail(now, TransportError::new(TransportErrorCode::AEAD_LIMIT_REACHED, reason));
        }
    }

    /// When keys of the previous phase are dropped, or an update becomes possible again.
    pub(super) fn key_deadline(&self) -> Option<Instant> {
        let keys = self.handshake.one_rtt.as_ref()?;
        keys.previous_until.into_iter().chain(keys.settled_at).min()
    }

    pub(super) fn key_timeout(&mut self, now: Instant) {
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.on_timeout(now);
        }
    }

    /// Three probe timeouts of the slowest path (draft-ietf-quic-multipath-21 section 2.4).
    fn key_retention(&self) -> Duration {
        let pto = self.paths.values().map(|p| p.rtt().pto_base()).max().unwrap_or(Duration::ZERO);
        (pto + self.peer_max_ack_delay()) * RETENTION_PTOS
    }
}

fn key_update_error(reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::KEY_UPDATE_ERROR, reason)
}
