//! TCP alone.

use tcpsim::{Profile, Tcp};

use plans::{Keys, PlanError};

pub(super) fn read(_: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile::tcp(tcp))
}
