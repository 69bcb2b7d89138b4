//! The page of all claims: what the papers say, what the plans' committed summaries say, under which
//! reading, and the verdict. Every number on it is looked up, none is typed: a test compares the
//! page with the data.
//!
//! `plans/claims.toml` has `intro`, the words that verdicts may begin with (`verdicts`), and one
//! `[[claim]]` each: `id`, `chapter`, `paper`, `reading`, `verdict`, `because`, `plans`, and
//! `[[claim.value]]` tables. A value names a cell of a summary: `plan`, `scale` (quick), `scheme`,
//! `metric`, `at` (axes that are left out may have any value: then the range is shown), and what is
//! shown of it, `show`.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use plans::{Keys, PlanError, Scale, names};
use toml::Table;

use crate::{
    plan::Plan,
    point::Setting,
    readme::digits,
    summary::{Cell, Shown, Summary, committed_summary},
};

/// The page, from `claims.toml` and the summaries in the folder of plans.
///
/// # Errors
/// If the file is wrong, or names what no summary has.
pub fn claims_page(plans: &Path) -> Result<String, PlanError> {
    let file = plans.join("claims.toml");
    let unread = |error| PlanError::Syntax { message: format!("{} cannot be read: {error}", file.display()) };
    let table = plans::table(&std::fs::read_to_string(&file).map_err(unread)?)?;
    let mut keys = Keys::new(&table, "");
    let intro = keys.need_text("intro", "what the page begins with")?.to_owned();
    let verdicts = keys.texts("verdicts")?;
    let tables = keys.tables("claim")?;
    keys.finish()?;
    let mut summaries = Summaries { folder: plans, known: BTreeMap::new() };
    let read = |claim| Claim::read(claim, &verdicts, &mut summaries);
    let claims: Vec<Claim> = tables.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(page(&intro, &verdicts, &claims))
}

/// Summaries that were read.
struct Summaries<'a> {
    folder: &'a Path,
    known: BTreeMap<(String, &'static str), Summary>,
}

impl Summaries<'_> {
    fn get(&mut self, plan: &str, scale: Scale) -> Result<&Summary, PlanError> {
        let key = (plan.to_owned(), scale.name());
        if !self.known.contains_key(&key) {
            let file = self.folder.join(plan).join("plan.toml");
            let message = |error: &dyn std::fmt::Display| PlanError::Syntax { message: error.to_string() };
            let read = Plan::load(&file, scale).map_err(|error| message(&error))?;
            let csv = file.with_file_name(committed_summary(scale));
            let unread = |error| message(&format!("{} cannot be read: {error}", csv.display()));
            let text = std::fs::read_to_string(&csv).map_err(unread)?;
            self.known.insert(key.clone(), Summary::read_csv(&read, &text)?);
        }
        Ok(&self.known[&key])
    }
}

/// A statement of a paper, and what became of it.
struct Claim {
    id: String,
    chapter: String,
    paper: String,
    values: Vec<String>,
    reading: String,
    verdict: String,
    because: String,
    plans: Vec<String>,
}

impl Claim {
    fn read(
        mut keys: Keys<'_>,
        verdicts: &[String],
        summaries: &mut Summaries<'_>,
    ) -> Result<Self, PlanError> {
        let mut text = |key, wanted| keys.need_text(key, wanted).map(str::to_owned);
        let (id, chapter) = (text("id", "the claim's name")?, text("chapter", "a paper's chapter")?);
        let (paper, reading) = (text("paper", "what it says")?, text("reading", "how we read it")?);
        let (verdict, because) = (text("verdict", "one of `verdicts`")?, text("because", "why")?);
        if !verdicts.contains(&verdict) {
            let known = names(verdicts.iter().map(String::as_str));
            return Err(PlanError::value(keys.path("verdict"), format!("`{verdict}`"), known));
        }
        let plans = keys.texts("plans")?;
        let values = keys.tables("value")?;
        keys.finish()?;
        let values = values.into_iter().map(|value| Value::read(value)?.text(summaries));
        let values = values.collect::<Result<_, _>>()?;
        Ok(Self { id, chapter, paper, values, reading, verdict, because, plans })
    }

    fn row(&self) -> String {
        let link = |plan: &String| format!("[{plan}](../plans/{plan}/README.md)");
        let plans: Vec<String> = self.plans.iter().map(link).collect();
        format!(
            "| {} | {} | {} | {} | **{}** {} | {} |",
            self.id,
            self.paper,
            self.values.join("; "),
            self.reading,
            self.verdict,
            self.because,
            plans.join(", ")
        )
    }
}

/// What is shown of a cell.
#[derive(Clone, Copy)]
enum Show {
    Value,
    Difference,
    Ratio,
    /// By how much the scheme is below the reference.
    Below,
    /// By how much the reference is below the scheme.
    ReferenceBelow,
}

const SHOWS: &[(&str, Show)] = &[
    ("value", Show::Value),
    ("difference", Show::Difference),
    ("ratio", Show::Ratio),
    ("below", Show::Below),
    ("reference-below", Show::ReferenceBelow),
];

/// A number of the page.
struct Value {
    label: String,
    plan: String,
    scale: Scale,
    scheme: String,
    metric: String,
    at: Table,
    show: Show,
}

impl Value {
    fn read(mut keys: Keys<'_>) -> Result<Self, PlanError> {
        let mut text = |key, wanted| keys.need_text(key, wanted).map(str::to_owned);
        let (label, plan) = (text("label", "what it is")?, text("plan", "a plan")?);
        let (scheme, metric) = (text("scheme", "a scheme of the plan")?, text("metric", "a metric of it")?);
        let value = Self {
            label,
            plan,
            scheme,
            metric,
            scale: keys.named("scale", &Scale::ALL)?.unwrap_or(Scale::Quick),
            at: keys.table("at")?.everything().clone(),
            show: keys.named("show", SHOWS)?.unwrap_or(Show::Value),
        };
        keys.finish()?;
        Ok(value)
    }

    fn fits(&self, cell: &Cell) -> bool {
        let is_there = |(axis, wanted): (&String, &toml::Value)| {
            cell.point.iter().any(|(name, value)| {
                name == axis
                    && match value {
                        Setting::Number(number) => plans::number(wanted) == Some(*number),
                        Setting::Text(text) => wanted.as_str() == Some(text),
                    }
            })
        };
        cell.scheme == self.scheme && cell.metric == self.metric && self.at.iter().all(is_there)
    }

    /// The number as people read it, with its interval.
    fn text(&self, summaries: &mut Summaries<'_>) -> Result<String, PlanError> {
        let summary = summaries.get(&self.plan, self.scale)?;
        let of = |cell: &Cell| self.shown(cell);
        let shown: Vec<Shown> = summary
            .cells
            .iter()
            .filter(|cell| self.fits(cell))
            .map(of)
            .collect::<Option<_>>()
            .unwrap_or_default();
        if shown.is_empty() {
            let found = format!("{}, {}, {:?}: {}", self.plan, self.scheme, self.at, self.metric);
            return Err(PlanError::value("claim.value", found, "something that the committed summary has"));
        }
        Ok(self.labelled(&self.number(&shown)))
    }

    /// With its label before it; one of a list, which has none, stands alone.
    fn labelled(&self, number: &str) -> String {
        format!("{} {number}", self.label).trim_start().to_owned()
    }

    /// What is shown of a cell; `None` if the summary has not got it.
    fn shown(&self, cell: &Cell) -> Option<Shown> {
        let ratio = |of: fn(f64) -> f64| {
            let ends = cell.ratio_low.zip(cell.ratio_high).map(|(low, high)| (of(low), of(high)));
            Some(Shown { value: of(cell.ratio?), between: ends.map(|(a, b)| (a.min(b), a.max(b))) })
        };
        match self.show {
            Show::Value => Some(cell.shown()),
            Show::Ratio => ratio(|ratio| ratio),
            Show::Below => ratio(|ratio| 1.0 - ratio),
            Show::ReferenceBelow => ratio(|ratio| 1.0 - 1.0 / ratio),
            Show::Difference => {
                let value = cell.diff?;
                Some(Shown { value, between: cell.diff_ci95.map(|half| (value - half, value + half)) })
            }
        }
    }

    /// The value, or from the least to the largest of several; then the interval, of several from
    /// the lowest end to the highest.
    fn number(&self, shown: &[Shown]) -> String {
        let (scale, unit) = self.unit();
        let ends = |of: &dyn Fn(&Shown) -> f64| {
            let all = shown.iter().map(of);
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)))
        };
        let (least, most) = ends(&|shown| shown.value);
        let text = |value: f64| digits(value * scale);
        let value = match text(least) == text(most) {
            true => text(least),
            false => format!("{} to {}", text(least), text(most)),
        };
        if shown.iter().any(|shown| shown.between.is_none()) {
            return format!("{value}{unit}");
        }
        // Student's interval of a rate may reach below nought, where no rate is.
        let least = if matches!(self.show, Show::Value) { 0.0 } else { f64::NEG_INFINITY };
        let low = ends(&|shown| shown.between.map_or(shown.value, |between| between.0)).0.max(least);
        let high = ends(&|shown| shown.between.map_or(shown.value, |between| between.1)).1;
        format!("{value}{unit} [{}, {}]", text(low), text(high))
    }

    fn unit(&self) -> (f64, &'static str) {
        let metric = self.metric.split('@').next().unwrap_or_default();
        match self.show {
            Show::Ratio => (1.0, " times"),
            Show::Below | Show::ReferenceBelow => (100.0, " %"),
            _ if metric.ends_with("share") => (100.0, " %"),
            _ if metric.ends_with("_ms") => (1.0, " ms"),
            _ if metric.ends_with("_s") => (1.0, " s"),
            _ if metric.ends_with("_mbps") => (1.0, " Mbit/s"),
            _ => (1.0, ""),
        }
    }
}

fn page(intro: &str, verdicts: &[String], claims: &[Claim]) -> String {
    let mut out = format!("{}\n\n| verdict | claims |\n| --- | --- |\n", intro.trim());
    for verdict in verdicts {
        let ids: Vec<&str> =
            claims.iter().filter(|claim| claim.verdict == *verdict).map(|claim| claim.id.as_str()).collect();
        let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        let _ = writeln!(out, "| {verdict} | {ids} |");
    }
    let mut chapter = "";
    for claim in claims {
        if claim.chapter != chapter {
            chapter = &claim.chapter;
            let link = chapter.to_lowercase();
            let head =
                "| | the paper | here | read as | verdict | plans |\n| --- | --- | --- | --- | --- | --- |";
            let _ = writeln!(out, "\n## {chapter}\n\n[The chapter](papers/{link}.md).\n\n{head}");
        }
        let _ = writeln!(out, "{}", claim.row());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(show: Show, metric: &str) -> Value {
        Value {
            label: "x".into(),
            plan: "p".into(),
            scale: Scale::Quick,
            scheme: "TCP".into(),
            metric: metric.into(),
            at: "load = 0.5".parse().unwrap(),
            show,
        }
    }

    fn cell(load: f64) -> Cell {
        Cell {
            scheme: "TCP".into(),
            metric: "fct_p99_ms".into(),
            point: vec![("load".into(), Setting::Number(load)), ("kind".into(), Setting::Text("a".into()))],
            mean: 9.0,
            ci95: Some(1.0),
            ratio: Some(4.0),
            ratio_low: Some(2.0),
            ratio_high: Some(5.0),
            ..Cell::default()
        }
    }

    #[test]
    fn numbers_have_units_and_intervals() {
        let text = |show| {
            let value = value(show, "fct_p99_ms");
            value.number(&[value.shown(&cell(0.5)).unwrap()])
        };
        assert_eq!(text(Show::Value), "9.00 ms [8.00, 10.0]");
        assert_eq!(text(Show::Ratio), "4.00 times [2.00, 5.00]");
        assert_eq!(text(Show::ReferenceBelow), "75.0 % [50.0, 80.0]");
        assert!(value(Show::Difference, "fct_p99_ms").shown(&cell(0.5)).is_none());
        let range = value(Show::Value, "fct_p99_ms");
        let other = Cell { mean: 3.0, ..cell(0.5) };
        let both = [cell(0.5), other].map(|cell| range.shown(&cell).unwrap());
        assert_eq!(range.number(&both), "3.00 to 9.00 ms [2.00, 10.0]");
    }

    #[test]
    fn a_value_of_a_list_has_no_label_and_no_room_for_one() {
        let labelled = value(Show::Value, "fct_p99_ms");
        assert_eq!(labelled.labelled("9.00 ms"), "x 9.00 ms");
        assert_eq!(Value { label: String::new(), ..labelled }.labelled("9.00 ms"), "9.00 ms");
    }

    #[test]
    fn a_value_is_found_by_its_axes() {
        let value = value(Show::Value, "fct_p99_ms");
        assert!(value.fits(&cell(0.5)) && !value.fits(&cell(0.7)));
        let of_a = Value { at: "load = 0.5\nkind = \"b\"".parse().unwrap(), ..value };
        assert!(!of_a.fits(&cell(0.5)));
    }
}
