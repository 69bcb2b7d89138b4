//! What figures show that no summary has: distributions, windows over time, and single flows. Kept
//! beside the figure, so that it can be drawn again without a run.

use std::collections::BTreeMap;

use crate::{
    columns::{Columns, Data, parse_csv},
    figure_plan::{FigurePlan, Kind, Panel},
    plan::Plan,
    point::Point,
    row::Row,
};

/// A line of a panel.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Which panel of the figure, from 0 on.
    pub panel: usize,
    /// The scheme; of a timeline, the connection's number, and of `acks` the flow's.
    pub series: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

impl FigurePlan {
    /// Whether there is more on it than a summary tells.
    pub fn has_curves(&self) -> bool {
        self.panels.iter().any(|panel| panel.kind == Kind::Cdf || panel.kind.is_of_one_run())
    }

    /// Its curves, from a plan's rows.
    pub fn curves(&self, plan: &Plan, rows: &[Row]) -> Vec<Curve> {
        let of = |(place, panel): (usize, &Panel)| {
            let points = panel.points(plan);
            let here = |row: &&Row| points.iter().any(|point: &Point| point.values == row.point);
            let rows: Vec<&Row> = rows.iter().filter(here).collect();
            let lines = match panel.kind {
                Kind::Cdf => panel.distributions(plan, &rows),
                Kind::Timeline => panel.windows(&rows),
                Kind::Acks => panel.acks(&rows),
                Kind::Lines | Kind::Bars => Vec::new(),
            };
            lines.into_iter().map(move |(series, points)| Curve { panel: place, series, points })
        };
        self.panels.iter().enumerate().flat_map(of).collect()
    }
}

type Lines = Vec<(String, Vec<(f64, f64)>)>;

impl Panel {
    fn distributions(&self, plan: &Plan, rows: &[&Row]) -> Lines {
        let line = |scheme: &String| {
            let own: Vec<&&Row> = rows.iter().filter(|row| row.scheme == *scheme).collect();
            let points = if self.counts.is_empty() { times(&own) } else { steps(&own, &self.counts) };
            (!points.is_empty()).then(|| (scheme.clone(), points))
        };
        plan.schemes.iter().filter_map(|scheme| line(&scheme.name)).collect()
    }

    /// Windows over time of the first seed's run.
    fn windows(&self, rows: &[&Row]) -> Lines {
        let mut lines: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        let row = rows.iter().find(|row| row.scheme == self.scheme && !row.timeline.is_empty());
        for (seconds, connection, window) in row.map_or(&[][..], |row| &row.timeline) {
            lines.entry(*connection).or_default().push((*seconds, f64::from(*window)));
        }
        lines.into_iter().map(|(connection, points)| (connection.to_string(), points)).collect()
    }

    /// How much is acknowledged of the followed flows of the first seed's run.
    fn acks(&self, rows: &[&Row]) -> Lines {
        let row = rows.iter().find(|row| row.scheme == self.scheme && !row.followed.is_empty());
        let points = |acks: &[(f64, u32)]| acks.iter().map(|(ms, acks)| (*ms, f64::from(*acks))).collect();
        let flows = row.map_or(&[][..], |row| &row.followed);
        flows.iter().map(|flow| (flow.flow.to_string(), points(&flow.acks))).collect()
    }
}

/// Completion times at every share: the mean over the seeds.
fn times(rows: &[&&Row]) -> Vec<(f64, f64)> {
    let Some(first) = rows.first() else { return Vec::new() };
    let mean = |place: usize| {
        let at: Vec<f64> = rows.iter().filter_map(|row| row.distribution.get(place)).map(|at| at.0).collect();
        at.iter().sum::<f64>() / at.len().max(1) as f64
    };
    first.distribution.iter().enumerate().map(|(place, point)| (mean(place), point.1)).collect()
}

/// Counts and the share of all flows of all seeds at or below.
fn steps(rows: &[&&Row], name: &str) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (_, counts) in rows.iter().flat_map(|row| &row.counts).filter(|(known, _)| known == name) {
        counts.iter().for_each(|(count, flows)| *sums.entry(*count).or_default() += flows);
    }
    let (all, mut below) = (sums.values().sum::<u64>(), 0);
    let step = |(count, flows): (&u32, &u64)| {
        let from = below;
        below += flows;
        [from, below].map(|flows| (f64::from(*count), flows as f64 / all as f64))
    };
    sums.iter().flat_map(step).collect()
}

/// Curves as a table.
pub(crate) fn table(curves: &[Curve]) -> Columns {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    let mut columns = Columns::default();
    columns.add("panel", Data::Whole(all().map(|(curve, _)| curve.panel as i64 + 1).collect()));
    columns.add("series", Data::Texts(all().map(|(curve, _)| curve.series.clone()).collect()));
    columns.add("x", Data::Numbers(all().map(|(_, point)| Some(point.0)).collect()));
    columns.add("y", Data::Numbers(all().map(|(_, point)| Some(point.1)).collect()));
    columns
}

/// Curves that [`table`] wrote; lines that are none are left out.
pub(crate) fn read(csv: &str) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for fields in parse_csv(csv).into_iter().skip(1) {
        let fields: Vec<&str> = fields.iter().collect();
        let [panel, series, x, y] = fields[..] else { continue };
        let (Ok(panel), Ok(x), Ok(y)) = (panel.parse::<usize>(), x.parse(), y.parse()) else { continue };
        let panel = panel.saturating_sub(1);
        match curves.last_mut() {
            Some(last) if last.panel == panel && last.series == series => last.points.push((x, y)),
            _ => curves.push(Curve { panel, series: series.to_owned(), points: vec![(x, y)] }),
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_as_they_were_written() {
        let curve = |panel, series: &str, points: &[(f64, f64)]| Curve {
            panel,
            series: series.to_owned(),
            points: points.to_vec(),
        };
        let curves = vec![
            curve(0, "TCP, \"old\"", &[(0.1, 0.25), (1.0 / 3.0, 1.0)]),
            curve(0, "FUSO", &[(2.0, 1.0)]),
            curve(1, "FUSO", &[(2.0, 1.0)]),
        ];
        assert_eq!(read(&table(&curves).csv()), curves);
        assert!(read("").is_empty());
    }
}
