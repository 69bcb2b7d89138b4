//! Names in statistics are made of the glossary's words, so that one word means one thing
//! everywhere. And tests that a document names are there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Where statistics of the transport and the proxy are declared.
const ROOMS: [&str; 3] = ["crates/proto/src", "crates/mendpath/src", "crates/cli/src"];

/// Structs that must be among those found.
const KNOWN: [&str; 11] = [
    "PathStats",
    "ConnectionStats",
    "RecoveryReasons",
    "EndpointStats",
    "StreamsStats",
    "PathRow",
    "StatsRow",
    "DoorRow",
    "EventRow",
    "PeerRow",
    "TrafficRow",
];

#[test]
fn every_statistic_is_in_the_glossary() {
    let words = words();
    let fields = fields();
    for known in KNOWN {
        assert!(fields.contains_key(known), "{known} was not found in {ROOMS:?}");
    }
    let strange: Vec<String> = fields
        .iter()
        .flat_map(|(of, fields)| fields.iter().map(move |field| (of, field)))
        .filter(|(_, field)| !is_made_of(field, &words))
        .map(|(of, field)| format!("{of}::{field}"))
        .collect();
    assert!(strange.is_empty(), "docs/glossary.md has no words for {strange:?}");
}

#[test]
fn no_word_of_the_glossary_is_left_over() {
    let fields: BTreeSet<String> = fields().into_values().flatten().collect();
    let idle: Vec<String> =
        words().into_iter().filter(|word| !fields.iter().any(|field| contains(field, word))).collect();
    assert!(idle.is_empty(), "no statistic uses {idle:?}");
}

#[test]
fn names_that_clashed_are_strange() {
    let words = words();
    assert!(is_made_of("late_copies_sent", &words));
    for old in ["packets_recovered", "peer_recovered", "repair_used", "packets_mended_here", "repair_sent"] {
        assert!(!is_made_of(old, &words), "{old}");
    }
}

/// Whoever renames a test that stands beside a limit, or leaves it out, is told. Names of other
/// things have fewer underscores.
#[test]
fn the_tests_beside_the_limits_are_there() {
    let text = fs::read_to_string(root().join("docs/security.md")).expect("the document");
    let is_test = |name: &String| {
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        plain && name.matches('_').count() >= 3
    };
    let mut named: BTreeSet<String> = text.lines().flat_map(in_code_type).filter(is_test).collect();
    assert!(named.len() > 100, "{named:?}");
    let regressions = root().join("crates/testkit/regressions");
    named.retain(|name| !regressions.join(format!("{name}.scenario")).exists());
    let is_source = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    for file in sources(&root().join("crates")).into_iter().filter(is_source) {
        let text = fs::read_to_string(&file).expect("a source");
        for name in text.lines().filter_map(function) {
            named.remove(name);
        }
    }
    assert!(named.is_empty(), "docs/security.md names tests that are not there: {named:?}");
}

/// The name of the function that this line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

/// The words of statistics: in code type after a term, and in the first column of the table.
fn words() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    let mut words = BTreeSet::new();
    for paragraph in text.split("\n\n") {
        if paragraph.starts_with("**") {
            let paragraph = paragraph.replace('\n', " ");
            for bracket in paragraph.split('(').skip(1) {
                let inside = bracket.split(')').next().unwrap_or_default();
                if inside.starts_with('`') {
                    words.extend(in_code_type(inside));
                }
            }
        }
        for row in paragraph.lines().filter_map(|line| line.strip_prefix("| `")) {
            words.extend(in_code_type(&format!("`{}", row.split('|').next().unwrap_or_default())));
        }
    }
    words
}

fn in_code_type(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Whether a name is a sequence of words, with `_` between them.
fn is_made_of(name: &str, words: &BTreeSet<String>) -> bool {
    words.iter().any(|word| match name.strip_prefix(word.as_str()) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('_').is_some_and(|rest| is_made_of(rest, words)),
        None => false,
    })
}

/// Whether `word` stands in `name` as whole words.
fn contains(name: &str, word: &str) -> bool {
    format!("_{name}_").contains(&format!("_{word}_"))
}

/// The fields of all statistics, by struct, as the sources declare them.
fn fields() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in ROOMS.iter().flat_map(|room| sources(&root().join(room))) {
        let text = fs::read_to_string(&file).expect("a source");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(name) = statistics(line, &file) else { continue };
            let body = lines.by_ref().take_while(|line| *line != "}");
            found.entry(name.to_owned()).or_default().extend(body.filter_map(field).map(str::to_owned));
        }
    }
    found
}

/// The name of the statistics that this line begins to declare.
fn statistics<'a>(line: &'a str, file: &Path) -> Option<&'a str> {
    if line == "recovery_reasons! {" {
        return Some("RecoveryReasons");
    }
    let name = without_visibility(line).strip_prefix("struct ")?.strip_suffix(" {")?;
    let is_shown = ["client/admin.rs", "server/statistics.rs"].iter().any(|shown| file.ends_with(shown))
        || file.parent().is_some_and(|folder| folder.ends_with("cli/src/status"));
    let is_public = line.starts_with("pub ") && ["Stats", "Reasons"].iter().any(|end| name.ends_with(end));
    let is_json = is_shown && name.ends_with("Row");
    (is_public || is_json).then_some(name)
}

fn without_visibility(line: &str) -> &str {
    let prefixes = ["pub ", "pub(crate) ", "pub(super) "];
    prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line)
}

fn field(line: &str) -> Option<&str> {
    let line = without_visibility(line.strip_prefix("    ")?);
    // A macro's list of fields has their names alone.
    let name = line.split_once(": ").map(|(name, _)| name).or_else(|| line.strip_suffix(','))?;
    // `counters` are fields of `ConnectionStats`, which stand in its place.
    let is_name = name != "counters" && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_name.then_some(name)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
