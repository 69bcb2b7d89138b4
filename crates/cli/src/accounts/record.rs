//! An account as the store has it.

use std::{fmt, str::FromStr, time::SystemTime};

use super::{OWNER, Over, Terms, now};
use crate::token::ID_BYTES;

/// What an account and its token have in common. Not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountId(pub [u8; ID_BYTES]);

/// The name of an account: 1 to 64 letters, digits and `. _ - + @`, beginning with a letter or
/// digit, so that it fits tables, labels of metrics and shells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// Text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has up to 64 letters, digits and . _ - + @, and begins with a letter or digit")]
pub struct NameError;

/// What passed, in bytes that programs sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the client to other hosts.
    pub up: u64,
    /// From other hosts to the client.
    pub down: u64,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its token's id.
    pub id: AccountId,
    /// Its name. Of accounts that are not revoked, no two have the same.
    pub name: Name,
    /// When it was made.
    pub created: SystemTime,
    /// What it may do.
    pub terms: Terms,
    /// When it was revoked.
    pub revoked: Option<SystemTime>,
    /// What it has used.
    pub usage: Usage,
    /// When it last used something.
    pub seen: Option<SystemTime>,
}

impl Name {
    /// [`OWNER`].
    pub fn owner() -> Self {
        Self(OWNER.to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let is_name = begins && text.len() <= 64 && text.chars().all(fits);
        is_name.then(|| Self(text.to_owned())).ok_or(NameError)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Usage {
    /// In both directions.
    pub fn sum(self) -> u64 {
        self.up.saturating_add(self.down)
    }
}

impl Record {
    /// An account that is made now.
    pub fn new(id: AccountId, name: Name, terms: Terms) -> Self {
        Self { id, name, created: now(), terms, revoked: None, usage: Usage::default(), seen: None }
    }

    /// Why it may not be used at `now`; `None` if it may.
    pub fn over(&self, now: SystemTime) -> Option<Over> {
        let revoked = self.revoked.map(|_| Over::Revoked);
        revoked.or_else(|| self.terms.over(self.usage.sum(), now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_everywhere() {
        for good in ["alice", "a", "bob-2", "carol@example.org", "0", &"x".repeat(64)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", "-v", ".x", "a b", "a\nb", "é", "a\"b", "a,b", &"x".repeat(65)] {
            assert_eq!(bad.parse::<Name>(), Err(NameError), "{bad}");
        }
    }
}
