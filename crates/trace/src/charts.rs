//! The pictures of the page: which axes, and what is drawn on them. How they are drawn is the crate
//! `figures`' business.

use figures::{Axis, Bars, Chart, Layer, NamedBar, percent, steps, whole};

use crate::{
    grouping::Grouping,
    positions::PositionSeries,
    report::Report,
    retransmission::{Half, Heading},
    what_if::WhatIf,
};

/// How many series have a colour.
pub(crate) const SERIES: usize = 3;

/// Timeouts among retransmissions by position: figures 1 and 2.
pub(crate) fn positions(report: &Report, half: Half) -> Chart<'static> {
    let series: Vec<&PositionSeries> = report.positions.iter().filter(|series| series.half == half).collect();
    let shown = series.iter().flat_map(|series| &series.points).filter(|point| point.shown);
    let furthest = shown.map(|point| point.index).max().unwrap_or(1).max(10);
    let title = match half {
        Half::First => "packet from the start",
        Half::Second => "packet from the end",
    };
    let layers = series.iter().flat_map(|one| {
        let series = one.heading as usize;
        let shown = one.points.iter().filter(|point| point.shown);
        let points: Vec<(f64, f64)> =
            shown.filter_map(|point| Some((f64::from(point.index), point.timeout_share?))).collect();
        [Layer::Line { series, points: points.clone() }, Layer::Dots { series, points }]
    });
    Chart {
        label: "Share of timeouts by position",
        x: Axis::new(title, 0.5, f64::from(furthest) + 0.5).labelled(whole),
        y: Axis::new("timeouts (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        layers: layers.collect(),
    }
}

/// Timeouts among retransmissions by flags: figures 3 and 4.
pub(crate) fn flags(report: &Report) -> Bars<'_> {
    let shown = report.flags.iter().filter(|category| category.shown);
    Bars {
        label: "Share of timeouts by TCP flags",
        x: Axis::new("timeouts among retransmissions (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        names: 92,
        bars: shown
            .map(|category| NamedBar {
                name: category.flags.as_str(),
                series: 0,
                value: category.timeout_share.unwrap_or(0.0),
                between: None,
            })
            .collect(),
    }
}

/// Completion times as captured and with duplicates.
pub(crate) fn completion(what_if: &WhatIf) -> Chart<'static> {
    let all = || what_if.curve.iter().flatten().copied().map(|ms| ms / 1e3);
    let least = all().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e6);
    let most = all().fold(0.0, f64::max).clamp(least * 2.0, 1e9);
    let layers = what_if.curve.iter().enumerate().map(|(series, times)| {
        let seconds: Vec<f64> = times.iter().map(|ms| (ms / 1e3).max(least * 0.9)).collect();
        Layer::Line { series, points: steps(&seconds) }
    });
    Chart {
        label: "Distribution of completion times",
        x: Axis::new("completion time (s)", least * 0.9, most * 1.1).log().dense(),
        y: Axis::new("connections (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        layers: layers.collect(),
    }
}

/// The intervals, and where the threshold lies.
pub(crate) fn intervals(grouping: &Grouping) -> Chart<'static> {
    let threshold = grouping.threshold_round_trips.unwrap_or(grouping.threshold_ms);
    let bars = &grouping.histogram;
    let least = bars.first().map_or(threshold / 2.0, |bar| bar.0).min(threshold / 2.0).max(1e-4);
    let most = bars.last().map_or(threshold * 2.0, |bar| bar.1).max(threshold * 2.0);
    let highest = bars.iter().map(|bar| bar.2).max().unwrap_or(1) as f64 * 1.05;
    let unit =
        if grouping.threshold_round_trips.is_some() { "interval (round trips)" } else { "interval (ms)" };
    let bar = |&(from, to, count): &(f64, f64, u64)| Layer::Bar {
        series: usize::from(from >= threshold),
        from,
        to,
        height: count as f64,
    };
    let mut layers: Vec<Layer> = bars.iter().map(bar).collect();
    layers.push(Layer::Line { series: 2, points: vec![(threshold, 0.0), (threshold, highest)] });
    Chart {
        label: "Histogram of retransmission intervals",
        x: Axis::new(unit, least, most).log(),
        y: Axis::new("retransmissions", 0.0, highest).labelled(whole).with_area(64),
        layers,
    }
}

/// Which colours the positions use.
pub(crate) fn headings(report: &Report, half: Half) -> Vec<Heading> {
    let shown =
        |series: &&PositionSeries| series.half == half && series.points.iter().any(|point| point.shown);
    report.positions.iter().filter(shown).map(|series| series.heading).collect()
}
