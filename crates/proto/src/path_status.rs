//! What either side wishes for a path.

use core::fmt;

/// Whether a path is for regular use (draft-ietf-quic-multipath-21 section 3.3).
///
/// Each side has a wish of its own for every path: a path carries data freely if both sides have
/// it available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathStatus {
    /// For regular use (PATH_STATUS_AVAILABLE).
    #[default]
    Available,
    /// Only while no available path works (PATH_STATUS_BACKUP).
    Backup,
}

impl PathStatus {
    /// Whether this is [`PathStatus::Backup`].
    pub const fn is_backup(self) -> bool {
        matches!(self, Self::Backup)
    }
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Available => "available",
            Self::Backup => "backup",
        })
    }
}
