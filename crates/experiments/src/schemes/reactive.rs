//! TCP with a tail loss probe: "TLP" in FUSO, "Reactive" in CoFUSO.

use tcpsim::{Profile, Tcp, schemes::reactive};

use plans::{Keys, PlanError};

pub(super) fn read(_: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile::tcp(reactive(tcp)))
}
