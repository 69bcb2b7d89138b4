//! Values of options by where they stand, and which of them count.

use std::{
    any::TypeId,
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

use super::shown;
use crate::failure::Failure;

/// How variables begin.
pub(super) const PREFIX: &str = "MENDPATH_";

/// Secrets themselves, which are read by `secret`: from the environment, but not from a
/// configuration file, which many may read.
pub(super) const SECRETS: [&str; 2] = ["invitation", "proxy-auth"];

/// What is said on the command line or not at all: where all else stands, and orders to a process
/// that runs or ran.
const ORDERS: [&str; 4] = ["config", "drain", "remove-kill-switch", "socket"];

/// Options of which one is of no use without the other. Clap cannot be told, as the file may have one of
/// them and the command line the other.
const PAIRS: [[&str; 2]; 1] = [["cert", "key"]];

/// Values by the id of the option.
#[derive(Debug, Default)]
pub(super) struct Settings(BTreeMap<String, Vec<OsString>>);

impl Settings {
    /// Takes over what the file says.
    pub(super) fn file(&mut self, command: &Command, table: BTreeMap<String, Vec<OsString>>) {
        for (key, values) in table {
            let arg = options(command).find(|arg| self::key(arg) == key).expect("the file was checked");
            self.0.insert(arg.get_id().to_string(), values);
        }
    }

    /// Takes over what the environment says, instead.
    ///
    /// # Errors
    /// When a variable has a value that cannot be.
    pub(super) fn environment(
        &mut self,
        command: &Command,
        environment: &[(String, OsString)],
    ) -> Result<(), Failure> {
        for arg in options(command) {
            let variable = variable(arg);
            let Some((_, value)) = environment.iter().find(|(name, _)| *name == variable) else { continue };
            if value.is_empty() {
                continue;
            }
            self.give_way(command, arg);
            if SECRETS.contains(&key(arg).as_str()) {
                // Whoever reads secrets finds it there.
                continue;
            }
            let values = if is_list(arg) { split(value) } else { vec![value.clone()] };
            for value in &values {
                check(command, arg, value).map_err(|why| {
                    let tried = format!("cannot use the variable {variable}");
                    Failure::usage(tried, format!("{}: {why}", shown(value)), what_may_stand(arg))
                })?;
            }
            self.0.insert(arg.get_id().to_string(), values);
        }
        Ok(())
    }

    /// Gives way to what the command line says.
    pub(super) fn yield_to(&mut self, command: &Command, given: &ArgMatches) {
        for arg in options(command) {
            if given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                self.give_way(command, arg);
            }
        }
    }

    /// What excludes `arg`, or is it, does not count any more.
    fn give_way(&mut self, command: &Command, arg: &Arg) {
        let excludes = |one: &Arg, other: &Arg| {
            command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
        };
        for other in options(command) {
            if other.get_id() == arg.get_id() || excludes(arg, other) || excludes(other, arg) {
                self.0.remove(other.get_id().as_str());
            }
        }
    }

    /// `command` with these values wherever the line of its subcommand `name` says nothing.
    pub(super) fn apply(self, command: Command, name: &str) -> Command {
        self.0.into_iter().fold(command, |command, (id, values)| {
            // What all commands have in common is an option of the uppermost.
            let is_common = command.get_arguments().any(|arg| arg.get_id() == id.as_str());
            let with_default = |arg: Arg| arg.default_values(values);
            if is_common {
                return command.mut_arg(id, with_default);
            }
            command.mut_subcommand(name, |of_command| of_command.mut_arg(id, with_default))
        })
    }
}

/// What a table with these keys cannot do without, and does not have.
pub(super) fn lacking(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let both_ways = PAIRS.iter().flat_map(|[one, other]| [(one, other), (other, one)]);
    both_ways.filter(|(one, other)| has(one) && !has(other)).map(|(_, other)| *other).collect()
}

/// The options that can be configured.
pub(super) fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let never = |arg: &&Arg| {
        matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        ) || ORDERS.contains(&arg.get_id().as_str())
    };
    command.get_arguments().filter(move |arg| !never(arg))
}

/// The key of an option in a file: its name without the dashes.
pub(super) fn key(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_id().as_str().replace('_', "-"), str::to_owned)
}

/// The variable of an option.
pub(super) fn variable(arg: &Arg) -> String {
    format!("{PREFIX}{}", key(arg).replace('-', "_").to_uppercase())
}

/// Whether it may be given several times.
pub(super) fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Whether it is on or off.
pub(super) fn is_switch(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names == ["BOOL"])
}

/// Whether it is a number, and nothing that may look like one.
pub(super) fn is_number(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    kind == TypeId::of::<u8>() || kind == TypeId::of::<u32>() || kind == TypeId::of::<u64>()
}

fn split(list: &OsStr) -> Vec<OsString> {
    // What is not text has no commas that we could find.
    list.to_str().map_or_else(
        || vec![list.to_owned()],
        |list| list.split(',').map(|item| item.trim().into()).collect(),
    )
}

/// Whether `value` may stand there, as the command line judges it.
///
/// # Errors
/// Why not.
pub(super) fn check(command: &Command, arg: &Arg, value: &OsStr) -> Result<(), String> {
    let Some(long) = arg.get_long() else { return Ok(()) };
    if matches!(arg.get_action(), ArgAction::Count) {
        let is_count = value.to_str().is_some_and(|text| text.parse::<u8>().is_ok_and(|count| count <= 3));
        return if is_count { Ok(()) } else { Err("it is no number from 0 to 3".to_owned()) };
    }
    let mut option = OsString::from(format!("--{long}="));
    option.push(value);
    let line = [OsString::from(command.get_name()), option];
    let Err(error) = command.clone().try_get_matches_from(line) else { return Ok(()) };
    let judged = std::error::Error::source(&error).map(ToString::to_string);
    Err(judged.unwrap_or_else(|| "it cannot be that".to_owned()))
}

/// What an option is, as an imperative sentence without its full stop.
pub(super) fn what_may_stand(arg: &Arg) -> String {
    let value = match arg.get_value_names() {
        _ if is_switch(arg) => "true or false".to_owned(),
        _ if matches!(arg.get_action(), ArgAction::Count) => "a number from 0 to 3".to_owned(),
        Some([name, ..]) if is_list(arg) => format!("a list of {name}"),
        Some([name, ..]) => name.to_string(),
        _ => "a value".to_owned(),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("Write {value} for it: {}", help.trim_end_matches('.'))
}
