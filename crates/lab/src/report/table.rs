//! The results as tables for a terminal.

use std::fmt::Write as _;

use figures::TextTable;

use super::{Kind, Report, Row};
use crate::CallOutcome;

/// One table for each network and measurement, with a line above that says what its numbers are.
pub fn table(report: &Report) -> String {
    let mut out = format!("{}\n", report.title);
    for rows in groups(&report.rows) {
        let first = &rows[0];
        let _ = write!(out, "\n{}: {}{}\n", first.network, first.measure, how_many(rows));
        for (index, path) in first.path_texts.iter().enumerate() {
            let _ = writeln!(out, "  path {index}: {path}");
        }
        let headings = headings(first);
        let words = [0, headings.len() - 1];
        out += &TextTable { headings: &headings, words: &words, indent: 2 }.text(rows.iter().map(cells));
        for row in rows {
            if let Some(error) = &row.error {
                let _ = writeln!(out, "  {}: {error}", row.contender);
            }
        }
    }
    let _ = writeln!(
        out,
        "\n{LEGEND}\nload of the machine before and after: {:.1}, {:.1} on {} processors",
        report.machine.load_before, report.machine.load_after, report.machine.cpus
    );
    out
}

pub(super) const LEGEND: &str = "times in ms; sent: bytes that the server's side sent, by bytes that arrived as responses; extra: copies and repair symbols \
                      of mendpath, in % of these,\nused: those that brought what was lost, wasted: the others; lost: packets that links took; full: packets that \
                      found a queue full;\nlate: mean lateness of the emulator in ms; of calls: frames, shares of them, of audio and of \
                      those taken while a path was cut that came in time, then datagrams; first: median time to the first byte; by: protocol; cpu: ms of the contender's programs + the lab's \
                      ends, per MB; paths: parts in what was sent to the client";

/// Rows of one network and measurement.
pub(super) fn groups(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| {
        (&a.network, &a.measure, a.kind, &a.path_texts) == (&b.network, &b.measure, b.kind, &b.path_texts)
    })
}

/// How many each contender made, as the end of a heading: without it nobody knows what a percentile or a
/// mean is of. Contenders that made none have a reason in their row, and are not among them.
pub(super) fn how_many(rows: &[Row]) -> String {
    let made = || rows.iter().map(|row| row.count).filter(|&count| count > 0);
    match (made().min(), made().max()) {
        (Some(least), Some(most)) if least == most => format!(" ({most} of each contender)"),
        (Some(least), Some(most)) => format!(" ({least} to {most} of each contender)"),
        _ => String::new(),
    }
}

/// The columns of a kind; the first is the contender.
pub(super) fn headings(row: &Row) -> Vec<&'static str> {
    let mut headings = vec!["contender"];
    headings.extend(match row.kind {
        Kind::Fetch => ["mean", "p50", "p90", "p99", "max", "failed"].as_slice(),
        Kind::Bulk => &["Mbit/s", "least", "most", "gap", "stopped", "back"],
        Kind::Share => &["with", "Mbit/s", "share", "even after"],
        Kind::Call => &["frames", "in time", "audio", "while cut", "mended", "too late", "expired"],
        Kind::Page => &["mean", "p50", "p90", "p99", "max", "failed", "first", "by"],
    });
    headings.extend(["sent", "extra", "used", "wasted", "lost", "full", "late", "cpu", "paths", "notes"]);
    headings
}

pub(super) fn cells(row: &Row) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let extreme = |values: &[f64], pick: fn(f64, f64) -> f64| number(values.iter().copied().reduce(pick));
    let mut cells = vec![row.contender.clone()];
    match row.kind {
        Kind::Fetch => {
            cells.extend([row.mean_ms, row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms].map(number));
            cells.push(row.failed.to_string());
        }
        Kind::Bulk => {
            let rates = &row.goodputs_mbps;
            cells.extend([number(row.goodput_mbps), extreme(rates, f64::min), extreme(rates, f64::max)]);
            cells.extend([extreme(&row.gaps_ms, f64::max), row.failed.to_string(), back(row)]);
        }
        Kind::Share => {
            let sharing = row.sharing.as_ref();
            cells.push(sharing.map_or_else(String::new, |it| it.with.clone()));
            cells.push(number(sharing.map(|it| it.goodput_mbps)));
            cells.push(sharing.map_or_else(String::new, |it| format!("{:.0}%", it.share * 100.0)));
            let even = sharing.and_then(|it| it.converged_s);
            cells.push(even.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")));
        }
        Kind::Call => cells.extend(call(row.call.unwrap_or_default())),
        Kind::Page => {
            cells.extend([row.mean_ms, row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms].map(number));
            let loads = row.loads.as_ref();
            cells.push(row.failed.to_string());
            cells.push(number(loads.and_then(|loads| loads.first_byte_p50_ms)));
            cells.push(loads.map_or_else(|| "-".to_owned(), |loads| loads.protocol.to_string()));
        }
    }
    cells.extend(common(row));
    cells
}

/// Frames and the shares of them that were in time, in percent; then datagrams.
fn call(call: CallOutcome) -> [String; 7] {
    let share = |in_time: u64, all: u64| match all {
        0 => "-".to_owned(),
        all => format!("{:.2}%", in_time as f64 / all as f64 * 100.0),
    };
    [
        call.frames.to_string(),
        share(call.frames_in_time, call.frames),
        share(call.audio_in_time, call.audio),
        share(call.while_cut_in_time, call.while_cut),
        call.datagrams_mended.to_string(),
        call.datagrams_late.to_string(),
        call.datagrams_expired.to_string(),
    ]
}

fn common(row: &Row) -> Vec<String> {
    let sum = |value: fn(&super::PathUse) -> u64| row.paths.iter().map(value).sum::<u64>().to_string();
    let late = row.paths.iter().map(|path| path.late_mean_us).fold(0.0, f64::max) / 1e3;
    let per_mb = |ms: f64| match row.arrived_bytes() {
        0 => "-".to_owned(),
        bytes => format!("{:.1}", ms / (bytes as f64 / 1e6)),
    };
    let cpu = match row.cpu_ms {
        Some(programs) => format!("{} + {}", per_mb(programs), per_mb(row.endpoint_cpu_ms)),
        None => format!("0 + {}", per_mb(row.endpoint_cpu_ms)),
    };
    let shares: Vec<String> = row.path_shares().iter().map(|share| format!("{:.0}", share * 100.0)).collect();
    // Older data have 0 of direct paths.
    let sent = row.sent_ratio.filter(|ratio| *ratio > 0.0);
    let mut cells = vec![sent.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))];
    cells.extend(repair(row));
    cells.extend([
        sum(|path| path.down_lost + path.up_lost),
        sum(|path| path.down_overflow + path.up_overflow),
        format!("{late:.2}"),
        cpu,
        shares.join(":"),
        notes(row),
    ]);
    cells
}

/// Bytes sent to mend losses, those of them that did, and those that did not, in percent of what
/// arrived as responses.
fn repair(row: &Row) -> [String; 3] {
    let Some(repair) = row.repair else { return [(); 3].map(|()| "-".to_owned()) };
    let (sent, used) = (repair.sent_bytes as f64, repair.used_bytes());
    let arrived = (row.arrived_bytes() as f64).max(1.0);
    [sent, used, sent - used].map(|bytes| format!("{:.1}%", bytes / arrived * 100.0))
}

/// The longest time until a path that had been cut was used again.
fn back(row: &Row) -> String {
    let mut longest = 0.0_f64;
    for cut in row.cuts.iter().filter(|cut| cut.outlived) {
        match cut.used_again_ms {
            Some(ms) => longest = longest.max(ms),
            None => return "never".to_owned(),
        }
    }
    if row.cuts.iter().any(|cut| cut.outlived) { format!("{longest:.0}") } else { "-".to_owned() }
}

fn notes(row: &Row) -> String {
    let mut notes = Vec::new();
    if row.error.is_some() {
        notes.push("see below".to_owned());
    }
    if !row.peak_memory_bytes.is_empty() && row.beside.is_some() {
        let mib =
            row.peak_memory_bytes.iter().map(|bytes| format!("{:.0}", *bytes as f64 / f64::from(1 << 20)));
        notes.push(format!("memory {} MiB", mib.collect::<Vec<_>>().join(" + ")));
    }
    if let Some(beside) = row.beside.filter(|beside| beside.bytes > 0) {
        notes.push(format!("beside {:.1} Mbit/s", beside.goodput_mbps()));
    }
    if let Some(mptcp) = row.mptcp {
        notes.push(format!("{} connections, {} joins", mptcp.connections, mptcp.joins));
        if mptcp.fallbacks > 0 {
            notes.push(format!("{} fell back to TCP", mptcp.fallbacks));
        }
    }
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::{Beside, Repair, tests::example};
    use super::*;

    #[test]
    fn columns_are_aligned_and_every_row_is_there() {
        let text = table(&example());
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains("p99")).unwrap();
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end(lines[at], "p99"), end(lines[at + 1], "248.0"));
        assert_eq!(end(lines[at], "sent"), end(lines[at + 2], "1.100"));
        for word in [
            "An <example>",
            "loss 2%: 60.0 kB",
            "path 0: rate=100mbit",
            "quinn: there is no such program",
            "91.0",
            "300",
            "50%",
            "99.95%",
            "101.0  h3",
        ] {
            assert!(text.contains(word), "{word}\n{text}");
        }
        assert!(example().rows.iter().all(|row| cells(row).len() == headings(row).len()));
    }

    #[test]
    fn a_heading_says_how_many_each_contender_made() {
        let mut rows = example().rows[..2].to_vec();
        assert_eq!(how_many(&rows), " (100 of each contender)");
        rows[1].count = 30;
        assert_eq!(how_many(&rows), " (30 to 100 of each contender)");
        rows[1].count = 0;
        assert_eq!(how_many(&rows), " (100 of each contender)", "who made none is not among them");
        assert_eq!(how_many(&[]), "");
        assert!(table(&example()).contains("loss 2%: 60.0 kB (100 of each contender)\n"));
    }

    /// What went on beside fetches is part of what programs did and links carried.
    #[test]
    fn costs_are_by_all_that_arrived() {
        let mut row = example().rows[0].clone();
        row.endpoint_cpu_ms = 60.0;
        row.repair =
            Some(Repair { sent_bytes: 600_000, sent_packets: 2, used_packets: 1, wasted_packets: 1 });
        let costs = |row: &Row| (common(row)[7].clone(), repair(row));
        assert_eq!(costs(&row), ("0 + 10.0".to_owned(), ["10.0%", "5.0%", "5.0%"].map(str::to_owned)));
        row.beside = Some(Beside { bytes: 6_000_000, time_ms: 1_000.0 });
        assert_eq!(costs(&row), ("0 + 5.0".to_owned(), ["5.0%", "2.5%", "2.5%"].map(str::to_owned)));
    }

    #[test]
    fn a_path_that_never_came_back_is_named_so() {
        let mut row = example().rows[3].clone();
        assert_eq!(back(&row), "300");
        row.cuts[0].used_again_ms = None;
        assert_eq!(back(&row), "never");
        row.cuts[0].outlived = false;
        assert_eq!(back(&row), "-");
    }
}
