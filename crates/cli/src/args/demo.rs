//! Arguments of `demo`.

use std::path::PathBuf;

use clap::Args;
use mendpath::{ControllerKind, RecoveryKind};
use units::Bytes;

use crate::{
    demo,
    transport::{parse_congestion, parse_recovery},
};

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "A path is described by rate=50mbit,delay=20ms,loss=1% and, if wanted, more:\n  \
                  rate     of each direction                   [default: 100mbit]\n  \
                  delay    round-trip time                     [default: 50ms]\n  \
                  loss     from server to client               [default: 0]\n  \
                  loss-up  from client to server               [default: 0]\n  \
                  burst    mean length of a burst of losses in packets\n  \
                  jitter   of the one-way delay\n  \
                  queue    what may wait before the link       [default: one round trip's worth]\n\n\
                  Examples:\n  \
                  mendpath demo\n  \
                  mendpath demo --virtual                  the links alone, without this machine's noise\n  \
                  mendpath demo --html demo.html --json demo.json\n  \
                  mendpath demo --path rate=50mbit,delay=20ms,loss=1% --path rate=10mbit,delay=80ms,loss=3%,burst=2\n  \
                  mendpath demo --path loss=2% --recovery none,fuso,cofuso --size 20kB --count 500")]
pub struct DemoArgs {
    /// An emulated path; give it several times for several [default: two of 100mbit and 50ms, the
    /// second with loss=2%].
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<demo::PathSpec>,
    /// Size of each response.
    #[arg(long, default_value = "60kB")]
    pub size: Bytes,
    /// Responses per row [default: 200, with --quick 24].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: Option<u32>,
    /// Schemes to compare over all paths: none, proactive, fuso, cofuso, auto, ctcp, slp, streaming
    /// [default: the first five].
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', value_parser = parse_recovery)]
    pub recovery: Vec<RecoveryKind>,
    /// Congestion controller of every path: auto, cubic, newreno, ctcp, ctcp-printed,
    /// lia, olia, balia, dctcp.
    #[arg(long, default_value = "auto", value_parser = parse_congestion)]
    pub congestion: ControllerKind,
    /// UDP payload of a full packet in bytes; a real connection begins with 1200 and searches for
    /// more.
    #[arg(long, value_name = "BYTES", default_value_t = 1_452, value_parser = clap::value_parser!(u16).range(1_200..=1_472))]
    pub datagram: u16,
    /// Number from which all losses derive.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Responses under way at a time, each on links of its own [default: 12].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub lanes: Option<u16>,
    /// The same in virtual time, within a second or two: no sockets, no noise of this machine, the
    /// same digits every time.
    #[arg(long = "virtual", conflicts_with = "lanes")]
    pub virtual_time: bool,
    /// A few seconds instead of most of a minute; too few responses for a 99th percentile worth the
    /// name.
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with a picture and the numbers (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a picture of the tails and what they cost (`-` for stdout, instead of the table).
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
