//! XLINK's re-injection: MPTCP's keys, and `play_mbps` (nothing is played without), `always_below_ms`
//! and `never_above_ms` (the thresholds of what is left to play).

use plans::{Keys, PlanError};
use tcpsim::{Profile, SchemeKind, Tcp, schemes::Xlink};
use units::BitRate;

use super::sub_flows;

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let base = Xlink::new(4);
    let play = keys.float("play_mbps", 0.001..=1e6)?;
    let xlink = Xlink {
        mptcp: sub_flows(keys, base.mptcp)?,
        play: play.map(|rate| BitRate((rate * 1e6).round() as u64)),
        always_below: keys.millis("always_below_ms")?.unwrap_or(base.always_below),
        never_above: keys.millis("never_above_ms")?.unwrap_or(base.never_above),
    };
    Ok(Profile { tcp, scheme: SchemeKind::Xlink(xlink) })
}
