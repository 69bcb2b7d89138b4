//! Arguments of `doctor`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{parse_address, parse_advertise};
use crate::{client::PathSpec, server::Advertise};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath doctor                                  this machine, and a running client's server\n  \
                  mendpath doctor --invitation-file invitation     the same, and the server of an invitation\n  \
                  mendpath doctor --config /etc/mendpath/client.toml\n  \
                  mendpath doctor --server                         on the server")]
pub struct DoctorArgs {
    /// The invitation, or `-` to read it from stdin [default: the variable MENDPATH_INVITATION, or
    /// what the configuration names].
    #[arg(value_name = "INVITATION")]
    pub invitation: Option<String>,
    /// Read the invitation from this file, which only you may read (`-` for stdin).
    #[arg(long, value_name = "FILE", conflicts_with = "invitation")]
    pub invitation_file: Option<PathBuf>,
    /// Network interface or local address to try, several times for several [default: every usable
    /// interface].
    #[arg(long = "path", value_name = "IFACE|IP")]
    pub paths: Vec<PathSpec>,
    /// Examine this machine as a server.
    #[arg(long, conflicts_with_all = ["invitation", "invitation_file", "paths"])]
    pub server: bool,
    /// Read the options of the client, or with --server of the server, from this file [default: the variable
    /// MENDPATH_CONFIG, or what the package has in /etc/mendpath].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// UDP address that the server listens on.
    #[arg(long, value_name = "ADDR", value_parser = parse_address, requires = "server")]
    pub listen: Option<SocketAddr>,
    /// Host, or HOST:PORT, of the server's invitations.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise, requires = "server")]
    pub advertise: Option<Advertise>,
    /// The server's state directory.
    #[arg(long, value_name = "DIR", requires = "server")]
    pub state: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}
