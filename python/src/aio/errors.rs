//! Errors as exceptions. Their classes are Python's, in `mendpath/aio/_errors.py`.

use mendpath::{ConnectionError, OpenPathError, PathError, ReadError, SendDatagramError, WriteError};
use pyo3::{call::PyCallArgs, exceptions::PyValueError, prelude::*, types::PyBytes};

/// An exception of the class with this name.
fn raised<'py, A>(py: Python<'py>, class: &str, arguments: A) -> PyErr
where
    A: PyCallArgs<'py>,
{
    let make = || {
        let class = py.import("mendpath.aio._errors")?.getattr(class)?;
        class.call1(arguments)
    };
    make().map_or_else(|error: PyErr| error, PyErr::from_value)
}

/// Why a connection has ended: words, code if there is one, reason, and whose it is.
pub(super) fn lost(py: Python<'_>, error: &ConnectionError) -> PyErr {
    let words = error.to_string();
    match error {
        ConnectionError::ApplicationClosed { code, reason } => {
            raised(py, "ApplicationClosed", (words, code.into_inner(), PyBytes::new(py, reason)))
        }
        ConnectionError::ConnectionClosed { code, reason } => {
            raised(py, "TransportClosed", (words, code.0.into_inner(), reason.clone(), true))
        }
        ConnectionError::TransportError(error) => {
            raised(py, "TransportClosed", (words, error.code.0.into_inner(), error.reason.to_string(), false))
        }
        ConnectionError::TimedOut => raised(py, "IdleTimeout", (words,)),
        ConnectionError::LocallyClosed => raised(py, "LocallyClosed", (words,)),
        _ => raised(py, "ConnectionLost", (words,)),
    }
}

pub(super) fn reading(py: Python<'_>, error: &ReadError) -> PyErr {
    match error {
        ReadError::Reset(code) => raised(py, "StreamReset", (error.to_string(), code.into_inner())),
        ReadError::ConnectionLost(error) => lost(py, error),
        _ => raised(py, "StreamClosed", (error.to_string(),)),
    }
}

pub(super) fn writing(py: Python<'_>, error: &WriteError) -> PyErr {
    match error {
        WriteError::Stopped(code) => raised(py, "StreamStopped", (error.to_string(), code.into_inner())),
        WriteError::ConnectionLost(error) => lost(py, error),
        _ => raised(py, "StreamClosed", (error.to_string(),)),
    }
}

pub(super) fn datagram(py: Python<'_>, error: &SendDatagramError) -> PyErr {
    match error {
        SendDatagramError::TooLarge { max } => raised(py, "DatagramTooLarge", (error.to_string(), *max)),
        SendDatagramError::Blocked => raised(py, "DatagramsBlocked", (error.to_string(),)),
        SendDatagramError::ConnectionLost(error) => lost(py, error),
        _ => raised(py, "DatagramsUnsupported", (error.to_string(),)),
    }
}

pub(super) fn path(py: Python<'_>, error: &PathError) -> PyErr {
    raised(py, "PathError", (error.to_string(),))
}

pub(super) fn opening(py: Python<'_>, error: &OpenPathError) -> PyErr {
    match error {
        OpenPathError::ConnectionLost(error) => lost(py, error),
        error => raised(py, "PathError", (error.to_string(),)),
    }
}

/// Something in the arguments cannot be.
pub(super) fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
