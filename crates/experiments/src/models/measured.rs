//! Values that were not worked out here: a number in the plan itself, such as one that the paper
//! states, or one in a table of the folder `data`.

use plans::{Keys, PlanError, names, number};

/// Tables: their names and texts, comma-separated with a head.
const TABLES: &[(&str, &str)] = &[("ctcp_fig3a_ns3", include_str!("../../data/ctcp_fig3a_ns3.csv"))];

/// `value`.
pub(super) fn stated(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let value = keys.float("value", f64::MIN..=f64::MAX)?;
    keys.need("value", value, "a number")
}

/// `column` of the first line of `table` that has the numbers `at`, by column. No number if there
/// is no such line: then nothing is drawn.
pub(super) fn table(keys: &mut Keys<'_>) -> Result<f64, PlanError> {
    let text = keys.need_named("table", TABLES)?;
    let column = keys.need_text("column", "the column that has the value")?;
    let at = keys.table("at")?;
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let place = |name: &str, path: String| {
        let known = || format!("one of {}", names(head.iter().copied()));
        let found = head.iter().position(|known| *known == name);
        found.ok_or_else(|| PlanError::value(path, format!("`{name}`"), known()))
    };
    let value = place(column, keys.path("column"))?;
    let mut wanted = Vec::new();
    for (name, setting) in at.everything() {
        wanted.push((place(name, at.path(name))?, number(setting)));
    }
    let cell = |line: &[&str], place: usize| line.get(place).and_then(|text| text.parse::<f64>().ok());
    let lines = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut fitting = lines.filter(|line| wanted.iter().all(|(at, number)| cell(line, *at) == *number));
    Ok(fitting.next().and_then(|line| cell(&line, value)).unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, PlanError> {
        let table_of_plan: toml::Table = text.parse().unwrap();
        table(&mut Keys::new(&table_of_plan, "model[1]"))
    }

    #[test]
    fn a_line_is_found_by_its_numbers() {
        let line = "table = 'ctcp_fig3a_ns3'\ncolumn = 'loss'\nat = { queue = 52, loss = 0.01 }";
        assert_eq!(value(line), Ok(0.01));
        assert!(value(&line.replace("0.01", "0.011")).unwrap().is_nan());
        for (from, to, said) in [
            ("queue", "que", "model[1].at.que"),
            ("column = 'loss'", "column = 'los'", "model[1].column"),
            ("fig3a", "fig3", "ctcp_fig3a_ns3"),
        ] {
            let error = value(&line.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
