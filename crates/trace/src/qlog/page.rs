//! The page: a chart for each thing that paths have, with one line for each path, which has the same
//! colour and dashes in all of them.

use askama::Template;
use figures::{
    Axis, Chart, Layer,
    page::{self, Html, figure, table},
    short,
};

use super::{
    QlogView,
    view::{MOST_PATHS, PathView},
};
use crate::text::thousands;

/// Intervals of a rate.
const INTERVALS: usize = 120;

#[derive(Template)]
#[template(path = "qlog.html")]
struct Body<'a> {
    view: &'a QlogView,
    warnings: Vec<String>,
    charts: Vec<(&'static str, Html)>,
    totals: Html,
    reasons: Option<Html>,
    events: Html,
    version: &'static str,
}

impl Body<'_> {
    fn seconds(&self) -> String {
        format!("{:.3}", self.view.span_ms / 1e3)
    }

    fn records(&self) -> String {
        thousands(self.view.records)
    }
}

/// The whole page. Self-contained, without scripts.
pub fn qlog_page(view: &QlogView) -> String {
    let body = Html::of(&Body {
        view,
        warnings: warnings(view),
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
    if view.truncated {
        warnings.push("The last record was cut off and is left out".to_owned());
    }
    if view.left_out > 0 {
        warnings.push(format!("{} events of further paths are left out", thousands(view.left_out)));
    }
    if view.not_understood > 0 {
        warnings.push(format!("{} events are of other kinds and left out", thousands(view.not_understood)));
    }
    warnings
}

type Points = fn(&PathView, f64) -> Vec<(f64, f64)>;
type Drawing = (&'static str, &'static str, &'static str, Points);

/// Heading, the vertical axis, caption, and what is drawn. Times are in ms until they are drawn.
static DRAWINGS: [Drawing; 7] = [
    ("Round-trip time", "round-trip time (ms)", "Smoothed, of each path.", |path, _| path.rtt.points()),
    ("Congestion window", "window (kB)", "What the path's controller allows in flight.", |path, _| {
        scaled(held(&path.window.points()), 1e-3)
    }),
    ("Bytes in flight", "in flight (kB)", "Sent, and neither acknowledged nor declared lost.", |path, _| {
        scaled(held(&path.in_flight.points()), 1e-3)
    }),
    (
        "Goodput received",
        "goodput (Mbit/s)",
        "Bytes of streams from the peer, each counted once, on the path that brought it first.",
        |path, end| scaled(path.down.rates(end, INTERVALS), 8e-6),
    ),
    (
        "Goodput sent",
        "goodput (Mbit/s)",
        "Bytes of streams to the peer, each counted once, on the path that first carried it.",
        |path, end| scaled(path.up.rates(end, INTERVALS), 8e-6),
    ),
    ("Losses", "packets lost", "Packets of ours declared lost, added up.", |path, end| {
        path.losses.running(end)
    }),
    (
        "Copies and repair symbols",
        "packets",
        "Packets of ours with copies or repair symbols, added up, on the path that carried them.",
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

fn charts(view: &QlogView) -> Vec<(&'static str, Html)> {
    let end = view.span_ms;
    DRAWINGS.iter().filter_map(|drawing| Some((drawing.0, chart(view, drawing, end)?))).collect()
}

/// `None` if there is nothing but zeros.
fn chart(view: &QlogView, (label, title, caption, points): &Drawing, end: f64) -> Option<Html> {
    let (mut layers, mut most) = (Vec::new(), 0.0_f64);
    for (series, path) in view.paths.values().enumerate() {
        let line: Vec<_> = points(path, end).into_iter().map(|(at, value)| (at / 1e3, value)).collect();
        most = line.iter().map(|(_, value)| *value).fold(most, f64::max);
        layers.push(Layer::Line { series, points: line });
    }
    if most <= 0.0 || !most.is_finite() || !end.is_finite() {
        return None;
    }
    let names: Vec<String> = view.paths.keys().map(|id| format!("path {id}")).collect();
    let key: Vec<(usize, &str)> = names.iter().enumerate().map(|(i, name)| (i, name.as_str())).collect();
    let chart = Chart {
        label,
        x: Axis::new("time (s)", 0.0, (end / 1e3).max(1e-6)),
        y: Axis::new(title, 0.0, most * 1.08).labelled(short).with_area(66),
        layers,
    };
    Some(figure(caption, &key, &chart))
}

fn totals(view: &QlogView) -> Html {
    let headings = [
        "path",
        "packets sent",
        "bytes sent",
        "lost",
        "copies",
        "repair symbols",
        "packets received",
        "rebuilt here",
        "goodput sent (bytes)",
        "goodput received (bytes)",
        "probe timeouts",
        "smallest round trip (ms)",
    ];
    let rows = view.paths.iter().map(|(id, path)| {
        let t = &path.totals;
        let counts = [
            t.packets_sent,
            t.bytes_sent,
            t.packets_lost,
            t.copies,
            t.repairs,
            t.packets_received,
            t.packets_rebuilt,
            t.stream_bytes_sent,
            t.stream_bytes_received,
            t.probe_timeouts,
        ];
        let rtt = t.smallest_rtt.map_or(String::new(), |rtt| format!("{rtt:.1}"));
        std::iter::once(id.to_string()).chain(counts.map(thousands)).chain([rtt]).collect()
    });
    table(&headings, rows)
}

fn reasons(view: &QlogView) -> Html {
    let rows = view.reasons.iter().map(|(reason, count)| vec![reason.clone(), thousands(*count)]);
    table(&["reason", "times"], rows)
}

fn events(view: &QlogView) -> Html {
    let more = (view.events_left_out > 0)
        .then(|| vec![String::new(), String::new(), format!("and {} more", thousands(view.events_left_out))]);
    let rows = view.events.iter().map(|event| {
        let path = event.path.map_or(String::new(), |path| path.to_string());
        vec![format!("{:.3}", event.at_ms / 1e3), path, event.text.clone()]
    });
    table(&["time (s)", "path", "event"], rows.chain(more))
}
