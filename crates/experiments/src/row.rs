//! A finished run, as it is kept.

use serde::{Deserialize, Serialize};

use crate::{follow::Followed, point::Setting, sketch::Sketch};

/// One run's numbers. Rows are equal if and only if runs were.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The plan's name.
    pub plan: String,
    /// Hash of the plan, without what is only shown, as 16 hexadecimal digits.
    pub plan_hash: String,
    /// Version of what ran: the scheme's ([`Scenario::version`](crate::Scenario::version)), then a hash over
    /// what the network, the traffic and the plan's metrics do.
    pub version: String,
    /// The scheme's name in the plan.
    pub scheme: String,
    /// The value of every axis.
    pub point: Vec<(String, Setting)>,
    /// The seed.
    pub seed: u64,
    /// Flows measured.
    pub flows: u64,
    /// Share of the flows under test that the run's end came before.
    #[serde(default, skip_serializing_if = "is_nought")]
    pub unfinished: f64,
    /// Hash over every event, as 16 hexadecimal digits.
    pub trace: String,
    /// Packet-hops.
    pub hops: u64,
    /// When it ended, in seconds of simulated time.
    pub simulated_s: f64,
    /// The plan's metrics in its order; `None` where there is nothing to work one out from.
    pub metrics: Vec<(String, Option<f64>)>,
    /// Completion times in ms and the share at or below, if the plan asks for distributions.
    pub distribution: Vec<(f64, f64)>,
    /// Completion times of each class of flows that the plan asks a percentile of; the class of all
    /// is the empty text.
    #[serde(default)]
    pub times: Vec<(String, Sketch)>,
    /// Of each count that the plan asks the distribution of: values, and how many flows had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<(String, Vec<(u32, u64)>)>,
    /// Windows over time in the first seed's run, if the plan asks for them: seconds, which watched
    /// connection, segments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<(f64, u32, u32)>,
    /// Single flows that were followed in the first seed's run, if the plan asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<Followed>,
}

fn is_nought(share: &f64) -> bool {
    *share == 0.0
}

impl Row {
    /// The completion times of a class of flows.
    pub(crate) fn times_of(&self, class: &str) -> Option<&Sketch> {
        self.times.iter().find(|(name, _)| name == class).map(|(_, times)| times)
    }
}
