//! The proxy pair over two lossy emulated paths, for minutes: whether all arrives, how fast, and what memory it takes.
//!
//! ```text
//! cargo run --release -p mendpath-cli --example soak -- transfer --size 1GiB --loss 5% --cut 3s
//! cargo run --release -p mendpath-cli --example soak -- load
//! cargo run --release -p mendpath-cli --example soak -- interactive
//! cargo run --release -p mendpath-cli --example soak -- dns
//! ```
//!
//! Three processes: this one, which emulates the paths and plays both the programs that use the proxy and the hosts that they
//! reach, and one for each end of the proxy.
//!
//! - The server is the command `mendpath server`, run through its own argument parser.
//! - The client is [`Client::start`], as in `mendpath client`, with its SOCKS5 proxy and its statistics. What is not real: the
//!   second path. `--path` names interfaces, while an emulated path is known by the address that stands in for the server's; so
//!   the client process opens that path itself with `Connection::add_path`, and again whenever it is gone.
//!
//! Exits with 1 if anything is missing or wrong, or if a process needed more memory than `--memory`.

use std::{
    error::Error,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration as StdDuration,
};

use clap::{Parser, ValueEnum};
use emulator::{Emulator, PathId, Seed, UdpPath};
use mendpath_cli::{
    args::Cli,
    backoff::pause,
    client::{Client, ClientOptions, DialOptions},
    commands,
    console::say,
    invitation::Invitation,
    target::Target,
    token::Service,
    transport::{Choice, parse_recovery},
};
use netsim::{LinkConfig, link::OutageKind};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::{Instant, timeout},
};
use units::{BitRate, Bytes, Duration, LossRate};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const PATHS: [PathId; 2] = [PathId(0), PathId(1)];
/// Without a byte for this long, a transfer has failed.
const STALL: StdDuration = StdDuration::from_secs(40);

/// The proxy pair over two lossy emulated paths.
#[derive(Clone, Parser)]
struct Args {
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
    /// Print the client's paths and both memories every second.
    #[arg(long)]
    verbose: bool,
    #[arg(long, hide = true)]
    state: Option<String>,
    #[arg(long, hide = true)]
    invitation: Option<String>,
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
    /// The server's process.
    #[value(hide = true)]
    Server,
    /// The client's process.
    #[value(hide = true)]
    Client,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let outcome = match args.mode {
        Mode::Server => runtime.block_on(server_process(args)),
        Mode::Client => runtime.block_on(client_process(args)),
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

// The two ends of the proxy, each in a process of its own.

async fn server_process(args: Args) -> Outcome<ExitCode> {
    end_with_parent();
    let state = args.state.expect("the parent names it");
    let line = ["mendpath", "server", "--listen", "127.0.0.1:0", "--allow-private", "--state", &state];
    commands::run(Cli::parse_from(line.into_iter().chain(["--recovery", &args.recovery]))).await?;
    Ok(ExitCode::SUCCESS)
}

async fn client_process(args: Args) -> Outcome<ExitCode> {
    end_with_parent();
    let invitation: Invitation = args.invitation.expect("the parent names it").parse()?;
    let mut dial = DialOptions::new(invitation, Service::Proxy);
    dial.transport = Choice { recovery: parse_recovery(&args.recovery)?, ..Choice::default() };
    let options = ClientOptions {
        dial,
        socks5: Some(ANY),
        http: None,
        forwards: Vec::new(),
        admin: Some(ANY),
        credentials: None,
        wait_for_server: false,
    };
    let client = Client::start(options).await?;
    let second = args.second.expect("the parent names it");
    let uplink = client.uplink.clone();
    tokio::spawn(async move {
        loop {
            if let Some(session) = uplink.now() {
                let connection = session.connection;
                let open = connection.paths().iter().any(|path| path.network.remote == second);
                if !open {
                    let added = connection.add_path(mendpath::PathOptions::new().remote(second)).await;
                    say(format_args!("second path: {added:?}"));
                }
            }
            pause(StdDuration::from_millis(200)).await;
        }
    });
    let (socks5, admin) = (client.addresses.socks5, client.addresses.admin);
    let mut out = io::stdout();
    writeln!(out, "{} {}", socks5.expect("asked for"), admin.expect("asked for"))?;
    out.flush()?;
    Err(client.run().await.into())
}

/// No process is left behind when the parent ends, however it ends.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// One end of the proxy as the parent sees it.
struct End {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl End {
    fn start(mode: &str, args: &Args, more: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([mode, "--recovery", &args.recovery])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, stdout })
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        if line.is_empty() { Err("a process ended before it was ready".into()) } else { Ok(line) }
    }

    /// The most memory it ever had resident (`VmHWM`); fails when the process is gone.
    fn peak_memory(&self) -> Outcome<Bytes> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = field.and_then(|field| field.trim().strip_suffix("kB")).ok_or("the process is gone")?;
        Ok(Bytes(kib.trim().parse::<u64>()? * 1_024))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything a run needs.
struct Pair {
    server: End,
    client: End,
    emulator: Emulator,
    socks5: SocketAddr,
    admin: SocketAddr,
    _state: tempfile::TempDir,
}

impl Pair {
    async fn start(args: &Args) -> Outcome<Self> {
        let state = tempfile::tempdir()?;
        let dir = state.path().to_str().ok_or("the temporary directory has a strange name")?;
        let mut server = End::start("server", args, &["--state", dir])?;
        let mut invitation: Invitation = server.line()?.parse()?;
        let real = SocketAddr::from((Ipv4Addr::LOCALHOST, invitation.server.port));

        let link = LinkConfig::new().rate(args.rate).delay(args.rtt / 2).random_loss(args.loss);
        let path = UdpPath::new(real, link.clone(), link);
        let emulator = Emulator::start([path.clone(), path], Seed(args.seed))?;
        invitation.server = Target::from_addr(emulator.client_addr(PATHS[0])?);
        let second = emulator.client_addr(PATHS[1])?.to_string();
        let mut client =
            End::start("client", args, &["--invitation", &invitation.to_string(), "--second", &second])?;
        let line = client.line()?;
        let (socks5, admin) = line.trim().split_once(' ').ok_or("the client said something strange")?;
        let (socks5, admin) = (socks5.parse()?, admin.parse()?);
        let pair = Self { server, client, emulator, socks5, admin, _state: state };
        pair.both_paths().await?;
        Ok(pair)
    }

    async fn both_paths(&self) -> Outcome<()> {
        for _ in 0..100 {
            if self.admin("/paths").await?.as_array().is_some_and(|paths| paths.len() == PATHS.len()) {
                return Ok(());
            }
            pause(StdDuration::from_millis(100)).await;
        }
        Err("the second path did not open within 10 s".into())
    }

    /// The client's own statistics.
    async fn admin(&self, page: &str) -> Outcome<serde_json::Value> {
        let mut tcp = TcpStream::connect(self.admin).await?;
        tcp.write_all(format!("GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut response = String::new();
        tcp.read_to_string(&mut response).await?;
        let body = response.split_once("\r\n\r\n").ok_or("no answer from the client's statistics")?.1;
        Ok(serde_json::from_str(body)?)
    }

    /// A connection through the proxy to `host`.
    async fn connect(&self, host: SocketAddr) -> Outcome<TcpStream> {
        let (tcp, _) = socks5(self.socks5, 1, host).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    async fn print_paths(&self) -> Outcome<()> {
        let paths = self.admin("/paths").await?;
        let rows: Vec<_> = paths
            .as_array()
            .into_iter()
            .flatten()
            .map(|path| {
                format!(
                    "[{} {} rtt {} ms, received {} packets, sent {}, window {}, in flight {}]",
                    path["id"],
                    path["state"],
                    path["rtt_ms"],
                    path["packets_received"],
                    path["packets_sent"],
                    path["window_bytes"],
                    path["in_flight_bytes"]
                )
            })
            .collect();
        let (server, client) = (self.server.peak_memory()?, self.client.peak_memory()?);
        say(format_args!("server {server}, client {client}, {}", rows.join(" ")));
        Ok(())
    }

    /// What was lost and mended, and the memory: whether that was in bounds.
    async fn report(&self, most: Bytes) -> Outcome<bool> {
        for path in PATHS {
            let stats = self.emulator.stats(path)?;
            for (name, link) in [("up", stats.up.link), ("down", stats.down.link)] {
                print(format_args!(
                    "path {} {name:4}: {} packets offered, {} lost at random, {} by the queue, {} by the cut",
                    path.0, link.offered, link.lost, link.dropped_queue, link.dropped_outage
                ));
            }
        }
        let stats = self.admin("/stats").await?;
        print(format_args!(
            "client: recovery {}, {} packets mended by its decoder, {} repair symbols received ({} used, {} wasted), {} reconnects",
            stats["recovery"],
            stats["packets_mended_here"],
            stats["repair_received"],
            stats["repair_used"],
            stats["repair_wasted"],
            stats["reconnects"]
        ));
        let (server, client) = (self.server.peak_memory()?, self.client.peak_memory()?);
        let mib = |bytes: Bytes| bytes.get() as f64 / f64::from(1 << 20);
        print(format_args!("peak memory: server {:.1} MiB, client {:.1} MiB", mib(server), mib(client)));
        Ok(server.max(client) <= most && stats["reconnects"] == 0)
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
        Mode::Transfer => transfer(&pair, &args).await,
        Mode::Load => load(&pair).await,
        Mode::Interactive => interactive(&pair).await,
        _ => dns(&pair).await,
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

// What goes through the pair.

/// One download, during which a path is cut.
async fn transfer(pair: &Arc<Pair>, args: &Args) -> Outcome<()> {
    let source = source().await?;
    let size = args.size.get();
    let mut cut = None;
    let mut fetch = Fetch::start(pair, source, args.seed, size).await?;
    let started = Instant::now();
    while fetch.step().await? {
        if cut.is_none() && fetch.received >= size / 4 {
            cut = Some(tokio::spawn(cut_path(pair.clone(), PATHS[usize::from(args.cut_path)], args.cut)));
        }
    }
    let took = started.elapsed();
    if let Some(cut) = cut {
        let (from, until) = cut.await??;
        let ended = started + took;
        print(format_args!(
            "cut path {} from {:.1} s to {:.1} s after the start{}",
            args.cut_path,
            (from - started).as_secs_f64(),
            (until - started).as_secs_f64(),
            if until > ended { ", longer than the transfer took" } else { "" }
        ));
    }
    print(format_args!(
        "{} bytes in {:.2} s: goodput {:.1} Mbit/s, longest pause {:.0} ms, before byte {}",
        fetch.received,
        took.as_secs_f64(),
        fetch.received as f64 * 8.0 / took.as_secs_f64() / 1e6,
        fetch.longest_pause.0.as_secs_f64() * 1e3,
        fetch.longest_pause.1
    ));
    Ok(())
}

async fn cut_path(pair: Arc<Pair>, path: PathId, length: Duration) -> Outcome<(Instant, Instant)> {
    pair.emulator.cut(path, None, OutageKind::Drop)?;
    let from = Instant::now();
    pause(length.into()).await;
    pair.emulator.restore(path, None)?;
    Ok((from, Instant::now()))
}

/// Pages of 50 parallel requests.
async fn load(pair: &Arc<Pair>) -> Outcome<()> {
    const PAGES: u64 = 10;
    const REQUESTS: u64 = 50;
    const SIZE: u64 = 300_000;
    let source = source().await?;
    let (mut requests, mut pages) = (Vec::new(), Vec::new());
    for page in 0..PAGES {
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for request in 0..REQUESTS {
            let pair = pair.clone();
            tasks.spawn(async move {
                let mut fetch = Fetch::start(&pair, source, page * REQUESTS + request, SIZE).await?;
                while fetch.step().await? {}
                Ok::<_, Box<dyn Error + Send + Sync>>(began.elapsed())
            });
        }
        while let Some(done) = tasks.join_next().await {
            requests.push(done??);
        }
        pages.push(began.elapsed());
    }
    print_times("requests of 300 kB, 50 at a time", requests);
    print_times("pages of 50 requests", pages);
    Ok(())
}

/// Single bytes, each after the echo of the last.
async fn interactive(pair: &Arc<Pair>) -> Outcome<()> {
    let listener = TcpListener::bind(ANY).await?;
    let mut tcp = pair.connect(listener.local_addr()?).await?;
    let (mut far, _) = listener.accept().await?;
    far.set_nodelay(true)?;
    tokio::spawn(async move {
        let (mut read, mut write) = far.split();
        tokio::io::copy(&mut read, &mut write).await
    });
    let mut times = Vec::new();
    for typed in 0..200u8 {
        let began = Instant::now();
        tcp.write_all(&[typed]).await?;
        let echoed = timeout(STALL, tcp.read_u8()).await.map_err(|_| "an echo never came")??;
        times.push(began.elapsed());
        if echoed != typed {
            return Err(format!("typed {typed}, echoed {echoed}").into());
        }
        // People pause between keys; without that, every byte would be cover for the last.
        pause(StdDuration::from_millis(20)).await;
    }
    print_times("echoes of one byte", times);
    Ok(())
}

/// Queries as a stub resolver makes them: again after a second.
async fn dns(pair: &Arc<Pair>) -> Outcome<()> {
    const QUERIES: u16 = 100;
    let responder = UdpSocket::bind(ANY).await?;
    let resolver = responder.local_addr()?;
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((n, from)) = responder.recv_from(&mut query).await {
            let _ = responder.send_to(&dns_answer(&query[..n]), from).await;
        }
    });
    let (control, relay) = socks5(pair.socks5, 3, ([0, 0, 0, 0], 0).into()).await?;
    let program = UdpSocket::bind(ANY).await?;
    let header = [&[0, 0, 0, 1][..], &socks5_address(resolver)].concat();
    let (mut times, mut sent) = (Vec::new(), 0);
    for id in 0..QUERIES {
        let query = dns_query(id);
        let expected = [&header[..], &dns_answer(&query)].concat();
        let began = Instant::now();
        let mut answered = false;
        for _ in 0..5 {
            sent += 1;
            program.send_to(&[&header[..], &query].concat(), relay).await?;
            if timeout(StdDuration::from_secs(1), hear(&program, &expected)).await.is_ok() {
                answered = true;
                break;
            }
        }
        if !answered {
            return Err(format!("query {id} got no answer").into());
        }
        times.push(began.elapsed());
    }
    drop(control);
    print(format_args!("{QUERIES} queries answered, {sent} sent"));
    print_times("queries over UDP ASSOCIATE", times);
    Ok(())
}

/// Waits for this very datagram; a late answer to an earlier query is no news.
async fn hear(socket: &UdpSocket, expected: &[u8]) {
    let mut heard = [0; 1_500];
    while let Ok(n) = socket.recv(&mut heard).await {
        if heard[..n] == *expected {
            return;
        }
    }
}

/// A query for the A record of example.org (RFC 1035 section 4.1).
fn dns_query(id: u16) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], b"\x07example\x03org\0", &[0, 1, 0, 1]].concat()
}

/// The query with one answer: 192.0.2.1, for a minute.
fn dns_answer(query: &[u8]) -> Vec<u8> {
    let mut answer = query.to_vec();
    if answer.len() >= 12 {
        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    answer
}

/// A host that sends as many pseudo-random bytes as it is asked for.
async fn source() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(ANY).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (seed, size) = (tcp.read_u64().await?, tcp.read_u64().await?);
                let mut chunk = vec![0; 64 * 1_024];
                let mut sent = 0;
                while sent < size {
                    let n = (size - sent).min(chunk.len() as u64) as usize;
                    fill(seed, sent, &mut chunk[..n]);
                    tcp.write_all(&chunk[..n]).await?;
                    sent += n as u64;
                }
                tcp.shutdown().await
            });
        }
    });
    Ok(address)
}

/// A download from [`source`], every byte of which is checked.
struct Fetch {
    tcp: TcpStream,
    seed: u64,
    size: u64,
    received: u64,
    last: Instant,
    /// How long, and before which byte.
    longest_pause: (StdDuration, u64),
    buffer: Vec<u8>,
    expected: Vec<u8>,
}

impl Fetch {
    async fn start(pair: &Pair, source: SocketAddr, seed: u64, size: u64) -> Outcome<Self> {
        let mut tcp = pair.connect(source).await?;
        tcp.write_all(&[seed.to_be_bytes(), size.to_be_bytes()].concat()).await?;
        Ok(Self {
            tcp,
            seed,
            size,
            received: 0,
            last: Instant::now(),
            longest_pause: (StdDuration::ZERO, 0),
            buffer: vec![0; 64 * 1_024],
            expected: vec![0; 64 * 1_024],
        })
    }

    /// Reads and checks some bytes; false at the end, which must come at the right place.
    async fn step(&mut self) -> Outcome<bool> {
        let at = self.received;
        let read = timeout(STALL, self.tcp.read(&mut self.buffer)).await;
        let n = read.map_err(|_| format!("nothing came for {STALL:?} after byte {at}"))??;
        let pause = (self.last.elapsed(), at);
        self.longest_pause = self.longest_pause.max(pause);
        self.last = Instant::now();
        if n == 0 {
            let short = format!("ended after {at} of {} bytes", self.size);
            return if at == self.size { Ok(false) } else { Err(short.into()) };
        }
        let expected = &mut self.expected[..n];
        fill(self.seed, at, expected);
        if let Some(wrong) = self.buffer[..n].iter().zip(&*expected).position(|(a, b)| a != b) {
            return Err(format!("byte {} is wrong", at + wrong as u64).into());
        }
        self.received += n as u64;
        if self.received > self.size { Err("too many bytes came".into()) } else { Ok(true) }
    }
}

/// The bytes of stream `seed` from `offset` on: different everywhere, so that lost, doubled, moved and crossed ones show.
fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut place = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let word = mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(place / 8)).to_le_bytes();
        let skip = (place % 8) as usize;
        let n = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(n);
        now.copy_from_slice(&word[skip..skip + n]);
        rest = later;
        place += n as u64;
    }
}

/// Spreads every bit of `x` over all (the finaliser of MurmurHash3).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Asks a SOCKS5 proxy for something (RFC 1928); returns the connection and the address that it names.
async fn socks5(proxy: SocketAddr, command: u8, host: SocketAddr) -> Outcome<(TcpStream, SocketAddr)> {
    let mut tcp = TcpStream::connect(proxy).await?;
    tcp.write_all(&[5, 1, 0]).await?;
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await?;
    tcp.write_all(&[&[5, command, 0, 1][..], &socks5_address(host)].concat()).await?;
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await?;
    if method != [5, 0] || reply[1] != 0 || reply[3] != 1 {
        return Err(format!("the proxy refused: {method:?} {reply:?}").into());
    }
    let ip = Ipv4Addr::new(reply[4], reply[5], reply[6], reply[7]);
    Ok((tcp, (ip, u16::from_be_bytes([reply[8], reply[9]])).into()))
}

fn socks5_address(host: SocketAddr) -> [u8; 6] {
    let SocketAddr::V4(v4) = host else { unreachable!("every address here is IPv4") };
    let ([a, b, c, d], [high, low]) = (v4.ip().octets(), v4.port().to_be_bytes());
    [a, b, c, d, high, low]
}

fn print_times(what: &str, mut times: Vec<StdDuration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (median, p95, p99, most) = (at(0.5), at(0.95), at(0.99), at(1.0));
    let count = times.len();
    print(format_args!(
        "{count} {what}: median {median:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms, most {most:.1} ms"
    ));
}

/// A line of the result, on stdout.
fn print(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
