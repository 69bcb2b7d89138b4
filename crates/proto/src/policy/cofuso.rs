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

#[cfg(test)]
mod tests {
    use recovery::{Exposed, PacketNumber, SourceRun};
    use units::Duration;

    use super::*;
    use crate::wire::PathId;

    /// Ten packets of path 0, none of which is ever acknowledged.
    struct Ten;

    impl UnackedView for Ten {
        fn oldest_resendable(&self, path: PathId) -> Option<PacketNumber> {
            (path == PathId::ZERO).then_some(PacketNumber::ZERO)
        }
        fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun> {
            let first = after.map_or(PacketNumber::ZERO, PacketNumber::next);
            let packets = 10_u64.saturating_sub(first.0).min(limit.into());
            (path == PathId::ZERO && packets > 0).then(|| SourceRun {
                first,
                last: PacketNumber(first.0 + packets - 1),
                packets: packets as u32,
            })
        }
        fn any_unacked(&self, path: PathId, _: PacketNumber, _: PacketNumber) -> bool {
            path == PathId::ZERO
        }
        fn exposed(&self, _: PathId, _: u32) -> Option<Exposed> {
            None
        }
        fn next_unacked(&self, path: PathId, first: PacketNumber, _: PacketNumber) -> Option<PacketNumber> {
            (path == PathId::ZERO).then_some(first)
        }
    }

    /// How many repair symbols each block has got when copies begin.
    fn symbols(m_max: u8, loss: f64) -> Vec<u16> {
        let mut cofuso = Cofuso::new(&RepairConfig { m_max, ..RepairConfig::default() });
        let path = |id| PathSnapshot::new(PathId(id), Duration::from_millis(50), 1_200);
        let paths = [PathSnapshot { loss, protectable: true, ..path(0) }, path(1)];
        let mut symbols: Vec<(Block, u16)> = Vec::new();
        loop {
            let action = cofuso.on_opportunity(Instant::ORIGIN, &paths, &Ten);
            let RecoveryAction::Repair { block, .. } = action else {
                assert!(matches!(action, RecoveryAction::Reinject { .. }), "{action:?}");
                return symbols.into_iter().map(|(_, count)| count).collect();
            };
            match symbols.last_mut() {
                Some((last, count)) if *last == block => *count += 1,
                _ => symbols.push((block, 1)),
            }
            assert!(symbols.len() <= 10, "{symbols:?}");
            cofuso.on_done(&action, Some(Carried { number: PacketNumber::ZERO, bytes: 1_200 }));
        }
    }

    /// Blocks are as many times longer as they may have more symbols: M_max / L packets.
    #[test]
    fn no_block_has_more_symbols_than_m_max() {
        for (m_max, loss, expected) in [
            (1, 0.0, vec![1]),
            (2, 0.0, vec![2]),
            (3, 0.0, vec![3]),
            (1, 0.5, vec![1; 5]),
            (2, 0.5, vec![2; 3]),
            (3, 0.5, vec![3; 2]),
        ] {
            assert_eq!(symbols(m_max, loss), expected, "M_max {m_max}, L {loss}");
        }
    }
}
