//! What the proxy pair costs beside other proxies, over loopback: throughput, time of small
//! requests, and CPU time of either end by the kernel's account of its process.
//!
//! Every contender is a client and a server process of its own. They take turns, round by round;
//! this process plays the programs and the host that they reach, alike for all. Ours may also run
//! over an emulated path, which this process emulates: TCP proxies need the lab for that.

mod ends;
mod load;

use std::{error::Error, io::Write as _, path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use ends::{Contender, Ends, Usage};
use figures::TextTable;
use load::{Host, Load};
use netsim::LinkConfig;
use units::Bytes;

use crate::console::{Out, failed};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools proxy-speed
  mendpath-tools proxy-speed --mendpath now=target/release/mendpath --mendpath before=../old/mendpath
  mendpath-tools proxy-speed --work bulk --rounds 9 --bulk 2GB

shadowsocks-rust (sslocal and ssserver) and stunnel take part if they are on the PATH.";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the proxy pair costs beside other proxies, over loopback.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A program `mendpath`, and its name in the table [default: the one beside this program]
    #[arg(long, value_name = "[NAME=]FILE", value_parser = parse_program)]
    mendpath: Vec<(String, PathBuf)>,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_value = "bulk,kept,new,path")]
    work: Vec<Work>,
    /// How often everybody has their turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// What a bulk transfer fetches.
    #[arg(long, default_value = "1GB")]
    bulk: Bytes,
    /// Requests of a turn.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// What a request fetches.
    #[arg(long, default_value = "10kB")]
    request: Bytes,
    /// The emulated path, alike in both directions; the delay is one way.
    #[arg(long, value_name = "LINK", default_value = "rate=100mbit,delay=10ms")]
    path: LinkConfig,
    /// What is fetched over it.
    #[arg(long, default_value = "25MB")]
    path_bulk: Bytes,
    /// Leave the other proxies out.
    #[arg(long)]
    alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Work {
    /// One large transfer.
    Bulk,
    /// Requests one after the other on one connection of the program's.
    Kept,
    /// The same with a new connection for each.
    New,
    /// One large transfer over the emulated path: Mendpath alone.
    Path,
}

impl Work {
    fn title(self, args: &Args) -> String {
        let (requests, size) = (args.requests, args.request);
        match self {
            Self::Bulk => format!("a transfer of {}", args.bulk),
            Self::Kept => format!("{requests} requests of {size}, on one connection"),
            Self::New => format!("{requests} requests of {size}, on a new connection each"),
            Self::Path => format!("a transfer of {} over an emulated path", args.path_bulk),
        }
    }

    fn load(self, args: &Args) -> Load {
        match self {
            Self::Bulk => Load::Transfer(args.bulk),
            Self::Kept => Load::Kept { requests: args.requests, each: args.request },
            Self::New => Load::New { requests: args.requests, each: args.request },
            Self::Path => Load::Transfer(args.path_bulk),
        }
    }
}

/// Runs it.
pub fn run(args: &Args) -> ExitCode {
    match measure(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("proxy-speed", &*error),
    }
}

fn measure(args: &Args) -> Outcome<()> {
    let contenders = contenders(args)?;
    let host = Host::start()?;
    for work in &args.work {
        // Each kind of work has ends of its own, which know nothing of what came before.
        let link = (*work == Work::Path).then_some(&args.path);
        let ends: Vec<Ends> = contenders
            .iter()
            .filter(|contender| link.is_none() || contender.is_ours())
            .map(|contender| Ends::start(contender, host.addr, link))
            .collect::<Outcome<_>>()?;
        let turns = take_turns(args.rounds, work.load(args), &ends, &host)?;
        writeln!(Out, "{}\n{}", work.title(args), table(*work, &ends, &turns))?;
    }
    Ok(())
}

fn contenders(args: &Args) -> Outcome<Vec<Contender>> {
    let mut ours: Vec<Contender> =
        args.mendpath.iter().map(|(name, file)| Contender::Mendpath(name.clone(), file.clone())).collect();
    if ours.is_empty() {
        let beside = std::env::current_exe()?.with_file_name("mendpath");
        ours.push(Contender::Mendpath("mendpath".into(), beside));
    }
    if !args.alone {
        ours.extend([Contender::Shadowsocks, Contender::Stunnel].into_iter().filter(Contender::is_there));
    }
    Ok(ours)
}

/// What a turn took.
#[derive(Clone, Copy, Debug)]
struct Turn {
    load: Load,
    seconds: f64,
    client: Usage,
    server: Usage,
}

/// The turns of every contender, in the order of `ends`.
fn take_turns(rounds: u32, load: Load, ends: &[Ends], host: &Host) -> Outcome<Vec<Vec<Turn>>> {
    for ends in ends {
        ends.fetch(load.warm_up(), host)?;
    }
    let mut turns = vec![Vec::new(); ends.len()];
    for _ in 0..rounds {
        for (ends, turns) in ends.iter().zip(&mut turns) {
            let before = ends.usage()?;
            let seconds = ends.fetch(load, host)?;
            let after = ends.usage()?;
            let [client, server] = [0, 1].map(|end| after[end].since(before[end]));
            turns.push(Turn { load, seconds, client, server });
        }
    }
    Ok(turns)
}

impl Turn {
    fn gigabytes(&self) -> f64 {
        self.load.bytes() as f64 / 1e9
    }

    /// Time per request in us, or Gbit/s.
    fn speed(&self) -> f64 {
        match self.load.requests() {
            Some(requests) => self.seconds * 1e6 / f64::from(requests),
            None => self.gigabytes() * 8.0 / self.seconds,
        }
    }

    /// CPU time of an end: us per request, or s per GB.
    fn cpu(&self, usage: &Usage) -> f64 {
        match self.load.requests() {
            Some(requests) => usage.cpu.as_secs_f64() * 1e6 / f64::from(requests),
            None => usage.cpu.as_secs_f64() / self.gigabytes(),
        }
    }

    /// Times that a thread of an end went to sleep, per request or per MB.
    fn sleeps(&self, usage: &Usage) -> f64 {
        let per = self.load.requests().map_or(self.gigabytes() * 1e3, f64::from);
        usage.sleeps as f64 / per
    }
}

/// Medians, and ratios to every row but the first, round by round.
fn table(work: Work, ends: &[Ends], turns: &[Vec<Turn>]) -> String {
    let (speed, cpu, per) = match work {
        Work::Bulk | Work::Path => ("Gbit/s", "CPU-s/GB", "MB"),
        Work::Kept | Work::New => ("us each", "CPU us each", "request"),
    };
    let mut heads = vec!["".to_owned(), speed.to_owned()];
    heads.extend(["client", "server"].map(|end| format!("{cpu}, {end}")));
    heads.extend(["client", "server"].map(|end| format!("sleeps per {per}, {end}")));
    let compared: Vec<usize> = (1..ends.len()).collect();
    heads.extend(compared.iter().map(|other| format!("speed, CPU x {}", ends[*other].name)));
    let rows = ends.iter().zip(turns).enumerate().map(|(index, (ends, own))| {
        let median_of = |of: fn(&Turn) -> f64| format!("{:.2}", median(own.iter().map(of)));
        let mut row = vec![ends.name.clone(), median_of(Turn::speed)];
        row.extend([median_of(|turn| turn.cpu(&turn.client)), median_of(|turn| turn.cpu(&turn.server))]);
        row.extend([
            median_of(|turn| turn.sleeps(&turn.client)),
            median_of(|turn| turn.sleeps(&turn.server)),
        ]);
        row.extend(compared.iter().map(|other| match *other {
            other if other == index => "1".to_owned(),
            other => ratios(own, &turns[other]),
        }));
        row
    });
    let headings: Vec<&str> = heads.iter().map(String::as_str).collect();
    TextTable { headings: &headings, words: &[0], indent: 2 }.text(rows)
}

/// Median ratios of speed (above 1 is faster) and of both ends' CPU time (above 1 is dearer) to
/// another's turns.
fn ratios(own: &[Turn], other: &[Turn]) -> String {
    let rounds = || own.iter().zip(other);
    let speed = median(rounds().map(|(own, other)| other.seconds / own.seconds));
    let both = |turn: &Turn| (turn.client.cpu + turn.server.cpu).as_secs_f64();
    let cpu = median(rounds().map(|(own, other)| both(own) / both(other)));
    format!("{speed:.2}, {cpu:.2}")
}

/// The middle value, or the mean of both in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn parse_program(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').unwrap_or(("mendpath", text));
    if std::path::Path::new(file).is_file() {
        Ok((name.to_owned(), file.into()))
    } else {
        Err(format!("there is no file {file}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn turn(seconds: f64, client_ms: u64) -> Turn {
        let used = |ms| Usage { cpu: Duration::from_millis(ms), sleeps: 8 };
        let load = Load::Kept { requests: 4, each: Bytes(1_000) };
        Turn { load, seconds, client: used(client_ms), server: used(100) }
    }

    #[test]
    fn who_takes_half_the_time_is_twice_as_fast() {
        let (fast, slow) = ([turn(1.0, 100); 3], [turn(2.0, 300), turn(2.0, 300), turn(9.0, 300)]);
        assert_eq!(ratios(&fast, &slow), "2.00, 0.50");
        assert_eq!(ratios(&slow, &fast), "0.50, 2.00");
    }

    #[test]
    fn two_turns_count_alike() {
        let (own, other) = ([turn(1.0, 100), turn(1.0, 300)], [turn(1.0, 100), turn(2.0, 100)]);
        assert_eq!(ratios(&own, &other), "1.50, 1.50");
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }

    #[test]
    fn who_says_nothing_is_not_waited_for_without_end() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = silent.local_addr().unwrap();
        let open = || load::open(addr, Duration::from_millis(50));
        let error = Load::Transfer(Bytes(1)).fetch(open).unwrap_err();
        assert_eq!(error.to_string(), "nothing came in time");
    }

    #[test]
    fn requests_cost_microseconds_and_transfers_seconds_per_gigabyte() {
        let kept = turn(2.0, 100);
        assert_eq!((kept.speed(), kept.cpu(&kept.client), kept.sleeps(&kept.client)), (5e5, 25e3, 2.0));
        let bulk = Turn { load: Load::Transfer(Bytes(500_000_000)), ..kept };
        assert_eq!((bulk.speed(), bulk.cpu(&bulk.client), bulk.sleeps(&bulk.client)), (2.0, 0.2, 0.016));
    }

    #[test]
    fn what_the_host_sends_is_fetched_whole_by_every_load() {
        let host = Host::start().unwrap();
        let each = Bytes(300_000);
        for load in [Load::Transfer(each), Load::Kept { requests: 3, each }, Load::New { requests: 3, each }]
        {
            load.fetch(|| Ok(std::net::TcpStream::connect(host.addr)?)).unwrap();
        }
    }
}
