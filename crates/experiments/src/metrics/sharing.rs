//! What watched connections had delivered when the run ended: how fast they were, and how equally
//! they shared.

use super::View;

/// Mean over `delivered` of bytes over the run's time, in Mbit/s.
fn mean_mbps(delivered: &[u64], view: View<'_>) -> Option<f64> {
    let sum: f64 = delivered.iter().map(|bytes| *bytes as f64 * 8.0 / 1e6).sum();
    (!delivered.is_empty() && view.outcome.seconds > 0.0)
        .then(|| sum / delivered.len() as f64 / view.outcome.seconds)
}

/// Where the rivals begin in what was delivered.
fn rivals(view: View<'_>) -> usize {
    view.outcome.flows.len().min(view.outcome.delivered.len())
}

/// Goodput of the measured connections, whether or not they came to an end.
pub(super) fn delivered(view: View<'_>) -> Option<f64> {
    mean_mbps(&view.outcome.delivered[..rivals(view)], view)
}

/// Goodput of their rivals.
pub(super) fn of_rivals(view: View<'_>) -> Option<f64> {
    mean_mbps(&view.outcome.delivered[rivals(view)..], view)
}

/// Jain's index over all of them: 1 if all had the same, 1/n if one of n had everything.
pub(super) fn jain(view: View<'_>) -> Option<f64> {
    let shares: Vec<f64> = view.outcome.delivered.iter().map(|bytes| *bytes as f64).collect();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let sum: f64 = shares.iter().sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}
