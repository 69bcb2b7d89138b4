//! HTPC: redundancy that covers what is blocked while a flow is short, and fades with the bytes
//! that it has sent.
//!
//! HTPC, "Redundancy adjustment". The decision is `recovery::htpc_redundancy`.

use recovery::htpc_redundancy::{Parameters, Redundancy};

use super::coding_layer::{Common, Rule, Unit};

/// Parameters.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Htpc {
    /// What every coding layer has.
    pub common: Common,
    /// T_s, T_w, the cap, the rounding.
    pub redundancy: Parameters,
}

#[derive(Debug)]
pub(super) struct State(Redundancy);

impl State {
    pub(super) fn new(parameters: Htpc) -> Self {
        Self(Redundancy::new(parameters.redundancy))
    }
}

impl Rule for State {
    fn coded(&mut self, unit: &Unit) -> u32 {
        self.0.packets(unit.packets, unit.sent_before, unit.blocking)
    }
}
