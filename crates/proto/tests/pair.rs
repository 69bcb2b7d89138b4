//! Two endpoints in memory: handshake, streams, paths, close. Loss and random scenarios are in `testkit`.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, Datagram, Dir, Endpoint, EndpointOutput,
    Event, NetworkPath, PathEvent, PathId, Read, ReadError, RecoveryKind, ServerConfig, StreamEvent,
    TransportConfig, WriteError,
};
use units::{Duration, Instant};

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

const SERVER: u16 = 443;

/// TLS configurations for a fresh self-signed certificate.
fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = certified.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key.into())
        .unwrap();
    (client, server)
}

struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
    events: Vec<Event>,
}

/// Which datagrams vanish: the n-th on a path.
type Loses = Box<dyn Fn(u64, &NetworkPath) -> bool>;

/// A client and a server joined by wires of one millisecond, which drop what `lose` names.
struct Pair {
    now: Instant,
    client: Peer,
    server: Peer,
    /// In flight: arrival, whether to the server, its path as the receiver sees it, bytes.
    wire: VecDeque<(Instant, bool, NetworkPath, Vec<u8>)>,
    sent: u64,
    lose: Loses,
    /// Larger datagrams vanish.
    largest: usize,
}

impl Pair {
    fn new(transport: TransportConfig) -> Self {
        let (client_tls, server_tls) = tls();
        let server =
            ServerConfig { tls: Arc::new(server_tls), transport: transport.clone(), max_connections: 1 };
        let mut client = Endpoint::new(None, [1; 32]);
        let config = ClientConfig { tls: Arc::new(client_tls), transport };
        let path = NetworkPath { local: addr(1), remote: addr(SERVER) };
        let connection = client.connect(Instant::ORIGIN, &config, path, "localhost").unwrap();
        Self {
            now: Instant::ORIGIN,
            client: Peer { endpoint: client, connection: Some(connection), events: Vec::new() },
            server: Peer {
                endpoint: Endpoint::new(Some(Arc::new(server)), [2; 32]),
                connection: None,
                events: Vec::new(),
            },
            wire: VecDeque::new(),
            sent: 0,
            lose: Box::new(|_, _| false),
            largest: 65_535,
        }
    }

    fn client(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().unwrap().1
    }

    fn server(&mut self) -> &mut Connection {
        &mut self.server.connection.as_mut().unwrap().1
    }

    fn flush(&mut self, to_server: bool) {
        let peer = if to_server { &mut self.client } else { &mut self.server };
        let Some((handle, connection)) = &mut peer.connection else { return };
        while let Some(event) = connection.poll_endpoint_event() {
            peer.endpoint.handle_event(*handle, event);
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(self.now, 10, &mut out) {
            assert_eq!(transmit.size, out.len());
            for datagram in out.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.sent += 1;
                if (self.lose)(self.sent, &transmit.path) || datagram.len() > self.largest {
                    continue;
                }
                let seen = NetworkPath { local: transmit.path.remote, remote: transmit.path.local };
                self.wire.push_back((
                    self.now + Duration::from_millis(1),
                    to_server,
                    seen,
                    datagram.to_vec(),
                ));
            }
            out.clear();
        }
        while let Some(event) = connection.poll_event() {
            peer.events.push(event);
        }
    }

    /// Runs until nothing happens any more, or for `limit`.
    fn run(&mut self, limit: Duration) {
        let end = self.now + limit;
        loop {
            self.flush(true);
            self.flush(false);
            let timers = [&self.client, &self.server]
                .into_iter()
                .filter_map(|p| p.connection.as_ref()?.1.poll_timeout())
                .chain(self.wire.front().map(|w| w.0));
            let Some(next) = timers.min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            while self.wire.front().is_some_and(|w| w.0 <= self.now) {
                let (_, to_server, path, mut data) = self.wire.pop_front().unwrap();
                let peer = if to_server { &mut self.server } else { &mut self.client };
                let datagram = Datagram { path, ecn: None, data: &mut data };
                match peer.endpoint.handle_datagram(self.now, datagram, &mut Vec::new()) {
                    Some(EndpointOutput::ToConnection(_, event)) => {
                        peer.connection.as_mut().unwrap().1.handle_event(self.now, event);
                    }
                    Some(EndpointOutput::Accepted(handle, connection)) => {
                        peer.connection = Some((handle, connection));
                    }
                    _ => {}
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
    fn transfer(&mut self, len: usize, limit: Duration) {
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

    fn connect(&mut self) {
        self.run(Duration::from_millis(100));
        assert!(!self.client().is_handshaking());
        assert!(!self.server().is_handshaking());
    }

    fn open_path(&mut self, port: u16) -> PathId {
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

#[test]
fn handshake_and_a_stream() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    assert!(pair.client().multipath_negotiated() && pair.client().repair_negotiated());
    pair.transfer(1_000_000, Duration::from_secs(10));
    assert_eq!(pair.client().stats().packets_lost, 0);
}

#[test]
fn every_early_packet_may_be_lost() {
    for lost in 1..=12 {
        let mut pair = Pair::new(TransportConfig::default());
        pair.lose = Box::new(move |n, _| n == lost);
        pair.run(Duration::from_secs(3));
        assert!(!pair.client().is_handshaking(), "packet {lost} lost");
        pair.transfer(10_000, Duration::from_secs(5));
    }
}

#[test]
fn two_paths_share_a_transfer_and_one_can_go() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let second = pair.open_path(2);
    pair.transfer(2_000_000, Duration::from_secs(10));
    let paths = pair.client().paths();
    assert!(paths.iter().all(|p| p.packets_sent > 100), "{paths:?}");
    let now = pair.now;
    pair.client().close_path(now, second, 0).unwrap();
    pair.transfer(1_000_000, Duration::from_secs(10));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.client().paths().len(), 1);
    assert_eq!(pair.server().paths().len(), 1);
    // Path ids are never used again, but another path may be opened.
    let third = pair.open_path(3);
    assert!(third > second);
    pair.transfer(1_000_000, Duration::from_secs(10));
}

#[test]
fn many_paths_may_come_and_go() {
    let mut pair = Pair::new(TransportConfig { max_paths: 3, ..TransportConfig::default() });
    pair.connect();
    for port in 2..40 {
        let id = pair.open_path(port);
        let now = pair.now;
        pair.client().close_path(now, id, 0).unwrap();
        pair.run(Duration::from_secs(2));
    }
    pair.transfer(10_000, Duration::from_secs(5));
}

#[test]
fn data_moves_off_a_dead_path() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.open_path(2);
    pair.transfer(100_000, Duration::from_secs(10));
    pair.lose = Box::new(|_, path| path.local.port() == 2 || path.remote.port() == 2);
    pair.transfer(1_000_000, Duration::from_secs(3));
    pair.lose = Box::new(|_, path| path.local.port() == 1 || path.remote.port() == 1);
    pair.run(Duration::from_secs(3));
    pair.transfer(1_000_000, Duration::from_secs(3));
}

#[test]
fn random_loss_with_every_scheme() {
    for recovery in RecoveryKind::ALL {
        let mut pair = Pair::new(TransportConfig { recovery: *recovery, ..TransportConfig::default() });
        pair.connect();
        pair.open_path(2);
        pair.lose = Box::new(|n, _| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 13);
        for _ in 0..10 {
            pair.transfer(100_000, Duration::from_secs(20));
        }
        pair.run(Duration::from_secs(1));
        let stats = pair.client().stats();
        assert!(stats.packets_lost > 10, "{recovery}: {stats:?}");
        assert_eq!(stats.packets_mended > 0, *recovery != RecoveryKind::None, "{recovery}: {stats:?}");
        let coded = *recovery == RecoveryKind::Cofuso;
        assert_eq!(pair.server().stats().packets_recovered > 0, coded, "{recovery}");
    }
}

#[test]
fn closing_tells_the_peer_and_drains() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let now = pair.now;
    pair.client().close(now, 7, b"done");
    pair.run(Duration::from_secs(5));
    let told = |e: &Event| matches!(e, Event::ConnectionLost(ConnectionError::ApplicationClosed { code: 7, reason }) if reason == b"done");
    assert!(pair.server.events.iter().any(told), "{:?}", pair.server.events);
    assert!(pair.client().is_drained() && pair.server().is_drained());
    assert_eq!(pair.server.endpoint.open_connections(), 0);
}

#[test]
fn silence_times_out() {
    let mut pair =
        Pair::new(TransportConfig { max_idle_timeout: Duration::from_secs(3), ..TransportConfig::default() });
    pair.connect();
    pair.lose = Box::new(|_, _| true);
    pair.run(Duration::from_secs(10));
    for peer in [&pair.client, &pair.server] {
        assert!(peer.events.iter().any(|e| matches!(e, Event::ConnectionLost(ConnectionError::TimedOut))));
    }
}

#[test]
fn keep_alive_keeps_an_idle_connection() {
    let mut pair = Pair::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(3),
        keep_alive: Some(Duration::from_secs(1)),
        ..TransportConfig::default()
    });
    pair.connect();
    pair.run(Duration::from_secs(30));
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
}

#[test]
fn datagrams_arrive() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let max = pair.client().max_datagram_size().unwrap();
    pair.client().send_datagram(vec![1; max].into()).unwrap();
    assert!(pair.client().send_datagram(vec![1; max + 1].into()).is_err());
    pair.client().send_datagram(vec![2; 10].into()).unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server().receive_datagram().unwrap().len(), max);
    assert_eq!(pair.server().receive_datagram().as_deref(), Some(&[2; 10][..]));
    assert!(pair.server().receive_datagram().is_none());
}

#[test]
fn server_events_say_that_a_stream_was_opened() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.transfer(10, Duration::from_secs(1));
    let opened = |e: &Event| matches!(e, Event::Stream(StreamEvent::Opened { dir: Dir::Bi }));
    assert!(pair.server.events.iter().any(opened));
}

#[test]
fn every_path_finds_its_size() {
    let mut pair = Pair::new(TransportConfig { max_datagram_size: 1_400, ..TransportConfig::default() });
    pair.connect();
    pair.open_path(2);
    for stats in pair.client().paths().into_iter().chain(pair.server().paths()) {
        assert_eq!(stats.mtu, 1_400, "{stats:?}");
    }
    let lost = pair.client().stats().packets_lost + pair.server().stats().packets_lost;
    assert_eq!(lost, 0);
}

#[test]
fn a_narrow_path_works_at_the_base_size() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.largest = 1_200;
    pair.connect();
    let id = pair
        .client()
        .open_path(Instant::ORIGIN, NetworkPath { local: addr(2), remote: addr(SERVER) })
        .unwrap();
    pair.run(Duration::from_secs(2));
    assert!(pair.client.events.iter().any(|e| matches!(e, Event::Path(PathEvent::Validated(p)) if *p == id)));
    pair.transfer(500_000, Duration::from_secs(5));
    assert!(
        pair.client().paths().iter().all(|p| p.mtu == 1_200 && p.bytes_lost == 0),
        "{:?}",
        pair.client().paths()
    );
}
