//! [`Pair`]: a client and a server in memory, with a wire between them that the target may tamper with.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use proto::{
    AddressValidation, Admission, ClientConfig, Connection, ConnectionHandle, Datagram, Dir, Endpoint,
    EndpointOutput, Event, MAX_GAPS, NetworkPath, Read, ServerConfig, TransportConfig,
};
use units::{Duration, Instant};

/// Port of the server; the client's path n comes from port n + 1.
pub const SERVER_PORT: u16 = 443;
/// How long a datagram travels.
const LATENCY: Duration = Duration::from_millis(5);
/// Rounds of work at one instant before we say that it will never end.
const MAX_ROUNDS_AT_ONCE: u32 = 2_000;
/// Datagrams that one call of [`Pair::run`] delivers before it returns: enough for anything that a
/// script can ask for.
const MAX_DELIVERIES: u32 = 4_000;

/// One end.
pub struct Peer {
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// Its connection: the first one that was made.
    pub connection: Option<(ConnectionHandle, Box<Connection>)>,
    /// Further connections that strangers caused.
    pub others: Vec<(ConnectionHandle, Box<Connection>)>,
    /// Whether the connection said that it is lost.
    pub lost: bool,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// When it arrives.
    pub arrival: Instant,
    /// Its direction.
    pub to_server: bool,
    /// Its addresses as the receiver sees them.
    pub path: NetworkPath,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// A client, a server, and what travels between them.
pub struct Pair {
    /// The virtual time.
    pub now: Instant,
    /// The client.
    pub client: Peer,
    /// The server.
    pub server: Peer,
    /// What travels, in the order of arrival.
    pub wire: VecDeque<Flight>,
    /// Whether everything is lost from now on.
    pub cut: bool,
    config: Arc<TransportConfig>,
}

/// An address of this machine.
pub fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A path as the client sees it, or as the server does.
pub fn network(client_port: u16, at_server: bool) -> NetworkPath {
    let (client, server) = (address(client_port), address(SERVER_PORT));
    if at_server {
        NetworkPath { local: server, remote: client }
    } else {
        NetworkPath { local: client, remote: server }
    }
}

/// How two ends behave.
#[derive(Clone)]
pub struct Settings {
    /// Transport of both.
    pub transport: TransportConfig,
    /// When the server sends Retry.
    pub validation: AddressValidation,
    /// Whether the client has been there before: it has a ticket and a token, and sends 0-RTT data.
    pub returning: bool,
    /// What the client has until the server's application lets it in, which nobody does by itself.
    pub admission: Option<Admission>,
}

impl Settings {
    /// A client that comes for the first time.
    pub fn new(transport: TransportConfig) -> Self {
        Self { transport, validation: AddressValidation::Never, returning: false, admission: None }
    }
}

impl Pair {
    /// A client that is about to connect.
    pub fn new(settings: &Settings) -> Self {
        let transport = settings.transport.clone();
        let (client_tls, server_tls) =
            if settings.returning { resumable() } else { (testkit::tls::client(), testkit::tls::server()) };
        let mut server = ServerConfig::new(server_tls, transport.clone());
        server.max_connections = 8;
        server.address_validation = settings.validation;
        server.admission = settings.admission;
        let client = ClientConfig::new(client_tls, transport);
        let first = Self::with(&client, &server);
        if !settings.returning {
            return first;
        }
        // The endpoint of the server stays: its tokens are no good elsewhere.
        let mut first = first;
        first.run(Duration::from_millis(200));
        let now = first.now;
        first.connection(false).expect("there always is one").close(now, 0u8.into(), b"");
        first.run(Duration::from_secs(30));
        let mut second = Self::with(&client, &server);
        second.now = first.now;
        second.server.endpoint = first.server.endpoint;
        second.connection(false).expect("there always is one").start_early_data(first.now);
        second
    }

    fn with(client_config: &ClientConfig, server: &ServerConfig) -> Self {
        let mut client = Endpoint::new(None, [1; 32]);
        let path = network(1, false);
        let connection = client
            .connect(Instant::ORIGIN, client_config, path, testkit::tls::SERVER_NAME)
            .expect("a fixed configuration");
        let peer = |endpoint, connection| Peer { endpoint, connection, others: Vec::new(), lost: false };
        Self {
            now: Instant::ORIGIN,
            client: peer(client, Some(connection)),
            server: peer(Endpoint::new(Some(Arc::new(server.clone())), [2; 32]), None),
            wire: VecDeque::new(),
            cut: false,
            config: server.transport.clone(),
        }
    }

    /// One of the two ends.
    pub fn peer(&mut self, server: bool) -> &mut Peer {
        if server { &mut self.server } else { &mut self.client }
    }

    /// The connection of one of the two ends, if there is one.
    pub fn connection(&mut self, server: bool) -> Option<&mut Connection> {
        self.peer(server).connection.as_mut().map(|(_, connection)| &mut **connection)
    }

    /// Whether both ends have completed the handshake and nobody has closed.
    pub fn is_up(&mut self) -> bool {
        [true, false].into_iter().all(|end| {
            self.connection(end)
                .is_some_and(|connection| !connection.is_handshaking() && !connection.is_closed())
        })
    }

    /// Hands a datagram to an end.
    pub fn deliver(&mut self, to_server: bool, path: NetworkPath, mut data: Vec<u8>) {
        let (now, size) = (self.now, data.len());
        let peer = self.peer(to_server);
        let mut reply = Vec::new();
        let datagram = Datagram { path, ecn: None, data: &mut data };
        match peer.endpoint.handle_datagram(now, datagram, &mut reply) {
            Some(EndpointOutput::ToConnection(handle)) => {
                let mine = peer.connection.iter_mut().chain(&mut peer.others).find(|(h, _)| *h == handle);
                if let Some((_, connection)) = mine {
                    connection.handle_datagram(now, Datagram { path, ecn: None, data: &mut data });
                }
            }
            Some(EndpointOutput::Incoming(incoming)) => {
                let made = peer.endpoint.accept(now, *incoming).expect("TLS takes its configuration");
                match &mut peer.connection {
                    none @ None => *none = Some(made),
                    Some(_) => peer.others.push(made),
                }
            }
            Some(EndpointOutput::Reply(transmit)) => {
                assert_eq!(transmit.size, reply.len());
                assert!(reply.len() <= 3 * size, "a stateless answer of {} bytes to {size}", reply.len());
                let seen = NetworkPath { local: transmit.path.remote, remote: transmit.path.local };
                self.wire.push_back(Flight {
                    arrival: now + LATENCY,
                    to_server: !to_server,
                    path: seen,
                    data: reply,
                });
            }
            Some(EndpointOutput::Misdirected(_)) | None => {}
        }
    }

    /// Puts everything that both ends want to send on the wire, and checks them.
    pub fn flush(&mut self) {
        for server in [false, true] {
            let (now, cut) = (self.now, self.cut);
            let peer = if server { &mut self.server } else { &mut self.client };
            let mut out = Vec::new();
            for (at, (handle, connection)) in peer.connection.iter_mut().chain(&mut peer.others).enumerate() {
                loop {
                    while let Some(event) = connection.poll_endpoint_event() {
                        peer.endpoint.handle_event(*handle, event);
                    }
                    out.clear();
                    let Some(transmit) = connection.poll_transmit(now, 10, &mut out) else { break };
                    assert!(transmit.size == out.len() && !out.is_empty());
                    let seen = NetworkPath { local: transmit.path.remote, remote: transmit.path.local };
                    for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                        let arrival = now + LATENCY;
                        if !cut {
                            let (to_server, data) = (!server, datagram.to_vec());
                            self.wire.push_back(Flight { arrival, to_server, path: seen, data });
                        }
                    }
                    assert!(self.wire.len() < 10_000, "an end sends without limit");
                }
                while let Some(event) = connection.poll_event() {
                    if at == 0 && matches!(event, Event::ConnectionLost(_)) {
                        assert!(!std::mem::replace(&mut peer.lost, true), "lost twice");
                    }
                }
                check(connection, &self.config);
                assert!(at > 0 || peer.lost || !connection.is_closed(), "closed without a word");
            }
        }
    }

    /// Runs for `limit`, delivering everything faithfully.
    pub fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        let (mut deliveries, mut rounds) = (0, 0);
        loop {
            self.flush();
            let peers = [&self.client, &self.server].into_iter();
            let connections = peers.flat_map(|peer| peer.connection.iter().chain(&peer.others));
            let timers = connections.filter_map(|(_, connection)| connection.poll_timeout());
            let next = timers.chain(self.wire.front().map(|flight| flight.arrival)).min();
            let Some(next) = next.filter(|&next| next <= end && deliveries < MAX_DELIVERIES) else { break };
            rounds = if next > self.now { 0 } else { rounds + 1 };
            assert!(rounds < MAX_ROUNDS_AT_ONCE, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            while self.wire.front().is_some_and(|flight| flight.arrival <= self.now) {
                let flight = self.wire.pop_front().expect("there is a first one");
                deliveries += 1;
                self.deliver(flight.to_server, flight.path, flight.data);
            }
            for peer in [&mut self.client, &mut self.server] {
                for (_, connection) in peer.connection.iter_mut().chain(&mut peer.others) {
                    if connection.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
                        connection.handle_timeout(self.now);
                    }
                }
            }
        }
        self.now = end;
    }

    /// Sends some bytes from the client and expects the server to read them.
    pub fn expect_transfer(&mut self) {
        const DATA: &[u8] = b"the connection works";
        let client = self.connection(false).expect("there always is one");
        let id = client.open(Dir::Bi).expect("the peer allows a stream");
        assert_eq!(client.write(id, DATA), Ok(DATA.len()));
        client.finish(id).expect("it is open");
        self.run(Duration::from_secs(10));
        let server = self.connection(true).expect("it was there");
        let mut buffer = [0; 64];
        assert_eq!(server.read(id, &mut buffer), Ok(Read::Data(DATA.len())));
        assert_eq!(&buffer[..DATA.len()], DATA);
    }

    /// Cuts the wire and expects every connection to end.
    pub fn expect_end(&mut self) {
        self.cut = true;
        self.wire.clear();
        for _ in 0..30 {
            self.run(Duration::from_secs(10));
        }
        for peer in [&self.client, &self.server] {
            for (_, connection) in peer.connection.iter().chain(&peer.others) {
                assert!(connection.is_drained(), "a connection outlives its idle timeout");
            }
            assert_eq!(peer.endpoint.open_connections(), 0);
        }
    }
}

/// TLS that gives out tickets and accepts early data.
fn resumable() -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
    let mut client = rustls::ClientConfig::clone(&testkit::tls::client());
    client.resumption = rustls::client::Resumption::in_memory_sessions(4);
    client.enable_early_data = true;
    let mut server = rustls::ServerConfig::clone(&testkit::tls::server());
    server.session_storage = rustls::server::ServerSessionMemoryCache::new(4);
    server.send_tls13_tickets = 2;
    server.max_early_data_size = u32::MAX;
    (Arc::new(client), Arc::new(server))
}

/// The limits of one connection's memory.
fn check(connection: &Connection, config: &TransportConfig) {
    let streams = connection.stream_stats();
    assert!(streams.receive_buffered <= config.receive_window);
    assert!(streams.send_buffered <= config.send_buffer);
    assert!(streams.gaps <= MAX_GAPS);
    assert!(connection.stats().decoder_memory <= config.repair.decoder_memory);
    assert!(connection.paths().len() <= config.max_paths.max(1) as usize + 1);
}
