//! Steps of the wall clock move nothing but the last day of invitations and the times that people
//! read beside events: only accounts, which end at a date, what is shown live, and the doctor, who
//! judges the clock itself, read it.
//!
//! Timers, tokens' ages and idle times run on the monotonic clock, which NTP and people cannot set.
//! A clock that a whole machine shares cannot be stepped in a test beside others, so this looks for
//! whoever would read it. Clippy forbids `SystemTime::now` as well, but an `allow` silences it. TLS
//! reads the wall clock for the dates of certificates, which the pinned key overrules
//! (`crates/mendpath/src/verifier.rs` checks that).

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What reads the wall clock, in the libraries that are in reach.
const READERS: [&str; 6] =
    ["SystemTime::now", "UNIX_EPOCH", "UnixTime::now", "Utc::now", "Local::now", "CLOCK_REALTIME"];

/// What the program is made of.
const CRATES: [&str; 8] = ["units", "gf256", "fec", "congestion", "recovery", "proto", "mendpath", "cli"];

#[test]
fn nothing_reads_the_wall_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in CRATES {
        collect(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 150, "only {} files were found", files.len());
    let may = ["accounts", "doctor", "status"].map(|name| crates.join("cli/src").join(name));
    let must_not = |file: &&PathBuf| !may.iter().any(|may| file.with_extension("").starts_with(may));
    for file in files.iter().filter(must_not) {
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(readers(&text), Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn a_reader_would_be_found() {
    let text = "// SystemTime::now in a comment\nlet a = 1;\nlet now = std::time::SystemTime::now();\n";
    assert_eq!(readers(text), ["3: let now = std::time::SystemTime::now();"]);
}

/// The lines of code that read the wall clock.
fn readers(text: &str) -> Vec<String> {
    let code = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.starts_with("//"));
    let reads = code.filter(|(_, line)| READERS.iter().any(|reader| line.contains(reader)));
    reads.map(|(number, line)| format!("{number}: {line}")).collect()
}

/// All Rust files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
