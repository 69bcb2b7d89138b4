//! Horizontal bars with names.

use plotters::{coord::ranged1d::SegmentValue, prelude::*};

use crate::{
    Axis, Picture, Size,
    chart::{Drawn, element, into_text},
    dress::{self, AXIS, GRID, TEXT, fill},
};

/// One bar per name, from the top. A bar's height does not depend on how many there are, the picture's does.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// What it shows, for those who cannot see it.
    pub label: &'a str,
    /// The values' axis.
    pub x: Axis<'a>,
    /// Room for the names, in pixels.
    pub names: u32,
    /// Name, series and value of each.
    pub bars: Vec<(&'a str, usize, f64)>,
}

impl Picture for Bars<'_> {
    fn for_page(&self, size: Size) -> String {
        element(&dress::classes(&into_text(|svg| self.draw(svg, size))), size.class, self.label)
    }

    fn for_sheet(&self, size: Size) -> String {
        dress::colours(&into_text(|svg| self.draw(svg, size)))
    }
}

impl Bars<'_> {
    fn draw(&self, svg: &mut String, size: Size) -> Drawn {
        let rows = self.bars.len().max(1);
        let height = 70 + 34 * rows as u32;
        let name = |value: &SegmentValue<usize>| match value {
            SegmentValue::CenterOf(i) if *i > 0 => {
                self.bars.get(rows - i).map_or(String::new(), |bar| bar.0.to_owned())
            }
            _ => String::new(),
        };
        let root = SVGBackend::with_string(svg, (size.width, height)).into_drawing_area();
        let text = ("sans-serif", size.text, &TEXT).into_text_style(&root);
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(self.x.area.unwrap_or(42))
            .y_label_area_size(self.names)
            .build_cartesian_2d(self.x.range.0..self.x.range.1, (1..rows).into_segmented())?;
        let label = self.x.label;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .x_desc(self.x.title)
            .axis_desc_style(text.clone())
            .label_style(text)
            .x_labels(self.x.labels.unwrap_or(5))
            .y_labels(rows + 1)
            .x_label_formatter(&|x| label(*x))
            .y_label_formatter(&name)
            .draw()?;
        for (i, &(_, series, value)) in self.bars.iter().enumerate() {
            let row = rows - i;
            let corners = [(self.x.range.0, SegmentValue::Exact(row)), (value, SegmentValue::Exact(row + 1))];
            let mut bar = Rectangle::new(corners, fill(series).filled());
            bar.set_margin(5, 5, 0, 0);
            chart.draw_series([bar])?;
        }
        root.present()?;
        Ok(())
    }
}
