//! Standard output of tools that hold something which is to go when they end, and how those end that
//! come to nothing. The others print with `println!`, and end there when nobody reads it any more.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// The exit code of what a closed pipe has ended, as shells report it.
const SIGPIPE: u8 = 128 + 13;

/// Has what prints with `println!` end without a word when whoever reads it has read enough, as `head`
/// has. To be called again by whoever sets another hook for panics.
pub(crate) fn end_with_the_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(SIGPIPE.into());
        }
        report(panic);
    }));
}

/// Standard output. That nobody reads it any more is an error of its own.
pub(crate) struct Out;

/// Whoever reads what is printed has read enough, as `head` has.
#[derive(Debug)]
struct ReaderIsGone;

impl fmt::Display for ReaderIsGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads what is printed")
    }
}

impl Error for ReaderIsGone {}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(named)
    }
}

/// Other pipes may break, too.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { io::Error::other(ReaderIsGone) } else { error }
}

/// Says why a tool came to nothing, unless its reader is gone, and returns the exit code.
pub(crate) fn failed(tool: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let inner = error.downcast_ref().and_then(io::Error::get_ref);
    if inner.is_some_and(|inner| inner.is::<ReaderIsGone>()) {
        return ExitCode::from(SIGPIPE);
    }
    let _ = writeln!(io::stderr(), "{tool}: {error}");
    ExitCode::FAILURE
}
