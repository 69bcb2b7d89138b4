//! Quiet, flooded, quiet: one kind of flood after the other, each against a fresh server.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    time::Duration,
};

use mendpath_cli::{backoff::pause, console::say, invitation::Invitation};
use tokio::time::Instant;

use crate::flood::{
    ANY, ContestArgs, Outcome,
    attacker::Deeds,
    ends::{self, Process},
    kind::Kind,
    print,
    probe::{self, Errand, Noticed},
    resolver,
    table::{self, Row},
};

/// From the attacker's first packet to the first request that counts, and from the last that counts
/// to its end.
const MARGIN: Duration = Duration::from_secs(1);
/// Between two looks at the server's threads.
const LOOK: Duration = Duration::from_millis(100);

/// Runs all contests that were asked for and prints the table.
pub fn run(args: &ContestArgs) -> Outcome<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(contests(args))
}

async fn contests(args: &ContestArgs) -> Outcome<ExitCode> {
    let kinds = if args.kinds.contains(&Kind::All) { Kind::ALL.to_vec() } else { args.kinds.clone() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    print(format_args!(
        "requests of {}, {} ms apart; three turns of {} s each; at most {} from the attacker; all of it on this machine's {cores} processors",
        args.size, args.pause_ms, args.seconds, args.rate
    ));
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for kind in kinds {
        say(format_args!("flood: {}", kind.name()));
        match contest(kind, args).await {
            Ok(row) => rows.push(row),
            Err(error) => broken.push(format!("{}: {error}", kind.name())),
        }
    }
    table::print(&rows, args.goal);
    for line in &broken {
        print(format_args!("not measured: {line}"));
    }
    let good = broken.is_empty() && rows.iter().all(|row| row.is_good(args.goal));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One kind of flood.
async fn contest(kind: Kind, args: &ContestArgs) -> Outcome<Row> {
    let by_name = kind == Kind::Dns;
    if by_name {
        resolver::start()?;
    }
    let program = ends::Program { file: args.program.clone(), verbose: args.verbose };
    let state = tempfile::tempdir()?;
    let dir = state.path().to_str().ok_or("the temporary directory has a strange name")?;
    let (server, invitation) = ends::server(&program, dir, by_name.then_some(resolver::ADDRESS)).await?;
    let (mut client, proxy) = ends::client(&program, &invitation)?;
    probe::wait_for(&mut client, proxy).await?;
    let size = args.size.get();
    let scene = Scene {
        errand: Errand { origin: probe::origin(size).await?, by_name, size },
        turn: Duration::from_secs(args.seconds),
        wait: Duration::from_millis(args.pause_ms),
        proxy,
        invitation,
        newcomers: ends::Program { verbose: false, ..program },
    };
    // What is only done once is none of the flood's business.
    let _ = probe::visit(proxy, scene.errand, scene.wait, Instant::now() + MARGIN).await;

    let idle = server.processor_seconds()?;
    let before = scene.turn().await?;
    let quiet_seconds = server.processor_seconds()? - idle;
    let (flooded, cost) = flooded(kind, args, &scene, &server).await?;
    let after = scene.turn().await?;
    Ok(Row { kind, before, flooded, after, quiet_seconds, cost })
}

/// What the clients that behave need to know.
struct Scene {
    errand: Errand,
    turn: Duration,
    wait: Duration,
    proxy: SocketAddr,
    invitation: Invitation,
    /// What new clients run, in silence.
    newcomers: ends::Program,
}

impl Scene {
    /// One turn of the client that stays and of those that come and go.
    async fn turn(&self) -> Outcome<Noticed> {
        let end = Instant::now() + self.turn;
        let newcomers =
            tokio::spawn(probe::newcomers(self.newcomers.clone(), self.invitation.clone(), self.errand, end));
        let stays = probe::visit(self.proxy, self.errand, self.wait, end).await;
        let new = newcomers.await??;
        Ok(Noticed { newcomers_ms: new.newcomers_ms, turned_away: new.turned_away, ..stays })
    }
}

/// What a flood cost.
pub struct Cost {
    pub deeds: Deeds,
    /// Of the server, in seconds, in the flooded turn.
    pub server_seconds: f64,
    /// Of the attacker, in seconds, for the same time.
    pub attacker_seconds: f64,
    /// The most that the server ever had resident.
    pub memory_mib: f64,
    /// The most threads that it was seen to have in the flooded turn.
    pub threads: u64,
}

async fn flooded(
    kind: Kind,
    args: &ContestArgs,
    scene: &Scene,
    server: &Process,
) -> Outcome<(Noticed, Cost)> {
    let dead = DeadHost::new()?;
    let seconds = args.seconds + 2 * MARGIN.as_secs();
    let line = [
        "attack".to_owned(),
        format!("--kind={}", kind.name()),
        format!("--invitation={}", scene.invitation),
        format!("--rate={}bit", args.rate.bits_per_second()),
        format!("--seconds={seconds}"),
        format!("--dead={}", dead.address),
        format!("--seed={}", args.seed),
    ];
    let mut attacker = Process::start(&line, true)?;
    if attacker.line().await? != "ready" {
        return Err("the attacker said something strange".into());
    }
    attacker.close_input();
    pause(MARGIN).await;
    // The turn alone, as for the quiet one.
    let (server_before, attacker_before) = (server.processor_seconds()?, attacker.processor_seconds()?);
    let (account, mut threads) = (server.account()?, 0);
    let turn = scene.turn();
    tokio::pin!(turn);
    let noticed = loop {
        tokio::select! {
            noticed = &mut turn => break noticed?,
            () = pause(LOOK) => threads = threads.max(account.threads()?),
        }
    };
    let (server_seconds, attacker_seconds) = (
        server.processor_seconds()? - server_before,
        attacker.processor_seconds().map_or(f64::NAN, |now| now - attacker_before),
    );
    let deeds = Deeds::parse(&attacker.line().await?)?;
    let memory_mib = account.memory("VmHWM")?.get() as f64 / f64::from(1 << 20);
    Ok((noticed, Cost { deeds, server_seconds, attacker_seconds, memory_mib, threads }))
}

/// A host that takes no connection and refuses none: its queue is full, so that Linux drops what
/// else comes.
struct DeadHost {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl DeadHost {
    fn new() -> Outcome<Self> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&ANY.into())?;
        socket.listen(0)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        let mut queue = Vec::new();
        while let Ok(queued) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            queue.push(queued);
        }
        Ok(Self { address, _listener: listener, _queue: queue })
    }
}
