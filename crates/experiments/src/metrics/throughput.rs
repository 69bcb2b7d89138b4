//! Throughput of single flows, and what arrives in vain.

use super::View;

/// The mean over finished flows of bytes over completion time, in Mbit/s.
pub(super) fn mean(view: View<'_>) -> Option<f64> {
    let rates: Vec<f64> = view
        .flows
        .iter()
        .filter_map(|flow| Some(flow.bytes as f64 * 8.0 / flow.time?.as_secs_f64() / 1e6))
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Segments that arrived when they were there already, of all data packets that were sent.
pub(super) fn needless(view: View<'_>) -> Option<f64> {
    let totals = &view.outcome.totals;
    (totals.packets > 0).then(|| totals.duplicates as f64 / totals.packets as f64)
}
