//! A chart over two axes of numbers.

use plotters::{
    coord::{
        combinators::BindKeyPoints,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    },
    prelude::*,
};

use crate::{
    Picture, Size,
    dress::{self, AXIS, GRID, TEXT, fill, line},
    labels::short,
    whisker::{Along, CAP, Whisker},
};

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis<'a> {
    /// What is drawn along it, with the unit in parentheses.
    pub title: &'a str,
    /// First and last value.
    pub range: (f64, f64),
    /// Whether it is logarithmic; then the range is above 0.
    pub is_log: bool,
    /// Whether a logarithmic axis also has labels between powers of ten, at 2 and 5, if it spans
    /// few.
    pub is_dense: bool,
    /// How its numbers are written.
    pub label: fn(f64) -> String,
    /// Room for labels and title, in pixels: below a horizontal axis, left of a vertical one.
    pub area: Option<u32>,
    /// About how many labels there are; by default as many as fit.
    pub labels: Option<usize>,
}

impl<'a> Axis<'a> {
    /// A linear axis.
    pub fn new(title: &'a str, from: f64, to: f64) -> Self {
        Self {
            title,
            range: (from, to),
            is_log: false,
            is_dense: false,
            label: short,
            area: None,
            labels: None,
        }
    }

    /// The same, logarithmic.
    pub fn log(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// The same with labels between powers of ten, if it spans few.
    pub fn dense(self) -> Self {
        Self { is_dense: true, ..self }
    }

    /// The same with numbers written by `label`.
    pub fn labelled(self, label: fn(f64) -> String) -> Self {
        Self { label, ..self }
    }

    /// The same with this much room for labels.
    pub fn with_area(self, pixels: u32) -> Self {
        Self { area: Some(pixels), ..self }
    }

    /// The same with about this many labels.
    pub fn with_labels(self, labels: usize) -> Self {
        Self { labels: Some(labels), ..self }
    }
}

/// A value and what it may lie between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ErrorBar {
    /// Where on the horizontal axis.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// From here.
    pub low: f64,
    /// To here.
    pub high: f64,
}

/// Something drawn on the axes. A series has a colour and a dash pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum Layer {
    /// A line through points.
    Line {
        /// Whose.
        series: usize,
        /// Its points in order.
        points: Vec<(f64, f64)>,
    },
    /// Dots.
    Dots {
        /// Whose.
        series: usize,
        /// Where.
        points: Vec<(f64, f64)>,
    },
    /// Values with what they may lie between.
    ErrorBars {
        /// Whose.
        series: usize,
        /// The values.
        bars: Vec<ErrorBar>,
    },
    /// A histogram's bar from `from` to `to`.
    Bar {
        /// Whose.
        series: usize,
        /// Left edge.
        from: f64,
        /// Right edge.
        to: f64,
        /// Height.
        height: f64,
    },
}

/// 1, 2 and 5 times the powers of ten between two values; the powers alone if there are many.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = (to / from).log10();
    let factors: &[f64] = if decades < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let all =
        (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10.0_f64.powi(power)));
    all.filter(|tick| (from..=to).contains(tick)).collect()
}

/// The steps of an empirical distribution: share of `values` at or below each of them.
pub fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len().max(1) as f64;
    (0..).zip(sorted).flat_map(|(i, x)| [(x, f64::from(i) / n), (x, f64::from(i + 1) / n)]).collect()
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// What it shows, for those who cannot see it.
    pub label: &'a str,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// What is drawn, from the back to the front.
    pub layers: Vec<Layer>,
}

pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Runs `draw`, which cannot fail into a string.
pub(crate) fn into_text(draw: impl FnOnce(&mut String) -> Drawn) -> String {
    let mut svg = String::new();
    let drawn = draw(&mut svg);
    debug_assert!(drawn.is_ok(), "drawing into a string cannot fail: {drawn:?}");
    svg
}

/// The picture as an element of a page.
pub(crate) fn element(svg: &str, class: &str, label: &str) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    let head = format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{label}\" ");
    svg[start..].replacen("<svg ", &head, 1)
}

impl Picture for Chart<'_> {
    fn for_page(&self, size: Size) -> String {
        element(&dress::classes(&self.drawn(size)), size.class, self.label)
    }

    fn for_sheet(&self, size: Size) -> String {
        dress::colours(&self.drawn(size))
    }
}

impl Chart<'_> {
    fn drawn(&self, size: Size) -> String {
        let (from, to) = self.x.range;
        into_text(|svg| match (self.x.is_log, self.x.is_dense) {
            (false, _) => self.draw_over(svg, size, from..to),
            (true, false) => self.draw_over(svg, size, (from..to).log_scale()),
            (true, true) => {
                self.draw_over(svg, size, (from..to).log_scale().with_key_points(ticks(from, to)))
            }
        })
    }

    fn draw_over<X>(&self, svg: &mut String, size: Size, x: X) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (from, to) = self.y.range;
        match (self.y.is_log, self.y.is_dense) {
            (false, _) => self.draw(svg, size, x, from..to),
            (true, false) => self.draw(svg, size, x, (from..to).log_scale()),
            (true, true) => self.draw(svg, size, x, (from..to).log_scale().with_key_points(ticks(from, to))),
        }
    }

    fn draw<X, Y>(&self, svg: &mut String, size: Size, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let root = SVGBackend::with_string(svg, (size.width, size.height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let titles = ("sans-serif", title_size(self.y.title, size), &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(if self.x.is_log { 22 } else { 14 })
            .x_label_area_size(self.x.area.unwrap_or(42))
            .y_label_area_size(self.y.area.unwrap_or(52))
            .build_cartesian_2d(x, y)?;
        let (x_label, y_label) = (self.x.label, self.y.label);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc(self.x.title)
            .y_desc(self.y.title)
            .axis_desc_style(titles)
            .label_style(text)
            .x_labels(self.x.labels.unwrap_or(size.labels))
            .y_labels(self.y.labels.unwrap_or(5))
            .x_label_formatter(&|x| x_label(*x))
            .y_label_formatter(&|y| y_label(*y))
            .draw()?;
        for layer in &self.layers {
            self.draw_layer(&mut chart, layer)?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_layer<'b, X, Y>(
        &self,
        chart: &mut ChartContext<'b, SVGBackend<'b>, Cartesian2d<X, Y>>,
        layer: &Layer,
    ) -> Drawn
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let clamp = |axis: &Axis<'_>, value: f64| value.clamp(axis.range.0, axis.range.1);
        let place = |&(x, y): &(f64, f64)| (clamp(&self.x, x), clamp(&self.y, y));
        match layer {
            Layer::Line { series, points } => {
                let points = points.iter().map(place);
                chart.draw_series(LineSeries::new(points, line(*series).stroke_width(2)))?;
            }
            Layer::Dots { series, points } => {
                let dot = |point| Circle::new(place(point), 3, fill(*series).filled());
                chart.draw_series(points.iter().map(dot))?;
            }
            Layer::ErrorBars { series, bars } => {
                let style = fill(*series).filled();
                for ErrorBar { x, y, low, high } in bars {
                    let whisker = Whisker::new(Along::Vertical, self.y.range, [*low, *y, *high]);
                    if whisker.is_whole() {
                        let bar = plotters::element::ErrorBar::new_vertical(*x, *low, *y, *high, style, CAP);
                        chart.draw_series([bar])?;
                    } else {
                        whisker.draw(chart, |y| (*x, y), style)?;
                    }
                }
            }
            Layer::Bar { series, from, to, height } => {
                let corners = [(clamp(&self.x, *from), clamp(&self.y, 0.0)), (*to, *height)];
                chart.draw_series([Rectangle::new(corners, fill(*series).filled())])?;
            }
        }
        Ok(())
    }
}

/// The size of the axes' titles: smaller than other text where that of the vertical axis is longer than the
/// axis and would be cut off.
fn title_size(vertical: &str, size: Size) -> i32 {
    let room = size.height as i32 - 60;
    let length = vertical.chars().count() as i32 * size.text * 3 / 7;
    if length > room { size.text * room / length } else { size.text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::PANEL;

    #[test]
    fn a_title_longer_than_its_axis_is_written_smaller() {
        assert_eq!(title_size("goodput (Mbit/s)", PANEL), PANEL.text);
        let long = "hit after at most 4 others, of flows with a repair (%)";
        let letters = title_size(long, PANEL);
        assert!(
            (8..PANEL.text).contains(&letters) && long.len() as i32 * letters * 3 / 7 <= 270,
            "{letters}"
        );
    }

    fn chart() -> Chart<'static> {
        let bars = vec![ErrorBar { x: 2.0, y: 3.0, low: 0.5, high: 4.0 }];
        Chart {
            label: "Numbers",
            x: Axis::new("x (ms)", 1.0, 1_000.0).log(),
            y: Axis::new("y", 0.0, 10.0),
            layers: vec![
                Layer::Bar { series: 1, from: 10.0, to: 20.0, height: 5.0 },
                Layer::Line { series: 0, points: vec![(1.0, 1.0), (1e6, 20.0)] },
                Layer::Dots { series: 2, points: vec![(5.0, 5.0)] },
                Layer::ErrorBars { series: 3, bars },
            ],
        }
    }

    #[test]
    fn a_page_gets_classes_and_a_sheet_colours() {
        let page = chart().for_page(Size::PAGE[0]);
        assert!(page.starts_with("<svg class=\"wide\" role=\"img\" aria-label=\"Numbers\""));
        for class in ["line s0", "f1", "f2", "axis", "grid"] {
            assert!(page.contains(&format!("class=\"{class}\"")), "{class}");
        }
        let sheet = chart().for_sheet(Size::PAGE[0]);
        for stand_in in ["#0102", "#0909", "#0A0A"] {
            assert!(!sheet.contains(stand_in), "{stand_in}");
        }
        assert!(sheet.contains("#1a5fb4") && sheet.contains("x (ms)"));
    }

    #[test]
    fn what_lies_outside_is_drawn_at_the_edge() {
        let line = |svg: &str| svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let far = line(&chart().for_sheet(Size::PAGE[0]));
        let mut near = chart();
        near.layers[1] = Layer::Line { series: 0, points: vec![(1.0, 1.0), (1e3, 10.0)] };
        assert_eq!(far, line(&near.for_sheet(Size::PAGE[0])));
    }

    #[test]
    fn ticks_lie_within_and_are_few() {
        assert_eq!(ticks(0.9, 11.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(1.5, 1_900.0), [10.0, 100.0, 1_000.0]);
        let dense = Chart { x: chart().x.dense(), ..chart() }.for_sheet(Size::PAGE[0]);
        assert!(dense.contains("1000"), "{dense}");
    }

    #[test]
    fn steps_rise_to_one() {
        assert_eq!(steps(&[3.0, 1.0]), [(1.0, 0.0), (1.0, 0.5), (3.0, 0.5), (3.0, 1.0)]);
        assert!(steps(&[]).is_empty());
    }
}
