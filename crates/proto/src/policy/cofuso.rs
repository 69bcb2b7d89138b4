//! CoFUSO: repair symbols over the un-ACKed packets of the worst path, then copies as FUSO (section 4.2, Algorithm 2).
//!
//! Blocks are kept per path (COF-A10). The block's symbols are computed when its first one is sent, so a block can go on after
//! some of its packets were ACKed.

use std::collections::BTreeMap;

use recovery::{
    UnackedView,
    cofuso::{BlockParameters, BlockProgress, Step},
    path_choice::cofuso::{Weights, best, worst},
};
use units::Instant;

use super::{RecoveryAction, RecoveryPolicy, fuso::budget, paced, samples};
use crate::{config::RepairConfig, snapshot::PathSnapshot, wire::PathId};

#[derive(Debug)]
pub(super) struct Cofuso {
    parameters: BlockParameters,
    weights: Weights,
    progress: BTreeMap<PathId, BlockProgress>,
}

impl Cofuso {
    pub(super) fn new(config: &RepairConfig) -> Self {
        let parameters = BlockParameters {
            m_max: u16::from(config.m_max),
            k_max: u16::from(config.k_max),
            ..BlockParameters::default()
        };
        Self { parameters, weights: Weights::default(), progress: BTreeMap::new() }
    }
}

impl RecoveryPolicy for Cofuso {
    fn codes(&self) -> bool {
        true
    }

    fn on_opportunity(
        &mut self,
        _now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        if !budget(paths).allows_recovery() {
            return RecoveryAction::Nothing;
        }
        let samples = samples(paths);
        let (Some(of), Some(on)) = (worst(&samples, self.weights), best(&samples, self.weights)) else {
            return RecoveryAction::Nothing;
        };
        let loss = samples.iter().find(|s| s.path == of).map_or(0.0, |s| s.loss);
        let progress = self.progress.entry(PathId(of)).or_default();
        let step = progress.step(&self.parameters, loss, of, unacked);
        let (of, on) = (PathId(of), PathId(on));
        let action = match step {
            Step::Parity { block, index } => RecoveryAction::Repair { block, index, of, on },
            Step::Resend { packet } => RecoveryAction::Reinject { packet, of, on },
            Step::Nothing => return RecoveryAction::Nothing,
        };
        paced(action, on, paths)
    }

    fn on_done(&mut self, action: &RecoveryAction, sent: bool) {
        if let RecoveryAction::Repair { block, index, of, .. } = *action {
            let progress = self.progress.entry(of).or_default();
            progress.on_sent(&Step::Parity { block, index });
            if !sent {
                progress.abandon();
            }
        }
    }

    fn on_path_closed(&mut self, path: PathId) {
        self.progress.remove(&path);
    }
}
