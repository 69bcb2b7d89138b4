//! Numbers that a plan can ask for, one file per kind. A new one is a function and its line here.
//!
//! A plan names a metric (`fct_p99_ms`), or a metric of a class of sizes (`fct_p99_ms@small`),
//! whose limits are in its table `classes`; `@background` are the flows that plain TCP carries
//! beside the tested ones.

mod completion;
mod counts;
mod crowding;
mod losses;
mod opportunities;
mod playout;
mod redundancy;
mod sharing;
mod throughput;
mod timeouts;
mod worked_out;

pub use counts::{COUNTS, Count};
use plans::{PlanError, names};
use units::percentile;

use crate::{
    outcome::{Measured, Outcome},
    sketch::Sketch,
};

/// What a metric looks at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The flows of its class.
    pub flows: &'a [Measured],
    /// Everything.
    pub outcome: &'a Outcome,
}

/// Works a metric out; `None` if there is nothing to work it out from.
pub type Compute = fn(View<'_>) -> Option<f64>;

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in plans and files; ends in its unit, or in `share`.
    pub name: &'static str,
    /// What an axis says.
    pub title: &'static str,
    /// How it is worked out.
    pub compute: Compute,
}

/// The metrics.
pub const METRICS: &[Metric] = &[
    Metric { name: "fct_mean_ms", title: "mean completion time (ms)", compute: completion::mean },
    Metric { name: "fct_p50_ms", title: "median completion time (ms)", compute: completion::p50 },
    Metric {
        name: "fct_p95_ms",
        title: "95th percentile of completion times (ms)",
        compute: completion::p95,
    },
    Metric {
        name: "fct_p99_ms",
        title: "99th percentile of completion times (ms)",
        compute: completion::p99,
    },
    Metric { name: "fct_max_ms", title: "longest completion time (ms)", compute: completion::longest },
    Metric { name: "unfinished_share", title: "flows not finished (%)", compute: completion::unfinished },
    Metric { name: "timeout_share", title: "flows with a timeout (%)", compute: timeouts::share },
    Metric { name: "timeouts_per_flow", title: "timeouts per flow", compute: timeouts::per_flow },
    Metric { name: "sent_again_per_flow", title: "retransmissions per flow", compute: timeouts::sent_again },
    Metric {
        name: "lost_per_flow",
        title: "lost packets per flow (of those that the plan follows)",
        compute: losses::per_flow,
    },
    Metric { name: "throughput_mbps", title: "throughput of a flow (Mbit/s)", compute: throughput::mean },
    Metric {
        name: "needless_share",
        title: "segments that arrived twice (%)",
        compute: throughput::needless,
    },
    Metric {
        name: "extra_share",
        title: "redundant packets, mean over flows (%)",
        compute: redundancy::extra,
    },
    Metric { name: "extra_bytes_share", title: "redundant bytes of all (%)", compute: redundancy::bytes },
    Metric { name: "repaired_share", title: "flows with a repair (%)", compute: redundancy::repaired },
    Metric {
        name: "useful_share",
        title: "redundant packets that repaired (%)",
        compute: redundancy::useful,
    },
    Metric {
        name: "hit_by_4_share",
        title: "hit after at most 4 others, of flows with a repair (%)",
        compute: opportunities::hit_by_4,
    },
    Metric {
        name: "hit_by_16_share",
        title: "hit after at most 16 others, of flows with a repair (%)",
        compute: opportunities::hit_by_16,
    },
    Metric {
        name: "few_in_20ms_share",
        title: "at most 4 chances in 20 ms (% of flows)",
        compute: opportunities::few_in_20ms,
    },
    Metric {
        name: "few_in_50ms_share",
        title: "at most 4 chances in 50 ms (% of flows)",
        compute: opportunities::few_in_50ms,
    },
    Metric {
        name: "few_in_100ms_share",
        title: "at most 4 chances in 100 ms (% of flows)",
        compute: opportunities::few_in_100ms,
    },
    Metric { name: "delivered_mbps", title: "goodput of a flow (Mbit/s)", compute: sharing::delivered },
    Metric { name: "rivals_mbps", title: "goodput of its rival (Mbit/s)", compute: sharing::of_rivals },
    Metric { name: "jain_index", title: "Jain's index of goodputs", compute: sharing::jain },
    Metric { name: "dropped_share", title: "packets dropped by queues (%)", compute: crowding::dropped },
    Metric {
        name: "settled_s",
        title: "until times are as before the surge (s)",
        compute: crowding::settled,
    },
    Metric { name: "playout_s", title: "playout time (s)", compute: playout::playout },
    Metric { name: "underruns", title: "buffer under-runs", compute: playout::underruns },
    Metric { name: "stalled_s", title: "time stalled (s)", compute: playout::stalled },
    Metric { name: "startup_ms", title: "time to the first picture (ms)", compute: playout::startup },
    Metric {
        name: "unit_delivered_share",
        title: "packets of a unit that arrive or are rebuilt (%)",
        compute: worked_out::only,
    },
    Metric {
        name: "unit_timeout_share",
        title: "units of which fewer than 3 packets arrive (%)",
        compute: worked_out::only,
    },
    Metric {
        name: "goodput_share",
        title: "transmissions that are neither repeated nor redundant (%)",
        compute: worked_out::only,
    },
    Metric {
        name: "group_failure_share",
        title: "groups that the code cannot mend (%)",
        compute: worked_out::only,
    },
];

/// Which percentile a metric is, of those that are one.
const PERCENTILES: &[(&str, f64)] = &[("fct_p50_ms", 0.5), ("fct_p95_ms", 0.95), ("fct_p99_ms", 0.99)];

/// Flows beyond a percentile that it takes to speak of it, unless a plan says otherwise.
const LEAST_BEYOND: f64 = 100.0;

/// A class of sizes: its name, what sizes are above and what they are at most, in bytes.
pub type Class = (String, (u64, u64));

/// A metric of a class of flows.
#[derive(Clone, Debug)]
pub struct MetricUse {
    /// As the plan writes it.
    pub name: String,
    /// Which.
    pub metric: Metric,
    /// Sizes above the first and at most the second, in bytes; `None` for the background.
    pub class: Option<(u64, u64)>,
}

impl MetricUse {
    /// What `name` means, given the plan's classes.
    ///
    /// # Errors
    /// If it names no metric or no class.
    pub fn parse(name: &str, at: &str, classes: &[Class]) -> Result<Self, PlanError> {
        let (bare, class) = name.split_once('@').map_or((name, None), |(bare, class)| (bare, Some(class)));
        let metric = METRICS.iter().find(|metric| metric.name == bare).copied().ok_or_else(|| {
            let known = names(METRICS.iter().map(|metric| metric.name));
            PlanError::value(at, format!("`{name}`"), format!("one of {known}"))
        })?;
        let class = match class {
            None => Some((0, u64::MAX)),
            Some("background") => None,
            Some(class) => {
                let found = classes.iter().find(|(known, _)| known == class);
                let known = || names(classes.iter().map(|(known, _)| known.as_str()));
                let (_, limits) = found.ok_or_else(|| {
                    PlanError::value(at, format!("`{name}`"), format!("of one of the classes {}", known()))
                })?;
                Some(*limits)
            }
        };
        Ok(Self { name: name.to_owned(), metric, class })
    }

    /// The class as the plan writes it; empty for all flows under test.
    pub fn class_name(&self) -> &str {
        self.name.split_once('@').map_or("", |(_, class)| class)
    }

    /// Which share of completion times is at or below it, if it is a percentile of them.
    pub fn quantile(&self) -> Option<f64> {
        PERCENTILES.iter().find(|(name, _)| *name == self.metric.name).map(|(_, share)| *share)
    }

    /// Whether it is worked out from the flows under test that finished, and from no others.
    pub(crate) fn is_of_finished(&self) -> bool {
        let is_time = self.metric.name.starts_with("fct_") || self.metric.name.starts_with("throughput_");
        // Of the background nobody says how many finished.
        is_time && self.class.is_some()
    }

    /// How many flows a percentile takes before anything is said of it: 100 / (1 - q), that is a
    /// hundred beyond it, or as many beyond it as a plan's `min_samples` leaves beyond the 99th. 0
    /// for what is no percentile.
    pub fn least_samples(&self, min_samples: Option<u64>) -> u64 {
        let Some(share) = self.quantile() else { return 0 };
        let beyond = min_samples.map_or(LEAST_BEYOND, |samples| samples as f64 * 0.01);
        (beyond / (1.0 - share) - 1e-6).ceil() as u64
    }

    /// The completion times that a percentile is of.
    pub(crate) fn times(&self, outcome: &Outcome) -> Sketch {
        self.flows(outcome).filter_map(|flow| flow.time).collect()
    }

    /// The flows of its class.
    fn flows<'a>(&self, outcome: &'a Outcome) -> impl Iterator<Item = &'a Measured> {
        let class = self.class;
        outcome.flows.iter().filter(move |flow| match class {
            None => flow.background,
            Some((above, most)) => !flow.background && flow.bytes > above && flow.bytes <= most,
        })
    }

    /// The number.
    pub fn compute(&self, outcome: &Outcome) -> Option<f64> {
        let flows: Vec<Measured> = self.flows(outcome).copied().collect();
        (self.metric.compute)(View { flows: &flows, outcome }).filter(|value| value.is_finite())
    }
}

/// Completion times of the tested flows at every percent and at every tenth of a percent of the
/// last, in ms: what a distribution is drawn from.
pub(crate) fn distribution(outcome: &Outcome) -> Vec<(f64, f64)> {
    let mut times: Vec<f64> =
        outcome.flows.iter().filter(|flow| !flow.background).filter_map(completion::millis).collect();
    times.sort_by(f64::total_cmp);
    let shares = (0..99_u32).map(|percent| f64::from(percent) / 100.0);
    let tail = (0..=10_u32).map(|tenth| (990.0 + f64::from(tenth)) / 1_000.0);
    shares.chain(tail).filter_map(|share| Some((percentile(&times, share)?, share))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_a_hundred_flows_beyond_it() {
        let least = |name: &str, own| MetricUse::parse(name, "", &[]).unwrap().least_samples(own);
        let of = |own| ["fct_p50_ms", "fct_p95_ms", "fct_p99_ms"].map(|name| least(name, own));
        assert_eq!(of(None), [200, 2_000, 10_000]);
        assert_eq!(of(Some(1_000)), [20, 200, 1_000]);
        assert_eq!((least("fct_mean_ms", None), least("fct_max_ms", Some(7))), (0, 0));
    }

    #[test]
    fn every_percentile_is_a_metric() {
        assert!(PERCENTILES.iter().all(|(name, _)| METRICS.iter().any(|metric| metric.name == *name)));
    }
}
