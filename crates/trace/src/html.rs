//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's
//! width on.

use askama::Template;
use figures::page::{self, Html, figure, table};

use crate::{
    charts::{self, SERIES},
    counted::{counted, thousands},
    report::Report,
    retransmission::Half,
    text::{self, percent},
    what_if::WhatIf,
};

#[derive(Template)]
#[template(path = "report.html")]
struct Body<'a> {
    report: &'a Report,
    seconds: f64,
    /// Nothing without TCP in the captures.
    tcp: Option<Tcp>,
}

/// What is said of TCP's packets: figures, tables, and words for them.
struct Tcp {
    method: Vec<String>,
    intervals: Option<Html>,
    boundary: String,
    splits: Vec<String>,
    /// What the tables count, if it is not everything.
    sample: Option<String>,
    positions: Vec<Html>,
    flags: Option<Html>,
    flags_table: Html,
    what_if: Vec<Html>,
    what_if_table: Html,
    loss_percent: f64,
    verdicts: Html,
}

/// The page: the paper's kinds of figures from this trace, and the numbers. Self-contained.
pub fn html(report: &Report) -> String {
    let tcp = (!report.has_no_tcp()).then(|| Tcp::new(report));
    let body = Html::of(&Body { report, seconds: report.span_ms / 1e3, tcp });
    page::page("mendpath trace", "Which lost packets cost a timeout?", &page::style(SERIES), &body)
}

impl Body<'_> {
    fn thousands(&self, number: &u64) -> String {
        thousands(*number)
    }

    fn counted(&self, number: &u64, what: &str) -> String {
        counted(*number, what)
    }

    fn loss_rate(&self) -> String {
        percent(self.report.loss.rate)
    }

    fn timeout_share(&self) -> String {
        percent(self.report.retransmissions.timeout_share)
    }
}

impl Tcp {
    fn new(report: &Report) -> Self {
        Self {
            method: [
                Some(text::method(report)),
                Some(text::beside(report)),
                text::captured_at(report),
                text::lost_before(report),
            ]
            .into_iter()
            .flatten()
            .collect(),
            intervals: intervals(report),
            boundary: text::boundary(&report.grouping),
            sample: sample(report),
            splits: report.grouping.splits.iter().flatten().map(text::split).collect(),
            positions: [(Half::First, "start"), (Half::Second, "end")]
                .into_iter()
                .filter_map(|(half, end)| positions(report, half, end))
                .collect(),
            flags: flags(report),
            flags_table: flags_table(report),
            what_if: report.what_if.iter().filter_map(completion).collect(),
            what_if_table: what_if_table(report),
            loss_percent: report.arbiter.loss * 100.0,
            verdicts: verdicts(report),
        }
    }
}

/// Shares rest on a sample where there is too much to keep; counts must be of the same.
fn sample(report: &Report) -> Option<String> {
    let counts = &report.retransmissions;
    (counts.analysed < counts.seen_before).then(|| {
        format!(
            "Retransmissions are counted in a uniform sample of {} of {}",
            thousands(counts.analysed),
            thousands(counts.seen_before)
        )
    })
}

fn intervals(report: &Report) -> Option<Html> {
    let intervals = &report.intervals;
    let mut caption =
        "Time from a packet to its retransmission, in bars that are stacked upon each other.".to_owned();
    if intervals.boundary.is_some() {
        caption += " Right of the line are timeouts.";
    }
    if intervals.left_out > 0 {
        caption += &format!(
            " Not shown: {} of connections without a known round trip.",
            counted(intervals.left_out, "retransmission")
        );
    }
    let counts = &report.retransmissions;
    let mut key = vec![(charts::FAST, "fast"), (charts::TIMEOUT, "timeouts")];
    if counts.go_back_n > 0 {
        key.push((charts::GO_BACK_N, "go-back-N"));
    }
    (!intervals.bars.is_empty()).then(|| figure(&caption, &key, &charts::intervals(intervals)))
}

fn positions(report: &Report, half: Half, end: &str) -> Option<Html> {
    let headings = charts::headings(report, half);
    let key: Vec<(usize, &str)> =
        headings.iter().map(|&heading| (heading as usize, text::heading(heading))).collect();
    let caption = format!(
        "Share of timeouts among the retransmissions of the n-th packet from the {end} of one direction of a connection. Only \
         indices with at least 20 retransmissions."
    );
    (!key.is_empty()).then(|| figure(&caption, &key, &charts::positions(report, half)))
}

fn flags(report: &Report) -> Option<Html> {
    let caption = "Share of timeouts among the retransmissions of packets with these flags. Only flags of at least 1% of the packets, SYN and FIN.";
    let any = report.flags.iter().any(|category| category.shown);
    any.then(|| figure(caption, &[], &charts::flags(report)))
}

fn flags_table(report: &Report) -> Html {
    let rows = report.flags.iter().filter(|category| category.retransmissions > 0).map(|category| {
        vec![
            category.flags.clone(),
            thousands(category.packets),
            percent(Some(category.packet_share)),
            thousands(category.retransmissions),
            thousands(category.timeouts),
            percent(category.timeout_share),
        ]
    });
    table(&["flags", "packets", "share", "sent again", "timeouts", "of them"], rows)
}

fn completion(what_if: &WhatIf) -> Option<Html> {
    what_if.table?;
    let caption = format!(
        "Completion times of the {} connections ({}) that lost a packet of the kind {}. It is assumed that the duplicates, {} \
         packets, arrive.",
        thousands(what_if.connections),
        percent(Some(what_if.share)),
        text::variant(what_if.variant),
        thousands(what_if.duplicates)
    );
    let key = [(0, "as captured"), (1, "with duplicates")];
    Some(figure(&caption, &key, &charts::completion(what_if)))
}

fn what_if_table(report: &Report) -> Html {
    let rows = report.what_if.iter().flat_map(what_if_rows);
    table(&["sent twice", "lost one", "1%", "10%", "50%", "90%", "99%", "mean saved"], rows)
}

fn what_if_rows(what_if: &WhatIf) -> Vec<Vec<String>> {
    let name = text::variant(what_if.variant);
    let Some(table) = what_if.table else {
        let mut row = vec![name.to_owned(), "none".to_owned()];
        row.resize(8, String::new());
        return vec![row];
    };
    let row = |first: String, about: String, cells: [String; 5], last: String| {
        [vec![first, about], cells.to_vec(), vec![last]].concat()
    };
    let seconds = |times: [f64; 5]| times.map(|ms| format!("{:.2}", ms / 1e3));
    let saved = what_if.saved_mean_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
    vec![
        row(name.to_owned(), thousands(what_if.connections), seconds(table.with_ms), saved),
        row("without".to_owned(), String::new(), seconds(table.without_ms), String::new()),
        row("reduction".to_owned(), String::new(), table.reduction.map(|r| percent(Some(r))), String::new()),
    ]
}

fn verdicts(report: &Report) -> Html {
    let rows = report.verdicts.iter().map(text::verdict_cells);
    table(&["packets", "lost", "timeouts", "q", "q here", "duplicated", "timeouts avoided"], rows)
}
