//! Many connections to one server: set-up rate, memory and CPU time of idle ones, and what active
//! ones get done.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{
    child::{Side, median, with_credentials},
    stack::Stack,
};

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// Stacks to compare
    #[arg(long, value_delimiter = ',', default_value = "mendpath-auto,quinn,s2n-quic")]
    stacks: Vec<Stack>,
    /// Connections that stay open without traffic
    #[arg(long, default_value_t = 10_000)]
    idle: u64,
    /// Connections that fetch at the same time
    #[arg(long, default_value_t = 1_000)]
    active: u64,
    /// Kilobytes that each active connection fetches
    #[arg(long, default_value_t = 256)]
    kilobytes: u64,
    /// Rounds; every stack has its turn in each
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What one stack did in one round.
#[derive(Clone, Copy)]
struct Figures {
    handshakes_per_second: f64,
    server_cpu_us_per_handshake: f64,
    client_cpu_us_per_handshake: f64,
    kib_per_idle: f64,
    idle_cpu_percent: f64,
    active_gbit_per_second: f64,
    active_server_cpu_per_gb: f64,
    kib_per_active: f64,
}

/// A column: its heading in two lines, and where the figure is.
type Column = (&'static str, &'static str, fn(&Figures) -> f64);

const COLUMNS: [Column; 8] = [
    ("set-ups", "per s", |f| f.handshakes_per_second),
    ("server", "us/set-up", |f| f.server_cpu_us_per_handshake),
    ("client", "us/set-up", |f| f.client_cpu_us_per_handshake),
    ("idle", "KiB each", |f| f.kib_per_idle),
    ("idle", "% CPU", |f| f.idle_cpu_percent),
    ("active", "Gbit/s", |f| f.active_gbit_per_second),
    ("active", "CPU-s/GB", |f| f.active_server_cpu_per_gb),
    ("active", "KiB each", |f| f.kib_per_active),
];

/// Runs the rounds and prints the table of medians.
pub fn run(args: &Args) -> Result<()> {
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    with_credentials(|credentials| {
        for round in 0..args.rounds {
            let mut figures = Vec::new();
            for stack in &args.stacks {
                eprint!("\rround {} of {}: {:<20}", round + 1, args.rounds, stack.name());
                figures.push(measure(args, *stack, credentials).with_context(|| stack.name())?);
            }
            rounds.push(figures);
        }
        eprintln!();
        Ok(())
    })?;
    let heading = |line: fn(&Column) -> &'static str| {
        COLUMNS.iter().map(|c| format!("{:>10}", line(c))).collect::<String>()
    };
    println!("{:<18}{}", "stack", heading(|c| c.0));
    println!("{:<18}{}", "", heading(|c| c.1));
    for (at, stack) in args.stacks.iter().enumerate() {
        let cells = COLUMNS.iter().map(|(_, _, figure)| {
            let value = median(rounds.iter().map(|r| figure(&r[at])).collect());
            format!("{value:>10.*}", if value < 100.0 { 2 } else { 0 })
        });
        println!("{:<18}{}", stack.name(), cells.collect::<String>());
    }
    Ok(())
}

fn measure(args: &Args, stack: Stack, credentials: &Path) -> Result<Figures> {
    let (mut server, address) = Side::start(stack, credentials, None, None)?;
    let (mut client, _) = Side::start(stack, credentials, Some(&address), None)?;
    let (cpu_before, memory_before) = server.ask("usage")?;
    let (setup_seconds, setup_client_cpu) = client.ask(&format!("open {}", args.idle))?;
    let (cpu_open, _) = server.ask("usage")?;
    // What follows a handshake, and what is given back once nothing follows, is over by then.
    client.ask("idle 5000")?;
    let (cpu_quiet, memory_quiet) = server.ask("usage")?;
    let (idle_seconds, _) = client.ask("idle 5000")?;
    let (cpu_idle, _) = server.ask("usage")?;
    drop((server, client));

    let (mut server, address) = Side::start(stack, credentials, None, None)?;
    let (mut client, _) = Side::start(stack, credentials, Some(&address), None)?;
    let (_, memory_empty) = server.ask("usage")?;
    client.ask(&format!("open {}", args.active))?;
    let (active_before, _) = server.ask("usage")?;
    let (active_seconds, _) = client.ask(&format!("download {}", args.kilobytes * 1_000))?;
    let (active_after, memory_active) = server.ask("usage")?;
    let gigabytes = (args.active * args.kilobytes) as f64 / 1e6;
    Ok(Figures {
        handshakes_per_second: args.idle as f64 / setup_seconds,
        server_cpu_us_per_handshake: (cpu_open - cpu_before) / args.idle as f64 * 1e6,
        client_cpu_us_per_handshake: setup_client_cpu / args.idle as f64 * 1e6,
        kib_per_idle: (memory_quiet - memory_before) / args.idle as f64 / 1_024.0,
        idle_cpu_percent: (cpu_idle - cpu_quiet) / idle_seconds * 100.0,
        active_gbit_per_second: gigabytes * 8.0 / active_seconds,
        active_server_cpu_per_gb: (active_after - active_before) / gigabytes,
        kib_per_active: (memory_active - memory_empty) / args.active as f64 / 1_024.0,
    })
}
