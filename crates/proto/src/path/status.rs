//! Which paths each side prefers (draft-ietf-quic-multipath-21 section 3.3).

use super::Path;

/// What PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP have said of a path.
#[derive(Debug, Default)]
pub(super) struct PathStatuses {
    /// Either side asked to use other paths first.
    local_backup: bool,
    remote_backup: bool,
    local_sequence: u64,
    remote_sequence: Option<u64>,
}

impl Path {
    /// Whether either side asked to use other paths first.
    pub(crate) fn is_backup(&self) -> bool {
        self.status.local_backup || self.status.remote_backup
    }

    /// Asks the peer to use other paths first, or takes that back; false if that is nothing new.
    pub(crate) fn set_backup(&mut self, backup: bool) -> bool {
        if self.status.local_backup == backup {
            return false;
        }
        self.status.local_backup = backup;
        self.status.local_sequence += 1;
        true
    }

    /// What we last asked: the sequence number, and whether the path is a backup.
    pub(crate) fn local_status(&self) -> (u64, bool) {
        (self.status.local_sequence, self.status.local_backup)
    }

    /// What the peer asks; older news than the latest count for nothing.
    pub(crate) fn on_status(&mut self, sequence: u64, backup: bool) {
        if self.status.remote_sequence.is_none_or(|newest| sequence > newest) {
            self.status.remote_sequence = Some(sequence);
            self.status.remote_backup = backup;
        }
    }
}
