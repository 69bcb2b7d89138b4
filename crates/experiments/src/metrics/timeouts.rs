//! Retransmission timeouts, and retransmissions of all kinds, of a flow's own connection while it
//! was under way, and of its request's.

use super::View;

pub(super) fn share(view: View<'_>) -> Option<f64> {
    let hit = view.flows.iter().filter(|flow| flow.timeouts > 0).count();
    (!view.flows.is_empty()).then(|| hit as f64 / view.flows.len() as f64)
}

pub(super) fn per_flow(view: View<'_>) -> Option<f64> {
    let timeouts: u64 = view.flows.iter().map(|flow| u64::from(flow.timeouts)).sum();
    (!view.flows.is_empty()).then(|| timeouts as f64 / view.flows.len() as f64)
}

pub(super) fn sent_again(view: View<'_>) -> Option<f64> {
    let sent_again: u64 = view.flows.iter().map(|flow| u64::from(flow.retransmissions)).sum();
    (!view.flows.is_empty()).then(|| sent_again as f64 / view.flows.len() as f64)
}
