//! Figures of a plan: what its `[[figure]]` tables ask for, drawn from the summary.
//!
//! A figure has panels. `kind = "lines"` draws a metric over an axis, one line per scheme and
//! model, with confidence intervals; `"cdf"` the distribution of completion times at one point;
//! `"bars"` a metric at one point; `"timeline"` the windows of the watched connections of `scheme`
//! over time, in the first seed's run: the plan's `sample_ms` says how often. The figure's `key`
//! names the connections then.

use figures::{Axis, Bars, Chart, ErrorBar, Layer, NamedBar, Picture, Sheet, percent, short};
use plans::{Keys, PlanError, names, number};

use crate::{
    plan::Plan,
    point::{Point, Setting, SweepAxis},
    row::Row,
    summary::{Cell, Summary},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Lines,
    Cdf,
    Bars,
    Timeline,
}

const KINDS: &[(&str, Kind)] =
    &[("lines", Kind::Lines), ("cdf", Kind::Cdf), ("bars", Kind::Bars), ("timeline", Kind::Timeline)];

/// How numbers lie along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spacing {
    Linear,
    Logarithmic,
}

impl Spacing {
    /// What a flag of the plan says; linear if it says nothing.
    fn read(keys: &mut Keys<'_>, flag: &'static str) -> Result<Self, PlanError> {
        Ok(if keys.flag(flag)?.unwrap_or(false) { Self::Logarithmic } else { Self::Linear })
    }
}

/// What is written beside an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Number,
    Percent,
}

impl Unit {
    fn percent_if(is_share: bool) -> Self {
        if is_share { Self::Percent } else { Self::Number }
    }
}

/// Where the range of an axis begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// At 0, if the axis has one.
    Zero,
    /// A little below the least value.
    Least,
}

/// A panel.
#[derive(Clone, Debug)]
struct Panel {
    heading: String,
    kind: Kind,
    metric: String,
    /// Whose connections a timeline shows.
    scheme: String,
    y_title: String,
    x: String,
    x_title: String,
    x_spacing: Spacing,
    y_spacing: Spacing,
    x_unit: Unit,
    y_unit: Unit,
    /// Values of the axes that are not drawn.
    at: Vec<(String, Setting)>,
}

/// A `[[figure]]` of a plan.
#[derive(Clone, Debug)]
pub struct FigurePlan {
    /// The name of its file, without the ending.
    pub file: String,
    title: String,
    schemes: Vec<String>,
    /// Names of the series, if they are not the schemes.
    key: Vec<String>,
    panels: Vec<Panel>,
}

impl FigurePlan {
    pub(crate) fn read_all(tables: Vec<Keys<'_>>, plan: &Plan) -> Result<Vec<Self>, PlanError> {
        tables.into_iter().map(|keys| Self::read(keys, plan)).collect()
    }

    fn read(mut keys: Keys<'_>, plan: &Plan) -> Result<Self, PlanError> {
        let file = keys.need_text("file", "the name of its file, without `.svg`")?.to_owned();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if file.is_empty() || !file.chars().all(plain) {
            let allowed = "letters, digits, `-` and `_`";
            return Err(PlanError::value(keys.path("file"), format!("`{file}`"), allowed));
        }
        let title = keys.text("title")?.unwrap_or(&plan.title).to_owned();
        let schemes = keys.texts("schemes")?;
        let key = keys.texts("key")?;
        let panels = keys.tables("panel")?;
        let panels = panels.into_iter().map(|panel| Panel::read(panel, plan)).collect::<Result<_, _>>()?;
        keys.finish()?;
        Ok(Self { file, title, schemes, key, panels })
    }

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
    fn read(mut keys: Keys<'_>, plan: &Plan) -> Result<Self, PlanError> {
        let kind = keys.named("kind", KINDS)?.unwrap_or(Kind::Lines);
        let metric = keys.text("metric")?.unwrap_or("fct_p99_ms").to_owned();
        let known = plan.metrics.iter().find(|known| known.name == metric);
        let scheme = Self::read_scheme(&mut keys, kind, plan)?;
        if matches!(kind, Kind::Lines | Kind::Bars) && known.is_none() {
            let known = names(plan.metrics.iter().map(|metric| metric.name.as_str()));
            let allowed = format!("one of the plan's metrics: {known}");
            return Err(PlanError::value(keys.path("metric"), format!("`{metric}`"), allowed));
        }
        if kind == Kind::Cdf && !plan.distributions {
            return Err(PlanError::value("distributions", "false", "true for a figure of kind `cdf`"));
        }
        let x = Self::read_x(&mut keys, kind, plan)?;
        let at = Self::read_at(&mut keys, &x, plan)?;
        let y_title = match kind {
            Kind::Timeline => "window (packets)",
            _ => known.map_or("", |metric| metric.metric.title),
        };
        let is_share = metric.split('@').next().is_some_and(|name| name.ends_with("share"));
        let panel = Self {
            heading: keys.text("heading")?.unwrap_or("").to_owned(),
            kind,
            scheme,
            y_title: keys.text("y_title")?.unwrap_or(y_title).to_owned(),
            x_title: keys
                .text("x_title")?
                .unwrap_or(match kind {
                    Kind::Cdf => "completion time (ms)",
                    Kind::Timeline => "time (s)",
                    Kind::Lines | Kind::Bars => &x,
                })
                .to_owned(),
            x_spacing: Spacing::read(&mut keys, "x_log")?,
            y_spacing: Spacing::read(&mut keys, "y_log")?,
            x_unit: Unit::percent_if(keys.flag("x_percent")?.unwrap_or(false)),
            y_unit: Unit::percent_if(is_share),
            metric,
            x,
            at,
        };
        keys.finish()?;
        Ok(panel)
    }

    /// The scheme of a timeline, which the plan must sample; empty for other kinds.
    fn read_scheme(keys: &mut Keys<'_>, kind: Kind, plan: &Plan) -> Result<String, PlanError> {
        if kind != Kind::Timeline {
            return Ok(String::new());
        }
        if !plan.samples {
            let allowed = "a time in ms for a figure of kind `timeline`";
            return Err(PlanError::value("sample_ms", "missing", allowed));
        }
        let name = keys.need_text("scheme", "the scheme whose connections are drawn")?;
        if !plan.schemes.iter().any(|scheme| scheme.name == name) {
            let known = names(plan.schemes.iter().map(|scheme| scheme.name.as_str()));
            return Err(PlanError::value(
                keys.path("scheme"),
                format!("`{name}`"),
                format!("one of {known}"),
            ));
        }
        Ok(name.to_owned())
    }

    /// The axis that is drawn; empty if none is.
    fn read_x(keys: &mut Keys<'_>, kind: Kind, plan: &Plan) -> Result<String, PlanError> {
        if kind != Kind::Lines {
            return Ok(String::new());
        }
        let first = plan.axes.first().map(|axis| axis.name.as_str());
        let x = keys.text("x")?.or(first);
        let x = keys.need("x", x, "an axis of `sweep`")?;
        let numbers = |axis: &&SweepAxis| axis.values.iter().all(|value| matches!(value, Setting::Number(_)));
        if !plan.axes.iter().filter(numbers).any(|axis| axis.name == x) {
            let known = names(plan.axes.iter().filter(numbers).map(|axis| axis.name.as_str()));
            let allowed = format!("an axis of numbers of `sweep`: {known}");
            return Err(PlanError::value(keys.path("x"), format!("`{x}`"), allowed));
        }
        Ok(x.to_owned())
    }

    /// Every axis that is not drawn must be told a value, unless it has only one.
    fn read_at(keys: &mut Keys<'_>, x: &str, plan: &Plan) -> Result<Vec<(String, Setting)>, PlanError> {
        let table = keys.table("at")?;
        let given = table.everything();
        let mut at = Vec::new();
        for axis in plan.axes.iter().filter(|axis| axis.name != x) {
            let known = || {
                names(
                    axis.values
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .iter()
                        .map(String::as_str),
                )
            };
            let path = table.path(&axis.name);
            let value = match given.get(&axis.name) {
                None if axis.values.len() == 1 => &axis.values[0],
                None => return Err(PlanError::Missing { key: path, wanted: format!("one of {}", known()) }),
                Some(value) => {
                    let text = value.as_str().map(str::to_owned);
                    let wanted = text.map(Setting::Text).or(number(value).map(Setting::Number));
                    let found = axis.values.iter().find(|known| Some(*known) == wanted.as_ref());
                    found.ok_or_else(|| PlanError::value(path, value, format!("one of {}", known())))?
                }
            };
            at.push((axis.name.clone(), value.clone()));
        }
        let unknown = given.keys().find(|key| !plan.axes.iter().any(|axis| axis.name == **key));
        unknown.map_or(Ok(at), |key| {
            let known = names(plan.axes.iter().map(|axis| axis.name.as_str()));
            Err(PlanError::UnknownKey { key: table.path(key), known })
        })
    }

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
