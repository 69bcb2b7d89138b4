//! A network between a browser and `mendpath serve`: what the checks of HTTP/3 in Chromium meddle
//! with (`.ci/browser serve`).
//!
//! `web_bed SERVER` prints the UDP address that stands in for the server's, then does what it reads
//! and answers each line with one of its own:
//!
//! ```text
//! loss SHARE       the path loses this share of its packets, both ways
//! rebind           a translator on the way gives the browser another port
//! lost             how many packets the path has lost so far
//! mtu BYTES        from now on longer packets are lost as well, without a word (UDP payload)
//! long             how many were
//! ```
//!
//! It ends with its standard input.

use std::{
    error::Error,
    io::BufRead as _,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use emulator::{Emulator, PathId, UdpPath};
use netsim::{Loss, Seed};
use tokio::{
    net::UdpSocket,
    sync::{mpsc, watch},
    task::JoinHandle,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LINK: &str = "rate=40mbit,delay=15ms,queue=200kB";
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The longest datagram.
const DATAGRAM: usize = 65_535;
const PATH: PathId = PathId(0);

#[tokio::main]
async fn main() -> Outcome<()> {
    let server: SocketAddr = std::env::args().nth(1).ok_or("usage: web_bed SERVER")?.parse()?;
    let emulator = Emulator::start([UdpPath::new(server, LINK.parse()?, LINK.parse()?)], Seed(7))?;
    let inside = Arc::new(UdpSocket::bind(ANY).await?);
    let (browser, _) = watch::channel(ANY);
    let mtu = Arc::new(Mtu { limit: AtomicUsize::new(DATAGRAM), dropped: AtomicU64::new(0) });
    let mut translator = Translator {
        inside: inside.clone(),
        browser,
        outside: watch::channel(None).0,
        back: None,
        mtu: mtu.clone(),
    };
    translator.rebind(&emulator).await?;
    let (browser, outside) = (translator.browser.clone(), translator.outside.subscribe());
    tokio::spawn(forward(inside.clone(), browser, outside, mtu.clone()));
    println!("{}", inside.local_addr()?);
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["loss", share] => {
                emulator.set_loss(PATH, None, Loss::Bernoulli(share.parse()?))?;
                println!("done");
            }
            ["rebind"] => println!("{}", translator.rebind(&emulator).await?),
            ["lost"] => {
                let stats = emulator.stats(PATH)?;
                println!("{}", stats.up.link.gone() + stats.down.link.gone());
            }
            ["mtu", bytes] => {
                mtu.limit.store(bytes.parse()?, Relaxed);
                println!("done");
            }
            ["long"] => println!("{}", mtu.dropped.load(Relaxed)),
            _ => return Err(format!("what is `{line}`?").into()),
        }
    }
    Ok(())
}

/// The longest packets that the network carries, both ways.
struct Mtu {
    limit: AtomicUsize,
    dropped: AtomicU64,
}

impl Mtu {
    fn carries(&self, length: usize) -> bool {
        let carries = length <= self.limit.load(Relaxed);
        if !carries {
            self.dropped.fetch_add(1, Relaxed);
        }
        carries
    }
}

/// The browser's packets leave from `outside`, as the path and the server see them.
struct Translator {
    inside: Arc<UdpSocket>,
    /// Where the browser is.
    browser: watch::Sender<SocketAddr>,
    outside: watch::Sender<Option<Arc<UdpSocket>>>,
    /// Brings packets back to the browser.
    back: Option<JoinHandle<()>>,
    mtu: Arc<Mtu>,
}

impl Translator {
    /// From now on packets come from another port, and what is sent to the one before is lost.
    async fn rebind(&mut self, emulator: &Emulator) -> Outcome<SocketAddr> {
        let outside = Arc::new(UdpSocket::bind(ANY).await?);
        outside.connect(emulator.client_addr(PATH)?).await?;
        if let Some(before) = self.back.take() {
            before.abort();
        }
        let (inside, browser) = (self.inside.clone(), self.browser.subscribe());
        self.back = Some(tokio::spawn(back(outside.clone(), inside, browser, self.mtu.clone())));
        let address = outside.local_addr()?;
        self.outside.send_replace(Some(outside));
        Ok(address)
    }
}

async fn forward(
    inside: Arc<UdpSocket>,
    browser: watch::Sender<SocketAddr>,
    outside: watch::Receiver<Option<Arc<UdpSocket>>>,
    mtu: Arc<Mtu>,
) {
    let mut datagram = vec![0; DATAGRAM];
    loop {
        // An ICMP error about an earlier packet is none of our concern.
        let Ok((n, from)) = inside.recv_from(&mut datagram).await else { continue };
        browser.send_replace(from);
        let to = outside.borrow().clone();
        if let Some(to) = to
            && mtu.carries(n)
        {
            let _ = to.send(&datagram[..n]).await;
        }
    }
}

async fn back(
    outside: Arc<UdpSocket>,
    inside: Arc<UdpSocket>,
    browser: watch::Receiver<SocketAddr>,
    mtu: Arc<Mtu>,
) {
    let mut datagram = vec![0; DATAGRAM];
    loop {
        let Ok(n) = outside.recv(&mut datagram).await else { continue };
        let to = *browser.borrow();
        if mtu.carries(n) {
            let _ = inside.send_to(&datagram[..n], to).await;
        }
    }
}

fn lines() -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receive
}
