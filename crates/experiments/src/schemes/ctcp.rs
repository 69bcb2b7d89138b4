//! CTCP instead of TCP: of TCP's keys it has sizes, initial window and timers. `block`, `blocks`,
//! `mu`, `tokens`.

use tcpsim::{Profile, SchemeKind, Tcp, ctcp::Ctcp};

use plans::{Keys, PlanError};

pub(super) fn read(keys: &mut Keys<'_>, tcp: Tcp) -> Result<Profile, PlanError> {
    let mut ctcp = Ctcp::default();
    if let Some(size) = keys.count("block", 1..=255)? {
        ctcp.limits.block_size = size as u16;
    }
    if let Some(blocks) = keys.count("blocks", 1..=1_000_000)? {
        ctcp.limits.max_blocks = blocks as usize;
    }
    ctcp.mu = keys.float("mu", 0.0..=1.0)?.unwrap_or(ctcp.mu);
    // CTCP-A14: 8 tokens to begin with, unless the plan says otherwise.
    let initial_window = keys.count("tokens", 1..=1 << 20)?.unwrap_or(Ctcp::tcp().initial_window);
    Ok(Profile { tcp: Tcp { initial_window, ..tcp }, scheme: SchemeKind::transport(ctcp) })
}
