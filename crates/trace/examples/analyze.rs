//! Analyses captures and prints the tables, without the rest of the command line:
//! `analyze FILE... [--html FILE] [--json FILE] [--paper]`.

use std::{fs::File, path::PathBuf};

use clap::Parser;
use mendpath_trace::{Analyzer, Method, Options, html, read_capture, text};

#[derive(Parser)]
struct Arguments {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long)]
    html: Option<PathBuf>,
    #[arg(long)]
    json: Option<PathBuf>,
    /// List every retransmission in the JSON, not the first thousand.
    #[arg(long)]
    all: bool,
    /// By the paper's method.
    #[arg(long)]
    paper: bool,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let method = if arguments.paper { Method::Paper } else { Method::AckClock };
    let listed = if arguments.all { usize::MAX } else { Options::default().listed };
    let mut analyzer = Analyzer::new(Options { method, listed, ..Options::default() });
    for file in &arguments.files {
        read_capture(&file.display().to_string(), File::open(file)?, &mut analyzer, &mut |_| ());
    }
    let report = analyzer.finish();
    if let Some(file) = &arguments.html {
        std::fs::write(file, html(&report))?;
    }
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    print!("{}", text(&report));
    Ok(())
}
