//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use figures::{
    Axis, Chart, Layer,
    page::{self, escape, figure, table},
    percent, steps,
};
use units::percentile;

use super::{
    Kind, Report, Row,
    table::{cells, groups, headings},
};

/// The tables have many columns.
const WIDER: &str = "main{max-width:70rem}@media(min-width:561px){th,td{padding:.25rem .5rem}}";

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = format!("<p>{}</p>\n", escape(&report.about));
    for rows in groups(&report.rows) {
        section(&mut out, rows);
    }
    conditions(report, &mut out);
    let series = groups(&report.rows).map(<[Row]>::len).max().unwrap_or(0);
    page::page(&report.title, &report.title, &(page::style(series) + WIDER), &out)
}

fn conditions(report: &Report, out: &mut String) {
    let machine = &report.machine;
    let _ = writeln!(
        out,
        "<p class=\"note\">Scale {}, seed {}, Linux {}, {} processors, load average {:.1} before and {:.1} after. Every contender had network \
         namespaces and emulated links of its own, with the same seed: the n-th packet of the n-th fetch is lost for all of them or \
         for none. Sent: bytes that the server's side sent, by bytes that arrived as responses. Extra: copies and repair symbols of mendpath, in % of these; \
         used: those that brought what was lost, wasted: the others. Lost: packets that links took. Full: \
         packets that found a queue full. Late: mean lateness of the emulator in ms. Cpu: ms of the contender's programs and of the lab's own ends, per MB; kernel \
         contenders have no programs. Paths: parts in what was sent to the client. mendpath lab {}.</p>",
        report.scale,
        report.seed,
        escape(&machine.kernel),
        machine.cpus,
        machine.load_before,
        machine.load_after,
        report.version
    );
}

fn section(out: &mut String, rows: &[Row]) {
    let first = &rows[0];
    let _ = writeln!(out, "<h2>{}: {}</h2>", escape(&first.network), escape(&first.measure));
    let paths = first.path_texts.iter().enumerate();
    let paths: Vec<String> = paths.map(|(index, path)| format!("path {index}: {}", escape(path))).collect();
    let _ = writeln!(out, "<p class=\"note\">{}</p>", paths.join("<br>"));
    match first.kind {
        Kind::Fetch => distribution(out, rows),
        Kind::Share => over_time(out, rows),
        Kind::Bulk => {}
    }
    table(out, &headings(first), rows.iter().map(cells));
    for (contender, error) in rows.iter().filter_map(|row| Some((&row.contender, row.error.as_ref()?))) {
        let _ = writeln!(out, "<p class=\"note\">{}: {}</p>", escape(contender), escape(error));
    }
}

/// The cumulative distribution of completion times. What lies beyond the 99.5th percentile of the slowest is cut off.
fn distribution(out: &mut String, rows: &[Row]) {
    let curves: Vec<Vec<(f64, f64)>> = rows.iter().map(|row| steps(&row.times_ms)).collect();
    let end = |curve: &Vec<(f64, f64)>| percentile(curve, 0.995).map_or(0.0, |(time, _)| time);
    let most = curves.iter().map(end).fold(0.0, f64::max);
    let lines = curves.into_iter().map(|curve| {
        let shown = curve.into_iter().filter(|(time, _)| *time <= most);
        std::iter::once((0.0, 0.0)).chain(shown).collect()
    });
    let chart = Chart {
        label: "Distribution of flow completion times",
        x: Axis::new("flow completion time (ms)", 0.0, most),
        y: Axis::new("share of responses (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        layers: layers(lines),
    };
    let caption = "Share of responses that were complete within a time. What lies beyond the 99.5th percentile of the slowest is cut off.";
    draw(out, caption, rows, &chart);
}

/// Goodput second by second.
fn over_time(out: &mut String, rows: &[Row]) {
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
    draw(out, "Goodput second by second, from the first one's start.", rows, &chart);
}

/// A line for each row, in their order.
fn layers(lines: impl Iterator<Item = Vec<(f64, f64)>>) -> Vec<Layer> {
    lines.enumerate().map(|(series, points)| Layer::Line { series, points }).collect()
}

/// The chart with the rows' names, if there is anything in it.
fn draw(out: &mut String, caption: &str, rows: &[Row], chart: &Chart<'_>) {
    if chart.x.range.1 <= 0.0 || chart.y.range.1 <= 0.0 {
        return;
    }
    let names: Vec<String> = rows.iter().map(|row| escape(&row.contender)).collect();
    let key: Vec<(usize, &str)> = names.iter().map(String::as_str).enumerate().collect();
    figure(out, caption, &key, chart);
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_shows_every_row() {
        let report = example();
        let page = html(&report);
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("An &lt;example&gt;") && !page.contains("<example>"));
        for row in &report.rows {
            assert!(page.contains(&format!("<td>{}</td>", row.contender)), "{}", row.contender);
        }
        // The one distribution has a line for each of its rows, at both sizes and in the key.
        for series in 0..3 {
            assert_eq!(page.matches(&format!("class=\"line s{series}\"")).count(), 3, "{series}");
        }
        assert_eq!(page.matches("<figure>").count(), 1);
        assert!(page.contains("share of responses (%)") && page.ends_with("</html>\n"));
    }
}
