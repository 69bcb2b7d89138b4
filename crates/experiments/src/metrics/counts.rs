//! Counts of single flows whose distributions figures show (CoFUSO Figs. 4 and 5). A new one is a
//! function and its line here.

use std::collections::BTreeMap;

use crate::outcome::{Measured, Outcome};

/// A count that each flow has, or has not.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Its name in plans.
    pub name: &'static str,
    /// What an axis says.
    pub title: &'static str,
    /// Of a flow; `None` if it has none.
    pub of: fn(&Measured) -> Option<u32>,
}

/// The counts.
pub const COUNTS: &[Count] = &[
    Count {
        name: "before_hit",
        title: "redundant packets that arrived before the one that repaired",
        of: |flow| (flow.repaired > 0).then_some(flow.before_hit),
    },
    Count {
        name: "sent_before_hit",
        title: "redundant packets that were sent before the one that repaired",
        of: |flow| (flow.repaired > 0).then_some(flow.sent_before_hit),
    },
    Count { name: "chances_in_20ms", title: "chances within 20 ms", of: |flow| Some(flow.chances[0]) },
    Count { name: "chances_in_50ms", title: "chances within 50 ms", of: |flow| Some(flow.chances[1]) },
    Count { name: "chances_in_100ms", title: "chances within 100 ms", of: |flow| Some(flow.chances[2]) },
];

impl Count {
    /// How many of the flows under test had which count.
    pub(crate) fn distribution(&self, outcome: &Outcome) -> Vec<(u32, u64)> {
        let mut flows: BTreeMap<u32, u64> = BTreeMap::new();
        for count in outcome.flows.iter().filter(|flow| !flow.background).filter_map(self.of) {
            *flows.entry(count).or_default() += 1;
        }
        flows.into_iter().collect()
    }
}
