//! Connection ids of both directions, per path (RFC 9000 section 5.1, draft-ietf-quic-multipath-21
//! section 3.2).

mod of_path;
mod rows;

use std::sync::{Arc, Mutex, PoisonError};

use rand_chacha::rand_core::RngCore;
use ring::hmac;

use crate::{
    by_path::ByPath,
    quic_lb::{Nonces, QuicLb},
    steering::Steering,
    wire::{ConnectionId, PathId, ResetToken, TransportError, TransportErrorCode},
};
use of_path::{IssuedCid, LocalPathCids, RemoteCid, RemotePathCids, has_issued};
use rows::{Row as _, Rows};

/// Length of the connection ids that we issue, unless they are for balancers to read
/// ([`QuicLb`]).
pub const CID_LEN: usize = 8;
/// Connection ids that the peer may have active for us, per path: our active_connection_id_limit.
pub(crate) const ACTIVE_CID_LIMIT: u64 = 4;
/// Connection ids that we keep issued for a path that is not open: to open it takes one
/// (draft-ietf-quic-multipath-21 section 3.2), and nearly all of them never open.
pub(crate) const ISSUED_UNUSED: u64 = 1;
/// The same for a path in use: addresses may change several times before spent ids are replaced.
pub(crate) const ISSUED_IN_USE: u64 = 4;

/// Makes the connection ids of an endpoint: random ones, or such that balancers can read; where the
/// endpoint has workers, such that lead to this one. Clones share their nonces.
#[derive(Clone)]
pub(crate) struct CidMaker {
    readable: Option<(Arc<QuicLb>, Arc<Mutex<Nonces>>)>,
    home: Option<(Steering, usize)>,
}

impl CidMaker {
    /// Random connection ids of [`CID_LEN`] bytes.
    pub(crate) const RANDOM: Self = Self { readable: None, home: None };

    /// Connection ids for balancers with this configuration; `key` decides the order of nonces.
    pub(crate) fn readable(config: QuicLb, key: &[u8; QuicLb::KEY_LEN]) -> Self {
        let nonces = Arc::new(Mutex::new(Nonces::new(key)));
        Self { readable: Some((Arc::new(config), nonces)), home: None }
    }

    /// The same for one of several workers. Each goes through all nonces on its own and uses those
    /// that lead to it: no two use the same one.
    pub(crate) fn for_worker(&self, steering: Steering, worker: usize) -> Self {
        let own = |(config, nonces): &(_, Arc<Mutex<Nonces>>)| {
            let nonces = nonces.lock().unwrap_or_else(PoisonError::into_inner).clone();
            (Arc::clone(config), Arc::new(Mutex::new(nonces)))
        };
        Self { readable: self.readable.as_ref().map(own), home: Some((steering, worker)) }
    }

    /// The other worker that packets to `cid` are for.
    pub(crate) fn elsewhere(&self, cid: &[u8]) -> Option<usize> {
        let (steering, home) = self.home?;
        Some(steering.worker_of(cid)).filter(|worker| *worker != home)
    }

    /// The length of all of them.
    pub(crate) fn len(&self) -> usize {
        self.readable.as_ref().map_or(CID_LEN, |(config, _)| config.cid_len())
    }

    /// A new one: as many attempts as there are workers, on average.
    pub(crate) fn make(&self, rng: &mut impl RngCore) -> ConnectionId {
        loop {
            let cid = self.attempt(rng);
            if self.elsewhere(&cid).is_none() {
                return cid;
            }
        }
    }

    fn attempt(&self, rng: &mut impl RngCore) -> ConnectionId {
        match &self.readable {
            None => random_cid(rng),
            Some((config, nonces)) => {
                let mut nonce = [0; ConnectionId::MAX_LEN];
                let nonce = &mut nonce[..config.nonce_len()];
                nonces.lock().unwrap_or_else(PoisonError::into_inner).fill(nonce);
                config.encode(nonce, rng.next_u32() as u8)
            }
        }
    }

    /// Whether a connection id that nobody here has may be one that we have forgotten. One that a
    /// balancer should have brought to another server is not: a reset made with the key that the
    /// servers share would end a connection that lives, and so would one of a worker about what
    /// another worker has.
    pub(crate) fn may_have_made(&self, cid: &ConnectionId) -> bool {
        self.elsewhere(cid).is_none() && self.readable.as_ref().is_none_or(|(config, _)| config.is_ours(cid))
    }
}

/// A connection id that tells nothing.
pub(crate) fn random_cid(rng: &mut impl RngCore) -> ConnectionId {
    let mut bytes = [0; CID_LEN];
    rng.fill_bytes(&mut bytes);
    ConnectionId::new(&bytes).expect("eight bytes fit")
}

/// Token that lets the peer recognise our stateless reset for `cid` (RFC 9000 section 10.3.2).
pub(crate) fn reset_token(key: &hmac::Key, cid: &ConnectionId) -> ResetToken {
    let tag = hmac::sign(key, cid);
    ResetToken(*tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}

/// A connection id we issued; the peer puts it into packets for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalCid {
    pub(crate) sequence: u64,
    pub(crate) cid: ConnectionId,
    pub(crate) token: ResetToken,
}

/// Both ends' connection ids.
pub(crate) struct CidRegistry {
    local: Rows<LocalPathCids>,
    remote: Rows<RemotePathCids>,
    /// The one that was looked for last, with its path: the next packet mostly bears it as well.
    latest: Option<(PathId, ConnectionId)>,
    /// The first of the peer's for every path that packets take.
    destinations: ByPath<ConnectionId>,
    reset_key: Arc<hmac::Key>,
    maker: CidMaker,
    /// Reset tokens may have changed since the endpoint was told.
    resets_changed: bool,
    /// RETIRE_CONNECTION_ID frames that the peer has not acknowledged.
    retiring: usize,
}

impl CidRegistry {
    /// A registry for a connection whose first packets carry `local` (ours) and `remote` (what we
    /// send to).
    pub(crate) fn new(
        local: ConnectionId,
        remote: ConnectionId,
        reset_key: Arc<hmac::Key>,
        maker: CidMaker,
    ) -> Self {
        let mut registry = Self {
            local: Rows::new(),
            remote: Rows::new(),
            latest: None,
            destinations: ByPath::new(),
            reset_key,
            maker,
            resets_changed: false,
            retiring: 0,
        };
        let first = IssuedCid { sequence: 0, cid: local };
        registry.local.change(PathId::ZERO, |cids| {
            *cids = LocalPathCids { issued: vec![first], next_sequence: 1, retire_prior_to: 0 };
        });
        registry.set_initial_remote(remote);
        registry
    }

    /// Changes what is known of the peer's connection ids for a path.
    fn change_remote<R>(&mut self, path: PathId, change: impl FnOnce(&mut RemotePathCids) -> R) -> R {
        self.remote.change(path, |cids| {
            let outcome = change(cids);
            match cids.known.first() {
                Some(first) if cids.in_use => _ = self.destinations.insert(path, first.cid),
                _ => _ = self.destinations.remove(&path),
            }
            outcome
        })
    }

    /// The same for a path for which there are any.
    fn change_known_remote<R>(
        &mut self,
        path: PathId,
        change: impl FnOnce(&mut RemotePathCids) -> R,
    ) -> Option<R> {
        self.remote.packed(path)?;
        Some(self.change_remote(path, change))
    }

    /// Replaces the remote connection id of the handshake: the peer's first packet names its own
    /// choice.
    pub(crate) fn set_initial_remote(&mut self, cid: ConnectionId) {
        let known = vec![RemoteCid { sequence: 0, cid, token: None, used: true }];
        self.change_remote(PathId::ZERO, |cids| {
            *cids = RemotePathCids {
                known,
                retire_prior_to: 0,
                largest_sequence: Some(0),
                given_up: 0,
                in_use: true,
            };
        });
    }

    /// The token for the server's first connection id, from its transport parameters.
    pub(crate) fn set_initial_reset_token(&mut self, token: ResetToken) {
        let known = self.change_known_remote(PathId::ZERO, |cids| {
            let first = cids.known.first_mut().filter(|cid| cid.sequence == 0);
            first.map(|first| first.token = Some(token))
        });
        self.resets_changed |= known.flatten().is_some();
    }

    /// Packets are about to go to the peer's connection id for `path`.
    pub(crate) fn begin_use(&mut self, path: PathId) {
        let begun = self.change_known_remote(path, |cids| {
            cids.in_use = true;
            cids.known.iter_mut().take(1).for_each(|c| c.used = true);
        });
        self.resets_changed |= begun.is_some();
    }

    /// The tokens of the peer's connection ids in use on every path, if they may have changed since
    /// the last call.
    pub(crate) fn changed_reset_tokens(&mut self) -> Option<Vec<ResetToken>> {
        core::mem::take(&mut self.resets_changed).then(|| self.reset_tokens().collect())
    }

    fn reset_tokens(&self) -> impl Iterator<Item = ResetToken> {
        let rows = self.remote.iter().filter_map(|(_, mut row)| RemotePathCids::unpack(&mut row));
        rows.flat_map(|cids| cids.known).filter(|cid| cid.used).filter_map(|cid| cid.token)
    }

    /// Whether a datagram with this end is a stateless reset of the connection. Takes the same time
    /// whatever matches.
    pub(crate) fn is_reset(&self, end: &[u8; 16]) -> bool {
        let end = ResetToken(*end);
        self.reset_tokens().fold(false, |found, token| found | (token == end))
    }

    /// The length of our connection ids.
    pub(crate) fn local_len(&self) -> usize {
        self.maker.len()
    }

    /// The path that a packet to `cid` belongs to. Looked for in all that were issued, of which there
    /// are a few per path; the paths that carry the most come first.
    pub(crate) fn path_of(&mut self, cid: &ConnectionId) -> Option<PathId> {
        if let Some((path, latest)) = &self.latest
            && latest == cid
        {
            return Some(*path);
        }
        let path = self.local.iter().find_map(|(path, row)| has_issued(row, cid).then_some(path))?;
        self.latest = Some((path, *cid));
        Some(path)
    }

    /// Issues connection ids for `path` until the peer has `target`; the new ones are returned.
    pub(crate) fn issue(&mut self, path: PathId, target: u64, rng: &mut impl RngCore) -> Vec<LocalCid> {
        let Self { local, maker, reset_key, .. } = self;
        // Asked by frames of which hundreds fit a packet, and nearly always for nothing.
        if local.get(path).is_some_and(|cids| cids.wanted() >= target) {
            return Vec::new();
        }
        local.change(path, |cids| {
            let new = (cids.wanted()..target).map(|_| {
                let (sequence, cid) = (cids.next_sequence, maker.make(rng));
                cids.next_sequence += 1;
                cids.issued.push(IssuedCid { sequence, cid });
                LocalCid { sequence, cid, token: reset_token(reset_key, &cid) }
            });
            new.collect()
        })
    }

    /// Asks the peer to give up all our connection ids of `path` for new ones, which are to be
    /// issued next (RFC 9000 section 5.1.2). False while it has not given up those of the last
    /// time.
    pub(crate) fn rotate(&mut self, path: PathId) -> bool {
        let rotated = self.local.change_known(path, |cids| {
            let ready = cids.issued.iter().all(|c| c.sequence >= cids.retire_prior_to);
            if ready {
                cids.retire_prior_to = cids.next_sequence;
            }
            ready
        });
        rotated.unwrap_or(false)
    }

    /// The Retire Prior To field of what we issue for `path`.
    pub(crate) fn retire_prior_to(&self, path: PathId) -> u64 {
        self.local.get(path).map_or(0, |c| c.retire_prior_to)
    }

    /// The sequence number that our next connection id for `path` will have.
    pub(crate) fn next_local_sequence(&self, path: PathId) -> u64 {
        self.local.get(path).map_or(0, |c| c.next_sequence)
    }

    /// The sequence number that the peer's next connection id for `path` should have.
    pub(crate) fn next_remote_sequence(&self, path: PathId) -> u64 {
        self.remote.get(path).and_then(|c| c.largest_sequence).map_or(0, |largest| largest + 1)
    }

    /// We owe the peer a RETIRE_CONNECTION_ID.
    ///
    /// # Errors
    /// CONNECTION_ID_LIMIT_ERROR if more than `limit` are neither sent nor acknowledged (RFC 9000
    /// section 5.1.2).
    pub(crate) fn on_retiring(&mut self, limit: usize) -> Result<(), TransportError> {
        self.retiring += 1;
        if self.retiring <= limit {
            return Ok(());
        }
        let reason = "too many connection ids to retire";
        Err(TransportError::new(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR, reason))
    }

    /// The peer has acknowledged a RETIRE_CONNECTION_ID.
    pub(crate) fn on_retired(&mut self) {
        self.retiring = self.retiring.saturating_sub(1);
    }

    /// The record of an issued and not retired connection id.
    pub(crate) fn local(&self, path: PathId, sequence: u64) -> Option<LocalCid> {
        let issued = self.local.get(path)?.issued.into_iter().find(|c| c.sequence == sequence)?;
        let token = reset_token(&self.reset_key, &issued.cid);
        Some(LocalCid { sequence, cid: issued.cid, token })
    }

    /// The peer will not use one of ours again; returns it if it was still active.
    pub(crate) fn on_retire(
        &mut self,
        path: PathId,
        sequence: u64,
    ) -> Result<Option<ConnectionId>, TransportError> {
        let Some(cids) = self.local.get(path) else { return Ok(None) };
        if sequence >= cids.next_sequence {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "a connection id was retired that was never issued",
            ));
        }
        let Some(at) = cids.issued.iter().position(|c| c.sequence == sequence) else { return Ok(None) };
        self.latest = None;
        Ok(Some(self.local.change(path, |cids| cids.issued.remove(at).cid)))
    }

    /// The peer offers a connection id. Returns the sequence numbers to retire in answer.
    pub(crate) fn on_new(
        &mut self,
        path: PathId,
        sequence: u64,
        retire_prior_to: u64,
        cid: ConnectionId,
        token: ResetToken,
    ) -> Result<Vec<u64>, TransportError> {
        self.resets_changed = true;
        self.change_remote(path, |cids| cids.on_new(sequence, retire_prior_to, cid, token))
    }

    /// What to put into packets on `path`.
    pub(crate) fn remote(&self, path: PathId) -> Option<ConnectionId> {
        let first = || self.remote.get(path)?.known.first().map(|c| c.cid);
        self.destinations.get(&path).copied().or_else(first)
    }

    /// Takes a connection id that no packet has carried yet. A peer whose connection ids are empty
    /// has nothing else to offer, which then serves every address.
    pub(crate) fn unused_remote(&mut self, path: PathId) -> Option<ConnectionId> {
        self.resets_changed = true;
        self.change_known_remote(path, |RemotePathCids { known, .. }| {
            if let Some(empty) = known.first().filter(|c| c.cid.is_empty()) {
                return Some(empty.cid);
            }
            let unused = known.iter_mut().skip(1).find(|c| !c.used)?;
            unused.used = true;
            Some(unused.cid)
        })?
    }

    /// Packets on `path` carry `cid` from now on, if the peer has not retired it meanwhile.
    pub(crate) fn use_remote(&mut self, path: PathId, cid: &ConnectionId) {
        self.change_known_remote(path, |RemotePathCids { known, .. }| {
            if let Some(at) = known.iter().position(|c| c.cid == *cid) {
                known.swap(0, at);
            }
        });
    }

    /// Whether the peer issued `cid` for `path` and it has not been retired.
    pub(crate) fn knows_remote(&self, path: PathId, cid: &ConnectionId) -> bool {
        self.remote.get(path).is_some_and(|c| c.known.iter().any(|known| known.cid == *cid))
    }

    /// Gives up one of the peer's connection ids; returns its sequence number, which the peer must
    /// be told.
    pub(crate) fn retire_remote(&mut self, path: PathId, cid: &ConnectionId) -> Option<u64> {
        self.resets_changed = true;
        self.change_known_remote(path, |cids| cids.give_up(cid))?
    }

    /// A path is abandoned, and the peer's connection ids for it are as good as retired: the stateless
    /// reset that a late packet of ours may meet is none of the connection.
    pub(crate) fn forget_reset_tokens(&mut self, path: PathId) {
        let forgotten = self.change_known_remote(path, |RemotePathCids { known, .. }| {
            known.iter_mut().for_each(|cid| cid.token = None);
        });
        self.resets_changed |= forgotten.is_some();
    }

    /// Forgets everything about an abandoned path; returns our connection ids that nobody may use
    /// any more.
    pub(crate) fn forget_path(&mut self, path: PathId) -> Vec<ConnectionId> {
        self.remote.remove(path);
        self.destinations.remove(&path);
        (self.resets_changed, self.latest) = (true, None);
        self.local.remove(path).map_or_else(Vec::new, |l| l.issued.iter().map(|c| c.cid).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use rand_chacha::{ChaCha12Rng, rand_core::SeedableRng};

    fn cid(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; CID_LEN]).unwrap()
    }

    fn token(n: u8) -> ResetToken {
        ResetToken([n; 16])
    }

    fn registry() -> CidRegistry {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]);
        CidRegistry::new(cid(1), cid(2), Arc::new(key), CidMaker::RANDOM)
    }

    #[test]
    fn issues_up_to_the_peers_limit_and_replaces_retired_ones() {
        let mut rng = ChaCha12Rng::from_seed([7; 32]);
        let mut cids = registry();
        let new = cids.issue(PathId(3), 2, &mut rng);
        assert_eq!(new.iter().map(|c| c.sequence).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(cids.path_of(&new[0].cid), Some(PathId(3)));
        assert_eq!(cids.on_retire(PathId(3), 0).unwrap(), Some(new[0].cid));
        assert_eq!(cids.on_retire(PathId(3), 0).unwrap(), None, "a repeated frame is harmless");
        assert!(cids.on_retire(PathId(3), 2).is_err());
        assert_eq!(cids.path_of(&new[0].cid), None);
        assert_eq!(cids.issue(PathId(3), 2, &mut rng)[0].sequence, 2);
        assert_eq!(cids.path_of(&new[1].cid), Some(PathId(3)));
        assert_eq!(cids.path_of(&cid(1)), Some(PathId::ZERO));
        assert_eq!(cids.path_of(&new[1].cid), Some(PathId(3)));
        cids.forget_path(PathId(3));
        assert_eq!(cids.path_of(&new[1].cid), None);
    }

    #[test]
    fn a_peer_that_issues_too_many_or_contradicts_itself_is_refused() {
        let mut cids = registry();
        for n in 1..ACTIVE_CID_LIMIT {
            assert!(cids.on_new(PathId::ZERO, n, 0, cid(10 + n as u8), token(n as u8)).unwrap().is_empty());
        }
        assert!(cids.on_new(PathId::ZERO, 1, 0, cid(11), token(1)).unwrap().is_empty(), "repetition");
        assert!(cids.on_new(PathId::ZERO, 1, 0, cid(12), token(1)).is_err());
        assert!(cids.on_new(PathId::ZERO, 1, 0, cid(11), token(2)).is_err());
        let error = cids.on_new(PathId::ZERO, 9, 0, cid(40), token(9)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
    }

    #[test]
    fn retire_prior_to_moves_on() {
        let mut cids = registry();
        assert_eq!(cids.on_new(PathId::ZERO, 1, 1, cid(11), token(1)).unwrap(), [0]);
        assert_eq!(cids.remote(PathId::ZERO), Some(cid(11)));
        assert_eq!(
            cids.on_new(PathId::ZERO, 0, 0, cid(2), token(0)).unwrap(),
            [0],
            "late and already retired"
        );
    }

    #[test]
    fn one_that_was_given_up_is_not_taken_again() {
        let mut cids = registry();
        for n in 1..ACTIVE_CID_LIMIT {
            cids.on_new(PathId::ZERO, n, 0, cid(10 + n as u8), token(n as u8)).unwrap();
        }
        assert_eq!(cids.retire_remote(PathId::ZERO, &cid(11)), Some(1));
        assert_eq!(cids.retire_remote(PathId::ZERO, &cid(13)), Some(3));
        for n in [4, 5] {
            assert!(cids.on_new(PathId::ZERO, n, 0, cid(10 + n as u8), token(n as u8)).unwrap().is_empty());
            for late in [1, 3] {
                let new = cids.on_new(PathId::ZERO, late, 0, cid(10 + late as u8), token(late as u8));
                assert!(new.unwrap().is_empty(), "{late} comes once more after {n}");
                assert!(!cids.knows_remote(PathId::ZERO, &cid(10 + late as u8)));
            }
        }
        // A number that was never seen is another matter, wherever it lies.
        assert_eq!(cids.retire_remote(PathId::ZERO, &cid(14)), Some(4));
        assert!(cids.on_new(PathId::ZERO, 8, 0, cid(18), token(8)).unwrap().is_empty());
        assert_eq!(cids.retire_remote(PathId::ZERO, &cid(18)), Some(8));
        assert!(cids.on_new(PathId::ZERO, 7, 0, cid(17), token(7)).unwrap().is_empty());
        assert!(cids.knows_remote(PathId::ZERO, &cid(17)));
    }

    #[test]
    fn only_tokens_of_ids_in_use_reset() {
        let mut cids = registry();
        cids.set_initial_reset_token(token(1));
        cids.on_new(PathId::ZERO, 1, 0, cid(11), token(2)).unwrap();
        cids.on_new(PathId(1), 0, 0, cid(12), token(3)).unwrap();
        let resets = |cids: &CidRegistry| [1, 2, 3].map(|n| cids.is_reset(&token(n).0));
        assert_eq!(resets(&cids), [true, false, false]);
        assert_eq!(cids.changed_reset_tokens(), Some(vec![token(1)]));
        assert_eq!(cids.changed_reset_tokens(), None);
        cids.begin_use(PathId(1));
        assert_eq!(resets(&cids), [true, false, true]);
        // The first id is retired, the next takes its place.
        cids.on_new(PathId::ZERO, 2, 1, cid(13), token(4)).unwrap();
        assert_eq!(resets(&cids), [false, true, true]);
        cids.forget_path(PathId(1));
        assert_eq!(resets(&cids), [false, true, false]);
        assert_eq!(cids.changed_reset_tokens(), Some(vec![token(2)]));
    }

    #[test]
    fn those_of_every_path_lead_a_balancer_here() {
        let config = QuicLb::new(0, b"server", 13).unwrap().with_key(&[1; 16]);
        let maker = CidMaker::readable(config.clone(), &[2; 16]);
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]));
        let mut rng = ChaCha12Rng::from_seed([0; 32]);
        let mut issued = Vec::new();
        for _connection in 0..2 {
            let first = maker.make(&mut rng);
            let mut cids = CidRegistry::new(first, cid(2), key.clone(), maker.clone());
            issued.push(first);
            for path in 0..4 {
                issued.extend(cids.issue(PathId(path), 4, &mut rng).iter().map(|local| local.cid));
            }
        }
        assert_eq!(issued.len(), 2 * 4 * 4);
        assert!(issued.iter().all(|cid| config.is_ours(cid) && cid.len() == maker.len()));
        assert_eq!(BTreeSet::from_iter(issued.iter().copied()).len(), issued.len(), "no two alike");
    }
}
