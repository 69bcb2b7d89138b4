//! SLP: duplicates of SYN and PSH packets. `bandwidth_mbps`, `assumed_loss`, `q_syn`, `q_psh`,
//! `learn`, `strict` (SLP-A3).

use tcpsim::{Profile, SchemeKind, Tcp, schemes::Slp};
use units::BitRate;

use plans::{Keys, PlanError};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut slp = Slp::default();
    if let Some(rate) = keys.float("bandwidth_mbps", 0.0..=1e6)? {
        slp.bandwidth = BitRate((rate * 1e6).round() as u64);
    }
    slp.loss = keys.float("assumed_loss", 0.0..=1.0)?.unwrap_or(slp.loss);
    slp.odds.handshake = keys.float("q_syn", 0.0..=1.0)?.unwrap_or(slp.odds.handshake);
    slp.odds.push = keys.float("q_psh", 0.0..=1.0)?.unwrap_or(slp.odds.push);
    slp.learn = keys.flag("learn")?.unwrap_or(slp.learn);
    slp.strict = keys.flag("strict")?.unwrap_or(slp.strict);
    Ok(Profile { tcp, scheme: SchemeKind::Slp(slp) })
}
