//! The addresses of a path besides the one in use: where the peer was before it moved, and where it
//! probes from (RFC 9000 section 9).

use units::{Duration, Instant};

use super::{
    Path,
    measured::Measured,
    rtt::RttEstimator,
    validation::{MIN_USEFUL_SIZE, Validation},
};
use crate::{
    NetworkPath,
    config::TransportConfig,
    wire::{ConnectionId, Frame, PathChallenge, PathResponse},
};

/// Smallest size of a datagram with PATH_CHALLENGE or PATH_RESPONSE, if the amplification limit
/// permits (RFC 9000 section 8.2.1).
const MIN_CHALLENGE_SIZE: usize = 1_200;

/// Bytes an unvalidated address may get for each byte it sent (RFC 9000 section 8.1).
const AMPLIFICATION_FACTOR: u64 = 3;
/// Addresses to which probes are answered at a time; the oldest makes room.
const MAX_CANDIDATES: usize = 4;
/// Challenges to the addresses that a path left, and the least time between the first two; it
/// doubles. Those are validated and may be challenged at full size, but most likely nobody is there
/// any more (RFC 9000 section 9.3.3), and no window holds these packets back.
const MAX_CHALLENGES_BACK: u32 = 4;
const MIN_CHALLENGE_BACK: Duration = Duration::from_millis(100);
/// Probe timeouts that a new address has to answer in (RFC 9000 section 8.2.4).
const SETTLE_TIMEOUTS: u64 = 3;
/// Longest time that those of the addresses left behind give it.
const MAX_SETTLE: Duration = Duration::from_secs(5);

/// What an address that is not validated yet has sent and got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl Budget {
    /// Bytes that may still be sent there.
    pub(super) fn left(&self) -> u64 {
        (self.received * AMPLIFICATION_FACTOR).saturating_sub(self.sent)
    }
}

/// The addresses a path left. They were validated: should the new ones not answer, the path returns
/// (RFC 9000 section 9.3.2).
#[derive(Debug)]
pub(super) struct Previous {
    pub(super) network: NetworkPath,
    /// Goes to nobody else; retired when the move is settled.
    pub(super) cid: ConnectionId,
    /// The peer's connection id for us, as used there.
    pub(super) peer_uses: Option<ConnectionId>,
    pub(super) validation: Validation,
    /// Until then the new addresses must have answered.
    pub(super) settles_at: Instant,
    /// How long packets from here may be late.
    pub(super) late: Duration,
    /// What was known of the network between them, unless the path took it along.
    pub(super) measured: Option<Measured>,
}

/// An address that the peer probes from, or a copy of its packets came from.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) network: NetworkPath,
    pub(super) cid: ConnectionId,
    pub(super) budget: Budget,
    /// The PATH_CHALLENGE to answer.
    pub(super) response: Option<[u8; 8]>,
}

impl Candidate {
    /// Whether an answer waits that the amplification limit lets leave.
    fn is_answered_now(&self) -> bool {
        self.response.is_some() && self.budget.left() >= MIN_USEFUL_SIZE
    }
}

/// A packet to other addresses than the path's own.
pub(crate) struct OffPath {
    pub(crate) network: NetworkPath,
    pub(crate) cid: ConnectionId,
    pub(crate) frame: Frame<'static>,
    /// Its size, which the amplification limit allows.
    pub(crate) size: usize,
}

/// Whether two packets travelled the same way. A local address that the operating system did not
/// tell is like any other.
pub(crate) fn same_network(a: &NetworkPath, b: &NetworkPath) -> bool {
    let unknown = a.local.ip().is_unspecified() || b.local.ip().is_unspecified();
    a.remote == b.remote && (a.local == b.local || unknown && a.local.port() == b.local.port())
}

/// Whether only a port differs, as after a NAT has forgotten a binding: then the network is most
/// likely the same (RFC 9000 section 9.4).
fn same_hosts(a: &NetworkPath, b: &NetworkPath) -> bool {
    let known = !a.local.ip().is_unspecified() && !b.local.ip().is_unspecified();
    a.remote.ip() == b.remote.ip() && (a.local == b.local || known && a.local.ip() == b.local.ip())
}

impl Path {
    /// Runs between other addresses from now on. `cid` is what packets to the present ones carry,
    /// `keep` says whether what was measured still holds; `challenge` is for the addresses that are
    /// left.
    pub(crate) fn move_to(
        &mut self,
        now: Instant,
        network: NetworkPath,
        cid: ConnectionId,
        config: &TransportConfig,
        challenge: Option<[u8; 8]>,
    ) {
        let keep = same_hosts(&self.network, &network);
        let fresh_timeout = RttEstimator::new(config.initial_rtt.into()).pto_base();
        // A host that stood still may have left a timeout of minutes; whoever forged a packet must
        // not hold the path for so long.
        let old_timeout = (self.rtt().pto_base() * SETTLE_TIMEOUTS).min(MAX_SETTLE);
        let settles_at = now + old_timeout.max(fresh_timeout * SETTLE_TIMEOUTS);
        if self.address.validated {
            let validation = Validation::with(challenge);
            let (network, peer_uses) = (self.network, self.peer_uses);
            let previous = Previous {
                network,
                cid,
                peer_uses,
                validation,
                settles_at,
                late: self.rtt().pto_base() * SETTLE_TIMEOUTS,
                measured: None,
            };
            self.previous = Some(Box::new(previous));
        } else if let Some(previous) = &mut self.previous {
            previous.settles_at = settles_at;
        }
        self.network = network;
        if !keep {
            let measured = self.measure_anew(now, config);
            if let Some(previous) = &mut self.previous {
                previous.measured.get_or_insert(measured);
            }
        }
        let candidate = self.candidates.iter().position(|c| same_network(&c.network, &network));
        self.address.budget = candidate.map_or(Budget::default(), |at| self.candidates.remove(at).budget);
        self.recovery.timeouts.forget();
        self.start_validation();
    }

    /// Returns to the addresses that were left, with what was measured there. `None` if there are
    /// none; else the connection id that packets carry again.
    pub(crate) fn move_back(&mut self) -> Option<ConnectionId> {
        let previous = *self.previous.take()?;
        self.network = previous.network;
        self.peer_uses = previous.peer_uses;
        self.address.validated = true;
        self.address.validation = Validation::default();
        self.recovery.timeouts.forget();
        if let Some(measured) = previous.measured {
            self.restore(measured);
        }
        Some(previous.cid)
    }

    /// Starts with the congestion window, round-trip time and datagram size of a new path; returns
    /// the old ones.
    fn measure_anew(&mut self, now: Instant, config: &TransportConfig) -> Measured {
        let fresh = Measured::new(config, &self.network, now, self.next_epoch);
        self.next_epoch = self.next_epoch.next();
        self.swap_measured(fresh)
    }

    /// Whether the path left these addresses and may return.
    pub(crate) fn came_from(&self, network: &NetworkPath) -> bool {
        self.previous.as_ref().is_some_and(|p| same_network(&p.network, network))
    }

    /// The same, for addresses that must be equal.
    pub(crate) fn came_from_exactly(&self, network: &NetworkPath) -> bool {
        self.previous.as_ref().is_some_and(|p| p.network == *network)
    }

    /// Whether `data` is what our last challenge asked of addresses that the path has moved to.
    pub(crate) fn move_is_answered_by(&self, data: [u8; 8]) -> bool {
        self.previous.is_some() && self.is_answered_by(data)
    }

    /// The connection id for the addresses that the path left, if those are validated and a further
    /// move would give them up.
    pub(crate) fn given_up_by_moving(&self) -> Option<ConnectionId> {
        if !self.address.validated {
            return None;
        }
        self.previous.as_ref().map(|p| p.cid)
    }

    /// The move is settled: the addresses that the path left are forgotten. Returns the connection
    /// id for them.
    pub(crate) fn settle(&mut self) -> Option<ConnectionId> {
        self.previous.take().map(|previous| previous.cid)
    }

    /// The new address has to show that it receives.
    pub(crate) fn distrust_address(&mut self) {
        self.address.validated = false;
    }

    /// Which of our connection ids the peer's newest packet carried.
    pub(crate) fn peer_uses(&self) -> Option<ConnectionId> {
        self.peer_uses
    }

    pub(crate) fn note_peer_uses(&mut self, cid: ConnectionId) {
        self.peer_uses = Some(cid);
    }

    /// Counts bytes that came from elsewhere; false if nothing is known of those addresses.
    pub(crate) fn earn_budget_elsewhere(&mut self, network: &NetworkPath, bytes: u64) -> bool {
        let candidate = self.candidate(network);
        candidate.map(|c| c.budget.received += bytes).is_some()
    }

    /// Notes addresses that the peer probes from: an answer must not exceed the bytes that came
    /// from there. Returns the connection id of the candidate that had to make room.
    pub(crate) fn add_candidate(
        &mut self,
        network: NetworkPath,
        cid: ConnectionId,
        bytes: u64,
    ) -> Option<ConnectionId> {
        let full = self.candidates.len() == MAX_CANDIDATES;
        let evicted = if full { self.drop_oldest_candidate() } else { None };
        let budget = Budget { received: bytes, sent: 0 };
        self.candidates.push(Candidate { network, cid, budget, response: None });
        evicted
    }

    /// Forgets the candidate that came first; returns its connection id.
    pub(crate) fn drop_oldest_candidate(&mut self) -> Option<ConnectionId> {
        (!self.candidates.is_empty()).then(|| self.candidates.remove(0).cid)
    }

    /// Forgets every candidate; returns their connection ids.
    pub(crate) fn take_candidates(&mut self) -> impl Iterator<Item = ConnectionId> + use<> {
        core::mem::take(&mut self.candidates).into_iter().map(|candidate| candidate.cid)
    }

    /// The connection id for packets to addresses that the peer probes from.
    pub(crate) fn candidate_cid(&self, network: &NetworkPath) -> Option<ConnectionId> {
        self.candidates.iter().find(|c| same_network(&c.network, network)).map(|c| c.cid)
    }

    /// Notes a PATH_CHALLENGE that came from elsewhere.
    pub(crate) fn on_challenge_elsewhere(&mut self, network: &NetworkPath, data: [u8; 8]) {
        if let Some(candidate) = self.candidate(network) {
            candidate.response = Some(data);
        }
    }

    fn candidate(&mut self, network: &NetworkPath) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|c| same_network(&c.network, network))
    }

    /// Whether packets to addresses beside the path's own carry this connection id.
    pub(crate) fn needs_cid(&self, cid: &ConnectionId) -> bool {
        self.previous.as_ref().is_some_and(|p| p.cid == *cid) || self.candidates.iter().any(|c| c.cid == *cid)
    }

    /// Whether something waits for [`next_off_path`](Self::next_off_path).
    pub(crate) fn has_off_path(&self) -> bool {
        self.previous.as_ref().is_some_and(|p| p.validation.due)
            || self.candidates.iter().any(Candidate::is_answered_now)
    }

    /// A challenge to the addresses that the path left, or an answer to a probe.
    pub(crate) fn next_off_path(&mut self, now: Instant) -> Option<OffPath> {
        let again = self.next_challenge_back(now);
        if let Some(previous) = &mut self.previous
            && previous.validation.due
        {
            let validation = &mut previous.validation;
            validation.due = false;
            validation.retry_at = again;
            validation.challenges_sent += 1;
            let frame = Frame::PathChallenge(PathChallenge(validation.challenge?));
            let (network, cid) = (previous.network, previous.cid);
            return Some(OffPath { network, cid, frame, size: MIN_CHALLENGE_SIZE });
        }
        let candidate = self.candidates.iter_mut().find(|c| c.is_answered_now())?;
        let size = usize::try_from(candidate.budget.left()).unwrap_or(usize::MAX).min(MIN_CHALLENGE_SIZE);
        candidate.budget.sent += size as u64;
        let frame = Frame::PathResponse(PathResponse(candidate.response.take()?));
        Some(OffPath { network: candidate.network, cid: candidate.cid, frame, size })
    }

    /// When to challenge the previous address again after a challenge that leaves now, should it
    /// not answer.
    fn next_challenge_back(&self, now: Instant) -> Option<Instant> {
        let previous = self.previous.as_ref()?;
        let sent = previous.validation.challenges_sent;
        let interval = (previous.late / SETTLE_TIMEOUTS).max(MIN_CHALLENGE_BACK) * (1 << sent.min(16));
        (sent + 1 < MAX_CHALLENGES_BACK).then(|| now + interval)
    }

    /// Deadlines of a move that is not settled.
    pub(crate) fn move_deadline(&self) -> Option<Instant> {
        let previous = self.previous.as_ref()?;
        previous.validation.retry_at.into_iter().chain([previous.settles_at]).min()
    }

    /// Challenges the addresses that the path left once more if it is time; true if the move must
    /// be settled.
    pub(crate) fn on_move_timeout(&mut self, now: Instant) -> bool {
        let Some(previous) = &mut self.previous else { return false };
        if previous.settles_at <= now {
            return true;
        }
        let validation = &mut previous.validation;
        if validation.retry_at.is_some_and(|t| t <= now) {
            (validation.retry_at, validation.due) = (None, true);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PathId;

    /// Of a datagram with two packets the second brings no bytes of its own.
    #[test]
    fn an_answer_that_nobody_has_paid_for_leaves_after_others() {
        let network = |host: u8| {
            let end = |host: u8, port: u16| ([192, 0, 2, host], port).into();
            NetworkPath { local: end(1, 1), remote: end(host, 2) }
        };
        let mut path = Path::new(PathId::ZERO, network(2), &TransportConfig::default(), Instant::ORIGIN);
        for (host, bytes) in [(3, 0), (4, 1_200)] {
            path.add_candidate(network(host), ConnectionId::EMPTY, bytes);
            path.on_challenge_elsewhere(&network(host), [host; 8]);
        }
        assert!(path.has_off_path());
        let answer = path.next_off_path(Instant::ORIGIN).map(|packet| (packet.network, packet.size));
        assert_eq!(answer, Some((network(4), 1_200)));
        assert!(!path.has_off_path() && path.next_off_path(Instant::ORIGIN).is_none());
        assert!(path.earn_budget_elsewhere(&network(3), 100));
        let answer = path.next_off_path(Instant::ORIGIN).map(|packet| (packet.network, packet.size));
        assert_eq!(answer, Some((network(3), 300)));
    }
}
