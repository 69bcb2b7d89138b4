//! Spraying by entropies that met no queue, below TCP with RACK instead of duplicate
//! acknowledgements. It has no keys of its own; marks are TCP's `ecn`.

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, SchemeKind, Tcp,
    shims::{ShimKind, reps},
};

pub(super) fn read(_keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    Ok(Profile { tcp: reps::tcp(tcp), scheme: SchemeKind::Shim(ShimKind::Reps) })
}
