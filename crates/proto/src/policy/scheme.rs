//! Schemes by name: what the registry and whoever brings a scheme of their own have in common.

use core::{cmp, fmt, hash};

use super::{RecoveryPolicy, limits::RepairConfig};
use crate::wire::CodeSchemes;

/// A scheme that connections can be told to use: one of the registry, or one of your own
/// ([`RecoveryKind::Custom`](super::RecoveryKind::Custom)). Two schemes of one name are the same.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// The name that users type, and that statistics show.
    pub name: &'static str,
    /// Makes the policy of one connection.
    pub build: fn(&Terms<'_>) -> Built,
}

/// What the two ends of a connection have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The limits of blocks and memory, ours and the peer's.
    pub repair: &'a RepairConfig,
    /// The codes of which the peer rebuilds packets.
    pub decodes: CodeSchemes,
}

/// The policy of one connection.
#[derive(Debug)]
pub struct Built {
    pub(crate) policy: Box<dyn RecoveryPolicy>,
    pub(crate) instead: Option<&'static str>,
}

impl Built {
    /// The scheme as it is meant.
    pub fn new(policy: impl RecoveryPolicy + 'static) -> Self {
        Self { policy: Box::new(policy), instead: None }
    }

    /// What takes its place for want of a decoder that the peer does not have: `how` it makes do,
    /// for statistics ("as fuso").
    pub fn instead(policy: impl RecoveryPolicy + 'static, how: &'static str) -> Self {
        Self { policy: Box::new(policy), instead: Some(how) }
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheme").field(&self.name).finish()
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Scheme {}

impl PartialOrd for Scheme {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheme {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.name.cmp(other.name)
    }
}

impl hash::Hash for Scheme {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Makes [`RecoveryKind`](super::RecoveryKind): one line per scheme gives its variant and its file.
macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $file:ident),+ $(,)?) => {
        /// What spare congestion window is used for.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum RecoveryKind {
            $($(#[$doc])* $variant,)+
            /// A scheme of your own; docs/add-a-recovery-scheme.md has an example.
            Custom(Scheme),
        }

        impl RecoveryKind {
            /// Every scheme of the registry.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The scheme itself.
            pub const fn scheme(self) -> Scheme {
                match self {
                    $(Self::$variant => $file::SCHEME,)+
                    Self::Custom(scheme) => scheme,
                }
            }

            /// The name that users type.
            pub const fn name(self) -> &'static str {
                self.scheme().name
            }
        }

        impl core::fmt::Display for RecoveryKind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl core::str::FromStr for RecoveryKind {
            type Err = crate::names::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                crate::names::by_name("recovery scheme", Self::ALL, |kind| kind.name(), name)
            }
        }
    };
}

pub(super) use registry;
