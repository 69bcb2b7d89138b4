//! Plain RFC 9002: spare window stays spare.

use recovery::UnackedView;
use units::Instant;

use super::{Built, RecoveryAction, RecoveryPolicy, Scheme};
use crate::PathSnapshot;

pub(super) const SCHEME: Scheme = Scheme { name: "none", build: |_| Built::new(None) };

#[derive(Debug)]
pub(super) struct None;

impl RecoveryPolicy for None {
    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }
}
