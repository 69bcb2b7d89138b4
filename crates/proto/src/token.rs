//! Address validation tokens (RFC 9000 section 8.1): with one, a client shows that it receives at
//! the address it sends from.
//!
//! ```text
//! Token {
//!   Kind (8),          1 Retry, 2 NEW_TOKEN
//!   Nonce (96),
//!   Issued At (64),    sealed: nanoseconds of the endpoint's clock
//!   Original Id (..),  sealed, in a Retry token: the destination of the client's first Initial
//!   Tag (128),
//! }
//! ```
//!
//! The seal (AES-128-GCM) also covers what a token is only good for: the address (of Retry with its
//! port) and the connection id that the client must now send to. Kind stands in the clear, since an
//! unusable Retry token ends the attempt while an unusable NEW_TOKEN token is as good as none
//! (section 8.1.3).
//!
//! Nonces are random: below 2^32 tokens of one key, two share one with a probability of less than
//! 2^-32. The key and the clock are those of one endpoint, so tokens do not outlive it.

use core::net::{IpAddr, SocketAddr};

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use units::{Duration, Instant};

use crate::{crypto::TAG_LEN, wire::ConnectionId};

/// For a client to answer Retry: longer than any path takes.
const RETRY_LIFETIME: Duration = Duration::from_secs(15);
/// For a client to come back with a token of NEW_TOKEN.
pub(crate) const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

const RETRY: u8 = 1;
const NEW_TOKEN: u8 = 2;

/// What distinguishes two tokens.
pub(crate) type TokenNonce = [u8; NONCE_LEN];

/// The key that an endpoint's tokens are sealed with.
pub(crate) struct TokenKey(LessSafeKey);

impl TokenKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).expect("AES-128 keys have 16 bytes")))
    }

    /// A token for the Retry that asks the client at `remote` to send to `retry` from now on.
    pub(crate) fn seal_retry(
        &self,
        now: Instant,
        nonce: TokenNonce,
        remote: SocketAddr,
        original: &ConnectionId,
        retry: &ConnectionId,
    ) -> Vec<u8> {
        self.seal(RETRY, nonce, &retry_binding(remote, retry), now, original)
    }

    /// The original destination of a client that shows a Retry token in an Initial to
    /// `destination`.
    pub(crate) fn open_retry(
        &self,
        now: Instant,
        token: &[u8],
        remote: SocketAddr,
        destination: &ConnectionId,
    ) -> Option<ConnectionId> {
        let (_, age, original) = self.open(RETRY, token, &retry_binding(remote, destination), now)?;
        if age <= RETRY_LIFETIME { ConnectionId::new(&original) } else { None }
    }

    /// A token for NEW_TOKEN to a client at `ip`.
    pub(crate) fn seal_new_token(&self, now: Instant, nonce: TokenNonce, ip: IpAddr) -> Vec<u8> {
        self.seal(NEW_TOKEN, nonce, &binding(NEW_TOKEN, ip), now, &[])
    }

    /// The nonce of a token of NEW_TOKEN that is good for `ip` now, if it has not been used.
    pub(crate) fn open_new_token(&self, now: Instant, token: &[u8], ip: IpAddr) -> Option<TokenNonce> {
        let (nonce, age, _) = self.open(NEW_TOKEN, token, &binding(NEW_TOKEN, ip), now)?;
        (age <= NEW_TOKEN_LIFETIME).then_some(nonce)
    }

    fn seal(&self, kind: u8, nonce: TokenNonce, binding: &[u8], now: Instant, content: &[u8]) -> Vec<u8> {
        let mut sealed = now.as_nanos().to_be_bytes().to_vec();
        sealed.extend_from_slice(content);
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        let sealing = self.0.seal_in_place_append_tag(nonce_of, Aad::from(binding), &mut sealed);
        sealing.expect("a token is far below the AEAD's limit");
        let mut token = Vec::with_capacity(1 + NONCE_LEN + sealed.len());
        token.push(kind);
        token.extend_from_slice(&nonce);
        token.extend_from_slice(&sealed);
        token
    }

    /// Nonce, age and content.
    fn open(
        &self,
        kind: u8,
        token: &[u8],
        binding: &[u8],
        now: Instant,
    ) -> Option<(TokenNonce, Duration, Vec<u8>)> {
        let (nonce, sealed) = token.strip_prefix(&[kind])?.split_first_chunk::<NONCE_LEN>()?;
        if sealed.len() < 8 + TAG_LEN || sealed.len() > 8 + ConnectionId::MAX_LEN + TAG_LEN {
            return None;
        }
        let mut sealed = sealed.to_vec();
        let nonce_of = Nonce::assume_unique_for_key(*nonce);
        let content = self.0.open_in_place(nonce_of, Aad::from(binding), &mut sealed).ok()?;
        let (issued, content) = content.split_first_chunk()?;
        let issued = Instant::from_nanos(u64::from_be_bytes(*issued));
        Some((*nonce, now - issued, content.to_vec()))
    }
}

/// Whether a token claims to come from a Retry of ours.
pub(crate) fn is_retry_token(token: &[u8]) -> bool {
    token.first() == Some(&RETRY)
}

fn binding(kind: u8, ip: IpAddr) -> Vec<u8> {
    let ip = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut binding = vec![kind];
    binding.extend_from_slice(&ip.octets());
    binding
}

fn retry_binding(remote: SocketAddr, retry: &ConnectionId) -> Vec<u8> {
    let mut binding = binding(RETRY, remote.ip());
    binding.extend_from_slice(&remote.port().to_be_bytes());
    binding.extend_from_slice(retry);
    binding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TokenKey {
        TokenKey::new(&[1; 16])
    }

    fn at(secs: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(secs)
    }

    fn cid(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8]).unwrap()
    }

    #[test]
    fn a_retry_token_is_good_for_its_address_destination_and_time() {
        let remote: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let token = key().seal_retry(at(100), [7; 12], remote, &cid(1), &cid(2));
        assert!(is_retry_token(&token));
        let opened = |now, remote: &str, destination| {
            key().open_retry(now, &token, remote.parse().unwrap(), &destination)
        };
        assert_eq!(opened(at(115), "192.0.2.1:1000", cid(2)), Some(cid(1)));
        assert_eq!(opened(at(115), "[::ffff:192.0.2.1]:1000", cid(2)), Some(cid(1)), "the same address");
        assert_eq!(opened(at(116), "192.0.2.1:1000", cid(2)), None);
        assert_eq!(opened(at(100), "192.0.2.1:1001", cid(2)), None);
        assert_eq!(opened(at(100), "192.0.2.2:1000", cid(2)), None);
        assert_eq!(opened(at(100), "192.0.2.1:1000", cid(3)), None);
        let mut other_kind = token.clone();
        other_kind[0] ^= 1;
        assert_eq!(
            key().open_retry(at(100), &other_kind, remote, &cid(2)),
            None,
            "its first byte belongs to it"
        );
        assert_eq!(TokenKey::new(&[2; 16]).open_retry(at(100), &token, remote, &cid(2)), None);
    }

    #[test]
    fn a_new_token_is_good_for_its_ip_for_a_day() {
        let ip: IpAddr = "2001:db8::1".parse().unwrap();
        let token = key().seal_new_token(at(5), [9; 12], ip);
        assert!(!is_retry_token(&token));
        assert_eq!(key().open_new_token(at(5 + 24 * 3_600), &token, ip), Some([9; 12]));
        assert_eq!(key().open_new_token(at(6 + 24 * 3_600), &token, ip), None);
        assert_eq!(key().open_new_token(at(5), &token, "2001:db8::2".parse().unwrap()), None);
    }

    #[test]
    fn no_byte_may_change_and_no_length_surprises() {
        let remote: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let token = key().seal_retry(at(1), [7; 12], remote, &cid(1), &cid(2));
        for i in 1..token.len() {
            let mut forged = token.clone();
            forged[i] ^= 1;
            assert_eq!(key().open_retry(at(1), &forged, remote, &cid(2)), None, "byte {i}");
            assert_eq!(key().open_retry(at(1), &token[..i], remote, &cid(2)), None, "{i} bytes");
        }
        // Another kind is another binding.
        assert_eq!(key().open_new_token(at(1), &token, remote.ip()), None);
    }
}
