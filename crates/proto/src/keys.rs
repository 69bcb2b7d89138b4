//! The keys of 1-RTT packets and how they follow each other (RFC 9001 section 6).
//!
//! Three keys are at hand to open packets with: the current one, the previous one for packets that
//! come late, and the next one, made ahead of need, so that a packet with a flipped key phase bit
//! costs one failed decryption and no key derivation, and how long a packet takes does not tell its
//! bit (section 9.5). Where nothing comes for long, the next one is given up and made again for the
//! first packet that does, whatever its bit. The next one to seal with is made when it is needed. All paths share one key phase (draft-ietf-quic-multipath-21
//! section 2.4); where it begins in each path's packet numbers is in [`PhaseBounds`].

use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};
use units::Instant;

/// Which keys open a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPhase {
    Previous,
    Current,
    Next,
}

/// Keys of both directions at the 1-RTT level.
pub(crate) struct OneRttKeys {
    /// Header protection is not updated (RFC 9001 section 6).
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    current: PacketKeySet,
    /// What late packets of the previous phase are opened with.
    previous: Option<Box<dyn PacketKey>>,
    /// When `previous` is dropped, known once the peer uses the current phase.
    pub(crate) previous_until: Option<Instant>,
    /// No update of ours begins before.
    pub(crate) settled_at: Option<Instant>,
    /// What packets of the next phase are opened with, if any have come since it was given up.
    next: Option<Box<dyn PacketKey>>,
    /// What the next phase follows from.
    secrets: Secrets,
    /// The key phase bit of the current phase.
    bit: bool,
    /// Packets sealed in the current phase.
    pub(crate) sealed: u64,
    /// Packets that did not authenticate, in all phases (RFC 9001 section 6.6).
    pub(crate) failed: u64,
    /// We have sent an ACK for a packet of the current phase: the peer may update again.
    pub(crate) acknowledged: bool,
    /// The application asked for an update.
    pub(crate) requested: bool,
}

impl OneRttKeys {
    pub(crate) fn new(keys: Keys, secrets: Secrets) -> Self {
        Self {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            current: PacketKeySet { local: keys.local.packet, remote: keys.remote.packet },
            previous: None,
            previous_until: None,
            settled_at: None,
            next: None,
            secrets,
            bit: false,
            sealed: 0,
            failed: 0,
            // The first update needs no ACK of a packet, only a confirmed handshake (section 6.1).
            acknowledged: true,
            requested: false,
        }
    }

    /// What to seal with: packet key, header key.
    pub(crate) fn local(&self) -> (&dyn PacketKey, &dyn HeaderProtectionKey) {
        (&*self.current.local, &*self.local_header)
    }

    pub(crate) fn remote_header(&self) -> &dyn HeaderProtectionKey {
        &*self.remote_header
    }

    /// What opens packets of a phase.
    pub(crate) fn remote(&mut self, phase: KeyPhase) -> &dyn PacketKey {
        let Self { next, secrets, .. } = self;
        let next = next.get_or_insert_with(|| secrets.clone().next_packet_keys().remote);
        match (phase, &self.previous) {
            (KeyPhase::Previous, Some(previous)) => &**previous,
            (KeyPhase::Previous | KeyPhase::Current, _) => &*self.current.remote,
            (KeyPhase::Next, _) => &**next,
        }
    }

    /// Nothing has come for long: gives up what is made again from the secrets when something comes.
    pub(crate) fn rest(&mut self) {
        self.next = None;
    }

    /// The key phase bit to send.
    pub(crate) fn bit(&self) -> bool {
        self.bit
    }

    pub(crate) fn has_previous(&self) -> bool {
        self.previous.is_some()
    }

    /// The phase of a received packet, from its key phase bit and, where that is ambiguous, its
    /// number.
    pub(crate) fn phase_of(&self, bit: bool, number: u64, bounds: &PhaseBounds) -> KeyPhase {
        if bit == self.bit {
            KeyPhase::Current
        } else if self.has_previous() && bounds.first_received.is_none_or(|first| number < first) {
            KeyPhase::Previous
        } else {
            KeyPhase::Next
        }
    }

    /// Packets that may be sealed with one key (RFC 9001 section 6.6).
    pub(crate) fn confidentiality_limit(&self) -> u64 {
        self.current.local.confidentiality_limit()
    }

    /// Whether more packets have failed to authenticate than the AEAD can bear (RFC 9001
    /// section 6.6).
    pub(crate) fn integrity_is_spent(&self) -> bool {
        self.failed >= self.current.remote.integrity_limit()
    }

    /// Moves on to the next phase.
    pub(crate) fn update(&mut self) {
        let old = core::mem::replace(&mut self.current, self.secrets.next_packet_keys());
        self.next = Some(self.secrets.clone().next_packet_keys().remote);
        self.previous = Some(old.remote);
        (self.previous_until, self.settled_at) = (None, None);
        self.bit = !self.bit;
        self.sealed = 0;
        self.acknowledged = false;
        self.requested = false;
    }

    /// Forgets what has had its time.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.previous_until.is_some_and(|t| t <= now) {
            (self.previous, self.previous_until) = (None, None);
        }
        self.settled_at = self.settled_at.filter(|t| *t > now);
    }
}

/// Where the current key phase begins in the packet numbers of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PhaseBounds {
    /// The first number that we sent in this phase, or will.
    pub(crate) first_sent: u64,
    /// A packet that we sent in this phase has been acknowledged.
    pub(crate) confirmed: bool,
    /// The smallest number received in this phase.
    pub(crate) first_received: Option<u64>,
    /// The largest number received in earlier phases.
    pub(crate) last_before: Option<u64>,
}

impl PhaseBounds {
    /// A new phase begins: the next number to be sent, and the largest received so far.
    pub(crate) fn on_update(&mut self, next_number: u64, largest_received: Option<u64>) {
        *self = Self {
            first_sent: next_number,
            confirmed: false,
            first_received: None,
            last_before: largest_received,
        };
    }
}
