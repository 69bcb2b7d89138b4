//! What a plan makes of an outcome that is always the same: what its metrics do is a part of the version
//! of its rows.

use netsim::TraceHash;
use tcpsim::{FlowId, Totals};
use units::{Duration, Instant};

use crate::{
    follow::Followed,
    outcome::{Measured, Outcome, Surge},
    plan::Plan,
    player::Playback,
};

/// A hash over the plan's numbers.
pub(crate) fn hash(plan: &Plan) -> u64 {
    let (outcome, mut hash) = (outcome(), TraceHash::new());
    for metric in &plan.metrics {
        hash.record(metric.compute(&outcome).map_or(u64::MAX, f64::to_bits));
    }
    let rest = format!("{:?} {:?}", plan.times(&outcome), plan.counts(&outcome));
    rest.bytes().for_each(|byte| hash.record(byte.into()));
    if plan.distributions {
        for (time, share) in crate::metrics::distribution(&outcome) {
            hash.record(time.to_bits());
            hash.record(share.to_bits());
        }
    }
    hash.get()
}

fn at(n: u32) -> Instant {
    Instant::ORIGIN + Duration::from_millis(10) * u64::from(n)
}

/// Of flows of all kinds, with something for every metric.
fn outcome() -> Outcome {
    Outcome {
        flows: (0..1_500).map(flow).collect(),
        totals: Totals {
            packets: 90_000,
            bytes: 120_000_000,
            extra_bytes: 7_000_000,
            repaired: 900,
            useful: 800,
            copies: 4_000,
            parities: 1_000,
            duplicates: 700,
            ..Totals::default()
        },
        hops: 300_000,
        sent: 100_000,
        dropped: 321,
        seconds: 15.0,
        delivered: (1..2_000).map(|n| n * n).collect(),
        followed: (0..50).map(|flow| Followed { flow, acks: Vec::new(), lost: flow % 4 }).collect(),
        playback: Some(Playback {
            startup: Some(Duration::from_millis(170)),
            playout: Some(Duration::from_secs(31)),
            underruns: 3,
            stalled: Duration::from_millis(830),
        }),
        surge: Some(Surge { from: at(500), until: at(600) }),
        ..Outcome::default()
    }
}

fn flow(n: u32) -> Measured {
    // Scattered below 2^20.
    let spread = u64::from(n.wrapping_mul(2_654_435_761) >> 12);
    Measured {
        flow: FlowId(n),
        request: n.is_multiple_of(5).then_some(FlowId(n)),
        bytes: 1 + 8 * spread,
        started: at(n),
        time: (n % 31 != 7).then(|| Duration::from_micros(20_000 + spread)),
        background: n % 9 == 4,
        timeouts: n % 13 / 11,
        retransmissions: n % 7,
        extra: n % 40,
        repaired: n % 3,
        packets: 40 + n % 50,
        fifth_extra: (n % 40 >= 5).then(|| Duration::from_micros(spread / 8)),
        before_hit: n % 20,
        sent_before_hit: n % 23,
        chances: [n % 6, n % 9, n % 12],
    }
}
