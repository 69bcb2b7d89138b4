//! Reading everything again while the program runs.

use std::{ffi::OsString, fmt};

use clap::ArgMatches;

use super::{
    Source, Unreadable, find,
    settings::{SECRETS, key, options},
};
use crate::{args::Cli, failure::Failure};

/// What a running command needs to read its options again. The default one cannot.
#[derive(Clone, Default)]
pub struct Reload(Option<Box<State>>);

#[derive(Clone)]
struct State {
    source: Source,
    /// What is in force, whether it could be changed or not.
    current: ArgMatches,
}

/// Options that are others than before.
#[derive(Debug)]
pub struct Change {
    /// All options as they are now.
    pub cli: Cli,
    /// The keys of those that are others.
    pub keys: Vec<String>,
}

impl Reload {
    pub(super) fn new(source: Source, current: ArgMatches) -> Self {
        Self(Some(Box::new(State { source, current })))
    }

    /// Reads everything again; `None` if nothing was read from anywhere.
    ///
    /// # Errors
    /// The first mistake; what is in force stays so.
    pub fn again(&mut self) -> Result<Option<Change>, Failure> {
        let Some(state) = &mut self.0 else { return Ok(None) };
        let reading = state.source.read_once().map_err(|unreadable| match unreadable {
            Unreadable::Configuration(failure) => failure,
            Unreadable::CommandLine(error) => {
                let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                Failure::usage("cannot read the options again", first, "Correct the configuration file")
            }
        })?;
        let keys = changed(&state.current, &reading.matches);
        state.current = reading.matches;
        Ok(Some(Change { cli: reading.cli, keys }))
    }
}

fn changed(before: &ArgMatches, after: &ArgMatches) -> Vec<String> {
    let (Some((name, before)), Some((_, after))) = (before.subcommand(), after.subcommand()) else {
        return Vec::new();
    };
    let command = super::command();
    let values = |matches: &ArgMatches, id: &str| -> Vec<OsString> {
        matches.get_raw(id).into_iter().flatten().map(OsString::from).collect()
    };
    options(find(&command, name))
        .filter(|arg| !SECRETS.contains(&key(arg).as_str()))
        .filter(|arg| {
            let id = arg.get_id().as_str();
            values(before, id) != values(after, id)
        })
        .map(key)
        .collect()
}

// Without the line, which may hold a secret.
impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload(..)")
    }
}
