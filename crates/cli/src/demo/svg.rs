//! The result as one picture: how long the slowest responses take, and what that costs.

use figures::{Axis, Bars, NamedBar, Sheet, whole};

use super::{Clock, Report, ReportRow};

/// Pixels for a row's name.
const NAMES: u32 = 168;

/// The picture, as a file of its own.
pub fn svg(report: &Report) -> String {
    let names: Vec<String> = report.rows.iter().map(ReportRow::label).collect();
    let tail = bars(report, &names, "99th percentile of flow completion times (ms)", |row| row.p99_ms);
    let cost = bars(report, &names, "copies and repair symbols per other byte (%)", |row| {
        row.extra_bytes_ratio * 100.0
    });
    let notes = notes(report);
    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
    let panels: [(&str, &dyn figures::Picture); 2] =
        [("The slowest 1 % of responses take at least", &tail), ("Extra bytes that the server sends", &cost)];
    let title = format!("Responses of {} over lossy paths", units::Bytes(report.scenario.size_bytes));
    Sheet { title: &title, notes: &notes, panels: &panels, key: &[] }.svg()
}

/// A bar for each row.
fn bars<'a>(report: &Report, names: &'a [String], label: &'a str, value: fn(&ReportRow) -> f64) -> Bars<'a> {
    let most = report.rows.iter().map(value).fold(1.0, f64::max);
    let bar = |(series, (row, name)): (usize, (&ReportRow, &'a String))| NamedBar {
        name,
        series,
        value: value(row),
        between: None,
    };
    Bars {
        label,
        x: Axis::new(label, 0.0, most * 1.05).labelled(whole),
        names: NAMES,
        bars: report.rows.iter().zip(names).enumerate().map(bar).collect(),
    }
}

/// Under which conditions.
fn notes(report: &Report) -> Vec<String> {
    let clock = match report.clock {
        Clock::Real => "real UDP sockets and emulated links",
        Clock::Virtual => "simulated links in virtual time",
    };
    let paths = report.scenario.paths.iter().zip(1..).map(|(path, n)| format!("#{n}: {}", path.text));
    vec![
        format!(
            "{} responses per row, {clock}, congestion control {}, seed {}.",
            report.scenario.count, report.scenario.congestion, report.seed
        ),
        format!("Paths: {}.", paths.collect::<Vec<_>>().join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{DemoOptions, rows};

    #[test]
    fn every_row_has_two_bars() {
        let options = DemoOptions::default();
        let rows: Vec<ReportRow> =
            rows(&options).iter().map(|row| ReportRow::new(row, &[], options.size)).collect();
        let report = Report::new(&options, rows, None);
        let picture = svg(&report);
        assert!(picture.starts_with("<svg") && picture.contains("seed 1."));
        for row in &report.rows {
            assert_eq!(picture.matches(&format!("\n{}\n", row.label())).count(), 2, "{}", row.label());
        }
    }
}
