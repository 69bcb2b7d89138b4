//! TCP-IR ("Corrective"): `bin_rtt` is half an RTT in FUSO and a quarter in CoFUSO (BASE-A1).

use tcpsim::{Profile, SchemeKind, Tcp, schemes::Corrective};

use plans::{Keys, PlanError};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let base = Corrective::fuso();
    let corrective = Corrective {
        ir_bin_rtt: keys.float("bin_rtt", 0.001..=100.0)?.unwrap_or(base.ir_bin_rtt),
        delay_rtt: keys.float("delay_rtt", 0.0..=100.0)?.unwrap_or(base.delay_rtt),
        block: keys.count("block", 1..=255)?.unwrap_or(base.block),
    };
    Ok(Profile { tcp, scheme: SchemeKind::Corrective(corrective) })
}
