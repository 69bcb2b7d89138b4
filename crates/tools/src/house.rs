//! What the house looks like in numbers: the shape of functions, what parts know of each other, and
//! what something new has to touch.
//!
//! Counted is the code of `crates/*/src` as the compiler finds it from `lib.rs` and `main.rs`,
//! without tests and without the bodies of macros by example. docs/house.md has the numbers.

mod circles;
mod fields;
mod functions;
mod registration;
mod source;

use std::{
    fmt::{self, Display},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use source::Crate;

/// What the house looks like in numbers: the shape of functions, what parts know of each other, and
/// what something new has to touch.
#[derive(Args)]
pub struct Arguments {
    /// The folder with the workspace; another checkout shows another time.
    #[arg(long, default_value = ".")]
    tree: PathBuf,
    /// Name the places behind each number.
    #[arg(long)]
    list: bool,
}

/// A line of the table: what is counted, how many there are, and where.
struct Count {
    what: String,
    number: String,
    places: Vec<String>,
}

impl Count {
    /// As many as there are places.
    fn of(what: impl Into<String>, places: Vec<String>) -> Self {
        Self { number: places.len().to_string(), ..Self::said(what, "", places) }
    }

    fn said(what: impl Into<String>, number: impl Display, places: Vec<String>) -> Self {
        Self { what: what.into(), number: number.to_string(), places }
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} |", self.what, self.number)
    }
}

pub fn run(arguments: &Arguments) -> ExitCode {
    match Crate::read_all(&arguments.tree) {
        Ok(crates) => {
            show(&counts(&crates), arguments.list);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn counts(crates: &[Crate]) -> Vec<Count> {
    let mut counts = functions::count(crates);
    counts.extend(fields::count(crates));
    counts.extend(circles::count(crates));
    counts.extend(registration::count(crates));
    counts
}

fn show(counts: &[Count], list: bool) {
    println!("| what | count |\n| --- | --- |");
    for count in counts {
        println!("{count}");
        if list {
            count.places.iter().for_each(|place| println!("    {place}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The promises of docs/house.md that a change should not break unnoticed.
    #[test]
    fn the_house_is_in_order() {
        let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let crates = Crate::read_all(&tree).unwrap();
        for count in counts(&crates) {
            let none = [functions::TWO_BOOLEANS, functions::FILTERS, fields::VISIBLE, circles::ROOMS];
            if none.contains(&count.what.as_str()) {
                assert_eq!(count.number, "0", "{}: {:#?}", count.what, count.places);
            }
        }
    }
}
