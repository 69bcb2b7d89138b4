//! What rows say together: mean and confidence interval over the seeds, for every point, scheme and
//! metric.

use plans::PlanError;
use serde::Serialize;

use crate::{
    columns::{Columns, Data},
    plan::Plan,
    point::{Point, Setting},
    row::Row,
};

/// A metric of a scheme at a point.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
}

/// Everything that is said of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// `mendpath-experiment/1`.
    pub schema: &'static str,
    /// The plan's name.
    pub plan: String,
    /// What it shows.
    pub title: String,
    /// Statements of the papers that it is about.
    pub claims: Vec<String>,
    /// Which inputs are assumed.
    pub notes: Vec<String>,
    /// `quick` or `paper`.
    pub scale: &'static str,
    /// Seeds of each point and scheme.
    pub seeds: u32,
    /// Hash of the plan.
    pub plan_hash: String,
    /// The numbers: points in the plan's order, schemes and models within, metrics within.
    pub cells: Vec<Cell>,
}

/// Student's t for a two-sided 95 % interval with 1, 2, ... degrees of freedom; beyond, the normal
/// distribution's.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Half the width of the interval.
fn half_width(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let deviation = (squares / freedom as f64).sqrt();
    let t = T95.get(freedom - 1).copied().unwrap_or(1.96);
    Some(t * deviation / (values.len() as f64).sqrt())
}

impl Summary {
    /// Of the rows of a plan.
    ///
    /// # Errors
    /// If a model cannot be worked out.
    pub fn new(plan: &Plan, rows: &[Row]) -> Result<Self, PlanError> {
        let mut cells = Vec::new();
        for point in Point::all(&plan.axes) {
            let here: Vec<&Row> = rows.iter().filter(|row| row.point == point.values).collect();
            for scheme in &plan.schemes {
                let of_scheme = here.iter().filter(|row| row.scheme == scheme.name);
                let of_scheme: Vec<&Row> = of_scheme.copied().collect();
                for (place, metric) in plan.metrics.iter().enumerate() {
                    let values: Vec<f64> =
                        of_scheme.iter().filter_map(|row| row.metrics.get(place)?.1).collect();
                    cells.extend(cell(&scheme.name, &point, &metric.name, &values));
                }
            }
            for model in &plan.models {
                let value = model.value(&point)?;
                if value.is_finite() {
                    let found = cell(&model.name, &point, &model.metric, &[value]);
                    cells.extend(found.map(|cell| Cell { seeds: 0, ..cell }));
                }
            }
        }
        Ok(Self {
            schema: "mendpath-experiment/1",
            plan: plan.name.clone(),
            title: plan.title.clone(),
            claims: plan.claims.clone(),
            notes: plan.notes.clone(),
            scale: plan.scale.name(),
            seeds: plan.seeds,
            plan_hash: plan.hash_text(),
            cells,
        })
    }

    /// A metric of a scheme at a point.
    pub fn find(&self, scheme: &str, metric: &str, point: &[(String, Setting)]) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.scheme == scheme && cell.metric == metric && cell.point == point)
    }

    /// As a table, one line per cell.
    pub fn columns(&self, plan: &Plan) -> Columns {
        let mut columns = Columns::default();
        for axis in &plan.axes {
            let values = self.cells.iter().filter_map(|cell| {
                cell.point.iter().find(|(name, _)| *name == axis.name).map(|(_, value)| value)
            });
            columns.add(&axis.name, settings(values.collect()));
        }
        let texts =
            |of: fn(&Cell) -> &String| Data::Texts(self.cells.iter().map(|c| of(c).clone()).collect());
        let numbers = |of: fn(&Cell) -> Option<f64>| Data::Numbers(self.cells.iter().map(of).collect());
        columns.add("scheme", texts(|cell| &cell.scheme));
        columns.add("metric", texts(|cell| &cell.metric));
        columns.add("seeds", Data::Whole(self.cells.iter().map(|cell| cell.seeds as i64).collect()));
        columns.add("mean", numbers(|cell| Some(cell.mean)));
        columns.add("ci95", numbers(|cell| cell.ci95));
        columns.add("min", numbers(|cell| Some(cell.min)));
        columns.add("max", numbers(|cell| Some(cell.max)));
        columns
    }
}

fn cell(scheme: &str, point: &Point, metric: &str, values: &[f64]) -> Option<Cell> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| Cell {
        scheme: scheme.to_owned(),
        point: point.values.clone(),
        metric: metric.to_owned(),
        seeds: values.len(),
        mean,
        ci95: half_width(values, mean),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        // Mean 3, standard deviation sqrt(2.5), t(4) = 2.776.
        let half = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0).unwrap();
        assert!((half - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-12, "{half}");
        assert_eq!(half_width(&[1.0], 1.0), None);
        assert_eq!(half_width(&vec![2.0; 100], 2.0), Some(0.0));
    }
}
