//! FUSO: un-ACKed packets of the worst path again over the best (section III-B, Algorithm 1).

use recovery::{
    UnackedView,
    fuso::{self, Reinjection},
};
use units::Instant;

use super::{Built, RecoveryAction, RecoveryPolicy, Scheme, paced, samples};
use crate::PathSnapshot;

pub(super) const SCHEME: Scheme = Scheme { name: "fuso", build: |_| Built::new(Fuso) };

#[derive(Debug)]
pub(super) struct Fuso;

impl RecoveryPolicy for Fuso {
    fn on_opportunity(
        &mut self,
        _now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        match fuso::step(&budget(paths), &samples(paths), unacked) {
            Some(Reinjection { packet, of, on }) => {
                paced(RecoveryAction::Reinject { packet, of, on }, on, paths)
            }
            None => RecoveryAction::Nothing,
        }
    }
}

/// The connection's budget as Algorithm 1 tests it; that no new data waits is why the policy was
/// asked.
pub(super) fn budget(paths: &[PathSnapshot]) -> fuso::Budget {
    fuso::Budget {
        in_flight: paths.iter().map(|p| p.in_flight).sum(),
        window: paths.iter().map(|p| p.window).sum(),
        new_data: false,
    }
}
