//! What is committed of a run: its data, and the page and pictures that are made from these alone.

use std::fmt::Write as _;

use figures::Sheet;

use super::{
    Report, Row, SCHEMA,
    html::{chart, names},
    table::{LEGEND, cells, groups, headings, how_many},
};

/// The report as it is committed: JSON with a line for each row.
pub fn data(report: &Report) -> String {
    let all = serde_json::to_value(report).unwrap_or_default();
    let mut out = "{\n".to_owned();
    for (name, value) in all.as_object().into_iter().flatten().filter(|(name, _)| *name != "rows") {
        let _ = writeln!(out, "{}:{value},", serde_json::Value::from(name.as_str()));
    }
    let rows: Vec<String> =
        report.rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default()).collect();
    out + "\"rows\":[\n" + &rows.join(",\n") + "\n]}\n"
}

/// Reads what [`data`] or [`json`](super::json) wrote.
///
/// # Errors
/// What is wrong, as a sentence: it is no JSON, a field is missing, or another schema.
pub fn read(text: &str) -> Result<Report, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match report.schema.as_ref() {
        SCHEMA => Ok(report),
        other => Err(format!("its schema is {other}, not {SCHEMA}")),
    }
}

/// The page and its pictures: names of files and their content, in the order of names.
pub fn published(report: &Report) -> Vec<(String, String)> {
    let mut page = head(report);
    let mut files = Vec::new();
    for (index, rows) in groups(&report.rows).enumerate() {
        let first = &rows[0];
        let (network, measure) = (escape(&first.network), escape(&first.measure));
        let _ = writeln!(page, "\n## {network}: {measure}{}\n", how_many(rows));
        for (path, text) in first.path_texts.iter().enumerate() {
            let _ = writeln!(page, "- path {path}: `{text}`");
        }
        if let Some((caption, svg)) = picture(report, rows) {
            let name = format!("{:02}.svg", index + 1);
            let _ = writeln!(page, "\n![{caption}]({name})");
            files.push((name, svg));
        }
        page += &table(rows);
    }
    let _ = writeln!(
        page,
        "\nWhat the columns say: {}.",
        LEGEND.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    files.push(("README.md".to_owned(), page));
    files
}

/// The title, and under which conditions it was measured.
fn head(report: &Report) -> String {
    let machine = &report.machine;
    let or = |text: &str, otherwise: &str| escape(if text.is_empty() { otherwise } else { text });
    let versions = report.versions.iter().map(|(name, version)| format!("{name}: {version}"));
    let others =
        machine.others_share.map_or("not known".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let rows = [
        ("scale, seed", format!("{}, {}", report.scale, report.seed)),
        (
            "fetches, calls or loads per contender",
            report.count.map_or("the plan's".to_owned(), |n| n.to_string()),
        ),
        ("lab", report.version.to_string()),
        ("programs", or(&versions.collect::<Vec<_>>().join("; "), "not known")),
        ("processor", format!("{}, {} of them", or(&machine.processor, "not named"), machine.cpus)),
        ("memory", format!("{:.1} GB", machine.memory_bytes as f64 / 1e9)),
        ("kernel", or(&machine.kernel, "not known")),
        ("load average before and after", format!("{:.2}, {:.2}", machine.load_before, machine.load_after)),
        ("processor time of others meanwhile", others),
    ];
    let mut out = format!("# {}\n\n{}\n\n", escape(&report.title), description(&report.about));
    out += "Made from `results.json` by `cargo run -p mendpath-lab --example lab_pages`: \
            change nothing here. [docs/lab.md](../../docs/lab.md) describes the lab and the data.\n\n\
            | what | |\n| --- | --- |\n";
    for (what, value) in rows {
        let _ = writeln!(out, "| {what} | {value} |");
    }
    out
}

fn picture(report: &Report, rows: &[Row]) -> Option<(&'static str, String)> {
    let (caption, drawn) = chart(rows)?;
    let heading = format!("{}: {}", rows[0].network, rows[0].measure);
    let key: Vec<&str> = names(rows).collect();
    let sheet = Sheet { title: &report.title, notes: &[caption], panels: &[(&heading, &drawn)], key: &key };
    Some((caption, sheet.svg()))
}

/// The rows as a table, and why there is nothing, or no more, of some.
fn table(rows: &[Row]) -> String {
    let headings = headings(&rows[0]);
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = "\n".to_owned() + &line(headings.iter().map(|&heading| heading.to_owned()).collect());
    out += &line(vec!["---".to_owned(); headings.len()]);
    for row in rows {
        out += &line(cells(row).iter().map(|cell| escape(cell)).collect());
    }
    for row in rows {
        if let Some(error) = &row.error {
            let _ = writeln!(out, "\n{}: {}", escape(&row.contender), escape(error));
        }
    }
    out
}

/// Text that Markdown leaves as it is, in one line.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The same of a description, in which code stays code.
fn description(text: &str) -> String {
    escape(text.trim()).replace("\\`", "`")
}

#[cfg(test)]
mod tests {
    use super::super::{json, tests::example};
    use super::*;

    #[test]
    fn a_page_is_made_from_the_data_alone() {
        let report = example();
        let again = read(&data(&report)).unwrap();
        assert_eq!(json(&again), json(&report));
        assert_eq!(published(&again), published(&report));
        assert_eq!(data(&report).lines().filter(|line| line.starts_with("{\"network\"")).count(), 7);
        assert!(read(&json(&report)).is_ok());
    }

    #[test]
    fn another_schema_and_no_data_are_refused() {
        assert!(read("{}").is_err());
        let other = data(&example()).replace(SCHEMA, "mendpath-lab/0");
        assert_eq!(read(&other).unwrap_err(), "its schema is mendpath-lab/0, not mendpath-lab/1");
    }

    #[test]
    fn the_page_shows_rows_conditions_pictures_and_errors() {
        let mut report = example();
        report.machine.others_share = Some(0.034);
        report.about = "A | B, `@0`".to_owned();
        let files = published(&report);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["01.svg", "05.svg", "README.md"], "fetches and page loads have a picture");
        let page = &files[2].1;
        for wanted in [
            "# An &lt;example>",
            "A \\| B, `@0`",
            "| scale, seed | quick, 1 |",
            "| fetches, calls or loads per contender | 100 |",
            "| programs | mendpath: mendpath 0.1.0 |",
            "| processor time of others meanwhile | 3.4 % |",
            "\n## loss 2%: 60.0 kB (100 of each contender)\n",
            "](01.svg)",
            "quinn: there is no such program",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        for row in &report.rows {
            assert!(page.contains(&format!("\n| {} | ", row.contender)), "{}", row.contender);
        }
        assert!(files[0].1.starts_with("<svg ") && files[0].1.contains("mendpath:auto"));
    }
}
