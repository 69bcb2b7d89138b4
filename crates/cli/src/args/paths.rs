//! Arguments of `paths` and `path`.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args, Subcommand};
use units::BitRate;

use super::{Limit, invite::parse_amount};
use crate::client::{PathChange, PathOrder};

/// Arguments of `paths`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath paths\n  \
                  mendpath paths --to 2001:db8::1      over IPv6")]
pub struct PathsArgs {
    /// Address of the server, for which routes are looked up [default: 192.0.2.1, for any of IPv4].
    #[arg(long, value_name = "IP")]
    pub to: Option<IpAddr>,
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
                  mendpath path resume wlan0        like any other again\n\n\
                  The options --metered, --backup, --prefer and --cap of `client`, `run` and `tunnel` say the same from the start."
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

/// What a client's paths are used for; `mendpath path` changes it while the client runs.
#[derive(Debug, Args)]
pub struct PathUseArgs {
    /// Interface, address or name of a path that costs money: used only while no other works, and
    /// never for copies and repair symbols; several times for several.
    #[arg(long, value_name = "NAME")]
    pub metered: Vec<String>,
    /// A path to use only while no other works.
    #[arg(long, value_name = "NAME")]
    pub backup: Vec<String>,
    /// A path to use before all that are not preferred.
    #[arg(long, value_name = "NAME")]
    pub prefer: Vec<String>,
    /// Send at most so much over a path, in each direction: wwan0=5mbit.
    #[arg(long, value_name = "NAME=RATE", value_parser = parse_named_cap)]
    pub cap: Vec<(String, BitRate)>,
}

impl PathUseArgs {
    /// The same as orders. What was named for several uses is metered rather than a backup, and
    /// that rather than preferred.
    pub(crate) fn orders(&self) -> Vec<PathOrder> {
        let uses = [
            (&self.prefer, PathChange::Prefer),
            (&self.backup, PathChange::Backup),
            (&self.metered, PathChange::Metered),
        ];
        let uses = uses.map(|(names, change)| PathOrder { names: names.clone(), change });
        let cap = |(name, rate): &(String, BitRate)| PathOrder {
            names: vec![name.clone()],
            change: PathChange::Cap(Some(rate.0)),
        };
        uses.into_iter().chain(self.cap.iter().map(cap)).collect()
    }
}

fn parse_named_cap(text: &str) -> Result<(String, BitRate), String> {
    let wanted = || "write NAME=RATE, such as wwan0=5mbit".to_owned();
    let (name, rate) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wanted)?;
    let rate = parse_cap(rate)?.value().ok_or_else(wanted)?;
    Ok((name.to_owned(), rate))
}

fn parse_cap(text: &str) -> Result<Limit<BitRate>, String> {
    let fits = |rate: &BitRate| *rate >= mendpath::PathLimits::LEAST_RATE;
    parse_amount(text, fits, "a cap of at least 64kbit; for less, pause the path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_name_a_path_and_a_rate() {
        assert_eq!(parse_named_cap("wwan0=5mbit"), Ok(("wwan0".to_owned(), BitRate::from_mbps(5))));
        for (wrong, reason) in [
            ("wwan0", "NAME=RATE"),
            ("=5mbit", "NAME=RATE"),
            ("wwan0=none", "NAME=RATE"),
            ("wwan0=9kbit", "at least 64kbit"),
            ("wwan0=1kbit", "at least 64kbit"),
            ("wwan0=fast", "fast"),
        ] {
            let error = parse_named_cap(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
