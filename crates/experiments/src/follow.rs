//! Single flows that are followed, for figures of kind `acks` and the metric `lost_per_flow`: how
//! much of each is acknowledged over time, and how many of its packets the network loses. Following
//! changes nothing of a run.

use std::collections::BTreeMap;

use plans::{Keys, PlanError};
use serde::{Deserialize, Serialize};
use tcpsim::{
    FlowId,
    timeline::{Timeline, What},
};
use units::Instant;

/// Most flows that are followed in a run; each keeps at most
/// [`MAX_EVENTS`](tcpsim::timeline::MAX_EVENTS) events until the run is over.
const MOST_FLOWS: u32 = 64;

/// Which flows are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Follow {
    flows: usize,
    at_most_bytes: u64,
}

impl Follow {
    /// Reads `flows`, how many are followed, and `at_most_bytes`, the largest of them.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Self, PlanError> {
        let flows = keys.count("flows", 1..=MOST_FLOWS)?.unwrap_or(MOST_FLOWS) as usize;
        Ok(Self { flows, at_most_bytes: keys.int("at_most_bytes", 1..=1 << 50)?.unwrap_or(u64::MAX) })
    }

    /// The first of these flows, numbers and sizes in bytes, that are not too large.
    pub(crate) fn choose(&self, flows: impl Iterator<Item = (FlowId, u64)>) -> Vec<FlowId> {
        let small = flows.filter(|(_, bytes)| *bytes <= self.at_most_bytes);
        small.map(|(flow, _)| flow).take(self.flows).collect()
    }
}

/// A flow that was followed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Followed {
    /// Its number in the simulation.
    pub flow: u32,
    /// How many segments of its connection, of all sub-flows together, are acknowledged without a
    /// gap, and since when, in ms since its application wrote it. The last entry is when all of it had
    /// arrived: the acknowledgement of that is still on its way.
    pub acks: Vec<(f64, u32)>,
    /// How many of its data packets, coded ones included, queues dropped and failures took.
    pub lost: u32,
}

impl Followed {
    /// What a timeline says of its flow.
    pub(crate) fn new(flow: FlowId, timeline: &Timeline) -> Self {
        let started = timeline.events.first().map_or(Instant::ORIGIN, |event| event.at);
        let since = |at: Instant| at.saturating_duration_since(started).as_nanos() as f64 / 1e6;
        let mut followed = Self { flow: flow.0, ..Self::default() };
        let (mut below, mut acknowledged) = (BTreeMap::new(), 0);
        for event in &timeline.events {
            match event.what {
                What::Acked { seq, .. } => {
                    let known = below.entry((event.conn, event.sub)).or_insert(0);
                    if seq > *known {
                        acknowledged += seq - *known;
                        *known = seq;
                        followed.acks.push((since(event.at), acknowledged));
                    }
                }
                What::Lost { .. } => followed.lost += 1,
                What::Finished => followed.acks.push((since(event.at), acknowledged)),
                _ => {}
            }
        }
        followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpsim::timeline::Event;
    use units::Duration;

    #[test]
    fn acknowledgements_are_added_up_over_sub_flows_and_losses_are_counted() {
        let event = |us: u64, sub, what| Event {
            at: Instant::ORIGIN + Duration::from_micros(us),
            conn: 7,
            sub,
            what,
        };
        let acked = |seq| What::Acked { seq, blocks: [(0, 0); 3] };
        let events = vec![
            event(1_000, 0, What::Written { bytes: 9_000 }),
            event(1_100, 0, acked(2)),
            event(1_200, 1, acked(3)),
            event(1_300, 0, acked(2)),
            event(1_400, 1, What::Lost { seq: 3, port: netsim::fabric::PortId(0), dropped: true }),
            event(1_500, 0, acked(4)),
            event(201_000, 0, What::Finished),
        ];
        let followed = Followed::new(FlowId(5), &Timeline { events, left_out: 0 });
        assert_eq!((followed.flow, followed.lost), (5, 1));
        assert_eq!(followed.acks, [(0.1, 2), (0.2, 5), (0.5, 7), (200.0, 7)]);
    }

    #[test]
    fn the_first_flows_that_are_small_enough_are_chosen() {
        let follow = Follow { flows: 2, at_most_bytes: 100 };
        let flows = [(3, 100), (4, 101), (6, 1), (9, 1)].map(|(flow, bytes)| (FlowId(flow), bytes));
        assert_eq!(follow.choose(flows.into_iter()), [FlowId(3), FlowId(6)]);
    }
}
