//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use crate::{
    charts::{self, SIZES, Size},
    report::Report,
    retransmission::Half,
    text::{self, percent},
    what_if::WhatIf,
};

const STYLE: &str = ":root{color-scheme:light dark;--bg:#fff;--fg:#1c1c1c;--soft:#5c5c5c;--grid:#ddd;--c0:#1a5fb4;--c1:#b3261e;--c2:#6b6b6b}\
    @media(prefers-color-scheme:dark){:root{--bg:#15181b;--fg:#ececec;--soft:#a9b0b6;--grid:#33393e;--c0:#8ab8ff;--c1:#ff8a80;--c2:#a8a8a8}}\
    body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}\
    main{max-width:60rem;margin:0 auto;padding:1rem}h1{font-size:1.5rem;line-height:1.2;margin:.5rem 0}\
    h2{font-size:1.1rem;margin:1.75rem 0 .5rem}p{max-width:42rem}figure{margin:1rem 0}\
    figcaption,.note{color:var(--soft);font-size:.875rem;max-width:42rem}.warn{border-left:4px solid var(--c1);padding-left:.75rem}\
    svg{display:block;width:100%;height:auto;max-width:60rem}.narrow{display:none}\
    svg text{fill:var(--fg);font-family:system-ui,sans-serif}svg .axis{stroke:var(--soft)}svg .grid{stroke:var(--grid)}\
    svg .line,.key line{fill:none;stroke-width:2}.s0{stroke:var(--c0)}.s1{stroke:var(--c1);stroke-dasharray:8 3}\
    .s2{stroke:var(--c2);stroke-dasharray:3 3}.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}\
    .key{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0;font-size:.875rem}\
    .key svg{display:inline-block;width:2.2rem;height:.7rem;vertical-align:middle;margin-right:.4rem}\
    .scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
    th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}\
    th:first-child,td:first-child{text-align:left}\
    @media(max-width:560px){.wide{display:none}.narrow{display:block}th,td{padding:.3rem .35rem;font-size:.8rem}}";

/// The page: the paper's kinds of figures from this trace, and the numbers. Self-contained.
pub fn html(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>mendpath trace</title>\n<style>{STYLE}</style></head><body><main>\n<h1>Which lost packets cost a timeout?</h1>\n"
    );
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
    out += "</main></body></html>\n";
    out
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

/// A picture in both sizes, with its key and caption.
fn figure(out: &mut String, caption: &str, key: &[(usize, &str)], draw: impl Fn(Size) -> String) {
    out.push_str("<figure>");
    for size in SIZES {
        out.push_str(&draw(size));
    }
    if !key.is_empty() {
        out.push_str("<ul class=\"key\">");
        for (series, name) in key {
            let _ = write!(
                out,
                "<li><svg viewBox=\"0 0 44 10\" aria-hidden=\"true\"><line class=\"line s{series}\" x1=\"0\" y1=\"5\" x2=\"44\" y2=\"5\"/></svg>{name}</li>"
            );
        }
        out.push_str("</ul>");
    }
    let _ = writeln!(out, "<figcaption>{caption}</figcaption></figure>");
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
        |size| charts::intervals(&report.grouping, size),
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
        figure(out, &caption, &key, |size| charts::positions(report, half, size));
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
        figure(out, caption, &[], |size| charts::flags(report, size));
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
        figure(out, &caption, &key, |size| charts::completion(what_if, size));
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

fn table(out: &mut String, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for heading in headings {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
