//! A configuration file.

use std::{collections::BTreeMap, ffi::OsString, fs::File, path::Path};

use clap::{Arg, ArgAction, Command};
use plans::{Table, Value, line_of, whole_text};

use super::{
    CONFIGURED,
    settings::{SECRETS, check, is_list, is_number, is_switch, key, options, what_may_stand},
};
use crate::failure::{Failure, io_reason};

/// The values of a command's table by key; nothing if there is no such table.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn table(path: &Path, command: &Command) -> Result<BTreeMap<String, Vec<OsString>>, Failure> {
    Ok(read(path, &text(path)?, command)?.unwrap_or_default())
}

/// The file's text.
///
/// # Errors
/// When it cannot be read.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let failed = |wrong: String| {
        let tried = format!("cannot read the configuration {}", path.display());
        Failure::usage(tried, wrong, "Name a file in TOML with --config")
    };
    File::open(path).and_then(whole_text).map_err(|error| failed(io_reason(&error)))
}

/// The values of a command's table; `None` if there is none. Other commands' tables are let be.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn read(
    path: &Path,
    text: &str,
    command: &Command,
) -> Result<Option<BTreeMap<String, Vec<OsString>>>, Failure> {
    let document = plans::table(text).map_err(|error| {
        let message = error.to_string();
        // "TOML parse error at line 1, column 9", a drawing, and what was expected.
        let place = message.lines().next().and_then(|line| line.split_once(" at ")).map_or("", |(_, at)| at);
        let wrong = message.lines().last().unwrap_or_default();
        Failure::usage(
            format!("cannot use {}, {place}", path.display()),
            wrong,
            format!("Write it in TOML: `key = value` below `[{}]`", CONFIGURED.join("]` or `[")),
        )
    })?;
    let reader = Reader { path, text, command };
    if let Some(unknown) = document.keys().find(|key| !CONFIGURED.contains(&key.as_str())) {
        let wrong = format!("there is no table `{unknown}`");
        return Err(reader.wrong(unknown, wrong, format!("Use `[{}]`", CONFIGURED.join("]` or `["))));
    }
    let table = match document.get(command.get_name()) {
        None => return Ok(None),
        Some(Value::Table(table)) => table,
        Some(_) => {
            let name = command.get_name();
            return Err(reader.wrong(name, format!("`{name}` is no table"), format!("Write `[{name}]`")));
        }
    };
    reader.table(table).map(Some)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    command: &'a Command,
}

impl Reader<'_> {
    fn table(&self, table: &Table) -> Result<BTreeMap<String, Vec<OsString>>, Failure> {
        let mut values = BTreeMap::new();
        for (key, value) in table {
            values.insert(key.clone(), self.entry(key, value)?);
        }
        let one_of_two = |one: &Arg| {
            let others = self.command.get_arg_conflicts_with(one);
            others.iter().map(|other| self::key(other)).find(|other| values.contains_key(other))
        };
        let named = options(self.command).filter(|arg| values.contains_key(&self::key(arg)));
        for arg in named {
            if let Some(other) = one_of_two(arg) {
                let wrong = format!("it excludes `{other}`, which stands there, too");
                return Err(self.wrong_key(&self::key(arg), wrong, "Leave one of them out".into()));
            }
        }
        Ok(values)
    }

    fn entry(&self, key: &str, value: &Value) -> Result<Vec<OsString>, Failure> {
        if SECRETS.contains(&key) {
            let cure = format!("Name a file that only you may read with `{key}-file`");
            return Err(self.wrong_key(key, "a secret does not stand in a configuration".into(), cure));
        }
        let Some(arg) = options(self.command).find(|arg| self::key(arg) == key) else {
            let known: Vec<_> = options(self.command).map(self::key).collect();
            let known = known.into_iter().filter(|key| !SECRETS.contains(&key.as_str()));
            let cure = format!("Here are {}", known.collect::<Vec<_>>().join(", "));
            return Err(self.wrong_key(key, "there is no such key".into(), cure));
        };
        match value {
            Value::Array(list) if is_list(arg) => {
                (1..).zip(list).map(|(n, item)| self.value(&format!("{key}[{n}]"), arg, item)).collect()
            }
            one => self.value(key, arg, one).map(|value| vec![value]),
        }
    }

    fn value(&self, key: &str, arg: &Arg, value: &Value) -> Result<OsString, Failure> {
        let judged = match value {
            Value::Boolean(on) if is_switch(arg) => Ok(on.to_string()),
            Value::Integer(number) if is_number(arg) || is_count(arg) => Ok(number.to_string()),
            Value::String(text) if !is_switch(arg) && !is_count(arg) => Ok(text.clone()),
            _ => Err("it is of another kind".to_owned()),
        };
        let judged = judged.and_then(|text| {
            let text = OsString::from(text);
            check(self.command, arg, &text).map(|()| text)
        });
        judged.map_err(|why| self.wrong_key(key, format!("it is {value}: {why}"), what_may_stand(arg)))
    }

    /// A mistake about a key of the table.
    fn wrong_key(&self, key: &str, wrong: String, cure: String) -> Failure {
        let key = format!("{}.{key}", self.command.get_name());
        self.wrong(&key, format!("`{key}`: {wrong}"), cure)
    }

    fn wrong(&self, key: &str, wrong: String, cure: String) -> Failure {
        let line = line_of(self.text, key).map_or(String::new(), |line| format!(", line {line}"));
        Failure::usage(format!("cannot use {}{line}", self.path.display()), wrong, cure)
    }
}

fn is_count(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Count)
}
