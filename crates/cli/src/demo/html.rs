//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use plotters::prelude::*;

use super::{Report, ReportRow};

/// Line colours for light and dark backgrounds, in the order of the rows; told apart by people who do not see all colours, together with
/// the dash patterns.
const COLOURS: [(&str, &str); 8] = [
    ("#6b6b6b", "#a8a8a8"),
    ("#b3261e", "#ff8a80"),
    ("#8e5bd0", "#c9a6ff"),
    ("#b26a00", "#ffb74d"),
    ("#006d5b", "#4dd0b1"),
    ("#1a5fb4", "#8ab8ff"),
    ("#7a4a00", "#d7b98e"),
    ("#a0006d", "#ff8ad8"),
];
const DASHES: [&str; 8] = ["2 4", "none", "8 3", "5 3", "none", "9 4 2 4", "3 3", "12 3"];

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>mendpath demo</title>\n<style>{}</style></head><body><main>\n\
         <h1>How long do responses take?</h1>\n<p class=\"lead\">{}</p>\n",
        style(report.rows.len()),
        escape(&report.summary)
    );
    out += "<figure>";
    out += &chart(report, "wide", (960, 460));
    out += &chart(report, "narrow", (340, 330));
    out += &legend(report);
    out += "<figcaption>Share of responses that were complete within a time: the further left and the steeper, the better. \
            The tail, the last percent, is at the top.</figcaption></figure>\n";
    out += &numbers(report);
    out += &conditions(report);
    out += "</main></body></html>\n";
    out
}

fn style(rows: usize) -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut lines = String::new();
    for i in 0..rows {
        let (colour, dash) = (COLOURS[i % COLOURS.len()], DASHES[i % DASHES.len()]);
        let _ = write!(light, "--c{i}:{};", colour.0);
        let _ = write!(dark, "--c{i}:{};", colour.1);
        let _ = write!(lines, ".s{i}{{stroke:var(--c{i});stroke-dasharray:{dash}}}");
    }
    format!(
        ":root{{color-scheme:light dark;--bg:#fff;--fg:#1c1c1c;--soft:#5c5c5c;--grid:#ddd;{light}}}\
         @media(prefers-color-scheme:dark){{:root{{--bg:#15181b;--fg:#ececec;--soft:#a9b0b6;--grid:#33393e;{dark}}}}}\
         body{{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}}\
         main{{max-width:60rem;margin:0 auto;padding:1rem}}h1{{font-size:1.5rem;line-height:1.2;margin:.5rem 0}}\
         h2{{font-size:1.1rem;margin:1.5rem 0 .5rem}}.lead{{max-width:42rem}}figure{{margin:1rem 0}}\
         figcaption,.note{{color:var(--soft);font-size:.875rem;max-width:42rem}}\
         svg{{display:block;width:100%;height:auto;max-width:60rem}}.narrow{{display:none}}\
         svg text{{fill:var(--fg);font-family:system-ui,sans-serif}}svg .axis{{stroke:var(--soft)}}svg .grid{{stroke:var(--grid)}}\
         svg .line,.key line{{fill:none;stroke-width:2}}{lines}\
         .key{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0;font-size:.875rem}}\
         .key svg{{display:inline-block;width:2.2rem;height:.7rem;vertical-align:middle;margin-right:.4rem}}\
         .scroll{{overflow-x:auto}}table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}}\
         th,td{{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}}\
         th:first-child,td:first-child{{text-align:left;position:sticky;left:0;background:var(--bg)}}\
         @media(max-width:560px){{.wide{{display:none}}.narrow{{display:block}}th,td{{padding:.3rem .35rem;font-size:.8rem}}\
         th:first-child,td:first-child{{white-space:normal;min-width:5.5rem}}}}"
    )
}

/// Stand-ins that plotters draws with; the page's styles take their place.
const AXIS: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(1, 2, 4);
const TEXT: RGBColor = RGBColor(1, 2, 5);
const fn line_colour(row: usize) -> RGBColor {
    RGBColor(9, 9, row as u8)
}

/// The cumulative distribution of completion times.
fn chart(report: &Report, class: &str, size: (u32, u32)) -> String {
    let mut svg = String::new();
    let drawn = draw(report, &mut svg, size);
    debug_assert!(drawn.is_ok(), "drawing into a string cannot fail: {drawn:?}");
    themed(&svg, class, report.rows.len())
}

fn draw(report: &Report, svg: &mut String, size: (u32, u32)) -> Result<(), Box<dyn std::error::Error>> {
    let narrow = size.0 < 500;
    let (from, to) = time_range(report);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let text = |pixels: i32| ("sans-serif", pixels, &TEXT).into_text_style(&root);
    let mut chart = ChartBuilder::on(&root)
        .margin(8)
        .margin_right(if narrow { 14 } else { 24 })
        .x_label_area_size(44)
        .y_label_area_size(if narrow { 52 } else { 64 })
        .build_cartesian_2d(from..to, 0.0..1.0)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(AXIS)
        .x_desc("flow completion time (ms)")
        .y_desc("share of responses (%)")
        .axis_desc_style(text(if narrow { 17 } else { 18 }))
        .label_style(text(if narrow { 16 } else { 17 }))
        .x_labels(if narrow { 5 } else { 10 })
        .y_labels(if narrow { 5 } else { 10 })
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{:.0}", y * 100.0))
        .draw()?;
    for (i, row) in report.rows.iter().enumerate() {
        chart.draw_series(LineSeries::new(steps(row, from, to), line_colour(i).stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}

/// A little more than all times; at least 10 ms wide.
fn time_range(report: &Report) -> (f64, f64) {
    let times = || report.rows.iter().flat_map(|row| row.fct_ms.iter().copied());
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    if !least.is_finite() {
        return (0.0, 10.0);
    }
    let room = ((most - least) * 0.04).max(5.0);
    ((least - room).max(0.0), most + room)
}

fn steps(row: &ReportRow, from: f64, to: f64) -> Vec<(f64, f64)> {
    let mut times = row.fct_ms.clone();
    times.sort_by(f64::total_cmp);
    let n = times.len() as f64;
    let mut points = vec![(from, 0.0)];
    for (i, time) in times.iter().enumerate() {
        points.push((*time, i as f64 / n));
        points.push((*time, (i + 1) as f64 / n));
    }
    points.push((to, 1.0));
    points
}

/// Replaces the stand-in colours by classes and makes the picture scale.
fn themed(svg: &str, class: &str, rows: usize) -> String {
    let hex = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
    let mut out = svg.to_owned();
    for (colour, name) in [(AXIS, "axis"), (GRID, "grid")] {
        out = out.replace(&format!("stroke=\"{}\"", hex(colour)), &format!("class=\"{name}\""));
    }
    out = out.replace(&format!(" fill=\"{}\"", hex(TEXT)), "");
    for row in 0..rows {
        out =
            out.replace(&format!("stroke=\"{}\"", hex(line_colour(row))), &format!("class=\"line s{row}\""));
    }
    let start = out.find("<svg").unwrap_or(0);
    out[start..].replacen(
        "<svg ",
        &format!("<svg class=\"{class}\" role=\"img\" aria-label=\"Distribution of flow completion times\" "),
        1,
    )
}

fn legend(report: &Report) -> String {
    let mut out = "<ul class=\"key\">".to_owned();
    for (i, row) in report.rows.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 44 10\" aria-hidden=\"true\"><line class=\"line s{i}\" x1=\"0\" y1=\"5\" x2=\"44\" y2=\"5\"/></svg>{}</li>",
            escape(&row.label())
        );
    }
    out + "</ul>"
}

fn numbers(report: &Report) -> String {
    let mut out = "<h2>Numbers</h2>\n<div class=\"scroll\"><table><thead><tr><th>row</th><th>mean ms</th><th>p50 ms</th><th>p99 ms</th>\
                   <th>max ms</th><th>Mbit/s</th><th>extra bytes</th><th>lost</th><th>mended</th></tr></thead><tbody>\n"
        .to_owned();
    for row in &report.rows {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.2}</td><td>{:.1} %</td><td>{}</td><td>{}</td></tr>",
            escape(&row.label()),
            row.mean_ms,
            row.p50_ms,
            row.p99_ms,
            row.max_ms,
            row.goodput_mbps,
            row.extra_bytes_ratio * 100.0,
            row.lost,
            row.mended
        );
    }
    out + "</tbody></table></div>\n"
}

fn conditions(report: &Report) -> String {
    let scenario = &report.scenario;
    let mut out = "<h2>What was measured</h2>\n<ul>".to_owned();
    for (place, path) in scenario.paths.iter().enumerate() {
        let _ = write!(out, "<li>Path #{}: {}</li>", place + 1, escape(&path.text));
    }
    let _ = write!(
        out,
        "</ul>\n<p class=\"note\">{} responses of {} per row over real UDP sockets and emulated links, congestion control {}, packets of \
         up to {} bytes, seed {}. \
         Each response has a connection of its own, whose paths are open before the request is sent; losses begin with the request. The time runs from the request \
         to the last byte. The n-th response of every row meets links that draw the same losses. Lost: by the links. Mended: the data of \
         a lost packet had arrived by a copy or a repair symbol before it would have been retransmitted. Extra bytes: copies and repair \
         symbols per other byte of the server. mendpath {}.</p>\n",
        scenario.count,
        units::Bytes(scenario.size_bytes),
        escape(&scenario.congestion),
        scenario.datagram_bytes,
        report.seed,
        escape(report.version)
    );
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{DemoOptions, rows};

    fn example() -> Report {
        let options = DemoOptions::default();
        let rows = rows(&options).into_iter().map(|row| {
            let mut row = ReportRow::new(&row, &[], options.size);
            row.fct_ms = (0..200).map(|i| 100.0 + f64::from(i)).collect();
            row
        });
        Report::new(&options, rows.collect())
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = html(&example());
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
            assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("width=device-width"));
        assert!(page.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn every_row_has_a_line_a_key_and_numbers() {
        let report = example();
        let page = html(&report);
        for (i, row) in report.rows.iter().enumerate() {
            // Twice in the charts, once in the key.
            assert_eq!(page.matches(&format!("class=\"line s{i}\"")).count(), 3, "row {i}");
            assert!(page.contains(&format!("<td>{}</td>", escape(&row.label()))));
        }
        assert!(!page.contains("#0909"), "every stand-in colour is replaced");
        assert!(!page.contains("#0102"), "every stand-in colour is replaced");
        assert!(page.contains("flow completion time (ms)") && page.contains("share of responses (%)"));
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let report = Report::new(&DemoOptions::default(), Vec::new());
        assert!(html(&report).ends_with("</html>\n"));
    }
}
