//! Arguments of `run`.

use std::{ffi::OsString, net::IpAddr, path::PathBuf};

use clap::Args;
use ipnet::IpNet;

use super::{DialArgs, SessionArgs, invite::network};
use crate::tun::{Carriage, Coding};

/// What `run` and `tunnel` have in common.
#[derive(Debug, Args)]
pub struct CarryArgs {
    /// Where and how.
    #[command(flatten)]
    pub dial: DialArgs,
    /// Name server to ask through the tunnel [default: the one that the server itself asks].
    #[arg(long, value_name = "IP")]
    pub dns: Option<IpAddr>,
    /// How TCP is carried: `streams`, each connection on one of its own, mended by `--recovery`; or
    /// `raw`, packets of whatever protocol as they are, with TCP from end to end. For `raw` the
    /// server needs `--tunnel`.
    #[arg(long, value_name = "HOW", default_value_t)]
    pub tcp: Carriage,
    /// What `--tcp raw` sends beside packets, both ways, so that TCP does not hear of losses: `slp`,
    /// copies of those whose loss would cost a timeout; `htpc`, combinations of a round trip's;
    /// `auto`, both; `none`.
    #[arg(long, value_name = "CODING", default_value_t)]
    pub coding: Coding,
    /// What the connection to the server is like.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath run --invitation-file invitation -- curl https://example.org/\n  \
                  mendpath run --invitation-file invitation -- ssh vps.example.org\n  \
                  mendpath run --invitation-file invitation -- bash      everything that is typed there\n\n\
                  The exit code is the command's; 128 and the signal's number if a signal ended it, 127 if there is no such command, 126 if it \
                  cannot be run.")]
pub struct RunCommandArgs {
    /// What it has in common with `tunnel`.
    #[command(flatten)]
    pub carry: CarryArgs,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Arguments of `tunnel`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  sudo mendpath tunnel --invitation-file invitation\n  \
                  sudo mendpath tunnel --invitation-file invitation --exclude 198.51.100.0/24 --kill-switch\n  \
                  sudo mendpath tunnel --invitation-file invitation --route 10.20.0.0/16     this network alone\n  \
                  sudo mendpath tunnel --invitation-file invitation --tcp raw                TCP from end to end\n  \
                  sudo mendpath tunnel --remove-kill-switch")]
pub struct TunnelArgs {
    /// What it has in common with `run`.
    #[command(flatten)]
    pub carry: CarryArgs,
    /// Read options from the table `tunnel` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Send this network, or address, through the tunnel, also where there is a nearer route; several
    /// times for several [default: everything but networks that this machine is in or has a route
    /// to].
    #[arg(long = "route", value_name = "CIDR", value_parser = network)]
    pub routes: Vec<IpNet>,
    /// Leave this network, or address, out of the tunnel; several times for several.
    #[arg(long = "exclude", value_name = "CIDR", value_parser = network)]
    pub excludes: Vec<IpNet>,
    /// Make the device and its addresses only; routes and name servers are your own business.
    #[arg(long, conflicts_with_all = ["routes", "excludes", "kill_switch"])]
    pub no_routes: bool,
    /// Let nothing out of this machine but through the tunnel, even if this program is killed;
    /// stopping it properly ends that, as does the next start without this option. Needs `nft`.
    #[arg(long)]
    pub kill_switch: bool,
    /// Only take off the kill switch that a killed program left behind; refused while a tunnel runs.
    #[arg(long, conflicts_with_all = ["invitation", "kill_switch"])]
    pub remove_kill_switch: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn a_single_address_may_be_left_out_of_the_tunnel() {
        let parse = |network| Cli::try_parse_from(["mendpath", "tunnel", "x", "--exclude", network]);
        let Command::Tunnel(args) = parse("198.51.100.7").unwrap().command else { panic!("it is a tunnel") };
        assert_eq!(args.excludes, ["198.51.100.7/32".parse::<IpNet>().unwrap()]);
        let error = parse("198.51.100.0/33").unwrap_err().to_string();
        assert!(error.contains("`198.51.100.0/33` is neither a network"), "{error}");
    }
}
