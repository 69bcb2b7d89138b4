//! Horizontal bars with names.

use std::ops::Range;

use plotters::{
    coord::ranged1d::SegmentValue,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Axis, Picture, Size,
    chart::{Drawn, element, into_text},
    dress::{self, AXIS, GRID, TEXT, fill},
    whisker::{Along, CAP, Whisker},
};

/// Pixels around a picture.
const MARGIN: i32 = 8;

/// A bar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedBar<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose colour it has.
    pub series: usize,
    /// Its length.
    pub value: f64,
    /// What the value may lie between.
    pub between: Option<(f64, f64)>,
}

/// One bar per name, from the top. A bar's height does not depend on how many there are, the
/// picture's does.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// What it shows, for those who cannot see it.
    pub label: &'a str,
    /// The values' axis.
    pub x: Axis<'a>,
    /// Room for the names, in pixels.
    pub names: u32,
    /// The bars.
    pub bars: Vec<NamedBar<'a>>,
}

impl Picture for Bars<'_> {
    fn for_page(&self, size: Size) -> String {
        element(&dress::classes(&into_text(|svg| self.draw(svg, size))), size.class, self.label)
    }

    fn for_sheet(&self, size: Size) -> String {
        dress::colours(&into_text(|svg| self.draw(svg, size)))
    }

    fn height(&self, _size: Size) -> u32 {
        70 + 34 * self.bars.len().max(1) as u32
    }
}

impl Bars<'_> {
    fn draw(&self, svg: &mut String, size: Size) -> Drawn {
        let rows = self.bars.len().max(1);
        let name = |value: &SegmentValue<usize>| match value {
            SegmentValue::CenterOf(i) if *i > 0 => {
                self.bars.get(rows - i).map_or(String::new(), |bar| bar.name.to_owned())
            }
            _ => String::new(),
        };
        let root = SVGBackend::with_string(svg, (size.width, self.height(size))).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .margin_right(22)
            .x_label_area_size(self.x.area.unwrap_or(42))
            .y_label_area_size(self.names)
            .build_cartesian_2d(self.x.range.0..self.x.range.1, (1..rows).into_segmented())?;
        let label = self.x.label;
        let (axis, _) = chart.plotting_area().get_pixel_range();
        let place = (title_centre(axis, self.x.title, size), self.height(size) as i32 - MARGIN);
        let centred = text.pos(Pos::new(HPos::Center, VPos::Bottom));
        root.draw_text(self.x.title, &centred, place)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .label_style(text)
            .x_labels(self.x.labels.unwrap_or(5))
            .y_labels(rows + 1)
            .x_label_formatter(&|x| label(*x))
            .y_label_formatter(&name)
            .draw()?;
        for (i, bar) in self.bars.iter().enumerate() {
            let row = rows - i;
            let corners =
                [(self.x.range.0, SegmentValue::Exact(row)), (bar.value, SegmentValue::Exact(row + 1))];
            let mut drawn = Rectangle::new(corners, fill(bar.series).filled());
            drawn.set_margin(5, 5, 0, 0);
            chart.draw_series([drawn])?;
            if let Some((low, high)) = bar.between {
                let whisker = Whisker::new(Along::Horizontal, self.x.range, [low, bar.value, high]);
                let (row, style) = (SegmentValue::CenterOf(row), TEXT.filled());
                if whisker.is_whole() {
                    chart.draw_series([ErrorBar::new_horizontal(row, low, bar.value, high, style, CAP)])?;
                } else {
                    whisker.draw(&mut chart, |x| (x, row.clone()), style)?;
                }
            }
        }
        root.present()?;
        Ok(())
    }
}

/// Where the axis' title has its middle: below that of the axis, unless the picture would end before the
/// title does.
fn title_centre(axis: Range<i32>, title: &str, size: Size) -> i32 {
    let width = title.chars().count() as i32 * size.text * 3 / 7;
    axis.start.midpoint(axis.end).min(size.width as i32 - MARGIN - width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::PANEL;

    #[test]
    fn a_title_longer_than_its_axis_ends_within_the_picture() {
        let centre = |title: &str| title_centre(256..438, title, PANEL);
        assert_eq!(centre("time (ms)"), 347);
        let long = "99th percentile of completion times (ms)";
        assert!(centre(long) < 347 && centre(long) + long.len() as i32 * 6 / 2 < 460, "{}", centre(long));
    }
}
