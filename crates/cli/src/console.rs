//! What commands print on stdout, what long-running ones tell their user on stderr, and where progress
//! may be drawn.

use std::{
    ffi::OsStr,
    fmt,
    io::IsTerminal,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
};

use crate::{
    failure::{Failure, io_reason},
    word,
};

/// How lines on stderr are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object of JSON on each line.
    Json,
}

impl LogFormat {
    const ALL: [(Self, &str); 2] = [(Self::Text, "text"), (Self::Json, "json")];
}

word::words!(LogFormat);

/// Whether lines are written as JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Prints one line on stderr. Never fails: a closed terminal is no reason to stop a proxy.
pub fn say(line: impl fmt::Display) {
    use std::io::Write as _;
    let line = if JSON.load(Relaxed) { json_line(&line.to_string()) } else { format!("mendpath: {line}") };
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// A name as one line can show it: a file's may hold what moves the cursor of a terminal or begins
/// another line.
pub(crate) fn shown(name: &Path) -> String {
    let mut shown = String::new();
    for char in name.to_string_lossy().chars() {
        if char.is_control() { shown.extend(char.escape_default()) } else { shown.push(char) }
    }
    shown
}

/// The line as logs have it.
fn json_line(message: &str) -> String {
    let mut now = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut now));
    let level = if message.starts_with("error: ") { "ERROR" } else { "INFO" };
    let message = message.trim_start_matches("error: ");
    let object = serde_json::json!({
        "timestamp": now, "level": level, "fields": {"message": message}, "target": "mendpath",
    });
    object.to_string()
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

/// Whether to write in colour: to a terminal that has some, unless the user wants none (`NO_COLOR`).
pub(crate) fn in_colour(out: &impl IsTerminal) -> bool {
    let variable = std::env::var_os;
    out.is_terminal() && has_colour(variable("TERM").as_deref(), variable("NO_COLOR").as_deref())
}

/// The same by what the variables say.
fn has_colour(term: Option<&OsStr>, no_color: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb") && no_color.is_none_or(OsStr::is_empty)
}

/// Sends logs to stderr: errors, with `-v` what our crates say of events, then more and more.
/// `RUST_LOG` overrules.
pub fn init_logs(verbose: u8, format: LogFormat) {
    JSON.store(format == LogFormat::Json, Relaxed);
    // What cannot be written is left out, as [`say`] does. Else that would be told on stderr as well, and a
    // line that cannot be told there is a panic: of whoever had something to log.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter(verbose)).with_writer(std::io::stderr);
    // A second call (in tests) keeps the first subscriber.
    match format {
        LogFormat::Text => {
            let builder = builder.with_ansi(in_colour(&std::io::stderr())).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = VERBOSITY.set(Box::new(move |verbose| _ = handle.reload(filter(verbose))));
            }
        }
        LogFormat::Json => {
            let builder = builder.json().with_span_list(false).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.try_init().is_ok() {
                let _ = VERBOSITY.set(Box::new(move |verbose| _ = handle.reload(filter(verbose))));
            }
        }
    }
}

/// Prints a result on stdout. A closed pipe is the reader's choice, not a failure; a full disk is one.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    show(text).map(|_| ())
}

/// The same for what goes on for as long as somebody looks: whether somebody still does.
pub(crate) fn show(text: &str) -> Result<bool, Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let result = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written(result)
}

/// Prints what a command line gets that is not run: what is wrong with it, or the help that it asks for.
/// Returns the exit code.
///
/// # Errors
/// When the help cannot be written.
pub fn answer(error: &clap::Error) -> Result<u8, Failure> {
    use std::io::Write as _;
    let result = error.print().and_then(|()| std::io::stdout().flush());
    if error.use_stderr() { Ok(2) } else { written(result).map(|_| 0) }
}

/// Whether somebody still reads stdout, after writing to it.
fn written(result: std::io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let next = "Send the output elsewhere";
            Err(Failure::new("cannot write to standard output", io_reason(&error), next))
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    /// As in an editor's window, which shows the codes of colours as letters.
    #[test]
    fn a_terminal_without_colours_gets_none() {
        let has = |term: Option<&'static str>, no_color: Option<&'static str>| {
            has_colour(term.map(OsStr::new), no_color.map(OsStr::new))
        };
        assert!(has(Some("xterm"), None) && has(None, None) && has(Some("xterm"), Some("")));
        assert!(!has(Some("dumb"), None) && !has(Some("xterm"), Some("1")));
    }

    #[test]
    fn a_name_moves_no_cursor() {
        for (name, seen) in [
            (&b"dir/a file"[..], "dir/a file"),
            (b"a\x1b[2J\tb\nc", "a\\u{1b}[2J\\tb\\nc"),
            ("\u{9b}31m\u{e4}".as_bytes(), "\\u{9b}31m\u{e4}"),
            (b"\xff", "\u{fffd}"),
        ] {
            assert_eq!(shown(Path::new(OsStr::from_bytes(name))), seen);
        }
    }
}
