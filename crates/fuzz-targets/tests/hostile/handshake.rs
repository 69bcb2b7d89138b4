//! Strangers who start handshakes by the hundred, and peers who do not take a close for an answer.

use std::{net::SocketAddr, sync::Arc};

use fuzz_targets::pair::{SERVER_PORT, address, network};
use proto::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Endpoint, EndpointOutput, NetworkPath, PathId,
    ServerConfig, Side, TransportErrorCode, fuzzing,
    wire::{Crypto, Frame, PacketKind, ProtectedHeader},
};
use units::{Duration, Instant};

use crate::siege::{Meter, Siege, Traffic, config, frames};

/// Connections that the server under test bears.
const MAX_CONNECTIONS: usize = 32;

/// A server on which strangers call, each from an address of its own.
struct Front {
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Box<Connection>)>,
    now: Instant,
    got: Traffic,
    said: Traffic,
    /// Dropped last: whoever measures next must not see what this holds come or go.
    meter: Meter,
}

impl Front {
    /// Waits for the meter's turn before it allocates anything.
    fn new() -> Self {
        let mut meter = Meter::start();
        let server = ServerConfig {
            max_connections: MAX_CONNECTIONS,
            ..ServerConfig::new(testkit::tls::server(), config())
        };
        let endpoint = Endpoint::new(Some(Arc::new(server)), [9; 32]);
        meter.reset();
        Self {
            endpoint,
            connections: Vec::new(),
            now: Instant::ORIGIN,
            got: Traffic::default(),
            said: Traffic::default(),
            meter,
        }
    }

    /// A datagram from a forged address; returns what is answered at once, without a connection.
    fn take(&mut self, from: SocketAddr, data: &mut [u8]) -> Option<Vec<u8>> {
        let path = NetworkPath { local: address(SERVER_PORT), remote: from };
        self.got.datagrams += 1;
        self.got.bytes += data.len() as u64;
        let size = data.len();
        let mut reply = Vec::new();
        let datagram = Datagram { path, ecn: None, data };
        match self.endpoint.handle_datagram(self.now, datagram, &mut reply)? {
            EndpointOutput::Incoming(incoming) => {
                self.connections.push(self.endpoint.accept(self.now, *incoming).unwrap());
            }
            EndpointOutput::Reply(_) => {
                assert!(reply.len() <= size, "a stateless answer of {} bytes to {size}", reply.len());
                self.said.datagrams += 1;
                self.said.bytes += reply.len() as u64;
                return Some(reply);
            }
            EndpointOutput::ToConnection(_) | EndpointOutput::Misdirected(_) => {}
        }
        None
    }

    /// Lets the connections send, to nobody, and time pass until `end`.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for (handle, connection) in &mut self.connections {
            let (mut now, mut out) = (self.now, Vec::new());
            loop {
                out.clear();
                while let Some(transmit) = connection.poll_transmit(now, 10, &mut out) {
                    self.said.datagrams +=
                        out.chunks(transmit.segment_size.unwrap_or(out.len())).count() as u64;
                    self.said.bytes += out.len() as u64;
                    out.clear();
                }
                while let Some(event) = connection.poll_endpoint_event() {
                    self.endpoint.handle_event(*handle, event);
                }
                while connection.poll_event().is_some() {}
                let Some(next) = connection.poll_timeout().filter(|next| *next <= end) else { break };
                now = now.max(next);
                connection.handle_timeout(now);
            }
        }
        self.connections.retain(|(_, connection)| !connection.is_drained());
        self.now = end;
    }
}

/// The first datagram of a client of its own.
fn first_flight(seed: u8) -> Vec<u8> {
    let mut endpoint = Endpoint::new(None, [seed; 32]);
    let client = ClientConfig::new(testkit::tls::client(), config());
    let path = network(1, false);
    let connection = endpoint.connect(Instant::ORIGIN, &client, path, testkit::tls::SERVER_NAME);
    let (_, mut connection) = connection.expect("a fixed configuration");
    let mut out = Vec::new();
    connection.poll_transmit(Instant::ORIGIN, 1, &mut out).expect("a client speaks first");
    out
}

fn stranger(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 1_000))
}

/// Twice as many first flights as the server bears connections, from addresses that never answer:
/// connections up to the limit of 96 KiB each, CONNECTION_REFUSED without state beyond; three bytes
/// per byte at most; after the idle timeout nothing is left.
#[test]
fn a_flood_of_first_flights_is_bounded_in_memory_and_answers() {
    const PER_CONNECTION: usize = 96 << 10;
    let mut front = Front::new();
    let flights: Vec<Vec<u8>> = (0..2 * MAX_CONNECTIONS as u8).map(first_flight).collect();
    front.meter.reset();
    let mut refused = 0;
    for (n, flight) in flights.iter().enumerate() {
        refused += usize::from(front.take(stranger(n), &mut flight.clone()).is_some());
        assert!(front.endpoint.open_connections() <= MAX_CONNECTIONS);
    }
    assert_eq!(refused, MAX_CONNECTIONS);
    front.pass(Duration::from_secs(10));
    assert!(
        front.said.bytes > 0 && front.said.bytes <= 3 * front.got.bytes,
        "{:?} for {:?}",
        front.said,
        front.got
    );
    let peak = front.meter.peak();
    assert!(peak <= MAX_CONNECTIONS * PER_CONNECTION, "{peak} bytes for {MAX_CONNECTIONS} connections");
    front.pass(Duration::from_secs(60));
    assert_eq!(front.endpoint.open_connections(), 0);
    assert!(front.connections.is_empty());
    front.connections.shrink_to_fit();
    assert!(front.meter.held() <= 16 << 10, "{} bytes are left", front.meter.held());
}

/// Initials that authenticate but hold no ClientHello: the same bounds, and the connection is
/// closed at once.
#[test]
fn initials_with_nonsense_are_closed_at_threefold_at_most() {
    let mut front = Front::new();
    for n in 0..MAX_CONNECTIONS {
        let flight = first_flight(n as u8);
        let header = ProtectedHeader::decode(&flight, 8).expect("our own packet");
        let cids = (header.dcid, header.scid);
        let mut payload = Vec::new();
        Crypto { offset: 0, data: &[0xff; 300] }.encode(&mut payload);
        payload.resize(1_180, 0);
        let packet = fuzzing::initial_packet(&cids.0, Side::Client, cids, &[], 0, &payload);
        front.take(stranger(n), &mut packet.expect("keys follow from the connection id"));
    }
    front.pass(Duration::from_secs(5));
    assert_eq!(front.endpoint.open_connections(), 0, "none lives on for the idle timeout");
    assert!(front.said.bytes <= 3 * front.got.bytes);
}

/// Noise, short datagrams and unknown versions: silence, or a version negotiation smaller than the
/// question; no state.
#[test]
fn noise_makes_no_connections() {
    const BOUND: usize = 16 << 10;
    let mut front = Front::new();
    for n in 0..20_000usize {
        let mut data = [(n as u8).wrapping_mul(31); 1_200];
        data[0] |= if n % 2 == 0 { 0xc0 } else { 0x40 };
        if n % 3 == 0 {
            // Version 1 and connection ids of eight bytes, but nothing that could be decrypted.
            data[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
            data[14] = 8;
        }
        let len = if n % 5 == 0 { 300 } else { 1_200 };
        front.take(stranger(n), &mut data[..len]);
    }
    assert_eq!(front.endpoint.open_connections(), 0);
    assert!(front.said.bytes * 4 <= front.got.bytes, "{:?} for {:?}", front.said, front.got);
    assert!(front.meter.peak() <= BOUND, "{} bytes", front.meter.peak());
}

/// A peer that goes on after it was closed gets CONNECTION_CLOSE ever more rarely: for 10,000
/// packets at most 16 (RFC 9000 section 10.2.1), and nothing is kept.
#[test]
fn packets_after_the_close_are_answered_ever_more_rarely() {
    let mut siege = Siege::of_server(&config());
    let now = siege.now();
    siege.victim().close(now, 7u8.into(), b"enough");
    siege.hear();
    siege.meter.reset();
    let before = siege.answered.datagrams;
    let ping = frames([Frame::Ping]);
    for _ in 0..10_000 {
        siege.send(&ping);
        siege.hear();
    }
    assert!(siege.answered.datagrams - before <= 16, "{:?}", siege.answered);
    siege.assert_memory(8 << 10);
}

/// Frames that a packet of their kind may not carry: PROTOCOL_VIOLATION.
#[test]
fn frames_in_the_wrong_packet_end_the_connection() {
    let mut siege = Siege::of_client(&config());
    siege.send(&frames([Frame::RetireConnectionId(proto::wire::RetireConnectionId {
        path: None,
        sequence: 9,
    })]));
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    drop(siege);
    let mut siege = Siege::of_server(&config());
    siege.send(&frames([Frame::HandshakeDone]));
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    drop(siege);
    let mut siege = Siege::of_server(&config());
    siege.send(&frames([Frame::NewToken(proto::wire::NewToken { token: b"from a client" })]));
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// Packets that do not authenticate, to a connection id that is known: nothing is answered, nothing
/// is kept, and the connection goes on.
#[test]
fn forged_packets_cost_a_decryption_and_nothing_else() {
    let mut siege = Siege::of_server(&config());
    let now = siege.now();
    let ping = frames([Frame::Ping]);
    let genuine = siege.attacker().seal_for_fuzzing(now, PacketKind::OneRtt, PathId::ZERO, &ping);
    let genuine = genuine.expect("it has the keys");
    for n in 0..20_000u32 {
        let mut forged = genuine.clone();
        forged.resize(1_200, n as u8);
        forged[12..16].copy_from_slice(&n.to_be_bytes());
        siege.pair.deliver(true, network(1, true), forged);
        siege.hear();
    }
    assert_eq!(siege.answered.datagrams, 0);
    siege.assert_open();
    siege.assert_memory(64 << 10);
    siege.pair.deliver(true, network(1, true), genuine);
    siege.pair.expect_transfer();
}
