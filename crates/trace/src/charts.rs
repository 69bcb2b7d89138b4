//! The pictures of the page, drawn by plotters into SVG. Colours are stand-ins that the page's styles replace, so that it
//! works on light and dark backgrounds.

use plotters::{coord::ranged1d::SegmentValue, prelude::*};

use crate::{
    grouping::Grouping,
    positions::PositionSeries,
    report::Report,
    retransmission::{Half, Heading},
    what_if::WhatIf,
};

const AXIS: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(1, 2, 4);
const TEXT: RGBColor = RGBColor(1, 2, 5);
/// How many series have a colour.
pub(crate) const SERIES: usize = 3;

const fn line(series: usize) -> RGBColor {
    RGBColor(9, 9, series as u8)
}

const fn fill(series: usize) -> RGBColor {
    RGBColor(10, 10, series as u8)
}

/// A picture is drawn twice, for wide and for narrow screens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    class: &'static str,
    width: u32,
    height: u32,
    text: i32,
    labels: usize,
}

/// Both sizes.
pub(crate) const SIZES: [Size; 2] = [
    Size { class: "wide", width: 960, height: 340, text: 17, labels: 10 },
    Size { class: "narrow", width: 340, height: 280, text: 15, labels: 5 },
];

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws with `draw` and puts the page's classes in the place of the stand-ins. `label` describes the picture.
fn picture(label: &str, size: Size, draw: impl FnOnce(&mut String) -> Drawn) -> String {
    let mut svg = String::new();
    let drawn = draw(&mut svg);
    debug_assert!(drawn.is_ok(), "drawing into a string cannot fail: {drawn:?}");
    let hex = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
    for (colour, name) in [(AXIS, "axis"), (GRID, "grid")] {
        svg = svg.replace(&format!("stroke=\"{}\"", hex(colour)), &format!("class=\"{name}\""));
    }
    svg = svg.replace(&format!(" fill=\"{}\"", hex(TEXT)), "");
    for series in 0..SERIES {
        let (stroke, area) = (hex(line(series)), hex(fill(series)));
        svg = svg.replace(&format!("stroke=\"{stroke}\""), &format!("class=\"line s{series}\""));
        svg = svg.replace(&format!("fill=\"{area}\" stroke=\"none\""), &format!("class=\"f{series}\""));
    }
    let start = svg.find("<svg").unwrap_or(0);
    let class = size.class;
    svg[start..].replacen("<svg ", &format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{label}\" "), 1)
}

/// Timeouts among retransmissions by position: figures 1 and 2.
pub(crate) fn positions(report: &Report, half: Half, size: Size) -> String {
    let series: Vec<&PositionSeries> = report.positions.iter().filter(|series| series.half == half).collect();
    let shown = series.iter().flat_map(|series| &series.points).filter(|point| point.shown);
    let furthest = shown.map(|point| point.index).max().unwrap_or(1).max(10);
    picture("Share of timeouts by position", size, |svg| {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(14)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d(0.5..f64::from(furthest) + 0.5, 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc(match half {
                Half::First => "packet from the start",
                Half::Second => "packet from the end",
            })
            .y_desc("timeouts (%)")
            .axis_desc_style(text.clone())
            .label_style(text)
            .x_labels(size.labels)
            .y_labels(5)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&percent)
            .draw()?;
        for series in series {
            let colour = series.heading as usize;
            let points: Vec<(f64, f64)> = series
                .points
                .iter()
                .filter(|point| point.shown)
                .filter_map(|point| Some((f64::from(point.index), point.timeout_share?)))
                .collect();
            chart.draw_series(LineSeries::new(points.clone(), line(colour).stroke_width(2)))?;
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, fill(colour).filled())))?;
        }
        root.present()?;
        Ok(())
    })
}

/// Timeouts among retransmissions by flags: figures 3 and 4.
pub(crate) fn flags(report: &Report, size: Size) -> String {
    let shown: Vec<_> = report.flags.iter().filter(|category| category.shown).collect();
    let rows = shown.len().max(1);
    let height = 70 + 34 * rows as u32;
    let size = Size { height, ..size };
    let name = |value: &SegmentValue<usize>| match value {
        SegmentValue::CenterOf(i) if *i > 0 => {
            shown.get(rows - i).map_or(String::new(), |category| category.flags.clone())
        }
        _ => String::new(),
    };
    picture("Share of timeouts by TCP flags", size, |svg| {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(42)
            .y_label_area_size(92)
            .build_cartesian_2d(0.0..1.0, (1..rows).into_segmented())?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc("timeouts among retransmissions (%)")
            .axis_desc_style(text.clone())
            .label_style(text)
            .x_labels(5)
            .y_labels(rows + 1)
            .x_label_formatter(&percent)
            .y_label_formatter(&name)
            .draw()?;
        for (i, category) in shown.iter().enumerate() {
            let row = rows - i;
            let share = category.timeout_share.unwrap_or(0.0);
            let corners = [(0.0, SegmentValue::Exact(row)), (share, SegmentValue::Exact(row + 1))];
            let mut bar = Rectangle::new(corners, fill(0).filled());
            bar.set_margin(5, 5, 0, 0);
            chart.draw_series([bar])?;
        }
        root.present()?;
        Ok(())
    })
}

/// Completion times as captured and with duplicates.
pub(crate) fn completion(what_if: &WhatIf, size: Size) -> String {
    let all = || what_if.curve.iter().flatten().copied().map(|ms| ms / 1e3);
    let least = all().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e6);
    let most = all().fold(0.0, f64::max).clamp(least * 2.0, 1e9);
    picture("Distribution of completion times", size, |svg| {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc("completion time (s)")
            .y_desc("connections (%)")
            .axis_desc_style(text.clone())
            .label_style(text)
            .x_labels(size.labels)
            .y_labels(5)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&percent)
            .draw()?;
        for (series, times) in what_if.curve.iter().enumerate() {
            let n = times.len().max(1) as f64;
            let points = times.iter().enumerate().flat_map(|(i, ms)| {
                let x = (ms / 1e3).max(least * 0.9);
                [(x, i as f64 / n), (x, (i + 1) as f64 / n)]
            });
            chart.draw_series(LineSeries::new(points, line(series).stroke_width(2)))?;
        }
        root.present()?;
        Ok(())
    })
}

/// The intervals, and where the threshold lies.
pub(crate) fn intervals(grouping: &Grouping, size: Size) -> String {
    let threshold = grouping.threshold_round_trips.unwrap_or(grouping.threshold_ms);
    let bars = &grouping.histogram;
    let least = bars.first().map_or(threshold / 2.0, |bar| bar.0).min(threshold / 2.0).max(1e-4);
    let most = bars.last().map_or(threshold * 2.0, |bar| bar.1).max(threshold * 2.0);
    let highest = bars.iter().map(|bar| bar.2).max().unwrap_or(1) as f64;
    let unit =
        if grouping.threshold_round_trips.is_some() { "interval (round trips)" } else { "interval (ms)" };
    picture("Histogram of retransmission intervals", size, |svg| {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d((least..most).log_scale(), 0.0..highest * 1.05)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc(unit)
            .y_desc("retransmissions")
            .axis_desc_style(text.clone())
            .label_style(text)
            .x_labels(size.labels)
            .y_labels(5)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .draw()?;
        for &(from, to, count) in bars {
            let series = usize::from(from >= threshold);
            let corners = [(from.max(least), 0.0), (to, count as f64)];
            chart.draw_series([Rectangle::new(corners, fill(series).filled())])?;
        }
        let mark = [(threshold, 0.0), (threshold, highest * 1.05)];
        chart.draw_series(LineSeries::new(mark, line(2).stroke_width(2)))?;
        root.present()?;
        Ok(())
    })
}

/// Which colours the positions use.
pub(crate) fn headings(report: &Report, half: Half) -> Vec<Heading> {
    let shown =
        |series: &&PositionSeries| series.half == half && series.points.iter().any(|point| point.shown);
    report.positions.iter().filter(shown).map(|series| series.heading).collect()
}

fn percent(share: &f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// A number of an axis that spans decades.
fn short(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{:.1}", value).trim_end_matches(".0").to_owned()
    } else {
        format!("{value:.3}").trim_end_matches('0').to_owned()
    }
}
