//! Values of a sweep, and their place in a plan.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use plans::{PlanError, names, number};

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
    /// What belongs to each value: `$name.key` stands for `key` of it. Empty tables if the plan has
    /// no cases for the axis.
    cases: Vec<Table>,
}

/// A point of a sweep: a value for every axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// By axis, in the plan's order.
    pub values: Vec<(String, Setting)>,
    raw: Vec<Value>,
    cases: Vec<Table>,
}

/// Most points of a plan.
const MOST_POINTS: usize = 100_000;

impl SweepAxis {
    /// Reads the table `sweep`, and `cases`, which has what belongs together for the values of an
    /// axis: a table per axis, with a table for each of its values.
    ///
    /// # Errors
    /// If an axis is no list of numbers and texts, is empty, has a value twice, or there are too many
    /// points; if there are cases of no axis, or a value has none.
    pub fn read_all(table: &Table, cases: &Table) -> Result<Vec<Self>, PlanError> {
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
            let values = values.ok_or_else(wrong)?;
            if let Some(twice) = twice(&values) {
                // Its runs would count as so many more seeds.
                let found = format!("{twice} more than once");
                return Err(PlanError::value(format!("sweep.{name}"), found, "a list of different values"));
            }
            let cases = cases_of(name, &values, cases)?;
            Ok(Self { name: name.clone(), values, raw: raw.clone(), cases })
        };
        let axes: Vec<Self> = table.iter().map(axis).collect::<Result<_, PlanError>>()?;
        let points = axes.iter().try_fold(1_usize, |points, axis| points.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MOST_POINTS) {
            return Err(PlanError::value("sweep", "too large", format!("of at most {MOST_POINTS} points")));
        }
        if let Some(unknown) = cases.keys().find(|name| !axes.iter().any(|axis| axis.name == **name)) {
            let known = names(axes.iter().map(|axis| axis.name.as_str()));
            return Err(PlanError::UnknownKey { key: format!("cases.{unknown}"), known });
        }
        Ok(axes)
    }
}

/// A value that reads like one before it.
fn twice(values: &[Setting]) -> Option<String> {
    let mut texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
}

/// The case of every value of an axis; empty ones if it has none at all.
fn cases_of(axis: &str, values: &[Setting], cases: &Table) -> Result<Vec<Table>, PlanError> {
    let Some(cases) = cases.get(axis) else { return Ok(vec![Table::new(); values.len()]) };
    let case = |value: &Setting| {
        let found = cases.get(value.to_string()).and_then(Value::as_table);
        let wanted = "a table with what belongs to this value".to_owned();
        let missing = || PlanError::Missing { key: format!("cases.{axis}.{value}"), wanted };
        found.cloned().ok_or_else(missing)
    };
    values.iter().map(case).collect()
}

impl Point {
    /// Every combination; the last axis changes fastest.
    pub fn all(axes: &[SweepAxis]) -> Vec<Self> {
        let mut points = vec![Self { values: Vec::new(), raw: Vec::new(), cases: Vec::new() }];
        for axis in axes {
            let extend = |point: &Self| {
                let with = |place: usize| {
                    let mut point = point.clone();
                    point.values.push((axis.name.clone(), axis.values[place].clone()));
                    point.raw.push(axis.raw[place].clone());
                    point.cases.push(axis.cases[place].clone());
                    point
                };
                (0..axis.values.len()).map(with).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(extend).collect();
        }
        points
    }

    /// The value of an axis.
    pub fn get(&self, axis: &str) -> Option<&Setting> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// `table` with every text `$name` replaced by the value of the axis, and `$name.key` by what
    /// the case of that value has there. What is replaced is noted in `used`.
    ///
    /// # Errors
    /// If there is no such axis or key.
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
                let (name, part) =
                    text[1..].split_once('.').map_or((&text[1..], None), |(n, p)| (n, Some(p)));
                let place = self.values.iter().position(|(known, _)| known == name).ok_or_else(|| {
                    let known = names(self.values.iter().map(|(name, _)| name.as_str()));
                    PlanError::value(key, format!("`{text}`"), format!("an axis of `sweep`: {known}"))
                })?;
                used.push(name.to_owned());
                let Some(part) = part else { return Ok(self.raw[place].clone()) };
                let case = &self.cases[place];
                let known =
                    || format!("a key of the axis's case: {}", names(case.keys().map(String::as_str)));
                case.get(part).cloned().ok_or_else(|| PlanError::value(key, format!("`{text}`"), known()))
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
        let points = Point::all(&SweepAxis::read_all(&sweep, &Table::new()).unwrap());
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
    fn what_belongs_together_changes_together() {
        let sweep: Table = "trace = ['a', 'b']".parse().unwrap();
        let cases: Table =
            "trace = { a = { loss = 0.1, rtt = 5 }, b = { loss = 0.2, rtt = 7 } }".parse().unwrap();
        let points = Point::all(&SweepAxis::read_all(&sweep, &cases).unwrap());
        let plan: Table = "x = '$trace.loss'\n[below]\ny = '$trace.rtt'".parse().unwrap();
        let filled: Vec<Table> =
            points.iter().map(|point| point.fill(&plan, &mut Vec::new()).unwrap()).collect();
        assert_eq!(filled[0], "x = 0.1\n[below]\ny = 5".parse().unwrap());
        assert_eq!(filled[1], "x = 0.2\n[below]\ny = 7".parse().unwrap());
        let wrong: Table = "x = '$trace.los'".parse().unwrap();
        let error = points[0].fill(&wrong, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("loss, rtt"), "{error}");
        for (wrong, said) in
            [("trace = { a = { loss = 0.1 } }", "cases.trace.b"), ("trac = {}", "cases.trac")]
        {
            let error = SweepAxis::read_all(&sweep, &wrong.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_sweep_has_a_limit() {
        let axis = |name| format!("{name} = {:?}\n", (0..400).collect::<Vec<_>>());
        let sweep: Table = (axis("a") + &axis("b")).parse().unwrap();
        assert!(SweepAxis::read_all(&sweep, &Table::new()).is_err());
        assert!(SweepAxis::read_all(&"a = []".parse().unwrap(), &Table::new()).is_err());
    }

    /// A value twice would be twice as many runs of it with the same seeds, and so too narrow an
    /// interval.
    #[test]
    fn values_of_an_axis_differ() {
        let read = |text: &str| SweepAxis::read_all(&text.parse().unwrap(), &Table::new());
        let error = read("loss = [0.01, 0.02, 0.010]").unwrap_err().to_string();
        assert!(error.contains("`sweep.loss` is 0.01 more than once"), "{error}");
        assert!(read("loss = [1, '1']").is_err(), "they are the same in files");
        assert!(read("loss = [1, 10, 'a', 'b']").is_ok());
    }
}
