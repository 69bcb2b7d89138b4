//! FUSO: MPTCP's keys, and the weights `alpha` and `beta` of section III-B.1. With `as_released` the
//! authors' kernel instead of the paper: `missed` attempts (a share), and no early delivery unless
//! `early_delivery` asks for it.

use plans::{Keys, PlanError};
use recovery::Weights;
use tcpsim::{
    Profile, SchemeKind, Tcp,
    schemes::{Fuso, Released},
};

use super::sub_flows;

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut base = Fuso::new(4);
    keys.only_with(&["missed"], "as_released")?;
    let missed = keys.float("missed", 0.0..=1.0)?;
    if keys.flag("as_released")?.unwrap_or(false) {
        base.released = Some(Released { missed: missed.unwrap_or(0.0) });
        base.mptcp.early_delivery = false;
    }
    let mptcp = sub_flows(keys, base.mptcp)?;
    let fuso = Fuso { mptcp, weights: weights(keys, base.weights)?, ..base };
    Ok(Profile { tcp, scheme: SchemeKind::Fuso(fuso) })
}

/// The keys `alpha` and `beta` on top of `base`.
pub(super) fn weights(keys: &mut Keys<'_>, base: Weights) -> Result<Weights, PlanError> {
    Ok(Weights {
        overall: keys.float("alpha", 0.0..=1e6)?.unwrap_or(base.overall),
        recent: keys.float("beta", 0.0..=1e6)?.unwrap_or(base.recent),
    })
}
