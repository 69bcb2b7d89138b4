//! A figure in a file of its own.

use std::fmt::Write as _;

use crate::{Picture, Size, dress::look};

/// Size of a panel.
pub const PANEL: Size = Size { class: "panel", width: 460, height: 330, text: 15, labels: 6 };

/// Height of a line of text.
const LINE: u32 = 19;

/// Letters of a heading that fit over its panel.
const HEADING: usize = 56;

/// A title, panels side by side (two in a row), a key and notes below.
#[derive(Clone, Copy)]
pub struct Sheet<'a> {
    /// What it is.
    pub title: &'a str,
    /// Lines below the key: under which conditions, and which inputs are assumed.
    pub notes: &'a [&'a str],
    /// The panels, each with its heading.
    pub panels: &'a [(&'a str, &'a dyn Picture)],
    /// The names of the series, in their order; an empty one is left out.
    pub key: &'a [&'a str],
}

impl std::fmt::Debug for Sheet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sheet").field("title", &self.title).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Sheet<'_> {
    /// The file.
    pub fn svg(&self) -> String {
        let columns = self.panels.len().clamp(1, 2) as u32;
        let width = columns * PANEL.width;
        let mut body = String::new();
        let bold = "font-weight=\"bold\" font-size=\"16\"";
        let mut top = paragraph(&mut body, 10, (width, 10), bold, self.title) + 8;
        for row in self.panels.chunks(columns as usize) {
            let headings: Vec<_> = row.iter().map(|(heading, _)| lines(heading, HEADING)).collect();
            let under = top + LINE * headings.iter().map(Vec::len).max().unwrap_or(1) as u32;
            for (column, ((_, panel), heading)) in (0..).zip(row.iter().zip(headings)) {
                let x = column * PANEL.width;
                for (y, line) in (top + 15..).step_by(LINE as usize).zip(heading) {
                    text(&mut body, (x + 10, y), "font-size=\"14\"", &line);
                }
                let drawn = panel.for_sheet(PANEL);
                let start = drawn.find("<svg").unwrap_or(0);
                let place = format!("<svg x=\"{x}\" y=\"{under}\" ");
                body += &drawn[start..].replacen("<svg ", &place, 1);
            }
            top = under + row.iter().map(|(_, panel)| panel.height(PANEL)).max().unwrap_or(0);
        }
        let mut y = self.draw_key(&mut body, width, top + 6);
        for note in self.notes {
            y = paragraph(&mut body, y, (width, 7), "font-size=\"12\" fill=\"#5c5c5c\"", note);
        }
        let height = y + 12;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" role=\"img\" aria-label=\"{}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             {body}</svg>\n",
            escape(self.title)
        )
    }

    /// The names, in as many columns as the longest allows. Returns where the last line stands.
    fn draw_key(&self, body: &mut String, width: u32, top: u32) -> u32 {
        let names: Vec<(usize, &&str)> =
            self.key.iter().enumerate().filter(|(_, name)| !name.is_empty()).collect();
        let longest = names.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0) as u32;
        let cell = 64 + longest * 8;
        let columns = ((width - 10) / cell).max(1);
        for (i, (series, name)) in (0..).zip(&names) {
            let (x, y) = (10 + (i % columns) * cell, top + (i / columns + 1) * LINE);
            let ((colour, _), dash) = look(*series);
            let (end, middle) = (x + 40, y - 5);
            let _ = writeln!(
                body,
                "<line x1=\"{x}\" y1=\"{middle}\" x2=\"{end}\" y2=\"{middle}\" stroke=\"{colour}\" stroke-width=\"2\" \
                 stroke-dasharray=\"{dash}\"/>"
            );
            text(body, (end + 8, y), "font-size=\"14\"", name);
        }
        top + (names.len() as u32).div_ceil(columns) * LINE
    }
}

/// Lines of text below `y`, where a letter of `letter` pixels would not leave the width. Returns where
/// the last line stands.
fn paragraph(body: &mut String, mut y: u32, (width, letter): (u32, u32), style: &str, words: &str) -> u32 {
    for line in lines(words, ((width - 20) / letter) as usize) {
        y += LINE;
        text(body, (10, y), style, &line);
    }
    y
}

/// Words in lines of at most `room` letters, but for longer words; at least one line.
fn lines(words: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

fn text(body: &mut String, (x, y): (u32, u32), style: &str, text: &str) {
    let _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\" {style}>{}</text>", escape(text));
}

/// Text as SVG has it. What no XML may hold (XML 1.0, 2.2) shows as a replacement character.
fn escape(text: &str) -> String {
    let is_no_xml = |letter: char| {
        let control = letter < ' ' && !"\n\r\t".contains(letter);
        control || matches!(letter, '\u{fffe}' | '\u{ffff}')
    };
    let text = text.replace(is_no_xml, "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Bars, NamedBar};

    #[test]
    fn it_has_its_panels_its_key_and_its_notes() {
        let bars = Bars {
            label: "",
            x: Axis::new("share (%)", 0.0, 1.0).labelled(crate::percent),
            names: 60,
            bars: vec![NamedBar { name: "a", series: 0, value: 0.5, between: Some((0.4, 0.6)) }],
        };
        let sheet = Sheet {
            title: "More <than>\u{7} one\u{ffff}",
            notes: &["sizes are synthetic"],
            panels: &[("(a) one", &bars), ("", &bars), ("", &bars)],
            key: &["tcp", "", "fuso"],
        };
        let svg = sheet.svg();
        assert_eq!(svg.matches("<svg").count(), 4);
        assert!(
            svg.contains("More &lt;than&gt;\u{fffd} one\u{fffd}<") && svg.contains("sizes are synthetic")
        );
        assert!(svg.contains(">tcp<") && svg.contains(">fuso<"));
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert_eq!(svg, sheet.svg());
        // An interval is drawn.
        let bare = Bars { bars: vec![NamedBar { between: None, ..bars.bars[0] }], ..bars.clone() };
        let lines = |bars: &Bars<'_>| bars.for_sheet(PANEL).lines().count();
        assert!(lines(&bars) > lines(&bare));
        // Two rows of one bar each are lower than one of charts.
        let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(height.parse::<u32>().unwrap() < 2 * PANEL.height, "{height}");
    }

    #[test]
    fn long_titles_and_notes_are_broken_between_words() {
        let mut body = String::new();
        let words = "one of the paths loses packets in both directions";
        assert_eq!(paragraph(&mut body, 10, (220, 10), "", words), 10 + 3 * LINE);
        let lines: Vec<&str> = body.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].contains(">one of the paths<") && lines[2].contains(">both directions<"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_long_heading_moves_its_row_down() {
        let bars = Bars {
            label: "",
            x: Axis::new("share (%)", 0.0, 1.0),
            names: 60,
            bars: vec![NamedBar { name: "a", series: 0, value: 0.5, between: None }],
        };
        let height = |heading: &str| {
            let svg = Sheet { title: "One", notes: &[], panels: &[(heading, &bars)], key: &[] }.svg();
            let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
            height.and_then(|height| height.parse::<u32>().ok()).expect("a number of pixels")
        };
        let long = "each of the first ten packets of the first path is dropped once, in turn";
        assert_eq!(height(long), height("in turn") + LINE);
    }
}
