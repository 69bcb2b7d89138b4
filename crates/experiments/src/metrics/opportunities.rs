//! How many chances for recovery packets there are, and how many of them are spent before one
//! repairs something (CoFUSO section 3.3, Figs. 4 and 5). A chance is a redundant packet that the
//! scheme did send.

use units::Duration;

use super::View;

fn hit_by(view: View<'_>, most: u32) -> Option<f64> {
    let repaired = || view.flows.iter().filter(|flow| flow.repaired > 0);
    let count = repaired().count();
    let hit = repaired().filter(|flow| flow.before_hit <= most).count();
    (count > 0).then(|| hit as f64 / count as f64)
}

pub(super) fn hit_by_4(view: View<'_>) -> Option<f64> {
    hit_by(view, 4)
}

pub(super) fn hit_by_16(view: View<'_>) -> Option<f64> {
    hit_by(view, 16)
}

/// Flows with fewer than five chances within `ms` after all data was sent.
fn few_within(view: View<'_>, ms: u64) -> Option<f64> {
    let limit = Duration::from_millis(ms);
    let few = view.flows.iter().filter(|flow| flow.fifth_extra.is_none_or(|fifth| fifth > limit)).count();
    (!view.flows.is_empty()).then(|| few as f64 / view.flows.len() as f64)
}

pub(super) fn few_in_20ms(view: View<'_>) -> Option<f64> {
    few_within(view, 20)
}

pub(super) fn few_in_50ms(view: View<'_>) -> Option<f64> {
    few_within(view, 50)
}

pub(super) fn few_in_100ms(view: View<'_>) -> Option<f64> {
    few_within(view, 100)
}
