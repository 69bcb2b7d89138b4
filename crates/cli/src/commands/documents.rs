//! `mendpath completions` and `mendpath manual`: what the command line says about itself, for shells
//! and for `man`.

use std::path::Path;

use clap::builder::Resettable;
use clap_complete::Shell;

use super::{print, write};
use crate::{
    args::{CompletionsArgs, ManualArgs},
    config::unbuilt,
    failure::{Failure, directory_reason},
};

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    print(&completions_for(args.shell))
}

fn completions_for(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(unbuilt()), "mendpath", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

pub(super) fn manual(args: &ManualArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.directory).map_err(|error| {
        let tried = format!("cannot make {}", args.directory.display());
        Failure::new(tried, directory_reason(&args.directory, &error), "Name another directory")
    })?;
    let mut command = shown(unbuilt());
    command.build();
    pages(&command, "mendpath", &args.directory)
}

/// `command` without the commands that are hidden: users have no use for them.
fn shown(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(shown);
    if !command.get_subcommands().any(clap::Command::is_hide_set) {
        return command;
    }
    // Nothing takes a command out of another: it is made again with the others.
    clap::Command::new(command.get_name().to_owned())
        .about(Resettable::from(command.get_about().cloned()))
        .long_about(Resettable::from(command.get_long_about().cloned()))
        .after_help(Resettable::from(command.get_after_help().cloned()))
        .args(command.get_arguments())
        .groups(command.get_groups())
        .subcommand_required(command.is_subcommand_required_set())
        .subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()))
}

/// The page of `command`, which is called `name` with those above it, and those of the ones below.
fn pages(command: &clap::Command, name: &str, directory: &Path) -> Result<(), Failure> {
    let mut page = Vec::new();
    let titled = command.clone().name(name.to_owned()).display_name(name.to_owned());
    let rendered = clap_mangen::Man::new(titled).render(&mut page);
    rendered.expect("a list of bytes takes everything");
    write(&directory.join(format!("{name}.1")), &String::from_utf8_lossy(&page))?;
    command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
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

    #[cfg(feature = "lab")]
    #[test]
    fn shells_offer_what_help_shows() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let text = completions_for(shell);
            assert!(text.contains("publish-to") && text.contains("exec"), "{shell}:\n{text}");
            for hidden in ["relay-server", "relay-client", "call-server", "call-client", "relay__server"] {
                assert!(!text.contains(hidden), "{shell} offers {hidden}");
            }
        }
    }
}
