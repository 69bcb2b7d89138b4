//! Throughput and CPU time of one connection with one stream.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{
    child::{Side, median, with_credentials},
    stack::Stack,
};

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Stacks to compare, in the order of the table; the ratios are to quinn
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "mendpath-auto,mendpath-auto-two-paths,mendpath-cofuso,mendpath-cofuso-two-paths,\
                         mendpath,quinn,s2n-quic"
    )]
    stacks: Vec<Stack>,
    /// Rounds; every stack has its turn in each
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Megabytes per transfer
    #[arg(long, default_value_t = 400)]
    megabytes: u64,
    /// Write the rounds' figures to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One transfer.
#[derive(Clone, Copy)]
struct Figures {
    gbit_per_second: f64,
    client_cpu_per_gb: f64,
    server_cpu_per_gb: f64,
    /// Share of the bytes sent that served recovery.
    recovery_percent: f64,
}

/// Runs the rounds and prints the table.
pub fn run(args: &Args) -> Result<()> {
    let rounds = with_credentials(|credentials| {
        let mut rounds: Vec<Vec<Figures>> = Vec::new();
        for round in 0..args.rounds {
            eprint!("\rround {} of {}", round + 1, args.rounds);
            let figures = args.stacks.iter().map(|s| transfer(*s, args.megabytes, credentials));
            rounds.push(figures.collect::<Result<_>>()?);
        }
        eprintln!();
        Ok(rounds)
    })?;
    print(&args.stacks, &rounds);
    if let Some(file) = &args.json {
        std::fs::write(file, to_json(&args.stacks, &rounds)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn transfer(stack: Stack, megabytes: u64, credentials: &Path) -> Result<Figures> {
    let bytes = megabytes * 1_000_000;
    let name = stack.name();
    let (mut server, address) =
        Side::start(stack, credentials, None, Some(0)).with_context(|| format!("server of {name}"))?;
    let (mut client, _) = Side::start(stack, credentials, Some(&address), Some(1))
        .with_context(|| format!("client of {name}"))?;
    client.ask("open 1").with_context(|| format!("connection of {name}"))?;
    // Windows and buffers grow on the first part, which does not count.
    client.ask(&format!("download {}", bytes / 10))?;
    let (before, _) = server.ask("usage")?;
    let (seconds, client_cpu) = client.ask(&format!("download {bytes}"))?;
    let (after, _) = server.ask("usage")?;
    // Let the server hear that everything arrived.
    client.ask("idle 50")?;
    let (recovery_percent, _) = server.ask("recovery")?;
    let gigabytes = bytes as f64 / 1e9;
    Ok(Figures {
        gbit_per_second: gigabytes * 8.0 / seconds,
        client_cpu_per_gb: client_cpu / gigabytes,
        server_cpu_per_gb: (after - before) / gigabytes,
        recovery_percent,
    })
}

fn print(stacks: &[Stack], rounds: &[Vec<Figures>]) {
    let quinn = stacks.iter().position(|s| *s == Stack::Quinn);
    let row = |cells: [String; 8]| {
        let [name, rate, ratio, least, most, client, server, recovery] = cells;
        println!(
            "{name:<26} {rate:>8} {ratio:>8} {least:>7} {most:>7} {client:>9} {server:>9} {recovery:>9}"
        );
    };
    row(["stack", "Gbit/s", "x quinn", "least", "most", "client", "server", "recovery"].map(String::from));
    row(["", "median", "median", "", "", "CPU-s/GB", "CPU-s/GB", "% bytes"].map(String::from));
    for (at, stack) in stacks.iter().enumerate() {
        let column =
            |f: fn(&Figures) -> f64| format!("{:.2}", median(rounds.iter().map(|r| f(&r[at])).collect()));
        let mut ratios: Vec<f64> = quinn.map_or(Vec::new(), |quinn| {
            rounds.iter().map(|r| r[at].gbit_per_second / r[quinn].gbit_per_second).collect()
        });
        ratios.sort_by(f64::total_cmp);
        let ratio = |at: Option<&f64>| at.map_or_else(String::new, |r| format!("{r:.2}"));
        let middle = (!ratios.is_empty()).then(|| median(ratios.clone()));
        row([
            stack.name(),
            column(|f| f.gbit_per_second),
            ratio(middle.as_ref()),
            ratio(ratios.first()),
            ratio(ratios.last()),
            column(|f| f.client_cpu_per_gb),
            column(|f| f.server_cpu_per_gb),
            column(|f| f.recovery_percent),
        ]);
    }
}

fn to_json(stacks: &[Stack], rounds: &[Vec<Figures>]) -> String {
    let rounds: Vec<_> = rounds
        .iter()
        .map(|round| {
            let stacks = stacks.iter().zip(round).map(|(stack, f)| {
                let figures = serde_json::json!({
                    "gbit_per_second": f.gbit_per_second,
                    "client_cpu_seconds_per_gb": f.client_cpu_per_gb,
                    "server_cpu_seconds_per_gb": f.server_cpu_per_gb,
                    "recovery_percent": f.recovery_percent,
                });
                (stack.name(), figures)
            });
            serde_json::Value::Object(stacks.collect())
        })
        .collect();
    serde_json::json!({ "rounds": rounds }).to_string()
}
