//! Which connection a packet is for.

use std::collections::{BTreeMap, VecDeque};

use ring::hmac;

use super::ConnectionHandle;
use crate::wire::{ConnectionId, ResetToken};

/// Retired connection ids that still lead to their connection, per connection. A late packet to one
/// of them must not be answered with a stateless reset: to a peer that still uses the id, that
/// would end the connection.
const MAX_RETIRED: usize = 64;

/// A reset token as it is looked up: hashed, so that the time a search takes tells nothing about
/// tokens (RFC 9000 section 10.3.1).
type HashedToken = [u8; 16];

/// The connection ids and reset tokens of every connection.
///
/// Bounds: connections by the configuration; of each the ids that it has issued
/// ([`crate::CID_LEN`], two per path that may be open), [`MAX_RETIRED`] retired ones, and one token
/// per path.
pub(super) struct Routes {
    cids: BTreeMap<ConnectionId, ConnectionHandle>,
    resets: BTreeMap<HashedToken, ConnectionHandle>,
    connections: BTreeMap<ConnectionHandle, Route>,
    /// The last one that was looked up: datagrams come in runs.
    last: Option<(ConnectionId, ConnectionHandle)>,
    next_handle: usize,
    token_hash: hmac::Key,
}

/// One connection.
#[derive(Default)]
struct Route {
    cids: Vec<ConnectionId>,
    retired: VecDeque<ConnectionId>,
    resets: Vec<HashedToken>,
}

impl Routes {
    /// No routes. The key hashes tokens.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self {
            cids: BTreeMap::new(),
            resets: BTreeMap::new(),
            connections: BTreeMap::new(),
            last: None,
            next_handle: 0,
            token_hash: hmac::Key::new(hmac::HMAC_SHA256, key),
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn add(&mut self, cids: &[ConnectionId]) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        cids.iter().for_each(|cid| self.insert(*cid, handle));
        self.connections.insert(handle, Route { cids: cids.to_vec(), ..Route::default() });
        handle
    }

    pub(super) fn by_cid(&mut self, cid: &ConnectionId) -> Option<ConnectionHandle> {
        if let Some((_, handle)) = self.last.filter(|(last, _)| last == cid) {
            return Some(handle);
        }
        let handle = *self.cids.get(cid)?;
        self.last = Some((*cid, handle));
        Some(handle)
    }

    fn insert(&mut self, cid: ConnectionId, handle: ConnectionHandle) {
        self.last = None;
        self.cids.insert(cid, handle);
    }

    fn forget(&mut self, cid: &ConnectionId) {
        self.last = None;
        self.cids.remove(cid);
    }

    /// The connection that a datagram with this end would reset.
    pub(super) fn by_reset_token(&self, datagram: &[u8]) -> Option<ConnectionHandle> {
        if self.resets.is_empty() {
            return None;
        }
        self.resets.get(&self.hash(datagram.last_chunk()?)).copied()
    }

    pub(super) fn add_cid(&mut self, handle: ConnectionHandle, cid: ConnectionId) {
        if let Some(route) = self.connections.get_mut(&handle) {
            route.cids.push(cid);
            self.insert(cid, handle);
        }
    }

    pub(super) fn retire_cid(&mut self, handle: ConnectionHandle, cid: ConnectionId) {
        let Some(route) = self.connections.get_mut(&handle) else { return };
        let Some(at) = route.cids.iter().position(|c| *c == cid) else { return };
        route.cids.swap_remove(at);
        route.retired.push_back(cid);
        if route.retired.len() > MAX_RETIRED
            && let Some(oldest) = route.retired.pop_front()
        {
            self.forget(&oldest);
        }
    }

    /// Replaces the tokens that reset a connection.
    pub(super) fn set_reset_tokens(&mut self, handle: ConnectionHandle, tokens: &[ResetToken]) {
        let hashed: Vec<_> = tokens.iter().map(|token| self.hash(&token.0)).collect();
        let Some(route) = self.connections.get_mut(&handle) else { return };
        for old in route.resets.drain(..) {
            if self.resets.get(&old) == Some(&handle) {
                self.resets.remove(&old);
            }
        }
        // Only a peer that plays tricks gives one token to two connections; the first one keeps it.
        hashed.iter().for_each(|token| _ = self.resets.entry(*token).or_insert(handle));
        route.resets = hashed;
    }

    pub(super) fn remove(&mut self, handle: ConnectionHandle) {
        self.set_reset_tokens(handle, &[]);
        let Some(route) = self.connections.remove(&handle) else { return };
        for cid in route.cids.iter().chain(&route.retired) {
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
        assert_eq!(routes.by_reset_token(&[&[9; 20][..], &[2; 16]].concat()), Some(a));
        routes.retire_cid(a, cid(1));
        assert_eq!(routes.by_cid(&cid(1)), Some(a), "late packets still find their connection");
        routes.remove(a);
        routes.remove(a);
        assert_eq!(routes.connections(), 1);
        assert_eq!((routes.by_cid(&cid(1)), routes.by_cid(&cid(2))), (None, None));
        assert_eq!(routes.by_reset_token(&[1; 16]), None);
        routes.remove(b);
        assert!(routes.cids.is_empty() && routes.resets.is_empty());
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
