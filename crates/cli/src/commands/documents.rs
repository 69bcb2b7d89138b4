//! `mendpath completions` and `mendpath manual`: what the command line says about itself, for shells
//! and for `man`.

use std::path::Path;

use super::{print, write};
use crate::{
    args::{CompletionsArgs, ManualArgs},
    config::command,
    failure::{Failure, directory_reason},
};

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "mendpath", &mut text);
    print(&String::from_utf8_lossy(&text))
}

pub(super) fn manual(args: &ManualArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.directory).map_err(|error| {
        let tried = format!("cannot make {}", args.directory.display());
        Failure::new(tried, directory_reason(&args.directory, &error), "Name another directory")
    })?;
    pages(&command(), "mendpath", &args.directory)
}

/// The page of `command`, which is called `name` with those above it, and those of the ones below.
fn pages(command: &clap::Command, name: &str, directory: &Path) -> Result<(), Failure> {
    let mut page = Vec::new();
    let titled = command.clone().name(name.to_owned()).display_name(name.to_owned());
    let rendered = clap_mangen::Man::new(titled).render(&mut page);
    rendered.expect("a list of bytes takes everything");
    write(&directory.join(format!("{name}.1")), &String::from_utf8_lossy(&page))?;
    let is_shown = |below: &&clap::Command| below.get_name() != "help" && !below.is_hide_set();
    command
        .get_subcommands()
        .filter(is_shown)
        .try_for_each(|command| pages(command, &format!("{name}-{}", command.get_name()), directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_page() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("man1");
        manual(&ManualArgs { directory: directory.clone() }).unwrap();
        for (page, part) in [
            ("mendpath", "loss"),
            ("mendpath-server", "max\\-clients"),
            ("mendpath-invite-add", "quota"),
            ("mendpath-config-check", "FILE"),
        ] {
            let text = std::fs::read_to_string(directory.join(format!("{page}.1"))).unwrap();
            assert!(text.contains(".TH") && text.contains(part), "{page}:\n{text}");
        }
        assert!(!directory.join("mendpath-lab-relay-client.1").exists(), "what users have no use for");
    }
}
