//! SLP section II-A: what retransmission and coding leave of a link. Keys: `loss`; `group`, the
//! packets that a code protects together.

use recovery::slp_goodput::{arq, fec, group_loss, redundancy_needed};

use plans::{Keys, PlanError};

fn loss(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let loss = keys.float("loss", 0.0..=0.99)?;
    keys.need("loss", loss, "the loss rate p")
}

/// p, n, and the smallest k with p <= k / (n + k).
fn coded(keys: &mut Keys<'_>) -> Result<(f64, u32, u32), PlanError> {
    let loss = loss(keys)?;
    let group = keys.count("group", 1..=10_000)?;
    let group = keys.need("group", group, "packets that a code protects together, n")?;
    Ok((loss, group, redundancy_needed(group, loss).unwrap_or(0)))
}

/// 1 - p.
pub(super) fn goodput_arq(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    Ok(arq(loss(keys)?))
}

/// n / (n + k).
pub(super) fn goodput_fec(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (_, group, redundant) = coded(keys)?;
    Ok(fec(group, redundant))
}

/// How often more than k of n + k are lost (SLP-A14).
pub(super) fn group_failure(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let (loss, group, redundant) = coded(keys)?;
    Ok(group_loss(group, redundant, loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_redundant_packets_for_twenty_at_five_percent() {
        let table: toml::Table = "loss = 0.05\ngroup = 20".parse().unwrap();
        let at = |model: crate::models::Model| model(&mut Keys::new(&table, "")).unwrap();
        assert!((at(goodput_fec) - 20.0 / 22.0).abs() < 1e-12);
        assert!((at(group_failure) - 0.0948).abs() < 5e-4);
        let table: toml::Table = "loss = 0.05".parse().unwrap();
        assert_eq!(goodput_arq(&mut Keys::new(&table, "")).unwrap(), 0.95);
    }
}
