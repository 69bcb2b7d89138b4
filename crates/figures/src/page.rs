//! The skeleton of a page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

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
    .scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
    th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}\
    th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}";

const NARROW: &str = "@media(max-width:560px){.wide{display:none}.narrow{display:block}\
    th,td{padding:.3rem .35rem;font-size:.8rem}th:first-child,td:first-child{white-space:normal;min-width:5.5rem}}";

/// The whole page: `body` below the heading. `title` and `heading` are text, `body` is HTML.
pub fn page(title: &str, heading: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{style}</style></head><body><main>\n<h1>{}</h1>\n{body}</main></body></html>\n",
        escape(title),
        escape(heading)
    )
}

/// A picture in both sizes, with its key (series and name) and caption. Key and caption are HTML.
pub fn figure(out: &mut String, caption: &str, key: &[(usize, &str)], picture: &dyn Picture) {
    out.push_str("<figure>");
    for size in Size::PAGE {
        out.push_str(&picture.for_page(size));
    }
    if !key.is_empty() {
        out.push_str("<ul class=\"key\">");
        for (series, name) in key {
            let _ = write!(
                out,
                "<li><svg viewBox=\"0 0 44 10\" aria-hidden=\"true\"><line class=\"line s{series}\" x1=\"0\" y1=\"5\" x2=\"44\" y2=\"5\"/></svg>{name}</li>"
            );
        }
        out.push_str("</ul>");
    }
    let _ = writeln!(out, "<figcaption>{caption}</figcaption></figure>");
}

/// A table. Headings are HTML, cells are text.
pub fn table(out: &mut String, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for heading in headings {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Chart, Layer};

    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let mut body = String::new();
        let chart = Chart {
            label: "Something",
            x: Axis::new("x", 0.0, 1.0),
            y: Axis::new("y", 0.0, 1.0),
            layers: vec![Layer::Line { series: 0, points: vec![(0.0, 0.0), (1.0, 1.0)] }],
        };
        figure(&mut body, "A caption", &[(0, "tcp")], &chart);
        table(&mut body, &["name"], [vec!["<b>".to_owned()]].into_iter());
        let page = page("t", "h", &style(1), &body);
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert_eq!(page.matches("class=\"line s0\"").count(), 3); // two sizes and the key
        assert!(page.contains("&lt;b&gt;") && page.contains("prefers-color-scheme:dark"));
    }
}
