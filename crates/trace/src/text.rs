//! The results as tables for a terminal of 80 columns.

use std::fmt::Write as _;

use figures::TextTable;
use units::Bytes;

use crate::{
    clusters::{Scale, Split, Usable},
    counted::{counted, thousands},
    grouping::Grouping,
    options::Method,
    report::{ClassCounts, Report},
    retransmission::{Half, Heading},
    verdict::{MarkClass, VerdictRow},
    what_if::Variant,
};

/// Positions that the text shows at most; all are in the JSON.
const POSITIONS_SHOWN: usize = 10;

/// The tables.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    files(report, &mut out);
    if report.has_no_tcp() {
        out += "\nThere is no TCP in what could be read: nothing to analyse.\n";
    } else {
        overview(report, &mut out);
        classes(report, &mut out);
        grouping(report, &mut out);
        positions(report, &mut out);
        flags(report, &mut out);
        what_if(report, &mut out);
        verdicts(report, &mut out);
    }
    if !report.warnings.is_empty() {
        out += "\nBear in mind\n";
        for warning in &report.warnings {
            let _ = writeln!(out, "  - {warning}.");
        }
    }
    out
}

pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

pub(crate) fn heading(heading: Heading) -> &'static str {
    match heading {
        Heading::ClientToServer => "client to server",
        Heading::ServerToClient => "server to client",
        Heading::Unknown => "direction unknown",
    }
}

pub(crate) fn half(half: Half) -> &'static str {
    match half {
        Half::First => "first half, from the start",
        Half::Second => "second half, from the end",
    }
}

pub(crate) fn variant(variant: Variant) -> &'static str {
    match variant {
        Variant::Syn => "SYN",
        Variant::Push => "PSH",
        Variant::Tail => "tail",
    }
}

pub(crate) fn class(class: MarkClass) -> &'static str {
    match class {
        MarkClass::Handshake => "SYN, SYN/ACK",
        MarkClass::Push => "PSH",
        MarkClass::Fin => "FIN",
        MarkClass::Plain => "others",
    }
}

pub(crate) fn split(split: &Split) -> String {
    let (scale, unit) = match split.scale {
        Scale::Linear => ("ms, linear", " ms"),
        Scale::Log10 => ("ms, logarithmic", " ms"),
        Scale::RoundTrips => ("round trips", ""),
    };
    let usable = match split.usable {
        Usable::TwoGroups => "two groups",
        Usable::TooFew => "too few",
        Usable::OneGroup => "no two groups",
    };
    format!(
        "{scale}: {usable}; {} of {} above {:.1}{unit} (gap from {:.1} to {:.1}), means {:.1} and {:.1}; {:.0}% of the variance \
         explained, {:.1}% near the threshold",
        thousands(split.counts[1]),
        thousands(split.counts[0] + split.counts[1]),
        split.threshold,
        split.gap[0],
        split.gap[1],
        split.means[0],
        split.means[1],
        split.explained * 100.0,
        split.near * 100.0
    )
}

/// How timeouts were told from fast retransmissions, in words.
pub(crate) fn method(report: &Report) -> String {
    match report.method {
        Method::AckClock => {
            "Fast is what left right after an acknowledgement, a timeout what left out of silence".to_owned()
        }
        Method::Paper => {
            let boundary = boundary(&report.grouping);
            format!("{}{}", boundary[..1].to_uppercase(), &boundary[1..])
        }
    }
}

/// What the paper's method makes of the same retransmissions, in words.
pub(crate) fn beside(report: &Report) -> String {
    let counts = &report.retransmissions;
    format!(
        "The paper's two means make {} of them timeouts ({}); the methods differ on {}",
        thousands(counts.paper_timeouts),
        percent(counts.paper_timeout_share),
        percent(counts.methods_differ)
    )
}

/// Where the retransmissions were captured, in words; nothing without any.
pub(crate) fn captured_at(report: &Report) -> Option<String> {
    let points = &report.capture_points;
    let parts = [
        (points.sender, "at their sender"),
        (points.middle, "between sender and receiver"),
        (points.receiver, "at their receiver"),
        (points.unknown, "at a place that is not known"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, place)| format!("{} {place}", thousands(*count))).collect();
    (!parts.is_empty()).then(|| format!("Captured {}", parts.join(", ")))
}

/// Of those whose original was lost before the capture point, in words; nothing without any.
pub(crate) fn lost_before(report: &Report) -> Option<String> {
    let ClassCounts { timeouts, fast, go_back_n } = report.original_lost_before;
    let all = timeouts + fast + go_back_n;
    (all > 0).then(|| {
        format!(
            "Besides, {} whose original was lost before the place of capture: {}, {} fast, {} go-back-N",
            thousands(all),
            counted(timeouts, "timeout"),
            thousands(fast),
            thousands(go_back_n)
        )
    })
}

/// Where the paper's boundary lies, in words.
pub(crate) fn boundary(grouping: &Grouping) -> String {
    match (grouping.threshold_round_trips, grouping.by) {
        (Some(threshold), _) => {
            format!("timeouts are intervals of more than {threshold:.1} round trips (by clustering)")
        }
        (None, "clustering") => {
            format!("timeouts are intervals above {:.1} ms (by clustering)", grouping.threshold_ms)
        }
        (None, "given") => {
            format!("timeouts are intervals above {:.1} ms (as you said)", grouping.threshold_ms)
        }
        (None, _) => {
            format!("timeouts are intervals above {:.1} ms and a round trip (fixed)", grouping.threshold_ms)
        }
    }
}

/// The first column to the left, numbers to the right.
fn table(headings: &[&str], rows: &[Vec<String>], out: &mut String) {
    out.push_str(&TextTable { headings, words: &[0], indent: 2 }.text(rows.iter().cloned()));
}

fn files(report: &Report, out: &mut String) {
    for file in &report.files {
        let _ = write!(out, "{}: ", file.name);
        let _ = match file.format {
            Some(format) => {
                write!(out, "{format}, {}, {}", counted(file.packets, "packet"), Bytes(file.bytes))
            }
            None => write!(out, "not read"),
        };
        let _ = match &file.error {
            Some(error) => writeln!(out, "; it {error}"),
            None => writeln!(out),
        };
    }
}

fn overview(report: &Report, out: &mut String) {
    let (packets, connections) = (&report.packets, &report.connections);
    let (sent_again, loss) = (&report.retransmissions, &report.loss);
    let unanswered = match connections.unanswered {
        0 => String::new(),
        some => format!(", {} of them never answered", thousands(some)),
    };
    let _ = writeln!(
        out,
        "\n{} of {} in {:.1} s; {}, {} with both directions, {} from their SYN on{unanswered}",
        counted(packets.tcp, "TCP packet"),
        thousands(packets.total),
        report.span_ms / 1e3,
        counted(connections.total, "connection"),
        thousands(connections.paired),
        thousands(connections.from_the_start)
    );
    let _ = writeln!(
        out,
        "{} ({} needless), {} more whose original was not captured; {} lost of {}: {}",
        counted(sent_again.seen_before, "retransmission"),
        thousands(sent_again.needless),
        thousands(sent_again.original_not_captured),
        thousands(loss.lost),
        thousands(loss.sent),
        percent(loss.rate)
    );
    out.push('\n');
    let row =
        |what: &str, here: Option<f64>, paper: &str| vec![what.to_owned(), percent(here), paper.to_owned()];
    let syn = crate::positions::share(sent_again.syn_timeouts, sent_again.syn);
    let rows = [
        row("timeouts among retransmissions", sent_again.timeout_share, "10.1%"),
        row("timeouts among retransmitted SYNs", syn, "over 70%"),
        row("connections that lost a SYN", Some(report.what_if[0].share), "2.6%"),
        row("grouped differently by Wireshark", sent_again.differs_from_wireshark, "about 3%"),
    ];
    table(&["", "here", "SLP paper"], &rows, out);
    let wireshark = &report.wireshark;
    let _ = writeln!(
        out,
        "\nAs Wireshark counts: {} ({} of them fast, {} spurious), {} out of order",
        counted(wireshark.retransmission + wireshark.fast + wireshark.spurious, "retransmission"),
        thousands(wireshark.fast),
        thousands(wireshark.spurious),
        thousands(wireshark.out_of_order)
    );
}

/// The classes, and how they were found.
fn classes(report: &Report, out: &mut String) {
    let counts = &report.retransmissions;
    let _ = writeln!(
        out,
        "\nOf {} {}, {} fast, {} go-back-N",
        counted(counts.analysed, "retransmission"),
        counted(counts.timeouts, "timeout"),
        thousands(counts.fast),
        thousands(counts.go_back_n)
    );
    let lines = [Some(method(report)), Some(beside(report)), captured_at(report), lost_before(report)];
    for line in lines.into_iter().flatten() {
        let _ = writeln!(out, "  {line}");
    }
}

fn grouping(report: &Report, out: &mut String) {
    let grouping = &report.grouping;
    let _ = writeln!(out, "\nThe paper's clusters: {}", boundary(grouping));
    for one in grouping.splits.iter().flatten() {
        let _ = writeln!(out, "  {}", split(one));
    }
    if let Some(differ) = grouping.scales_differ {
        let _ =
            writeln!(out, "  the linear and the logarithmic scale group {:.1}% differently", differ * 100.0);
    }
}

fn positions(report: &Report, out: &mut String) {
    for series in &report.positions {
        let _ = writeln!(out, "\nPosition: {}, {}", heading(series.heading), half(series.half));
        let points = series.points.iter().filter(|point| point.shown);
        let rows: Vec<Vec<String>> = points
            .take(POSITIONS_SHOWN)
            .map(|point| {
                vec![
                    point.index.to_string(),
                    thousands(point.retransmissions),
                    thousands(point.timeouts),
                    percent(point.timeout_share),
                ]
            })
            .collect();
        if rows.is_empty() {
            out.push_str("  fewer than 20 retransmissions at every index\n");
        } else {
            table(&["index", "retransmissions", "timeouts", "share"], &rows, out);
        }
    }
}

fn flags(report: &Report, out: &mut String) {
    out.push_str("\nFlags: those of at least 1% of the packets, SYN and FIN\n");
    let shown = report.flags.iter().filter(|category| category.shown);
    let rows: Vec<Vec<String>> = shown
        .map(|category| {
            vec![
                category.flags.clone(),
                percent(Some(category.packet_share)),
                thousands(category.retransmissions),
                thousands(category.timeouts),
                percent(category.timeout_share),
            ]
        })
        .collect();
    table(&["flags", "of packets", "retransmissions", "timeouts", "share"], &rows, out);
}

fn what_if(report: &Report, out: &mut String) {
    out.push_str("\nWhat if they had been sent twice? Completion times in s of connections that lost one\n");
    let mut rows = Vec::new();
    for what_if in &report.what_if {
        let name = variant(what_if.variant);
        let Some(table) = what_if.table else {
            rows.push([name, "none lost", "", "", "", "", "", ""].map(str::to_owned).to_vec());
            continue;
        };
        let mut row = |name: String, about: String, cells: [String; 5], saved: String| {
            rows.push([vec![name, about], cells.to_vec(), vec![saved]].concat());
        };
        let seconds = |times: [f64; 5]| times.map(|ms| format!("{:.2}", ms / 1e3));
        let about = format!("{} ({})", thousands(what_if.connections), percent(Some(what_if.share)));
        let saved = what_if.saved_mean_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
        row(name.to_owned(), about, seconds(table.with_ms), saved);
        row("  without".to_owned(), String::new(), seconds(table.without_ms), String::new());
        let reduction = table.reduction.map(|share| percent(Some(share)));
        row("  reduction".to_owned(), String::new(), reduction, String::new());
    }
    let headings = ["twice", "connections", "1%", "10%", "50%", "90%", "99%", "mean saved"];
    table(&headings, &rows, out);
}

/// What both forms of the report say of a class of packets: its name, how many were lost, timeouts,
/// the odds of the paper and here, duplicates, timeouts that these avoid.
pub(crate) fn verdict_cells(row: &VerdictRow) -> Vec<String> {
    vec![
        class(row.class).to_owned(),
        thousands(row.lost),
        thousands(row.timeouts),
        format!("{:.2}", row.odds),
        percent(row.timeout_share),
        thousands(row.duplicated),
        thousands(row.timeouts_avoided),
    ]
}

fn verdicts(report: &Report, out: &mut String) {
    let input = &report.arbiter;
    let _ = writeln!(
        out,
        "\nThe arbiter's verdict on lost packets: p = {:.2}% ({}), {} Mbit/s",
        input.loss * 100.0,
        input.loss_from,
        input.bandwidth_mbps
    );
    let rows: Vec<Vec<String>> = report
        .verdicts
        .iter()
        .map(|row| {
            let mut cells = verdict_cells(row);
            cells.push(thousands(row.window_full));
            cells
        })
        .collect();
    if rows.is_empty() {
        out.push_str("  nothing was lost\n");
        return;
    }
    let headings =
        ["lost", "packets", "timeouts", "q", "q here", "duplicated", "timeouts avoided", "no room"];
    table(&headings, &rows, out);
}
