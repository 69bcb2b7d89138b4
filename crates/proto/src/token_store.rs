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
        if !token.is_empty() && token.len() <= Self::MAX_TOKEN_LEN {
            self.store(name, server, token);
        }
    }

    /// Returns how many tokens were looked at. Hundreds of frames fit a packet, and those of a server
    /// that sends so many are the newest: whoever looks for them from that end has soon seen them all.
    fn store(&self, name: &str, server: SocketAddr, token: &[u8]) -> usize {
        let mut tokens = self.lock();
        let (mut looked, mut of_server, mut oldest) = (0, 0, None);
        for (at, stored) in tokens.iter().enumerate().rev() {
            looked += 1;
            if stored.server.1 != server || stored.server.0 != name {
                continue;
            }
            if stored.token == token {
                // NEW_TOKEN may arrive twice (section 19.7).
                return looked;
            }
            of_server += 1;
            if of_server == Self::MAX_PER_SERVER {
                oldest = Some(at);
                break;
            }
        }
        let mut stored = oldest.and_then(|at| tokens.remove(at)).unwrap_or_else(|| {
            let server = (name.to_owned(), server);
            Stored { server, token: Vec::new() }
        });
        stored.token.clear();
        stored.token.extend_from_slice(token);
        if tokens.len() >= Self::MAX_TOKENS {
            tokens.pop_front();
        }
        tokens.push_back(stored);
        looked
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
    fn a_server_that_sends_tokens_without_end_has_few_looked_at() {
        let store = TokenStore::default();
        for n in 0..1_000 {
            store.put("b", addr(n), b"token");
        }
        for n in 0..20 {
            store.put("a", addr(1), &[n]);
        }
        for n in 20..100 {
            assert!(store.store("a", addr(1), &[n]) <= TokenStore::MAX_PER_SERVER);
            assert!(store.store("a", addr(1), &[n]) <= TokenStore::MAX_PER_SERVER, "once more");
        }
        assert_eq!(store.take("a", addr(1)).as_deref(), Some(&[99][..]));
        assert_eq!(store.len(), TokenStore::MAX_TOKENS - 1);
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
