//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use figures::{
    Axis, Chart, Layer,
    page::{self, escape, figure, table},
    percent, steps, whole,
};

use super::{Clock, Report, ReportRow};

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = format!("<p>{}</p>\n", escape(&report.summary));
    distribution(report, &mut out);
    numbers(report, &mut out);
    conditions(report, &mut out);
    page::page("mendpath demo", "How long do responses take?", &page::style(report.rows.len()), &out)
}

/// The cumulative distribution of completion times.
fn distribution(report: &Report, out: &mut String) {
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
    let names: Vec<String> = report.rows.iter().map(|row| escape(&row.label())).collect();
    let key: Vec<(usize, &str)> = names.iter().map(String::as_str).enumerate().collect();
    let caption = "Share of responses that were complete within a time: the further left and the steeper, the better. The tail, the last \
                   percent, is at the top.";
    figure(out, caption, &key, &chart);
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

fn numbers(report: &Report, out: &mut String) {
    out.push_str("<h2>Numbers</h2>\n");
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
    table(out, &headings, rows);
}

fn conditions(report: &Report, out: &mut String) {
    let scenario = &report.scenario;
    let clock = match report.clock {
        Clock::Real => "over real UDP sockets and emulated links",
        Clock::Virtual => "over simulated links in virtual time",
    };
    out.push_str("<h2>What was measured</h2>\n<ul>");
    for (place, path) in scenario.paths.iter().enumerate() {
        let _ = write!(out, "<li>Path #{}: {}</li>", place + 1, escape(&path.text));
    }
    let _ = write!(
        out,
        "</ul>\n<p class=\"note\">{} responses of {} per row {}, congestion control {}, packets of up to {} bytes, seed {}. \
         Each response has a connection of its own, whose paths are open before the request is sent; losses begin with the request. The time runs from the request \
         to the last byte. The n-th response of every row meets links that draw the same losses. Lost: by the links. Mended: the data of \
         a lost packet had arrived by a copy or a repair symbol before it would have been retransmitted. Extra bytes: copies and repair \
         symbols per other byte of the server. mendpath {}.</p>\n",
        scenario.count,
        units::Bytes(scenario.size_bytes),
        clock,
        escape(&scenario.congestion),
        scenario.datagram_bytes,
        report.seed,
        escape(report.version)
    );
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
            assert!(page.contains(&format!("<td>{}</td>", escape(&row.label()))));
        }
        assert!(page.contains("flow completion time (ms)") && page.contains("share of responses (%)"));
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let report = Report::new(&DemoOptions::default(), Vec::new(), None);
        assert!(html(&report).ends_with("</html>\n"));
    }
}
