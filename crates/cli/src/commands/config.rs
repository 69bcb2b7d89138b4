//! `mendpath config`.

use super::print;
use crate::{args::ConfigCommand, config, failure::Failure};

pub(super) fn run(command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(args) => {
            let tables = config::check(&args.file)?;
            let what = match tables.as_slice() {
                [] => "nothing in it".to_owned(),
                tables => format!("for mendpath {}", tables.join(" and ")),
            };
            print(&format!("{} is right: {what}\n", args.file.display()))
        }
        ConfigCommand::Template(args) => print(&config::template(&args.command)),
    }
}
