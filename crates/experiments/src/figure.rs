//! Figures of a plan, drawn from the summary.

use figures::{Axis, Bars, Chart, ErrorBar, Layer, NamedBar, Picture, Sheet, percent, short};

use crate::{
    figure_plan::{FigurePlan, Kind, Panel, Spacing, Unit},
    plan::Plan,
    point::{Point, Setting},
    row::Row,
    summary::{Cell, Summary},
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
    /// The figure as SVG.
    pub fn draw(&self, plan: &Plan, summary: &Summary, rows: &[Row]) -> String {
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
            .map(|panel| (panel.heading.as_str(), panel.picture(&series, plan, summary, rows)))
            .collect();
        let panels: Vec<(&str, &dyn Picture)> =
            pictures.iter().map(|(heading, picture)| (*heading, picture.as_ref())).collect();
        let lines = self.panels.iter().any(|panel| panel.kind != Kind::Bars);
        let key: Vec<&str> =
            names.iter().map(|name| if lines && wanted(name) { *name } else { "" }).collect();
        let own: Vec<&str> = self.key.iter().map(String::as_str).collect();
        let key = if own.is_empty() { key } else { own };
        let about = self.about(plan);
        let mut notes: Vec<&str> = vec![&about];
        notes.extend(plan.notes.iter().map(String::as_str));
        Sheet { title: &self.title, notes: &notes, panels: &panels, key: &key }.svg()
    }

    /// How much was simulated, for people.
    fn about(&self, plan: &Plan) -> String {
        let (scale, seeds) = (plan.scale.name(), plan.seeds);
        if plan.schemes.is_empty() {
            return "Worked out, not simulated.".to_owned();
        }
        if self.panels.iter().all(|panel| panel.kind == Kind::Timeline) {
            return format!("{scale} scale, the run of the first seed.");
        }
        let seeds_of = if seeds == 1 { "seed" } else { "seeds" };
        format!(
            "{scale} scale, {seeds} {seeds_of}; bars are 95 % confidence intervals of the mean over seeds."
        )
    }
}

impl Panel {
    /// The points of the panel, in the order of the sweep.
    fn points(&self, plan: &Plan) -> Vec<Point> {
        let fits = |point: &Point| self.at.iter().all(|(axis, value)| point.get(axis) == Some(value));
        Point::all(&plan.axes).into_iter().filter(fits).collect()
    }

    fn picture<'a>(
        &'a self,
        series: &[(usize, &'a str)],
        plan: &Plan,
        summary: &Summary,
        rows: &[Row],
    ) -> Box<dyn Picture + 'a> {
        let points = self.points(plan);
        match self.kind {
            Kind::Lines => Box::new(self.lines(series, &points, summary)),
            Kind::Cdf => Box::new(self.cdf(series, &points, rows)),
            Kind::Bars => Box::new(self.bars(series, &points, summary)),
            Kind::Timeline => Box::new(self.timeline(&points, rows)),
        }
    }

    fn lines(&self, series: &[(usize, &str)], points: &[Point], summary: &Summary) -> Chart<'_> {
        let mut layers = Vec::new();
        let (mut xs, mut ys, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for &(series, name) in series {
            let cell = |point: &Point| {
                let Some(Setting::Number(x)) = point.get(&self.x) else { return None };
                Some((*x, summary.find(name, &self.metric, &point.values)?))
            };
            let cells: Vec<(f64, &Cell)> = points.iter().filter_map(cell).collect();
            let line: Vec<(f64, f64)> = cells.iter().map(|(x, cell)| (*x, cell.mean)).collect();
            xs.extend(line.iter().map(|point| point.0));
            ys.extend(line.iter().map(|point| point.1));
            let bar = |(x, cell): &(f64, &Cell)| {
                let half = cell.ci95?;
                Some(ErrorBar { x: *x, y: cell.mean, low: cell.mean - half, high: cell.mean + half })
            };
            let bars: Vec<ErrorBar> = cells.iter().filter_map(bar).collect();
            ends.extend(bars.iter().map(|bar| bar.high));
            layers.push(Layer::ErrorBars { series, bars });
            layers.push(Layer::Line { series, points: line });
        }
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

    fn cdf(&self, series: &[(usize, &str)], points: &[Point], rows: &[Row]) -> Chart<'_> {
        let mut layers = Vec::new();
        let mut xs = Vec::new();
        for &(series, name) in series {
            let of = |row: &&Row| row.scheme == name && points.iter().any(|point| point.values == row.point);
            let curves: Vec<&Vec<(f64, f64)>> = rows.iter().filter(of).map(|row| &row.distribution).collect();
            let Some(first) = curves.first() else { continue };
            let mean = |place: usize| {
                let at = curves.iter().filter_map(|curve| curve.get(place)).map(|point| point.0);
                at.sum::<f64>() / curves.iter().filter(|curve| curve.len() > place).count().max(1) as f64
            };
            let line: Vec<(f64, f64)> =
                first.iter().enumerate().map(|(place, point)| (mean(place), point.1)).collect();
            xs.extend(line.iter().map(|point| point.0));
            layers.push(Layer::Line { series, points: line });
        }
        Chart {
            label: &self.heading,
            x: self.x_axis(&xs, Origin::Zero, Unit::Number),
            y: Axis::new("flows (%)", 0.0, 1.0).labelled(percent),
            layers,
        }
    }

    fn timeline(&self, points: &[Point], rows: &[Row]) -> Chart<'_> {
        let is_drawn = |row: &&Row| {
            row.scheme == self.scheme
                && !row.timeline.is_empty()
                && points.iter().any(|point| point.values == row.point)
        };
        let samples = rows.iter().find(is_drawn).map_or(&[][..], |row| &row.timeline);
        let connections = samples.iter().map(|(_, connection, _)| connection + 1).max().unwrap_or(0);
        let line = |connection: u32| {
            let own = samples.iter().filter(|(_, of, _)| *of == connection);
            Layer::Line {
                series: connection as usize,
                points: own.map(|(seconds, _, window)| (*seconds, f64::from(*window))).collect(),
            }
        };
        let xs: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
        let ys: Vec<f64> = samples.iter().map(|sample| f64::from(sample.2)).collect();
        Chart {
            label: &self.heading,
            x: self.x_axis(&xs, Origin::Zero, Unit::Number),
            y: self.y_axis(&ys, Unit::Number),
            layers: (0..connections).map(line).collect(),
        }
    }

    fn bars<'a>(&'a self, series: &[(usize, &'a str)], points: &[Point], summary: &Summary) -> Bars<'a> {
        let value = |&(series, name): &(usize, &'a str)| {
            let cell = summary.find(name, &self.metric, &points.first()?.values)?;
            let between = cell.ci95.map(|half| (cell.mean - half, cell.mean + half));
            Some(NamedBar { name, series, value: cell.mean, between })
        };
        let bars: Vec<_> = series.iter().filter_map(value).collect();
        let ends = bars.iter().map(|bar| bar.between.map_or(bar.value, |(_, high)| high));
        let most = ends.fold(0.0, f64::max).max(1e-9) * 1.05;
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
    let linear_room = |from: f64| (most - from).abs().max(1e-9) * 0.05;
    match (spacing, origin) {
        (Spacing::Logarithmic, Origin::Zero) => (least / 1.25, most * 1.25),
        (Spacing::Logarithmic, Origin::Least) => (least / 1.05, most * 1.05),
        (Spacing::Linear, Origin::Zero) => {
            let from = least.min(0.0);
            (from, most + linear_room(from))
        }
        (Spacing::Linear, Origin::Least) => (least - linear_room(least), most + linear_room(least)),
    }
}
