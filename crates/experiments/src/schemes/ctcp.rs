//! CTCP instead of TCP: of TCP's keys it has sizes and timers. `block`, `blocks`, `mu`; `tokens`, its
//! initial window (8); `controller`, one of the transport's (`ctcp`, or `ctcp-printed`, or another).

use tcpsim::{Profile, SchemeKind, Tcp, ctcp::Ctcp};

use congestion::ControllerKind;
use plans::{Keys, PlanError, names};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut ctcp = Ctcp::default();
    if let Some(size) = keys.count("block", 1..=255)? {
        ctcp.limits.block_size = size as u16;
    }
    if let Some(blocks) = keys.count("blocks", 1..=1_000_000)? {
        ctcp.limits.max_blocks = blocks as usize;
    }
    ctcp.mu = keys.float("mu", 0.0..=1.0)?.unwrap_or(ctcp.mu);
    if let Some(name) = keys.text("controller")? {
        let known = || names(ControllerKind::ALL.iter().map(|kind| kind.name()));
        let wrong = || PlanError::value(keys.path("controller"), format!("`{name}`"), known());
        ctcp.controller = name.parse().map_err(|_| wrong())?;
    }
    // CTCP-A14: 8 tokens to begin with, unless the plan says otherwise.
    let initial_window = keys.count("tokens", 1..=1 << 20)?.unwrap_or(Ctcp::tcp().initial_window);
    Ok(Profile { tcp: Tcp { initial_window, ..tcp }, scheme: SchemeKind::transport(ctcp) })
}
