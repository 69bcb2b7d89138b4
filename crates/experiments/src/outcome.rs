//! What came out of a run, as metrics look at it.

use tcpsim::{FlowId, FlowRecord, Totals};
use units::{Duration, Instant};

use crate::{follow::Followed, player::Playback};

/// A time of more traffic than usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surge {
    /// When it begins.
    pub from: Instant,
    /// When it is over.
    pub until: Instant,
}

/// What a flow of the simulation stands for. A response names its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Not looked at by itself: warming up, requests.
    Unmeasured,
    /// Carried by the scheme under test.
    Tested(Option<FlowId>),
    /// A response, carried by the scheme under test: measured from when its request was asked for,
    /// handshake included.
    Fetched(FlowId),
    /// Carried by plain TCP beside it.
    Background(Option<FlowId>),
}

/// A flow that is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Its number in the simulation.
    pub flow: FlowId,
    /// The request that it answers.
    pub request: Option<FlowId>,
    /// Its size; of a response, without its request.
    pub bytes: u64,
    /// When it began, or its request.
    pub started: Instant,
    /// Completion time, with the request's; `None` if the run ended before.
    pub time: Option<Duration>,
    /// Whether plain TCP carried it, beside what is tested.
    pub background: bool,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Redundant packets.
    pub extra: u32,
    /// Segments that the receiver first got from one of those.
    pub repaired: u32,
    /// Data packets of all kinds.
    pub packets: u32,
    /// From the first sending of its last segment to its fifth redundant packet; `None` if it had
    /// fewer.
    pub fifth_extra: Option<Duration>,
    /// Redundant packets that arrived before the first one that repaired something.
    pub before_hit: u32,
    /// Redundant packets that were sent before that one.
    pub sent_before_hit: u32,
    /// Redundant packets within 20, 50 and 100 ms of the first sending of its last segment.
    pub chances: [u32; 3],
}

/// A run's result.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Outcome {
    /// The measured flows, in the order in which they were added.
    pub flows: Vec<Measured>,
    /// Sums over all connections, what is not measured included.
    pub totals: Totals,
    /// Packet-hops.
    pub hops: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that queues dropped.
    pub dropped: u64,
    /// When it ended, in seconds of simulated time.
    pub seconds: f64,
    /// Hash over every event.
    pub trace: u64,
    /// Bytes that each watched connection had delivered at the end: of those of the measured flows
    /// first, then of their rivals.
    pub delivered: Vec<u64>,
    /// Windows of the watched connections over time, if the plan asks for them: seconds, which
    /// connection, segments.
    pub timeline: Vec<(f64, u32, u32)>,
    /// Single flows that were followed, if the plan asks for them.
    pub followed: Vec<Followed>,
    /// How a video went, if it was one.
    pub playback: Option<Playback>,
    /// When more was offered than usual, if the workload has such a time.
    pub surge: Option<Surge>,
}

impl Outcome {
    /// Share of the flows under test that did not finish; 0 if there are none.
    pub(crate) fn unfinished(&self) -> f64 {
        let (mut all, mut unfinished) = (0_u64, 0_u64);
        for flow in self.flows.iter().filter(|flow| !flow.background) {
            all += 1;
            unfinished += u64::from(flow.time.is_none());
        }
        unfinished as f64 / all.max(1) as f64
    }
}

impl Role {
    /// Whether the run goes on until it is there.
    pub(crate) const fn is_measured(self) -> bool {
        !matches!(self, Self::Unmeasured)
    }
}

/// When the measured flows had arrived, in the order in which they were added.
pub(crate) fn arrivals(records: &[FlowRecord], roles: &[Role]) -> Vec<Instant> {
    let measured = records.iter().zip(roles).filter(|(_, role)| role.is_measured());
    measured.map(|(record, _)| record.finished).collect()
}

/// The measured flows of all; `head_start` is added to their completion times.
pub(crate) fn measured(records: &[FlowRecord], roles: &[Role], head_start: Duration) -> Vec<Measured> {
    let flow = |(number, (record, role)): (u32, (&FlowRecord, &Role))| {
        let (request, background) = match role {
            Role::Unmeasured => return None,
            Role::Tested(request) => (*request, false),
            Role::Fetched(request) => (Some(*request), false),
            Role::Background(request) => (*request, true),
        };
        let asked = request;
        let request = request.and_then(|request| records.get(request.0 as usize));
        let sum = |of: fn(&FlowRecord) -> u32| of(record) + request.map_or(0, of);
        let started = match (request, role) {
            (None, _) => record.started,
            (Some(request), Role::Fetched(_)) => request.asked,
            (Some(request), _) => request.started,
        };
        Some(Measured {
            flow: FlowId(number),
            request: asked,
            bytes: record.bytes,
            started,
            time: record.completion_time().map(|_| record.finished - started + head_start),
            background,
            timeouts: sum(|record| record.timeouts),
            retransmissions: sum(|record| record.retransmissions),
            extra: sum(|record| record.extra),
            repaired: sum(|record| record.repaired),
            packets: sum(|record| record.packets),
            fifth_extra: (record.extra >= 5)
                .then(|| record.fifth_extra.saturating_duration_since(record.all_sent)),
            before_hit: record.before_hit,
            sent_before_hit: record.sent_before_hit,
            chances: record.chances,
        })
    };
    (0..).zip(records.iter().zip(roles)).filter_map(flow).collect()
}
