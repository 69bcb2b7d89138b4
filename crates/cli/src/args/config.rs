//! Arguments of `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser};

/// The commands that can be configured.
pub const CONFIGURED: &[&str] = &[
    "server",
    "client",
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    "tunnel",
    #[cfg(feature = "serve")]
    "serve",
];

/// What `config` can do.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say whether a configuration file is right, and if not, what is wrong where.
    Check(CheckArgs),
    /// Print a configuration file with every option, switched off by `#`.
    Template(TemplateArgs),
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  mendpath config check /etc/mendpath/server.toml")]
pub struct CheckArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `config template`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  mendpath config template server > server.toml")]
pub struct TemplateArgs {
    /// The command.
    #[arg(value_name = "COMMAND", value_parser = PossibleValuesParser::new(CONFIGURED.iter().copied()))]
    pub command: String,
}
