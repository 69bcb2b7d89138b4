//! Colours. Plotters draws with stand-ins, which are replaced by a page's classes or by real
//! colours.

use plotters::style::RGBColor;

/// Line colours for light and dark backgrounds; told apart by people who do not see all colours,
/// together with [`DASHES`].
pub const COLOURS: [(&str, &str); 8] = [
    ("#1a5fb4", "#8ab8ff"),
    ("#b3261e", "#ff8a80"),
    ("#6b6b6b", "#a8a8a8"),
    ("#006d5b", "#4dd0b1"),
    ("#8e5bd0", "#c9a6ff"),
    ("#b26a00", "#ffb74d"),
    ("#a0006d", "#ff8ad8"),
    ("#7a4a00", "#d7b98e"),
];
/// Dash patterns of the lines.
pub const DASHES: [&str; 8] = ["none", "8 3", "3 3", "12 3", "9 4 2 4", "5 3", "2 4", "14 3 2 3"];

pub(crate) const AXIS: RGBColor = RGBColor(1, 2, 3);
pub(crate) const GRID: RGBColor = RGBColor(1, 2, 4);
pub(crate) const TEXT: RGBColor = RGBColor(1, 2, 5);
/// More series than this share colours anyway.
const MOST_SERIES: usize = 64;

pub(crate) fn line(series: usize) -> RGBColor {
    RGBColor(9, 9, (series % MOST_SERIES) as u8)
}

pub(crate) fn fill(series: usize) -> RGBColor {
    RGBColor(10, 10, (series % MOST_SERIES) as u8)
}

fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// Puts a page's classes in the place of the stand-ins.
pub(crate) fn classes(svg: &str) -> String {
    let mut out = svg.to_owned();
    for (colour, name) in [(AXIS, "axis"), (GRID, "grid")] {
        out = out.replace(&format!("stroke=\"{}\"", hex(colour)), &format!("class=\"{name}\""));
    }
    out = out.replace(&format!(" fill=\"{}\"", hex(TEXT)), "");
    for series in 0..MOST_SERIES {
        let (stroke, area) = (hex(line(series)), hex(fill(series)));
        out = out.replace(&format!("stroke=\"{stroke}\""), &format!("class=\"line s{series}\""));
        out = out.replace(&format!("fill=\"{area}\" stroke=\"none\""), &format!("class=\"f{series}\""));
    }
    out
}

/// Puts the light colours, and the dashes of lines, in the place of the stand-ins.
pub(crate) fn colours(svg: &str) -> String {
    let mut out = svg.to_owned();
    for (stand_in, colour) in [(AXIS, "#5c5c5c"), (GRID, "#dddddd"), (TEXT, "#1c1c1c")] {
        out = out.replace(&hex(stand_in), colour);
    }
    for series in 0..MOST_SERIES {
        let ((colour, _), dash) = look(series);
        let dashed = format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\"");
        out = out.replace(&format!("stroke=\"{}\"", hex(line(series))), &dashed);
        out = out.replace(&hex(fill(series)), colour);
    }
    out
}

/// The colours and the dashes of a series. When the colours begin anew, the dashes move on by one.
pub(crate) fn look(series: usize) -> ((&'static str, &'static str), &'static str) {
    let dash = series + series / COLOURS.len();
    (COLOURS[series % COLOURS.len()], DASHES[dash % DASHES.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_series_look_alike() {
        for series in 0..MOST_SERIES {
            assert!((0..series).all(|other| look(other) != look(series)), "{series}");
        }
    }
}
