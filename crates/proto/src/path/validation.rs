//! Whether the peer receives at a path's addresses: path validation that we drive, what an address
//! that is not validated may get, and the answers that we owe (RFC 9000 section 8).

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{Path, addresses::Budget, lifecycle::Lifecycle};

/// PATH_RESPONSEs owed at once; further challenges are ignored (the peer repeats those it needs).
const MAX_RESPONSES: usize = 4;
/// PATH_CHALLENGEs sent before a path that never answered is given up.
const MAX_CHALLENGES: u32 = 6;
/// Bytes of the amplification limit that are kept for challenges: two small ones.
const CHALLENGE_RESERVE: u64 = 128;
/// Nothing useful fits less than this of an amplification budget.
pub(crate) const MIN_USEFUL_SIZE: u64 = 64;
/// A packet with a PATH_ACK of one range and ECN counts: short header 25 bytes, type, path id and five numbers
/// of up to 8 bytes (largest, delay, three counts), range count, range, tag 16.
const LARGEST_SHORT_ACK: u64 = 100;
/// Smallest datagram that shows that a path is wide enough (RFC 9000 section 8.2.1).
const FULL_SIZE: usize = 1_200;
/// First wait for a PATH_RESPONSE when no path has told a round-trip time that would justify less.
const CHALLENGE_RETRY: Duration = Duration::from_secs(1);
/// Never challenge faster than this.
const MIN_CHALLENGE_RETRY: Duration = Duration::from_millis(100);
/// Bytes of PATH_RESPONSEs that may be in flight although the window is full; further challenges
/// get none, and are repeated.
const MAX_ANSWERS_BEYOND_WINDOW: u64 = 16 * 1_200;

/// PATH_RESPONSEs that are owed.
pub(crate) type Responses = SmallVec<[[u8; 8]; MAX_RESPONSES]>;

/// Path validation that we drive (RFC 9000 section 8.2).
#[derive(Debug, Default)]
pub(super) struct Validation {
    /// The data of the last challenge; only it may be answered.
    pub(super) challenge: Option<[u8; 8]>,
    pub(super) challenges_sent: u32,
    /// A challenge must leave now.
    pub(super) due: bool,
    /// When to repeat it.
    pub(super) retry_at: Option<Instant>,
    /// Packets that had arrived on the path when the last challenge left.
    heard: u64,
    /// How wide the last challenge's datagram was.
    width: Width,
}

/// What the answer to a challenge shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Width {
    /// That the path carries 1,200 bytes.
    #[default]
    Full,
    /// Nothing of the kind: the amplification limit left too little.
    Small,
}

impl Validation {
    /// Of an address that is to be challenged with these data, if there are any.
    pub(super) fn with(challenge: Option<[u8; 8]>) -> Self {
        Self { challenge, due: challenge.is_some(), ..Self::default() }
    }

    fn is_under_way(&self) -> bool {
        self.due || self.challenge.is_some()
    }
}

/// What is known of the address that a path runs to.
#[derive(Debug, Default)]
pub(super) struct PeerAddress {
    /// It has shown that it receives (RFC 9000 section 8): no amplification limit.
    pub(super) validated: bool,
    pub(super) validation: Validation,
    /// What it sent and got, as long as it is not validated.
    pub(super) budget: Budget,
    /// The challenges that it is to get answers to.
    responses: Responses,
}

/// A datagram with PATH_CHALLENGE or PATH_RESPONSE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidationDatagram {
    /// Its bytes; at most, if it is a small one.
    pub(crate) size: usize,
    pub(crate) width: Width,
}

/// What to do about a challenge that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Nothing, or it is repeated.
    Patience,
    /// The path is to be abandoned.
    Abandon,
}

impl Path {
    /// Whether the peer has shown that it receives where the path runs.
    pub(crate) fn is_address_validated(&self) -> bool {
        self.address.validated
    }

    /// The address needs no validation, or has been validated otherwise.
    pub(crate) fn trust_address(&mut self) {
        self.address.validated = true;
    }

    /// Bytes have come from where the path runs.
    pub(crate) fn earn_budget(&mut self, bytes: u64) {
        self.address.budget.received += bytes;
    }

    /// Bytes that may be sent before the peer's address is validated.
    pub(crate) fn amplification_budget(&self) -> u64 {
        if self.address.validated {
            return u64::MAX;
        }
        self.address.budget.left()
    }

    /// What the amplification limit leaves to anything but challenges. Without the answer to one no
    /// more is ever allowed, so that nothing else may take the last of it.
    pub(crate) fn budget_beside_challenges(&self) -> u64 {
        match self.amplification_budget() {
            u64::MAX => u64::MAX,
            budget if self.address.validation.is_under_way() => budget.saturating_sub(CHALLENGE_RESERVE),
            budget => budget,
        }
    }

    /// Whether the amplification limit leaves room for a small packet.
    pub(crate) fn may_send_something(&self) -> bool {
        self.budget_beside_challenges() >= MIN_USEFUL_SIZE
    }

    /// Whether it leaves room for a full datagram.
    pub(crate) fn may_send_datagram(&self) -> bool {
        self.budget_beside_challenges() >= self.datagram_size() as u64
    }

    /// Whether it leaves room for an ACK, however large its numbers are.
    pub(crate) fn may_ack(&self) -> bool {
        self.budget_beside_challenges() >= LARGEST_SHORT_ACK
    }

    /// Asks for a challenge with fresh data.
    pub(crate) fn start_validation(&mut self) {
        self.address.validation = Validation { due: true, ..Validation::default() };
    }

    /// Only small packets seem to get through: a challenge of full size finds out, unless one is
    /// under way.
    pub(super) fn ask_for_width(&mut self) {
        let settled = self.address.validated && self.previous.is_none();
        if self.is_open() && settled && !self.address.validation.is_under_way() {
            self.start_validation();
        }
    }

    /// Notes a PATH_CHALLENGE to answer.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8]) {
        let responses = &mut self.address.responses;
        if responses.len() < MAX_RESPONSES && !responses.contains(&data) {
            responses.push(data);
        }
    }

    /// Whether `data` is what our last challenge asked to be repeated.
    pub(crate) fn is_answered_by(&self, data: [u8; 8]) -> bool {
        self.address.validation.challenge == Some(data)
    }

    /// Whether `data` answers our challenge; if so the path is validated. Returns true the first
    /// time.
    pub(crate) fn on_response(&mut self, now: Instant, data: [u8; 8]) -> bool {
        if let Some(previous) = &mut self.previous
            && previous.validation.challenge == Some(data)
        {
            previous.validation = Validation::default();
        }
        if !self.is_answered_by(data) {
            return false;
        }
        // A small datagram has not shown that full ones get through (RFC 9000 section 8.2.3).
        let again = self.address.validation.width == Width::Small;
        self.address.validation = Validation { due: again, ..Validation::default() };
        self.address.validated = true;
        if let Some(previous) = &mut self.previous {
            previous.settles_at = previous.settles_at.min(now + previous.late);
        }
        if self.lifecycle != Lifecycle::Validating {
            return false;
        }
        self.lifecycle = Lifecycle::Open;
        self.last_activity = now;
        true
    }

    /// Whether a challenge must leave now.
    pub(crate) fn is_challenge_due(&self) -> bool {
        self.address.validation.due
    }

    /// Whether a challenge or an answer to one must leave now.
    pub(crate) fn owes_validation(&self) -> bool {
        self.address.validation.due || !self.address.responses.is_empty()
    }

    /// When to repeat a challenge that is not answered.
    pub(crate) fn challenge_deadline(&self) -> Option<Instant> {
        self.address.validation.retry_at
    }

    /// The datagram for the challenges and answers that are due, of `shortest` bytes at least;
    /// `None` if it has to wait. It shows that the path carries 1,200 bytes. The first challenge
    /// tries for the largest size that we hope for. Where the amplification limit leaves less than
    /// that and some more, it is as small as it gets: its loss must leave something for another
    /// (RFC 9000 section 8.2.1).
    pub(crate) fn plan_validation(&mut self, now: Instant, shortest: usize) -> Option<ValidationDatagram> {
        let budget = usize::try_from(self.amplification_budget()).unwrap_or(usize::MAX);
        let reserve = if self.address.validated { 0 } else { CHALLENGE_RESERVE as usize };
        let padded = budget >= FULL_SIZE + reserve;
        if !padded && budget < shortest {
            return None;
        }
        let measured = &self.recovery.measured;
        // Congestion control may hold answers back (RFC 9000 section 8.2.2): without end they would
        // fill our records.
        if measured.in_flight > measured.controller.window() + MAX_ANSWERS_BEYOND_WINDOW {
            self.address.responses.clear();
            if !self.address.validation.due {
                return None;
            }
        }
        let hoped = self.hoped_size(now, budget.saturating_sub(reserve));
        if !padded {
            let size = shortest.max(budget / 3).min(FULL_SIZE);
            return Some(ValidationDatagram { size, width: Width::Small });
        }
        Some(ValidationDatagram { size: hoped.unwrap_or(FULL_SIZE), width: Width::Full })
    }

    /// The size that a first challenge tries for beyond 1,200 bytes; it then stands for a probe of
    /// the MTU.
    fn hoped_size(&mut self, now: Instant, budget: usize) -> Option<usize> {
        // On a path that carries data already, the window has a say (RFC 9000 section 14.4).
        let window = if self.is_open() { self.spare_window() } else { u64::MAX };
        let validation = &self.address.validation;
        let first_challenge = validation.due && validation.challenges_sent == 0;
        let mtu = &mut self.recovery.measured.mtu;
        let size = mtu.due(now, window)?;
        if !first_challenge || usize::from(size) > budget {
            return None;
        }
        mtu.on_sent();
        Some(usize::from(size))
    }

    /// The data of the challenge that is about to leave: `fresh`, or what an earlier one had, since
    /// an answer to any of them counts. `slowest` is the longest round-trip time that is known of
    /// any path.
    pub(crate) fn next_challenge(
        &mut self,
        now: Instant,
        slowest: Option<Duration>,
        width: Width,
        fresh: [u8; 8],
    ) -> [u8; 8] {
        let heard = self.recovery.counters.packets_received;
        let validation = &mut self.address.validation;
        let base =
            slowest.map_or(CHALLENGE_RETRY, |rtt| (rtt * 3).clamp(MIN_CHALLENGE_RETRY, CHALLENGE_RETRY));
        validation.retry_at = Some(now + base * (1 << validation.challenges_sent.min(3)));
        validation.challenges_sent += 1;
        (validation.due, validation.heard, validation.width) = (false, heard, width);
        *validation.challenge.get_or_insert(fresh)
    }

    /// The answers that leave now.
    pub(crate) fn take_responses(&mut self) -> Responses {
        core::mem::take(&mut self.address.responses)
    }

    /// Nobody has answered our challenge in time. `last`: no other path is left, then the idle
    /// timeout decides, never silence.
    pub(crate) fn on_challenge_timeout(&mut self, last: bool) -> Unanswered {
        let open = self.is_open();
        let measured = &mut self.recovery.measured;
        let validation = &mut self.address.validation;
        validation.retry_at = None;
        // A network that drops marks since a while ago must not drop every challenge.
        measured.ecn.on_silence(validation.challenges_sent);
        if self.previous.is_some() || last || validation.challenges_sent < MAX_CHALLENGES {
            // A move is settled by its own deadline.
            validation.due = true;
        } else if open {
            // It answered once. If it has turned too narrow for QUIC, others do better; else the
            // probe timeout sees to it.
            if !self.address.validated {
                validation.due = true;
            } else if measured.mtu.is_narrow() {
                return Unanswered::Abandon;
            } else {
                *validation = Validation::default();
            }
        } else if self.recovery.counters.packets_received > validation.heard {
            // Whoever still sends there may count on it, and may have no other path soon.
            validation.due = true;
        } else {
            return Unanswered::Abandon;
        }
        Unanswered::Patience
    }
}
