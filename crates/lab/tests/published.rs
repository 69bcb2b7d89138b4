//! What is committed of the lab belongs to its data.

use std::{fs, path::Path};

/// What of a folder is not what its data make.
fn stale(folder: &Path) -> Vec<String> {
    let text = match fs::read_to_string(folder.join("results.json")) {
        Ok(text) => text,
        Err(error) => return vec![format!("results.json: {error}")],
    };
    let report = match mendpath_lab::read(&text) {
        Ok(report) => report,
        Err(error) => return vec![format!("results.json: {error}")],
    };
    let made = mendpath_lab::published(&report);
    let mut stale: Vec<String> = made
        .iter()
        .filter(|(name, text)| !fs::read_to_string(folder.join(name)).is_ok_and(|old| old == *text))
        .map(|(name, _)| name.clone())
        .collect();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "results.json" && !made.iter().any(|(made, _)| *made == name) {
            stale.push(format!("{name} belongs to nothing"));
        }
    }
    stale
}

/// There may be none: the folder is made when the first plan is published.
#[test]
fn committed_pages_belong_to_their_data() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab");
    for entry in fs::read_dir(&root).into_iter().flatten() {
        let folder = entry.unwrap().path();
        assert_eq!(
            stale(&folder),
            [""; 0],
            "cargo run -p mendpath-lab --example lab_pages; {}",
            folder.display()
        );
    }
}

#[test]
fn a_page_that_does_not_belong_to_its_data_is_found() {
    let folder = std::env::temp_dir().join(format!("mendpath-lab-published-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    assert_eq!(stale(&folder).len(), 1, "without data");
    let text = include_str!("data/results.json");
    fs::write(folder.join("results.json"), text).unwrap();
    assert_eq!(stale(&folder), ["01.svg", "README.md"]);
    for (name, text) in mendpath_lab::published(&mendpath_lab::read(text).unwrap()) {
        fs::write(folder.join(name), text).unwrap();
    }
    assert_eq!(stale(&folder), [""; 0]);
    fs::write(folder.join("results.json"), text.replace("\"seed\":1", "\"seed\":2")).unwrap();
    assert_eq!(stale(&folder), ["README.md"]);
    fs::write(folder.join("results.json"), text).unwrap();
    fs::write(folder.join("02.svg"), "").unwrap();
    assert_eq!(stale(&folder), ["02.svg belongs to nothing"]);
    fs::remove_dir_all(&folder).unwrap();
}
