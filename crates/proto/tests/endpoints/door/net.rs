//! Endpoints on wires of one millisecond, in virtual time.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use mendpath_proto::{
    AddressValidation, CID_LEN, ClientConfig, Connection, ConnectionError, ConnectionHandle, Datagram, Dir,
    Endpoint, EndpointOutput, Event, NetworkPath, PathId, RecoveryKind, ResetKey, ServerConfig, StreamId,
    TransportConfig,
    wire::{HeaderKind, ProtectedHeader},
};
use units::{Duration, Instant};

pub const DELAY: Duration = Duration::from_millis(1);

pub fn addr(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

/// The address of the server.
pub fn server_addr() -> SocketAddr {
    addr(1, 443)
}

/// TLS for both sides, with a certificate that grows by `names` host names of 64 bytes.
pub fn tls(names: usize) -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
    let others = (0..names).map(|n| format!("{n:0>60}.com"));
    let (client, server) =
        crate::common::tls::tls(core::iter::once("localhost".to_owned()).chain(others).collect());
    (Arc::new(client), Arc::new(server))
}

pub struct Host {
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionHandle, Box<Connection>>,
    pub events: Vec<(ConnectionHandle, Event)>,
    pub addresses: Vec<SocketAddr>,
}

/// What is on the wire; the filter may look and drop.
pub struct Packet {
    pub arrives: Instant,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub data: Vec<u8>,
}

/// Whether a datagram holds a packet that only a client can make that receives (RFC 9000
/// section 8.1).
fn holds_handshake_packet(mut data: &[u8]) -> bool {
    while let Ok(header) = ProtectedHeader::decode(data, CID_LEN) {
        if header.kind == HeaderKind::Handshake {
            return true;
        }
        data = &data[header.len..];
    }
    false
}

/// Host 0 is the server, host 1 the client.
pub struct Net {
    pub now: Instant,
    pub hosts: Vec<Host>,
    pub wire: VecDeque<Packet>,
    /// Packets for which this says false vanish.
    pub passes: Box<dyn FnMut(&Packet) -> bool>,
    /// Bytes that arrived at the server and that left it.
    pub server_received: u64,
    pub server_sent: u64,
    /// Checked after every packet of the server until a Handshake packet of the client arrives.
    pub amplification_limit: Option<u64>,
    pub client: ClientConfig,
    pub server: ServerConfig,
}

pub const SERVER: usize = 0;
pub const CLIENT: usize = 1;

impl Net {
    pub fn new(validation: AddressValidation) -> Self {
        Self::with_certificate(validation, 0)
    }

    pub fn with_certificate(validation: AddressValidation, names: usize) -> Self {
        let (client_tls, server_tls) = tls(names);
        // Copies of the handshake's flights would be counted as packets of their own.
        let transport = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
        let server = ServerConfig {
            address_validation: validation,
            ..ServerConfig::new(server_tls, transport.clone())
        };
        let host = |endpoint, addresses| Host {
            endpoint,
            connections: BTreeMap::new(),
            events: Vec::new(),
            addresses,
        };
        let endpoint =
            Endpoint::new(Some(Arc::new(server.clone())), [1; 32]).with_reset_key(&ResetKey::new([9; 32]));
        Self {
            now: Instant::ORIGIN,
            hosts: vec![
                host(endpoint, vec![server_addr()]),
                host(Endpoint::new(None, [2; 32]), vec![addr(2, 1), addr(3, 1)]),
            ],
            wire: VecDeque::new(),
            passes: Box::new(|_| true),
            server_received: 0,
            server_sent: 0,
            amplification_limit: None,
            client: ClientConfig::new(client_tls, transport),
            server,
        }
    }

    /// The server forgets everything but its reset key.
    pub fn restart_server(&mut self) {
        let endpoint = Endpoint::new(Some(Arc::new(self.server.clone())), [3; 32])
            .with_reset_key(&ResetKey::new([9; 32]));
        let host = &mut self.hosts[SERVER];
        host.endpoint = endpoint;
        host.connections.clear();
    }

    pub fn connect(&mut self) -> ConnectionHandle {
        self.connect_from(addr(2, 1))
    }

    /// Connects from this address, which gets no answers unless it is one of the client's.
    pub fn connect_from(&mut self, local: SocketAddr) -> ConnectionHandle {
        let path = NetworkPath { local, remote: server_addr() };
        let host = &mut self.hosts[CLIENT];
        let (handle, connection) = host.endpoint.connect(self.now, &self.client, path, "localhost").unwrap();
        host.connections.insert(handle, connection);
        handle
    }

    /// Connects and runs until the handshake is complete on both sides.
    pub fn establish(&mut self) -> ConnectionHandle {
        let handle = self.connect();
        self.run(Duration::from_millis(50));
        assert!(!self.client(handle).is_handshaking(), "{:?}", self.lost(CLIENT, handle));
        handle
    }

    pub fn client(&mut self, handle: ConnectionHandle) -> &mut Connection {
        self.hosts[CLIENT].connections.get_mut(&handle).expect("the connection exists")
    }

    /// Why a connection was lost, if it was.
    pub fn lost(&self, host: usize, handle: ConnectionHandle) -> Option<ConnectionError> {
        self.hosts[host].events.iter().find_map(|(of, event)| match event {
            Event::ConnectionLost(error) if *of == handle => Some(error.clone()),
            _ => None,
        })
    }

    /// Opens a path from the client's other address.
    pub fn open_second_path(&mut self, handle: ConnectionHandle) -> PathId {
        let (now, path) = (self.now, NetworkPath { local: addr(3, 1), remote: server_addr() });
        self.client(handle).open_path(now, path).unwrap()
    }

    /// Has the server's application turn every connection away.
    pub fn refuse_all(&mut self) {
        let now = self.now;
        let servers = self.hosts[SERVER].connections.values_mut();
        servers.for_each(|server| server.refuse(now, 6u8.into(), "no seat is free"));
    }

    /// Sends some bytes on a new stream.
    pub fn send(&mut self, handle: ConnectionHandle) -> StreamId {
        let id = self.client(handle).open(Dir::Bi).expect("streams are allowed");
        self.client(handle).write(id, &[7; 100]).unwrap();
        id
    }

    /// Puts a datagram on the wire, whatever the filter says.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, data: Vec<u8>) {
        self.wire.push_back(Packet { arrives: self.now + DELAY, from, to, data });
    }

    fn put(&mut self, from: SocketAddr, to: SocketAddr, data: Vec<u8>) {
        let packet = Packet { arrives: self.now + DELAY, from, to, data };
        if packet.from == server_addr() {
            self.server_sent += packet.data.len() as u64;
            if let Some(limit) = self.amplification_limit {
                let (sent, received) = (self.server_sent, self.server_received);
                assert!(sent <= limit * received, "{sent} bytes sent for {received}");
            }
        }
        if (self.passes)(&packet) {
            self.wire.push_back(packet);
        }
    }

    fn flush(&mut self, host: usize) {
        let handles: Vec<_> = self.hosts[host].connections.keys().copied().collect();
        for handle in handles {
            let mut sent = Vec::new();
            let Host { endpoint, connections, events, .. } = &mut self.hosts[host];
            let connection = connections.get_mut(&handle).unwrap();
            let mut out = Vec::new();
            loop {
                while let Some(event) = connection.poll_endpoint_event() {
                    endpoint.handle_event(handle, event);
                }
                out.clear();
                let Some(transmit) = connection.poll_transmit(self.now, 4, &mut out) else { break };
                for data in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                    sent.push((transmit.path.local, transmit.path.remote, data.to_vec()));
                }
            }
            while let Some(event) = connection.poll_event() {
                events.push((handle, event));
            }
            if connection.is_drained() {
                connections.remove(&handle);
            }
            sent.into_iter().for_each(|(from, to, data)| self.put(from, to, data));
        }
    }

    fn deliver(&mut self, mut packet: Packet) {
        let Some(host) = self.hosts.iter().position(|h| h.addresses.contains(&packet.to)) else { return };
        if host == SERVER {
            self.server_received += packet.data.len() as u64;
            if holds_handshake_packet(&packet.data) {
                self.amplification_limit = None;
            }
        }
        let path = NetworkPath { local: packet.to, remote: packet.from };
        let mut reply = Vec::new();
        let datagram = Datagram { path, ecn: None, data: &mut packet.data };
        let Host { endpoint, connections, .. } = &mut self.hosts[host];
        match endpoint.handle_datagram(self.now, datagram, &mut reply) {
            Some(EndpointOutput::ToConnection(handle)) => {
                if let Some(connection) = connections.get_mut(&handle) {
                    connection
                        .handle_datagram(self.now, Datagram { path, ecn: None, data: &mut packet.data });
                }
            }
            Some(EndpointOutput::Incoming(incoming)) => {
                let (handle, connection) = endpoint.accept(self.now, *incoming).unwrap();
                connections.insert(handle, connection);
            }
            Some(EndpointOutput::Reply(transmit)) => {
                assert!(reply.len() < packet.data.len());
                self.put(transmit.path.local, transmit.path.remote, reply);
            }
            Some(EndpointOutput::Misdirected(_)) | None => {}
        }
        let Host { endpoint, connections, .. } = &mut self.hosts[host];
        while let Some(handle) = endpoint.poll_evicted() {
            if let Some(connection) = connections.get_mut(&handle) {
                connection.evict(self.now);
            }
        }
    }

    /// Runs for `time`.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.flush(SERVER);
            self.flush(CLIENT);
            let timers =
                self.hosts.iter().flat_map(|h| h.connections.values()).filter_map(|c| c.poll_timeout());
            let Some(next) = timers.chain(self.wire.front().map(|p| p.arrives)).min() else { break };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while self.wire.front().is_some_and(|p| p.arrives <= self.now) {
                let packet = self.wire.pop_front().unwrap();
                self.deliver(packet);
            }
            for connection in self.hosts.iter_mut().flat_map(|h| h.connections.values_mut()) {
                if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                    connection.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }
}
