//! Tables for people: the summary as Markdown, and its place in a plan's README.

use std::fmt::Write as _;

use plans::Scale;

use crate::{
    metrics::MetricUse,
    plan::Plan,
    point::Point,
    summary::{Cell, Summary},
};

/// Between these lines of a README stands the summary of a scale.
pub const MARKS: &[(Scale, &str, &str)] = &[
    (Scale::Quick, "<!-- results -->", "<!-- /results -->"),
    (Scale::Medium, "<!-- results medium -->", "<!-- /results medium -->"),
    (Scale::Paper, "<!-- results paper -->", "<!-- /results paper -->"),
];

/// The tables of each metric, a line per point, a column per scheme and model: percentiles of the
/// flows of all seeds with their intervals where those are known; means over the seeds with half
/// the confidence interval's width, and of how many seeds where some have no value; and, where there is a
/// reference to compare with, how the schemes differ from it, seed by seed.
pub fn tables(plan: &Plan, summary: &Summary) -> String {
    let mut out = head(plan, summary);
    for metric in &plan.metrics {
        let models = plan.models.iter().filter(|model| model.metric == metric.name).map(|model| &model.name);
        let names: Vec<&str> =
            plan.schemes.iter().map(|scheme| &scheme.name).chain(models).map(String::as_str).collect();
        let class = metric.name.split_once('@').map_or(String::new(), |(_, class)| format!(", {class}"));
        let table = Table { plan, summary, metric, title: format!("{}{class}", metric.metric.title) };
        let has = |of: fn(&Cell) -> Option<f64>| {
            summary.cells.iter().any(|cell| cell.metric == metric.name && of(cell).is_some())
        };
        let is_pooled = has(|cell| cell.pooled_low);
        if is_pooled {
            table.write(&mut out, "of all flows together [95 % interval]", &names, Table::pooled);
        }
        let what = if is_pooled { "mean over the seeds" } else { "" };
        table.write(&mut out, what, &names, Table::mean);
        if has(|cell| cell.diff_ci95) {
            let others: Vec<&str> = plan.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
            let others: Vec<&str> = others.into_iter().filter(|name| *name != summary.reference).collect();
            let what = format!("minus that of {}, seed by seed", summary.reference);
            table.write(&mut out, &what, &others, Table::difference);
        }
    }
    if let Some(worst) = summary.least_finished(plan) {
        let axes = worst.point.iter().map(|(axis, value)| format!(", {axis} {value}"));
        let place: String = [worst.scheme.clone()].into_iter().chain(axes).collect();
        let share = digits(worst.mean * 100.0);
        let _ = writeln!(
            out,
            "\nThe times are of flows that finished; up to {share} % of a scheme's did not ({place}). \
             Values behind ≥ or ≤ leave such flows out."
        );
    }
    out
}

/// The command, and how much was run.
fn head(plan: &Plan, summary: &Summary) -> String {
    let (name, scale, seeds, hash) = (&plan.name, plan.scale.name(), summary.seeds, &summary.plan_hash);
    let asked = if seeds == plan.own_seeds { String::new() } else { format!(" --seeds {seeds}") };
    let each = if seeds == 1 { "1 seed".to_owned() } else { format!("{seeds} seeds") };
    if plan.schemes.is_empty() {
        format!("`mendpath experiment run {name}`: worked out, not simulated.\n")
    } else {
        format!("`mendpath experiment run {name} --scale {scale}{asked}`: {each} each, plan {hash}.\n")
    }
}

/// A free text as what a cell shows.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\r', '\n'], " ")
}

/// A metric's tables.
struct Table<'a> {
    plan: &'a Plan,
    summary: &'a Summary,
    metric: &'a MetricUse,
    title: String,
}

impl Table<'_> {
    fn write(&self, out: &mut String, what: &str, names: &[&str], text: fn(&Self, &Cell) -> Option<String>) {
        let what = if what.is_empty() { String::new() } else { format!(", {what}") };
        let _ = writeln!(out, "\n{}{what}:\n", self.title);
        let axes: Vec<&str> = self.plan.axes.iter().map(|axis| axis.name.as_str()).collect();
        let head: Vec<String> = axes.iter().chain(names).map(|name| in_cell(name)).collect();
        let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
        for point in Point::all(&self.plan.axes) {
            let mut cells: Vec<String> =
                point.values.iter().map(|(_, value)| in_cell(&value.to_string())).collect();
            cells.extend(names.iter().map(|name| self.cell(name, &point, text)));
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }

    fn cell(&self, name: &str, point: &Point, text: fn(&Self, &Cell) -> Option<String>) -> String {
        let (metric, point) = (&self.metric.name, &point.values);
        if let Some(few) = self.summary.find_too_few(name, metric, point) {
            return format!("too few ({})", few.samples);
        }
        let found = self.summary.find(name, metric, point);
        found.and_then(|cell| text(self, cell)).unwrap_or_else(|| "-".to_owned())
    }

    fn is_share(&self) -> bool {
        self.metric.metric.name.ends_with("share")
    }

    fn mean(&self, cell: &Cell) -> Option<String> {
        let (mean, all) = (number(cell.mean, cell.ci95, self.is_share()), self.summary.seeds as usize);
        // Seeds without a value may be the worst: what never settled has no time until it did.
        let of_some = (1..all).contains(&cell.seeds);
        let seeds = if of_some { format!(" ({} of {all} seeds)", cell.seeds) } else { String::new() };
        Some(format!("{}{mean}{seeds}", self.bound(cell)))
    }

    fn pooled(&self, cell: &Cell) -> Option<String> {
        let (low, high) = (cell.pooled_low?, cell.pooled_high?);
        Some(format!("{}{} [{}, {}]", self.bound(cell), digits(cell.pooled?), digits(low), digits(high)))
    }

    /// On which side of a value of finished flows that of all of them is, where some did not finish: those
    /// would have taken longer than the run had for them, which is much unless they had just begun.
    fn bound(&self, cell: &Cell) -> &'static str {
        let is_short = self.metric.is_of_finished() && self.summary.has_unfinished(&cell.scheme, &cell.point);
        match is_short {
            true if self.metric.name.starts_with("fct_") => "≥ ",
            true => "≤ ",
            false => "",
        }
    }

    fn difference(&self, cell: &Cell) -> Option<String> {
        Some(number(cell.diff?, cell.diff_ci95, self.is_share()))
    }
}

/// Three significant digits, shares in percent.
fn number(mean: f64, ci95: Option<f64>, is_share: bool) -> String {
    let scale = if is_share { 100.0 } else { 1.0 };
    let mean = mean * scale;
    let half = ci95.map_or(String::new(), |half| format!(" ± {}", digits(half * scale)));
    format!("{}{half}", digits(mean))
}

/// Three significant digits without an exponent, except for the very small.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        size if size >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Which plan the tables of a scale say that they are of; `None` if there are none, or of what is
/// only worked out.
pub(crate) fn plan_hash(readme: &str, scale: Scale) -> Option<&str> {
    let (_, first, last) = MARKS.iter().find(|(known, ..)| *known == scale)?;
    let (block, _) = readme.split_once(first)?.1.split_once(last)?;
    block.split_once(" each, plan ")?.1.split_once('.').map(|(hash, _)| hash)
}

/// `readme` with the summary between the marks of its scale; `None` if it has none. A larger scale
/// gets a section at the end instead of being left out, if the quick one has its marks.
pub fn filled(readme: &str, scale: Scale, tables: &str) -> Option<String> {
    let find = |wanted| MARKS.iter().find(|(scale, ..)| *scale == wanted);
    let (_, first, last) = find(scale)?;
    if scale != Scale::Quick && !readme.contains(first) {
        let (_, quick, _) = find(Scale::Quick)?;
        let heading = match scale {
            Scale::Paper => "## Numbers at the paper's scale",
            _ => "## Numbers at medium scale",
        };
        return readme
            .contains(quick)
            .then(|| format!("{}\n\n{heading}\n\n{first}\n\n{tables}\n{last}\n", readme.trim_end()));
    }
    let (start, end) = (readme.find(first)? + first.len(), readme.find(last)?);
    (start <= end).then(|| format!("{}\n\n{tables}\n{}", &readme[..start], &readme[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(number(0.01234, Some(0.001), true), "1.23 ± 0.100");
        assert_eq!(number(1234.5, None, false), "1234");
        assert_eq!(number(2e-6, None, true), "2.0e-4");
    }

    fn two_schemes(metric: &str) -> Plan {
        let text = r#"
        title = "Two schemes"
        topology = { kind = "parallel-paths" }
        workload = { kind = "spaced", from = "first", to = "second", flows = 9, apart_ms = 50, bytes = 9_000 }
        scheme = [{ kind = "tcp" }, { kind = "proactive" }]
        "#;
        Plan::parse("p", &format!("metrics = [\"{metric}\"]\n{text}"), Scale::Quick).unwrap()
    }

    #[test]
    fn a_mean_of_some_seeds_says_of_how_many() {
        let plan = two_schemes("timeout_share");
        let csv = "scheme,metric,seeds,mean,ci95\n\
                   tcp,timeout_share,12,0.5,0.1\n\
                   proactive,timeout_share,9,0.25,0.1\n";
        let tables = tables(&plan, &Summary::read_csv(&plan, csv).unwrap());
        assert!(tables.contains("| 50.0 ± 10.0 | 25.0 ± 10.0 (9 of 12 seeds) |"), "{tables}");
    }

    #[test]
    fn that_flows_did_not_finish_is_said() {
        let plan = two_schemes("fct_mean_ms");
        let of = |csv: &str| tables(&plan, &Summary::read_csv(&plan, csv).unwrap());
        let csv = "scheme,metric,seeds,mean\ntcp,fct_mean_ms,12,5\nproactive,fct_mean_ms,12,4\n";
        let (whole, cut) = (of(csv), of(&format!("{csv}proactive,unfinished_share,12,0.025\n")));
        let said = "\nThe times are of flows that finished; up to 2.50 % of a scheme's did not (proactive). \
                    Values behind ≥ or ≤ leave such flows out.\n";
        assert!(whole.contains("| 5.00 | 4.00 |"), "{whole}");
        assert_eq!(cut, whole.replace("| 4.00 |", "| ≥ 4.00 |") + said);

        // Also where the plan asks how many did not.
        let plan = two_schemes("throughput_mbps\", \"unfinished_share");
        let csv = "scheme,metric,seeds,mean\ntcp,throughput_mbps,12,5\nproactive,throughput_mbps,12,4\n\
                   tcp,unfinished_share,12,0.025\nproactive,unfinished_share,12,0\n";
        let tables = tables(&plan, &Summary::read_csv(&plan, csv).unwrap());
        assert!(tables.contains("| ≤ 5.00 | 4.00 |") && tables.contains("| 2.50 | 0 |"), "{tables}");
        assert!(tables.ends_with(&said.replace("proactive", "tcp")), "{tables}");
    }

    #[test]
    fn each_scale_has_its_place() {
        let readme = "a\n<!-- results -->\nold\n<!-- /results -->\nb\n";
        let quick = filled(readme, Scale::Quick, "new\n").unwrap();
        assert_eq!(quick, "a\n<!-- results -->\n\nnew\n\n<!-- /results -->\nb\n");
        assert_eq!(filled("nothing", Scale::Quick, "new"), None);
        assert_eq!(filled("nothing", Scale::Paper, "new"), None);

        let both = filled(&quick, Scale::Paper, "large\n").unwrap();
        assert!(both.starts_with(quick.trim_end()));
        assert!(both.ends_with("<!-- results paper -->\n\nlarge\n\n<!-- /results paper -->\n"), "{both}");
        assert_eq!(filled(&both, Scale::Paper, "large\n").unwrap(), both);
        assert!(
            filled(&both, Scale::Medium, "larger\n")
                .unwrap()
                .contains("## Numbers at medium scale\n\n<!-- results medium")
        );
        assert!(filled(&both, Scale::Quick, "newer\n").unwrap().contains("large"));
        let of = filled(readme, Scale::Quick, "`x`: 3 seeds each, plan 0af3.\n").unwrap();
        assert_eq!((plan_hash(&of, Scale::Quick), plan_hash(&of, Scale::Paper)), (Some("0af3"), None));
        assert_eq!(plan_hash(readme, Scale::Quick), None);
    }
}
