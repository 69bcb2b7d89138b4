//! Tables for people: the summary as Markdown, and its place in a plan's README.

use std::fmt::Write as _;

use plans::Scale;

use crate::{plan::Plan, point::Point, summary::Summary};

/// Between these lines of a README stands the summary of a scale.
pub const MARKS: &[(Scale, &str, &str)] = &[
    (Scale::Quick, "<!-- results -->", "<!-- /results -->"),
    (Scale::Medium, "<!-- results medium -->", "<!-- /results medium -->"),
    (Scale::Paper, "<!-- results paper -->", "<!-- /results paper -->"),
];

/// One table per metric: a line per point, a column per scheme and model; mean, and half the
/// confidence interval's width.
pub fn tables(plan: &Plan, summary: &Summary) -> String {
    let (name, scale, seeds, hash) = (&plan.name, plan.scale.name(), plan.seeds, &summary.plan_hash);
    let asked = if seeds == plan.own_seeds { String::new() } else { format!(" --seeds {seeds}") };
    let each = if seeds == 1 { "1 seed".to_owned() } else { format!("{seeds} seeds") };
    let mut out = if plan.schemes.is_empty() {
        format!("`mendpath experiment run {name}`: worked out, not simulated.\n")
    } else {
        format!("`mendpath experiment run {name} --scale {scale}{asked}`: {each} each, plan {hash}.\n")
    };
    for metric in &plan.metrics {
        let is_share = metric.metric.name.ends_with("share");
        let models = plan.models.iter().filter(|model| model.metric == metric.name).map(|model| &model.name);
        let names: Vec<&String> = plan.schemes.iter().map(|scheme| &scheme.name).chain(models).collect();
        let class = metric.name.split_once('@').map_or(String::new(), |(_, class)| format!(", {class}"));
        let _ = writeln!(out, "\n{}{class}:\n", metric.metric.title);
        let axes: Vec<&str> = plan.axes.iter().map(|axis| axis.name.as_str()).collect();
        let head: Vec<&str> = axes.iter().copied().chain(names.iter().map(|name| name.as_str())).collect();
        let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
        for point in Point::all(&plan.axes) {
            let mut cells: Vec<String> = point.values.iter().map(|(_, value)| value.to_string()).collect();
            cells.extend(names.iter().map(|name| {
                let found = summary.find(name, &metric.name, &point.values);
                found.map_or("-".to_owned(), |cell| number(cell.mean, cell.ci95, is_share))
            }));
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    out
}

/// Three significant digits, shares in percent.
fn number(mean: f64, ci95: Option<f64>, is_share: bool) -> String {
    let scale = if is_share { 100.0 } else { 1.0 };
    let mean = mean * scale;
    let half = ci95.map_or(String::new(), |half| format!(" ± {}", digits(half * scale)));
    format!("{}{half}", digits(mean))
}

/// Three significant digits without an exponent, except for the very small.
fn digits(value: f64) -> String {
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
    }
}
