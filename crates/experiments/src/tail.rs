//! Why the slowest flows of a run were slow: their packets, one by one.

use std::fmt::Write as _;

use netsim::Seed;
use plans::{PlanError, names};
use tcpsim::timeline::{Timeline, text::text};
use thiserror::Error;
use units::Duration;

use crate::{
    outcome::Measured,
    plan::Plan,
    point::{Point, Setting},
    run::ScenarioError,
};

/// Which flows to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tail {
    /// How many flows of each scheme.
    pub flows: usize,
    /// The point of the sweep: axes and their values, as [`setting`](Self::setting) reads them. An
    /// axis that is not named has its first value.
    pub at: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// Only the scheme of this name.
    pub scheme: Option<String>,
    /// Most lines for a flow; beyond, those in the middle are left out.
    pub lines: usize,
}

/// Why there is nothing to look at.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TailError {
    /// Not `axis=value`.
    #[error("`{text}` is no axis=value")]
    Setting {
        /// What it was.
        text: String,
    },
    /// The plan has no such axis.
    #[error("the plan has no axis `{axis}`: {known}")]
    Axis {
        /// What was asked for.
        axis: String,
        /// Those of the plan.
        known: String,
    },
    /// The axis has no such value.
    #[error("`{axis}` has no value `{value}`, or several that contain it: {known}")]
    Value {
        /// The axis.
        axis: String,
        /// What was asked for.
        value: String,
        /// Those of the axis.
        known: String,
    },
    /// The plan has no such scheme.
    #[error("the plan has no scheme `{scheme}`: {known}")]
    Scheme {
        /// What was asked for.
        scheme: String,
        /// Those of the plan.
        known: String,
    },
    /// Nothing of the plan is run.
    #[error("it is worked out, not simulated: there are no flows")]
    WorkedOut,
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl Tail {
    /// The `flows` slowest of each scheme, with the first value of every axis and seed 1; 80 lines
    /// each.
    pub fn new(flows: usize) -> Self {
        Self { flows, at: Vec::new(), seed: 1, scheme: None, lines: 80 }
    }

    /// Reads `axis=value`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn setting(text: &str) -> Result<(String, String), TailError> {
        let parts =
            text.split_once('=').map(|(axis, value)| (axis.trim().to_owned(), value.trim().to_owned()));
        parts.ok_or_else(|| TailError::Setting { text: text.to_owned() })
    }

    /// Runs the point with each scheme and tells what happened to the slowest flows under test.
    ///
    /// # Errors
    /// If the plan has not what is asked for, or a run fails.
    pub fn text(&self, plan: &Plan) -> Result<String, TailError> {
        if plan.schemes.is_empty() {
            return Err(TailError::WorkedOut);
        }
        let point = self.point(plan)?;
        let mut out = String::new();
        for scheme in self.schemes(plan)? {
            let scenario = plan.scenario(&point, scheme, &mut Vec::new())?;
            let (outcome, slow) = scenario.slowest(Seed(self.seed), self.flows)?;
            let tested = outcome.flows.iter().filter(|flow| !flow.background).count();
            let values = point.values.iter().map(|(axis, value)| format!(", {axis} {value}"));
            let heading = format!(
                "{}: the slowest {} of {tested} flows{}, seed {}",
                plan.schemes[scheme].name,
                slow.len(),
                values.collect::<String>(),
                self.seed
            );
            let _ = writeln!(out, "{heading}\n{}", "=".repeat(heading.chars().count()));
            let ports = scenario.port_names();
            for (flow, timeline) in &slow {
                let _ = writeln!(out, "\n{}", summary(flow, timeline));
                out += &text(timeline, &ports, self.lines);
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// The schemes of the plan that are looked at.
    pub(crate) fn schemes(&self, plan: &Plan) -> Result<Vec<usize>, TailError> {
        let schemes: Vec<usize> = (0..plan.schemes.len())
            .filter(|place| self.scheme.as_ref().is_none_or(|name| *name == plan.schemes[*place].name))
            .collect();
        if let (Some(scheme), true) = (&self.scheme, schemes.is_empty()) {
            let known = names(plan.schemes.iter().map(|scheme| scheme.name.as_str()));
            return Err(TailError::Scheme { scheme: scheme.clone(), known });
        }
        Ok(schemes)
    }

    /// The point of the plan that `at` names.
    pub(crate) fn point(&self, plan: &Plan) -> Result<Point, TailError> {
        let mut wanted: Vec<Option<&Setting>> = vec![None; plan.axes.len()];
        for (name, value) in &self.at {
            let place =
                plan.axes.iter().position(|axis| axis.name == *name).ok_or_else(|| TailError::Axis {
                    axis: name.clone(),
                    known: names(plan.axes.iter().map(|axis| axis.name.as_str())),
                })?;
            let values = &plan.axes[place].values;
            wanted[place] = Some(find(values, value).ok_or_else(|| TailError::Value {
                axis: name.clone(),
                value: value.clone(),
                known: values.iter().map(Setting::to_string).collect::<Vec<_>>().join(", "),
            })?);
        }
        let fits = |point: &Point| {
            point
                .values
                .iter()
                .zip(&wanted)
                .all(|((_, value), wanted)| wanted.is_none_or(|wanted| wanted == value))
        };
        let first = Point::all(&plan.axes).into_iter().find(fits);
        first.ok_or_else(|| {
            TailError::Plan(PlanError::Missing { key: "sweep".into(), wanted: "a point".into() })
        })
    }
}

/// The value that is written so, or else the only one that contains the text.
fn find<'a>(values: &'a [Setting], text: &str) -> Option<&'a Setting> {
    let number = text.parse::<f64>().ok();
    let same = |value: &&Setting| match value {
        Setting::Number(value) => Some(*value) == number,
        Setting::Text(value) => value == text,
    };
    values.iter().find(same).or_else(|| {
        let mut parts =
            values.iter().filter(|value| matches!(value, Setting::Text(value) if value.contains(text)));
        match (parts.next(), parts.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    })
}

/// What is known of a flow in a line.
fn summary(flow: &Measured, timeline: &Timeline) -> String {
    let ms = |time: Duration| format!("{:.3} ms", time.as_nanos() as f64 / 1e6);
    let time = flow.time.map_or("not finished".to_owned(), ms);
    let answer = flow.request.map_or("", |_| ", a response: the request is connection ");
    let request = match (flow.request, timeline.events.first()) {
        (Some(_), Some(first)) => first.conn.to_string(),
        _ => String::new(),
    };
    let timeouts = if flow.timeouts == 1 { "timeout" } else { "timeouts" };
    format!(
        "flow {} of {} bytes, {time}: {} {timeouts}, {} sent again, {} redundant, {} repaired{answer}{request}",
        flow.flow.0, flow.bytes, flow.timeouts, flow.retransmissions, flow.extra, flow.repaired
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    const PLAN: &str = r#"
        title = "A response that loses its last packet"
        metrics = ["fct_p99_ms"]
        topology = { kind = "parallel-paths" }
        tcp = { preset = "fuso" }
        fault = [{ links = "paths", index = 0, nth = ["$lost"], data_only = true }]
        balancing = "sub-flow"
        workload = { kind = "spaced", from = "first", to = "second", flows = 3, apart_ms = 50, bytes = 10_000 }
        scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 2 }]
        sweep = { lost = [6, 2] }
        limit_s = 10
    "#;

    fn plan() -> Plan {
        Plan::parse("tail", PLAN, Scale::Quick).unwrap()
    }

    #[test]
    fn the_slowest_flow_is_told_for_each_scheme() {
        let told = Tail::new(1).text(&plan()).unwrap();
        assert!(told.contains("tcp: the slowest 1 of 3 flows, lost 6, seed 1"), "{told}");
        assert!(told.contains("! lost: 6 (switch 0 to switch 1)"), "{told}");
        assert!(told.contains("* retransmission timeout"), "{told}");
        let (tcp, fuso) = told.split_once("\nfuso: the slowest").unwrap();
        assert!(tcp.contains("1 timeout, 1 sent again"), "{told}");
        assert!(!fuso.contains("timeout\n"), "{told}");
    }

    #[test]
    fn a_point_and_a_scheme_can_be_named() {
        let tail = Tail { at: vec![("lost".into(), "2".into())], scheme: Some("tcp".into()), ..Tail::new(2) };
        let told = tail.text(&plan()).unwrap();
        assert!(told.contains("the slowest 2 of 3 flows, lost 2") && !told.contains("fuso"), "{told}");
        assert!(told.contains("* fast recovery begins"), "{told}");

        let at = |text: &str| Tail { at: vec![Tail::setting(text).unwrap()], ..Tail::new(1) }.text(&plan());
        assert!(matches!(at("loss=2"), Err(TailError::Axis { .. })));
        assert!(matches!(at("lost=3"), Err(TailError::Value { .. })));
        assert!(Tail::setting("lost").is_err());
        let other = Tail { scheme: Some("tcpp".into()), ..Tail::new(1) };
        assert!(matches!(other.text(&plan()), Err(TailError::Scheme { .. })));
    }

    #[test]
    fn values_are_found_by_number_and_by_a_part_of_their_name() {
        let values = ["abc_lo", "abc_mid", "abc"].map(|text| Setting::Text(text.into()));
        assert_eq!(find(&values, "mid"), Some(&values[1]));
        assert_eq!(find(&values, "abc"), Some(&values[2]));
        assert_eq!(find(&values, "ab"), None);
        assert_eq!(find(&[Setting::Number(0.05)], "0.050"), Some(&Setting::Number(0.05)));
    }
}
