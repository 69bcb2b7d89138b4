//! Parts that a program brings along, by the names that its plans call them; they come before the
//! house's of the same name.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use netsim::loss::OwnLoss;
use plans::{Keys, PlanError, names};
use tcpsim::{
    OwnController, OwnScheduler,
    schemes::{Mptcp, OwnScheme},
};
use toml::Table;

type Read<T> = dyn Fn(&Table) -> Result<T, String> + Send + Sync;

/// Makes parts by the parameters that a plan gives them, or says what is wrong with these.
pub struct Part<T>(Arc<Read<T>>);

impl<T> Part<T> {
    /// Parts that `read` makes of a plan's table `parameters`, which may be empty.
    pub fn new(read: impl Fn(&Table) -> Result<T, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Part")
    }
}

/// What a program brings along.
#[derive(Clone, Default, Debug)]
pub struct Parts {
    /// Schemes on MPTCP, with the sub-flows that they have unless the plan says otherwise: `kind` of
    /// a scheme.
    pub schemes: BTreeMap<String, (Mptcp, Part<OwnScheme>)>,
    /// Congestion controllers: `congestion` of TCP.
    pub controllers: BTreeMap<String, Part<OwnController>>,
    /// Schedulers: `scheduler` of TCP.
    pub schedulers: BTreeMap<String, Part<OwnScheduler>>,
    /// Loss models: `model` of a fault.
    pub losses: BTreeMap<String, Part<OwnLoss>>,
    /// Another text when they do something else: rows of another one are not reused.
    pub version: String,
    /// Ends every run, as when one of them cannot go on.
    pub stop: Stop,
}

/// Ends the runs of a plan in their midst, within a millisecond of simulated time. Clones are the
/// same one.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// No longer: what comes is another run.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether they end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Parts {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.schemes.is_empty()
            && self.controllers.is_empty()
            && self.schedulers.is_empty()
            && self.losses.is_empty()
    }
}

/// What `part` makes by the table `parameters`.
pub(crate) fn made<T>(keys: &mut Keys<'_>, parameters: &'static str, part: &Part<T>) -> Result<T, PlanError> {
    let given = keys.table(parameters)?.everything();
    (part.0)(given).map_err(|message| PlanError::Shape { line: None, key: keys.path(parameters), message })
}

/// What may stand where `own` may be named beside what is `allowed` anyway.
pub(crate) fn allowed<T>(allowed: String, own: &BTreeMap<String, T>) -> String {
    if own.is_empty() {
        return allowed;
    }
    format!("{allowed}; or of the program: {}", names(own.keys().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use netsim::loss::{LossModel, PacketInfo};

    use super::*;
    use crate::{Campaign, CampaignError, Plan, Scale};

    const PLAN: &str = r#"
        title = "A model of one's own"
        metrics = ["fct_p99_ms"]
        seeds = 2
        topology = { kind = "parallel-paths" }
        tcp = { preset = "fuso" }
        fault = [{ links = "paths", model = "every", parameters = { nth = "$nth" }, data_only = true }]
        workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 50, bytes = 20_000 }
        scheme = [{ kind = "tcp" }]
        sweep = { nth = [1000, 6] }
        limit_s = 10
    "#;

    struct Every(u64);

    impl LossModel for Every {
        fn lose(&mut self, packet: &PacketInfo) -> bool {
            packet.index % self.0 == self.0 - 1
        }
    }

    fn parts() -> Parts {
        let every = Part::new(|given: &Table| {
            let nth = given.get("nth").and_then(toml::Value::as_integer).ok_or("`nth` is a whole number")?;
            Ok(OwnLoss::new("every", move |_| Box::new(Every(nth as u64))))
        });
        Parts { losses: BTreeMap::from([("every".to_owned(), every)]), ..Parts::default() }
    }

    fn run(parts: Parts) -> Result<Vec<crate::Row>, CampaignError> {
        let plan = Plan::parse_with("own", PLAN, Scale::Quick, parts).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Campaign::new(&plan, folder.path()).unwrap().run(1, &|_| {})
    }

    #[test]
    fn a_plan_names_them_and_gives_them_parameters() {
        let rows = run(parts()).unwrap();
        let time = |row: &crate::Row| row.metrics[0].1.unwrap();
        assert_eq!(rows.len(), 4);
        assert!(time(&rows[2]) > 1.5 * time(&rows[0]), "{} {}", time(&rows[0]), time(&rows[2]));
    }

    #[test]
    fn what_is_not_there_and_wrong_parameters_are_refused() {
        let refused = |text: &str, parts| Plan::parse_with("own", text, Scale::Quick, parts).unwrap_err();
        let error = refused(PLAN, Parts::default()).to_string();
        assert!(
            error.starts_with("`fault[1].model` is `every`: it must be one that the program brings along"),
            "{error}"
        );
        let error = refused(&PLAN.replace("nth = \"$nth\"", "n = \"$nth\""), parts()).to_string();
        assert!(
            error.contains("fault[1].parameters") && error.contains("`nth` is a whole number"),
            "{error}"
        );
        let error = refused(&PLAN.replace("\"tcp\" }", "\"tpc\" }"), parts()).to_string();
        assert!(error.contains("`scheme[1].kind` is `tpc`: it must be one of caps"), "{error}");
    }

    #[test]
    fn they_come_before_the_houses_of_the_same_name() {
        let plain = PLAN.replace("model = \"every\", parameters = { nth = \"$nth\" }", "loss = \"$nth\"");
        let plain = plain.replace("[1000, 6]", "[0, 0.1]");
        let ours = Parts {
            schemes: BTreeMap::from([(
                "tcp".to_owned(),
                (Mptcp::new(1), Part::new(|_: &Table| Err("no scheme of ours".to_owned()))),
            )]),
            ..Parts::default()
        };
        let error =
            |text: &str, parts| Plan::parse_with("own", text, Scale::Quick, parts).unwrap_err().to_string();
        assert!(error(&plain, ours).contains("no scheme of ours"));
        let reno = Part::new(|_: &Table| Err("no controller of ours".to_owned()));
        let ours = Parts { controllers: BTreeMap::from([("reno".to_owned(), reno)]), ..Parts::default() };
        let text = plain.replace("\"fuso\"", "\"fuso\", congestion = \"reno\"");
        assert!(error(&text, ours).contains("no controller of ours"));
        let lowest = Part::new(|_: &Table| Err("no scheduler of ours".to_owned()));
        let ours =
            Parts { schedulers: BTreeMap::from([("lowest-rtt".to_owned(), lowest)]), ..Parts::default() };
        let text = plain.replace("\"fuso\"", "\"fuso\", scheduler = \"lowest-rtt\"");
        assert!(error(&text, ours).contains("no scheduler of ours"));
    }

    #[test]
    fn rows_of_another_version_are_of_another_plan() {
        let of = |version: &str| {
            let parts = Parts { version: version.to_owned(), ..parts() };
            Plan::parse_with("own", PLAN, Scale::Quick, parts).unwrap().hash
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        let plain = PLAN.replace("model = \"every\", parameters = { nth = \"$nth\" }", "loss = \"$nth\"");
        let plain = plain.replace("[1000, 6]", "[0, 0.1]");
        let with = Plan::parse_with("own", &plain, Scale::Quick, parts()).unwrap();
        let without = Plan::parse("own", &plain, Scale::Quick).unwrap();
        assert_ne!(with.hash, without.hash);
    }

    #[test]
    fn runs_end_when_one_cannot_go_on() {
        let parts = parts();
        let stop = parts.stop.clone();
        let broken = Part::new(move |_: &Table| {
            let stop = stop.clone();
            Ok(OwnLoss::new("every", move |_| Box::new(Breaks(stop.clone()))))
        });
        let error = run(Parts { losses: BTreeMap::from([("every".to_owned(), broken)]), ..parts });
        assert!(matches!(error, Err(CampaignError::Scenario { .. })), "{error:?}");
    }

    struct Breaks(Stop);

    impl LossModel for Breaks {
        fn lose(&mut self, _: &PacketInfo) -> bool {
            self.0.set();
            false
        }
    }
}
