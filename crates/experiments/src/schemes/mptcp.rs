//! MPTCP without a recovery scheme: `subflows`, `opportunistic`, `reinject_on_timeout`,
//! `early_delivery`, `hollow`, `joins` (at-once, later).

use plans::{Keys, PlanError};
use tcpsim::{Profile, SchemeKind, Tcp, schemes::Mptcp};

use super::sub_flows;

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile { tcp, scheme: SchemeKind::Mptcp(sub_flows(keys, Mptcp::new(4))?) })
}
