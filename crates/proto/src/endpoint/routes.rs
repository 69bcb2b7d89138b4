//! Which connection a packet is for.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hasher as _},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use ring::hmac;

use super::ConnectionHandle;
use crate::wire::{ConnectionId, ResetToken};

/// Retired connection ids that still lead to their connection, per connection. A late packet to one
/// of them must not be answered with a stateless reset: to a peer that still uses the id, that
/// would end the connection.
const MAX_RETIRED: usize = 64;

/// Room is made for so many connection ids at a time: what most connections have, they have for good.
const ROOM: usize = 6;

/// A reset token as it is looked up: hashed, so that the time a search takes tells nothing about
/// tokens (RFC 9000 section 10.3.1).
type HashedToken = [u8; 16];

/// A connection id as it is looked up: hashed with a secret. There are some fifteen per connection,
/// in two places each, and hashes take a third of the room. That two collide, which would lose a
/// packet's connection, takes billions of connections at a time.
type HashedCid = u64;

/// The connection ids and reset tokens of every connection.
///
/// Bounds: connections by the configuration; of each the ids that it has issued
/// ([`crate::CID_LEN`], two per path that may be open), [`MAX_RETIRED`] retired ones, and one token
/// per path.
pub(super) struct Routes {
    cids: BTreeMap<HashedCid, ConnectionHandle>,
    /// Of all workers: a reset does not tell for which of them it is.
    resets: Arc<RwLock<BTreeMap<HashedToken, (usize, ConnectionHandle)>>>,
    connections: BTreeMap<ConnectionHandle, Route>,
    /// The last one that was looked up: datagrams come in runs.
    last: Option<(ConnectionId, ConnectionHandle)>,
    next_handle: usize,
    token_hash: hmac::Key,
    cid_secret: [u8; 16],
    /// Connections of all workers.
    all: Arc<AtomicUsize>,
    worker: usize,
}

/// One connection.
#[derive(Default)]
struct Route {
    cids: Vec<HashedCid>,
    retired: VecDeque<HashedCid>,
    resets: Vec<HashedToken>,
}

impl Routes {
    /// No routes. The key hashes tokens.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let token_hash = hmac::Key::new(hmac::HMAC_SHA256, key);
        let cid_secret =
            *hmac::sign(&token_hash, b"connection ids").as_ref().first_chunk().expect("has 32 bytes");
        Self {
            cids: BTreeMap::new(),
            resets: Arc::default(),
            connections: BTreeMap::new(),
            last: None,
            next_handle: 0,
            token_hash,
            cid_secret,
            all: Arc::default(),
            worker: 0,
        }
    }

    /// No routes yet of this worker of several.
    pub(super) fn for_worker(&self, worker: usize) -> Self {
        Self {
            cids: BTreeMap::new(),
            resets: self.resets.clone(),
            connections: BTreeMap::new(),
            last: None,
            next_handle: 0,
            token_hash: self.token_hash.clone(),
            cid_secret: self.cid_secret,
            all: self.all.clone(),
            worker,
        }
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn connections_of_all(&self) -> usize {
        self.all.load(Relaxed)
    }

    pub(super) fn add(&mut self, cids: &[ConnectionId]) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.all.fetch_add(1, Relaxed);
        self.connections.insert(handle, Route::default());
        cids.iter().for_each(|cid| self.add_cid(handle, *cid));
        handle
    }

    pub(super) fn by_cid(&mut self, cid: &ConnectionId) -> Option<ConnectionHandle> {
        if let Some((_, handle)) = self.last.filter(|(last, _)| last == cid) {
            return Some(handle);
        }
        let handle = *self.cids.get(&self.hash_cid(cid))?;
        self.last = Some((*cid, handle));
        Some(handle)
    }

    fn forget(&mut self, cid: HashedCid) {
        self.last = None;
        self.cids.remove(&cid);
    }

    fn hash_cid(&self, cid: &ConnectionId) -> HashedCid {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.cid_secret);
        hasher.write(cid);
        hasher.finish()
    }

    /// The connection that a datagram with this end would reset, and its worker.
    pub(super) fn by_reset_token(&self, datagram: &[u8]) -> Option<(usize, ConnectionHandle)> {
        let resets = self.resets.read().unwrap_or_else(PoisonError::into_inner);
        if resets.is_empty() {
            return None;
        }
        resets.get(&self.hash(datagram.last_chunk()?)).copied()
    }

    pub(super) fn add_cid(&mut self, handle: ConnectionHandle, cid: ConnectionId) {
        let cid = self.hash_cid(&cid);
        if let Some(route) = self.connections.get_mut(&handle) {
            if route.cids.len() == route.cids.capacity() {
                route.cids.reserve_exact(ROOM);
            }
            route.cids.push(cid);
            self.last = None;
            self.cids.insert(cid, handle);
        }
    }

    pub(super) fn retire_cid(&mut self, handle: ConnectionHandle, cid: ConnectionId) {
        let cid = self.hash_cid(&cid);
        let Some(route) = self.connections.get_mut(&handle) else { return };
        let Some(at) = route.cids.iter().position(|c| *c == cid) else { return };
        route.cids.swap_remove(at);
        route.retired.push_back(cid);
        if route.retired.len() > MAX_RETIRED
            && let Some(oldest) = route.retired.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// Replaces the tokens that reset a connection.
    pub(super) fn set_reset_tokens(&mut self, handle: ConnectionHandle, tokens: &[ResetToken]) {
        let hashed: Vec<_> = tokens.iter().map(|token| self.hash(&token.0)).collect();
        let Some(route) = self.connections.get_mut(&handle) else { return };
        if route.resets.is_empty() && hashed.is_empty() {
            return;
        }
        let owner = (self.worker, handle);
        let mut resets = self.resets.write().unwrap_or_else(PoisonError::into_inner);
        for old in route.resets.drain(..) {
            if resets.get(&old) == Some(&owner) {
                resets.remove(&old);
            }
        }
        // Only a peer that plays tricks gives one token to two connections; the first one keeps it.
        hashed.iter().for_each(|token| _ = resets.entry(*token).or_insert(owner));
        route.resets = hashed;
    }

    pub(super) fn remove(&mut self, handle: ConnectionHandle) {
        self.set_reset_tokens(handle, &[]);
        let Some(route) = self.connections.remove(&handle) else { return };
        self.all.fetch_sub(1, Relaxed);
        for cid in route.cids.into_iter().chain(route.retired) {
            self.forget(cid);
        }
    }

    fn hash(&self, token: &[u8; 16]) -> HashedToken {
        let tag = hmac::sign(&self.token_hash, token);
        *tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cid(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8]).unwrap()
    }

    #[test]
    fn nothing_is_left_of_a_connection() {
        let mut routes = Routes::new(&[0; 32]);
        let (a, b) = (routes.add(&[cid(1), cid(2)]), routes.add(&[cid(3)]));
        assert_eq!(routes.connections(), 2);
        routes.set_reset_tokens(a, &[ResetToken([1; 16]), ResetToken([2; 16])]);
        routes.set_reset_tokens(b, &[ResetToken([2; 16])]);
        assert_eq!(routes.by_reset_token(&[&[9; 20][..], &[2; 16]].concat()), Some((0, a)));
        routes.retire_cid(a, cid(1));
        assert_eq!(routes.by_cid(&cid(1)), Some(a), "late packets still find their connection");
        routes.remove(a);
        routes.remove(a);
        assert_eq!(routes.connections(), 1);
        assert_eq!((routes.by_cid(&cid(1)), routes.by_cid(&cid(2))), (None, None));
        assert_eq!(routes.by_reset_token(&[1; 16]), None);
        routes.remove(b);
        assert!(routes.cids.is_empty() && routes.resets.read().unwrap().is_empty());
        assert_eq!(routes.connections_of_all(), 0);
    }

    #[test]
    fn retired_ids_are_bounded() {
        let mut routes = Routes::new(&[0; 32]);
        let handle = routes.add(&[]);
        for n in 0..=255 {
            routes.add_cid(handle, cid(n));
            routes.retire_cid(handle, cid(n));
        }
        assert_eq!(routes.cids.len(), MAX_RETIRED);
        assert_eq!(routes.by_cid(&cid(255)), Some(handle));
    }
}
