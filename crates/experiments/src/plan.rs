//! A plan: what is simulated, over what, how often, and what is shown of it.

use std::path::{Path, PathBuf};

use netsim::TraceHash;
use plans::{Keys, PlanError, Scale, names, number};
use thiserror::Error;
use toml::{Table, Value};

use crate::{
    columns::RESERVED,
    figure_plan::{Drawable, FigurePlan},
    inputs,
    metrics::{COUNTS, Class, MetricUse},
    models::ModelPlan,
    outcome::Outcome,
    parts::Parts,
    point::{Point, SweepAxis},
    run::Scenario,
    sketch::Sketch,
    texts,
};

/// A plan that cannot be used.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{}{}: {error}", file.display(), line.map_or_else(String::new, |line| format!(":{line}")))]
pub struct PlanFileError {
    /// The file.
    pub file: PathBuf,
    /// The line of the key, or of the nearest table around it.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub error: PlanError,
}

/// A scheme of a plan.
#[derive(Clone, Debug)]
pub struct SchemeEntry {
    /// How figures call it.
    pub name: String,
    pub(crate) table: Table,
}

impl SchemeEntry {
    /// Whether it counts, at a point, what the metric is worked out from. What stands in the background is
    /// plain TCP, which does.
    pub(crate) fn counts(&self, point: &Point, metric: &MetricUse) -> bool {
        let table = point.fill(&self.table, &mut Vec::new()).unwrap_or_default();
        let kind = table.get("kind").and_then(Value::as_str).unwrap_or_default();
        metric.class.is_none() || crate::schemes::counts(kind, metric.metric.name)
    }
}

/// A plan at one scale, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of its folder, or of its file if that is not `plan.toml`.
    pub name: String,
    /// Where it was read from.
    pub file: PathBuf,
    /// What it shows.
    pub title: String,
    /// Which statements of the papers it is about.
    pub claims: Vec<String>,
    /// Lines below every figure: which inputs are assumed.
    pub notes: Vec<String>,
    /// How much is run.
    pub scale: Scale,
    /// Seeds of every point and scheme, from 1 on.
    pub seeds: u32,
    /// As many as the plan itself says.
    pub own_seeds: u32,
    /// What is varied.
    pub axes: Vec<SweepAxis>,
    /// What is compared; nothing if all is worked out.
    pub schemes: Vec<SchemeEntry>,
    /// What is measured.
    pub metrics: Vec<MetricUse>,
    /// Whether completion times are kept as distributions.
    pub distributions: bool,
    /// The scheme that the others are compared with, seed by seed: the first, unless the plan names
    /// one. Empty if there is none.
    pub reference: String,
    /// The smallest number of flows, of all seeds together, behind a 99th percentile; other
    /// percentiles in proportion. `None` for [`MetricUse::least_samples`]'s own rule.
    pub min_samples: Option<u64>,
    /// Counts of which distributions are kept ([`COUNTS`](crate::COUNTS)).
    pub counts: Vec<String>,
    /// Whether windows are looked at over time.
    pub samples: bool,
    /// Whether single flows are followed.
    pub follows: bool,
    /// Curves that are worked out instead of simulated.
    pub models: Vec<ModelPlan>,
    /// What is drawn.
    pub figures: Vec<FigurePlan>,
    /// Of everything that rows depend on, but the number of seeds.
    pub hash: u64,
    body: Table,
    pub(crate) parts: Parts,
}

/// Keys that change what is shown, not what is simulated.
const SHOWN: [&str; 10] =
    ["title", "claims", "notes", "figure", "scale", "seeds", "model", "paper", "reference", "min_samples"];

impl Plan {
    /// The hash as rows and files have it: 16 hexadecimal digits.
    pub fn hash_text(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Reads `file` for a scale.
    ///
    /// # Errors
    /// With the file, the line, the key and what is allowed there. A file that cannot be opened is
    /// one too.
    pub fn load(file: &Path, scale: Scale) -> Result<Self, PlanFileError> {
        Self::load_with(file, scale, Parts::default())
    }

    /// The same of a plan that names `parts`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(file: &Path, scale: Scale, parts: Parts) -> Result<Self, PlanFileError> {
        let wrap = |line, error| PlanFileError { file: file.to_owned(), line, error };
        let text = inputs::read_file(file)
            .map_err(|error| wrap(None, PlanError::Syntax { message: format!("cannot be read: {error}") }))?;
        let name = name_of(file);
        let around = file.parent().unwrap_or(Path::new(""));
        // A slip in what another scale says should not show only when that is run, hours from here.
        for (_, other) in Scale::ALL.into_iter().filter(|(_, other)| *other != scale) {
            let read = Self::parse_in(around, &name, &text, (other, parts.clone()));
            read.map_err(|error| wrap(line_of(&text, other, &error), error))?;
        }
        let parsed = Self::parse_in(around, &name, &text, (scale, parts));
        let mut plan = parsed.map_err(|error| wrap(line_of(&text, scale, &error), error))?;
        plan.file = file.to_owned();
        Ok(plan)
    }

    /// Reads the text of a plan called `name`. Files that it names are looked for in the current
    /// folder.
    ///
    /// # Errors
    /// With the key and what is allowed there.
    pub fn parse(name: &str, text: &str, scale: Scale) -> Result<Self, PlanError> {
        Self::parse_with(name, text, scale, Parts::default())
    }

    /// The same of a plan that names `parts`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(name: &str, text: &str, scale: Scale, parts: Parts) -> Result<Self, PlanError> {
        Self::parse_in(Path::new(""), name, text, (scale, parts))
    }

    /// The plan at its scale as a text that [`parse`](Self::parse) reads, with what stands in the
    /// files that it names: for machines that do not have them.
    pub fn text(&self) -> String {
        // What was read from TOML can be written.
        toml::to_string(&self.body).unwrap_or_default()
    }

    fn parse_in(
        folder: &Path,
        name: &str,
        text: &str,
        scale_and_parts: (Scale, Parts),
    ) -> Result<Self, PlanError> {
        let plan = Self::read_in(folder, name, text, scale_and_parts)?;
        plan.check_scenarios()?;
        Ok(plan)
    }

    /// All but what only its runs would show.
    fn read_in(
        folder: &Path,
        name: &str,
        text: &str,
        (scale, parts): (Scale, Parts),
    ) -> Result<Self, PlanError> {
        let mut body = plans::table(text)?;
        texts::check(&body)?;
        apply_scale(&mut body, scale)?;
        inputs::inline(&mut body, folder)?;
        let hash = hash(&body, &parts);
        let mut plan = Self {
            name: name.to_owned(),
            file: PathBuf::from(name),
            title: String::new(),
            claims: Vec::new(),
            notes: Vec::new(),
            scale,
            seeds: 1,
            own_seeds: 1,
            axes: Vec::new(),
            schemes: Vec::new(),
            metrics: Vec::new(),
            distributions: false,
            reference: String::new(),
            min_samples: None,
            counts: Vec::new(),
            samples: false,
            follows: false,
            models: Vec::new(),
            figures: Vec::new(),
            hash,
            body: Table::new(),
            parts,
        };
        plan.read(&body)?;
        plan.body = body;
        Ok(plan)
    }

    fn read(&mut self, body: &Table) -> Result<(), PlanError> {
        let mut keys = Keys::new(body, "");
        self.title = keys.need_text("title", "what the plan shows")?.to_owned();
        self.claims = keys.texts("claims")?;
        self.notes = keys.texts("notes")?;
        keys.text("paper")?;
        self.own_seeds = keys.count("seeds", 1..=10_000)?.unwrap_or(3);
        self.seeds = self.own_seeds;
        let cases = keys.table("cases")?.everything();
        self.axes = SweepAxis::read_all(keys.table("sweep")?.everything(), cases)?;
        self.schemes = schemes(keys.tables("scheme")?)?;
        let classes = classes(keys.table("classes")?.everything())?;
        let metrics = keys.texts("metrics")?;
        let parse = |name: &String| MetricUse::parse(name, "metrics", &classes);
        self.metrics = metrics.iter().map(parse).collect::<Result<_, _>>()?;
        keys.need("metrics", (!self.metrics.is_empty()).then_some(()), "what is measured")?;
        self.check_columns()?;
        self.reference = reference(&mut keys, &self.schemes)?;
        self.min_samples = keys.int("min_samples", 1..=1 << 40)?;
        self.distributions = keys.flag("distributions")?.unwrap_or(false);
        self.counts = counts(&mut keys)?;
        self.samples = keys.value("sample_ms").is_some();
        self.follows = keys.value("follow").is_some();
        self.models = ModelPlan::read_all(keys.tables("model")?, &self.metrics)?;
        if self.schemes.is_empty() && self.models.is_empty() {
            let wanted = "at least one `[[scheme]]`, or a `[[model]]` that is worked out".into();
            return Err(PlanError::Missing { key: "scheme".into(), wanted });
        }
        let drawable = Drawable {
            title: &self.title,
            schemes: self.schemes.iter().map(|scheme| scheme.name.as_str()).collect(),
            metrics: &self.metrics,
            axes: &self.axes,
            distributions: self.distributions,
            counts: &self.counts,
            samples: self.samples,
            follows: self.follows,
        };
        self.figures = FigurePlan::read_all(keys.tables("figure")?, &drawable)?;
        for part in Scenario::KEYS {
            keys.value(part);
        }
        keys.finish()
    }

    /// In tables, axes and metrics are columns among others.
    fn check_columns(&self) -> Result<(), PlanError> {
        let mut metrics: Vec<&str> = Vec::new();
        for metric in &self.metrics {
            if metrics.contains(&metric.name.as_str()) {
                return Err(PlanError::value(
                    "metrics",
                    format!("`{}` twice", metric.name),
                    "different names",
                ));
            }
            metrics.push(&metric.name);
        }
        let is_taken = |axis: &&SweepAxis| {
            RESERVED.contains(&axis.name.as_str()) || metrics.contains(&axis.name.as_str())
        };
        self.axes.iter().find(is_taken).map_or(Ok(()), |axis| {
            let found = "the name of another column of tables";
            Err(PlanError::value(format!("sweep.{}", axis.name), found, "called something else"))
        })
    }

    /// Builds every scenario once, so that a plan fails before its runs and not in their midst.
    fn check_scenarios(&self) -> Result<(), PlanError> {
        let mut used = Vec::new();
        for point in Point::all(&self.axes) {
            for scheme in 0..self.schemes.len() {
                self.scenario(&point, scheme, &mut used)?;
            }
            // An axis that only models depend on would repeat the same runs.
            let mut of_models = Vec::new();
            for model in &self.models {
                model.value_noting(&point, &mut of_models)?;
            }
            if self.schemes.is_empty() {
                used.append(&mut of_models);
            }
        }
        let unused = self.axes.iter().find(|axis| !used.contains(&axis.name));
        unused.map_or(Ok(()), |axis| {
            let allowed = format!("used somewhere in the plan as \"${}\"", axis.name);
            Err(PlanError::value(format!("sweep.{}", axis.name), "not used", allowed))
        })
    }

    /// The completion times of every class that a percentile is asked of.
    pub(crate) fn times(&self, outcome: &Outcome) -> Vec<(String, Sketch)> {
        let mut times: Vec<(String, Sketch)> = Vec::new();
        for metric in self.metrics.iter().filter(|metric| metric.quantile().is_some()) {
            if times.iter().all(|(class, _)| class != metric.class_name()) {
                times.push((metric.class_name().to_owned(), metric.times(outcome)));
            }
        }
        times
    }

    /// How many flows had which of the counts that the plan asks for.
    pub(crate) fn counts(&self, outcome: &Outcome) -> Vec<(String, Vec<(u32, u64)>)> {
        let wanted = COUNTS.iter().filter(|count| self.counts.iter().any(|name| name == count.name));
        wanted.map(|count| (count.name.to_owned(), count.distribution(outcome))).collect()
    }

    /// What is simulated at a point with a scheme.
    pub(crate) fn scenario(
        &self,
        point: &Point,
        scheme: usize,
        used: &mut Vec<String>,
    ) -> Result<Scenario, PlanError> {
        let mut body = Table::new();
        for key in Scenario::KEYS {
            if let Some(value) = self.body.get(key) {
                body.insert(key.to_owned(), value.clone());
            }
        }
        let body = point.fill(&body, used)?;
        let table = point.fill(&self.schemes[scheme].table, used)?;
        Scenario::read(&body, &table, &format!("scheme[{}]", scheme + 1), &self.parts)
    }
}

/// What the plan in a file is called: `plan.toml` as its folder, and any other as the file, for a
/// folder may have several, whose results must not take each other's place.
fn name_of(file: &Path) -> String {
    let folder = || file.parent().and_then(Path::file_name);
    let stem = file.file_stem();
    let name = if stem.is_some_and(|stem| stem == "plan") { folder().or(stem) } else { stem };
    name.map_or("plan".into(), |name| name.to_string_lossy().into_owned())
}

/// The line that an error is about: what the scale says, if it is that which is wrong, or what the
/// plan says.
fn line_of(text: &str, scale: Scale, error: &PlanError) -> Option<usize> {
    let key = error.key()?;
    let of_scale = plans::exact_line_of(text, &format!("scale.{}.{key}", scale.name()));
    of_scale.or_else(|| plans::line_of(text, key))
}

/// Puts what the scale says in the place of what the plan says, key by key.
fn apply_scale(body: &mut Table, scale: Scale) -> Result<(), PlanError> {
    let Some(scales) = body.remove("scale") else { return Ok(()) };
    let known = || names(Scale::ALL.iter().map(|(name, _)| *name));
    let Value::Table(mut scales) = scales else {
        return Err(PlanError::value("scale", "no table", format!("tables {}", known())));
    };
    if let Some(unknown) = scales.keys().find(|key| !Scale::ALL.iter().any(|(name, _)| name == key)) {
        return Err(PlanError::UnknownKey { key: format!("scale.{unknown}"), known: known() });
    }
    match scales.remove(scale.name()) {
        None => Ok(()),
        Some(Value::Table(changes)) => {
            merge(body, changes);
            Ok(())
        }
        Some(other) => Err(PlanError::value(format!("scale.{}", scale.name()), other, "a table")),
    }
}

fn merge(into: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(changes)) => merge(below, changes),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn schemes(tables: Vec<Keys<'_>>) -> Result<Vec<SchemeEntry>, PlanError> {
    let mut schemes: Vec<SchemeEntry> = Vec::new();
    for mut keys in tables {
        let kind = keys.need_text("kind", "a scheme")?;
        let name = keys.text("name")?.unwrap_or(kind).to_owned();
        if schemes.iter().any(|other| other.name == name) {
            return Err(PlanError::value(keys.path("name"), format!("`{name}` again"), "different"));
        }
        let mut table = keys.everything().clone();
        table.remove("name");
        schemes.push(SchemeEntry { name, table });
    }
    Ok(schemes)
}

/// The names of `counts`.
fn counts(keys: &mut Keys<'_>) -> Result<Vec<String>, PlanError> {
    let wanted = keys.texts("counts")?;
    let is_known = |name: &String| COUNTS.iter().any(|count| count.name == name);
    let unknown = wanted.iter().find(|name| !is_known(name));
    unknown.map_or(Ok(wanted.clone()), |name| {
        let known = names(COUNTS.iter().map(|count| count.name));
        Err(PlanError::value("counts", format!("`{name}`"), format!("one of {known}")))
    })
}

/// The scheme that `reference` names, or else the first.
fn reference(keys: &mut Keys<'_>, schemes: &[SchemeEntry]) -> Result<String, PlanError> {
    let known = || names(schemes.iter().map(|scheme| scheme.name.as_str()));
    match keys.text("reference")? {
        None => Ok(schemes.first().map_or(String::new(), |scheme| scheme.name.clone())),
        Some(name) if schemes.iter().any(|scheme| scheme.name == name) => Ok(name.to_owned()),
        Some(name) => {
            let allowed = format!("one of the plan's schemes: {}", known());
            Err(PlanError::value("reference", format!("`{name}`"), allowed))
        }
    }
}

/// Reads `name = [above, at most]` in bytes.
fn classes(table: &Table) -> Result<Vec<Class>, PlanError> {
    let class = |(name, value): (&String, &Value)| {
        let limits = value.as_array().and_then(|list| match list.as_slice() {
            [low, high] => {
                let (low, high) = (number(low)?, number(high)?);
                (low >= 0.0 && high > low).then_some((low as u64, high as u64))
            }
            _ => None,
        });
        let wrong = || PlanError::value(format!("classes.{name}"), value, "[above, at most] in bytes");
        Ok((name.clone(), limits.ok_or_else(wrong)?))
    };
    table.iter().map(class).collect()
}

/// A hash over what rows depend on.
fn hash(body: &Table, parts: &Parts) -> u64 {
    let mut relevant = body.clone();
    for key in SHOWN {
        relevant.remove(key);
    }
    let text = toml::to_string(&relevant).unwrap_or_default();
    let mut hash = TraceHash::new();
    hash.record(text.len() as u64);
    text.bytes().for_each(|byte| hash.record(u64::from(byte)));
    if !parts.is_empty() {
        hash.record(parts.version.len() as u64);
        parts.version.bytes().for_each(|byte| hash.record(u64::from(byte)));
    }
    hash.get()
}
