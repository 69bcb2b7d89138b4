//! Whole plans and single values, by serde.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};
use toml::{Deserializer, Table, Value};

use crate::PlanError;

/// Reads a plan whose shape is a type.
///
/// # Errors
/// [`PlanError::Syntax`] or [`PlanError::Shape`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, PlanError> {
    let deserializer = Deserializer::parse(text).map_err(syntax)?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| PlanError::Shape {
        line: error.inner().span().map(|span| crate::line::line_at(text, span.start)),
        key: key(error.path()),
        message: error.inner().message().to_owned(),
    })
}

/// Reads a plan of tables.
///
/// # Errors
/// [`PlanError::Syntax`].
pub fn table(text: &str) -> Result<Table, PlanError> {
    text.parse().map_err(syntax)
}

/// A single value as a type; `None` if it is none of its kind.
pub fn value<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value.clone()).ok()
}

/// The finite number that a value is, whole or not.
pub fn number(found: &Value) -> Option<f64> {
    value(found).filter(|number: &f64| number.is_finite())
}

fn syntax(error: toml::de::Error) -> PlanError {
    PlanError::Syntax { message: error.to_string().trim_end().to_owned() }
}

/// A path as errors have it: elements of lists are counted from 1.
fn key(path: &Path) -> String {
    let mut key = String::new();
    for segment in path.iter() {
        let _ = match segment {
            Segment::Seq { index } => write!(key, "[{}]", index + 1),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                write!(key, "{}{name}", if key.is_empty() { "" } else { "." })
            }
            Segment::Unknown => Ok(()),
        };
    }
    if key.is_empty() { "the plan".to_owned() } else { key }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Plan {
        title: String,
        #[serde(default)]
        fetch: Vec<Fetch>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Fetch {
        count: u32,
    }

    #[test]
    fn errors_say_where_what_and_what_is_allowed() {
        let error = |text: &str| read::<Plan>(text).unwrap_err().to_string();
        assert_eq!(
            error("title = 'x'\n[[fetch]]\ncount = 1\n\n[[fetch]]\ncuont = 2"),
            "line 6: `fetch[2].cuont`: unknown field `cuont`, expected `count`"
        );
        assert_eq!(error("title = 5"), "line 1: `title`: invalid type: integer `5`, expected a string");
        assert_eq!(error("fetch = []"), "line 1: `the plan`: missing field `title`");
        assert!(error("title = [").contains("line 1, column"));
    }

    #[test]
    fn numbers_need_no_point() {
        assert_eq!(number(&Value::Integer(2)), Some(2.0));
        assert_eq!(number(&Value::Float(f64::INFINITY)), None);
        assert_eq!(number(&Value::Boolean(true)), None);
        assert_eq!(value::<u64>(&Value::Float(1.5)), None);
        assert_eq!(value::<u64>(&Value::Integer(-1)), None);
    }
}
