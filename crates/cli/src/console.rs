//! What long-running commands tell their user on stderr, and where progress may be drawn.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Prints one line on stderr. Never fails: a closed terminal is no reason to stop a proxy.
pub fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "mendpath: {line}");
}

/// A progress bar on a terminal, nothing in a pipe. `template` is indicatif's.
pub fn progress(length: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("templates are written by us");
    ProgressBar::new(length).with_style(style.progress_chars("=> "))
}

/// Sends logs to stderr: warnings of our crates, with `-v` information, with `-vv` everything.
/// `RUST_LOG` overrules.
pub fn init_logs(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let level = match verbose {
        0 => "error",
        1 => "mendpath=info",
        2 => "mendpath=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // A second call (in tests) keeps the first subscriber.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
