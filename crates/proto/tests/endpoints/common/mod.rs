//! Two endpoints in memory, joined by wires in virtual time.

#![allow(dead_code)] // every test file uses a part of it

pub(crate) mod tls;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use mendpath_proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Dir, Endpoint, EndpointOutput, Event, NetworkPath,
    PathEvent, PathId, Read, ReadError, ServerConfig, TransportConfig, WriteError,
};
use units::{Duration, Instant};

pub(crate) fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(crate) const SERVER: u16 = 443;

/// TLS configurations for a fresh self-signed certificate.
pub(crate) fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
    tls::tls(vec!["localhost".to_owned()])
}

pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Box<Connection>)>,
    pub(crate) events: Vec<Event>,
}

/// Which datagrams vanish: the n-th on a path.
pub(crate) type Loses = Box<dyn Fn(u64, &NetworkPath) -> bool>;

/// How long the n-th datagram takes on a path.
pub(crate) type Delays = Box<dyn Fn(u64, &NetworkPath) -> Duration>;

/// A client and a server joined by wires of one millisecond, which drop what `lose` names.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Peer,
    pub(crate) server: Peer,
    /// In flight, by arrival and number: whether to the server, its path as the receiver sees it,
    /// bytes.
    pub(crate) wire: BTreeMap<(Instant, u64), (bool, NetworkPath, Vec<u8>)>,
    pub(crate) sent: u64,
    pub(crate) lose: Loses,
    /// How long the n-th datagram takes.
    pub(crate) delay: Delays,
    /// Larger datagrams vanish.
    pub(crate) largest: usize,
    /// How many have.
    pub(crate) too_large: u64,
}

impl Pair {
    pub(crate) fn new(transport: TransportConfig) -> Self {
        let (client_tls, server_tls) = tls();
        let server =
            ServerConfig { max_connections: 1, ..ServerConfig::new(Arc::new(server_tls), transport.clone()) };
        let config = ClientConfig::new(Arc::new(client_tls), transport);
        Self::with(&config, server)
    }

    pub(crate) fn with(config: &ClientConfig, server: ServerConfig) -> Self {
        let mut client = Endpoint::new(None, [1; 32]);
        let path = NetworkPath { local: addr(1), remote: addr(SERVER) };
        let connection = client.connect(Instant::ORIGIN, config, path, "localhost").unwrap();
        Self {
            now: Instant::ORIGIN,
            client: Peer { endpoint: client, connection: Some(connection), events: Vec::new() },
            server: Peer {
                endpoint: Endpoint::new(Some(Arc::new(server)), [2; 32]),
                connection: None,
                events: Vec::new(),
            },
            wire: BTreeMap::new(),
            sent: 0,
            lose: Box::new(|_, _| false),
            delay: Box::new(|_, _| Duration::from_millis(1)),
            largest: 65_535,
            too_large: 0,
        }
    }

    pub(crate) fn client(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().unwrap().1
    }

    pub(crate) fn server(&mut self) -> &mut Connection {
        &mut self.server.connection.as_mut().unwrap().1
    }

    /// What an endpoint answers without a connection.
    fn answer(&mut self, to_server: bool, path: NetworkPath, datagram: Vec<u8>) {
        self.sent += 1;
        let seen = NetworkPath { local: path.remote, remote: path.local };
        let at = self.now + (self.delay)(self.sent, &path);
        self.wire.insert((at, self.sent), (to_server, seen, datagram));
    }

    pub(crate) fn flush(&mut self, to_server: bool) {
        let peer = if to_server { &mut self.client } else { &mut self.server };
        let Some((handle, connection)) = &mut peer.connection else { return };
        while let Some(event) = connection.poll_endpoint_event() {
            peer.endpoint.handle_event(*handle, event);
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(self.now, 10, &mut out) {
            assert_eq!(transmit.size, out.len());
            assert!(out.len() <= 65_507, "a batch of {} bytes is more than one system call", out.len());
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.sent += 1;
                let too_large = datagram.len() > self.largest;
                self.too_large += u64::from(too_large);
                if (self.lose)(self.sent, &transmit.path) || too_large {
                    continue;
                }
                let seen = NetworkPath { local: transmit.path.remote, remote: transmit.path.local };
                let at = self.now + (self.delay)(self.sent, &transmit.path);
                self.wire.insert((at, self.sent), (to_server, seen, datagram.to_vec()));
            }
            out.clear();
        }
        while let Some(event) = connection.poll_event() {
            peer.events.push(event);
        }
    }

    /// Runs until nothing happens any more, or for `limit`.
    pub(crate) fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        loop {
            self.flush(true);
            self.flush(false);
            let timers = [&self.client, &self.server]
                .into_iter()
                .filter_map(|p| p.connection.as_ref()?.1.poll_timeout())
                .chain(self.wire.keys().next().map(|(at, _)| *at));
            let Some(next) = timers.min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            while self.wire.keys().next().is_some_and(|(at, _)| *at <= self.now) {
                let (_, (to_server, path, mut data)) = self.wire.pop_first().unwrap();
                let peer = if to_server { &mut self.server } else { &mut self.client };
                let datagram = Datagram { path, ecn: None, data: &mut data };
                let mut reply = Vec::new();
                match peer.endpoint.handle_datagram(self.now, datagram, &mut reply) {
                    Some(EndpointOutput::ToConnection(_)) => {
                        let datagram = Datagram { path, ecn: None, data: &mut data };
                        peer.connection.as_mut().unwrap().1.handle_datagram(self.now, datagram);
                    }
                    Some(EndpointOutput::Incoming(incoming)) => {
                        peer.connection = Some(peer.endpoint.accept(self.now, *incoming).unwrap());
                    }
                    Some(EndpointOutput::Reply(transmit)) => self.answer(!to_server, transmit.path, reply),
                    Some(EndpointOutput::Misdirected(_)) | None => {}
                }
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

    /// Sends `len` bytes on a new stream of the client and checks that the server reads them.
    pub(crate) fn transfer(&mut self, len: usize, limit: Duration) {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
        let id = self.client().open(Dir::Bi).unwrap();
        let (mut written, mut received) = (0, Vec::new());
        let end = self.now + limit;
        let mut buffer = vec![0; 65_536];
        let mut finished = false;
        while !finished && self.now < end {
            while written < data.len() {
                match self.client().write(id, &data[written..]) {
                    Ok(n) => written += n,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
            if written == data.len() {
                let _ = self.client().finish(id);
            }
            self.run(Duration::from_millis(1));
            let Some(_) = self.server.connection else { continue };
            while self.server().accept(Dir::Bi).is_some() {}
            loop {
                match self.server().read(id, &mut buffer) {
                    Ok(Read::Data(n)) => received.extend_from_slice(&buffer[..n]),
                    Ok(Read::Finished) => {
                        finished = true;
                        // Or the stream would stay open.
                        let _ = self.server().finish(id);
                        break;
                    }
                    Err(ReadError::Blocked | ReadError::Unknown) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        assert!(
            finished,
            "{} of {len} bytes after {limit}; client {:?}",
            received.len(),
            self.client().paths()
        );
        assert!(received == data);
    }

    pub(crate) fn connect(&mut self) {
        self.run(Duration::from_millis(100));
        assert!(!self.client().is_handshaking());
        assert!(!self.server().is_handshaking());
    }

    pub(crate) fn open_path(&mut self, port: u16) -> PathId {
        let now = self.now;
        let path = NetworkPath { local: addr(port), remote: addr(SERVER) };
        let id = self.client().open_path(now, path).unwrap();
        self.run(Duration::from_millis(100));
        assert!(
            self.client.events.iter().any(|e| matches!(e, Event::Path(PathEvent::Validated(p)) if *p == id))
        );
        id
    }
}
