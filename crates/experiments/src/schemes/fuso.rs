//! FUSO: MPTCP's keys, and the weights `alpha` and `beta` of section III-B.1.

use plans::{Keys, PlanError};
use recovery::Weights;
use tcpsim::{Profile, SchemeKind, Tcp, schemes::Fuso};

use super::sub_flows;

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let base = Fuso::new(4);
    let fuso = Fuso { mptcp: sub_flows(keys, base.mptcp)?, weights: weights(keys, base.weights)? };
    Ok(Profile { tcp, scheme: SchemeKind::Fuso(fuso) })
}

/// The keys `alpha` and `beta` on top of `base`.
pub(super) fn weights(keys: &mut Keys<'_>, base: Weights) -> Result<Weights, PlanError> {
    Ok(Weights {
        overall: keys.float("alpha", 0.0..=1e6)?.unwrap_or(base.overall),
        recent: keys.float("beta", 0.0..=1e6)?.unwrap_or(base.recent),
    })
}
