//! NDP instead of TCP, for lines that `trim`: of TCP's keys it has sizes and timers. `window`, packets
//! of the first window (24); `paths` that it sprays over (16; with the balancing `sub-flow`, as many
//! as there are).

use plans::{Keys, PlanError};
use tcpsim::{
    Profile, Tcp,
    ndp::{MAX_PATHS, Ndp},
};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let base = Ndp::default();
    let paths = keys.count("paths", 1..=u32::from(MAX_PATHS))?;
    let ndp = Ndp {
        window: keys.count("window", 1..=1 << 20)?.unwrap_or(base.window),
        paths: paths.map_or(base.paths, |paths| paths as u8),
    };
    Ok(ndp.profile(tcp))
}
