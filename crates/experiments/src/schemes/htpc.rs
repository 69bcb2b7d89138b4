//! HTPC: a coding layer below TCP. The keys of coding layers, `t_s_bytes` and `t_w_bytes`
//! (HTPC-A6).

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, SchemeKind, Tcp,
    shims::{Htpc, ShimKind},
};

use super::coding::{common, redundancy};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let htpc = Htpc { common: common(keys)?, redundancy: redundancy(keys)? };
    Ok(Profile { tcp, scheme: SchemeKind::Shim(ShimKind::Htpc(htpc)) })
}
