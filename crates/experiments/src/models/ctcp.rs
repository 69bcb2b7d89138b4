//! CTCP's bounds (section 6.2) and the square-root formula of Fig. 3a, as throughput of a flow in
//! Mbit/s.
//!
//! Keys: `loss`, `rate_mbps`; `block` (32); for the square root `rtt_ms`.

use recovery::ctcp_efficiency::{Rounding, bound, square_root_share};

use plans::{Keys, PlanError};

/// Payload of a full packet over its size.
const PAYLOAD: f64 = 1_460.0 / 1_500.0;

/// p, and the rate at which payload can leave.
fn input(keys: &mut Keys<'_>) -> Result<(f64, f64), PlanError> {
    let loss = keys.float("loss", 0.0..=0.99)?;
    let rate = keys.float("rate_mbps", 0.001..=1e6)?;
    Ok((
        keys.need("loss", loss, "the loss rate p")?,
        keys.need("rate_mbps", rate, "the link's rate")? * PAYLOAD,
    ))
}

fn rounded(keys: &mut Keys<'_>, rounding: Rounding) -> Result<f64, PlanError> {
    let (loss, rate) = input(keys)?;
    let block = keys.count("block", 1..=255)?.unwrap_or(32);
    Ok(rate * bound(block, loss, rounding))
}

/// Equation 7's n.
pub(super) fn bound_down(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    rounded(keys, Rounding::Down)
}

/// Algorithm 3's n.
pub(super) fn bound_up(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    rounded(keys, Rounding::Up)
}

/// sqrt(1.5 / p) packets per round trip.
pub(super) fn square_root(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (loss, rate) = input(keys)?;
    let rtt = keys.float("rtt_ms", 0.001..=1e6)?;
    let rtt = keys.need("rtt_ms", rtt, "the round-trip time")?;
    let bdp = rate / PAYLOAD * 1e6 * rtt / 1e3 / 8.0 / 1_500.0;
    Ok(rate * square_root_share(bdp, loss))
}
