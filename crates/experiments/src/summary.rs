//! What rows say together, for every point, scheme and metric: mean and confidence interval over
//! the seeds, percentiles of the flows of all seeds, and how a scheme stands to the plan's
//! reference.

mod csv;
mod numbers;

use plans::PlanError;
use serde::Serialize;

pub use self::csv::committed_summary;
use self::numbers::{Column, compare, half_width};
use crate::{
    columns::{Columns, Data},
    metrics::MetricUse,
    plan::Plan,
    point::{Point, Setting},
    resample,
    row::Row,
};

/// The metric that says how many flows did not finish.
const UNFINISHED: &str = "unfinished_share";

/// A metric of a scheme at a point.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Cell {
    /// The scheme's or the model's name.
    pub scheme: String,
    /// The value of every axis.
    pub point: Vec<(String, Setting)>,
    /// The metric.
    pub metric: String,
    /// Seeds with a value; 0 for a model.
    pub seeds: usize,
    /// Mean over the seeds, or the model's value.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); `None` with fewer
    /// than two seeds.
    pub ci95: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Of a percentile: flows of all seeds together that finished.
    pub samples: Option<u64>,
    /// The percentile of the flows of all seeds together ([`Sketch`](crate::Sketch): within 0.2 %).
    pub pooled: Option<f64>,
    /// Where its 95 % interval begins, by resampling seeds; `None` with fewer than
    /// [`LEAST_SEEDS`](crate::LEAST_SEEDS).
    pub pooled_low: Option<f64>,
    /// Where it ends.
    pub pooled_high: Option<f64>,
    /// The mean over the seeds of this scheme's value minus the reference's with the same seed;
    /// `None` for the reference itself.
    pub diff: Option<f64>,
    /// Half the width of its 95 % confidence interval (Student's t of the differences).
    pub diff_ci95: Option<f64>,
    /// This scheme's value over the reference's: of pooled percentiles, else of means over the seeds
    /// that both have.
    pub ratio: Option<f64>,
    /// Where its 95 % interval begins: seeds are resampled for both together.
    pub ratio_low: Option<f64>,
    /// Where it ends.
    pub ratio_high: Option<f64>,
}

/// A percentile that nothing is said of, as too few flows are behind it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TooFew {
    /// The scheme's name.
    pub scheme: String,
    /// The value of every axis.
    pub point: Vec<(String, Setting)>,
    /// The metric.
    pub metric: String,
    /// Seeds with a value.
    pub seeds: usize,
    /// Flows of all seeds together that finished.
    pub samples: u64,
    /// How many it would take.
    pub least: u64,
}

/// Everything that is said of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// `mendpath-experiment/2`.
    pub schema: &'static str,
    /// The plan's name.
    pub plan: String,
    /// What it shows.
    pub title: String,
    /// Statements of the papers that it is about.
    pub claims: Vec<String>,
    /// Which inputs are assumed.
    pub notes: Vec<String>,
    /// `quick`, `medium` or `paper`.
    pub scale: &'static str,
    /// Seeds of each point and scheme.
    pub seeds: u32,
    /// Hash of the plan.
    pub plan_hash: String,
    /// The scheme that others are compared with; empty if there is only one.
    pub reference: String,
    /// The numbers: points in the plan's order, schemes and models within, metrics within.
    pub cells: Vec<Cell>,
    /// Percentiles that are left out, in the same order.
    pub too_few: Vec<TooFew>,
}

impl Cell {
    /// What a table or a figure shows first: the pooled percentile if its interval is known, else
    /// the mean over the seeds.
    pub fn shown(&self) -> Shown {
        match (self.pooled, self.pooled_low, self.pooled_high) {
            (Some(value), Some(low), Some(high)) => Shown { value, between: Some((low, high)) },
            _ => Shown {
                value: self.mean,
                between: self.ci95.map(|half| (self.mean - half, self.mean + half)),
            },
        }
    }
}

/// A value with its 95 % interval, if that is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shown {
    /// The value.
    pub value: f64,
    /// From where to where.
    pub between: Option<(f64, f64)>,
}

impl Summary {
    /// Of the rows of a plan.
    ///
    /// # Errors
    /// If a model cannot be worked out.
    pub fn new(plan: &Plan, rows: &[Row]) -> Result<Self, PlanError> {
        let mut summary = Self::empty(plan);
        for point in Point::all(&plan.axes) {
            let here: Vec<&Row> = rows.iter().filter(|row| row.point == point.values).collect();
            for scheme in &plan.schemes {
                for place in 0..plan.metrics.len() {
                    summary.add(plan, &point, &here, (&scheme.name, place));
                }
                summary.add_unfinished(plan, &point, &here, &scheme.name);
            }
            for model in &plan.models {
                let value = model.value(&point)?;
                if value.is_finite() {
                    let cell = cell(&model.name, &point, &model.metric, &[value]);
                    summary.cells.push(Cell { seeds: 0, ..cell });
                }
            }
        }
        Ok(summary)
    }

    fn empty(plan: &Plan) -> Self {
        Self {
            schema: "mendpath-experiment/2",
            plan: plan.name.clone(),
            title: plan.title.clone(),
            claims: plan.claims.clone(),
            notes: plan.notes.clone(),
            scale: plan.scale.name(),
            seeds: plan.seeds,
            plan_hash: plan.hash_text(),
            reference: plan.reference.clone(),
            cells: Vec::new(),
            too_few: Vec::new(),
        }
    }

    /// The plan's metric at `place`, of a scheme, from the rows of a point.
    fn add(&mut self, plan: &Plan, point: &Point, here: &[&Row], (scheme, place): (&str, usize)) {
        let metric = &plan.metrics[place];
        // Rows of before have a nought where a scheme does not count.
        let is_uncounted = |scheme: &str| {
            let entry = plan.schemes.iter().find(|entry| entry.name == scheme);
            entry.is_some_and(|entry| !entry.counts(point, metric))
        };
        let column = |scheme: &str| {
            let rows = if is_uncounted(scheme) { &here[..0] } else { here };
            Column::new(rows, scheme, place, metric)
        };
        let (own, reference) = (column(scheme), column(&plan.reference));
        if own.values.is_empty() {
            return;
        }
        let least = metric.least_samples(plan.min_samples);
        if let Some(samples) = own.samples().filter(|samples| *samples < least) {
            let (scheme, metric, point) = (scheme.to_owned(), metric.name.clone(), point.values.clone());
            let seeds = own.values.len();
            self.too_few.push(TooFew { scheme, point, metric, seeds, samples, least });
            return;
        }
        let mut cell = cell(scheme, point, &metric.name, &own.numbers());
        cell.samples = own.samples();
        own.pool_into(&mut cell, &resample::draws(own.values.len()));
        if scheme != plan.reference && reference.samples().is_none_or(|samples| samples >= least) {
            compare(&own, &reference, &mut cell);
        }
        self.cells.push(cell);
    }

    /// Completion times are of the flows that finished. Where some did not, and the plan does not ask how
    /// many, that is said all the same.
    fn add_unfinished(&mut self, plan: &Plan, point: &Point, here: &[&Row], scheme: &str) {
        let says_so = plan.metrics.iter().any(|metric| metric.name == UNFINISHED);
        let shares: Vec<f64> =
            here.iter().filter(|row| row.scheme == scheme).map(|row| row.unfinished).collect();
        let some = shares.iter().any(|share| *share > 0.0);
        if some && !says_so && plan.metrics.iter().any(MetricUse::is_of_finished) {
            self.cells.push(cell(scheme, point, UNFINISHED, &shares));
        }
    }

    /// The scheme and point of which the fewest flows finished, if the plan asks for something that is of
    /// those alone, and some did not.
    pub(crate) fn least_finished(&self, plan: &Plan) -> Option<&Cell> {
        let matters = plan.metrics.iter().any(MetricUse::is_of_finished);
        let some = self.cells.iter().filter(|cell| matters && cell.metric == UNFINISHED && cell.mean > 0.0);
        some.max_by(|one, other| one.mean.total_cmp(&other.mean))
    }

    /// Whether some flows of a scheme at a point did not finish.
    pub(crate) fn has_unfinished(&self, scheme: &str, point: &[(String, Setting)]) -> bool {
        self.find(scheme, UNFINISHED, point).is_some_and(|cell| cell.mean > 0.0)
    }

    /// A metric of a scheme at a point.
    pub fn find(&self, scheme: &str, metric: &str, point: &[(String, Setting)]) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.scheme == scheme && cell.metric == metric && cell.point == point)
    }

    /// Why a metric of a scheme at a point is left out, if it is.
    pub fn find_too_few(&self, scheme: &str, metric: &str, point: &[(String, Setting)]) -> Option<&TooFew> {
        self.too_few.iter().find(|few| few.scheme == scheme && few.metric == metric && few.point == point)
    }

    /// As a table, one line per cell, then one for each percentile that is left out.
    pub fn columns(&self, plan: &Plan) -> Columns {
        let lines: Vec<Line<'_>> =
            self.cells.iter().map(Line::Cell).chain(self.too_few.iter().map(Line::TooFew)).collect();
        let mut columns = Columns::default();
        for axis in &plan.axes {
            let values = lines.iter().filter_map(|line| {
                line.point().iter().find(|(name, _)| *name == axis.name).map(|(_, value)| value)
            });
            columns.add(&axis.name, settings(values.collect()));
        }
        let texts = |of: fn(&Line<'_>) -> String| Data::Texts(lines.iter().map(of).collect());
        columns.add("scheme", texts(|line| line.names().0.clone()));
        columns.add("metric", texts(|line| line.names().1.clone()));
        columns.add("seeds", Data::Whole(lines.iter().map(|line| line.seeds() as i64).collect()));
        let numbers = |of: Number| Data::Numbers(lines.iter().map(|line| line.cell().and_then(of)).collect());
        columns.add("mean", numbers(|cell| Some(cell.mean)));
        columns.add("ci95", numbers(|cell| cell.ci95));
        columns.add("min", numbers(|cell| Some(cell.min)));
        columns.add("max", numbers(|cell| Some(cell.max)));
        let samples = lines.iter().map(|line| line.samples().map(|samples| samples as i64));
        columns.add("samples", Data::Counts(samples.collect()));
        for (name, of) in NUMBERS {
            columns.add(name, numbers(*of));
        }
        columns
    }
}

/// A number of a cell.
type Number = fn(&Cell) -> Option<f64>;

/// The columns after `samples`.
const NUMBERS: &[(&str, Number)] = &[
    ("pooled", |cell| cell.pooled),
    ("pooled_low", |cell| cell.pooled_low),
    ("pooled_high", |cell| cell.pooled_high),
    ("diff", |cell| cell.diff),
    ("diff_ci95", |cell| cell.diff_ci95),
    ("ratio", |cell| cell.ratio),
    ("ratio_low", |cell| cell.ratio_low),
    ("ratio_high", |cell| cell.ratio_high),
];

/// A line of the table.
#[derive(Clone, Copy)]
enum Line<'a> {
    Cell(&'a Cell),
    TooFew(&'a TooFew),
}

impl<'a> Line<'a> {
    fn cell(&self) -> Option<&'a Cell> {
        match self {
            Self::Cell(cell) => Some(cell),
            Self::TooFew(_) => None,
        }
    }

    fn names(&self) -> (&'a String, &'a String) {
        match self {
            Self::Cell(cell) => (&cell.scheme, &cell.metric),
            Self::TooFew(few) => (&few.scheme, &few.metric),
        }
    }

    fn point(&self) -> &'a [(String, Setting)] {
        match self {
            Self::Cell(cell) => &cell.point,
            Self::TooFew(few) => &few.point,
        }
    }

    fn seeds(&self) -> usize {
        match self {
            Self::Cell(cell) => cell.seeds,
            Self::TooFew(few) => few.seeds,
        }
    }

    fn samples(&self) -> Option<u64> {
        match self {
            Self::Cell(cell) => cell.samples,
            Self::TooFew(few) => Some(few.samples),
        }
    }
}

/// Mean, interval and range of at least one value.
fn cell(scheme: &str, point: &Point, metric: &str, values: &[f64]) -> Cell {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Cell {
        scheme: scheme.to_owned(),
        point: point.values.clone(),
        metric: metric.to_owned(),
        seeds: values.len(),
        mean,
        ci95: half_width(values, mean),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ..Cell::default()
    }
}

/// An axis as a column: numbers if all are, else texts.
pub(crate) fn settings(values: Vec<&Setting>) -> Data {
    let number = |value: &&Setting| match value {
        Setting::Number(number) => Some(*number),
        Setting::Text(_) => None,
    };
    let numbers: Vec<Option<f64>> = values.iter().map(number).collect();
    match numbers.iter().all(Option::is_some) {
        true => Data::Numbers(numbers),
        false => Data::Texts(values.iter().map(ToString::to_string).collect()),
    }
}
