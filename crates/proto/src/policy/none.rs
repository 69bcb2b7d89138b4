//! Plain RFC 9002: spare window stays spare.

use recovery::UnackedView;
use units::Instant;

use super::{RecoveryAction, RecoveryPolicy};
use crate::snapshot::PathSnapshot;

#[derive(Debug)]
pub(super) struct None;

impl RecoveryPolicy for None {
    fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
        RecoveryAction::Nothing
    }
}
