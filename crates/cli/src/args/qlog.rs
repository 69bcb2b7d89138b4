//! The arguments of `mendpath qlog`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What there is to do with traces of connections.
#[derive(Debug, Subcommand)]
pub enum QlogCommand {
    /// Draw what each path of a connection did.
    #[command(long_about = "Draw what each path of a connection did.\n\n\
                  Turns a trace that --qlog of client or server has written into one page, which needs nothing else: round-trip time, \
                  congestion window, bytes in flight, goodput, losses, copies and repair symbols of every path over time, totals and events.")]
    View(ViewArgs),
}

/// Arguments of `qlog view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath client --invitation-file invitation --qlog traces\n  \
                  mendpath qlog view traces/0123456789abcdef_client.sqlog\n  \
                  mendpath qlog view - -o page.html < trace.sqlog")]
pub struct ViewArgs {
    /// The trace; `-` for stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The page; `-` for stdout [default: beside the trace, under its name with .html at the end].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
