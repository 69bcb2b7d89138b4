//! What is wrong with a plan.

use thiserror::Error;

/// What is wrong with a plan. Keys are written with their tables: `workload.flows`,
/// `scheme[2].subflows`.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum PlanError {
    /// Not TOML.
    #[error("{message}")]
    Syntax {
        /// The parser's message, with line and column.
        message: String,
    },
    /// Not what the type of the plan asks for.
    #[error("{}`{key}`: {message}", line_before(*line))]
    Shape {
        /// The line.
        line: Option<usize>,
        /// The key.
        key: String,
        /// What was found, and what may stand there.
        message: String,
    },
    /// A key that must be there is not.
    #[error("`{key}` is missing: {wanted}")]
    Missing {
        /// The key.
        key: String,
        /// What it should be.
        wanted: String,
    },
    /// A key that nobody knows.
    #[error("there is no key `{key}`: here are {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that may stand there.
        known: String,
    },
    /// A value that cannot be there.
    #[error("`{key}` is {found}: it must be {allowed}")]
    Value {
        /// The key.
        key: String,
        /// What it is.
        found: String,
        /// What is allowed.
        allowed: String,
    },
}

impl PlanError {
    /// A value that cannot be there.
    pub fn value(
        key: impl Into<String>,
        found: impl std::fmt::Display,
        allowed: impl std::fmt::Display,
    ) -> Self {
        Self::Value { key: key.into(), found: found.to_string(), allowed: allowed.to_string() }
    }

    /// The key it is about; `None` if the text is not even TOML.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Syntax { .. } => None,
            Self::Shape { key, .. }
            | Self::Missing { key, .. }
            | Self::UnknownKey { key, .. }
            | Self::Value { key, .. } => Some(key),
        }
    }
}

fn line_before(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}
