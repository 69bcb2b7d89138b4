//! What long-running commands tell their user on stderr, and where progress may be drawn.

use std::{
    io::IsTerminal as _,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::EnvFilter;

/// Prints one line on stderr. Never fails: a closed terminal is no reason to stop a proxy.
pub fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "mendpath: {line}");
}

/// Whether good news are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on [`mention`] prints nothing: the terminal is another program's.
pub fn leave_out_good_news() {
    QUIET.store(true, Relaxed);
}

/// Prints one line on stderr as [`say`] does, unless good news are left out.
pub fn mention(line: impl std::fmt::Display) {
    if !QUIET.load(Relaxed) {
        say(line);
    }
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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(verbose))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter_reloading();
    let handle = builder.reload_handle();
    // A second call (in tests) keeps the first subscriber.
    if builder.try_init().is_ok() {
        let _ = VERBOSITY.set(Box::new(move |verbose| _ = handle.reload(filter(verbose))));
    }
}

/// Logs more or less from now on, as [`init_logs`] does from the start.
pub fn set_verbosity(verbose: u8) {
    if let Some(set) = VERBOSITY.get() {
        set(verbose);
    }
}

static VERBOSITY: OnceLock<Box<dyn Fn(u8) + Send + Sync>> = OnceLock::new();

fn filter(verbose: u8) -> EnvFilter {
    let level = match verbose {
        0 => "error",
        1 => "mendpath=info",
        2 => "mendpath=debug",
        _ => "trace",
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level))
}
