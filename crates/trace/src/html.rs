//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use figures::page::{self, escape, figure, table};

use crate::{
    charts::{self, SERIES},
    report::Report,
    retransmission::Half,
    text::{self, percent},
    what_if::WhatIf,
};

/// The page: the paper's kinds of figures from this trace, and the numbers. Self-contained.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    lead(report, &mut out);
    warnings(report, &mut out);
    if !report.has_no_tcp() {
        grouping(report, &mut out);
        positions(report, &mut out);
        flags(report, &mut out);
        what_if(report, &mut out);
        verdicts(report, &mut out);
    }
    sources(report, &mut out);
    page::page("mendpath trace", "Which lost packets cost a timeout?", &page::style(SERIES), &out)
}

fn lead(report: &Report, out: &mut String) {
    if report.has_no_tcp() {
        out.push_str("<p>There is no TCP in what could be read: nothing to analyse.</p>\n");
        return;
    }
    let (counts, loss) = (&report.retransmissions, &report.loss);
    let _ = writeln!(
        out,
        "<p>{} connections sent {} packets that would be retransmitted if lost; {} were lost ({}). Of {} retransmissions, {} waited \
         for a timeout ({}; in the SLP paper 10.1%).</p>",
        report.connections.total,
        loss.sent,
        loss.lost,
        percent(loss.rate),
        counts.analysed,
        counts.timeouts,
        percent(counts.timeout_share)
    );
}

fn warnings(report: &Report, out: &mut String) {
    if report.warnings.is_empty() {
        return;
    }
    out.push_str("<div class=\"warn\"><p>Bear in mind:</p><ul>");
    for warning in &report.warnings {
        let _ = write!(out, "<li>{}.</li>", escape(warning));
    }
    out.push_str("</ul></div>\n");
}

fn grouping(report: &Report, out: &mut String) {
    out.push_str("<h2>Timeouts and fast retransmissions</h2>\n");
    let _ = writeln!(out, "<p>{}.</p>", escape(&text::boundary(&report.grouping)));
    if report.grouping.histogram.is_empty() {
        return;
    }
    figure(
        out,
        "Time from a packet to its retransmission. The dotted line is the boundary: left of it fast retransmissions, right of it timeouts.",
        &[],
        &charts::intervals(&report.grouping),
    );
    out.push_str("<ul class=\"note\">");
    for split in report.grouping.splits.iter().flatten() {
        let _ = write!(out, "<li>{}</li>", escape(&text::split(split)));
    }
    out.push_str("</ul>\n");
}

fn positions(report: &Report, out: &mut String) {
    out.push_str("<h2>By position in the connection</h2>\n");
    let mut drawn = false;
    for (half, end) in [(Half::First, "start"), (Half::Second, "end")] {
        let headings = charts::headings(report, half);
        if headings.is_empty() {
            continue;
        }
        drawn = true;
        let key: Vec<(usize, &str)> =
            headings.iter().map(|&heading| (heading as usize, text::heading(heading))).collect();
        let caption = format!(
            "Share of timeouts among the retransmissions of the n-th packet from the {end} of one direction of a connection. Only \
             indices with at least 20 retransmissions."
        );
        figure(out, &caption, &key, &charts::positions(report, half));
    }
    if !drawn {
        out.push_str(
            "<p class=\"note\">At no position are there 20 retransmissions, the least that is drawn.</p>\n",
        );
    }
}

fn flags(report: &Report, out: &mut String) {
    out.push_str("<h2>By TCP flags</h2>\n");
    if report.flags.iter().any(|category| category.shown) {
        let caption = "Share of timeouts among the retransmissions of packets with these flags. Only flags of at least 1% of the packets.";
        figure(out, caption, &[], &charts::flags(report));
    }
    let rows = report.flags.iter().filter(|category| category.retransmissions > 0).map(|category| {
        vec![
            category.flags.clone(),
            category.packets.to_string(),
            percent(Some(category.packet_share)),
            category.retransmissions.to_string(),
            category.timeouts.to_string(),
            percent(category.timeout_share),
        ]
    });
    let headings = ["flags", "packets", "share", "retransmissions", "timeouts", "share of timeouts"];
    table(out, &headings, rows);
}

fn what_if(report: &Report, out: &mut String) {
    out.push_str("<h2>What if they had been sent twice?</h2>\n");
    for what_if in &report.what_if {
        let name = text::variant(what_if.variant);
        if what_if.table.is_none() {
            continue;
        }
        let caption = format!(
            "Completion times of the {} connections ({}) that lost a packet of the kind {name}. It is assumed that the duplicates, {} \
             packets, arrive.",
            what_if.connections,
            percent(Some(what_if.share)),
            what_if.duplicates
        );
        let key = [(0, "as captured"), (1, "with duplicates")];
        figure(out, &caption, &key, &charts::completion(what_if));
    }
    let rows = report.what_if.iter().flat_map(what_if_rows);
    let headings = ["sent twice", "connections", "1%", "10%", "50%", "90%", "99%", "mean saved"];
    table(out, &headings, rows);
    out.push_str(
        "<p class=\"note\">Percentiles of the completion time in s, as in table I of the SLP paper.</p>\n",
    );
}

fn what_if_rows(what_if: &WhatIf) -> Vec<Vec<String>> {
    let name = text::variant(what_if.variant);
    let Some(table) = what_if.table else {
        let mut row = vec![name.to_owned(), "none lost one".to_owned()];
        row.resize(8, String::new());
        return vec![row];
    };
    let row = |first: String, about: String, cells: [String; 5], last: String| {
        [vec![first, about], cells.to_vec(), vec![last]].concat()
    };
    let seconds = |times: [f64; 5]| times.map(|ms| format!("{:.2}", ms / 1e3));
    let saved = what_if.saved_mean_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
    vec![
        row(name.to_owned(), what_if.connections.to_string(), seconds(table.with_ms), saved),
        row("without".to_owned(), String::new(), seconds(table.without_ms), String::new()),
        row("reduction".to_owned(), String::new(), table.reduction.map(|r| percent(Some(r))), String::new()),
    ]
}

fn verdicts(report: &Report, out: &mut String) {
    let input = &report.arbiter;
    let _ = writeln!(
        out,
        "<h2>The arbiter's verdict on lost packets</h2>\n<p>Duplicate if p q RTO is at least (1 - p) size / bandwidth, with p = {:.2}% ({}) and \
         {} Mbit/s.</p>",
        input.loss * 100.0,
        input.loss_from,
        input.bandwidth_mbps
    );
    let rows = report.verdicts.iter().map(|row| {
        vec![
            text::class(row.class).to_owned(),
            row.lost.to_string(),
            row.timeouts.to_string(),
            format!("{:.2}", row.odds),
            percent(row.timeout_share),
            row.duplicated.to_string(),
            row.timeouts_avoided.to_string(),
        ]
    });
    let headings = ["packets", "lost", "timeouts", "q", "q here", "duplicated", "timeouts avoided"];
    table(out, &headings, rows);
}

fn sources(report: &Report, out: &mut String) {
    out.push_str("<h2>What was read</h2>\n<ul>");
    for file in &report.files {
        let _ = write!(out, "<li>{}: {} packets</li>", escape(&file.name), file.packets);
    }
    let _ = writeln!(
        out,
        "</ul>\n<p class=\"note\">{} TCP packets of {} in {:.1} s. mendpath {}.</p>",
        report.packets.tcp,
        report.packets.total,
        report.span_ms / 1e3,
        escape(report.version)
    );
}
