//! Corrective as HTPC reads it: one coded packet per window, below TCP. The keys of coding layers.

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, SchemeKind, Tcp,
    shims::{PerWindow, ShimKind},
};

use super::coding::common;

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile { tcp, scheme: SchemeKind::Shim(ShimKind::Corrective(PerWindow { common: common(keys)? })) })
}
