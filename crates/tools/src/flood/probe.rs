//! Clients that behave: one that stays, and ones that come and go.

use std::{net::SocketAddr, time::Duration};

use mendpath_cli::{backoff::pause, invitation::Invitation};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use crate::flood::{ANY, Outcome, ends, resolver};

/// A request, or a new client, that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between a new client and the next.
const BETWEEN_NEWCOMERS: Duration = Duration::from_secs(1);

/// What was noticed in one turn.
#[derive(Default)]
pub struct Noticed {
    /// How long each request took, in milliseconds; [`PATIENCE`] for one that failed.
    pub requests_ms: Vec<f64>,
    /// Requests that failed.
    pub failed: u64,
    /// How long each new client took from its start to its 60 kB, in milliseconds.
    pub newcomers_ms: Vec<f64>,
    /// New clients that got nothing.
    pub turned_away: u64,
}

/// A host that answers every connection with `size` bytes.
pub async fn origin(size: u64) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind(ANY).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let bytes: Vec<u8> = pattern(size).collect();
        while let Ok((mut tcp, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                tcp.write_all(&bytes).await?;
                tcp.shutdown().await
            });
        }
    });
    Ok(address)
}

/// Bytes that differ from place to place.
fn pattern(size: u64) -> impl Iterator<Item = u8> {
    (0..size).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
}

/// What to fetch, and how.
#[derive(Clone, Copy)]
pub struct Errand {
    /// The origin's address.
    pub origin: SocketAddr,
    /// By its name instead of its address, so that the server has to look it up.
    pub by_name: bool,
    /// Bytes to expect.
    pub size: u64,
}

/// Fetches once through a SOCKS5 proxy (RFC 1928) and checks every byte.
async fn fetch(proxy: SocketAddr, errand: &Errand) -> Outcome<()> {
    let mut tcp = TcpStream::connect(proxy).await?;
    tcp.set_nodelay(true)?;
    tcp.write_all(&[5, 1, 0]).await?;
    tcp.read_exact(&mut [0; 2]).await?;
    let mut request = vec![5, 1, 0];
    if errand.by_name {
        request.extend([3, resolver::QUICK_NAME.len() as u8]);
        request.extend(resolver::QUICK_NAME.as_bytes());
    } else {
        request.extend([1, 127, 0, 0, 1]);
    }
    request.extend(errand.origin.port().to_be_bytes());
    tcp.write_all(&request).await?;
    let mut reply = [0; 10];
    tcp.read_exact(&mut reply).await?;
    if reply[1] != 0 {
        return Err(format!("the proxy refused with reply {}", reply[1]).into());
    }
    let mut heard = Vec::with_capacity(errand.size as usize);
    tcp.read_to_end(&mut heard).await?;
    if heard.iter().copied().eq(pattern(errand.size)) {
        Ok(())
    } else {
        Err("the bytes are not those sent".into())
    }
}

/// Fetches again and again until `end`.
pub async fn visit(proxy: SocketAddr, errand: Errand, wait: Duration, end: Instant) -> Noticed {
    let mut noticed = Noticed::default();
    while Instant::now() < end {
        let began = Instant::now();
        let worked = matches!(timeout(PATIENCE, fetch(proxy, &errand)).await, Ok(Ok(())));
        let took = if worked { began.elapsed() } else { PATIENCE };
        noticed.requests_ms.push(took.as_secs_f64() * 1e3);
        noticed.failed += u64::from(!worked);
        pause(wait).await;
    }
    noticed
}

/// Starts a new client again and again until `end`; each fetches once and ends.
pub async fn newcomers(
    program: ends::Program,
    invitation: Invitation,
    errand: Errand,
    end: Instant,
) -> Outcome<Noticed> {
    let mut noticed = Noticed::default();
    while Instant::now() < end {
        let began = Instant::now();
        match timeout(PATIENCE, newcomer(&program, &invitation, &errand)).await {
            Ok(Ok(())) => noticed.newcomers_ms.push(began.elapsed().as_secs_f64() * 1e3),
            _ => noticed.turned_away += 1,
        }
        pause(BETWEEN_NEWCOMERS).await;
    }
    Ok(noticed)
}

async fn newcomer(program: &ends::Program, invitation: &Invitation, errand: &Errand) -> Outcome<()> {
    let (mut client, proxy) = ends::client(program, invitation)?;
    wait_for(&mut client, proxy).await?;
    fetch(proxy, errand).await
}

/// Waits until a client's proxy is there, which it is once the server has let the client in.
pub async fn wait_for(client: &mut ends::Process, proxy: SocketAddr) -> Outcome<()> {
    loop {
        if TcpStream::connect(proxy).await.is_ok() {
            return Ok(());
        }
        if !client.lives() {
            return Err("the client ended: the server did not let it in".into());
        }
        pause(Duration::from_millis(5)).await;
    }
}
