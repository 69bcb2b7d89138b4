//! `mendpath qlog view`.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use trace::{QlogError, qlog_page, read_qlog};

use super::{
    check_writable,
    outputs::{same_file, start_of},
    print, write,
};
use crate::{
    args::ViewArgs,
    console::mention,
    failure::{Failure, io_reason},
};

pub(super) fn run(args: ViewArgs) -> Result<(), Failure> {
    let is_stdin = args.file == Path::new("-");
    let is_named = args.output.is_some();
    let output = args
        .output
        .unwrap_or_else(|| if is_stdin { PathBuf::from("-") } else { args.file.with_extension("html") });
    if !is_stdin && !is_named && output == args.file {
        // As a rule a page, and nobody has asked to write there: what is wrong is that it is no trace.
        check_trace(&args.file)?;
    }
    check_output(&args.file, is_stdin, &output)?;
    let is_new = !output.exists();
    check_writable(&output)?;
    let view = open(&args.file, is_stdin).and_then(read_qlog).map_err(|error| {
        if is_new {
            // Nothing is left of what came to nothing.
            let _ = fs::remove_file(&output);
        }
        unread(&args.file, &error)
    })?;
    let page = qlog_page(&view);
    if output == Path::new("-") {
        print(&page)?;
    } else {
        write(&output, &page)?;
        mention(format_args!("wrote {}", output.display()));
    }
    Ok(())
}

/// Whether it is a trace; one that begins as such is not read here.
fn check_trace(file: &Path) -> Result<(), Failure> {
    if starts_as_trace(file) {
        return Ok(());
    }
    open(file, false).and_then(read_qlog).map(drop).map_err(|error| unread(file, &error))
}

/// A trace is made once: no page takes the place of this one or of another, under whatever name.
fn check_output(input: &Path, is_stdin: bool, output: &Path) -> Result<(), Failure> {
    if output == Path::new("-") {
        return Ok(());
    }
    let tried = || format!("cannot write {}", output.display());
    if !is_stdin && (input == output || same_file(input, output)) {
        return Err(Failure::usage(tried(), "it is the trace to be read", "Name another file with -o"));
    }
    if starts_as_trace(output) {
        let next = "Name another file with -o, or remove it first if you no longer need it";
        return Err(Failure::usage(tried(), "it holds a trace", next));
    }
    Ok(())
}

/// Whether there is a file that begins as traces do: a separator of RFC 7464, and an object.
fn starts_as_trace(file: &Path) -> bool {
    start_of(file, 2).is_some_and(|start| start == b"\x1e{")
}

fn open(file: &Path, is_stdin: bool) -> Result<Box<dyn BufRead>, QlogError> {
    Ok(if is_stdin { Box::new(io::stdin().lock()) } else { Box::new(BufReader::new(File::open(file)?)) })
}

fn unread(file: &Path, error: &QlogError) -> Failure {
    let why = match error {
        QlogError::Io(error) => io_reason(error),
        other => other.to_string(),
    };
    let next = "Give a trace that --qlog of client or server has written";
    Failure::new(format!("cannot read {}", file.display()), why, next)
}
