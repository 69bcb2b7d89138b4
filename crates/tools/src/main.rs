//! Programs for work on Mendpath itself.

fn main() {}
