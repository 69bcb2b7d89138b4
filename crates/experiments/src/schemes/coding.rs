//! The keys of every coding layer: `delivery` (`as-it-comes`, or `in-order`: HTPC-A10),
//! `count_losses` (HTPC-A5), `sampling` (`period`, or `since-start`: HTPC-A4), `blocked_above_us`
//! (HTPC-A4), `b_at_first`, `host_wide`, `units_wait` (HTPC-A8), `rounding` (`up`, `down`, `carry`:
//! HTPC-A3), `r_cap` (HTPC-A2).

use recovery::htpc_redundancy::{Parameters, Rounding};
use tcpsim::shims::coding_layer::{Common, Delivery};
use units::Duration;

use plans::{Keys, PlanError};

const DELIVERIES: &[(&str, Delivery)] =
    &[("as-it-comes", Delivery::AsItComes), ("in-order", Delivery::InOrder)];
const ROUNDINGS: &[(&str, Rounding)] =
    &[("up", Rounding::Up), ("down", Rounding::Down), ("carry", Rounding::Carry)];
/// Whether b is counted from the flow's start.
const SAMPLINGS: &[(&str, bool)] = &[("period", false), ("since-start", true)];

/// What all of them have.
pub(super) fn common(keys: &mut Keys<'_>) -> Result<Common, PlanError> {
    let delivery = keys.named("delivery", DELIVERIES)?.unwrap_or_default();
    let mut common = Common { delivery, ..Common::default() };
    common.units_wait = keys.flag("units_wait")?.unwrap_or(common.units_wait);
    common.host_wide = keys.flag("host_wide")?.unwrap_or(common.host_wide);
    let sampling = &mut common.sampling;
    sampling.at_first = keys.float("b_at_first", 0.0..=1.0)?.unwrap_or(sampling.at_first);
    sampling.count_losses = keys.flag("count_losses")?.unwrap_or(sampling.count_losses);
    if keys.named("sampling", SAMPLINGS)?.unwrap_or(false) {
        sampling.period = None;
    }
    if let Some(least) = keys.int("blocked_above_us", 0..=1_000_000)? {
        sampling.least = Duration::from_micros(least);
    }
    Ok(common)
}

/// How much redundancy.
pub(super) fn redundancy(keys: &mut Keys<'_>) -> Result<Parameters, PlanError> {
    let mut parameters = Parameters::default();
    if let Some(bytes) = keys.int("t_s_bytes", 0..=1 << 60)? {
        parameters.thresholds.short = bytes;
    }
    if let Some(bytes) = keys.int("t_w_bytes", 0..=1 << 60)? {
        parameters.thresholds.long = bytes;
    }
    parameters.cap = keys.float("r_cap", 0.0..=100.0)?.unwrap_or(parameters.cap);
    parameters.rounding = keys.named("rounding", ROUNDINGS)?.unwrap_or_default();
    Ok(parameters)
}
