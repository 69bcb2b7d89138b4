//! CAPS: short flows coded below TCP and sprayed, long ones not. The keys of coding layers, and
//! `t_s_bytes`.

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, SchemeKind, Tcp,
    shims::{Caps, ShimKind},
};

use super::coding::{common, redundancy};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let caps = Caps { common: common(keys)?, redundancy: redundancy(keys)? };
    Ok(Profile { tcp, scheme: SchemeKind::Shim(ShimKind::Caps(caps)) })
}
