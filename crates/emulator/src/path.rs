//! One emulated path: a listening socket, two links, and a socket per client towards the server.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use netsim::{Delivered, LinkConfig, Seed};
use quinn_udp::EcnCodepoint;
use units::Instant;

use crate::{
    batch::Batch,
    clock::Clock,
    links::{DirectionStats, Links, OneWay, Packet},
    socket::{Buffers, Received, Socket},
};

/// Names a path of an [`Emulator`](crate::Emulator): the first is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub usize);

/// What an emulated path is like.
///
/// Its links count packets with the headers of UDP and of IP without options: 28 bytes more than
/// the payload (48 with IPv6).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct UdpPath {
    /// Where the client's packets go.
    pub server: SocketAddr,
    /// Where to listen for clients; a loopback address and any free port unless set.
    pub listen: SocketAddr,
    /// The link from client to server.
    pub up: LinkConfig,
    /// The link from server to client.
    pub down: LinkConfig,
    /// Most client addresses at a time (16); one more evicts the one that has been idle for
    /// longest. At least 1.
    pub max_clients: usize,
    /// Where the randomness of this path comes from; unless set, from the emulator's seed and the
    /// path's number.
    pub seed: Option<Seed>,
}

impl UdpPath {
    /// A path to `server` that listens on a loopback address.
    pub fn new(server: SocketAddr, up: LinkConfig, down: LinkConfig) -> Self {
        Self { server, listen: any_port(loopback_like(server)), up, down, max_clients: 16, seed: None }
    }

    /// Sets where to listen for clients.
    pub fn listen(mut self, addr: SocketAddr) -> Self {
        self.listen = addr;
        self
    }

    /// Gives the path a seed of its own: it loses the same packets in whatever emulator, under
    /// whatever number.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how many client addresses may be served at a time.
    pub fn max_clients(mut self, n: usize) -> Self {
        self.max_clients = n.max(1);
        self
    }
}

/// What a path has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PathStats {
    /// From client to server.
    pub up: DirectionStats,
    /// From server to client.
    pub down: DirectionStats,
    /// Client addresses being served.
    pub clients: usize,
    /// Client addresses dropped to make room for others.
    pub evicted: u64,
    /// Clients that could not be served because no socket could be had.
    pub refused: u64,
    /// Packets that reached a client's socket from elsewhere than the server; they are ignored.
    pub strangers: u64,
    /// Errors while receiving.
    pub receive_failed: u64,
}

/// A client address with its socket towards the server.
struct Client {
    id: u64,
    addr: SocketAddr,
    socket: Socket,
    last_seen: Instant,
}

pub(crate) struct Path {
    server: SocketAddr,
    listener: Socket,
    /// At most `max_clients`, in no order that matters.
    clients: Vec<Client>,
    max_clients: usize,
    next_client: u64,
    pub(crate) links: Links,
    batch: Batch,
    stats: PathStats,
}

impl Path {
    /// A path whose links start at `now`, with the seed `default` unless it has one of its own.
    pub(crate) fn open(config: &UdpPath, default: Seed, now: Instant) -> io::Result<Self> {
        let seed = config.seed.unwrap_or(default);
        Ok(Self {
            server: config.server,
            listener: Socket::bind(config.listen)?,
            clients: Vec::new(),
            max_clients: config.max_clients.max(1),
            next_client: 0,
            links: Links::new(&config.up, &config.down, seed, now),
            batch: Batch::default(),
            stats: PathStats::default(),
        })
    }

    pub(crate) fn client_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    pub(crate) fn stats(&self) -> PathStats {
        let Links { up, down } = &self.links;
        PathStats { up: up.stats(), down: down.stats(), clients: self.clients.len(), ..self.stats }
    }

    /// The sockets to wait for: the listener, then the clients' in order.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        std::iter::once(&self.listener).chain(self.clients.iter().map(|client| &client.socket))
    }

    /// Reads the `index`-th of [`sockets`](Self::sockets) into the links.
    pub(crate) fn receive(&mut self, index: usize, clock: &Clock, buffers: &mut Buffers) {
        let result = match index.checked_sub(1) {
            None => self.receive_up(clock, buffers),
            Some(client) => self.receive_down(client, clock, buffers),
        };
        self.stats.receive_failed += u64::from(result.is_err());
    }

    fn receive_up(&mut self, clock: &Clock, buffers: &mut Buffers) -> io::Result<()> {
        let Self { server, listener, clients, max_clients, next_client, links, stats, .. } = self;
        listener.receive(clock, buffers, |Received { at, source, ecn, payload }| {
            let known = clients.iter().position(|client| client.addr == source);
            let client = match known {
                Some(known) => &mut clients[known],
                None => {
                    let Ok(socket) = Socket::bind(any_port(source_for(*server))) else {
                        stats.refused += 1;
                        return;
                    };
                    if clients.len() >= *max_clients {
                        stats.evicted += 1;
                        evict_idlest(clients);
                    }
                    *next_client += 1;
                    clients.push(Client { id: *next_client, addr: source, socket, last_seen: at });
                    let last = clients.len() - 1;
                    &mut clients[last]
                }
            };
            client.last_seen = at;
            let size = size_on_link(payload, source);
            links.up.link.offer(at, Packet { payload: payload.into(), ecn, client: client.id }, size);
        })
    }

    fn receive_down(&mut self, client: usize, clock: &Clock, buffers: &mut Buffers) -> io::Result<()> {
        let Self { server, clients, links, stats, .. } = self;
        let Some(client) = clients.get_mut(client) else { return Ok(()) };
        let Client { id, socket, last_seen, .. } = client;
        socket.receive(clock, buffers, |Received { at, source, ecn, payload }| {
            if source != *server {
                stats.strangers += 1;
                return;
            }
            *last_seen = at;
            let size = size_on_link(payload, source);
            links.down.link.offer(at, Packet { payload: payload.into(), ecn, client: *id }, size);
        })
    }

    /// Sends on what has come out of the links by `now`.
    pub(crate) fn deliver(&mut self, now: Instant) {
        let Self { server, listener, clients, links, batch, .. } = self;
        forward(&mut links.up, now, batch, |id| find(clients, id).map(|client| (&client.socket, *server)));
        forward(&mut links.down, now, batch, |id| find(clients, id).map(|client| (&*listener, client.addr)));
    }
}

/// Moves packets from a link to the socket and destination that `route` knows for their client.
fn forward<'a>(
    way: &mut OneWay,
    now: Instant,
    batch: &mut Batch,
    route: impl Fn(u64) -> Option<(&'a Socket, SocketAddr)>,
) {
    let mut batched_for: Option<u64> = None;
    let flush = |batch: &mut Batch, stats: &mut DirectionStats, client: Option<u64>| {
        let Some((socket, destination)) = client.and_then(&route) else { return };
        match batch.flush(socket, destination) {
            Ok(sent) => stats.sent += sent,
            Err((failed, _)) => stats.send_failed += failed,
        }
    };
    while let Some(Delivered { packet, ce, .. }) = way.deliver(now) {
        let Some((socket, _)) = route(packet.client) else {
            way.counted.orphaned += 1;
            continue;
        };
        let ecn = if ce && packet.ecn.is_some() { Some(EcnCodepoint::Ce) } else { packet.ecn };
        let joins =
            batched_for == Some(packet.client) && batch.takes(&packet.payload, ecn, socket.max_segments());
        if !joins {
            flush(batch, &mut way.counted, batched_for);
        }
        batched_for = Some(packet.client);
        batch.push(&packet.payload, ecn);
    }
    flush(batch, &mut way.counted, batched_for);
}

fn find(clients: &[Client], id: u64) -> Option<&Client> {
    clients.iter().find(|client| client.id == id)
}

fn evict_idlest(clients: &mut Vec<Client>) {
    let idlest = clients.iter().enumerate().min_by_key(|(_, client)| (client.last_seen, client.id));
    if let Some((index, _)) = idlest {
        clients.swap_remove(index);
    }
}

/// A packet's size as the link counts it: with the headers of UDP and of IP without options.
fn size_on_link(payload: &[u8], peer: SocketAddr) -> u64 {
    const UDP: u64 = 8;
    let ip = if peer.is_ipv4() { 20 } else { 40 };
    payload.len() as u64 + UDP + ip
}

fn any_port(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 0)
}

fn loopback_like(peer: SocketAddr) -> IpAddr {
    if peer.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// Where to send from: loopback to loopback, otherwise wherever the routing table says.
fn source_for(server: SocketAddr) -> IpAddr {
    match server {
        _ if server.ip().is_loopback() => loopback_like(server),
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
