//! Curves of the papers that are worked out, not simulated, one file per paper. A new one is a
//! function and its line here.

mod ctcp;
mod fuso;
mod htpc;
mod measured;
mod slp;

use plans::{Keys, PlanError, names};
use toml::Table;

use crate::{metrics::MetricUse, point::Point};

/// Works a model out.
pub type Model = fn(&mut Keys<'_>) -> Result<f64, PlanError>;

/// The models.
pub const MODELS: &[(&str, Model)] = &[
    ("ctcp-bound-algorithm-3", ctcp::bound_up),
    ("ctcp-bound-equation-7", ctcp::bound_down),
    ("ctcp-square-root", ctcp::square_root),
    ("data", measured::table),
    ("fuso-fuso", fuso::fuso),
    ("fuso-mptcp", fuso::mptcp),
    ("fuso-tcp", fuso::tcp),
    ("fuso-tcp-random-path", fuso::tcp_random_path),
    ("stated", measured::stated),
    ("htpc-delivered", htpc::delivered),
    ("htpc-timeouts", htpc::timeouts),
    ("slp-arq", slp::goodput_arq),
    ("slp-fec", slp::goodput_fec),
    ("slp-group-failure", slp::group_failure),
];

/// A `[[model]]` of a plan.
#[derive(Clone, Debug)]
pub struct ModelPlan {
    /// How figures call it.
    pub name: String,
    /// The metric that it predicts.
    pub metric: String,
    at: String,
    model: Model,
    table: Table,
}

impl ModelPlan {
    pub(crate) fn read_all(tables: Vec<Keys<'_>>, metrics: &[MetricUse]) -> Result<Vec<Self>, PlanError> {
        tables.into_iter().map(|keys| Self::read(keys, metrics)).collect()
    }

    fn read(mut keys: Keys<'_>, metrics: &[MetricUse]) -> Result<Self, PlanError> {
        let model = keys.need_named("kind", MODELS)?;
        let name = keys.need_text("name", "how figures call it")?.to_owned();
        let metric = keys.need_text("metric", "the metric that it predicts")?.to_owned();
        if !metrics.iter().any(|known| known.name == metric) {
            let known = names(metrics.iter().map(|metric| metric.name.as_str()));
            let allowed = format!("one of the plan's metrics: {known}");
            return Err(PlanError::value(keys.path("metric"), format!("`{metric}`"), allowed));
        }
        let mut table = keys.everything().clone();
        for key in ["kind", "name", "metric"] {
            table.remove(key);
        }
        Ok(Self { name, metric, at: keys.path("").trim_end_matches('.').to_owned(), model, table })
    }

    /// Its value at a point.
    ///
    /// # Errors
    /// If a parameter is wrong.
    pub fn value(&self, point: &Point) -> Result<f64, PlanError> {
        self.value_noting(point, &mut Vec::new())
    }

    /// The same; axes that it depends on are noted in `used`.
    pub(crate) fn value_noting(&self, point: &Point, used: &mut Vec<String>) -> Result<f64, PlanError> {
        let filled = point.fill(&self.table, used)?;
        let mut keys = Keys::new(&filled, self.at.clone());
        let value = (self.model)(&mut keys)?;
        keys.finish()?;
        Ok(value)
    }
}
