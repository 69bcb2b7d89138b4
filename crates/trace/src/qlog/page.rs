//! The page: a chart for each thing that paths have, with one line for each path, which has the
//! same colour and dashes in all of them.

use askama::Template;
use figures::{
    Axis, Chart, Layer,
    page::{self, Html, details, figure, table_of},
    short,
};

use super::{
    QlogView,
    cells::{Summary, cells, ends},
    view::{MOST_PATHS, PathView, Totals},
};
use crate::counted::{counted, thousands};

/// Intervals of a rate.
const INTERVALS: usize = 120;

#[derive(Template)]
#[template(path = "qlog.html")]
struct Body<'a> {
    view: &'a QlogView,
    warnings: Vec<String>,
    coarseness: Option<String>,
    charts: Vec<Drawn>,
    totals: Html,
    reasons: Option<Html>,
    events: Html,
    version: &'static str,
}

/// A chart with the numbers behind it.
struct Drawn {
    heading: &'static str,
    chart: Html,
    numbers: Html,
}

impl Body<'_> {
    fn seconds(&self) -> String {
        format!("{:.3}", self.view.span_ms / 1e3)
    }

    fn records(&self) -> String {
        counted(self.view.records, "event")
    }
}

/// The whole page. Self-contained, without scripts.
pub fn qlog_page(view: &QlogView) -> String {
    let body = Html::of(&Body {
        view,
        warnings: warnings(view),
        coarseness: coarseness(view),
        charts: charts(view),
        totals: totals(view),
        reasons: (!view.reasons.is_empty()).then(|| reasons(view)),
        events: events(view),
        version: env!("CARGO_PKG_VERSION"),
    });
    page::page("mendpath qlog view", "What the paths of a connection did", &page::style(MOST_PATHS), &body)
}

fn warnings(view: &QlogView) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(view.last_record.clone());
    if view.left_out > 0 {
        warnings.push(format!("{} of further paths left out", counted(view.left_out, "event")));
    }
    if view.not_understood > 0 {
        warnings.push(format!("{} of other kinds left out", counted(view.not_understood, "event")));
    }
    let events = view.events.left_out();
    if events > 0 {
        let text = format!("{} not in the list, which says where", counted(events, "event"));
        warnings.push(text);
    }
    warnings
}

/// What of the charts is coarser than the trace.
fn coarseness(view: &QlogView) -> Option<String> {
    let of_path = |path: &PathView| {
        [&path.rtt, &path.window, &path.in_flight].map(super::thin::Samples::together).into_iter().max()
    };
    let together = view.paths.values().filter_map(of_path).max().unwrap_or(1);
    (together > 1).then(|| {
        format!(
            "There are more values than can be drawn: of up to {} that follow each other, the least and the greatest are drawn",
            thousands(together)
        )
    })
}

type Points = fn(&PathView, f64) -> Vec<(f64, f64)>;
type Drawing = (&'static str, &'static str, &'static str, Summary, Points);

/// Heading, the vertical axis, caption, how the table sums it up, and what is drawn. Times are in
/// ms until they are drawn.
static DRAWINGS: [Drawing; 7] = [
    ("Round-trip time", "round-trip time (ms)", "Smoothed, of each path.", Summary::Range, |path, _| {
        path.rtt.points()
    }),
    (
        "Congestion window",
        "window (kB)",
        "What the path's controller allows in flight.",
        Summary::Range,
        |path, _| scaled(held(&path.window.points()), 1e-3),
    ),
    (
        "Bytes in flight",
        "in flight (kB)",
        "Sent, and neither acknowledged nor declared lost.",
        Summary::Range,
        |path, _| scaled(held(&path.in_flight.points()), 1e-3),
    ),
    (
        "Goodput received",
        "goodput (Mbit/s)",
        "Bytes of streams from the peer, each counted once, on the path that brought it first.",
        Summary::Mean,
        |path, end| scaled(path.down.rates(end, INTERVALS), 8e-6),
    ),
    (
        "Goodput sent",
        "goodput (Mbit/s)",
        "Bytes of streams to the peer, each counted once, on the path that first carried it.",
        Summary::Mean,
        |path, end| scaled(path.up.rates(end, INTERVALS), 8e-6),
    ),
    ("Losses", "packets lost", "Packets of ours declared lost, added up.", Summary::Last, |path, end| {
        path.losses.running(end)
    }),
    (
        "Copies and repair symbols",
        "packets",
        "Packets of ours with copies or repair symbols, added up, on the path that carried them.",
        Summary::Last,
        |path, end| path.repairs.running(end),
    ),
];

fn scaled(points: Vec<(f64, f64)>, factor: f64) -> Vec<(f64, f64)> {
    points.into_iter().map(|(at, value)| (at, value * factor)).collect()
}

/// A value holds until the next.
fn held(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let steps = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    steps.chain(points.last().copied()).collect()
}

fn charts(view: &QlogView) -> Vec<Drawn> {
    let end = view.span_ms;
    DRAWINGS.iter().filter_map(|drawing| chart(view, drawing, end)).collect()
}

/// `None` if there is nothing but zeros.
fn chart(view: &QlogView, drawing: &Drawing, end: f64) -> Option<Drawn> {
    let &(heading, title, caption, summary, points) = drawing;
    let in_seconds = |(at, value): (f64, f64)| (at / 1e3, value);
    let lines: Vec<Vec<(f64, f64)>> =
        view.paths.values().map(|path| points(path, end).into_iter().map(in_seconds).collect()).collect();
    let most = lines.iter().flatten().map(|(_, value)| *value).fold(0.0_f64, f64::max);
    if most <= 0.0 || !most.is_finite() || !end.is_finite() {
        return None;
    }
    let names: Vec<String> = view.paths.keys().map(|id| format!("path {id}")).collect();
    let numbers = numbers(title, &names, &lines, summary, end / 1e3);
    let key: Vec<(usize, &str)> = names.iter().enumerate().map(|(i, name)| (i, name.as_str())).collect();
    let chart = Chart {
        label: heading,
        x: Axis::new("time (s)", 0.0, (end / 1e3).max(1e-6)),
        y: Axis::new(title, 0.0, most * 1.08).labelled(short).with_area(66),
        layers: lines
            .into_iter()
            .enumerate()
            .map(|(series, points)| Layer::Line { series, points })
            .collect(),
    };
    Some(Drawn { heading, chart: figure(caption, &key, &chart), numbers })
}

/// The table behind a chart.
fn numbers(title: &str, names: &[String], lines: &[Vec<(f64, f64)>], summary: Summary, end: f64) -> Html {
    let columns: Vec<Vec<String>> = lines.iter().map(|line| cells(line, summary, end)).collect();
    let headings: Vec<&str> = std::iter::once("up to (s)").chain(names.iter().map(String::as_str)).collect();
    let rows = ends(end).enumerate().map(|(row, until)| {
        let cells = columns.iter().map(|column| column[row].clone());
        std::iter::once(format!("{until:.2}")).chain(cells).collect()
    });
    let how = match summary {
        Summary::Range => "least and greatest value in each interval",
        Summary::Mean => "mean in each interval",
        Summary::Last => "at the end of each interval",
    };
    let name = format!("{title}: {how}");
    details(&format!("Numbers: {name}"), &table_of(&name, &headings, rows))
}

type Total = (&'static str, fn(&Totals) -> u64);

static TOTALS: [Total; 10] = [
    ("packets sent", |totals| totals.packets_sent),
    ("bytes sent", |totals| totals.bytes_sent),
    ("lost", |totals| totals.packets_lost),
    ("copies", |totals| totals.copies),
    ("repair symbols", |totals| totals.repairs),
    ("packets received", |totals| totals.packets_received),
    ("rebuilt here", |totals| totals.packets_rebuilt),
    ("goodput sent (bytes)", |totals| totals.stream_bytes_sent),
    ("goodput received (bytes)", |totals| totals.stream_bytes_received),
    ("probe timeouts", |totals| totals.probe_timeouts),
];

/// A column for each path, so that two fit a phone.
fn totals(view: &QlogView) -> Html {
    let names: Vec<String> = view.paths.keys().map(|id| format!("path {id}")).collect();
    let headings: Vec<&str> = std::iter::once("of").chain(names.iter().map(String::as_str)).collect();
    let row = |name: &str, cell: &dyn Fn(&Totals) -> String| {
        let cells = view.paths.values().map(|path| cell(&path.totals));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let rtt = |totals: &Totals| totals.smallest_rtt.map_or(String::new(), |rtt| format!("{rtt:.1}"));
    let rows = TOTALS.iter().map(|(name, of)| row(name, &|totals| thousands(of(totals))));
    table_of("Totals by path", &headings, rows.chain([row("smallest round trip (ms)", &rtt)]))
}

fn reasons(view: &QlogView) -> Html {
    let rows = view.reasons.iter().map(|(reason, count)| vec![reason.clone(), thousands(*count)]);
    table_of("What recovery did, and why", &["reason", "times"], rows)
}

fn events(view: &QlogView) -> Html {
    let rows = view.events.list().into_iter().map(|event| {
        let path = event.path.map_or(String::new(), |path| path.to_string());
        vec![format!("{:.3}", event.at_ms / 1e3), path, event.text]
    });
    table_of("Events", &["time (s)", "path", "event"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_qlog;

    fn trace(updates: u32) -> String {
        let head = r#"{"trace":{"common_fields":{"group_id":"0a"},"vantage_point":{"type":"client"}}}"#;
        let update = |n: u32| {
            let rtt = if n == 77 { 900 } else { 50 };
            format!(
                "\u{1e}{{\"time\":{n},\"name\":\"quic:recovery_metrics_updated\",\"data\":{{\"path_id\":0,\"smoothed_rtt\":{rtt}}}}}\n"
            )
        };
        std::iter::once(format!("\u{1e}{head}\n")).chain((0..updates).map(update)).collect()
    }

    #[test]
    fn charts_have_their_numbers_and_say_when_they_are_coarser() {
        let page = |updates| qlog_page(&read_qlog(trace(updates).as_bytes()).unwrap());
        let coarse = "the least and the greatest are drawn";
        assert!(!page(900).contains(coarse));
        let page = page(10_000);
        assert!(page.contains("of up to 16 that follow each other") && page.contains(coarse));
        assert!(page.contains("<td>50 to 900</td>"), "the peak is in the table");
        assert!(page.contains("<th scope=\"col\">path 0</th>"));
    }
}
