//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's
//! width on.

use askama::Template;
use figures::{
    Axis, Chart, Layer,
    page::{self, Html, figure, table},
    percent, steps, whole,
};
use units::Bytes;

use super::{Clock, Report, ReportRow};

#[derive(Template)]
#[template(path = "demo.html")]
struct Body<'a> {
    report: &'a Report,
    distribution: Html,
    numbers: Html,
    size: Bytes,
    clock: &'static str,
}

/// The page.
pub fn html(report: &Report) -> String {
    let (distribution, numbers) = (distribution(report), numbers(report));
    let size = Bytes(report.scenario.size_bytes);
    let clock = match report.clock {
        Clock::Real => "over real UDP sockets and emulated links",
        Clock::Virtual => "over simulated links in virtual time",
    };
    let body = Html::of(&Body { report, distribution, numbers, size, clock });
    page::page("mendpath demo", "How long do responses take?", &page::style(report.rows.len()), &body)
}

/// The cumulative distribution of completion times.
fn distribution(report: &Report) -> Html {
    let (from, to) = time_range(report);
    let layer = |(series, row): (usize, &ReportRow)| {
        let points = [vec![(from, 0.0)], steps(&row.fct_ms), vec![(to, 1.0)]].concat();
        Layer::Line { series, points }
    };
    let chart = Chart {
        label: "Distribution of flow completion times",
        x: Axis::new("flow completion time (ms)", from, to).labelled(whole),
        y: Axis::new("share of responses (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        layers: report.rows.iter().enumerate().map(layer).collect(),
    };
    let names: Vec<String> = report.rows.iter().map(ReportRow::label).collect();
    let key: Vec<(usize, &str)> = names.iter().map(String::as_str).enumerate().collect();
    let caption = "Share of responses that were complete within a time: the further left and the steeper, the better. The tail, the last \
                   percent, is at the top.";
    figure(caption, &key, &chart)
}

/// A little more than all times; at least 10 ms wide.
fn time_range(report: &Report) -> (f64, f64) {
    let times = || report.rows.iter().flat_map(|row| row.fct_ms.iter().copied());
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    if !least.is_finite() {
        return (0.0, 10.0);
    }
    let room = ((most - least) * 0.04).max(5.0);
    ((least - room).max(0.0), most + room)
}

fn numbers(report: &Report) -> Html {
    let headings =
        ["row", "mean ms", "p50 ms", "p99 ms", "max ms", "Mbit/s", "extra bytes", "lost", "mended"];
    let rows = report.rows.iter().map(|row| {
        vec![
            row.label(),
            format!("{:.1}", row.mean_ms),
            format!("{:.1}", row.p50_ms),
            format!("{:.1}", row.p99_ms),
            format!("{:.1}", row.max_ms),
            format!("{:.2}", row.goodput_mbps),
            format!("{:.1} %", row.extra_bytes_ratio * 100.0),
            row.lost.to_string(),
            row.mended.to_string(),
        ]
    });
    table(&headings, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{DemoOptions, rows};

    fn example() -> Report {
        let options = DemoOptions::default();
        let rows = rows(&options).into_iter().map(|row| {
            let mut row = ReportRow::new(&row, &[], options.size);
            row.fct_ms = (0..200).map(|i| 100.0 + f64::from(i)).collect();
            row
        });
        Report::new(&options, rows.collect(), None)
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = html(&example());
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("width=device-width"));
        assert!(page.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn every_row_has_a_line_a_key_and_numbers() {
        let report = example();
        let page = html(&report);
        for (i, row) in report.rows.iter().enumerate() {
            // Twice in the charts, once in the key.
            assert_eq!(page.matches(&format!("class=\"line s{i}\"")).count(), 3, "row {i}");
            assert!(page.contains(&format!(
                "<th scope=\"row\">{}</th>",
                askama::filters::escape(&row.label(), askama::filters::Html).unwrap()
            )));
        }
        assert!(page.contains("flow completion time (ms)") && page.contains("share of responses (%)"));
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let report = Report::new(&DemoOptions::default(), Vec::new(), None);
        assert!(html(&report).ends_with("</html>\n"));
    }
}
