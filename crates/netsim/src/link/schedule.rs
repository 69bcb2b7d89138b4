//! Changes of a link at given times.

use units::{Duration, Instant};

use super::{Change, OutageKind};

/// The changes still to come, and the scheduled outages in force.
pub(super) struct Schedule {
    start: Instant,
    /// In order of time; same times in the order given.
    changes: Vec<(Duration, Change)>,
    next: usize,
    /// Outages of a kind in force: they may overlap.
    dropping: u32,
    holding: u32,
}

impl Schedule {
    pub(super) fn new(changes: &[(Duration, Change)], start: Instant) -> Self {
        let mut changes = changes.to_vec();
        changes.sort_by_key(|(after, _)| *after);
        Self { start, changes, next: 0, dropping: 0, holding: 0 }
    }

    /// Begins again at `start`, when no outage is in force.
    pub(super) fn restart(&mut self, start: Instant) {
        (self.start, self.next, self.dropping, self.holding) = (start, 0, 0, 0);
    }

    pub(super) fn next_change(&self) -> Option<Instant> {
        self.changes.get(self.next).map(|(after, _)| self.start + *after)
    }

    /// Takes the next change and keeps track of the outages in force.
    pub(super) fn pop(&mut self) -> Option<Change> {
        let (_, change) = *self.changes.get(self.next)?;
        self.next += 1;
        match change {
            Change::OutageBegins(OutageKind::Drop) => self.dropping += 1,
            Change::OutageBegins(OutageKind::Hold) => self.holding += 1,
            Change::OutageEnds(OutageKind::Drop) => self.dropping = self.dropping.saturating_sub(1),
            Change::OutageEnds(OutageKind::Hold) => self.holding = self.holding.saturating_sub(1),
            Change::Rate(_) | Change::Delay(_) => {}
        }
        Some(change)
    }

    pub(super) fn outage(&self) -> Option<OutageKind> {
        match (self.dropping, self.holding) {
            (0, 0) => None,
            (0, _) => Some(OutageKind::Hold),
            _ => Some(OutageKind::Drop),
        }
    }
}
