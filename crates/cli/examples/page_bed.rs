//! Two lossy paths to a server, hosts behind it, and programs that use them: what the checks of the
//! live page look at (`.ci/browser`).
//!
//! `page_bed SERVER` prints one line of JSON with the addresses to use, then does what it reads:
//!
//! ```text
//! work SOCKS5      programs begin to download and upload through this proxy
//! loss PATH SHARE  the path loses this share of its packets, both ways
//! cut PATH         nothing passes on the path
//! restore PATH     it works again
//! ```
//!
//! A client's packets from 127.0.0.2 take the first path and those from 127.0.0.3 the second. Every
//! name leads to this machine. It ends with its standard input.

use std::{
    error::Error,
    io::BufRead as _,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use emulator::{Emulator, OutageKind, PathId, UdpPath};
use netsim::{Loss, Seed};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    time::interval,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LINKS: [&str; 2] = ["rate=40mbit,delay=12ms,queue=200kB", "rate=25mbit,delay=30ms,queue=200kB"];
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The longest datagram.
const DATAGRAM: usize = 65_535;

#[tokio::main]
async fn main() -> Outcome<()> {
    let server: SocketAddr = std::env::args().nth(1).ok_or("usage: page_bed SERVER")?.parse()?;
    let mut paths = Vec::new();
    for link in LINKS {
        paths.push(UdpPath::new(server, link.parse()?, link.parse()?));
    }
    let emulator = Emulator::start(paths, Seed(7))?;
    let front = front(&emulator).await?;
    let dns = name_server().await?;
    let origin = origin().await?;
    println!("{{\"server\":\"{front}\",\"dns\":\"{dns}\"}}");
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        obey(&line, &emulator, origin)?;
    }
    Ok(())
}

fn lines() -> tokio::sync::mpsc::Receiver<String> {
    let (send, receive) = tokio::sync::mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn obey(line: &str, emulator: &Emulator, origin: u16) -> Outcome<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let path = |word: &str| word.parse().map(PathId);
    match words.as_slice() {
        ["work", socks5] => work(socks5.parse()?, origin),
        ["loss", at, share] => {
            emulator.set_loss(path(at)?, None, Loss::Bernoulli(share.parse()?))?;
        }
        ["cut", at] => emulator.cut(path(at)?, None, OutageKind::Drop)?,
        ["restore", at] => emulator.restore(path(at)?, None)?,
        _ => return Err(format!("what is `{line}`?").into()),
    }
    Ok(())
}

/// The address that clients take for the server's: packets go to the path of their source address.
async fn front(emulator: &Emulator) -> Outcome<SocketAddr> {
    let front = Arc::new(UdpSocket::bind(ANY).await?);
    let mut ways = Vec::new();
    for nth in 0..LINKS.len() {
        let way = Arc::new(UdpSocket::bind(ANY).await?);
        way.connect(emulator.client_addr(PathId(nth))?).await?;
        let (back, from) = (way.clone(), tokio::sync::watch::channel(ANY));
        tokio::spawn({
            let (front, to) = (front.clone(), from.1);
            async move {
                let mut datagram = vec![0; DATAGRAM];
                // An ICMP error about an earlier packet is none of our concern.
                loop {
                    if let Ok(n) = back.recv(&mut datagram).await {
                        let to = *to.borrow();
                        let _ = front.send_to(&datagram[..n], to).await;
                    }
                }
            }
        });
        ways.push((way, from.0));
    }
    let address = front.local_addr()?;
    tokio::spawn(async move {
        let mut datagram = vec![0; DATAGRAM];
        loop {
            let Ok((n, from)) = front.recv_from(&mut datagram).await else { continue };
            let nth = usize::from(from.ip() == Ipv4Addr::new(127, 0, 0, 3));
            ways[nth].1.send_replace(from);
            let _ = ways[nth].0.send(&datagram[..n]).await;
        }
    });
    Ok(address)
}

/// Says of every name that it is this machine's.
async fn name_server() -> Outcome<SocketAddr> {
    let socket = UdpSocket::bind(ANY).await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut question = [0; 512];
        loop {
            let Ok((n @ 13.., from)) = socket.recv_from(&mut question).await else { continue };
            let _ = socket.send_to(&answer(&question[..n]), from).await;
        }
    });
    Ok(address)
}

/// The question with its answer (RFC 1035 section 4.1), or without one if it is not about IPv4.
fn answer(question: &[u8]) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0).map_or(12, |end| 12 + end + 1);
    let end = (name + 4).min(question.len());
    let is_v4 = question[name..end].starts_with(&[0, 1]);
    let mut answer = question[..end].to_vec();
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
    if is_v4 {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    answer
}

/// A host that reads eight bytes, how much is wanted, and sends as much; what else comes it takes.
async fn origin() -> Outcome<u16> {
    let listener = TcpListener::bind(ANY).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let wanted = tcp.read_u64().await?;
                let (mut read, mut write) = tcp.split();
                let sent = async {
                    tokio::io::copy(&mut tokio::io::repeat(7).take(wanted), &mut write).await?;
                    write.shutdown().await
                };
                let mut sink = tokio::io::sink();
                tokio::try_join!(sent, tokio::io::copy(&mut read, &mut sink))
            });
        }
    });
    Ok(port)
}

/// Programs with habits: one downloads much, one asks for little and often, one uploads, and one is
/// refused.
fn work(proxy: SocketAddr, origin: u16) {
    for (name, every_ms, download, upload) in [
        ("media.example.org", 1_300, 1_500_000, 0),
        ("news.example.com", 180, 60_000, 0),
        ("api.example.net", 400, 8_000, 2_000),
        ("photos.example.org", 2_100, 4_000, 250_000),
        ("mail.example.com", 1_500, 40_000, 20_000),
    ] {
        tokio::spawn(async move {
            let mut ticks = interval(Duration::from_millis(every_ms));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let _ = visit(proxy, (name, origin), download, upload).await;
            }
        });
    }
    tokio::spawn(async move {
        let closed = TcpListener::bind(ANY).await?.local_addr()?.port();
        visit(proxy, ("db.example.net", closed), 1, 0).await
    });
}

async fn visit(proxy: SocketAddr, (name, port): (&str, u16), download: u64, upload: u64) -> Outcome<()> {
    let mut tcp = TcpStream::connect(proxy).await?;
    let [high, low] = port.to_be_bytes();
    let greeting = [&[5, 1, 0, 5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &[high, low]].concat();
    tcp.write_all(&greeting).await?;
    let mut replies = [0; 12];
    tcp.read_exact(&mut replies).await?;
    tcp.write_u64(download).await?;
    let (mut read, mut write) = tcp.split();
    let sent = async {
        tokio::io::copy(&mut tokio::io::repeat(7).take(upload), &mut write).await?;
        write.shutdown().await
    };
    let mut sink = tokio::io::sink();
    tokio::try_join!(sent, tokio::io::copy(&mut read, &mut sink))?;
    Ok(())
}
