//! Arguments of `invite`.

use std::{path::PathBuf, str::FromStr, time::SystemTime};

use clap::{Args, Subcommand};
use ipnet::IpNet;
use units::{BitRate, Bytes};

use crate::accounts::{Name, now, parse_expiry};

/// Arguments of `invite`.
#[derive(Debug, Args)]
pub struct InviteArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: InviteCommand,
    /// Whose accounts.
    #[command(flatten)]
    pub state: StateArgs,
}

/// What `invite` can do.
#[derive(Debug, Subcommand)]
pub enum InviteCommand {
    /// Make an invitation, and print it.
    #[command(long_about = "Make an invitation, and print it.\n\n\
                  Whoever has the line may use the server, on the terms given. A running server knows it at once. With several names \
                  there is one line for each, in their order.")]
    Add(AddArgs),
    /// Show who was invited, and what they have used.
    List(InviteListArgs),
    /// Show one account and its invitation.
    Show(ShowArgs),
    /// Give an account other terms; what is not named stays.
    #[command(long_about = "Give an account other terms; what is not named stays.\n\n\
                  Takes effect on a running server within a second; clients that are connected stay so, unless the new terms end them.")]
    Change(ChangeArgs),
    /// Print every account, for `invite import` on another server.
    #[command(
        long_about = "Print every account, for `invite import` on another server with the same token-secret.\n\n\
                  One line of JSON for each: id, name, terms and whether it was revoked; nothing secret, and no usage."
    )]
    Export,
    /// Take over the accounts of another server of the same fleet.
    #[command(
        long_about = "Take over the accounts of another server of the same fleet, from what `invite export` printed there.\n\n\
                  New accounts are added, the terms of the others become those of the list, and what was revoked on either side stays so. \
                  Accounts that only this server has stay; what was used is counted by each server for itself.",
        after_help = "Example:\n  mendpath invite export | ssh b.example.org mendpath invite import -"
    )]
    Import(ImportArgs),
    /// Take invitations back, for good.
    #[command(long_about = "Take invitations back, for good.\n\n\
                  A running server sends their clients away within a second, and tells them so. The name is then free for a new \
                  invitation.")]
    Revoke(RevokeArgs),
}

/// Whose accounts.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// The server's state directory [default: the variable MENDPATH_STATE, ~/.local/state/mendpath, or what
    /// /etc/mendpath/server.toml names].
    #[arg(long, value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,
}

/// The terms of an invitation.
#[derive(Debug, Args)]
pub struct TermsArgs {
    /// When it ends: after a time (30d, 12h), on a date (2027-01-31), or `never`.
    #[arg(long, value_name = "WHEN", value_parser = parse_end)]
    pub expires: Option<Limit<SystemTime>>,
    /// What may pass in both directions together: 100GB, 1TB, or `none` for no limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_quota)]
    pub quota: Option<Limit<Bytes>>,
    /// How fast it may pass, in each direction: 50mbit, 1gbit, or `none` for no limit.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<Limit<BitRate>>,
    /// The only network it may connect to, of those that the server permits; several times for
    /// several; `any` for all.
    #[arg(long, value_name = "CIDR", value_parser = parse_network)]
    pub allow: Vec<Limit<IpNet>>,
}

/// Arguments of `invite add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath invite add alice\n  \
                  mendpath invite add bob --expires 30d --quota 100GB --rate 50mbit\n  \
                  mendpath invite add printer --allow 192.168.7.0/24      for a server with --allow-private")]
pub struct AddArgs {
    /// A name for the account: letters, digits and . _ - + @.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<Name>,
    /// On which terms.
    #[command(flatten)]
    pub terms: TermsArgs,
}

/// Arguments of `invite list`.
#[derive(Debug, Args)]
pub struct InviteListArgs {
    /// Revoked ones as well.
    #[arg(long)]
    pub all: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `invite show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The account.
    #[arg(value_name = "NAME")]
    pub name: Name,
    /// The invitation as a QR code too, for a telephone's camera.
    #[arg(long)]
    pub qr: bool,
    /// As JSON.
    #[arg(long, conflicts_with = "qr")]
    pub json: bool,
}

/// Arguments of `invite change`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath invite change bob --expires never --quota 1TB\n  \
                  mendpath invite change bob --reset-usage             his quota begins anew")]
pub struct ChangeArgs {
    /// The account.
    #[arg(value_name = "NAME")]
    pub name: Name,
    /// The new terms.
    #[command(flatten)]
    pub terms: TermsArgs,
    /// Begin to count what it uses anew.
    #[arg(long)]
    pub reset_usage: bool,
}

/// Arguments of `invite revoke`.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The accounts.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<Name>,
}

/// Arguments of `invite import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// What `invite export` printed (`-` for stdin).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// A limit, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit<T> {
    /// There is none.
    None,
    /// This one.
    At(T),
}

impl<T> Limit<T> {
    /// `None` for none.
    pub fn value(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::At(value) => Some(value),
        }
    }
}

fn parse_end(text: &str) -> Result<Limit<SystemTime>, String> {
    match text {
        "never" | "none" => Ok(Limit::None),
        _ => parse_expiry(text, now()).map(Limit::At),
    }
}

fn parse_quota(text: &str) -> Result<Limit<Bytes>, String> {
    parse_amount(text, |quota: &Bytes| quota.get() > 0, "a quota of at least one byte")
}

pub(super) fn parse_rate(text: &str) -> Result<Limit<BitRate>, String> {
    parse_amount(text, |rate: &BitRate| rate.bits_per_second() >= 8_000, "a rate of at least 8kbit")
}

pub(super) fn parse_amount<T: FromStr<Err = units::ParseUnitError>>(
    text: &str,
    fits: impl FnOnce(&T) -> bool,
    wanted: &str,
) -> Result<Limit<T>, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let amount = text.parse().map_err(|error| format!("{error}, nor `none`"))?;
    if fits(&amount) { Ok(Limit::At(amount)) } else { Err(format!("`{text}` is not {wanted}")) }
}

fn parse_network(text: &str) -> Result<Limit<IpNet>, String> {
    if text == "any" {
        return Ok(Limit::None);
    }
    network(text).map(Limit::At).map_err(|error| format!("{error}, nor `any`"))
}

/// A network, or a single address as the network that has no other.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse().map(|ip: std::net::IpAddr| IpNet::from(ip));
    let network = text.parse().or_else(|_| address());
    network
        .map(|network: IpNet| network.trunc())
        .map_err(|_| format!("`{text}` is neither a network (192.0.2.0/24, 2001:db8::/32), nor an address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_amounts_or_none() {
        assert_eq!(parse_quota("100GB"), Ok(Limit::At(Bytes(100_000_000_000))));
        assert_eq!(parse_quota("none"), Ok(Limit::None));
        assert!(parse_quota("0").unwrap_err().contains("at least one byte"));
        assert!(parse_quota("much").unwrap_err().contains("nor `none`"));
        assert_eq!(parse_rate("50mbit"), Ok(Limit::At(BitRate::from_mbps(50))));
        assert!(parse_rate("1kbit").unwrap_err().contains("at least 8kbit"));
        assert_eq!(parse_end("never"), Ok(Limit::None));
    }

    #[test]
    fn networks_are_written_in_their_shortest_form() {
        for (text, network) in [
            ("192.0.2.9/24", "192.0.2.0/24"),
            ("192.0.2.9", "192.0.2.9/32"),
            ("2001:db8::9/32", "2001:db8::/32"),
        ] {
            assert_eq!(parse_network(text), Ok(Limit::At(network.parse().unwrap())));
        }
        assert_eq!(parse_network("any"), Ok(Limit::None));
        assert!(parse_network("example.org").unwrap_err().contains("192.0.2.0/24"));
    }
}
