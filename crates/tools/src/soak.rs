//! The proxy pair over two lossy emulated paths, for minutes: whether all arrives, how fast, and
//! what memory it takes.
//!
//! Three processes: this one, which emulates the paths and plays both the programs that use the
//! proxy and the hosts that they reach, and one for each end of the proxy.
//!
//! - The server is the command `mendpath server`, run through its own argument parser.
//! - The client is [`Client::start`], as in `mendpath client`, with its SOCKS5 proxy and its
//!   statistics. What is not real: the second path. `--path` names interfaces, while an emulated
//!   path is known by the address that stands in for the server's; so the client process opens that
//!   path itself with `Connection::add_path`, and again whenever it is gone.
//!
//! Exits with 1 if anything is missing or wrong, if the client had to connect again, or if a process
//! needed more memory than `--memory`; `endure`, which kills both ends, also if memory grows.

mod dns;
mod ends;
mod endure;
mod fetch;
mod host;
mod interactive;
mod load;
mod pair;
mod program;
mod transfer;

use std::{
    error::Error,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration as StdDuration,
};

use clap::ValueEnum;
use emulator::PathId;
use mendpath_cli::{backoff::pause, console::say};
use units::{BitRate, Bytes, Duration, LossRate, percentile};

use pair::Pair;

const EXAMPLES: &str = "\
Examples:
  mendpath-tools soak transfer --size 1GiB --loss 5% --cut 3s
  mendpath-tools soak load
  mendpath-tools soak endure --minutes 60 --rate 30mbit --rtt 20ms --loss 2% --figure hour.svg

Exits with 1 if anything is missing or wrong, if the client had to connect again, or if a process
needed more memory than --memory; `endure`, which kills both ends, also if memory grows.";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PATHS: [PathId; 2] = [PathId(0), PathId(1)];
/// Without a byte for this long, a transfer has failed.
const STALL: StdDuration = StdDuration::from_secs(40);

/// The proxy pair over two lossy emulated paths, for minutes: whether all arrives, how fast, and
/// what memory it takes.
#[derive(Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[arg(default_value = "transfer")]
    mode: Mode,
    /// `transfer`: bytes to fetch.
    #[arg(long, default_value = "1GiB")]
    size: Bytes,
    /// Share of the packets that each path loses, in each direction.
    #[arg(long, default_value = "5%")]
    loss: LossRate,
    /// `transfer`: how long a path is cut, after a quarter of the bytes.
    #[arg(long, default_value = "3s")]
    cut: Duration,
    /// `transfer`: which path is cut, 0 (the one the connection begins with) or 1.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..2))]
    cut_path: u8,
    /// Round-trip time of each path.
    #[arg(long, default_value = "2ms")]
    rtt: Duration,
    /// Rate of each path, in each direction.
    #[arg(long, default_value = "200mbit")]
    rate: BitRate,
    /// Recovery scheme of both ends.
    #[arg(long, default_value = "cofuso")]
    recovery: String,
    /// Most memory (VmHWM) that a process may have needed.
    #[arg(long, default_value = "200MiB")]
    memory: Bytes,
    /// Another seed loses other packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// `endure`: how long.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// `endure`: where to draw memory, descriptors, throughput and times, as SVG.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// `endure`: how much memory may grow in an hour.
    #[arg(long, default_value = "16MiB")]
    growth: Bytes,
    /// Print the client's paths and both memories every second.
    #[arg(long)]
    verbose: bool,
    #[arg(long, hide = true)]
    state: Option<String>,
    #[arg(long, hide = true)]
    invitation: Option<String>,
    #[arg(long, hide = true)]
    listen: Option<SocketAddr>,
    #[arg(long, hide = true)]
    wait: bool,
    #[arg(long, hide = true)]
    second: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One long download; a path is cut meanwhile.
    Transfer,
    /// 50 requests of 300 kB at once, like a browser, ten times.
    Load,
    /// 200 echoes of a single byte, like typing into ssh.
    Interactive,
    /// 100 queries over UDP ASSOCIATE.
    Dns,
    /// For a long time: downloads, uploads, associations, downloads that nobody reads, cut paths,
    /// and both ends killed and started again.
    Endure,
    /// The server's process.
    #[value(hide = true)]
    Server,
    /// The client's process.
    #[value(hide = true)]
    Client,
}

/// Runs it.
pub fn run(args: Args) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let outcome = match args.mode {
        Mode::Server => runtime.block_on(ends::server_process(args)),
        Mode::Client => runtime.block_on(ends::client_process(args)),
        Mode::Endure => runtime.block_on(endure::endure(&args)),
        _ => runtime.block_on(soak(args)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("soak: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn soak(args: Args) -> Outcome<ExitCode> {
    let pair = Arc::new(Pair::start(&args).await?);
    if args.verbose {
        let pair = pair.clone();
        tokio::spawn(async move {
            while pair.print_paths().await.is_ok() {
                pause(StdDuration::from_secs(1)).await;
            }
        });
    }
    let done = match args.mode {
        Mode::Transfer => transfer::transfer(&pair, &args).await,
        Mode::Load => load::load(&pair).await,
        Mode::Interactive => interactive::interactive(&pair).await,
        _ => dns::dns(&pair).await,
    };
    let intact = done.is_ok();
    match done {
        Ok(()) => print(format_args!("intact: yes")),
        Err(error) => {
            print(format_args!("intact: NO: {error}"));
            let _ = pair.print_paths().await;
        }
    }
    let in_bounds = pair.report(args.memory).await?;
    Ok(if intact && in_bounds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_times(what: &str, times: Vec<StdDuration>) {
    print(format_args!("{} {what}: {}", times.len(), summary(times)));
}

/// Times in ms, by nearest rank.
fn summary(mut times: Vec<StdDuration>) -> String {
    times.sort();
    let at = |share| percentile(&times, share).unwrap_or_default().as_secs_f64() * 1e3;
    let (median, p95, p99, most) = (at(0.5), at(0.95), at(0.99), at(1.0));
    format!("median {median:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms, most {most:.1} ms")
}

/// A line of the result, on stdout.
fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_of_ten_times_is_the_last() {
        let times = (1..=10).map(StdDuration::from_secs).collect();
        let expected = "median 5000.0 ms, p95 10000.0 ms, p99 10000.0 ms, most 10000.0 ms";
        assert_eq!(summary(times), expected);
    }
}
