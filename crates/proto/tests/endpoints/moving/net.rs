//! A client and a server in virtual time, with a NAT, an attacker and links of limited size between
//! them.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use mendpath_proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Dir, Endpoint, EndpointOutput, Event, NetworkPath,
    PathEvent, PathId, Read, ServerConfig, TransportConfig,
};
use units::{Duration, Instant};

pub const MS: Duration = Duration::from_millis(1);

/// 10.0.0.`host`, with a port.
pub fn addr(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// The server's address.
pub fn server_addr() -> SocketAddr {
    addr(1, 443)
}

/// The client's first address.
pub fn home() -> SocketAddr {
    addr(2, 1_000)
}

/// One side.
pub struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
    pub events: Vec<Event>,
}

impl Peer {
    /// The networks of all `Moved` events' paths.
    pub fn moves(&self) -> usize {
        self.events.iter().filter(|e| matches!(e, Event::Path(PathEvent::Moved(_)))).count()
    }
}

/// Which packets an attacker beside the route copies, and from where it sends the copies, which
/// overtake the originals.
pub type Copies = Box<dyn FnMut(bool, u64, &NetworkPath, &[u8]) -> Option<SocketAddr>>;

/// The network.
pub struct Net {
    pub now: Instant,
    pub client: Peer,
    pub server: Peer,
    /// By arrival and number: whether to the server, its path as the receiver sees it, bytes.
    wire: BTreeMap<(Instant, u64), (bool, NetworkPath, Vec<u8>)>,
    count: u64,
    pub delay: Duration,
    /// Public addresses in place of the client's.
    pub nat: BTreeMap<SocketAddr, SocketAddr>,
    /// Addresses of the client that do not work any more.
    pub dead: Vec<SocketAddr>,
    /// The n-th datagram is lost?
    pub lose: Box<dyn Fn(u64) -> bool>,
    /// Whatever the client sends is lost.
    pub lose_to_server: bool,
    pub copies: Copies,
    /// Bytes that the server got from and sent to each address.
    pub traffic: BTreeMap<SocketAddr, (u64, u64)>,
    /// Larger datagrams vanish.
    pub mtu: usize,
    /// The largest datagram that arrived.
    pub largest: usize,
    /// Datagrams that were too large.
    pub oversized: u64,
}

impl Net {
    pub fn new(transport: TransportConfig) -> Self {
        Self::with(transport.clone(), transport)
    }

    pub fn with(client: TransportConfig, server: TransportConfig) -> Self {
        Self::build(client, server, 65_535)
    }

    /// A network that carries no more than `mtu` bytes from the beginning.
    pub fn with_mtu(transport: TransportConfig, mtu: usize) -> Self {
        Self::build(transport.clone(), transport, mtu)
    }

    fn build(client: TransportConfig, server: TransportConfig, mtu: usize) -> Self {
        let (client_tls, server_tls) = crate::common::tls();
        let server = ServerConfig { max_connections: 1, ..ServerConfig::new(Arc::new(server_tls), server) };
        let config = ClientConfig::new(Arc::new(client_tls), client);
        let mut client = Endpoint::new(None, [1; 32]);
        let path = NetworkPath { local: home(), remote: server_addr() };
        let connection = client.connect(Instant::ORIGIN, &config, path, "localhost").unwrap();
        let peer = |endpoint, connection| Peer { endpoint, connection, events: Vec::new() };
        let mut net = Self {
            now: Instant::ORIGIN,
            client: peer(client, Some(connection)),
            server: peer(Endpoint::new(Some(Arc::new(server)), [2; 32]), None),
            wire: BTreeMap::new(),
            count: 0,
            delay: MS * 10,
            nat: BTreeMap::new(),
            dead: Vec::new(),
            lose: Box::new(|_| false),
            lose_to_server: false,
            copies: Box::new(|_, _, _, _| None),
            traffic: BTreeMap::new(),
            mtu,
            largest: 0,
            oversized: 0,
        };
        net.run(MS * 200);
        assert!(!net.client().is_handshaking() && !net.server().is_handshaking());
        net
    }

    pub fn client(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().unwrap().1
    }

    pub fn server(&mut self) -> &mut Connection {
        &mut self.server.connection.as_mut().unwrap().1
    }

    pub fn open_path(&mut self, local: SocketAddr) -> PathId {
        let now = self.now;
        let path = NetworkPath { local, remote: server_addr() };
        let id = self.client().open_path(now, path).unwrap();
        self.run(MS * 200);
        id
    }

    /// The path as the server sees it.
    pub fn server_path(&mut self, id: PathId) -> mendpath_proto::PathStats {
        self.server().paths().into_iter().find(|p| p.id == id).unwrap()
    }

    /// One datagram enters the network.
    fn send(&mut self, to_server: bool, path: NetworkPath, data: &[u8]) {
        self.count += 1;
        let seen = if to_server {
            let public = self.nat.get(&path.local).copied().unwrap_or(path.local);
            NetworkPath { local: path.remote, remote: public }
        } else {
            self.traffic.entry(path.remote).or_default().1 += data.len() as u64;
            // The NAT knows only its present bindings, and knows nobody else.
            let private =
                self.nat.iter().find(|(_, public)| **public == path.remote).map(|(private, _)| *private);
            let translated = self.nat.contains_key(&path.remote);
            let Some(local) = private.or((!translated).then_some(path.remote)) else { return };
            NetworkPath { local, remote: path.local }
        };
        let inner = if to_server { path.local } else { seen.local };
        let at = self.now + self.delay;
        if let Some(source) = (self.copies)(to_server, self.count, &path, data) {
            let forged = NetworkPath { local: path.remote, remote: source };
            self.wire.insert((at - MS, self.count), (to_server, forged, data.to_vec()));
        }
        self.oversized += u64::from(data.len() > self.mtu);
        let lost = (self.lose)(self.count) || to_server && self.lose_to_server;
        let known = to_server || inner.ip() == home().ip() || inner.ip() == addr(3, 0).ip();
        if known && !lost && data.len() <= self.mtu && !self.dead.contains(&inner) {
            self.largest = self.largest.max(data.len());
            self.wire.insert((at, self.count), (to_server, seen, data.to_vec()));
        }
    }

    fn flush(&mut self, to_server: bool) {
        let mut sent = Vec::new();
        let peer = if to_server { &mut self.client } else { &mut self.server };
        let Some((handle, connection)) = &mut peer.connection else { return };
        while let Some(event) = connection.poll_endpoint_event() {
            peer.endpoint.handle_event(*handle, event);
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(self.now, 10, &mut out) {
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                sent.push((transmit.path, datagram.to_vec()));
            }
            out.clear();
        }
        while let Some(event) = connection.poll_event() {
            peer.events.push(event);
        }
        for (path, datagram) in sent {
            self.send(to_server, path, &datagram);
        }
    }

    fn deliver(&mut self, to_server: bool, path: NetworkPath, mut data: Vec<u8>) {
        if to_server {
            self.traffic.entry(path.remote).or_default().0 += data.len() as u64;
        }
        let peer = if to_server { &mut self.server } else { &mut self.client };
        let datagram = Datagram { path, ecn: None, data: &mut data };
        match peer.endpoint.handle_datagram(self.now, datagram, &mut Vec::new()) {
            Some(EndpointOutput::ToConnection(_)) => {
                let datagram = Datagram { path, ecn: None, data: &mut data };
                peer.connection.as_mut().unwrap().1.handle_datagram(self.now, datagram);
            }
            Some(EndpointOutput::Incoming(incoming)) => {
                peer.connection = Some(peer.endpoint.accept(self.now, *incoming).unwrap());
            }
            _ => {}
        }
        // Answers leave at once, as with a driver that polls after every datagram.
        self.flush(!to_server);
    }

    /// Whatever is on its way is lost.
    pub fn forget_everything_in_flight(&mut self) {
        self.wire.clear();
    }

    /// Puts one datagram before the server (or the client) now.
    pub fn inject(&mut self, to_server: bool, path: NetworkPath, data: Vec<u8>) {
        self.deliver(to_server, path, data);
    }

    /// Runs for `time`.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.flush(true);
            self.flush(false);
            let timers = [&self.client, &self.server]
                .into_iter()
                .filter_map(|p| p.connection.as_ref()?.1.poll_timeout())
                .chain(self.wire.first_key_value().map(|(at, _)| at.0));
            let Some(next) = timers.min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to_server, path, data) = entry.remove();
                self.deliver(to_server, path, data);
            }
            for peer in [&mut self.client, &mut self.server] {
                if let Some((_, connection)) = &mut peer.connection
                    && connection.poll_timeout().is_some_and(|t| t <= self.now)
                {
                    connection.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }

    /// Sends `len` bytes from the server to the client (or back) on a new stream while `meanwhile`
    /// is called once per millisecond with the bytes that arrived so far; returns how long it took.
    pub fn transfer(
        &mut self,
        from_server: bool,
        len: usize,
        limit: Duration,
        mut meanwhile: impl FnMut(&mut Self, usize),
    ) -> Duration {
        fn side(net: &mut Net, server: bool) -> &mut Connection {
            if server { net.server() } else { net.client() }
        }
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
        let id = side(self, from_server).open(Dir::Uni).unwrap();
        let (start, mut written, mut received) = (self.now, 0, Vec::new());
        let mut buffer = vec![0; 65_536];
        loop {
            let sender = side(self, from_server);
            while written < len
                && let Ok(n) = sender.write(id, &data[written..])
            {
                written += n;
            }
            if written == len {
                let _ = sender.finish(id);
            }
            self.run(MS);
            meanwhile(self, received.len());
            let receiver = side(self, !from_server);
            while receiver.accept(Dir::Uni).is_some() {}
            while let Ok(read) = receiver.read(id, &mut buffer) {
                match read {
                    Read::Data(n) => received.extend_from_slice(&buffer[..n]),
                    Read::Finished => {
                        assert!(received == data);
                        return self.now - start;
                    }
                }
            }
            assert!(
                self.now - start < limit,
                "{} of {len} bytes after {limit}: client {:?}, server {:?}",
                received.len(),
                self.client().paths(),
                self.server().paths(),
            );
        }
    }
}
