//! Redundant packets, and what they were good for.

use super::View;

/// Each flow's share of redundant packets, averaged over flows (FUSO Fig. 7c, in packets instead of
/// bytes).
pub(super) fn extra(view: View<'_>) -> Option<f64> {
    let shares = view.flows.iter().map(|flow| f64::from(flow.extra) / f64::from(flow.packets.max(1)));
    (!view.flows.is_empty()).then(|| shares.sum::<f64>() / view.flows.len() as f64)
}

/// Of the whole run, what is not measured included.
pub(super) fn bytes(view: View<'_>) -> Option<f64> {
    Some(view.outcome.totals.extra_load())
}

/// Flows of which at least one lost packet was repaired (CoFUSO Fig. 10b).
pub(super) fn repaired(view: View<'_>) -> Option<f64> {
    let repaired = view.flows.iter().filter(|flow| flow.repaired > 0).count();
    (!view.flows.is_empty()).then(|| repaired as f64 / view.flows.len() as f64)
}

/// Copies and parities of the whole run that brought something new (CoFUSO Fig. 10c).
pub(super) fn useful(view: View<'_>) -> Option<f64> {
    let totals = view.outcome.totals;
    let sent = totals.copies + totals.parities;
    (sent > 0).then(|| totals.useful as f64 / sent as f64)
}
