//! What one client of the proxy notices while somebody floods its server.
//!
//! For each kind of flood there are a fresh server, a client that behaves and has an origin behind
//! the server, and an attacker, each in a process of its own. The client fetches 60 kB after 60 kB
//! while all is quiet, while the attacker floods, and when it has stopped; beside it, again and
//! again, a new client starts, fetches 60 kB and ends. The table says what both noticed and what it
//! cost the server.
//!
//! - Server and client are the command `mendpath`, run through its own argument parser.
//! - The attacker is the crate `proto` with its own loop around it: it has keys, and sends what it
//!   likes from where it likes. On loopback every address from 127.0.0.1 on is a source, so that it
//!   may come from one place or from millions.
//! - Everything goes over loopback and is bounded in rate, number and time.
//! - All of them share this machine's processors. What the attacker itself computes is printed
//!   beside; where there are no processors to spare, that is a part of the ratio.
//!
//! Exits with 1 if the flooded 99th percentile is beyond `--goal` times the quiet one, if a request or
//! a new client failed, or if it never came to the flood.

mod attacker;
mod contest;
mod ends;
mod kind;
mod probe;
mod resolver;
mod table;

use std::{
    error::Error,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::{Parser as _, Subcommand};
use kind::Kind;
use mendpath_cli::{args::Cli, commands, config::Reload, console::say};
use units::{BitRate, Bytes};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools flood initials
  mendpath-tools flood all --rate 10mbit --seconds 20

Exits with 1 if the flooded 99th percentile is beyond --goal times the quiet one, if a request or a
new client failed, or if it never came to the flood.";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What one client of the proxy notices while somebody floods its server: its requests in turns
/// quiet, flooded and quiet.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    contest: ContestArgs,
}

/// A client's requests in turns quiet, flooded and quiet.
#[derive(Clone, clap::Args)]
struct ContestArgs {
    /// What the server is flooded with; several, or `all`.
    #[arg(default_value = "all")]
    kinds: Vec<Kind>,
    /// What the attacker sends, at most.
    #[arg(long, default_value = "10mbit")]
    rate: BitRate,
    /// How long each of the three turns lasts.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Bytes of a request.
    #[arg(long, default_value = "60kB")]
    size: Bytes,
    /// Between a request and the next, in milliseconds.
    #[arg(long, default_value_t = 10)]
    pause_ms: u64,
    /// The 99th percentile under the flood may be so many times the quiet one.
    #[arg(long, default_value_t = 1.5)]
    goal: f64,
    /// Another seed makes other sources and another order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Judge this program `mendpath` instead of the one that this program was built with.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print what the processes have to say.
    #[arg(long)]
    verbose: bool,
}

/// What this program is when it starts itself.
#[derive(Clone, Subcommand)]
enum Role {
    /// Runs a command of `mendpath` until its standard input ends.
    #[command(hide = true)]
    Mendpath {
        /// Asks the name server at this address instead of the machine's own.
        #[arg(long)]
        resolver: Option<Ipv4Addr>,
        /// Becomes this program instead.
        #[arg(long)]
        program: Option<PathBuf>,
        #[arg(last = true)]
        line: Vec<String>,
    },
    /// Floods.
    #[command(hide = true)]
    Attack(attacker::Orders),
}

/// Runs it.
pub fn run(args: Args) -> ExitCode {
    let outcome = match args.role {
        Some(Role::Mendpath { resolver, program, line }) => mendpath(resolver, program, line),
        Some(Role::Attack(orders)) => attacker::run(&orders).map(|()| ExitCode::SUCCESS),
        None => contest::run(&args.contest),
    };
    outcome.unwrap_or_else(|error| {
        say(format_args!("flood: {error}"));
        ExitCode::FAILURE
    })
}

/// A command of `mendpath`, which ends when whoever started this process does.
fn mendpath(resolver: Option<Ipv4Addr>, program: Option<PathBuf>, line: Vec<String>) -> Outcome<ExitCode> {
    if let Some(resolver) = resolver {
        resolver::ask(resolver)?;
    }
    if let Some(program) = program {
        // It is killed when its parent ends in order, which is all that can be asked of a program
        // that is not this one.
        return Err(Command::new(program).args(&line[1..]).exec().into());
    }
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(commands::run(Cli::parse_from(line), Reload::default()))?;
    Ok(ExitCode::SUCCESS)
}

/// A line of the result, on stdout.
fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
