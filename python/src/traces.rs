//! The analysis of captures.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};
use trace::{Analyzer, Method, Odds, Options, Report, read_capture};
use units::{BitRate, Duration};

use crate::{attention::interruptible, files::of_file};

/// What a user may say; `None` is the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    method: String,
    timeout_at_ms: Option<u64>,
    tail: u32,
    loss: Option<f64>,
    bandwidth_bits_per_second: u64,
    measured_odds: bool,
    listed: usize,
}

impl Wanted {
    fn options(self) -> PyResult<Options> {
        let method = match self.method.as_str() {
            "ack-clock" => Method::AckClock,
            "paper" => Method::Paper,
            other => {
                let text = format!("there is no method `{other}`: use ack-clock or paper");
                return Err(PyValueError::new_err(text));
            }
        };
        let between = |what: &str, fits: bool| match fits {
            true => Ok(()),
            false => Err(PyValueError::new_err(what.to_owned())),
        };
        between("tail is from 1 to 100", (1..=100).contains(&self.tail))?;
        between("loss is between 0 and 1", self.loss.is_none_or(|loss| loss > 0.0 && loss < 1.0))?;
        between("a bandwidth is more than nothing", self.bandwidth_bits_per_second > 0)?;
        Ok(Options {
            method,
            timeout_at: self.timeout_at_ms.map(Duration::from_millis),
            tail: self.tail,
            loss: self.loss,
            bandwidth: BitRate(self.bandwidth_bits_per_second),
            odds: if self.measured_odds { Odds::Measured } else { Odds::Paper },
            listed: self.listed,
            ..Options::default()
        })
    }
}

/// A file that goes on until it is stopped.
struct Until<'a> {
    file: File,
    stopped: &'a AtomicBool,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}

fn report(files: &[PathBuf], options: Options, stopped: &AtomicBool) -> PyResult<Report> {
    let mut analyzer = Analyzer::new(options);
    for path in files {
        let file = File::open(path).map_err(|error| of_file(error, path))?;
        let file = Until { file, stopped };
        let read = read_capture(&path.display().to_string(), file, &mut analyzer, &mut |_| ());
        if let (None, Some(error)) = (read.format, read.error) {
            return Err(PyValueError::new_err(format!("{} {error}", path.display())));
        }
    }
    Ok(analyzer.finish())
}

/// What `told` makes of the report, unless a signal raises something meanwhile.
fn reported<T: Send>(
    py: Python<'_>,
    files: &[PathBuf],
    wanted: Wanted,
    told: impl FnOnce(Report) -> T + Send,
) -> PyResult<T> {
    let (options, stopped) = (wanted.options()?, AtomicBool::new(false));
    let stop = || stopped.store(true, Ordering::Relaxed);
    interruptible(py, stop, || report(files, options, &stopped).map(told))?
}

/// Analyses captures that belong together, and answers with the report as JSON.
#[pyfunction]
pub(crate) fn analyze(py: Python<'_>, files: Vec<PathBuf>, wanted: Wanted) -> PyResult<String> {
    let text = reported(py, &files, wanted, |report| serde_json::to_string(&report))?;
    text.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The same as a page.
#[pyfunction]
pub(crate) fn page(py: Python<'_>, files: Vec<PathBuf>, wanted: Wanted) -> PyResult<String> {
    reported(py, &files, wanted, |report| trace::html(&report))
}
