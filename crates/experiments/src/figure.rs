//! Figures of a plan, drawn from the summary.

use figures::{Axis, Bars, Blank, Chart, ErrorBar, Layer, NamedBar, Picture, Sheet, percent, short};

use crate::{
    curves::Curve,
    figure_plan::{FigurePlan, Kind, Panel, Spacing, Unit},
    plan::Plan,
    point::{Point, Setting},
    summary::{Cell, Shown, Summary, TooFew},
};

/// Where the range of an axis begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// At 0, if the axis has one.
    Zero,
    /// A little below the least value.
    Least,
}

impl FigurePlan {
    /// The figure as SVG, from the summary and, for distributions and timelines, its
    /// [`curves`](Self::curves).
    pub fn draw(&self, plan: &Plan, summary: &Summary, curves: &[Curve]) -> String {
        let names: Vec<&str> = plan.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
        let models = plan.models.iter().map(|model| model.name.as_str());
        let names = names.into_iter().chain(models).fold(Vec::new(), |mut names: Vec<&str>, name| {
            // A model of two metrics is one series.
            if !names.contains(&name) {
                names.push(name);
            }
            names
        });
        let wanted =
            |name: &&str| self.schemes.is_empty() || self.schemes.iter().any(|scheme| scheme == name);
        let series: Vec<(usize, &str)> =
            names.iter().copied().enumerate().filter(|(_, name)| wanted(name)).collect();
        let pictures: Vec<(&str, Box<dyn Picture + '_>)> = self
            .panels
            .iter()
            .enumerate()
            .map(|(place, panel)| {
                let own: Vec<&Curve> = curves.iter().filter(|curve| curve.panel == place).collect();
                (panel.heading.as_str(), panel.picture(&series, plan, summary, &own))
            })
            .collect();
        let panels: Vec<(&str, &dyn Picture)> =
            pictures.iter().map(|(heading, picture)| (*heading, picture.as_ref())).collect();
        let lines = self.panels.iter().any(|panel| panel.kind != Kind::Bars);
        let key: Vec<&str> =
            names.iter().map(|name| if lines && wanted(name) { *name } else { "" }).collect();
        let own: Vec<&str> = self.key.iter().map(String::as_str).collect();
        let key = if own.is_empty() { key } else { own };
        let (about, few) = (self.about(plan, summary), self.what_is_missing(&series, plan, summary));
        let mut notes: Vec<&str> = vec![&about];
        notes.extend(few.as_deref());
        notes.extend(plan.notes.iter().map(String::as_str));
        Sheet { title: &self.title, notes: &notes, panels: &panels, key: &key }.svg()
    }

    /// That some panels lack percentiles of too few flows; those without any say so themselves.
    fn what_is_missing(&self, series: &[(usize, &str)], plan: &Plan, summary: &Summary) -> Option<String> {
        let in_part = |panel: &&Panel| {
            let points = panel.points(plan);
            panel.cells(series, &points, summary).next().is_some()
        };
        let few = self.panels.iter().filter(in_part).filter_map(|panel| panel.too_few(series, plan, summary));
        let few = few.max_by_key(|few| few.least)?;
        Some(format!("Percentiles of fewer than {} flows are not drawn.", few.least))
    }

    /// How much was simulated, for people.
    fn about(&self, plan: &Plan, summary: &Summary) -> String {
        let (scale, seeds) = (plan.scale.name(), summary.seeds);
        if plan.schemes.is_empty() {
            return "Worked out, not simulated.".to_owned();
        }
        if self.panels.iter().all(|panel| panel.kind.is_of_one_run()) {
            return format!("{scale} scale, the run of the first seed.");
        }
        let seeds_of = if seeds == 1 { "seed" } else { "seeds" };
        if self.panels.iter().all(|panel| panel.kind == Kind::Cdf) {
            return format!("{scale} scale, {seeds} {seeds_of}.");
        }
        let is_pooled = |panel: &Panel| {
            summary.cells.iter().any(|cell| cell.metric == panel.metric && cell.pooled_low.is_some())
        };
        let bars = match self.panels.iter().any(is_pooled) {
            true => "intervals: of means over seeds, and of percentiles of all flows by resampling seeds",
            false => "confidence intervals of the mean over seeds",
        };
        let flows = match self.panels.iter().any(|panel| panel.kind == Kind::Acks) {
            true => " Single flows are of the first seed's run.",
            false => "",
        };
        format!("{scale} scale, {seeds} {seeds_of}; bars are 95 % {bars}.{flows}")
    }
}

impl Panel {
    /// The points of the panel, in the order of the sweep.
    pub(crate) fn points(&self, plan: &Plan) -> Vec<Point> {
        let fits = |point: &Point| self.at.iter().all(|(axis, value)| point.get(axis) == Some(value));
        Point::all(&plan.axes).into_iter().filter(fits).collect()
    }

    fn picture<'a>(
        &'a self,
        series: &[(usize, &'a str)],
        plan: &Plan,
        summary: &Summary,
        curves: &[&Curve],
    ) -> Box<dyn Picture + 'a> {
        let points = self.points(plan);
        let has_cells = matches!(self.kind, Kind::Lines | Kind::Bars);
        if has_cells && self.cells(series, &points, summary).next().is_none() {
            return Box::new(self.blank(self.too_few(series, plan, summary)));
        }
        match self.kind {
            Kind::Lines => Box::new(self.lines(series, &points, summary)),
            Kind::Cdf => Box::new(self.cdf(series, curves)),
            Kind::Bars => Box::new(self.bars(series, &points, summary)),
            Kind::Timeline => {
                let of: Vec<_> =
                    (0..).zip(curves).map(|(series, curve)| (series, curve.points.clone())).collect();
                Box::new(self.over_time(of))
            }
            Kind::Acks => {
                let series = plan.schemes.iter().position(|scheme| scheme.name == self.scheme).unwrap_or(0);
                Box::new(self.over_time(curves.iter().map(|curve| (series, steps(&curve.points))).collect()))
            }
        }
    }

    /// What lines and bars show.
    fn cells<'a>(
        &'a self,
        series: &'a [(usize, &'a str)],
        points: &'a [Point],
        summary: &'a Summary,
    ) -> impl Iterator<Item = &'a Cell> {
        let of = move |point: &'a Point, name| summary.find(name, &self.metric, &point.values);
        points.iter().flat_map(move |point| series.iter().filter_map(move |(_, name)| of(point, name)))
    }

    /// The largest of the percentiles that it does not show, as too few flows are behind them.
    fn too_few<'a>(&self, series: &[(usize, &str)], plan: &Plan, summary: &'a Summary) -> Option<&'a TooFew> {
        let of = |point: &Point, name| summary.find_too_few(name, &self.metric, &point.values);
        let points = self.points(plan);
        let all = points.iter().flat_map(|point| series.iter().filter_map(move |(_, name)| of(point, name)));
        all.max_by_key(|few| few.samples)
    }

    /// Why there is nothing to draw.
    fn blank(&self, few: Option<&TooFew>) -> Blank<'_> {
        let words = few.map_or(vec!["nothing to show".to_owned()], |few| {
            let (samples, least) = (few.samples, few.least);
            vec!["too few flows".to_owned(), format!("at most {samples} of the {least} that are needed")]
        });
        Blank { label: &self.heading, words }
    }

    fn lines(&self, series: &[(usize, &str)], points: &[Point], summary: &Summary) -> Chart<'_> {
        let mut layers = Vec::new();
        let (mut ys, mut ends) = (Vec::new(), Vec::new());
        for &(series, name) in series {
            let cell = |point: &Point| {
                let Some(Setting::Number(x)) = point.get(&self.x) else { return None };
                Some((*x, summary.find(name, &self.metric, &point.values)?))
            };
            let cells: Vec<(f64, &Cell)> = points.iter().filter_map(cell).collect();
            let line: Vec<(f64, f64)> = cells.iter().map(|(x, cell)| (*x, cell.shown().value)).collect();
            ys.extend(line.iter().map(|point| point.1));
            let bar = |(x, cell): &(f64, &Cell)| {
                let (low, high) = cell.shown().between?;
                Some(ErrorBar { x: *x, y: cell.shown().value, low, high })
            };
            let bars: Vec<ErrorBar> = cells.iter().filter_map(bar).collect();
            ends.extend(bars.iter().map(|bar| bar.high));
            layers.push(Layer::ErrorBars { series, bars });
            layers.push(match line.len() {
                1 => Layer::Dots { series, points: line },
                _ => Layer::Line { series, points: line },
            });
        }
        // The whole sweep, also where nothing is known of some of its points.
        let x = |point: &Point| match point.get(&self.x) {
            Some(Setting::Number(x)) => Some(*x),
            _ => None,
        };
        let xs: Vec<f64> = points.iter().filter_map(x).collect();
        // Intervals are shown whole unless they would press the values together.
        let most = ys.iter().copied().fold(0.0, f64::max) * INTERVAL_ROOM;
        ys.extend(ends.into_iter().map(|end| end.min(most)));
        Chart {
            label: &self.heading,
            x: self.x_axis(&xs, Origin::Least, self.x_unit),
            y: self.y_axis(&ys, self.y_unit).with_area(62),
            layers,
        }
    }

    fn cdf(&self, series: &[(usize, &str)], curves: &[&Curve]) -> Chart<'_> {
        let wanted = |curve: &&&Curve| series.iter().any(|(_, name)| *name == curve.series);
        let place = |curve: &Curve| series.iter().find(|(_, name)| *name == curve.series).map_or(0, |s| s.0);
        let line = |curve: &&Curve| Layer::Line { series: place(curve), points: curve.points.clone() };
        let drawn: Vec<&&Curve> = curves.iter().filter(wanted).collect();
        let xs: Vec<f64> = drawn.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        Chart {
            label: &self.heading,
            x: self.x_axis(&xs, Origin::Zero, Unit::Number),
            y: Axis::new("flows (%)", 0.0, 1.0).labelled(percent),
            layers: drawn.into_iter().map(line).collect(),
        }
    }

    /// Lines over time, each with its series.
    fn over_time(&self, lines: Vec<(usize, Vec<(f64, f64)>)>) -> Chart<'_> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let xs: Vec<f64> = points().map(|point| point.0).collect();
        let ys: Vec<f64> = points().map(|point| point.1).collect();
        Chart {
            label: &self.heading,
            x: self.x_axis(&xs, Origin::Zero, Unit::Number),
            y: self.y_axis(&ys, Unit::Number),
            layers: lines.into_iter().map(|(series, points)| Layer::Line { series, points }).collect(),
        }
    }

    fn bars<'a>(&'a self, series: &[(usize, &'a str)], points: &[Point], summary: &Summary) -> Bars<'a> {
        let value = |&(series, name): &(usize, &'a str)| {
            let cell = summary.find(name, &self.metric, &points.first()?.values)?;
            let Shown { value, between } = cell.shown();
            Some(NamedBar { name, series, value, between })
        };
        let bars: Vec<_> = series.iter().filter_map(value).collect();
        let ends = bars.iter().map(|bar| bar.between.map_or(bar.value, |(_, high)| high));
        let most = ends.fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.05 } else { 1.0 };
        let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0) as u32;
        let x = axis(&self.y_title, (0.0, most), Spacing::Linear, self.y_unit);
        Bars { label: &self.heading, x, names: 24 + 8 * longest, bars }
    }

    fn x_axis(&self, values: &[f64], from: Origin, unit: Unit) -> Axis<'_> {
        axis(&self.x_title, range(values, self.x_spacing, from), self.x_spacing, unit)
    }

    fn y_axis(&self, values: &[f64], unit: Unit) -> Axis<'_> {
        axis(&self.y_title, range(values, self.y_spacing, Origin::Zero), self.y_spacing, unit)
    }
}

/// What keeps each value until the next.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let before = points.first().copied().into_iter().chain(points.iter().copied());
    points.iter().zip(before).flat_map(|(now, before)| [(now.0, before.1), *now]).collect()
}

/// How far above the largest value an axis goes to show its interval.
const INTERVAL_ROOM: f64 = 1.4;

fn axis(title: &str, (from, to): (f64, f64), spacing: Spacing, unit: Unit) -> Axis<'_> {
    let label = match unit {
        Unit::Number => short,
        Unit::Percent => percent,
    };
    let axis = Axis::new(title, from, to).labelled(label);
    match spacing {
        Spacing::Linear => axis,
        Spacing::Logarithmic => axis.log().dense(),
    }
}

/// A little more than all values. Logarithmic axes leave out what is not above 0, which is then
/// drawn at the lower edge.
fn range(values: &[f64], spacing: Spacing, origin: Origin) -> (f64, f64) {
    let has_place = |value: &f64| value.is_finite() && (spacing == Spacing::Linear || *value > 0.0);
    let values = values.iter().copied().filter(has_place);
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
    if !least.is_finite() {
        return (0.1, 1.0);
    }
    // Around a single value there is as much room as it takes to write it beside the axis.
    let linear_room = |from: f64| match most - from {
        0.0 if most == 0.0 => 1.0,
        0.0 => most.abs() * 0.5,
        span => span * 0.05,
    };
    match (spacing, origin) {
        (Spacing::Logarithmic, Origin::Zero) => (least / 1.25, most * 1.25),
        (Spacing::Logarithmic, Origin::Least) if least == most => (least / 2.0, most * 2.0),
        (Spacing::Logarithmic, Origin::Least) => (least / 1.05, most * 1.05),
        (Spacing::Linear, Origin::Zero) => {
            let from = least.min(0.0);
            (from, most + linear_room(from))
        }
        (Spacing::Linear, Origin::Least) => (least - linear_room(least), most + linear_room(least)),
    }
}

#[cfg(test)]
mod tests;
