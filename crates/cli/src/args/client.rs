//! Arguments of `client`, and those that it shares with other commands that need a server.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use mendpath::RecoveryKind;

use super::{PathUseArgs, SendingArgs, parse_address};
use crate::{
    client::{EarlyAnswers, Forward, PathSpec},
    transport::{LONGEST_GIVE_UP, parse_recovery},
};

/// Arguments of `client`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  mendpath client --invitation-file invitation\n  \
                  mendpath client --invitation-file invitation --path wlan0 --path wwan0 --http 127.0.0.1:8080\n  \
                  mendpath client --invitation-file invitation --forward 2222=intern.example:22\n  \
                  mendpath client --invitation-file invitation --admin 127.0.0.1:9000\n  \
                  ssh vps.example.org cat invitation | mendpath client -\n  \
                  curl --socks5-hostname 127.0.0.1:1080 https://example.org/")]
pub struct ClientArgs {
    /// Where and how.
    #[command(flatten)]
    pub dial: DialArgs,
    /// Read options from the table `client` of this file [default: the variable MENDPATH_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Offer a SOCKS5 proxy (CONNECT and UDP ASSOCIATE) here.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub socks5: Option<SocketAddr>,
    /// Offer an HTTP proxy (CONNECT and plain http://) here.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub http: Option<SocketAddr>,
    /// Forward a local port to HOST:PORT as seen from the server; several times for several.
    #[arg(long = "forward", value_name = "LISTEN=HOST:PORT")]
    pub forwards: Vec<Forward>,
    /// Ask programs for the user and the password in this file, which holds USER:PASS and which
    /// only you may read (`-` for stdin); needed to offer proxies beyond this machine [default: the
    /// variable MENDPATH_PROXY_AUTH].
    #[arg(long, value_name = "FILE")]
    pub proxy_auth_file: Option<PathBuf>,
    /// The same on the command line, where other users of this machine can read it.
    #[arg(long, value_name = "USER:PASS", conflicts_with = "proxy_auth_file")]
    pub proxy_auth: Option<String>,
    /// What the connection to the server is like.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// The server and the ways to it, for `client` and `send`.
#[derive(Debug, Args)]
pub struct DialArgs {
    /// The line that the other side printed, or `-` to read it from stdin; on the command line
    /// other users of this machine can read it (and quote it: it contains `?`) [default: the
    /// variable MENDPATH_INVITATION].
    #[arg(value_name = "INVITATION")]
    pub invitation: Option<String>,
    /// Read the invitation from this file, which only you may read (`-` for stdin).
    #[arg(long, value_name = "FILE", conflicts_with = "invitation")]
    pub invitation_file: Option<PathBuf>,
    /// Network interface or local address to use, several times for several [default: every usable
    /// interface].
    #[arg(long = "path", value_name = "IFACE|IP")]
    pub paths: Vec<PathSpec>,
    /// How this side mends what it sends, so uploads: none, proactive, fuso, cofuso, ctcp, slp,
    /// streaming, auto.
    #[arg(long, value_name = "SCHEME", default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// How else it sends.
    #[command(flatten)]
    pub sending: SendingArgs,
}

/// What `client`, `run` and `tunnel` have in common besides where they connect to.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Tell programs that they are connected before the server has said so, which saves a round
    /// trip; what goes wrong then shows as a reset: never, known (where a connection was made
    /// within the last ten minutes) or always.
    #[arg(long, value_name = "WHEN", default_value_t)]
    pub answer_early: EarlyAnswers,
    /// Show a live page and statistics over HTTP here, on loopback: http://ADDR/ for people, /paths
    /// and /stats as JSON, /metrics for Prometheus.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
    /// Leave the hosts that programs connect to out of statistics and events.
    #[arg(long)]
    pub hide_names: bool,
    /// Seconds without an answer on any path until the connection is made anew.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=LONGEST_GIVE_UP))]
    pub give_up: u64,
    /// Keep trying when the server does not answer, or its name is not found, at the start, as a
    /// service should.
    #[arg(long)]
    pub wait: bool,
    /// What its paths are used for.
    #[command(flatten)]
    pub paths: PathUseArgs,
}
