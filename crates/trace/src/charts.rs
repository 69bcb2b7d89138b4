//! The pictures of the page: which axes, and what is drawn on them. How they are drawn is the crate
//! `figures`' business.

use figures::{Axis, Bars, Chart, Layer, NamedBar, percent, steps, whole};

use crate::{
    counted::thousands,
    intervals::{IntervalBar, Intervals},
    positions::{PositionSeries, Share},
    report::Report,
    retransmission::{Half, Heading},
    what_if::WhatIf,
};

/// How many series have a colour.
pub(crate) const SERIES: usize = 4;
/// The series of the boundary's line.
const BOUNDARY: usize = 3;
/// The width of a letter of a name, in pixels, and what is around it.
const LETTER: u32 = 10;
const AROUND: u32 = 14;

fn counted(value: f64) -> String {
    thousands(value.round() as u64)
}

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
        let shown: Vec<&Share> = one.points.iter().filter(|point| point.shown).collect();
        // A line leads from a position to the next, not across some that are not shown.
        let runs = shown.chunk_by(|a, b| a.index + 1 == b.index);
        let place = |point: &&Share| Some((f64::from(point.index), point.timeout_share?));
        let lines = runs.map(|run| Layer::Line { series, points: run.iter().filter_map(place).collect() });
        let dots = Layer::Dots { series, points: shown.iter().filter_map(place).collect() };
        lines.chain([dots]).collect::<Vec<_>>()
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
    let longest = shown.clone().map(|category| category.flags.len()).max().unwrap_or(0) as u32;
    Bars {
        label: "Share of timeouts by TCP flags",
        x: Axis::new("timeouts among retransmissions (%)", 0.0, 1.0).labelled(percent).with_labels(6),
        names: longest * LETTER + AROUND,
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

/// Series of what brought packets back, as [`intervals`] uses them.
pub(crate) const FAST: usize = 0;
pub(crate) const TIMEOUT: usize = 1;
pub(crate) const GO_BACK_N: usize = 2;

/// The intervals, what brought the packets back stacked upon each other, and where the boundary
/// lies, if there is one.
pub(crate) fn intervals(intervals: &Intervals) -> Chart<'static> {
    let bars = &intervals.bars;
    let ends = intervals.boundary.map_or((f64::INFINITY, 0.0), |boundary| (boundary / 2.0, boundary * 2.0));
    let least = bars.first().map_or(1.0, |bar| bar.from).min(ends.0).max(1e-4);
    let most = bars.last().map_or(10.0, |bar| bar.to).max(ends.1).max(least * 2.0);
    let count = |bar: &IntervalBar| bar.fast + bar.go_back_n + bar.timeouts;
    let highest = bars.iter().map(count).max().unwrap_or(1) as f64 * 1.05;
    let unit = if intervals.unit == "ms" { "interval (ms)" } else { "interval (round trips)" };
    let mut layers = Vec::new();
    for bar in bars {
        // The highest first, so that the others are drawn over it.
        let heights = [(TIMEOUT, count(bar)), (GO_BACK_N, bar.fast + bar.go_back_n), (FAST, bar.fast)];
        layers.extend(heights.into_iter().filter(|(_, height)| *height > 0).map(|(series, height)| {
            Layer::Bar { series, from: bar.from, to: bar.to, height: height as f64 }
        }));
    }
    if let Some(boundary) = intervals.boundary {
        layers.push(Layer::Line { series: BOUNDARY, points: vec![(boundary, 0.0), (boundary, highest)] });
    }
    Chart {
        label: "Histogram of retransmission intervals",
        x: Axis::new(unit, least * 0.8, most * 1.2).log().dense(),
        y: Axis::new("retransmissions", 0.0, highest).labelled(counted).with_area(76),
        layers,
    }
}

/// Which colours the positions use.
pub(crate) fn headings(report: &Report, half: Half) -> Vec<Heading> {
    let shown =
        |series: &&PositionSeries| series.half == half && series.points.iter().any(|point| point.shown);
    report.positions.iter().filter(shown).map(|series| series.heading).collect()
}
