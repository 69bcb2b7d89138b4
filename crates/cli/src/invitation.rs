//! The one line that a server prints and a client is given: `mendpath://TOKEN@HOST:PORT?pin=...`,
//! with `&also=HOST:PORT` for each further server of the same identity.

use std::{fmt, str::FromStr};

use mendpath::KeyPin;

use crate::{
    target::{Target, TargetError},
    token::{Token, TokenError},
};

const SCHEME: &str = "mendpath://";

/// The environment variable that may hold one.
pub const INVITATION_VARIABLE: &str = "MENDPATH_INVITATION";

/// Servers that one invitation may name.
pub const MAX_HOSTS: usize = 8;

/// Where a server is, the right to use it, and how to recognise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The right to use the server. A secret.
    pub token: Token,
    /// Where the server listens.
    pub server: Target,
    /// Further servers that hold the same keys, at most [`MAX_HOSTS`] with the first.
    pub also: Vec<Target>,
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
    /// There are too many.
    #[error("it names more than {MAX_HOSTS} servers")]
    TooMany,
    /// The pin cannot be one.
    #[error("the pin is not 43 characters of base64url")]
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
        let mut also = Vec::new();
        for other in query.split('&').filter_map(|pair| pair.strip_prefix("also=")) {
            also.push(other.parse()?);
        }
        let pin =
            query.split('&').find_map(|pair| pair.strip_prefix("pin=")).ok_or(InvitationError::NoPin)?;
        let pin = pin.parse().map_err(|_| InvitationError::Pin)?;
        Self { token, server, also: Vec::new(), pin }.with(also)
    }
}

impl Invitation {
    /// Its servers, the first one first.
    pub fn hosts(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.server).chain(&self.also)
    }

    /// The same with further servers; those that it names already count once.
    ///
    /// # Errors
    /// [`InvitationError::TooMany`].
    pub fn with(mut self, others: impl IntoIterator<Item = Target>) -> Result<Self, InvitationError> {
        for other in others {
            if self.hosts().any(|host| *host == other) {
                continue;
            }
            if self.hosts().count() == MAX_HOSTS {
                return Err(InvitationError::TooMany);
            }
            self.also.push(other);
        }
        Ok(self)
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}@{}?pin={}", self.token, self.server, self.pin)?;
        self.also.iter().try_for_each(|other| write!(f, "&also={other}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::token::{Service, TokenSecret};

    fn example(server: &str) -> Invitation {
        let token = TokenSecret::from_bytes([5; 32]).invitation_token(Service::Proxy);
        Invitation { token, server: server.parse().unwrap(), also: Vec::new(), pin: KeyPin::of_spki(b"key") }
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
    fn it_may_name_several_servers() {
        let others = ["b.example:2", "[2001:db8::5]:3", "a.example:1", "b.example:2"];
        let invitation = example("a.example:1").with(others.map(|other| other.parse().unwrap())).unwrap();
        let text = invitation.to_string();
        assert!(text.ends_with("&also=b.example:2&also=[2001:db8::5]:3"), "each once: {text}");
        assert_eq!(text.parse(), Ok(invitation));
        let many: String = (0..MAX_HOSTS).map(|n| format!("&also=h{n}.example:1")).collect();
        let error = format!("{}{many}", example("a.example:1")).parse::<Invitation>().unwrap_err();
        assert_eq!(error, InvitationError::TooMany);
        let error = format!("{}&also=b.example", example("a.example:1")).parse::<Invitation>().unwrap_err();
        assert!(matches!(error, InvitationError::Server(_)), "{error}");
    }

    #[test]
    fn errors_teach_and_keep_the_secret() {
        let text = example("a.example:1").to_string();
        let error = |text: &str| text.parse::<Invitation>().unwrap_err();
        assert_eq!(error("https://example.org"), InvitationError::Scheme);
        assert_eq!(error("mendpath://a.example:1?pin=x"), InvitationError::NoToken);
        assert_eq!(error(text.split('?').next().unwrap()), InvitationError::NoPin);
        // What to do about it, whoever shows it says for all of them.
        let token = error("mendpath://secret@a.example:1").to_string();
        assert_eq!(token, "the token is not 64 characters of base64url");
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
