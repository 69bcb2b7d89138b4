//! Tokens: the right to use a server, checked without a list of those handed out.
//!
//! A token is an id of 16 bytes followed by HMAC-SHA256 over the service's name and that id, keyed
//! with the server's secret. The server stores the secret alone; whoever replaces it revokes every
//! token. Accounts are kept by id (`accounts`). The service is part of the message, so that a token for receiving a file opens no proxy.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{hmac, rand::SecureRandom};

/// Bytes of a token that say whose it is.
pub const ID_BYTES: usize = 16;
const TAG_BYTES: usize = 32;
/// Bytes of a token on the wire; 64 characters in an invitation.
pub const TOKEN_BYTES: usize = ID_BYTES + TAG_BYTES;
/// Bytes of a server's secret.
pub const SECRET_BYTES: usize = 32;

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Connections and datagrams to other hosts.
    Proxy,
    /// Handing over files.
    Files,
}

impl Service {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Proxy => b"mendpath proxy token\0",
            Self::Files => b"mendpath files token\0",
        }
    }
}

/// A token as the client holds it. Its `Debug` form hides the value, which is a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

/// Text or bytes that cannot be a token of any server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is not 64 characters of base64url")]
pub struct TokenError;

impl Token {
    /// The token's bytes, for the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whose it is. Says nothing before its server has accepted the token.
    pub fn id(&self) -> [u8; ID_BYTES] {
        *self.0.first_chunk().expect("a token is longer than an id")
    }
}

impl TryFrom<&[u8]> for Token {
    type Error = TokenError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self).map_err(|_| TokenError)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::try_from(URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError)?.as_slice())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The server's side: makes and checks tokens.
#[derive(Clone)]
pub struct TokenSecret {
    key: hmac::Key,
    bytes: [u8; SECRET_BYTES],
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(..)")
    }
}

impl TokenSecret {
    /// A new secret from the system's random numbers.
    ///
    /// # Panics
    /// When the system has none, which no program can work with.
    pub fn generate() -> Self {
        let mut bytes = [0; SECRET_BYTES];
        ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
        Self::from_bytes(bytes)
    }

    /// A secret read from the state directory.
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), bytes }
    }

    /// The secret itself, to be stored.
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.bytes
    }

    fn message(service: Service, id: &[u8]) -> Vec<u8> {
        [service.label(), id].concat()
    }

    /// The token for `id`.
    pub fn token(&self, service: Service, id: [u8; ID_BYTES]) -> Token {
        let mut token = [0; TOKEN_BYTES];
        token[..ID_BYTES].copy_from_slice(&id);
        let tag = hmac::sign(&self.key, &Self::message(service, &id));
        token[ID_BYTES..].copy_from_slice(tag.as_ref());
        Token(token)
    }

    /// The token of the invitation that the server prints: the same at every start, for as long as
    /// the secret lives.
    pub fn invitation_token(&self, service: Service) -> Token {
        self.token(service, self.invitation_id())
    }

    /// The id of that token.
    pub fn invitation_id(&self) -> [u8; ID_BYTES] {
        let digest = hmac::sign(&self.key, b"mendpath invitation id");
        *digest.as_ref().first_chunk().expect("a tag is longer than an id")
    }

    /// Whether this secret made `token` for `service`. Takes the same time for every token of the
    /// right length.
    pub fn accepts(&self, service: Service, token: &[u8]) -> bool {
        let Some((id, tag)) = token.split_at_checked(ID_BYTES) else { return false };
        hmac::verify(&self.key, &Self::message(service, id), tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_opens_its_own_service_on_its_own_server() {
        let (server, other) = (TokenSecret::from_bytes([1; 32]), TokenSecret::from_bytes([2; 32]));
        let token = server.invitation_token(Service::Proxy);
        assert_eq!(token.to_string().len(), 64);
        assert_eq!(token.to_string().parse(), Ok(token));
        assert!(server.accepts(Service::Proxy, token.as_bytes()));
        assert!(!server.accepts(Service::Files, token.as_bytes()));
        assert!(!other.accepts(Service::Proxy, token.as_bytes()));
        assert_eq!(token.id(), server.invitation_id());
        assert_eq!(server.token(Service::Proxy, [9; ID_BYTES]).id(), [9; ID_BYTES]);
        assert_eq!(token, TokenSecret::from_bytes([1; 32]).invitation_token(Service::Proxy));
    }

    #[test]
    fn nothing_shows_in_debug_output() {
        let secret = TokenSecret::from_bytes([7; 32]);
        assert_eq!(
            format!("{secret:?} {:?}", secret.invitation_token(Service::Proxy)),
            "TokenSecret(..) Token(..)"
        );
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_refused(bit in 0usize..TOKEN_BYTES * 8) {
            let secret = TokenSecret::from_bytes([3; 32]);
            let mut bytes = secret.invitation_token(Service::Files).0;
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!secret.accepts(Service::Files, &bytes));
        }

        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            prop_assert!(!TokenSecret::from_bytes([3; 32]).accepts(Service::Proxy, &bytes));
        }
    }
}
