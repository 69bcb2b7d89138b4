//! What the connection sees of its paths, as the coding of packets needs to know it.

use std::collections::BTreeMap;

use mendpath::{PathId, PathState, PathStats};
use tunnel::raw::{Coding, Network};
use units::BitRate;

use crate::protocol;

/// How many packets each path had sent when it was looked at last.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<PathId, u64>);

impl Seen {
    /// The paths as packets use them: each counts as much as it has carried since the last look, but
    /// for those that packets leave out. `None` while none is measured.
    pub(super) fn network(&mut self, paths: &[PathStats]) -> Option<Network> {
        let active: Vec<&PathStats> =
            paths.iter().filter(|path| path.state == PathState::Active && !path.rtt.is_zero()).collect();
        let rtt = active.iter().map(|path| path.rtt).min()?;
        let weight = |path: &PathStats| {
            let before = self.0.get(&path.id).copied().unwrap_or(0);
            // A path that has carried nothing may carry the next.
            path.packets_sent.saturating_sub(before) as f64 + 1.0
        };
        let used = active.iter().filter(|path| !path.left_out);
        // At least one each; what is left out may be all that is still there.
        let all = used.clone().map(|path| weight(path)).sum::<f64>().max(1.0);
        let loss: f64 = used.map(|path| weight(path) * path.chance_loss).sum();
        let rate = |path: &&PathStats| path.window as f64 * 8.0 / path.rtt.as_secs_f64();
        let bandwidth = BitRate(active.iter().map(rate).sum::<f64>() as u64);
        let window = active.iter().map(|path| path.window / u64::from(path.mtu.max(1))).sum();
        self.0 = paths.iter().map(|path| (path.id, path.packets_sent)).collect();
        Some(Network { loss: (loss / all).clamp(0.0, 1.0), bandwidth, rtt: rtt.into(), window })
    }
}

impl From<protocol::Coding> for Coding {
    fn from(coding: protocol::Coding) -> Self {
        match coding {
            protocol::Coding::None => Self::None,
            protocol::Coding::Slp => Self::Slp,
            protocol::Coding::Htpc => Self::Htpc,
            protocol::Coding::Auto => Self::Auto,
        }
    }
}

impl From<Coding> for protocol::Coding {
    fn from(coding: Coding) -> Self {
        match coding {
            Coding::None => Self::None,
            Coding::Slp => Self::Slp,
            Coding::Htpc => Self::Htpc,
            Coding::Auto => Self::Auto,
        }
    }
}
