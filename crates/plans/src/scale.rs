//! How much of a plan is run.

use std::str::FromStr;

use thiserror::Error;

use crate::names;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Minutes: too few seeds, flows or fetches for tails worth the name.
    Quick,
    /// An hour: enough for tails where the paper's numbers would take days.
    Medium,
    /// The paper's numbers.
    Paper,
}

impl Scale {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("quick", Self::Quick), ("medium", Self::Medium), ("paper", Self::Paper)];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Medium => "medium",
            Self::Paper => "paper",
        }
    }
}

/// A scale that there is not.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("there is no `{text}`: use {}", names(Scale::ALL.iter().map(|(name, _)| *name)))]
pub struct UnknownScale {
    /// What was asked for.
    pub text: String,
}

impl FromStr for Scale {
    type Err = UnknownScale;

    fn from_str(text: &str) -> Result<Self, UnknownScale> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, scale)| scale).ok_or_else(|| UnknownScale { text: text.to_owned() })
    }
}
