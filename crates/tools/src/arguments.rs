//! Arguments of a tool, for its tests.

use clap::{Args, Error, Parser};

#[derive(Parser)]
struct Line<A: Args> {
    #[command(flatten)]
    arguments: A,
}

/// Reads a command line, which begins with the tool's name.
///
/// # Errors
/// If it is none of this tool's.
pub(crate) fn read<A: Args>(line: &[&str]) -> Result<A, Error> {
    Line::try_parse_from(line).map(|line| line.arguments)
}
