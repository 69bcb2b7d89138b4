//! The one line that a server prints and a client is given: `mendpath://TOKEN@HOST:PORT?pin=...`.

use std::{fmt, str::FromStr};

use mendpath::KeyPin;

use crate::{
    target::{Target, TargetError},
    token::{Token, TokenError},
};

const SCHEME: &str = "mendpath://";

/// Where a server is, the right to use it, and how to recognise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The right to use the server. A secret.
    pub token: Token,
    /// Where the server listens.
    pub server: Target,
    /// The key the server must hold.
    pub pin: KeyPin,
}

/// Text that is no invitation. The messages never repeat the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvitationError {
    /// It begins differently.
    #[error("an invitation begins with mendpath://")]
    Scheme,
    /// Nothing stands before an `@`.
    #[error("the part `TOKEN@` is missing after mendpath://")]
    NoToken,
    /// The token cannot be one.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The place cannot be one.
    #[error("{0}")]
    Server(#[from] TargetError),
    /// `?pin=` is missing.
    #[error("the part `?pin=...` is missing at the end (quote the invitation in your shell)")]
    NoPin,
    /// The pin cannot be one.
    #[error("the pin is not 43 characters of base64url: copy the whole invitation line")]
    Pin,
}

impl FromStr for Invitation {
    type Err = InvitationError;

    /// Unknown parameters after `?` are ignored, so that later servers may add some.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(InvitationError::Scheme)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (token, server) = place.split_once('@').ok_or(InvitationError::NoToken)?;
        let token = token.parse()?;
        let server = server.trim_end_matches('/').parse()?;
        let pin =
            query.split('&').find_map(|pair| pair.strip_prefix("pin=")).ok_or(InvitationError::NoPin)?;
        let pin = pin.parse().map_err(|_| InvitationError::Pin)?;
        Ok(Self { token, server, pin })
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}@{}?pin={}", self.token, self.server, self.pin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::token::{Service, TokenSecret};

    fn example(server: &str) -> Invitation {
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        Invitation { token, server: server.parse().unwrap(), pin: KeyPin::of_spki(b"key") }
    }

    #[test]
    fn reads_back() {
        for server in ["203.0.113.5:4433", "vps.example.org:443", "[2001:db8::5]:4433"] {
            let invitation = example(server);
            let text = invitation.to_string();
            assert!(text.contains(&format!("@{server}?pin=")), "{text}");
            assert_eq!(text.parse(), Ok(invitation.clone()));
            assert_eq!(format!(" {text}&later=1\n").parse(), Ok(invitation));
        }
    }

    #[test]
    fn errors_teach_and_keep_the_secret() {
        let text = example("a.example:1").to_string();
        let error = |text: &str| text.parse::<Invitation>().unwrap_err();
        assert_eq!(error("https://example.org"), InvitationError::Scheme);
        assert_eq!(error("mendpath://a.example:1?pin=x"), InvitationError::NoToken);
        assert_eq!(error(text.split('?').next().unwrap()), InvitationError::NoPin);
        assert!(error("mendpath://secret@a.example:1").to_string().contains("whole invitation line"));
        let error = error(&text.replace(":1?", "?"));
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
        assert!(!error.to_string().contains(&example("a.example:1").token.to_string()));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(mendpath://)?.{0,200}") {
            let _ = text.parse::<Invitation>();
        }

        #[test]
        fn any_cut_is_survived(cut in 0usize..150) {
            let text = example("a.example:1").to_string();
            let _ = text[..cut.min(text.len())].parse::<Invitation>();
        }
    }
}
