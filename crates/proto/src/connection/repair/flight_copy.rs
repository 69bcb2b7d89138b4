//! The handshake's flights once more: SLP for SYN and SYN/ACK (section II-C1, SLP-A4).
//!
//! Nothing is known of the path yet, and a lost flight costs a probe timeout of a second or more.
//! If the policy says so, what a flight carried and nobody has acknowledged leaves again a moment
//! later, once, within the window and the amplification limit. If probes get no answer either, some
//! datagrams of it may follow these, one after the other.

use units::Instant;

use crate::{connection::Connection, crypto::Level, policy::Flight};

/// Room that a copy leaves of the amplification limit, for what comes next.
const RESERVE: u64 = 1_200;
/// In such a part of a probe timeout, the next datagram follows its probes.
const PER_TIMEOUT: u64 = 8;

/// Where the copy of the last flight stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlightCopy {
    /// When it is to leave.
    pub(super) due: Option<Instant>,
    /// It is leaving.
    leaving: bool,
    /// So many datagrams are to follow the probes of the last timeout.
    after_probes: u8,
}

impl Connection {
    /// A datagram of the handshake with `bytes` is about to leave; `fresh` if it carries something
    /// for the first time.
    pub(in crate::connection) fn note_flight(&mut self, now: Instant, fresh: bool, bytes: u64) {
        if fresh {
            let path = self.path_zero();
            let (rtt, known_loss) = (path.rtt(), path.known_loss());
            let flight = Flight {
                bytes,
                timeout: rtt.pto_base(),
                rtt: rtt.first_sample_at().map(|_| rtt.smoothed()),
                known_loss,
            };
            self.repair.flight_copy.leaving = false;
            self.repair.flight_copy.due = self.repair.policy.on_flight(&flight).map(|gap| now + gap);
        } else if self.repair.flight_copy.leaving {
            self.stats.handshake_copies += 1;
            self.stats.copies_sent += 1;
            self.stats.recovery_bytes_sent += bytes;
            self.path_zero().count_copy();
            self.repair.flight_copy.leaving = self.has_flight_pending();
        }
    }

    /// A probe timeout has come, maybe before all of a copy left: what leaves from now on are probes, and
    /// those may exceed the window, as no copy may. Copies follow later.
    pub(in crate::connection) fn on_flight_timeout(&mut self, now: Instant) {
        let path = self.path_zero();
        let (gap, nth) = (path.rtt().pto_base() / PER_TIMEOUT, path.pto_count() + 1);
        let after_probes = self.repair.policy.on_flight_timeout(nth);
        let due = (after_probes > 0).then_some(now + gap);
        self.repair.flight_copy = FlightCopy { due, leaving: false, after_probes };
    }

    /// Copies the last flight if the time has come.
    pub(in crate::connection) fn copy_flight_if_due(&mut self, now: Instant) {
        if self.repair.flight_copy.due.is_some_and(|t| t <= now) {
            self.copy_flight(now);
        }
    }

    /// Makes what is un-ACKed of the flight pending again, or the oldest of it after a timeout, if it fits
    /// the window and the amplification limit.
    fn copy_flight(&mut self, now: Instant) {
        let after_probes = core::mem::take(&mut self.repair.flight_copy).after_probes;
        let unacked = self.handshake.spaces().flat_map(|s| s.space.sent().iter());
        let bytes: u64 =
            unacked.filter(|(_, p)| !p.frames.crypto.is_empty()).map(|(_, p)| u64::from(p.size)).sum();
        let Some(path) = self.paths.of_handshake() else { return };
        let (silent, gap) = (path.pto_count() > 0, path.rtt().pto_base() / PER_TIMEOUT);
        let bytes = if after_probes > 0 { bytes.min(path.datagram_size() as u64) } else { bytes };
        let fits = path.spare_window() >= bytes && path.amplification_budget() >= bytes + RESERVE;
        if bytes == 0 || !fits || self.has_flight_pending() {
            return;
        }
        if after_probes > 0 {
            if silent {
                let left = after_probes - 1;
                let due = (left > 0).then_some(now + gap);
                self.repair.flight_copy = FlightCopy { due, leaving: true, after_probes: left };
                self.datagram_of_flight_again();
            }
            return;
        }
        self.repair.flight_copy.leaving = true;
        for level in [Level::Initial, Level::Handshake] {
            self.flight_again(level);
        }
    }

    /// Makes the un-ACKed CRYPTO data of a level pending again.
    pub(in crate::connection) fn flight_again(&mut self, level: Level) {
        let Some(space) = self.handshake.space(level) else { return };
        let ranges: Vec<_> = space.space.sent().iter().flat_map(|(_, p)| p.frames.crypto.clone()).collect();
        for range in ranges {
            self.handshake.crypto_mut(level).on_lost(range);
        }
    }

    /// Makes the oldest un-ACKed CRYPTO data of a level pending again, at most so many bytes;
    /// returns how many.
    pub(in crate::connection) fn oldest_again(&mut self, level: Level, most: u64) -> u64 {
        let Some(space) = self.handshake.space(level) else { return 0 };
        let ranges: Vec<_> = space.space.sent().iter().flat_map(|(_, p)| p.frames.crypto.clone()).collect();
        let mut left = most;
        for range in ranges {
            left -= self.handshake.crypto_mut(level).repeat(range, left);
        }
        most - left
    }

    pub(in crate::connection) fn has_flight_pending(&self) -> bool {
        [Level::Initial, Level::Handshake].iter().any(|level| {
            self.handshake.space(*level).is_some() && self.handshake.crypto(*level).has_pending()
        })
    }
}
