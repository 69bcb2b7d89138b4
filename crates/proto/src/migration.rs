//! The addresses of a path besides the one in use: where the peer was before it moved, and where it probes from
//! (RFC 9000 section 9).

use units::{Duration, Instant};

use crate::{
    NetworkPath,
    config::TransportConfig,
    path::{Measured, Path, Validation},
    rtt::RttEstimator,
    wire::ConnectionId,
};

/// Bytes an unvalidated address may get for each byte it sent (RFC 9000 section 8.1).
const AMPLIFICATION_FACTOR: u64 = 3;
/// Addresses to which probes are answered at a time; the oldest makes room.
const MAX_CANDIDATES: usize = 4;
/// Challenges to the addresses that a path left, and the least time between the first two; it doubles. Those are validated and may be
/// challenged at full size, but most likely nobody is there any more (RFC 9000 section 9.3.3), and no window holds these packets back.
const MAX_CHALLENGES_BACK: u32 = 4;
const MIN_CHALLENGE_BACK: Duration = Duration::from_millis(100);
/// Probe timeouts that a new address has to answer in (RFC 9000 section 8.2.4).
const SETTLE_TIMEOUTS: u64 = 3;
/// Longest time that those of the addresses left behind give it.
const MAX_SETTLE: Duration = Duration::from_secs(5);

/// What an address that is not validated yet has sent and got.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Budget {
    /// Bytes that may still be sent there.
    pub(crate) fn left(&self) -> u64 {
        (self.received * AMPLIFICATION_FACTOR).saturating_sub(self.sent)
    }
}

/// The addresses a path left. They were validated: should the new ones not answer, the path returns (RFC 9000 section 9.3.2).
#[derive(Debug)]
pub(crate) struct Previous {
    pub(crate) network: NetworkPath,
    /// Goes to nobody else; retired when the move is settled.
    pub(crate) cid: ConnectionId,
    /// The peer's connection id for us, as used there.
    pub(crate) peer_uses: Option<ConnectionId>,
    pub(crate) validation: Validation,
    /// Until then the new addresses must have answered.
    pub(crate) settles_at: Instant,
    /// How long packets from here may be late.
    pub(crate) late: Duration,
    /// What was known of the network between them, unless the path took it along.
    pub(crate) measured: Option<Measured>,
}

/// An address that the peer probes from, or a copy of its packets came from.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) network: NetworkPath,
    pub(crate) cid: ConnectionId,
    pub(crate) budget: Budget,
    /// The PATH_CHALLENGE to answer.
    pub(crate) response: Option<[u8; 8]>,
}

/// Whether two packets travelled the same way. A local address that the operating system did not tell is like any other.
pub(crate) fn same_network(a: &NetworkPath, b: &NetworkPath) -> bool {
    let unknown = a.local.ip().is_unspecified() || b.local.ip().is_unspecified();
    a.remote == b.remote && (a.local == b.local || unknown && a.local.port() == b.local.port())
}

/// Whether only a port differs, as after a NAT has forgotten a binding: then the network is most likely the same
/// (RFC 9000 section 9.4).
pub(crate) fn same_hosts(a: &NetworkPath, b: &NetworkPath) -> bool {
    let known = !a.local.ip().is_unspecified() && !b.local.ip().is_unspecified();
    a.remote.ip() == b.remote.ip() && (a.local == b.local || known && a.local.ip() == b.local.ip())
}

impl Path {
    /// Runs between other addresses from now on. `cid` is what packets to the present ones carry, `keep` says whether what was
    /// measured still holds; `challenge` is for the addresses that are left.
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
        // A host that stood still may have left a timeout of minutes; whoever forged a packet must not hold the path for so long.
        let old_timeout = (self.rtt.pto_base() * SETTLE_TIMEOUTS).min(MAX_SETTLE);
        let settles_at = now + old_timeout.max(fresh_timeout * SETTLE_TIMEOUTS);
        if self.address_validated {
            let validation = Validation { challenge, due: challenge.is_some(), ..Validation::default() };
            let (network, peer_uses) = (self.network, self.peer_uses);
            let previous = Previous {
                network,
                cid,
                peer_uses,
                validation,
                settles_at,
                late: self.rtt.pto_base() * SETTLE_TIMEOUTS,
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
        self.budget = candidate.map_or(Budget::default(), |at| self.candidates.remove(at).budget);
        (self.pto_count, self.probes_due) = (0, 0);
        self.start_validation();
    }

    /// Returns to the addresses that were left, with what was measured there. `None` if there are none; else the connection id that
    /// packets carry again.
    pub(crate) fn move_back(&mut self) -> Option<ConnectionId> {
        let previous = *self.previous.take()?;
        self.network = previous.network;
        self.peer_uses = previous.peer_uses;
        self.address_validated = true;
        self.validation = Validation::default();
        (self.pto_count, self.probes_due) = (0, 0);
        if let Some(measured) = previous.measured {
            self.restore(measured);
        }
        Some(previous.cid)
    }

    /// Starts with the congestion window, round-trip time and datagram size of a new path; returns the old ones.
    fn measure_anew(&mut self, now: Instant, config: &TransportConfig) -> Measured {
        let fresh = Measured::new(config, &self.network, now, self.next_epoch);
        self.next_epoch += 1;
        self.swap_measured(fresh)
    }

    /// Notes a probe from elsewhere: its answer must not exceed what the address sent. Returns the connection id of a candidate that
    /// had to make room.
    pub(crate) fn add_candidate(&mut self, candidate: Candidate) -> Option<ConnectionId> {
        let full = self.candidates.len() == MAX_CANDIDATES;
        let evicted = full.then(|| self.candidates.remove(0).cid);
        self.candidates.push(candidate);
        evicted
    }

    pub(crate) fn candidate(&mut self, network: &NetworkPath) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|c| same_network(&c.network, network))
    }

    /// When to challenge the previous address again after a challenge that leaves now, should it not answer.
    pub(crate) fn next_challenge_back(&self, now: Instant) -> Option<Instant> {
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
}
