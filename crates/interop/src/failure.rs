//! Everything that ends the command early, in one line.

use std::{io, path::PathBuf, process::ExitCode};

use mendpath::{ConfigError, ConnectError, ConnectionError, OpenPathError, ReadError, WriteError};
use thiserror::Error;

/// Why the command ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A file could not be used.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A PEM file holds no certificate or key.
    #[error("{path}: {reason}", path = path.display())]
    Pem {
        /// Which one.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A socket could not be bound.
    #[error("cannot bind: {0}")]
    Bind(io::Error),
    /// A URL, or something in it, cannot be used.
    #[error("`{url}`: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// No way to trust a server was given.
    #[error("say how to trust the server: --ca FILE or --insecure")]
    NoTrust,
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// TLS refused the configuration.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The connection could not even start.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// No further path.
    #[error("no path from there: {0}")]
    Path(#[from] OpenPathError),
    /// The request could not be sent.
    #[error("{path}: {source}")]
    Request {
        /// What was asked for.
        path: String,
        /// What happened.
        source: WriteError,
    },
    /// The answer did not come.
    #[error("{path}: {source}")]
    Answer {
        /// What was asked for.
        path: String,
        /// What happened.
        source: ReadError,
    },
    /// The peer did not do what was to be shown.
    #[error("{0}")]
    NotShown(&'static str),
    /// The runner's environment names no test case that exists here.
    #[error("test case `{0}` is not supported")]
    Unsupported(String),
    /// The runner's environment is not complete.
    #[error("the environment variable {0} is missing or has no known value")]
    Environment(&'static str),
}

impl Failure {
    /// 127 is how a test case that does not exist is reported to the interop runner; all else is 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Self::Unsupported(_)) { 127 } else { 1 })
    }
}
