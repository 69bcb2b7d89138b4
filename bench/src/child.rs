//! A process with one side of a measurement, so that its CPU time and memory are its own.
//!
//! The parent talks over standard input and output, a line each way: see [`server`] and [`client`].

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{resource, time::TimeValLike as _},
    unistd::Pid,
};
use tokio::task::JoinSet;

use crate::stack::{Client, Credentials, Dialer, Stack, serve};

/// Handshakes under way at once.
const CONCURRENT_HANDSHAKES: usize = 32;

/// What a child is told on its command line.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    stack: Stack,
    /// Where the certificate is.
    #[arg(long)]
    credentials: PathBuf,
    /// A client of this server; without it, a server.
    #[arg(long)]
    connect: Option<SocketAddr>,
    /// The core to run on with a single thread; without it, all cores and threads.
    #[arg(long)]
    core: Option<usize>,
}

/// Runs a child to its end.
pub fn run(args: &Args) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(core) = args.core {
        let mut cores = CpuSet::new();
        cores.set(core)?;
        // With fewer cores than asked for, both sides share.
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
        runtime = tokio::runtime::Builder::new_current_thread();
    }
    let credentials = Credentials::at(&args.credentials);
    runtime.enable_all().build()?.block_on(async {
        match args.connect {
            Some(server) => client(args.stack, &credentials, server).await,
            None => server(args.stack, &credentials).await,
        }
    })
}

/// Answers `usage` with the CPU seconds used so far and the resident memory in bytes, `recovery`
/// with the share of bytes that served recovery, in per cent; ends with its standard input.
async fn server(stack: Stack, credentials: &Credentials) -> Result<()> {
    std::thread::spawn(|| {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.as_str() {
                "recovery" => say(&format!("{} 0", crate::stack::mendpath::recovery_percent())),
                _ => say(&format!("{} {}", cpu_seconds(), resident_bytes())),
            }
        }
        std::process::exit(0);
    });
    serve(stack, credentials, |address| say(&address.to_string())).await
}

/// Understands `open N` (connections), `download BYTES` (on every open connection at once), and
/// `idle MILLISECONDS`; answers each with the seconds that it took and the CPU seconds that it
/// cost.
async fn client(stack: Stack, credentials: &Credentials, server: SocketAddr) -> Result<()> {
    let dialer = std::sync::Arc::new(Dialer::new(stack, credentials, server)?);
    let mut connections = Vec::new();
    say("ready");
    let mut line = String::new();
    loop {
        // Blocking would stop the connections' tasks.
        let (read, returned) = tokio::task::spawn_blocking(move || {
            line.clear();
            (std::io::stdin().read_line(&mut line), line)
        })
        .await?;
        line = returned;
        if read? == 0 {
            return Ok(());
        }
        let (word, number) = line.trim().split_once(' ').context("a word and a number")?;
        let (number, before, begun): (u64, _, _) = (number.parse()?, cpu_seconds(), Instant::now());
        match word {
            "open" => connections.extend(open(&dialer, number as usize).await?),
            "download" => connections = download(connections, number).await?,
            "idle" => tokio::time::sleep(std::time::Duration::from_millis(number)).await,
            _ => bail!("unknown word `{word}`"),
        }
        say(&format!("{} {}", begun.elapsed().as_secs_f64(), cpu_seconds() - before));
    }
}

async fn open(dialer: &std::sync::Arc<Dialer>, count: usize) -> Result<Vec<Client>> {
    let (mut open, mut dialing) = (Vec::with_capacity(count), JoinSet::new());
    for _ in 0..count {
        if dialing.len() >= CONCURRENT_HANDSHAKES {
            open.push(dialing.join_next().await.context("some are under way")???);
        }
        let dialer = dialer.clone();
        dialing.spawn(async move { dialer.connect().await });
    }
    while let Some(connection) = dialing.join_next().await {
        open.push(connection??);
    }
    Ok(open)
}

async fn download(connections: Vec<Client>, bytes: u64) -> Result<Vec<Client>> {
    let mut transfers = JoinSet::new();
    for mut connection in connections {
        transfers.spawn(async move { connection.download(bytes).await.map(|()| connection) });
    }
    transfers.join_all().await.into_iter().collect()
}

fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

fn cpu_seconds() -> f64 {
    let usage = resource::getrusage(resource::UsageWho::RUSAGE_SELF).expect("the process exists");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// Resident memory (`VmRSS`), 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1_024
}

/// A child as the parent sees it.
pub struct Side {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Side {
    /// Starts a server (`connect` is `None`) or a client, and returns its first line.
    pub fn start(
        stack: Stack,
        credentials: &Path,
        connect: Option<&str>,
        core: Option<usize>,
    ) -> Result<(Self, String)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["child", "--stack", &stack.name()]).arg("--credentials").arg(credentials);
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        if let Some(server) = connect {
            command.args(["--connect", server]);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take().context("piped")?;
        let stdout = BufReader::new(process.stdout.take().context("piped")?);
        let mut side = Self { process, stdin, stdout };
        let first = side.hear()?;
        Ok((side, first))
    }

    /// Says a line and returns the two numbers of the answer.
    pub fn ask(&mut self, line: &str) -> Result<(f64, f64)> {
        writeln!(self.stdin, "{line}")?;
        self.stdin.flush()?;
        let answer = self.hear()?;
        let (a, b) = answer.split_once(' ').context("two numbers")?;
        Ok((a.parse()?, b.parse()?))
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        anyhow::ensure!(self.stdout.read_line(&mut line)? > 0, "the other process ended early");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The middle value, or the mean of both in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Runs `measure` with a certificate in a directory that is removed again.
pub fn with_credentials<T>(measure: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let directory = std::env::temp_dir().join(format!("mendpath-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    Credentials::create(&directory)?;
    let measured = measure(&directory);
    std::fs::remove_dir_all(&directory)?;
    measured
}
