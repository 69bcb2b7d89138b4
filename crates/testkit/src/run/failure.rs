//! What can break a run.

use proto::{ConnectionError, Side};
use units::Instant;

use crate::checks::{Violation, bytes::Wrong};

/// What broke a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// An invariant of the transport.
    #[error("invariant broken: {0}")]
    Violation(#[from] Violation),
    /// An application saw what must not be.
    #[error("{side:?}'s application at {at}: {wrong}")]
    Application {
        /// Whose.
        side: Side,
        /// When.
        at: Instant,
        /// What.
        wrong: Wrong,
    },
    /// Nothing moved any more.
    #[error("stalled at {at}: {report}")]
    Stalled {
        /// When it was given up.
        at: Instant,
        /// What was left.
        report: String,
    },
    /// The connection ended by itself.
    #[error("{side:?} lost the connection at {at}: {error}")]
    Lost {
        /// Who told.
        side: Side,
        /// When.
        at: Instant,
        /// Why.
        error: ConnectionError,
    },
    /// Something stayed behind.
    #[error("{side:?} is not at rest: {report}")]
    Leak {
        /// Who.
        side: Side,
        /// What is left.
        report: String,
    },
    /// More steps than any scenario needs.
    #[error("{0} steps and no end")]
    Endless(u64),
    /// The code panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// Two runs of the same scenario went differently.
    #[error("two runs differ: trace hashes {:#x} and {:#x}", .hashes[0], .hashes[1])]
    Differs {
        /// The trace hash of each.
        hashes: [u64; 2],
    },
}

impl Failure {
    /// A word for the kind of failure: what stays the same when a scenario is made smaller.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Violation(violation) => violation.kind.name(),
            Self::Application { .. } => "application",
            Self::Stalled { .. } => "stall",
            Self::Lost { .. } => "connection lost",
            Self::Leak { .. } => "leak",
            Self::Endless(_) => "endless",
            Self::Panic(_) => "panic",
            Self::Differs { .. } => "determinism",
        }
    }
}
