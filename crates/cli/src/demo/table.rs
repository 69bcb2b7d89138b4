//! The results as a table for a terminal of 80 columns.

use figures::TextTable;

use super::{Clock, Report, ReportRow};

const HEADINGS: [&str; 10] =
    ["paths", "recovery", "mean", "p50", "p99", "max", "Mbit/s", "extra", "lost", "mended"];

/// The table, with a line above that says what its numbers are.
pub fn table(report: &Report) -> String {
    let table = TextTable { headings: &HEADINGS, words: &[0, 1], indent: 0 };
    heading(report) + &table.text(report.rows.iter().map(cells))
}

fn heading(report: &Report) -> String {
    let scenario = &report.scenario;
    let mut out = String::new();
    for (place, path) in scenario.paths.iter().enumerate() {
        out += &format!("path #{}: {}\n", place + 1, path.text);
    }
    let size = units::Bytes(scenario.size_bytes);
    let clock = match report.clock {
        Clock::Real => "",
        Clock::Virtual => " in virtual time",
    };
    out += &format!(
        "{} responses of {size} per row{clock}; times from request to last byte in ms; mended = before a retransmission\n\n",
        scenario.count
    );
    out
}

fn cells(row: &ReportRow) -> [String; 10] {
    let ms = |value: f64| format!("{value:.1}");
    [
        row.name.clone(),
        row.recovery.clone(),
        ms(row.mean_ms),
        ms(row.p50_ms),
        ms(row.p99_ms),
        ms(row.max_ms),
        format!("{:.2}", row.goodput_mbps),
        format!("{:.1}%", row.extra_bytes_ratio * 100.0),
        row.lost.to_string(),
        row.mended.to_string(),
    ]
}
