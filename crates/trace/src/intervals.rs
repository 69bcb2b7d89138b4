//! The intervals between packets and their retransmissions, counted in bars by what brought them
//! back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    bars::{bar, edge},
    clock::Class,
    grouping::Grouping,
    options::Method,
    retransmission::Retransmission,
};

/// A histogram over a logarithmic axis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Intervals {
    /// `ms` or `round_trips`.
    pub unit: &'static str,
    /// Above are timeouts; `null` if that was not decided by the interval.
    pub boundary: Option<f64>,
    /// Retransmissions that are not in it, since they have no interval in this unit.
    pub left_out: u64,
    /// Its bars, those without a retransmission left out.
    pub bars: Vec<IntervalBar>,
}

/// One bar.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct IntervalBar {
    /// Its left edge.
    pub from: f64,
    /// Its right edge.
    pub to: f64,
    /// Timeouts.
    pub timeouts: u64,
    /// Brought back by acknowledgements.
    pub fast: u64,
    /// Brought back by acknowledgements after a timeout.
    pub go_back_n: u64,
}

impl Intervals {
    pub(crate) fn new(method: Method, grouping: &Grouping, retransmissions: &[Retransmission]) -> Self {
        let in_round_trips = method == Method::Paper && grouping.threshold_round_trips.is_some();
        let value = |packet: &Retransmission| match in_round_trips {
            true => packet.round_trips(),
            false => Some(packet.interval.as_millis_f64()),
        };
        let class = |packet: &Retransmission| match method {
            Method::AckClock => packet.class,
            Method::Paper if grouping.is_timeout(packet) => Class::Timeout,
            Method::Paper => Class::Fast,
        };
        let mut bars: BTreeMap<i32, [u64; 3]> = BTreeMap::new();
        let mut left_out = 0;
        for packet in retransmissions {
            match value(packet) {
                Some(value) => bars.entry(bar(value)).or_default()[class(packet) as usize] += 1,
                None => left_out += 1,
            }
        }
        let bars = bars.into_iter().map(|(bar, [timeouts, fast, go_back_n])| IntervalBar {
            from: edge(bar),
            to: edge(bar + 1),
            timeouts,
            fast,
            go_back_n,
        });
        Self {
            unit: if in_round_trips { "round_trips" } else { "ms" },
            boundary: match method {
                Method::AckClock => None,
                // A round trip is added to it, another one for every connection.
                Method::Paper if grouping.by == "fixed" => None,
                Method::Paper => Some(grouping.threshold_round_trips.unwrap_or(grouping.threshold_ms)),
            },
            left_out,
            bars: bars.collect(),
        }
    }
}
