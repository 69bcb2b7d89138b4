//! A network of one link between a client and a server: it can be cut, change its addresses, and
//! have bad weather.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    net::UdpSocket,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::LOOPBACK;

/// Datagrams that are held back at once, to be overtaken; more go through at once.
const MAX_HELD: usize = 64;
/// How long a datagram is held back if no other overtakes it.
const HELD_FOR: Duration = Duration::from_millis(5);
/// How many others overtake it.
const OVERTAKEN_BY: u32 = 4;
/// A client that has said nothing for so long is silent. Well below the first question of one of
/// ours that waits for data (300 ms).
const SILENT_AFTER: Duration = Duration::from_millis(100);

/// What happens to datagrams, in both directions: each is a part of a thousand.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    pub(crate) overtaken: u32,
    /// A bit is inverted.
    pub(crate) corrupted: u32,
    /// What decides which.
    pub(crate) seed: u64,
}

/// What a relay has been handed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Traffic {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

/// Traffic by sender: the client's, and the server's.
pub(crate) type Counts = [Traffic; 2];

/// Forwards datagrams between one client and a server.
pub(crate) struct Relay {
    /// Where the client sends to.
    pub(crate) address: SocketAddr,
    orders: mpsc::UnboundedSender<Order>,
    counts: Arc<Mutex<Counts>>,
}

enum Order {
    Cut,
    Rebind,
    RebindInSilence,
    Retarget(SocketAddr),
    Weather(Weather),
    MuteClientAfter(u64),
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let near = UdpSocket::bind(LOOPBACK).await.unwrap();
        let far = UdpSocket::bind(LOOPBACK).await.unwrap();
        let address = near.local_addr().unwrap();
        let (orders, inbox) = mpsc::unbounded_channel();
        let counts = Arc::default();
        let link = Link {
            near,
            far,
            server,
            client: None,
            cut: false,
            muted_after: u64::MAX,
            silent_from: None,
            weather: Weather::default(),
            random: 0,
            held: VecDeque::new(),
            counts: Arc::clone(&counts),
        };
        tokio::spawn(link.run(inbox));
        Self { address, orders, counts }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    /// Nothing passes any more.
    pub(crate) fn cut(&self) {
        self.order(Order::Cut);
    }

    /// What comes from the client reaches the server from another port from now on, as behind a NAT
    /// that forgot.
    pub(crate) fn rebind(&self) {
        self.order(Order::Rebind);
    }

    /// The same, and everything is lost that either side has sent by then, and whatever the client
    /// has to say to it.
    pub(crate) fn rebind_in_silence(&self) {
        self.order(Order::RebindInSilence);
    }

    /// What comes from the client goes to another server from now on.
    pub(crate) fn retarget(&self, server: SocketAddr) {
        self.order(Order::Retarget(server));
    }

    /// From now on.
    pub(crate) fn set_weather(&self, weather: Weather) {
        self.order(Order::Weather(weather));
    }

    /// The client's first datagrams pass, and none after them.
    pub(crate) fn mute_client_after(&self, datagrams: u64) {
        self.order(Order::MuteClientAfter(datagrams));
    }

    /// What both sides have sent so far.
    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap()
    }
}

/// A datagram that others overtake.
struct Held {
    to_server: bool,
    bytes: Vec<u8>,
    until: Instant,
    overtakers: u32,
}

struct Link {
    near: UdpSocket,
    far: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    cut: bool,
    muted_after: u64,
    /// The address has changed, and nothing passes until the client has been silent up to then.
    silent_from: Option<Instant>,
    weather: Weather,
    random: u64,
    held: VecDeque<Held>,
    counts: Arc<Mutex<Counts>>,
}

impl Link {
    /// Until the relay is dropped.
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let (mut there, mut back) = (vec![0; 65_535], vec![0; 65_535]);
        loop {
            let due = self.held.front().map_or_else(|| Instant::now() + HELD_FOR, |held| held.until);
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                Ok((size, from)) = self.near.recv_from(&mut there) => {
                    self.client = Some(from);
                    let passed = self.count(true, size);
                    if !self.is_silent(true) && passed <= self.muted_after {
                        self.take(true, &mut there[..size]).await;
                    }
                }
                Ok((size, _)) = self.far.recv_from(&mut back) => {
                    self.count(false, size);
                    if !self.is_silent(false) {
                        self.take(false, &mut back[..size]).await;
                    }
                }
                () = sleep_until(due), if !self.held.is_empty() => self.let_go().await,
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Cut => self.cut = true,
            Order::Rebind => self.far = UdpSocket::bind(LOOPBACK).await.unwrap(),
            Order::RebindInSilence => {
                self.far = UdpSocket::bind(LOOPBACK).await.unwrap();
                self.held.clear();
                self.silent_from = Some(Instant::now() + SILENT_AFTER);
            }
            Order::Retarget(to) => self.server = to,
            Order::Weather(weather) => (self.weather, self.random) = (weather, weather.seed),
            Order::MuteClientAfter(datagrams) => self.muted_after = datagrams,
        }
    }

    /// Counts a datagram; returns how many there have been.
    fn count(&self, to_server: bool, size: usize) -> u64 {
        let mut counts = self.counts.lock().unwrap();
        let traffic = &mut counts[usize::from(!to_server)];
        traffic.datagrams += 1;
        traffic.bytes += size as u64;
        traffic.datagrams
    }

    /// Whether a datagram is lost because nothing passes.
    fn is_silent(&mut self, to_server: bool) -> bool {
        if let Some(until) = self.silent_from {
            if to_server && Instant::now() < until {
                self.silent_from = Some(Instant::now() + SILENT_AFTER);
                return true;
            }
            self.silent_from = None;
        }
        self.cut
    }

    /// Whether something happens that does so in so many of a thousand cases.
    fn happens(&mut self, per_mille: u32) -> bool {
        // SplitMix64, of which every output is as good as any.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1_000 < u64::from(per_mille)
    }

    async fn take(&mut self, to_server: bool, bytes: &mut [u8]) {
        let Weather { lost, doubled, overtaken, corrupted, .. } = self.weather;
        // All draws for every datagram: whether one is lost does not change what happens to the
        // next.
        let [lost, doubled, overtaken, corrupted] =
            [lost, doubled, overtaken, corrupted].map(|part| self.happens(part));
        if corrupted && !bytes.is_empty() {
            let bit = self.random as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if lost {
            return;
        }
        if overtaken && self.held.len() < MAX_HELD {
            let until = Instant::now() + HELD_FOR;
            self.held.push_back(Held { to_server, bytes: bytes.to_vec(), until, overtakers: 0 });
            return;
        }
        for _ in 0..=u32::from(doubled) {
            self.forward(to_server, bytes).await;
        }
        self.held.iter_mut().filter(|held| held.to_server == to_server).for_each(|held| held.overtakers += 1);
        self.let_go().await;
    }

    /// Sends what has been held back for long enough.
    async fn let_go(&mut self) {
        let now = Instant::now();
        while self.held.front().is_some_and(|held| held.until <= now || held.overtakers >= OVERTAKEN_BY) {
            let Some(held) = self.held.pop_front() else { return };
            self.forward(held.to_server, &held.bytes).await;
        }
    }

    async fn forward(&self, to_server: bool, bytes: &[u8]) {
        // A full socket buffer is one more lossy network.
        if to_server {
            let _ = self.far.send_to(bytes, self.server).await;
        } else if let Some(client) = self.client {
            let _ = self.near.send_to(bytes, client).await;
        }
    }
}
