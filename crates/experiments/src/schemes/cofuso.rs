//! CoFUSO: MPTCP's keys; a `setting` of the paper (section 5.2 or 6.2) and what differs from it:
//! `m_max`, `k_max`, `alpha1` and `beta1` (loss estimate), `alpha2` and `beta2` (choice of path),
//! `fixed_rate` (parities per packet, Fig. 15).

use plans::{Keys, PlanError};
use recovery::{Weights, path_choice};
use tcpsim::{Profile, SchemeKind, Tcp, schemes::Cofuso};

use super::sub_flows;

type Setting = fn(usize) -> Cofuso;
const SETTINGS: &[(&str, Setting)] = &[("simulation", Cofuso::simulation), ("testbed", Cofuso::testbed)];

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let setting = keys.named("setting", SETTINGS)?.unwrap_or(Cofuso::simulation);
    let base = setting(4);
    let mut cofuso = Cofuso {
        mptcp: sub_flows(keys, base.mptcp)?,
        weights: Weights {
            overall: keys.float("alpha1", 0.0..=1e6)?.unwrap_or(base.weights.overall),
            recent: keys.float("beta1", 0.0..=1e6)?.unwrap_or(base.weights.recent),
        },
        path_weights: path_choice::cofuso::Weights {
            loss: keys.float("alpha2", 0.0..=1e6)?.unwrap_or(base.path_weights.loss),
            rtt: keys.float("beta2", 0.0..=1e6)?.unwrap_or(base.path_weights.rtt),
        },
        fixed_rate: keys.float("fixed_rate", 0.0..=1.0)?,
        ..base
    };
    if let Some(m_max) = keys.count("m_max", 1..=254)? {
        cofuso.block.m_max = m_max as u16;
    }
    if let Some(k_max) = keys.count("k_max", 1..=255)? {
        cofuso.block.k_max = k_max as u16;
    }
    Ok(Profile { tcp: Cofuso::tcp(tcp), scheme: SchemeKind::Cofuso(cofuso) })
}
