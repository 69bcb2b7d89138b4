//! `mendpath qlog view`.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use trace::{QlogError, qlog_page, read_qlog};

use super::{trace_analyze::print, write};
use crate::{
    args::ViewArgs,
    console::mention,
    failure::{Failure, io_reason},
};

pub(super) fn run(args: ViewArgs) -> Result<(), Failure> {
    let is_stdin = args.file == Path::new("-");
    let output = args
        .output
        .unwrap_or_else(|| if is_stdin { PathBuf::from("-") } else { args.file.with_extension("html") });
    let is_input = |file: &Path| {
        let found = |path: &Path| fs::canonicalize(path).ok();
        !is_stdin && found(file).is_some_and(|file| found(&args.file) == Some(file))
    };
    if is_input(&output) {
        let tried = format!("cannot write {}", output.display());
        return Err(Failure::usage(tried, "it is the trace to be read", "Name another file with -o"));
    }
    let view = open(&args.file, is_stdin).and_then(read_qlog).map_err(|error| unread(&args.file, &error))?;
    let page = qlog_page(&view);
    if output == Path::new("-") {
        print(&page)?;
    } else {
        write(&output, &page)?;
        mention(format_args!("wrote {}", output.display()));
    }
    Ok(())
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
