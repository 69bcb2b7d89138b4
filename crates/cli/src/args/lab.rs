//! The arguments of `mendpath lab`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
    value_parser,
};
use mendpath::{ControllerKind, RecoveryKind, SchedulerKind};
use units::Bytes;

use crate::transport::{REPAIR_SYMBOLS, parse_congestion, parse_recovery, parse_scheduler};

/// Arguments of `lab`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Contenders:\n  \
                  tcp:cubic, tcp:bbr@1, tcp:reno@random     the kernel's TCP over path 0, path 1, a random one\n  \
                  mptcp:cubic, mptcp:bbr@1                  the kernel's MPTCP, beginning on path 0, path 1\n  \
                  mendpath:cofuso, mendpath:none:newreno@0  recovery and congestion control, over all paths or some\n  \
                  mendpath:cofuso=1                         with --repair-symbols 1\n  \
                  mendpath-new:cofuso                       the same with a new connection for every fetch\n  \
                  mendpath-tunnel:auto                      the kernel's TCP through mendpath tunnel\n  \
                  mendpath-tunnel-raw:auto                  the same with --tcp raw\n  \
                  mendpath-copies, mendpath-fec             in calls: an application that protects its datagrams\n  \
                  mendpath-serve:auto                       of pages: mendpath serve by HTTP/3\n  \
                  mendpath-serve-tcp:bbr                    the same by HTTP/2 over the kernel's TCP\n  \
                  h3-quinn, nginx-cubic, caddy              other web servers\n  \
                  kcptun, quinn, noq, or a name of yours    other programs, see --adapter\n\n\
                  Examples:\n  \
                  mendpath lab list\n  \
                  mendpath lab run one-lossy-path --json results.json --html results.html\n  \
                  mendpath lab --path rate=50mbit,delay=20ms,loss=2% --path rate=20mbit,delay=60ms \\\n      \
                  --fetch 60kB --count 200 --bulk 20MiB \\\n      \
                  --contender tcp:cubic --contender mptcp:bbr --contender mendpath:cofuso\n  \
                  mendpath lab exec --path rate=50mbit,delay=20ms --server 'iperf3 -s' -- iperf3 -c 10.99.0.1"
)]
pub struct LabArgs {
    /// What to do, unless the flags say it.
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// An emulated path, such as rate=50mbit,delay=20ms,loss=2%: delay is the round-trip time, loss
    /// is towards the client. Several times for several.
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<lab::PathSpec>,
    /// Fetch responses of this size.
    #[arg(long, value_name = "SIZE")]
    pub fetch: Option<Bytes>,
    /// Transfer this much.
    #[arg(long, value_name = "SIZE")]
    pub bulk: Option<Bytes>,
    /// Keep one TCP connection instead of a new one for each fetch.
    #[arg(long)]
    pub keep: bool,
    /// Count the time to connect.
    #[arg(long)]
    pub setup: bool,
    /// Begin so many fetches together.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub at_once: u32,
    /// Let so many transfers go on beside fetches.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub beside: u32,
    /// Transfers per contender.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub transfers: u32,
    /// When to give up on a fetch, or to stop a transfer.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub limit: units::Duration,
    /// What runs have in common.
    #[command(flatten)]
    pub run: LabRunArgs,
}

/// What runs of the lab have in common.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Who takes part, several times for several [default: the plan's].
    #[arg(long = "contender", value_name = "NAME", value_delimiter = ',')]
    pub contenders: Vec<lab::Contender>,
    /// Fetches, calls or loads per contender [default: the plan's, or 200].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: Option<u32>,
    /// Number from which all losses derive [default: the plan's, or 1].
    #[arg(long)]
    pub seed: Option<u64>,
    /// The program that `mendpath` contenders run [default: this one].
    #[arg(long, value_name = "PROGRAM")]
    pub mendpath: Option<PathBuf>,
    /// The Chromium that loads pages [default: one on the PATH].
    #[arg(long, value_name = "PROGRAM")]
    pub browser: Option<PathBuf>,
    /// A file that says how to start another program; its name without .toml becomes a contender.
    #[arg(long = "adapter", value_name = "FILE")]
    pub adapters: Vec<PathBuf>,
    /// Write the results as JSON (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with pictures and the numbers (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What the lab can do besides what its flags say.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Show the plans and adapters that the lab comes with.
    List,
    /// Run a plan.
    Run {
        /// A plan's name from `mendpath lab list`, or a file.
        plan: String,
        /// `quick`: few fetches, in minutes; `paper`: as many as the plan says.
        #[arg(long, default_value = "quick", value_parser = scales())]
        scale: lab::Scale,
        /// Write data, page and pictures into a folder of the plan's name, to be committed.
        #[arg(long)]
        publish: bool,
        /// Where the folder is made [with `-quick` behind its name at that scale].
        #[arg(long, value_name = "DIR", default_value = "lab", requires = "publish")]
        publish_to: PathBuf,
        /// What runs have in common.
        #[command(flatten)]
        run: LabRunArgs,
    },
    /// Run a command of yours behind emulated paths. The server's address is 10.99.0.1.
    Exec {
        /// An emulated path, several times for several.
        #[arg(long = "path", value_name = "PATH", required = true)]
        paths: Vec<lab::PathSpec>,
        /// A command for the server's side, its words separated by spaces; ended with the other.
        #[arg(long, value_name = "COMMAND")]
        server: Option<String>,
        /// Number from which all losses derive.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The command, on the client's side.
        #[arg(last = true, required = true)]
        words: Vec<String>,
    },
    /// The server's end of `mendpath-new` contenders.
    #[command(hide = true)]
    RelayServer {
        /// Where to listen for connections of the other end.
        #[arg(long)]
        listen: SocketAddr,
        /// Where streams lead.
        #[arg(long)]
        origin: SocketAddr,
        /// Where to show statistics.
        #[arg(long)]
        admin: Option<SocketAddr>,
        /// What both ends have in common.
        #[command(flatten)]
        relay: RelayArgs,
    },
    /// The sender's end of calls.
    #[command(hide = true)]
    CallServer {
        /// Where to listen for connections of the other end.
        #[arg(long)]
        listen: SocketAddr,
        /// Where to show statistics.
        #[arg(long)]
        admin: Option<SocketAddr>,
        /// What the application does about loss.
        #[arg(long, value_enum)]
        protection: AppProtection,
        /// What both ends have in common.
        #[command(flatten)]
        relay: RelayArgs,
    },
    /// The receiver's end of a call.
    #[command(hide = true)]
    CallClient {
        /// The call.
        #[command(flatten)]
        call: CallArgs,
        /// What both ends have in common.
        #[command(flatten)]
        relay: RelayArgs,
    },
    /// The client's end of `mendpath-new` contenders.
    #[command(hide = true)]
    RelayClient {
        /// Where to listen for programs.
        #[arg(long)]
        listen: SocketAddr,
        /// The other end.
        #[arg(long)]
        server: SocketAddr,
        /// The local address of each path.
        #[arg(long, required = true)]
        from: Vec<std::net::IpAddr>,
        /// What both ends have in common.
        #[command(flatten)]
        relay: RelayArgs,
    },
}

/// What the receiver's end of a call is told.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The sender's end.
    #[arg(long)]
    pub server: SocketAddr,
    /// The local address of each path.
    #[arg(long, required = true)]
    pub from: Vec<std::net::IpAddr>,
    /// How long the call takes.
    #[arg(long)]
    pub time: units::Duration,
    /// For how long a frame is of use.
    #[arg(long)]
    pub deadline: units::Duration,
    /// Decides over the sizes of frames.
    #[arg(long)]
    pub seed: u64,
    /// Where to write what became of it, as JSON.
    #[arg(long)]
    pub result: PathBuf,
    /// When a path was cut, if the file is there: lines of two times of the monotonic clock, in ns.
    #[arg(long)]
    pub cuts: PathBuf,
}

/// What an application does about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AppProtection {
    /// Nothing: the recovery scheme does.
    Scheme,
    /// Every datagram twice.
    Copies,
    /// A parity for five.
    Fec,
}

/// What both ends of a relay have in common.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// A directory that both ends share.
    #[arg(long)]
    pub dir: PathBuf,
    /// How this side mends what it sends.
    #[arg(long, default_value = "auto", value_parser = parse_recovery)]
    pub recovery: RecoveryKind,
    /// Congestion controller of what this side sends.
    #[arg(long, default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// Which path carries the next packet.
    #[arg(long, default_value = "earliest-delivery", value_parser = parse_scheduler)]
    pub scheduler: SchedulerKind,
    /// Most repair symbols of one block of what this side sends.
    #[arg(long, value_name = "SYMBOLS", default_value_t = REPAIR_SYMBOLS, value_parser = value_parser!(u8).range(1..=32))]
    pub repair_symbols: u8,
}

/// The scales that plans of the lab have.
fn scales() -> impl TypedValueParser<Value = lab::Scale> {
    PossibleValuesParser::new(["quick", "paper"]).try_map(|name| name.parse::<lab::Scale>())
}
