//! Puts emulated paths before a UDP server, and prints what they do once a second.
//!
//! The printed addresses stand in for the server's, one per path.

use std::{
    convert::Infallible, error::Error, io::Write as _, net::SocketAddr, process::ExitCode, time::Duration,
};

use emulator::{Emulator, PathId, Seed, UdpPath};
use netsim::LinkConfig;

use crate::console::{Out, failed};

const EXAMPLES: &str = "\
Example:
  mendpath-tools relay --server 127.0.0.1:4433 \\
    --path rate=50mbit,delay=20ms --path rate=20mbit,delay=40ms,loss=1%,burst=3

The printed addresses stand in for the server's, one per path.";

/// Emulated paths before a UDP server.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where packets go.
    #[arg(long, value_name = "ADDR")]
    server: SocketAddr,
    /// A path, alike in both directions, such as `rate=50mbit,delay=20ms,loss=1%`; the delay is one
    /// way.
    #[arg(long = "path", value_name = "LINK", required = true)]
    paths: Vec<LinkConfig>,
    /// Another seed gives another loss pattern.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs until it is ended.
pub fn run(args: &Args) -> ExitCode {
    let Err(error) = emulate(args);
    failed("relay", &*error)
}

fn emulate(args: &Args) -> Result<Infallible, Box<dyn Error>> {
    let paths = args.paths.iter().map(|link| UdpPath::new(args.server, link.clone(), link.clone()));
    let emulator = Emulator::start(paths, Seed(args.seed))?;
    let mut out = Out;
    for path in 0..args.paths.len() {
        writeln!(out, "path {path}: {}", emulator.client_addr(PathId(path))?)?;
    }
    loop {
        pause();
        for path in 0..args.paths.len() {
            let stats = emulator.stats(PathId(path))?;
            for (name, direction) in [("up", stats.up), ("down", stats.down)] {
                let (link, late) = (direction.link, direction.max_late);
                let (lost, delivered) = (link.gone(), link.delivered);
                writeln!(out, "path {path} {name}: delivered {delivered}, lost {lost}, at most {late} late")?;
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a program for people may wait a second")]
fn pause() {
    std::thread::sleep(Duration::from_secs(1));
}
