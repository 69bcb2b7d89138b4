//! CoFUSO: repair symbols over the un-ACKed packets of the worst path, then copies as FUSO
//! (section 4.2, Algorithm 2).
//!
//! Spare window is used in this order, each step for the worst path that it applies to:
//!
//! 1. the M repair symbols of a block over un-ACKed packets that no block has covered
//!    (Algorithm 2);
//! 2. further repair symbols of the last block, up to M_max;
//! 3. copies of the oldest un-ACKed packets (FUSO).
//!
//! Blocks are kept per path (COF-A10). A block's symbols are computed when its first one is sent,
//! so it can go on after some of its packets were ACKed.
//!
//! # Departures
//! - Every path's packets are coded before any packet is resent. Section 4.2.3 says "every un-ACKed
//!   packet"; Algorithm 2 alone would spend all spare window on copies for the path that it holds
//!   to be the worst, which without loss history is a guess.
//! - Step 2 is ours. M = K x L is 1 while no loss is known (COF-A7), but another symbol of the
//!   block repairs whichever packet is lost second, and a copy only the one it copies.
//! - See docs/decisions/0006-spare-window-order.md for the measurements.

use recovery::{
    PathSample, UnackedView,
    cofuso::{Block, BlockParameters, BlockProgress, MAX_BLOCK, Step},
    path_choice::cofuso::{Weights, best, worst},
};
use units::Instant;

use super::{
    Built, Carried, CodeScheme, Coding, PathSnapshot, RecoveryAction, RecoveryEvent, RecoveryPolicy,
    RepairConfig, Scheme, Terms,
    fuso::{Fuso, budget},
    paced, samples,
};
use crate::by_path::ByPath;

pub(super) const SCHEME: Scheme = Scheme { name: "cofuso", build };

fn build(terms: &Terms<'_>) -> Built {
    if terms.decodes.contains(CodeScheme::ReedSolomon) {
        Built::new(Cofuso::new(terms.repair))
    } else {
        Built::instead(Fuso, "as fuso")
    }
}

#[derive(Debug)]
struct Cofuso {
    parameters: BlockParameters,
    weights: Weights,
    coded: ByPath<Coded>,
}

/// Where the coding of one path's packets stands.
#[derive(Debug, Default)]
struct Coded {
    progress: BlockProgress,
    /// The last block, and the index of the next symbol that has not been sent.
    last: Option<(Block, u16)>,
}

impl Cofuso {
    fn new(config: &RepairConfig) -> Self {
        let parameters = BlockParameters {
            m_max: u16::from(config.m_max),
            k_max: u16::from(config.k_max),
            ..BlockParameters::default()
        };
        Self { parameters, weights: Weights::default(), coded: ByPath::new() }
    }

    /// The repair symbol that Algorithm 2 asks for, if the path has packets to code.
    fn parity(&self, sample: &PathSample, unacked: &dyn UnackedView) -> Option<(Block, u16)> {
        let fresh = BlockProgress::new();
        let progress = self.coded.get(&sample.path).map_or(&fresh, |coding| &coding.progress);
        match progress.step(&self.parameters, sample.loss, sample.path, unacked) {
            Step::Parity { block, index } => Some((block, index)),
            Step::Resend { .. } | Step::Nothing => None,
        }
    }

    /// A further symbol of the path's last block, while any of its packets is un-ACKed.
    fn further(&self, sample: &PathSample, unacked: &dyn UnackedView) -> Option<(Block, u16)> {
        let (block, index) = self.coded.get(&sample.path)?.last?;
        let most = self.parameters.m_max.min(MAX_BLOCK - block.k);
        (index < most && unacked.any_unacked(sample.path, block.first, block.last)).then_some((block, index))
    }
}

impl RecoveryPolicy for Cofuso {
    fn coding(&self) -> Coding {
        Coding::Unacked
    }

    fn on_opportunity(
        &mut self,
        _now: Instant,
        paths: &[PathSnapshot],
        unacked: &dyn UnackedView,
    ) -> RecoveryAction {
        let mut samples = samples(paths);
        let on = match best(&samples, self.weights) {
            Some(on) if budget(paths).allows_recovery() => on,
            _ => return RecoveryAction::Nothing,
        };
        if let Some(packet) =
            worst(&samples, self.weights).and_then(|of| Some((of, unacked.oldest_resendable(of)?)))
        {
            let (of, packet) = packet;
            for symbol in [Self::parity, Self::further] {
                for sample in &mut samples {
                    sample.protectable = symbol(self, sample, unacked).is_some();
                }
                let chosen = worst(&samples, self.weights);
                let chosen = samples.iter().find(|s| Some(s.path) == chosen);
                if let Some((sample, (block, index))) =
                    chosen.and_then(|s| Some((s, symbol(self, s, unacked)?)))
                {
                    let of = sample.path;
                    return paced(RecoveryAction::Repair { block, index, of, on }, on, paths);
                }
            }
            return paced(RecoveryAction::Reinject { packet, of, on }, on, paths);
        }
        RecoveryAction::Nothing
    }

    fn on_done(&mut self, action: &RecoveryAction, sent: Option<Carried>) {
        let RecoveryAction::Repair { block, index, of, .. } = *action else { return };
        let coding = self.coded.get_or_default(of);
        if index < block.m {
            coding.progress.on_sent(&Step::Parity { block, index });
        }
        coding.last = Some((block, index + 1));
        if sent.is_none() {
            coding.progress.abandon();
            coding.last = None;
        }
    }

    fn on_event(&mut self, _now: Instant, event: &RecoveryEvent) {
        if let RecoveryEvent::PathClosed { path } = event {
            self.coded.remove(path);
        }
    }
}
