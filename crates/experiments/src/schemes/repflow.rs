//! Two whole copies of every flow.

use tcpsim::{Profile, SchemeKind, Tcp};

use plans::{Keys, PlanError};

pub(super) fn read(_: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile { tcp, scheme: SchemeKind::RepFlow })
}
