//! The page and the text.

mod support;

use mendpath_trace::{Options, Report, html, text};
use support::{
    analyse,
    tcp_model::{mix, ordinary},
    wire::{Capture, Packet},
};

fn report() -> Report {
    let packets: Vec<Packet> = mix(&ordinary(400, 0.05, 9)).into_iter().map(|(packet, _)| packet).collect();
    analyse(&Capture::of(&packets), Options::default())
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = html(&report());
    for elsewhere in ["src=", "href=", "url(", "@import", "<script", "http:", "https:"] {
        let allowed = if elsewhere == "http:" { "http://www.w3.org/2000/svg" } else { "\u{0}" };
        assert!(!page.replace(allowed, "").contains(elsewhere), "{elsewhere}");
    }
    assert!(page.contains("width=device-width") && page.contains("prefers-color-scheme:dark"));
}

#[test]
fn every_kind_of_figure_is_there_in_both_sizes() {
    let page = html(&report());
    let figures = ["Histogram of", "by position", "by TCP flags", "Distribution of completion"];
    for (figure, count) in figures.into_iter().zip([2, 4, 2, 6]) {
        let found =
            page.lines().filter(|line| line.contains("aria-label")).map(|line| line.matches(figure).count());
        assert_eq!(found.sum::<usize>(), count, "{figure}");
    }
    for stand_in in ["#0102", "#0909", "#0A0A"] {
        assert!(!page.contains(stand_in), "{stand_in} is replaced");
    }
}

#[test]
fn names_of_files_are_text() {
    let mut report = report();
    report.files[0].name = "<script>alert(1)</script>".into();
    report.warnings.push("<b>".into());
    let page = html(&report);
    assert!(!page.contains("<script") && page.contains("&#60;script") && !page.contains("<b>"));
}

#[test]
fn the_text_fits_a_terminal() {
    let text = text(&report());
    for line in
        text.lines().filter(|line| line.starts_with("  ") && !line.contains(';') && !line.contains("- "))
    {
        assert!(line.chars().count() <= 88, "{line}");
    }
    for heading in ["Position: client to server", "Flags:", "What if", "arbiter", "SLP paper"] {
        assert!(text.contains(heading), "{heading}");
    }
}

#[test]
fn the_json_has_the_documented_form() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["schema"], "mendpath-trace/1");
    for field in [
        "files",
        "packets",
        "connections",
        "retransmissions",
        "wireshark",
        "grouping",
        "loss",
        "positions",
        "flags",
        "what_if",
        "arbiter",
        "verdicts",
        "lost_packets",
        "warnings",
        "span_ms",
        "version",
    ] {
        assert!(!json[field].is_null(), "{field}");
    }
    assert_eq!(json["what_if"][0]["variant"], "syn");
    assert_eq!(json["positions"][0]["heading"], "client_to_server");
    assert!(json["lost_packets"][0]["interval_ms"].as_f64().unwrap() > 0.0);
}
