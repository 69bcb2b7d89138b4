//! The results as one page: no scripts, nothing from elsewhere, light and dark, from a phone's width on.

use std::fmt::Write as _;

use super::{
    Kind, Report, Row,
    table::{cells, groups, headings},
};
use units::percentile;

/// Line colours for light and dark backgrounds; told apart by people who do not see all colours, together with the dash patterns.
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
const DASHES: [&str; 5] = ["none", "8 3", "2 3", "9 4 2 4", "14 4"];

/// The page.
pub fn html(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{}</style></head>\
         <body><main>\n<h1>{title}</h1>\n<p class=\"lead\">{}</p>\n",
        style(),
        escape(&report.about),
        title = escape(&report.title),
    );
    for rows in groups(&report.rows) {
        section(&mut out, rows);
    }
    let machine = &report.machine;
    let _ = write!(
        out,
        "<p class=\"note\">Scale {}, seed {}, Linux {}, {} processors, load average {:.1} before and {:.1} after. Every contender had network \
         namespaces and emulated links of its own, with the same seed: the n-th packet of the n-th fetch is lost for all of them or \
         for none. Sent: bytes that the server's side sent, by bytes that arrived as responses. Extra: copies and repair symbols of mendpath, in % of these; \
         used: those that brought what was lost, wasted: the others. Lost: packets that links took. Full: \
         packets that found a queue full. Late: mean lateness of the emulator in ms. Cpu: ms of the contender's programs and of the lab's own ends, per MB; kernel \
         contenders have no programs. Paths: parts in what was sent to the client. mendpath lab {}.</p>\n</main></body></html>\n",
        report.scale,
        report.seed,
        escape(&machine.kernel),
        machine.cpus,
        machine.load_before,
        machine.load_after,
        report.version
    );
    out
}

fn style() -> String {
    let (mut light, mut dark, mut lines) = (String::new(), String::new(), String::new());
    for (index, colour) in COLOURS.iter().enumerate() {
        let _ = write!(light, "--c{index}:{};", colour.0);
        let _ = write!(dark, "--c{index}:{};", colour.1);
        let _ = write!(lines, ".c{index}{{stroke:var(--c{index})}}");
    }
    for (index, dash) in DASHES.iter().enumerate() {
        let _ = write!(lines, ".d{index}{{stroke-dasharray:{dash}}}");
    }
    format!(
        ":root{{color-scheme:light dark;--bg:#fff;--fg:#1c1c1c;--soft:#5c5c5c;--grid:#ddd;{light}}}\
         @media(prefers-color-scheme:dark){{:root{{--bg:#15181b;--fg:#ececec;--soft:#a9b0b6;--grid:#33393e;{dark}}}}}\
         body{{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}}\
         main{{max-width:70rem;margin:0 auto;padding:1rem}}h1{{font-size:1.5rem;line-height:1.2;margin:.5rem 0}}\
         h2{{font-size:1.1rem;margin:2rem 0 .25rem}}.lead,.note{{max-width:46rem}}.note,.paths{{color:var(--soft);font-size:.875rem}}\
         .paths{{margin:0}}svg{{display:block;width:100%;height:auto;max-width:52rem}}svg text{{fill:var(--fg);font:14px system-ui,sans-serif}}\
         .axis{{stroke:var(--soft);fill:none}}.grid{{stroke:var(--grid)}}.line{{fill:none;stroke-width:2}}{lines}\
         .key{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0;font-size:.875rem}}\
         .key svg{{display:inline-block;width:2.2rem;height:.7rem;vertical-align:middle;margin-right:.4rem}}\
         .scroll{{overflow-x:auto}}table{{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}}\
         th,td{{padding:.25rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}}\
         th:first-child,td:first-child{{text-align:left;position:sticky;left:0;background:var(--bg)}}"
    )
}

fn section(out: &mut String, rows: &[Row]) {
    let first = &rows[0];
    let _ = writeln!(out, "<h2>{}: {}</h2>", escape(&first.network), escape(&first.measure));
    for (index, path) in first.path_texts.iter().enumerate() {
        let _ = writeln!(out, "<p class=\"paths\">path {index}: {}</p>", escape(path));
    }
    match first.kind {
        Kind::Fetch => distribution(out, rows),
        Kind::Share => over_time(out, rows),
        Kind::Bulk => {}
    }
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    headings(first).iter().for_each(|heading| _ = write!(out, "<th>{heading}</th>"));
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        cells(row).iter().for_each(|cell| _ = write!(out, "<td>{}</td>", escape(cell)));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for (contender, error) in rows.iter().filter_map(|row| Some((&row.contender, row.error.as_ref()?))) {
        let _ = writeln!(out, "<p class=\"note\">{}: {}</p>", escape(contender), escape(error));
    }
}

/// The cumulative distribution of completion times. What lies beyond the 99.5th percentile of the slowest is cut off.
fn distribution(out: &mut String, rows: &[Row]) {
    let times = |row: &Row| {
        let mut times = row.times_ms.clone();
        times.sort_by(f64::total_cmp);
        times
    };
    let most = rows.iter().map(|row| percentile(&times(row), 0.995).unwrap_or(0.0)).fold(0.0, f64::max);
    let steps = |row: &Row| {
        let times = times(row);
        let n = times.len().max(1) as f64;
        let mut points = vec![(0.0, 0.0)];
        for (index, time) in times.iter().enumerate() {
            points.push((*time, index as f64 / n));
            points.push((*time, (index + 1) as f64 / n));
        }
        points
    };
    let lines: Vec<Vec<(f64, f64)>> = rows.iter().map(steps).collect();
    let labels = Labels { x: "flow completion time (ms)", y: "share of responses (%)", y_factor: 100.0 };
    chart(out, rows, &lines, (most, 1.0), &labels);
}

/// Goodput second by second.
fn over_time(out: &mut String, rows: &[Row]) {
    let series = |row: &Row| -> Vec<(f64, f64)> {
        let values = row.sharing.iter().flat_map(|sharing| sharing.series_mbps.iter());
        values.enumerate().map(|(second, value)| (second as f64, *value)).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = rows.iter().map(series).collect();
    let most = |pick: fn(&(f64, f64)) -> f64| lines.iter().flatten().map(pick).fold(0.0, f64::max);
    let labels = Labels { x: "time (s)", y: "goodput (Mbit/s)", y_factor: 1.0 };
    chart(out, rows, &lines, (most(|point| point.0), most(|point| point.1)), &labels);
}

struct Labels {
    x: &'static str,
    y: &'static str,
    y_factor: f64,
}

/// Size of a chart and of the margins left and below.
const SIZE: (f64, f64) = (800.0, 340.0);
const MARGIN: (f64, f64) = (64.0, 46.0);
const TOP: f64 = 10.0;

fn chart(out: &mut String, rows: &[Row], lines: &[Vec<(f64, f64)>], most: (f64, f64), labels: &Labels) {
    if most.0 <= 0.0 || most.1 <= 0.0 {
        return;
    }
    let (x_step, y_step) = (step(most.0, 8.0), step(most.1, 5.0));
    let x = |value: f64| MARGIN.0 + value / most.0 * (SIZE.0 - MARGIN.0 - 12.0);
    let y = |value: f64| SIZE.1 - MARGIN.1 - value / most.1 * (SIZE.1 - MARGIN.1 - TOP);
    let (bottom, right) = (y(0.0), x(most.0));
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} over {}\">",
        SIZE.0, SIZE.1, labels.y, labels.x
    );
    let mut value = 0.0;
    while value <= most.1 * 1.001 {
        let at = y(value);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{}\" y1=\"{at:.1}\" x2=\"{right:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN.0,
            MARGIN.0 - 8.0,
            at + 5.0,
            short(value * labels.y_factor)
        );
        value += y_step;
    }
    let mut value = 0.0;
    while value <= most.0 * 1.001 {
        let at = x(value);
        let _ = write!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            short(value)
        );
        value += x_step;
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{} {TOP}V{bottom:.1}H{right:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        MARGIN.0,
        f64::midpoint(MARGIN.0, right),
        SIZE.1 - 8.0,
        labels.x,
        bottom / 2.0,
        labels.y
    );
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .iter()
            .filter(|point| point.0 <= most.0)
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let _ = write!(out, "<polyline class=\"line {}\" points=\"{}\"/>", class(index), points.join(" "));
    }
    out.push_str("</svg><ul class=\"key\">");
    for (index, row) in rows.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 44 10\" aria-hidden=\"true\"><line class=\"line {}\" x1=\"0\" y1=\"5\" x2=\"44\" y2=\"5\"/></svg>{}</li>",
            class(index),
            escape(&row.contender)
        );
    }
    out.push_str("</ul>\n");
}

fn class(index: usize) -> String {
    format!("c{} d{}", index % COLOURS.len(), index % DASHES.len())
}

/// A round step that gives about `count` of them up to `most`.
fn step(most: f64, count: f64) -> f64 {
    let power = 10.0_f64.powf((most / count).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| most / step <= count)
        .unwrap_or(most)
}

fn short(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_shows_every_row() {
        let report = example();
        let page = html(&report);
        for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("An &lt;example&gt;") && !page.contains("<example>"));
        for row in &report.rows {
            assert!(page.contains(&format!("<td>{}</td>", row.contender)), "{}", row.contender);
        }
        assert_eq!(page.matches("<polyline").count(), 3); // the rows of the one distribution
        assert!(page.contains("share of responses (%)") && page.ends_with("</html>\n"));
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(step(1.0, 5.0), 0.2);
        assert_eq!(step(437.0, 8.0), 100.0);
        assert_eq!(step(95.0, 5.0), 20.0);
    }
}
