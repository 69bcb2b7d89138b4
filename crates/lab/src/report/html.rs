//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's
//! width on.

use askama::Template;
use figures::{
    Axis, Chart, Layer,
    page::{self, Html, figure, table},
    percent, steps,
};
use units::percentile;

use super::{
    Kind, Report, Row,
    table::{cells, groups, headings},
};

/// The tables have many columns.
const WIDER: &str = "main{max-width:70rem}@media(min-width:561px){th,td{padding:.25rem .5rem}}";

#[derive(Template)]
#[template(path = "report.html")]
struct Body<'a> {
    report: &'a Report,
    sections: Vec<Section<'a>>,
}

/// The rows of one network and measurement.
struct Section<'a> {
    first: &'a Row,
    rows: &'a [Row],
    chart: Html,
    table: Html,
}

impl<'a> Section<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let first = &rows[0];
        let key: Vec<(usize, &str)> = names(rows).enumerate().collect();
        let chart = chart(rows).map_or_else(Html::default, |(caption, chart)| figure(caption, &key, &chart));
        Self { first, rows, chart, table: table(&headings(first), rows.iter().map(cells)) }
    }

    /// Contenders of which there is nothing, or no more, and why.
    fn errors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().filter_map(|row| Some((row.contender.as_str(), row.error.as_deref()?)))
    }
}

/// The page.
pub fn html(report: &Report) -> String {
    let sections = groups(&report.rows).map(Section::new).collect();
    let series = groups(&report.rows).map(<[Row]>::len).max().unwrap_or(0);
    let body = Html::of(&Body { report, sections });
    page::page(&report.title, &report.title, &(page::style(series) + WIDER), &body)
}

/// What a kind of measurement has a picture of, with its caption, if there is anything in it.
pub(super) fn chart(rows: &[Row]) -> Option<(&'static str, Chart<'static>)> {
    let drawn = match rows[0].kind {
        Kind::Fetch | Kind::Page => distribution(rows),
        Kind::Share => over_time(rows),
        Kind::Bulk | Kind::Call => return None,
    };
    Some(drawn).filter(|(_, chart)| chart.x.range.1 > 0.0 && chart.y.range.1 > 0.0)
}

/// Of the contenders, in their order.
pub(super) fn names(rows: &[Row]) -> impl Iterator<Item = &str> {
    rows.iter().map(|row| row.contender.as_str())
}

/// How many times the quickest response the slowest takes where the axis of times is logarithmic: a
/// load that hangs until the browser gives up would leave no room for the others.
const WIDE: f64 = 20.0;

/// An axis of times from the quickest response, or from none, to `most`.
fn times(quickest: f64, most: f64) -> Axis<'static> {
    const TITLE: &str = "flow completion time (ms)";
    if quickest > 0.0 && most > WIDE * quickest {
        Axis::new(TITLE, quickest, most).log().dense()
    } else {
        Axis::new(TITLE, 0.0, most)
    }
}

/// The cumulative distribution of completion times. What lies beyond the 99.5th percentile of the
/// slowest is cut off.
fn distribution(rows: &[Row]) -> (&'static str, Chart<'static>) {
    let curves: Vec<Vec<(f64, f64)>> = rows.iter().map(|row| steps(&row.times_ms)).collect();
    let end = |curve: &Vec<(f64, f64)>| percentile(curve, 0.995).map_or(0.0, |(time, _)| time);
    let most = curves.iter().map(end).fold(0.0, f64::max);
    let quickest = curves.iter().flatten().map(|(time, _)| *time).fold(f64::INFINITY, f64::min);
    let x = times(quickest, most);
    let lines = curves.into_iter().map(|curve| {
        let shown = curve.into_iter().filter(|(time, _)| *time <= most);
        std::iter::once((x.range.0, 0.0)).chain(shown).collect()
    });
    let layers = layers(lines);
    let chart = Chart {
        label: "Distribution of flow completion times",
        x,
        y: Axis::new("share of responses (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        layers,
    };
    let caption = "Share of responses that were complete within a time. What lies beyond the 99.5th percentile of the slowest is cut off.";
    (caption, chart)
}

/// Goodput second by second.
fn over_time(rows: &[Row]) -> (&'static str, Chart<'static>) {
    let series = |row: &Row| -> Vec<(f64, f64)> {
        let values = row.sharing.iter().flat_map(|sharing| sharing.series_mbps.iter());
        values.enumerate().map(|(second, value)| (second as f64, *value)).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = rows.iter().map(series).collect();
    let most = |pick: fn(&(f64, f64)) -> f64| lines.iter().flatten().map(pick).fold(0.0, f64::max);
    let chart = Chart {
        label: "Goodput over time",
        x: Axis::new("time (s)", 0.0, most(|point| point.0)),
        y: Axis::new("goodput (Mbit/s)", 0.0, most(|point| point.1)),
        layers: layers(lines.into_iter()),
    };
    ("Goodput second by second, from the first one's start.", chart)
}

/// A line for each row, in their order.
fn layers(lines: impl Iterator<Item = Vec<(f64, f64)>>) -> Vec<Layer> {
    lines.enumerate().map(|(series, points)| Layer::Line { series, points }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn times_of_which_one_is_far_beyond_the_others_have_a_logarithmic_axis() {
        let axis = times(480.0, 60_000.0);
        assert_eq!((axis.is_log, axis.range), (true, (480.0, 60_000.0)));
        let axis = times(480.0, 5_000.0);
        assert_eq!((axis.is_log, axis.range), (false, (0.0, 5_000.0)));
        assert!(!times(0.0, 5_000.0).is_log, "what has no logarithm");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_shows_every_row() {
        let report = example();
        let page = html(&report);
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("An &#60;example&#62;") && !page.contains("<example>"));
        for row in &report.rows {
            assert!(page.contains(&format!("<th scope=\"row\">{}</th>", row.contender)), "{}", row.contender);
        }
        // The distribution of fetches has a line for each of its rows, at both sizes and in the key.
        for series in 0..3 {
            let lines = if series == 0 { 6 } else { 3 };
            assert_eq!(page.matches(&format!("class=\"line s{series}\"")).count(), lines, "{series}");
        }
        assert_eq!(page.matches("<figure>").count(), 2);
        assert!(page.contains("share of responses (%)") && page.ends_with("</html>\n"));
    }
}
