//! A client's tokens for its next connections (RFC 9000 section 8.1.3).

use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Tokens of servers that sent NEW_TOKEN, shared by the connections that may use them, each once.
///
/// Tokens belong to a server's name and address together: several servers may go by one name, and a
/// token is no other's business. At most [`MAX_TOKENS`](Self::MAX_TOKENS) are kept,
/// [`MAX_PER_SERVER`](Self::MAX_PER_SERVER) of one server; the oldest goes first.
#[derive(Default)]
pub struct TokenStore {
    /// The oldest first.
    tokens: Mutex<VecDeque<Stored>>,
}

struct Stored {
    server: (String, SocketAddr),
    token: Vec<u8>,
}

impl TokenStore {
    /// Tokens kept at most.
    pub const MAX_TOKENS: usize = 256;
    /// Tokens of one server kept at most.
    pub const MAX_PER_SERVER: usize = 4;
    /// Longest token kept, in bytes: it must leave room in an Initial packet.
    pub const MAX_TOKEN_LEN: usize = 512;

    /// Tokens kept now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn put(&self, name: &str, server: SocketAddr, token: &[u8]) {
        if token.is_empty() || token.len() > Self::MAX_TOKEN_LEN {
            return;
        }
        let mut tokens = self.lock();
        let same = |stored: &Stored| stored.server.0 == name && stored.server.1 == server;
        // NEW_TOKEN may arrive twice (section 19.7).
        if tokens.iter().any(|stored| same(stored) && stored.token == token) {
            return;
        }
        if tokens.iter().filter(|stored| same(stored)).count() >= Self::MAX_PER_SERVER
            && let Some(oldest) = tokens.iter().position(same)
        {
            tokens.remove(oldest);
        }
        if tokens.len() >= Self::MAX_TOKENS {
            tokens.pop_front();
        }
        tokens.push_back(Stored { server: (name.to_owned(), server), token: token.to_vec() });
    }

    /// The newest token of a server, which is then used up.
    pub(crate) fn take(&self, name: &str, server: SocketAddr) -> Option<Vec<u8>> {
        let mut tokens = self.lock();
        let newest = tokens.iter().rposition(|s| s.server.0 == name && s.server.1 == server)?;
        tokens.remove(newest).map(|stored| stored.token)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Stored>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenStore").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn each_token_is_used_once_and_only_for_its_server() {
        let store = TokenStore::default();
        store.put("a", addr(1), b"old");
        store.put("a", addr(1), b"new");
        store.put("a", addr(1), b"new");
        assert_eq!(store.take("b", addr(1)), None);
        assert_eq!(store.take("a", addr(2)), None);
        assert_eq!(store.take("a", addr(1)).as_deref(), Some(&b"new"[..]));
        assert_eq!(store.take("a", addr(1)).as_deref(), Some(&b"old"[..]));
        assert_eq!(store.take("a", addr(1)), None);
    }

    #[test]
    fn full_stores_forget_the_oldest() {
        let store = TokenStore::default();
        for n in 0..10 {
            store.put("a", addr(1), &[n]);
        }
        assert_eq!(store.len(), TokenStore::MAX_PER_SERVER);
        for n in 0..1_000 {
            store.put("b", addr(n), b"token");
        }
        assert_eq!(store.len(), TokenStore::MAX_TOKENS);
        assert_eq!(store.take("a", addr(1)), None);
        store.put("c", addr(1), &[0; TokenStore::MAX_TOKEN_LEN + 1]);
        assert_eq!(store.take("c", addr(1)), None);
    }
}
