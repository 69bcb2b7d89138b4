//! Files that cannot be read.

use std::{io, path::Path};

use pyo3::{exceptions::PyOSError, prelude::*};

/// The exception with the file's name, as Python's own `open` raises it.
pub(crate) fn of_file(error: io::Error, path: &Path) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string(), path.to_owned()))
}
