//! What duplicates would have saved: SLP section III's what-if, table I.
//!
//! It is assumed that duplicates arrive. What a duplicate of a lost packet saves is the silence
//! before its retransmission: the time in which its sender, having sent nothing else that takes
//! sequence numbers, waited. Where several such silences of a connection overlap, they count once.
//! A connection is complete with its last packet that carries data (or its last SYN); FINs, resets
//! and probes after that delay nobody.

use serde::Serialize;
use units::{Duration, Instant};

use crate::percentiles::{PERCENTILES, percentiles};

/// Time saved on one connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Saving {
    total: Duration,
    until: Instant,
}

impl Saving {
    /// A silence that ended at `at`. Calls come in the order of time.
    pub(crate) fn add(&mut self, at: Instant, silence: Duration) {
        self.total += silence.min(at.saturating_duration_since(self.until));
        self.until = self.until.max(at);
    }

    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}

/// What became of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// From its first packet to its completion.
    pub(crate) took: Duration,
    pub(crate) began_captured: bool,
    /// Saved by duplicates of SYN and SYN/ACK; `None` if none was lost.
    pub(crate) syn: Option<Duration>,
    pub(crate) push: Option<Duration>,
    pub(crate) tail: Option<Duration>,
    /// Packets and bytes of data that tail duplicates would have cost.
    pub(crate) tail_cost: (u64, u64),
}

/// Which packets are duplicated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// SYN and SYN/ACK.
    Syn,
    /// Packets with PSH.
    Push,
    /// The last packets with data of each direction.
    Tail,
}

impl Variant {
    /// All, in the order of the table.
    pub const ALL: [Self; 3] = [Self::Syn, Self::Push, Self::Tail];

    fn saved(self, outcome: &Outcome) -> Option<Duration> {
        match self {
            Self::Syn => outcome.syn,
            Self::Push => outcome.push,
            Self::Tail => outcome.tail,
        }
    }
}

/// Table I for one variant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WhatIf {
    /// What is duplicated.
    pub variant: Variant,
    /// Connections that lost such a packet.
    pub connections: u64,
    /// Their share of all connections whose beginning was captured (SYN), or of all (others), without those
    /// that nobody answered.
    pub share: f64,
    /// Packets that would have been sent twice.
    pub duplicates: u64,
    /// Their bytes: of IP packets for SYN and PSH, of data for the tail.
    pub duplicate_bytes: u64,
    /// Mean time saved per such connection.
    pub saved_mean_ms: Option<f64>,
    /// Percentiles of the completion times of such connections; `null` without any.
    pub table: Option<Table>,
    /// Completion times as captured, in ascending order, at most 500 evenly spaced quantiles, and
    /// the same with duplicates.
    pub curve: [Vec<f64>; 2],
}

/// Percentiles as in table I: 1, 10, 50, 90, 99.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Table {
    /// Which ones.
    pub percentiles: [f64; 5],
    /// With duplicates.
    pub with_ms: [f64; 5],
    /// As captured.
    pub without_ms: [f64; 5],
    /// 1 - with / without.
    pub reduction: [f64; 5],
}

/// What duplicates would cost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Cost {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// How many points a curve has at most.
const CURVE: usize = 500;

/// Table I of `variant`. `lost` counts all connections that lost such a packet, `outcomes` may be a
/// sample of them.
pub(crate) fn what_if(variant: Variant, outcomes: &[Outcome], lost: u64, of: u64, cost: Cost) -> WhatIf {
    let times = outcomes.iter().filter_map(|outcome| {
        let saved = variant.saved(outcome)?.min(outcome.took);
        Some((outcome.took.as_millis_f64(), (outcome.took - saved).as_millis_f64()))
    });
    let (mut without, mut with): (Vec<f64>, Vec<f64>) = times.unzip();
    let saved: f64 = without.iter().zip(&with).map(|(without, with)| without - with).sum();
    without.sort_by(f64::total_cmp);
    with.sort_by(f64::total_cmp);
    let table = percentiles(&without).zip(percentiles(&with)).map(|(without_ms, with_ms)| Table {
        percentiles: PERCENTILES,
        with_ms,
        without_ms,
        reduction: std::array::from_fn(|i| {
            if without_ms[i] > 0.0 { round4(1.0 - with_ms[i] / without_ms[i]) } else { 0.0 }
        }),
    });
    WhatIf {
        variant,
        connections: lost,
        share: if of == 0 { 0.0 } else { round4(lost as f64 / of as f64) },
        duplicates: cost.packets,
        duplicate_bytes: cost.bytes,
        saved_mean_ms: (!with.is_empty()).then(|| (saved / with.len() as f64 * 1e3).round() / 1e3),
        table,
        curve: [thin(&without), thin(&with)],
    }
}

/// At most [`CURVE`] evenly spaced members of `sorted`, the first and the last among them.
fn thin(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= CURVE {
        return sorted.to_vec();
    }
    (0..CURVE).map(|i| sorted[i * (sorted.len() - 1) / (CURVE - 1)]).collect()
}

fn round4(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_silences_count_once() {
        let mut saving = Saving::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        saving.add(at(2_000), Duration::from_millis(1_000));
        saving.add(at(2_300), Duration::from_millis(1_000)); // began at 1.3 s
        assert_eq!(saving.total(), Duration::from_millis(1_300));
    }

    #[test]
    fn table_of_flows_that_lost_a_syn() {
        let outcome = |ms: u64| Outcome {
            took: Duration::from_millis(ms),
            began_captured: true,
            syn: Some(Duration::from_millis(700)),
            push: None,
            tail: None,
            tail_cost: (0, 0),
        };
        let outcomes: Vec<Outcome> = (1..=100).map(|i| outcome(800 + i * 10)).collect();
        let row = what_if(Variant::Syn, &outcomes, 100, 4_000, Cost { packets: 8_000, bytes: 480_000 });
        assert_eq!((row.connections, row.share, row.saved_mean_ms), (100, 0.025, Some(700.0)));
        let table = row.table.unwrap();
        assert_eq!(table.without_ms, [810.0, 900.0, 1_300.0, 1_700.0, 1_790.0]);
        assert_eq!(table.with_ms, [110.0, 200.0, 600.0, 1_000.0, 1_090.0]);
        assert_eq!(table.reduction[2], 0.5385);
        assert!(what_if(Variant::Push, &outcomes, 0, 0, Cost::default()).table.is_none());
    }
}
