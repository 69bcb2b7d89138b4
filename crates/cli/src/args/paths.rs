//! Arguments of `paths` and `path`.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args, Subcommand};
use units::BitRate;

use super::{Limit, invite::parse_rate};

/// Arguments of `paths`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath paths\n  \
                  mendpath paths --to 2001:db8::1      over IPv6")]
pub struct PathsArgs {
    /// Address of the server, for which routes are looked up.
    #[arg(long, value_name = "IP", default_value = "192.0.2.1")]
    pub to: IpAddr,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `path`.
#[derive(Debug, Args)]
#[command(
    after_help = "A path is named by its interface, its address, or as `mendpath status` shows it.\n\n\
                  Examples:\n  \
                  mendpath path metered wwan0       costs money: only while nothing else works, and no copies\n  \
                  mendpath path cap wwan0 5mbit     at most that, up and down\n  \
                  mendpath path prefer wlan0        the others only while it does not work\n  \
                  mendpath path pause wlan0\n  \
                  mendpath path resume wlan0        like any other again"
)]
pub struct PathArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub command: PathCommand,
    /// Tell the client with this socket, of several that run.
    #[arg(long, value_name = "FILE", global = true)]
    pub socket: Option<PathBuf>,
}

/// What can be done with a path.
#[derive(Debug, Subcommand)]
pub enum PathCommand {
    /// Send no data over it, in either direction; it is kept alive.
    Pause(NamedArgs),
    /// Use it like any other again: not paused, preferred, metered or a backup; a cap stays.
    Resume(NamedArgs),
    /// Send at most so much over it, in each direction.
    Cap(CapArgs),
    /// Use others only while it does not work.
    Prefer(NamedArgs),
    /// Use it only while no other works.
    Backup(NamedArgs),
    /// The same, and send no copies and repair symbols over it: what it carries costs money.
    Metered(NamedArgs),
}

/// Which paths.
#[derive(Debug, Args)]
pub struct NamedArgs {
    /// Interface, address or name.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
}

/// Arguments of `path cap`.
#[derive(Debug, Args)]
pub struct CapArgs {
    /// Interface, address or name.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How fast, such as 5mbit, and 64kbit at least; or `none`.
    #[arg(value_name = "RATE", value_parser = parse_cap)]
    pub rate: Limit<BitRate>,
}

fn parse_cap(text: &str) -> Result<Limit<BitRate>, String> {
    let least = mendpath::PathLimits::LEAST_RATE;
    match parse_rate(text)? {
        Limit::At(rate) if rate < least => Err("write at least 64kbit, or pause the path".to_owned()),
        rate => Ok(rate),
    }
}
