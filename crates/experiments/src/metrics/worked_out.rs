//! What only models say: no simulation measures it.

use super::View;

pub(super) fn only(_: View<'_>) -> Option<f64> {
    None
}
