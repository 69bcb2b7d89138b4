//! What can go wrong in the laboratory, in words for its user.

use std::{io, path::PathBuf};

/// Why the laboratory could not do its work. Each message says what was tried, what went wrong, and
/// what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Network namespaces need root.
    #[error("it makes network namespaces and TUN devices, which only root may: run it with sudo")]
    NotRoot,
    /// Not on this system.
    #[error(
        "the lab needs Linux: network namespaces, TUN devices and the kernel's TCP are what it compares with"
    )]
    NotLinux,
    /// The user or the system asked for the end.
    #[error("the lab was interrupted; what it had made is removed")]
    Interrupted,
    /// A plan that cannot be read.
    #[error("cannot read the plan {}: {source}", .path.display())]
    ReadPlan {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A plan that cannot be understood.
    #[error("the plan {name} cannot be used: {reason}")]
    Plan {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A netlink request failed.
    #[error("cannot {what}: {reason}")]
    Netlink {
        /// What was tried.
        what: String,
        /// Why it failed.
        reason: String,
    },
    /// The emulator failed.
    #[error(transparent)]
    Emulator(#[from] emulator::EmulatorError),
    /// A contender's program could not be started, or ended.
    #[error("{contender}: {reason}")]
    Contender {
        /// Which.
        contender: String,
        /// What happened, and what to do.
        reason: String,
    },
}

impl LabError {
    /// Whether the user can put it right by typing something else: exit code 2.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Plan { .. } | Self::ReadPlan { .. })
    }

    /// A failed system call: `what` completes "cannot ...".
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
