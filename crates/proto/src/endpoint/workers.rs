//! An endpoint as several workers, each with connections of its own.
//!
//! On the way of a packet they share nothing. They share what makes them one endpoint to the world:
//! the keys of tokens and resets, which tokens have been used, which reset tokens there are, and how
//! many connections. That is looked at for set-ups and strangers.

use std::sync::Arc;

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};

use super::{
    Endpoint, EndpointOutput, EndpointStats, REFUSALS_PER_SECOND, RESETS_PER_SECOND, RateLimit, lobby::Lobby,
};
use crate::{steering::Steering, wire::HeaderKind};

impl Endpoint {
    /// Decides how packets find their worker among so many, at most [`Steering::MAX_WORKERS`].
    pub fn steering(&mut self, workers: usize) -> Steering {
        Steering::new(workers, self.rng.next_u32())
    }

    /// Splits the endpoint into workers that have all its addresses in common. A packet is for the
    /// worker that [`Steering::worker_of`] tells from its destination connection id; one that comes
    /// to another all the same is [`EndpointOutput::Misdirected`], once. To be called before the
    /// first connection.
    ///
    /// [`ServerConfig::max_connections`](crate::ServerConfig::max_connections) holds for all of
    /// them together; each may let in one too many if they do so at the same moment. Of
    /// [`max_half_open`](crate::ServerConfig::max_half_open), and of what may be answered to
    /// strangers per second, each has an equal part.
    pub fn into_workers(mut self, steering: Steering) -> Vec<Self> {
        let workers = steering.workers() as usize;
        (0..workers).map(|at| self.worker(steering, at)).collect()
    }

    /// The length of the connection ids that it issues, in bytes.
    pub fn cid_len(&self) -> usize {
        self.cids.len()
    }

    fn worker(&mut self, steering: Steering, at: usize) -> Self {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let part = |per_second: u32| RateLimit::new(per_second.div_ceil(steering.workers()));
        Self {
            server: self.server.clone(),
            rng: ChaCha12Rng::from_seed(seed),
            reset_key: self.reset_key.clone(),
            cids: self.cids.for_worker(steering, at),
            token_key: Arc::clone(&self.token_key),
            used_tokens: Arc::clone(&self.used_tokens),
            routes: self.routes.for_worker(at),
            workers: steering.workers() as usize,
            lobby: Lobby::default(),
            evicted: Default::default(),
            resets: part(RESETS_PER_SECOND),
            refusals: part(REFUSALS_PER_SECOND),
            stats: EndpointStats::default(),
        }
    }

    /// This worker's part of a limit.
    pub(super) fn part(&self, limit: usize) -> usize {
        limit.div_ceil(self.workers)
    }

    /// What is for `worker` by its connection id, or for another still if it is a reset: the
    /// connection id of a reset is random (RFC 9000 section 10.3).
    pub(super) fn hand_on(
        &mut self,
        worker: usize,
        kind: &HeaderKind<'_>,
        datagram: &[u8],
    ) -> EndpointOutput {
        let reset = match kind {
            HeaderKind::Short => self.reset_of_a_connection(datagram),
            _ => None,
        };
        let output = reset.unwrap_or(EndpointOutput::Misdirected(worker));
        self.stats.misdirected += u64::from(matches!(output, EndpointOutput::Misdirected(_)));
        output
    }

    /// The connection that a datagram with this end resets, or whose it is.
    pub(super) fn reset_of_a_connection(&self, datagram: &[u8]) -> Option<EndpointOutput> {
        let (worker, handle) = self.routes.by_reset_token(datagram)?;
        Some(match worker == self.routes.worker() {
            true => EndpointOutput::ToConnection(handle),
            false => EndpointOutput::Misdirected(worker),
        })
    }
}

impl EndpointStats {
    /// Adds what another worker of the same endpoint counted.
    pub fn add(&mut self, other: &Self) {
        let Self {
            accepted,
            half_open,
            evicted,
            evicted_by_network,
            retries_sent,
            refused,
            version_negotiations_sent,
            resets_sent,
            misdirected,
            dropped,
        } = other;
        self.accepted += accepted;
        self.half_open += half_open;
        self.evicted += evicted;
        self.evicted_by_network += evicted_by_network;
        self.retries_sent += retries_sent;
        self.refused += refused;
        self.version_negotiations_sent += version_negotiations_sent;
        self.resets_sent += resets_sent;
        self.misdirected += misdirected;
        self.dropped += dropped;
    }
}
