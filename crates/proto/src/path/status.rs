//! Which paths each side prefers (draft-ietf-quic-multipath-21 section 3.3).

use core::fmt;

use super::Path;

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

/// What PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP have said of a path.
#[derive(Debug, Default)]
pub(super) struct PathStatuses {
    local: PathStatus,
    local_sequence: u64,
    remote: PathStatus,
    /// The peer's next news has this sequence number, or a larger one.
    remote_sequence: u64,
}

impl Path {
    /// Whether either side asked to use other paths first.
    pub(crate) fn is_backup(&self) -> bool {
        self.status.local.is_backup() || self.status.remote.is_backup()
    }

    /// Says what we wish for the path; false if that is nothing new.
    pub(crate) fn set_status(&mut self, status: PathStatus) -> bool {
        if self.status.local == status {
            return false;
        }
        self.status.local = status;
        self.status.local_sequence += 1;
        true
    }

    /// What we last wished, and under which sequence number.
    pub(crate) fn local_status(&self) -> (u64, PathStatus) {
        (self.status.local_sequence, self.status.local)
    }

    /// What the peer wishes; older news than the latest count for nothing.
    pub(crate) fn on_status(&mut self, sequence: u64, status: PathStatus) {
        if sequence >= self.status.remote_sequence {
            self.status.remote_sequence = sequence + 1;
            self.status.remote = status;
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;
    use crate::{NetworkPath, config::TransportConfig, wire::PathId};

    #[test]
    fn older_news_and_repeated_ones_count_for_nothing() {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        let network = NetworkPath { local: at(1), remote: at(2) };
        let mut path = Path::new(PathId::ZERO, network, &TransportConfig::default(), Instant::ORIGIN);
        // The first ones may well have the number zero.
        path.on_status(0, PathStatus::Backup);
        assert!(path.is_backup());
        path.on_status(5, PathStatus::Available);
        for sequence in [0, 4, 5] {
            path.on_status(sequence, PathStatus::Backup);
            assert!(!path.is_backup(), "{sequence}");
        }
        path.on_status(6, PathStatus::Backup);
        assert!(path.is_backup());
    }
}
