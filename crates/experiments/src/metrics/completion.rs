//! Completion times. Flows that did not finish are left out of all but their own share: look at it.

use units::percentile;

use super::View;
use crate::outcome::Measured;

pub(super) fn millis(flow: &Measured) -> Option<f64> {
    flow.time.map(|time| time.as_nanos() as f64 / 1e6)
}

fn quantile(view: View<'_>, share: f64) -> Option<f64> {
    let mut times: Vec<f64> = view.flows.iter().filter_map(millis).collect();
    times.sort_by(f64::total_cmp);
    percentile(&times, share)
}

pub(super) fn mean(view: View<'_>) -> Option<f64> {
    let times: Vec<f64> = view.flows.iter().filter_map(millis).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

pub(super) fn p50(view: View<'_>) -> Option<f64> {
    quantile(view, 0.5)
}

pub(super) fn p95(view: View<'_>) -> Option<f64> {
    quantile(view, 0.95)
}

pub(super) fn p99(view: View<'_>) -> Option<f64> {
    quantile(view, 0.99)
}

pub(super) fn longest(view: View<'_>) -> Option<f64> {
    quantile(view, 1.0)
}

pub(super) fn unfinished(view: View<'_>) -> Option<f64> {
    let unfinished = view.flows.iter().filter(|flow| flow.time.is_none()).count();
    (!view.flows.is_empty()).then(|| unfinished as f64 / view.flows.len() as f64)
}
