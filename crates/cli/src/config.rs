//! Options that stand in a configuration file or in the environment instead of on the command line.
//!
//! Nothing here knows an option by name: keys, their values and what may stand there are those of
//! the command line (`args`), so that none can be forgotten. A file has a table for each command,
//! `[server]`, `[client]`, `[tunnel]` and `[serve]`, whose keys are the options' names without their
//! dashes; a variable is the same name in capitals behind `MENDPATH_`. What the command line says
//! counts before what the environment says, and that before the file.
//!
//! Values of the file and of the environment become the command line's defaults, and clap reads
//! them as it reads anything else. Secrets stand in none of the two: an option names the file that
//! holds one (see `secret`).

mod file;
mod reload;
mod settings;
mod template;
#[cfg(test)]
mod tests;

pub use reload::{Change, Reload};
pub use template::template;

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use clap::{ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use self::settings::Settings;
use crate::{
    args::{CONFIGURED, Cli},
    failure::Failure,
};

/// What cannot be read from the command line.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The command line itself, or somebody asked for help.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The file or a variable.
    #[error(transparent)]
    Configuration(#[from] Failure),
}

/// Where options come from.
#[derive(Clone, Debug)]
pub struct Source {
    line: Vec<OsString>,
    environment: Vec<(String, OsString)>,
}

/// Everything that was read, together.
pub(crate) struct Reading {
    pub(crate) cli: Cli,
    /// For commands that can be configured.
    matches: ArgMatches,
}

impl Source {
    /// This process's command line and environment.
    pub fn process() -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(settings::PREFIX));
        Self { line: std::env::args_os().collect(), environment: environment.collect() }
    }

    /// This process's environment with another command line.
    pub(crate) fn beside_process(line: Vec<OsString>) -> Self {
        Self { line, ..Self::process() }
    }

    /// Another one, for tests.
    pub fn new<'a>(
        line: impl IntoIterator<Item = &'a str>,
        environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Self {
            line: line.into_iter().map(OsString::from).collect(),
            environment: environment
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
        }
    }

    /// Reads everything: command line, environment and file. A command that runs for long can read
    /// it again.
    ///
    /// # Errors
    /// When one of them says what cannot be.
    pub fn read(self) -> Result<(Cli, Reload), Unreadable> {
        let Reading { cli, matches } = self.read_once()?;
        Ok((cli, Reload::new(self, matches)))
    }

    pub(crate) fn read_once(&self) -> Result<Reading, Unreadable> {
        let command = command();
        let line = with_values(&self.line);
        let given = command.clone().try_get_matches_from(&line)?;
        let Some((name, options)) = given.subcommand().filter(|(name, _)| CONFIGURED.contains(name)) else {
            return Ok(Reading { cli: Cli::from_arg_matches(&given)?, matches: given });
        };
        let of_command = find(&command, name);
        let mut settings = Settings::default();
        if let Some(file) = options.get_one::<PathBuf>("config").cloned().or_else(|| self.file()) {
            settings.file(of_command, file::table(&file, of_command)?);
        }
        settings.environment(of_command, &self.environment)?;
        settings.yield_to(of_command, options);
        let configured = settings.apply(unbuilt(), name);
        let matches = configured.try_get_matches_from(&line)?;
        Ok(Reading { cli: Cli::from_arg_matches(&matches)?, matches })
    }

    /// The file that the environment names. An empty variable says nothing, as of any option.
    fn file(&self) -> Option<PathBuf> {
        let is_file = |name: &str, value: &OsStr| name == "MENDPATH_CONFIG" && !value.is_empty();
        let named = self.environment.iter().find(|(name, value)| is_file(name, value));
        named.map(|(_, file)| file.into())
    }
}

/// The line with `--loss=-1%` in the place of `--loss -1%`: none of our options is a number, so what
/// begins as a negative one is the value of the option before it. Whoever reads that says what may
/// stand there, where clap would say that there is no option `-1`.
fn with_values(line: &[OsString]) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(line.len());
    let mut words = line.iter();
    for word in words.by_ref() {
        match joined.last_mut() {
            Some(option) if is_negative(word) && wants_value(option) => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word.clone()),
        }
        if word == "--" {
            break;
        }
    }
    joined.extend(words.cloned());
    joined
}

fn is_negative(word: &OsStr) -> bool {
    let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    word.as_encoded_bytes().strip_prefix(b"-").and_then(<[u8]>::first).is_some_and(digit)
}

/// Whether it is a long option without a value yet.
fn wants_value(word: &OsStr) -> bool {
    let name = word.as_encoded_bytes().strip_prefix(b"--");
    name.is_some_and(|name| !name.is_empty() && !name.contains(&b'='))
}

/// Reads the whole file, for whichever commands it has tables, and says for which, and what those need
/// from elsewhere.
///
/// # Errors
/// The first mistake.
pub fn check(path: &Path) -> Result<Vec<String>, Failure> {
    let command = command();
    let text = file::text(path)?;
    let mut found = Vec::new();
    for &name in CONFIGURED {
        if let Some(table) = file::read(path, &text, find(&command, name))? {
            let needs = |option| format!(", which needs --{option} as well");
            let needs = settings::lacking(|key| table.contains_key(key)).into_iter().map(needs);
            found.push(name.to_owned() + &needs.collect::<String>());
        }
    }
    Ok(found)
}

/// Where the machine's own server has its options, when it runs as a service.
const SYSTEM: &str = "/etc/mendpath/server.toml";

/// The file of options that this process's environment names.
pub(crate) fn of_environment() -> Option<PathBuf> {
    Source::process().file()
}

/// The file with the options of the machine's own `client` or `server`, if it runs as a service.
pub(crate) fn packaged(command: &str) -> Option<PathBuf> {
    let file = Path::new(SYSTEM).with_file_name(format!("{command}.toml"));
    fs::File::open(&file).is_ok().then_some(file)
}

/// The state directory of the machine's own server, if it has one.
///
/// # Errors
/// When its options are wrong.
pub fn system_state() -> Result<Option<PathBuf>, Failure> {
    if !Path::new(SYSTEM).exists() {
        return Ok(None);
    }
    let command = command();
    let options = file::table(Path::new(SYSTEM), find(&command, "server"))?;
    Ok(options.get("state").and_then(|values| values.first()).map(PathBuf::from))
}

/// The command line, with what configured commands have in common.
pub fn command() -> Command {
    let mut command = unbuilt();
    command.build();
    command
}

/// The same before clap has looked at it; only then may its options be changed.
pub(crate) fn unbuilt() -> Command {
    let mut command = Cli::command();
    for &name in CONFIGURED {
        command = command.mut_subcommand(name, |of_command| of_command.mut_args(revocable));
    }
    command
}

/// A switch that the file may turn on, and the command line off again: `--wait=false`.
fn revocable(arg: clap::Arg) -> clap::Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_name("BOOL")
        .default_value("false")
        .default_missing_value("true")
        .hide_default_value(true)
        .hide_possible_values(true)
}

fn find<'a>(command: &'a Command, name: &str) -> &'a Command {
    command.find_subcommand(name).expect("configured commands are commands")
}

/// What stands in front of a value in messages.
fn shown(value: &OsStr) -> String {
    format!("`{}`", value.display())
}
