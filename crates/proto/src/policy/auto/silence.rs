//! Copies that follow the probes of a timeout (docs/decisions/0042-copies-after-silence.md).

use recovery::PacketNumber;
use units::Instant;

use crate::PathSnapshot;

/// Copies that follow the two probes of a timeout, in so many timeouts in a row, and how many of them a
/// round trip takes (docs/decisions/0042-copies-after-silence.md).
pub(super) const COPIES_AFTER_PROBES: u8 = 6;
pub(super) const SILENT_TIMEOUTS: u8 = 6;
pub(super) const COPIES_PER_ROUND_TRIP: u64 = 8;
/// A path is far slower if it takes so many round trips of the silent one: copies there are answered, and what that
/// leaves goes again, before what was moved has arrived.
const FAR_SLOWER: u64 = 4;

/// Copies that follow the probes of a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// Probe timeouts since the last ACK.
    pub(super) timeouts: u8,
    /// So many copies are left of this one.
    pub(super) left: u8,
    /// What waited has been moved to other paths.
    pub(super) moved: bool,
    /// When the next one leaves, once that is known.
    pub(super) at: Option<Instant>,
    /// The first packet that it may repeat.
    pub(super) next: PacketNumber,
}

impl Silence {
    /// Another probe timeout has passed without an answer.
    pub(super) fn on_timeout(&mut self, moved: bool) {
        self.timeouts = self.timeouts.saturating_add(1);
        let left = if self.timeouts <= SILENT_TIMEOUTS { COPIES_AFTER_PROBES } else { 0 };
        *self = Self { left, moved, timeouts: self.timeouts, ..Self::default() };
    }

    /// Whether copies may leave on the path for which this is.
    pub(super) fn allows(&self, of: &PathSnapshot, paths: &[PathSnapshot]) -> bool {
        // What was moved may go over one that carries no recovery, such as a metered one, and over no backup that waits.
        let mut others = paths.iter().filter(|p| p.id != of.id && p.carries_data);
        match self.moved {
            true => of.silent && others.all(|p| p.rtt > of.rtt * FAR_SLOWER),
            false => of.usable,
        }
    }
}
