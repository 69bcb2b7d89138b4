//! What programs do, again and again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mendpath_cli::backoff::pause;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UdpSocket,
    time::{Instant, timeout},
};

use super::{
    ledger::{Done, Kind, Ledger, Wrong},
    stage::Stage,
};
use crate::soak::{
    ANY, Outcome, STALL,
    fetch::Fetch,
    host::{self, fill, mix},
    program::{socks5, socks5_address},
};

/// Everybody who works at once.
pub const CREW: &[Kind] = &[
    Kind::Download,
    Kind::Download,
    Kind::Download,
    Kind::Download,
    Kind::Upload,
    Kind::Upload,
    Kind::Association,
    Kind::Association,
    Kind::Unread,
    Kind::Unread,
    Kind::Unread,
    Kind::Unread,
];

/// Until the pair carries a download again after an end was started.
const BACK: Duration = Duration::from_secs(90);
/// Packets of an association; the largest do not fit a datagram of QUIC.
const PACKETS: u64 = 20;
/// Attempts to get an echo: UDP may lose packets.
const ATTEMPTS: u32 = 8;

/// One program: works, pauses, works, until `end`.
pub async fn work(kind: Kind, stage: Arc<Stage>, ledger: Arc<Ledger>, seed: u64, end: Instant) {
    let Ok(hosts) = Hosts::start().await else {
        ledger.note_fault("the hosts could not be started".into());
        return;
    };
    for round in 0.. {
        let random = mix(seed ^ mix(round));
        pause(Duration::from_millis(random % 400)).await;
        if Instant::now() >= end {
            return;
        }
        let began = Instant::now();
        let result = match kind {
            Kind::Download => download(&stage, hosts.source, random, size(random)).await,
            Kind::Upload => upload(&stage, hosts.sink, random, size(random)).await,
            Kind::Association => associate(&stage, hosts.echo, random).await,
            Kind::Unread => unread(&stage, hosts.source, random, end).await,
        };
        let (bytes, wrong) = match result {
            Ok(bytes) => (bytes, None),
            Err(error) => (0, Some(sort(error.to_string()))),
        };
        let failed = wrong.is_some();
        ledger.note(Done { kind, began, ended: Instant::now(), bytes, wrong });
        if failed {
            // Who is refused at once does not ask a thousand times a second.
            pause(Duration::from_millis(500)).await;
        }
    }
}

/// What an error was.
fn sort(error: String) -> (Wrong, String) {
    let wrong = match &error {
        text if text.contains("is wrong") || text.contains("too many") => Wrong::Corrupt,
        text if text.contains("nothing came") => Wrong::Hung,
        _ => Wrong::Broken,
    };
    (wrong, error)
}

/// Sizes spread evenly over orders of magnitude, from 1 kB to 8 MB.
fn size(random: u64) -> u64 {
    let share = (random >> 40) as f64 / f64::from(1 << 24);
    (1_000.0 * 8_000_f64.powf(share)) as u64
}

/// Where programs go.
struct Hosts {
    source: SocketAddr,
    sink: SocketAddr,
    echo: SocketAddr,
}

impl Hosts {
    async fn start() -> Outcome<Self> {
        Ok(Self { source: host::source().await?, sink: host::sink().await?, echo: host::echo().await? })
    }
}

async fn download(stage: &Stage, source: SocketAddr, seed: u64, size: u64) -> Outcome<u64> {
    let tcp = within(stage.connect(source)).await?;
    let mut fetch = Fetch::start(tcp, seed, size).await?;
    while fetch.step().await? {}
    Ok(fetch.received)
}

/// Sends bytes that the sink knows beforehand; it says whether they were these.
async fn upload(stage: &Stage, sink: SocketAddr, seed: u64, size: u64) -> Outcome<u64> {
    let mut tcp = within(stage.connect(sink)).await?;
    tcp.write_all(&[seed.to_be_bytes(), size.to_be_bytes()].concat()).await?;
    let mut chunk = vec![0; 64 * 1_024];
    let mut sent = 0;
    while sent < size {
        let n = (size - sent).min(chunk.len() as u64) as usize;
        fill(seed, sent, &mut chunk[..n]);
        within(async { Ok(tcp.write_all(&chunk[..n]).await?) }).await?;
        sent += n as u64;
    }
    tcp.shutdown().await?;
    match within(async { Ok(tcp.read_u8().await?) }).await? {
        host::AS_EXPECTED => Ok(size),
        _ => Err("a byte of an upload is wrong".into()),
    }
}

/// Packets of many sizes to an echo and back.
async fn associate(stage: &Stage, echo: SocketAddr, seed: u64) -> Outcome<u64> {
    let (mut control, relay) = within(socks5(stage.proxy(), 3, ([0, 0, 0, 0], 0).into())).await?;
    let program = UdpSocket::bind(ANY).await?;
    let mut heard = vec![0; 10_000];
    let mut sent = Vec::new();
    let mut bytes = 0;
    for packet in 0..PACKETS {
        let random = mix(seed ^ packet);
        let length = if packet % 7 == 6 { 4_000 } else { 20 + random % 1_000 } as usize;
        let mut datagram = [&[0, 0, 0, 1][..], &socks5_address(echo)].concat();
        let payload = datagram.len();
        datagram.resize(payload + length, 0);
        fill(random, 0, &mut datagram[payload..]);
        sent.push(datagram);
        let mut answered = false;
        for _ in 0..ATTEMPTS {
            program.send_to(&sent[sent.len() - 1], relay).await?;
            let hear = async {
                loop {
                    let n = program.recv(&mut heard).await?;
                    if is_of_the_last(&heard[..n], &sent)? {
                        return Outcome::Ok(());
                    }
                }
            };
            let mut nothing = [0];
            tokio::select! {
                echoed = timeout(Duration::from_secs(1), hear) => if let Ok(echoed) = echoed {
                    echoed?;
                    answered = true;
                    break;
                },
                // The end of this connection is the association's (RFC 1928 section 6); nothing
                // else is ever said on it.
                _ = control.read(&mut nothing) => return Err("the association ended".into()),
            }
        }
        if !answered {
            return Err(format!("nothing came back of packet {packet} in {ATTEMPTS} attempts").into());
        }
        bytes += length as u64;
    }
    Ok(bytes)
}

/// Whether an echo is that of the last datagram sent. One of an earlier, of which there were several
/// attempts, may come late; what was never sent is a fault.
fn is_of_the_last(echo: &[u8], sent: &[Vec<u8>]) -> Outcome<bool> {
    match sent.iter().rposition(|datagram| datagram == echo) {
        Some(at) => Ok(at + 1 == sent.len()),
        None => Err(format!("an echo of {} bytes is wrong", echo.len()).into()),
    }
}

/// Asks for much, reads nothing for a while, and goes.
async fn unread(stage: &Stage, source: SocketAddr, seed: u64, end: Instant) -> Outcome<u64> {
    let mut tcp = within(stage.connect(source)).await?;
    tcp.write_all(&[seed.to_be_bytes(), (64_u64 << 20).to_be_bytes()].concat()).await?;
    // Longer than others wait before they say that nothing comes.
    let hold = Duration::from_millis(20_000 + seed % 100_000);
    tokio::time::sleep_until((Instant::now() + hold).min(end)).await;
    // What has come must be right, too.
    let mut first = [0; 1_000];
    within(async { Ok(tcp.read_exact(&mut first).await?) }).await?;
    let mut expected = [0; 1_000];
    fill(seed, 0, &mut expected);
    if first == expected {
        Ok(first.len() as u64)
    } else {
        Err("a byte of an unread download is wrong".into())
    }
}

/// Tries small downloads until one comes through.
pub async fn until_it_works(stage: &Stage) -> Outcome<()> {
    let source = host::source().await?;
    let back = async {
        for seed in 0.. {
            let tried = timeout(Duration::from_secs(5), download(stage, source, seed, 1_000)).await;
            if matches!(tried, Ok(Ok(_))) {
                return;
            }
            pause(Duration::from_millis(200)).await;
        }
    };
    Ok(timeout(BACK, back).await.map_err(|_| format!("no download came through for {BACK:?}"))?)
}

/// Fails when nothing happens for too long.
async fn within<T>(step: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    timeout(STALL, step).await.map_err(|_| format!("nothing came for {STALL:?}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_echoes_are_none_that_are_wrong() {
        let sent: [Vec<u8>; 3] = [vec![1; 40], vec![2; 40], vec![3; 20]];
        assert!(is_of_the_last(&[3; 20], &sent).unwrap());
        // Of the same length as another, too.
        assert!(!is_of_the_last(&[1; 40], &sent[..2]).unwrap());
        // Cut short, and of somebody else.
        for wrong in [&sent[2][..19], &[4; 30]] {
            let error = is_of_the_last(wrong, &sent).unwrap_err();
            assert_eq!(sort(error.to_string()).0, Wrong::Corrupt);
        }
    }
}
