//! CAPS as HTPC describes it: short flows are coded and sprayed; long flows are not coded, and keep
//! to one way while there are short ones.
//!
//! HTPC, Fig. 1(c), equations 13 to 15 and HTPC-A18. The sender knows a flow's size and marks the
//! packets of short ones ([`Class::ShortData`]).
//!
//! # Departures
//! - A switch counts short flows as present for 1 ms after it last chose a way for one of their
//!   packets, whichever of its ways that was (HTPC-A18 asks per port; a leaf's ways up are one
//!   group).
//! - Control packets are sprayed: they are of no flow class.

use netsim::{
    Rng, Seed,
    fabric::{Balancer, Balancing, Class, SwitchId, balance::Choice},
};
use recovery::htpc_redundancy::{Parameters, Redundancy};
use units::{Duration, Instant};

use super::coding_layer::{Common, Rule, Unit};

/// How long a switch takes short flows for present after their last packet (HTPC-A18).
const SHORT_FLOWS_STAY: Duration = Duration::from_millis(1);

/// Parameters.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Caps {
    /// What every coding layer has.
    pub common: Common,
    /// T_s, which tells short flows from long ones, the cap, the rounding.
    pub redundancy: Parameters,
}

#[derive(Debug)]
pub(super) struct State {
    redundancy: Redundancy,
    short: u64,
}

impl State {
    pub(super) fn new(parameters: Caps) -> Self {
        Self {
            redundancy: Redundancy::new(parameters.redundancy),
            short: parameters.redundancy.thresholds.short,
        }
    }
}

impl Rule for State {
    fn coded(&mut self, unit: &Unit) -> u32 {
        self.redundancy.packets_if_short(unit.packets, unit.flow_bytes, unit.blocking)
    }

    fn class(&self, flow_bytes: u64) -> Class {
        if flow_bytes < self.short { Class::ShortData } else { Class::Data }
    }
}

/// A switch's side.
pub(super) fn balancing() -> Balancing {
    Balancing::Custom(|_switch: SwitchId, seed: Seed| {
        Box::new(Switch { key: seed.0, rng: Rng::new(seed), last_short: None })
    })
}

struct Switch {
    key: u64,
    rng: Rng,
    last_short: Option<Instant>,
}

impl Balancer for Switch {
    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let any = self.rng.below(choice.waiting.len() as u64) as usize;
        match choice.class {
            Class::ShortData => self.last_short = Some(choice.now),
            Class::Data if self.last_short.is_some_and(|last| choice.now < last + SHORT_FLOWS_STAY) => {
                return choice.flow_hash(self.key);
            }
            Class::Data | Class::Control | Class::Trimmable | Class::Header => {}
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use netsim::fabric::HostId;

    use super::*;

    #[test]
    fn long_flows_keep_to_one_way_while_there_are_short_ones() {
        let mut switch = Switch { key: 7, rng: Rng::new(Seed(1)), last_short: None };
        let waiting = [0; 8];
        let mut choose = |us: u64, class| {
            let (src, dst, now) = (HostId(1), HostId(2), Instant::ORIGIN + Duration::from_micros(us));
            switch.choose(&Choice { now, src, dst, label: 3, size: 1_500, class, waiting: &waiting })
        };
        let ways = |mut chosen: Vec<usize>| {
            chosen.sort_unstable();
            chosen.dedup();
            chosen.len()
        };
        assert!(ways((0..50).map(|us| choose(us, Class::Data)).collect()) > 4);
        assert!(ways((100..150).map(|us| choose(us, Class::ShortData)).collect()) > 4);
        assert_eq!(ways((150..1_149).map(|us| choose(us, Class::Data)).collect()), 1);
        assert!(ways((1_149..1_200).map(|us| choose(us, Class::Data)).collect()) > 4);
        choose(1_200, Class::ShortData);
        assert!(ways((1_201..1_250).map(|us| choose(us, Class::Control)).collect()) > 4);
    }
}
