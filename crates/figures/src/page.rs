//! The skeleton of a page: no scripts, nothing from elsewhere, light and dark, from a phone's width
//! on.

use std::fmt::{self, Write as _};

use askama::{Template, filters::HtmlSafe};

use crate::{Picture, Size, dress::look};

/// The styles of a page whose charts have `series` series.
pub fn style(series: usize) -> String {
    let (mut light, mut dark, mut lines) = (String::new(), String::new(), String::new());
    for i in 0..series {
        let ((on_light, on_dark), dash) = look(i);
        let _ = write!(light, ";--c{i}:{on_light}");
        let _ = write!(dark, ";--c{i}:{on_dark}");
        let dash = if dash == "none" { String::new() } else { format!(";stroke-dasharray:{dash}") };
        let _ = write!(lines, ".s{i}{{stroke:var(--c{i}){dash}}}.f{i}{{fill:var(--c{i})}}");
    }
    format!(
        ":root{{color-scheme:light dark;--bg:#fff;--fg:#1c1c1c;--soft:#5c5c5c;--grid:#ddd;--warn:#b3261e{light}}}\
         @media(prefers-color-scheme:dark){{:root{{--bg:#15181b;--fg:#ececec;--soft:#a9b0b6;--grid:#33393e;--warn:#ff8a80{dark}}}}}\
         {BODY}{lines}{NARROW}"
    )
}

const BODY: &str = "body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}\
    main{max-width:60rem;margin:0 auto;padding:1rem}h1{font-size:1.5rem;line-height:1.2;margin:.5rem 0}\
    h2{font-size:1.1rem;margin:1.75rem 0 .5rem}p{max-width:42rem}figure{margin:1rem 0}\
    figcaption,.note{color:var(--soft);font-size:.875rem;max-width:42rem}.warn{border-left:4px solid var(--warn);padding-left:.75rem}\
    svg{display:block;width:100%;height:auto;max-width:60rem}.narrow{display:none}\
    svg text{fill:var(--fg);font-family:system-ui,sans-serif}svg .axis{stroke:var(--soft)}svg .grid{stroke:var(--grid)}\
    svg .line,.key line{fill:none;stroke-width:2}\
    .key{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0;font-size:.875rem}\
    .key svg{display:inline-block;width:2.2rem;height:.7rem;vertical-align:middle;margin-right:.4rem}\
    .scroll{overflow-x:auto}.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--c0)}\
    summary{cursor:pointer;font-size:.875rem}tbody th{font-weight:inherit}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
    th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}\
    th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}";

const NARROW: &str = "@media(max-width:560px){.wide{display:none}.narrow{display:block}\
    th,td{padding:.3rem .35rem;font-size:.8rem}th:first-child,td:first-child{white-space:normal;min-width:5.5rem}}";

/// A part of a page that is HTML: templates take it as it is, while text is escaped.
#[derive(Clone, Default, Debug)]
pub struct Html(String);

impl Html {
    /// What a template makes.
    pub fn of(template: &impl Template) -> Self {
        Self(template.render().expect("it is written to memory, and numbers and texts can be shown"))
    }
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Html {}

/// The whole page: `body` below the heading.
pub fn page(title: &str, heading: &str, style: &str, body: &Html) -> String {
    #[derive(Template)]
    #[template(path = "page.html")]
    struct Page<'a> {
        title: &'a str,
        heading: &'a str,
        style: &'a str,
        body: &'a Html,
    }
    Html::of(&Page { title, heading, style, body }).0 + "\n"
}

/// A picture in both sizes, with its key (series and name) and caption.
pub fn figure(caption: &str, key: &[(usize, &str)], picture: &dyn Picture) -> Html {
    #[derive(Template)]
    #[template(path = "figure.html")]
    struct Figure<'a> {
        drawings: Vec<Html>,
        key: &'a [(usize, &'a str)],
        caption: &'a str,
    }
    let drawings = Size::PAGE.into_iter().map(|size| Html(picture.for_page(size))).collect();
    Html::of(&Figure { drawings, key, caption })
}

/// A table, whose first column names its rows. It is scrolled where it is too wide, by keyboard,
/// too; `name` is what readers of the screen hear of it then.
pub fn table_of(name: &str, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Html {
    #[derive(Template)]
    #[template(path = "table.html")]
    struct Table<'a> {
        name: &'a str,
        headings: &'a [&'a str],
        rows: Vec<Vec<String>>,
    }
    Html::of(&Table { name, headings, rows: rows.collect() })
}

/// A table that is called after its columns.
pub fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Html {
    table_of(&headings.join(", "), headings, rows)
}

/// What is shown when somebody asks for it, under a line that says what it is.
pub fn details(summary: &str, inside: &Html) -> Html {
    #[derive(Template)]
    #[template(path = "details.html")]
    struct Details<'a> {
        summary: &'a str,
        inside: &'a Html,
    }
    Html::of(&Details { summary, inside })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Chart, Layer};

    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let chart = Chart {
            label: "Something",
            x: Axis::new("x", 0.0, 1.0),
            y: Axis::new("y", 0.0, 1.0),
            layers: vec![Layer::Line { series: 0, points: vec![(0.0, 0.0), (1.0, 1.0)] }],
        };
        let figure = figure("A \"caption\"", &[(0, "<tcp>")], &chart);
        let table = table(&["na<me"], [vec!["<b>".to_owned()]].into_iter());
        let page = page("<t>", "h & h", &style(1), &Html(format!("{figure}{table}")));
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert_eq!(page.matches("class=\"line s0\"").count(), 3); // two sizes and the key
        assert!(page.contains("tabindex=\"0\"") && page.contains("<th scope=\"row\">&#60;b&#62;</th>"));
        for escaped in
            ["A &#34;caption&#34;", "&#60;tcp&#62;", "na&#60;me", "&#60;b&#62;", "&#60;t&#62;", "h &#38; h"]
        {
            assert!(page.contains(escaped), "{escaped}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }
}
