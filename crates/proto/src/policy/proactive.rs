//! Proactive: every data packet twice on its own path, at once (the baseline of papers FUSO and CoFUSO; the bad example).
//!
//! The duplicate is sent within the window. If the window is full, it is made up for when window is spare again.

use recovery::{UnackedView, fuso::Reinjection};
use units::Instant;

use super::{RecoveryAction, RecoveryPolicy, paced};
use crate::{snapshot::PathSnapshot, wire::PathId};

#[derive(Debug)]
pub(super) struct Proactive;

impl RecoveryPolicy for Proactive {
    fn duplicate_at_once(&mut self, of: PathId) -> Option<PathId> {
        Some(of)
    }

    fn on_opportunity(
        &mut self,
        _now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        let owing = paths.iter().filter(|p| p.protectable && p.has_window());
        let step = owing.filter_map(|p| recovery::proactive::step(p.id, unacked)).next();
        match step {
            Some(step) => {
                let Reinjection { packet, of, on } = step;
                paced(RecoveryAction::Reinject { packet, of, on }, on, paths)
            }
            None => RecoveryAction::Nothing,
        }
    }
}
