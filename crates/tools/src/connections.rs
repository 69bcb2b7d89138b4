//! What many connections cost: a server process that holds them, and a process of clients beside it.
//!
//! They go over loopback. The server's memory is what its process has grown by since it listened, a
//! listening server with its buffers is not counted; idle, its CPU time is what it used while
//! nothing was to be done. Idle timeouts are an hour, and no connection keeps itself alive: what is
//! left are the timers of the transport. With `--fetch`, every connection then fetches so many bytes
//! at the same time, round after round.

use std::{
    error::Error,
    io::{self, Write as _},
    net::SocketAddr,
    process::{ExitCode, Stdio},
    time::Duration,
};

use clap::Subcommand;
use mendpath::{ClientConfig, Connection, Endpoint, Identity, KeyPin, RecvStream, SendStream, ServerConfig};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinSet,
    time::Instant,
};
use units::Bytes;

use crate::{
    account::Account,
    console::{Out, failed},
};

const EXAMPLES: &str = "\
Examples:
  mendpath-tools connections --count 100000 --seconds 60
  mendpath-tools connections --count 1000 --seconds 0 --fetch 256kB --workers 2";

/// Bytes handed over per write.
const CHUNK: usize = 64 << 10;

/// Handshakes under way at once.
const AT_ONCE: usize = 32;

/// Longer than anybody watches.
const TIMEOUT: Duration = Duration::from_secs(3_600);

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Memory and CPU time of many connections, idle and busy.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// For how long they are watched while they are idle.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// What each of them fetches then, all at the same time.
    #[arg(long)]
    fetch: Option<Bytes>,
    /// How often.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Workers of the server.
    #[arg(long, default_value_t = 1)]
    workers: usize,
}

/// What this program is when it starts itself.
#[derive(Subcommand)]
enum Role {
    /// The clients, which do what they read a line at a time.
    #[command(hide = true)]
    Clients { server: SocketAddr, pin: KeyPin, count: usize },
}

/// Runs it.
pub fn run(args: &Args) -> ExitCode {
    let outcome = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| match &args.role {
        Some(Role::Clients { server, pin, count }) => runtime.block_on(clients(*server, *pin, *count)),
        None => runtime.block_on(server(args)),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("connections", &*error),
    }
}

#[expect(clippy::disallowed_methods, reason = "idleness is measured by the clock")]
async fn server(args: &Args) -> Outcome<()> {
    let identity = Identity::self_signed(["localhost"])?;
    let config = ServerConfig::with_identity(&identity)?.idle_timeout(TIMEOUT).max_connections(args.count);
    let endpoint = Endpoint::builder().server(config).bind(LOOPBACK).workers(args.workers).build()?;
    tokio::spawn(serve(endpoint.clone()));
    let empty = Usage::now()?;
    let mut clients = Clients::start(endpoint.local_addrs()[0], identity.pin(), args.count).await?;
    let set_up = Usage::now()?;
    let each = args.count as f64;
    let mut out = Out;
    let held: Vec<String> = endpoint.connections_by_worker().iter().map(usize::to_string).collect();
    writeln!(out, "connections, by worker   {}", held.join(", "))?;
    let cost = (set_up.cpu - empty.cpu).as_secs_f64() * 1e6 / each;
    writeln!(out, "server, set-up           {cost:.0} us of CPU each")?;
    // What the handshakes leave behind is done by then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let full = Usage::now()?;
    clients.ask("idle", &mut []).await?;
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let later = Usage::now()?;
    let mut idle = [0.0; 2];
    clients.ask("idle", &mut idle).await?;
    let [busy, grown] = idle;
    let kib = |bytes: f64| bytes / 1_024.0 / each;
    let memory = (later.bytes - empty.bytes) as f64;
    writeln!(
        out,
        "idle, memory             server {:.1} KiB each, {} MiB in all; clients {:.1} KiB each",
        kib(memory),
        later.bytes >> 20,
        kib(grown)
    )?;
    if args.seconds > 0 {
        let share = |cpu: f64| cpu / args.seconds as f64 * 100.0;
        let server = share((later.cpu - full.cpu).as_secs_f64());
        writeln!(out, "idle, per cent of a core server {server:.2}, clients {:.2}", share(busy))?;
    }
    let Some(bytes) = args.fetch else { return Ok(()) };
    let gigabytes = each * bytes.0 as f64 / 1e9;
    for _ in 0..args.rounds {
        let before = Usage::now()?;
        let mut figures = [0.0; 2];
        clients.ask(&format!("fetch {}", bytes.0), &mut figures).await?;
        let after = Usage::now()?;
        let [seconds, cpu] = figures;
        writeln!(
            out,
            "fetched                  {:.2} Gbit/s; CPU-s/GB server {:.2}, clients {:.2}; server {:.0} KiB each",
            gigabytes * 8.0 / seconds,
            (after.cpu - before.cpu).as_secs_f64() / gigabytes,
            cpu / gigabytes,
            kib((after.bytes - empty.bytes) as f64),
        )?;
    }
    Ok(())
}

/// Keeps every connection, and answers eight bytes on a stream with as many bytes as they say.
async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        incoming.runtime().spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((send, receive)) = connection.accept_bi().await {
                tokio::spawn(answer(send, receive));
            }
        });
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Outcome<()> {
    let mut request = [0; 8];
    receive.read_exact(&mut request).await?;
    let (chunk, mut left) = (vec![7; CHUNK], u64::from_be_bytes(request));
    while left > 0 {
        let len = left.min(CHUNK as u64);
        send.write_all(&chunk[..len as usize]).await?;
        left -= len;
    }
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

/// The process of clients, as the server sees it. It ends with its standard input.
struct Clients {
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Clients {
    /// Starts it, and waits until it has all connections.
    async fn start(server: SocketAddr, pin: KeyPin, count: usize) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["connections", "clients", &server.to_string(), &pin.to_string(), &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = process.stdin.take().ok_or("piped")?;
        let stdout = BufReader::new(process.stdout.take().ok_or("piped")?).lines();
        let mut clients = Self { stdin, stdout, _process: process };
        clients.hear(&mut []).await?;
        Ok(clients)
    }

    /// Tells it what to do, and hears what that took.
    async fn ask(&mut self, line: &str, figures: &mut [f64]) -> Outcome<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await?;
        self.hear(figures).await
    }

    async fn hear(&mut self, figures: &mut [f64]) -> Outcome<()> {
        let line = self.stdout.next_line().await?.ok_or("the clients ended early")?;
        for (figure, word) in figures.iter_mut().zip(line.split(' ')) {
            *figure = word.parse()?;
        }
        Ok(())
    }
}

/// Connects, and says so. Then answers each line: `idle` with the seconds of CPU time since the last
/// line and the bytes that all connections hold, `fetch BYTES` with the seconds that it took and
/// those of CPU time.
async fn clients(server: SocketAddr, pin: KeyPin, count: usize) -> Outcome<()> {
    let config = ClientConfig::with_pinned_key(pin).idle_timeout(TIMEOUT);
    let endpoint = Endpoint::builder().client(config).bind(LOOPBACK).build()?;
    let empty = Usage::now()?;
    let connections = connect(&endpoint, server, count).await?;
    let mut before = Usage::now()?;
    writeln!(Out, "connected")?;
    while let Some(line) = next_line().await? {
        let began = Instant::now();
        if let Some(bytes) = line.strip_prefix("fetch ") {
            before = Usage::now()?;
            fetch(&connections, bytes.parse()?).await?;
        }
        let (seconds, after) = (began.elapsed().as_secs_f64(), Usage::now()?);
        let cpu = (after.cpu - before.cpu).as_secs_f64();
        before = after;
        let lost = connections.iter().filter(|connection| connection.close_reason().is_some()).count();
        match (lost, line.as_str()) {
            (0, "idle") => writeln!(Out, "{cpu} {}", before.bytes.saturating_sub(empty.bytes))?,
            (0, _) => writeln!(Out, "{seconds} {cpu}")?,
            (lost, _) => return Err(format!("{lost} connections were lost").into()),
        }
    }
    Ok(())
}

/// The next line of standard input.
async fn next_line() -> Outcome<Option<String>> {
    Ok(tokio::task::spawn_blocking(|| io::stdin().lines().next()).await?.transpose()?)
}

async fn connect(endpoint: &Endpoint, server: SocketAddr, count: usize) -> Outcome<Vec<Connection>> {
    let (mut open, mut dialing) = (Vec::with_capacity(count), JoinSet::new());
    for _ in 0..count {
        if dialing.len() >= AT_ONCE {
            open.push(dialing.join_next().await.ok_or("some are under way")???);
        }
        let endpoint = endpoint.clone();
        dialing.spawn(async move { Outcome::Ok(endpoint.connect(server, "localhost")?.await?) });
    }
    while let Some(connection) = dialing.join_next().await {
        open.push(connection??);
    }
    Ok(open)
}

async fn fetch(connections: &[Connection], bytes: u64) -> Outcome<()> {
    let mut transfers = JoinSet::new();
    for connection in connections {
        let connection = connection.clone();
        transfers.spawn(async move {
            let (mut send, mut receive) = connection.open_bi().await?;
            send.write_all(&bytes.to_be_bytes()).await?;
            send.finish()?;
            let (mut buffer, mut got) = (vec![0; CHUNK], 0);
            while let Some(read) = receive.read(&mut buffer).await? {
                got += read as u64;
            }
            if got == bytes { Ok(()) } else { Outcome::Err(format!("{got} of {bytes} bytes came").into()) }
        });
    }
    transfers.join_all().await.into_iter().collect()
}

/// What this process takes.
struct Usage {
    /// Resident memory.
    bytes: u64,
    cpu: Duration,
}

impl Usage {
    fn now() -> Outcome<Self> {
        let account = Account::own();
        Ok(Self { bytes: account.memory("VmRSS")?.get(), cpu: account.cpu()? })
    }
}
