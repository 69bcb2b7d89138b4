//! Packets that the network lost, of the flows that a plan follows: no others are watched that
//! closely.

use super::{Measured, View};

pub(super) fn per_flow(view: View<'_>) -> Option<f64> {
    let of = |flow: &Measured| view.outcome.followed.iter().find(|followed| followed.flow == flow.flow.0);
    let lost: Vec<u32> = view.flows.iter().filter_map(of).map(|followed| followed.lost).collect();
    (!lost.is_empty()).then(|| f64::from(lost.iter().sum::<u32>()) / lost.len() as f64)
}
