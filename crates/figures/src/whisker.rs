//! What a value may lie between where the axis ends before that does: a line with the value on it,
//! with an arrow at each end that is cut off, and a cap at one that is not.

use plotters::{coord::ranged1d::Ranged, prelude::*};

/// How wide a cap is, and how long and wide an arrow, in pixels.
pub(crate) const CAP: u32 = 8;

/// Which way it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Along {
    Horizontal,
    Vertical,
}

/// A line from the least to the greatest value, as much of it as the axis has room for.
#[derive(Debug)]
pub(crate) struct Whisker {
    along: Along,
    /// Least, value, greatest.
    pub(crate) values: [f64; 3],
    /// Whether the axis cuts the least and the greatest off.
    cut: [bool; 2],
}

impl Whisker {
    /// On an axis that goes from `from` to `to`.
    pub(crate) fn new(along: Along, (from, to): (f64, f64), [low, value, high]: [f64; 3]) -> Self {
        let values = [low, value, high].map(|value| value.clamp(from, to));
        Self { along, values, cut: [low < from, high > to] }
    }

    /// Whether plotters draws it right.
    pub(crate) fn is_whole(&self) -> bool {
        self.cut == [false, false]
    }

    /// Draws one that is not whole; `place` says where a value is.
    pub(crate) fn draw<'b, X, Y>(
        &self,
        chart: &mut ChartContext<'b, SVGBackend<'b>, Cartesian2d<X, Y>>,
        place: impl Fn(f64) -> (X::ValueType, Y::ValueType),
        style: ShapeStyle,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: Ranged<ValueType: Clone + 'static>,
        Y: Ranged<ValueType: Clone + 'static>,
    {
        let [low, value, high] = self.values;
        chart.draw_series([PathElement::new([place(low), place(high)], style)])?;
        for (end, is_cut, inwards) in [(low, self.cut[0], 1), (high, self.cut[1], -1)] {
            let at = EmptyElement::at(place(end));
            if is_cut {
                let head = [(inwards, -1), (0, 0), (inwards, 1)];
                chart.draw_series([at + Polygon::new(self.pixels(head), style)])?;
            } else {
                chart.draw_series([at + PathElement::new(self.pixels([(0, -1), (0, 1)]), style)])?;
            }
        }
        chart.draw_series([Circle::new(place(value), CAP / 2, style)])?;
        Ok(())
    }

    /// From arrow lengths along the axis and half widths across to pixels.
    fn pixels<const N: usize>(&self, points: [(i32, i32); N]) -> [(i32, i32); N] {
        let cap = CAP as i32;
        points.map(|(along, across)| match self.along {
            Along::Horizontal => (along * cap, across * cap / 2),
            Along::Vertical => (across * cap / 2, -along * cap),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Bars, Chart, ErrorBar, Layer, NamedBar, Picture as _, Size};

    /// Arrows, and caps.
    fn ends(svg: &str, colour: &str) -> (usize, usize) {
        let is_line = |line: &str| line.starts_with("<line ") || line.starts_with("<polyline ");
        let is_ours = |line: &&str| is_line(line) && line.contains(colour);
        // The line between them is one of the lines.
        (svg.matches("<polygon ").count(), svg.lines().filter(is_ours).count() - 1)
    }

    fn vertical(low: f64, high: f64, is_log: bool) -> (usize, usize) {
        let axis = |from| Axis { is_log, ..Axis::new("y", from, 10.0) };
        let bars = vec![ErrorBar { x: 2.0, y: 3.0, low, high }];
        let y = axis(if is_log { 0.1 } else { 0.0 });
        let chart = Chart {
            label: "Numbers",
            x: Axis::new("x", 1.0, 3.0),
            y,
            layers: vec![Layer::ErrorBars { series: 0, bars }],
        };
        ends(&chart.for_sheet(Size::PAGE[0]), "#1a5fb4")
    }

    #[test]
    fn an_end_beyond_the_axis_is_an_arrow() {
        assert_eq!(vertical(1.0, 4.0, false), (0, 2));
        assert_eq!(vertical(0.0, 10.0, false), (0, 2), "at the edge, but whole");
        assert_eq!(vertical(1.0, 40.0, false), (1, 1));
        assert_eq!(vertical(-1.0, 4.0, false), (1, 1));
        assert_eq!(vertical(-1.0, 40.0, false), (2, 0));
        assert_eq!(vertical(-1.0, 4.0, true), (1, 1), "what has no logarithm");
        let bar = |between| NamedBar { name: "one", series: 0, value: 3.0, between: Some(between) };
        let bars = |between| {
            let x = Axis::new("x", 0.0, 10.0);
            let bars = Bars { label: "Bars", x, names: 60, bars: vec![bar(between)] };
            ends(&bars.for_sheet(Size::PAGE[0]), "#1c1c1c").0
        };
        assert_eq!([(1.0, 4.0), (-1.0, 4.0), (1.0, 11.0), (-1.0, 11.0)].map(bars), [0, 1, 1, 2]);
    }
}
