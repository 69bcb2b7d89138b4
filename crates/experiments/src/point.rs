//! Values of a sweep, and their place in a plan.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::keys::{PlanError, names, number};

/// A value of an axis.
#[derive(Clone, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Setting {
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(|text| Self::Text(text.to_owned())).or_else(|| number(value).map(Self::Number))
    }
}

/// An axis of a sweep: a name and its values in order.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepAxis {
    /// Its name; `$name` in the plan stands for its value.
    pub name: String,
    /// Its values.
    pub values: Vec<Setting>,
    /// The same as the plan has them.
    raw: Vec<Value>,
}

/// A point of a sweep: a value for every axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// By axis, in the plan's order.
    pub values: Vec<(String, Setting)>,
    raw: Vec<Value>,
}

/// Most points of a plan.
const MOST_POINTS: usize = 100_000;

impl SweepAxis {
    /// Reads the table `sweep`.
    ///
    /// # Errors
    /// If an axis is no list of numbers and texts, is empty, or there are too many points.
    pub fn read_all(table: &Table) -> Result<Vec<Self>, PlanError> {
        let axis = |(name, list): (&String, &Value)| {
            let wrong = || {
                PlanError::value(
                    format!("sweep.{name}"),
                    list,
                    "a list of numbers or texts, with at least one",
                )
            };
            let raw = list.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)?;
            let values: Option<Vec<Setting>> = raw.iter().map(Setting::read).collect();
            Ok(Self { name: name.clone(), values: values.ok_or_else(wrong)?, raw: raw.clone() })
        };
        let axes: Vec<Self> = table.iter().map(axis).collect::<Result<_, PlanError>>()?;
        let points = axes.iter().try_fold(1_usize, |points, axis| points.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MOST_POINTS) {
            return Err(PlanError::value("sweep", "too large", format!("of at most {MOST_POINTS} points")));
        }
        Ok(axes)
    }
}

impl Point {
    /// Every combination; the last axis changes fastest.
    pub fn all(axes: &[SweepAxis]) -> Vec<Self> {
        let mut points = vec![Self { values: Vec::new(), raw: Vec::new() }];
        for axis in axes {
            let extend = |point: &Self| {
                let with = |(value, raw): (&Setting, &Value)| {
                    let mut point = point.clone();
                    point.values.push((axis.name.clone(), value.clone()));
                    point.raw.push(raw.clone());
                    point
                };
                axis.values.iter().zip(&axis.raw).map(with).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(extend).collect();
        }
        points
    }

    /// The value of an axis.
    pub fn get(&self, axis: &str) -> Option<&Setting> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// `table` with every text `$name` replaced by the value of the axis. What is replaced is noted in `used`.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn fill(&self, table: &Table, used: &mut Vec<String>) -> Result<Table, PlanError> {
        let filled = table.iter().map(|(key, value)| Ok((key.clone(), self.fill_value(key, value, used)?)));
        filled.collect()
    }

    fn fill_value(&self, key: &str, value: &Value, used: &mut Vec<String>) -> Result<Value, PlanError> {
        match value {
            Value::Table(table) => Ok(Value::Table(self.fill(table, used)?)),
            Value::Array(list) => {
                let filled = list.iter().map(|value| self.fill_value(key, value, used));
                Ok(Value::Array(filled.collect::<Result<_, _>>()?))
            }
            Value::String(text) if text.starts_with('$') => {
                let name = &text[1..];
                let place = self.values.iter().position(|(known, _)| known == name).ok_or_else(|| {
                    let known = names(self.values.iter().map(|(name, _)| name.as_str()));
                    PlanError::value(key, format!("`{text}`"), format!("an axis of `sweep`: {known}"))
                })?;
                used.push(name.to_owned());
                Ok(self.raw[place].clone())
            }
            other => Ok(other.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_fill_a_plan() {
        let sweep: Table = "loss = [0.01, 0.02]\nkind = ['a', 'b']".parse().unwrap();
        let points = Point::all(&SweepAxis::read_all(&sweep).unwrap());
        assert_eq!(points.len(), 4);
        assert_eq!(points[1].get("kind"), Some(&Setting::Text("b".into())));
        let plan: Table = "x = '$loss'\n[[list]]\ny = ['$kind', '5$']".parse().unwrap();
        let mut used = Vec::new();
        let filled = points[2].fill(&plan, &mut used).unwrap();
        assert_eq!(filled, "x = 0.02\n[[list]]\ny = ['a', '5$']".parse().unwrap());
        assert_eq!(used, ["loss", "kind"]);
        let wrong: Table = "x = '$los'".parse().unwrap();
        assert!(points[0].fill(&wrong, &mut used).unwrap_err().to_string().contains("loss, kind"));
    }

    #[test]
    fn a_sweep_has_a_limit() {
        let axis = |name| format!("{name} = {:?}\n", (0..400).collect::<Vec<_>>());
        let sweep: Table = (axis("a") + &axis("b")).parse().unwrap();
        assert!(SweepAxis::read_all(&sweep).is_err());
        assert!(SweepAxis::read_all(&"a = []".parse().unwrap()).is_err());
    }
}
