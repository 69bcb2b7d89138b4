//! FUSO's timeout models (sections II-B and IV): one-way independent loss, early retransmit, lost
//! windows neglected.
//!
//! | paper   | key                                |
//! |---------|------------------------------------|
//! | p       | `loss`                             |
//! | x       | segments: `bytes` divided by MSS   |
//! | n_p     | `paths`, one of them lossy         |
//! | n_s     | `subflows`                         |
//!
//! A sum of probabilities is cut at 1 (section 1.4 of our notes on the paper; it can exceed 1).

use plans::{Keys, PlanError};

const MSS: f64 = 1_460.0;

/// p and x.
fn input(keys: &mut Keys<'_>) -> Result<(f64, f64), PlanError> {
    let loss = keys.float("loss", 0.0..=1.0)?;
    let bytes = keys.float("bytes", 1.0..=1e12)?;
    let loss = keys.need("loss", loss, "the loss rate p")?;
    Ok((loss, (keys.need("bytes", bytes, "the flow's size")? / MSS).ceil()))
}

/// 1 - (1 - p^2)^n: a segment and its retransmission are both lost.
fn lost_twice(p: f64, n: f64) -> f64 {
    1.0 - libm::pow(1.0 - p * p, n)
}

/// Fig. 2, k = 1: p_tail + p_retx.
fn timeout(p: f64, segments: f64) -> f64 {
    p + lost_twice(p, segments - 1.0)
}

pub(super) fn tcp(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (p, segments) = input(keys)?;
    Ok(timeout(p, segments).min(1.0))
}

fn paths(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    Ok(keys.float("paths", 1.0..=1e6)?.unwrap_or(3.0))
}

fn subflows(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    Ok(keys.float("subflows", 1.0..=14.0)?.unwrap_or(4.0))
}

/// TCP on one of the paths, chosen at random (FUSO-A2).
pub(super) fn tcp_random_path(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (p, segments) = input(keys)?;
    Ok((timeout(p, segments) / paths(keys)?).min(1.0))
}

pub(super) fn mptcp(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (p, segments) = input(keys)?;
    let (paths, subflows) = (paths(keys)?, subflows(keys)?);
    let out = timeout(p, segments / subflows).min(1.0);
    Ok(1.0 - libm::pow((paths - 1.0) / paths + (1.0 - out) / paths, subflows))
}

pub(super) fn fuso(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (p, segments) = input(keys)?;
    let (paths, subflows) = (paths(keys)?, subflows(keys)?);
    let again = lost_twice(p, segments / subflows - 1.0);
    let out = p + again;
    let all_on_it = libm::pow(1.0 / paths, subflows);
    Ok(all_on_it * ((1.0 - 1.0 / subflows) * out * out + (again + p * p) / subflows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_give_their_worked_examples() {
        let at = |model: crate::models::Model, loss: f64, bytes: u32| {
            let table = format!("loss = {loss:?}\nbytes = {bytes}").parse().unwrap();
            model(&mut Keys::new(&table, "")).unwrap()
        };
        for (found, known) in [
            (at(tcp, 0.01, 10_000), 0.010600),
            (at(tcp, 0.04, 100_000), 0.143168),
            (at(tcp, 0.10, 1_000_000), 1.0),
            (at(tcp_random_path, 0.01, 100_000), 5.592e-3),
            (at(mptcp, 0.01, 100_000), 1.541e-2),
            (at(fuso, 0.01, 100_000), 6.571e-6),
            (at(fuso, 0.10, 100_000), 1.078e-3),
        ] {
            assert!((found / known - 1.0).abs() < 1e-3, "{found} {known}");
        }
    }
}
