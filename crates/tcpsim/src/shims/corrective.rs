//! Corrective as HTPC describes it: one coded packet over each congestion window, so that one loss
//! per window is repaired.
//!
//! HTPC, "Design motivation" and equation 11 (k -> k + 1 packets, no delay). The other reading of
//! TCP-IR, by time bins and above TCP, is [`schemes::corrective`](crate::schemes::corrective)
//! (BASE-A1). A combination with coefficients that are all non-zero repairs what an XOR does.

use super::coding_layer::{Common, Rule, Unit};

/// Parameters.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct PerWindow {
    /// What every coding layer has.
    pub common: Common,
}

impl Rule for PerWindow {
    fn coded(&mut self, _unit: &Unit) -> u32 {
        1
    }
}
