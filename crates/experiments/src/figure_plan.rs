//! What the `[[figure]]` tables of a plan ask for.
//!
//! A figure has panels. `kind = "lines"` draws a metric over an axis, one line per scheme and
//! model, with confidence intervals; `"cdf"` the distribution of completion times at one point;
//! `"bars"` a metric at one point; `"timeline"` the windows of the watched connections of `scheme`
//! over time, in the first seed's run: the plan's `sample_ms` says how often. The figure's `key`
//! names the connections then. `"acks"` shows how much is acknowledged of each flow of `scheme` that
//! the plan's `follow` names, over the time since its start, a line each, in the first seed's run.

use plans::{Keys, PlanError, names, number};

use crate::{
    metrics::{COUNTS, Count, MetricUse},
    point::{Setting, SweepAxis},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Lines,
    Cdf,
    Bars,
    Timeline,
    Acks,
}

impl Kind {
    /// Whether it shows the first seed's run alone.
    pub(crate) const fn is_of_one_run(self) -> bool {
        matches!(self, Self::Timeline | Self::Acks)
    }
}

const KINDS: &[(&str, Kind)] = &[
    ("lines", Kind::Lines),
    ("cdf", Kind::Cdf),
    ("bars", Kind::Bars),
    ("timeline", Kind::Timeline),
    ("acks", Kind::Acks),
];

/// How numbers lie along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spacing {
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
pub(crate) enum Unit {
    Number,
    Percent,
}

impl Unit {
    fn percent_if(is_share: bool) -> Self {
        if is_share { Self::Percent } else { Self::Number }
    }
}

/// What figures of a plan may name, and what it keeps for them.
pub(crate) struct Drawable<'a> {
    pub(crate) title: &'a str,
    pub(crate) schemes: Vec<&'a str>,
    pub(crate) metrics: &'a [MetricUse],
    pub(crate) axes: &'a [SweepAxis],
    /// Whether completion times are kept as distributions.
    pub(crate) distributions: bool,
    /// Counts of which distributions are kept.
    pub(crate) counts: &'a [String],
    /// Whether windows are looked at over time.
    pub(crate) samples: bool,
    /// Whether single flows are followed.
    pub(crate) follows: bool,
}

/// A panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) heading: String,
    pub(crate) kind: Kind,
    pub(crate) metric: String,
    /// The count that a distribution is of; empty for completion times.
    pub(crate) counts: String,
    /// Whose connections a timeline shows, or whose flows `acks` shows.
    pub(crate) scheme: String,
    pub(crate) y_title: String,
    pub(crate) x: String,
    pub(crate) x_title: String,
    pub(crate) x_spacing: Spacing,
    pub(crate) y_spacing: Spacing,
    pub(crate) x_unit: Unit,
    pub(crate) y_unit: Unit,
    /// Values of the axes that are not drawn.
    pub(crate) at: Vec<(String, Setting)>,
}

/// A `[[figure]]` of a plan.
#[derive(Clone, Debug)]
pub struct FigurePlan {
    /// The name of its file, without the ending.
    pub file: String,
    pub(crate) title: String,
    pub(crate) schemes: Vec<String>,
    /// Names of the series, if they are not the schemes.
    pub(crate) key: Vec<String>,
    pub(crate) panels: Vec<Panel>,
}

impl FigurePlan {
    pub(crate) fn read_all(tables: Vec<Keys<'_>>, plan: &Drawable<'_>) -> Result<Vec<Self>, PlanError> {
        let mut figures: Vec<Self> = Vec::new();
        for keys in tables {
            let path = keys.path("file");
            let figure = Self::read(keys, plan)?;
            if figures.iter().any(|other| other.file == figure.file) {
                return Err(PlanError::value(path, format!("`{}` again", figure.file), "different"));
            }
            figures.push(figure);
        }
        Ok(figures)
    }

    fn read(mut keys: Keys<'_>, plan: &Drawable<'_>) -> Result<Self, PlanError> {
        let file = keys.need_text("file", "the name of its file, without `.svg`")?.to_owned();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        // Its curves would take the place of `summary.csv`.
        if file.is_empty() || !file.chars().all(plain) || file == "summary" {
            let allowed = "letters, digits, `-` and `_`, and not `summary`";
            return Err(PlanError::value(keys.path("file"), format!("`{file}`"), allowed));
        }
        let title = keys.text("title")?.unwrap_or(plan.title).to_owned();
        let schemes = keys.texts("schemes")?;
        let key = keys.texts("key")?;
        let panels = keys.tables("panel")?;
        let panels = panels.into_iter().map(|panel| Panel::read(panel, plan)).collect::<Result<_, _>>()?;
        keys.finish()?;
        Ok(Self { file, title, schemes, key, panels })
    }
}

impl Panel {
    fn read(mut keys: Keys<'_>, plan: &Drawable<'_>) -> Result<Self, PlanError> {
        let kind = keys.named("kind", KINDS)?.unwrap_or(Kind::Lines);
        let metric = keys.text("metric")?.unwrap_or("fct_p99_ms").to_owned();
        let known = plan.metrics.iter().find(|known| known.name == metric);
        let scheme = Self::read_scheme(&mut keys, kind, plan)?;
        if matches!(kind, Kind::Lines | Kind::Bars) && known.is_none() {
            let known = names(plan.metrics.iter().map(|metric| metric.name.as_str()));
            let allowed = format!("one of the plan's metrics: {known}");
            return Err(PlanError::value(keys.path("metric"), format!("`{metric}`"), allowed));
        }
        let counts = Self::read_counts(&mut keys, kind, plan)?;
        let x = Self::read_x(&mut keys, kind, plan)?;
        let at = Self::read_at(&mut keys, &x, plan)?;
        let y_title = match kind {
            Kind::Timeline => "window (packets)",
            Kind::Acks => "acknowledged (packets)",
            _ => known.map_or("", |metric| metric.metric.title),
        };
        let is_share = metric.split('@').next().is_some_and(|name| name.ends_with("share"));
        let panel = Self {
            heading: keys.text("heading")?.unwrap_or("").to_owned(),
            kind,
            counts: counts.map_or(String::new(), |count| count.name.to_owned()),
            scheme,
            y_title: keys.text("y_title")?.unwrap_or(y_title).to_owned(),
            x_title: keys
                .text("x_title")?
                .unwrap_or(match kind {
                    Kind::Cdf => counts.map_or("completion time (ms)", |count| count.title),
                    Kind::Timeline => "time (s)",
                    Kind::Acks => "time since the flow's start (ms)",
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
        panel.check_x(&keys, plan)?;
        keys.finish()?;
        Ok(panel)
    }

    /// Where values are drawn that have no place on the axis, they look like others.
    fn check_x(&self, keys: &Keys<'_>, plan: &Drawable<'_>) -> Result<(), PlanError> {
        let has_no_place = |value: &Setting| matches!(value, Setting::Number(x) if *x <= 0.0);
        let axis = plan.axes.iter().find(|axis| axis.name == self.x);
        let outside = axis.and_then(|axis| axis.values.iter().find(|value| has_no_place(value)));
        match outside {
            Some(value) if self.x_spacing == Spacing::Logarithmic => {
                let allowed = format!("false, since {value} of `{}` has no logarithm", self.x);
                Err(PlanError::value(keys.path("x_log"), "true", allowed))
            }
            _ => Ok(()),
        }
    }

    /// The scheme of a timeline or of `acks`, whose plan must note what they show; empty for other
    /// kinds.
    fn read_scheme(keys: &mut Keys<'_>, kind: Kind, plan: &Drawable<'_>) -> Result<String, PlanError> {
        match kind {
            Kind::Timeline if !plan.samples => {
                let allowed = "a time in ms for a figure of kind `timeline`";
                return Err(PlanError::value("sample_ms", "missing", allowed));
            }
            Kind::Acks if !plan.follows => {
                let allowed = "a table for a figure of kind `acks`: which flows are followed";
                return Err(PlanError::value("follow", "missing", allowed));
            }
            Kind::Timeline | Kind::Acks => {}
            Kind::Lines | Kind::Cdf | Kind::Bars => return Ok(String::new()),
        }
        let name = keys.need_text("scheme", "the scheme whose connections are drawn")?;
        if !plan.schemes.contains(&name) {
            let known = names(plan.schemes.iter().copied());
            return Err(PlanError::value(
                keys.path("scheme"),
                format!("`{name}`"),
                format!("one of {known}"),
            ));
        }
        Ok(name.to_owned())
    }

    /// What a distribution is of, `counts` of the plan or completion times: the plan must keep it.
    fn read_counts(
        keys: &mut Keys<'_>,
        kind: Kind,
        plan: &Drawable<'_>,
    ) -> Result<Option<&'static Count>, PlanError> {
        if kind != Kind::Cdf {
            return Ok(None);
        }
        let Some(name) = keys.text("counts")? else {
            let allowed = "true for a figure of kind `cdf`";
            let missing = || PlanError::value("distributions", "false", allowed);
            return if plan.distributions { Ok(None) } else { Err(missing()) };
        };
        let known = COUNTS.iter().find(|count| count.name == name && plan.counts.iter().any(|n| n == name));
        known.map(Some).ok_or_else(|| {
            let allowed =
                format!("one of the plan's `counts`: {}", names(plan.counts.iter().map(String::as_str)));
            PlanError::value(keys.path("counts"), format!("`{name}`"), allowed)
        })
    }

    /// The axis that is drawn; empty if none is.
    fn read_x(keys: &mut Keys<'_>, kind: Kind, plan: &Drawable<'_>) -> Result<String, PlanError> {
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
    fn read_at(
        keys: &mut Keys<'_>,
        x: &str,
        plan: &Drawable<'_>,
    ) -> Result<Vec<(String, Setting)>, PlanError> {
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
}
