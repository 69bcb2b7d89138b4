//! HTPC's model (equations 9 to 17, HTPC-A11): of a unit of `unit` packets each is blocked with
//! probability `blocking`.
//!
//! Keys: `unit`, `blocking`, `scheme` (`rps`, `corrective`, `caps`, `htpc`), `reading`
//! (`corrected`, `printed`).

use recovery::htpc_model::{Reading, blocked, long_extra, short_extra, timeout};

use plans::{Keys, PlanError};

/// r of a short and of a long flow, by k and b.
type Extra = fn(u32, f64) -> u32;

fn none(_: u32, _: f64) -> u32 {
    0
}

fn one(_: u32, _: f64) -> u32 {
    1
}

const SHORT: &[(&str, Extra)] =
    &[("rps", none), ("corrective", one), ("caps", short_extra), ("htpc", short_extra)];
const LONG: &[(&str, Extra)] = &[("rps", none), ("corrective", one), ("caps", none), ("htpc", long_extra)];
const READINGS: &[(&str, Reading)] = &[("corrected", Reading::Corrected), ("printed", Reading::AsPrinted)];

/// k, r, b, and which formulas.
fn input(
    keys: &mut Keys<'_>,
    schemes: &[(&'static str, Extra)],
) -> Result<(u32, u32, f64, Reading), PlanError> {
    let unit = keys.count("unit", 1..=255)?;
    let unit = keys.need("unit", unit, "the unit's packets k")?;
    let blocking = keys.float("blocking", 0.0..=0.99)?;
    let blocking = keys.need("blocking", blocking, "the blocking rate b")?;
    let extra = keys.need_named("scheme", schemes)?;
    let reading = keys.named("reading", READINGS)?.unwrap_or(Reading::Corrected);
    Ok((unit, extra(unit, blocking), blocking, reading))
}

/// Fig. 5a, 1 - PB of a short flow: the share of its packets that arrive or are rebuilt.
pub(super) fn delivered(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (unit, extra, blocking, reading) = input(keys, SHORT)?;
    Ok(1.0 - blocked(unit, extra, blocking, reading))
}

/// Fig. 5b, PTO of a long flow: fewer than three packets of a unit arrive.
pub(super) fn timeouts(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (unit, extra, blocking, reading) = input(keys, LONG)?;
    Ok(timeout(unit, extra, blocking, reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_give_their_worked_example() {
        let at = |model: crate::models::Model, scheme: &str, reading: &str| {
            let table = format!("unit = 4\nblocking = 0.5\nscheme = '{scheme}'\nreading = '{reading}'");
            model(&mut Keys::new(&table.parse().unwrap(), "")).unwrap()
        };
        for (found, known) in [
            (at(delivered, "rps", "printed"), 0.5),
            (at(delivered, "corrective", "corrected"), 1.0 - 0.383),
            (at(delivered, "caps", "printed"), 1.0 - 0.751),
            (at(delivered, "htpc", "corrected"), 1.0 - 0.137),
            (at(timeouts, "caps", "corrected"), 0.6875),
            (at(timeouts, "corrective", "corrected"), 0.5),
            (at(timeouts, "htpc", "corrected"), 0.3438),
        ] {
            assert!((found - known).abs() < 6e-4, "{found} {known}");
        }
    }
}
