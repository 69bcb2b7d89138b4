//! Writes the pages and pictures of the committed runs of the lab again, from their data. Nothing
//! is measured.
//!
//! `cargo run -p mendpath-lab --example lab_pages`, at the root of the repository; or name the folder
//! whose folders have a `results.json` each.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "lab".to_owned());
    let folders = match fs::read_dir(&root) {
        Ok(folders) => folders,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("there is no {root}: nothing was published");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for folder in folders {
        let folder = folder?.path();
        let data = folder.join("results.json");
        if !data.exists() {
            continue;
        }
        let wrong = |error| io::Error::other(format!("{}: {error}", data.display()));
        let report = mendpath_lab::read(&fs::read_to_string(&data)?).map_err(wrong)?;
        for (name, text) in mendpath_lab::published(&report) {
            write(&folder.join(name), &text)?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    println!("{}", file.display());
    fs::write(file, text)
}
