//! One response: fresh links, a fresh connection over all its paths, one request, one measured
//! answer.

use std::{net::SocketAddr, time::Duration};

use emulator::{Direction, Emulator, PathId, Seed, UdpPath};
use mendpath::{ClientConfig, Connection, Endpoint, Identity, PathOptions, RecoveryKind, ServerConfig};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, timeout},
};
use tracing::debug;

use netsim::Loss;

use super::{DemoOptions, Row};

/// For the connection and all its paths to be ready.
const SETUP_LIMIT: Duration = Duration::from_secs(15);
/// For the response.
const RESPONSE_LIMIT: Duration = Duration::from_secs(60);
/// For the last acknowledgements, before the sender's counters are read.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// Set-ups that may fail; they are not what is measured.
const SETUPS: usize = 4;

/// What one response came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// From the request to the response's last byte.
    pub(super) fct: Duration,
    /// Packets that the links lost meanwhile.
    pub(super) lost: u64,
    /// Lost packets whose data had reached the client otherwise when the sender noticed.
    pub(super) mended: u64,
    /// UDP payload that the server sent meanwhile, in bytes.
    pub(super) bytes: u64,
    /// The part of it that carried copies and repair symbols, in bytes.
    pub(super) recovery_bytes: u64,
    /// The longest time that a link of this machine handed a packet on too late.
    pub(super) late: Duration,
}

/// Measures the `index`-th response of `row`.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn measure(
    row: &Row,
    index: u32,
    options: &DemoOptions,
    identity: &Identity,
) -> Result<Measured, String> {
    let mut last = String::new();
    for _ in 0..SETUPS {
        let ready = match timeout(SETUP_LIMIT, Ready::set_up(row, index, options, identity)).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => {
                last = error;
                continue;
            }
            Err(_) => {
                last = format!("the connection was not ready within {} s", SETUP_LIMIT.as_secs());
                continue;
            }
        };
        return timeout(RESPONSE_LIMIT, ready.respond(index, options)).await.unwrap_or_else(|_| {
            Err(format!("the response took longer than {} s", RESPONSE_LIMIT.as_secs()))
        });
    }
    Err(last)
}

/// A connection whose paths are all validated.
struct Ready {
    emulator: Emulator,
    paths: Vec<PathId>,
    /// What each path loses once the request is sent: towards the server, towards the client.
    losses: Vec<[Loss; 2]>,
    client: Connection,
    server: Connection,
}

impl Ready {
    async fn set_up(
        row: &Row,
        index: u32,
        options: &DemoOptions,
        identity: &Identity,
    ) -> Result<Self, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let endpoint = Endpoint::server(server_config(row.recovery, options, identity)?, loopback)
            .map_err(|e| words(&e))?;
        let address = endpoint.local_addrs().first().copied().ok_or("the server has no address")?;
        let emulator = emulate(row, index, options, address)?;
        let losses = losses(row)?;
        let mut remotes = Vec::new();
        for (place, _) in &row.paths {
            remotes.push((PathId(*place), emulator.client_addr(PathId(*place)).map_err(|e| words(&e))?));
        }
        let (first, others) = remotes.split_first().ok_or("there is no path")?;

        let dialer = Endpoint::client(loopback).map_err(|e| words(&e))?;
        let connecting = dialer
            .connect_with(&client_config(row.recovery, options, identity), first.1, "demo")
            .map_err(|e| words(&e))?;
        let accepting = async {
            let incoming = endpoint.accept().await.ok_or("the server was closed")?;
            incoming.await.map_err(|e| words(&e))
        };
        let connected = async { connecting.await.map_err(|e| words(&e)) };
        let (server, client) = tokio::try_join!(accepting, connected)?;
        for (_, remote) in others {
            let path = PathOptions::new().remote(*remote).timeout(Duration::from_secs(10));
            client.add_path(path).await.map_err(|e| words(&e))?;
        }
        usable_at_server(&server, row.paths.len()).await;
        let paths = remotes.into_iter().map(|(path, _)| path).collect();
        Ok(Self { emulator, paths, losses, client, server })
    }

    /// Asks for the `index`-th response and watches it come.
    async fn respond(self, index: u32, options: &DemoOptions) -> Result<Measured, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let size = options.size.get();
        // Set-up is not measured, so nothing was lost until now; from here on every row draws the
        // same losses.
        for (path, losses) in self.paths.iter().zip(&self.losses) {
            for (direction, loss) in [Direction::Forward, Direction::Backward].into_iter().zip(losses) {
                self.emulator.set_loss(*path, Some(direction), loss.clone()).map_err(|e| words(&e))?;
            }
            self.emulator.reseed(*path, options.seed_of(index, path.0)).map_err(|e| words(&e))?;
            self.emulator.forget_lateness(*path).map_err(|e| words(&e))?;
        }
        let (lost, sent) = (self.lost()?, self.server.stats());
        let serve = async {
            let (mut send, mut receive) = self.server.accept_bi().await.map_err(|e| words(&e))?;
            let asked = receive.read_u64().await.map_err(|e| words(&e))?;
            let body = vec![0x5a; usize::try_from(asked).unwrap_or(0)];
            send.write_all(&body).await.map_err(|e| words(&e))?;
            send.shutdown().await.map_err(|e| words(&e))
        };
        let ask = async {
            let (mut send, mut receive) = self.client.open_bi().await.map_err(|e| words(&e))?;
            let start = Instant::now();
            send.write_all(&size.to_be_bytes()).await.map_err(|e| words(&e))?;
            send.shutdown().await.map_err(|e| words(&e))?;
            let got = drain(&mut receive).await.map_err(|e| words(&e))?;
            let fct = start.elapsed();
            if got == size { Ok(fct) } else { Err(format!("{got} of {size} bytes arrived")) }
        };
        let ((), fct) = tokio::try_join!(serve, ask)?;
        let late = self.late()?;
        self.settled().await;
        let now = self.server.stats();
        debug!(?fct, server = ?now, client = ?self.client.stats(), server_paths = ?self.server.path_stats(), "response");
        let measured = Measured {
            fct,
            lost: self.lost()? - lost,
            mended: now.packets_mended - sent.packets_mended,
            bytes: now.bytes_sent - sent.bytes_sent,
            recovery_bytes: now.recovery_bytes_sent - sent.recovery_bytes_sent,
            late,
        };
        self.client.close(0u8.into(), b"");
        Ok(measured)
    }

    /// The longest time that a link handed a packet on too late since the request.
    fn late(&self) -> Result<Duration, String> {
        let mut late = units::Duration::ZERO;
        for path in &self.paths {
            let stats = self.emulator.stats(*path).map_err(|error| error.to_string())?;
            late = late.max(stats.up.max_late).max(stats.down.max_late);
        }
        Ok(late.into())
    }

    /// Packets that the links have lost so far.
    fn lost(&self) -> Result<u64, String> {
        let mut lost = 0;
        for path in &self.paths {
            let stats = self.emulator.stats(*path).map_err(|error| error.to_string())?;
            lost += stats.up.link.gone() + stats.down.link.gone();
        }
        Ok(lost)
    }

    /// Waits until the server has an answer for everything it sent, so that its counters are
    /// complete.
    async fn settled(&self) {
        let settled = || self.server.path_stats().iter().all(|path| path.in_flight == 0);
        poll(settled, SETTLE_LIMIT).await;
    }
}

async fn usable_at_server(server: &Connection, paths: usize) {
    let usable = || {
        server.path_stats().iter().filter(|path| path.state == mendpath::PathState::Active).count() >= paths
    };
    poll(usable, SETTLE_LIMIT).await;
}

/// Looks every 2 ms until `done`, at most for `limit`: the library has no events for these.
async fn poll(done: impl Fn() -> bool, limit: Duration) {
    let look = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        while !done() {
            ticks.tick().await;
        }
    };
    let _ = timeout(limit, look).await;
}

/// Reads to the end; the bytes themselves are not kept.
async fn drain(receive: &mut mendpath::RecvStream) -> Result<u64, mendpath::ReadError> {
    let mut chunk = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match receive.read(&mut chunk).await? {
            None => return Ok(total),
            Some(n) => total += n as u64,
        }
    }
}

/// What the row's paths lose, towards the server and towards the client.
fn losses(row: &Row) -> Result<Vec<[Loss; 2]>, String> {
    let links = row.paths.iter().map(|(_, path)| path.links_and_losses().map_err(|error| error.to_string()));
    links.map(|links| links.map(|links| links.map(|(_, loss)| loss))).collect()
}

/// Links for all of the user's paths, numbered as the user did, so that each has the same losses in
/// every row.
fn emulate(row: &Row, index: u32, options: &DemoOptions, server: SocketAddr) -> Result<Emulator, String> {
    let mut paths = Vec::new();
    for (place, path) in options.paths.iter().enumerate() {
        let path = row.paths.iter().find(|(other, _)| *other == place).map_or(path, |(_, path)| path);
        let [(up, _), (down, _)] = path.links_and_losses().map_err(|error| error.to_string())?;
        paths.push(UdpPath::new(server, up, down));
    }
    let seed = Seed(options.seed).child("set-up", index.into());
    Emulator::start(paths, seed).map_err(|error| error.to_string())
}

fn server_config(
    recovery: RecoveryKind,
    options: &DemoOptions,
    identity: &Identity,
) -> Result<ServerConfig, String> {
    let config = ServerConfig::with_identity(identity).map_err(|error| error.to_string())?;
    Ok(config.transport(options.transport(recovery)))
}

fn client_config(recovery: RecoveryKind, options: &DemoOptions, identity: &Identity) -> ClientConfig {
    ClientConfig::with_pinned_key(identity.pin()).transport(options.transport(recovery))
}
