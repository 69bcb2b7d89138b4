//! Texts of a plan, which stand in tables, figures and terminals: only what can be shown there.

use plans::PlanError;
use toml::{Table, Value};

/// That no name and no text of a plan has a control character, with the key of the first that does.
pub(crate) fn check(body: &Table) -> Result<(), PlanError> {
    body.iter().try_for_each(|(key, value)| check_entry("", key, value))
}

fn check_entry(around: &str, key: &str, value: &Value) -> Result<(), PlanError> {
    let path = if around.is_empty() { key.to_owned() } else { format!("{around}.{key}") };
    // A name of the plan's own, such as that of an axis.
    check_text(if around.is_empty() { "the plan" } else { around }, key)?;
    check_value(&path, value)
}

fn check_value(path: &str, value: &Value) -> Result<(), PlanError> {
    match value {
        Value::String(text) => check_text(path, text),
        Value::Table(table) => table.iter().try_for_each(|(key, value)| check_entry(path, key, value)),
        Value::Array(values) => {
            let mut numbered = (1..).zip(values);
            numbered.try_for_each(|(number, value)| check_value(&format!("{path}[{number}]"), value))
        }
        _ => Ok(()),
    }
}

fn check_text(key: &str, text: &str) -> Result<(), PlanError> {
    let is_unfit = |letter: &char| letter.is_control() && !"\n\r\t".contains(*letter);
    text.chars().find(is_unfit).map_or(Ok(()), |letter| {
        let found = format!("a text with the control character U+{:04X}", u32::from(letter));
        Err(PlanError::value(key, found, "without any but line ends and tabs"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_found_wherever_they_are() {
        let told = |text: &str| check(&text.parse().unwrap()).map_err(|error| error.to_string());
        for (text, key) in [
            (r#"scheme = [{ kind = "tcp" }, { kind = "tcp", name = "a\u0000b" }]"#, "scheme[2].name"),
            (r#"notes = ["fine", "\u001b[31m"]"#, "notes[2]"),
            (r#"sweep = { "x\u0007" = [1] }"#, "sweep"),
            (r#""\u0085" = 1"#, "the plan"),
        ] {
            let wrong = told(text).unwrap_err();
            assert!(
                wrong.starts_with(&format!("`{key}` is a text with the control character U+")),
                "{wrong}"
            );
        }
        assert_eq!(told("notes = \"\"\"two\r\n\tlines\"\"\"\ntitle = \"a → <b> & c\""), Ok(()));
    }
}
