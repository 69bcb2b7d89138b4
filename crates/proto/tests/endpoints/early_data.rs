//! Session tickets and data before the handshake is complete (RFC 9001 section 4.6, RFC 9000
//! section 7.4.1).

use std::sync::Arc;

use mendpath_proto::{
    AddressValidation, ClientConfig, ConnectionError, Datagram, Dir, Endpoint, EndpointOutput, Event, Read,
    ReadError, RecoveryKind, ServerConfig, StreamId, TransportConfig, TransportErrorCode,
};
use units::{Duration, Instant};

use crate::common::{Pair, tls};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Configurations that know early data, or not.
fn configs(early: bool) -> (ClientConfig, ServerConfig) {
    let (mut client, mut server) = tls();
    client.enable_early_data = early;
    server.max_early_data_size = if early { u32::MAX } else { 0 };
    let transport = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
    let client = ClientConfig::new(Arc::new(client), transport.clone());
    (client, ServerConfig { max_connections: 1, ..ServerConfig::new(Arc::new(server), transport) })
}

/// The same server with another TLS configuration, which shares the stored sessions.
fn refusing(server: &ServerConfig) -> ServerConfig {
    let mut tls = (*server.tls).clone();
    tls.max_early_data_size = 0;
    ServerConfig { tls: Arc::new(tls), ..server.clone() }
}

/// Connects once, so that the client has tickets.
fn visit(client: &ClientConfig, server: &ServerConfig) {
    let mut pair = Pair::with(client, server.clone());
    pair.connect();
    pair.transfer(100, SECOND);
}

/// A pair whose client begins with early data: a stream with `data`.
fn early_pair(client: &ClientConfig, server: &ServerConfig, data: &[u8]) -> (Pair, StreamId) {
    let mut pair = Pair::with(client, server.clone());
    assert!(pair.client().start_early_data(Instant::ORIGIN));
    let id = pair.client().open(Dir::Bi).unwrap();
    assert_eq!(pair.client().write(id, data), Ok(data.len()));
    (pair, id)
}

fn read(connection: &mut mendpath_proto::Connection, id: StreamId) -> Result<Vec<u8>, ReadError> {
    let mut buffer = vec![0; 65_536];
    match connection.read(id, &mut buffer)? {
        Read::Data(n) => Ok(buffer[..n].to_vec()),
        Read::Finished => Ok(Vec::new()),
    }
}

fn zero_rtt_packets(pair: &Pair) -> usize {
    pair.wire.values().filter(|(_, _, bytes)| bytes[0] & 0xf0 == 0xd0).count()
}

#[test]
fn the_second_connection_resumes_the_first() {
    let (client, server) = configs(false);
    visit(&client, &server);
    let mut pair = Pair::with(&client, server);
    assert!(!pair.client().start_early_data(Instant::ORIGIN), "not without being configured");
    pair.connect();
    assert!(pair.client().is_resumed() && pair.server().is_resumed());
    assert_eq!(pair.client().early_data_accepted(), None);
    pair.transfer(10_000, SECOND);
}

#[test]
fn an_early_question_is_answered_within_one_round_trip() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let (mut pair, id) = early_pair(&client, &server, b"question");
    pair.client().send_datagram(b"datagram".to_vec().into()).unwrap();
    pair.run(MS);
    let now = pair.now;
    assert!(pair.server().is_handshaking());
    assert!(pair.server().accept(Dir::Bi).is_none(), "not before the server's application wants it");
    assert!(pair.server().receive_datagram().is_none());
    assert!(pair.server().start_early_data(now));
    assert_eq!(pair.server().accept(Dir::Bi), Some(id));
    assert!(pair.server().is_early(id) && !pair.server().is_early(StreamId(id.0 + 4)));
    assert_eq!(read(pair.server(), id).unwrap(), b"question");
    assert_eq!(pair.server().receive_datagram().as_deref(), Some(&b"datagram"[..]));
    pair.server().write(id, b"answer").unwrap();
    pair.run(MS);
    assert_eq!(read(pair.client(), id).unwrap(), b"answer");
    pair.run(SECOND);
    assert_eq!(pair.client().early_data_accepted(), Some(true));
    assert!(pair.client().multipath_negotiated() && pair.client().repair_negotiated());
    pair.open_path(2);
    pair.transfer(500_000, SECOND);
    assert_eq!(pair.client().stats().packets_lost, 0);
}

/// Paths that begin with datagrams of so many bytes.
fn with_datagrams_of(
    size: u16,
    (client, server): (ClientConfig, ServerConfig),
) -> (ClientConfig, ServerConfig) {
    let transport = Arc::new(TransportConfig {
        initial_datagram_size: size,
        max_datagram_size: size.max(client.transport.max_datagram_size),
        ..(*client.transport).clone()
    });
    (ClientConfig { transport: transport.clone(), ..client }, ServerConfig { transport, ..server })
}

/// Early packets have longer headers than those after the handshake, and cannot have every length.
#[test]
fn the_largest_early_datagram_arrives() {
    for (size, least) in [(1_200, 1_000), (40_000, 16_000)] {
        let (client, server) = with_datagrams_of(size, configs(true));
        visit(&client, &server);
        let mut pair = Pair::with(&client, server);
        assert!(pair.client().start_early_data(Instant::ORIGIN));
        let max = pair.client().max_datagram_size().unwrap();
        assert!(max > least, "{max}");
        pair.client().send_datagram(vec![7; max].into()).unwrap();
        pair.run(MS);
        let now = pair.now;
        assert!(pair.server().start_early_data(now));
        assert_eq!(pair.server().receive_datagram().map(|datagram| datagram.len()), Some(max));
    }
}

/// The Length field of their headers has two bytes, fourteen bits of which count.
#[test]
fn early_packets_are_no_longer_than_they_can_say() {
    let (client, server) = with_datagrams_of(40_000, configs(true));
    visit(&client, &server);
    let data = vec![7; 30_000];
    let (mut pair, id) = early_pair(&client, &server, &data);
    pair.run(SECOND);
    assert_eq!(pair.client().early_data_accepted(), Some(true));
    assert_eq!(pair.server().accept(Dir::Bi), Some(id));
    assert!(read(pair.server(), id).unwrap() == data);
    assert_eq!(pair.client().stats().packets_lost, 0);
}

/// The first 0-RTT packets find no connection when the server answers with a Retry; they are sent
/// again (RFC 9000 section 17.2.5.3).
#[test]
fn early_data_survive_a_retry() {
    let (client, mut server) = configs(true);
    visit(&client, &server);
    server.address_validation = AddressValidation::Always;
    // Nothing from the first visit spares the Retry.
    let client = ClientConfig { tokens: Arc::default(), ..client };
    let (mut pair, id) = early_pair(&client, &server, b"question");
    pair.run(Duration::from_millis(30));
    assert_eq!(pair.server.endpoint.stats().retries_sent, 1);
    assert_eq!(pair.client().early_data_accepted(), Some(true));
    assert_eq!(read(pair.server(), id), Ok(b"question".to_vec()));
    assert_eq!(pair.client().stats().packets_lost, 0, "what Retry discarded is no loss");
}

#[test]
fn a_server_that_waits_reads_early_data_after_the_handshake() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let (mut pair, id) = early_pair(&client, &server, &[7; 5_000]);
    pair.run(SECOND);
    assert_eq!(pair.client().early_data_accepted(), Some(true));
    assert_eq!(pair.server().accept(Dir::Bi), Some(id));
    assert_eq!(read(pair.server(), id).unwrap(), [7; 5_000]);
}

#[test]
fn nothing_is_sent_early_unless_the_application_asks() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let mut pair = Pair::with(&client, server);
    assert!(pair.client().open(Dir::Bi).is_none());
    pair.flush(true);
    assert_eq!((pair.wire.len(), zero_rtt_packets(&pair)), (1, 0));
    pair.connect();
    assert_eq!(pair.client().early_data_accepted(), None);
    assert!(!pair.client().start_early_data(Instant::ORIGIN), "too late");
    pair.transfer(10_000, SECOND);
}

#[test]
fn a_first_visit_cannot_begin_early() {
    let (client, server) = configs(true);
    let mut pair = Pair::with(&client, server);
    assert!(!pair.client().start_early_data(Instant::ORIGIN));
    pair.connect();
    pair.transfer(10_000, SECOND);
}

#[test]
fn rejected_early_data_leaves_no_trace() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let (mut pair, id) = early_pair(&client, &refusing(&server), &[7; 30_000]);
    pair.client().send_datagram(b"datagram".to_vec().into()).unwrap();
    pair.flush(true);
    assert!(zero_rtt_packets(&pair) > 5);
    pair.run(SECOND);
    let rejected = pair.client.events.iter().position(|e| matches!(e, Event::EarlyDataRejected));
    let connected = pair.client.events.iter().position(|e| matches!(e, Event::Connected));
    assert!(rejected.is_some() && rejected < connected);
    assert_eq!(pair.client().early_data_accepted(), Some(false));
    assert!(pair.client().is_resumed(), "the ticket was good for the rest");
    assert!(pair.client().write(id, b"x").is_err());
    assert!(pair.server().accept(Dir::Bi).is_none() && pair.server().receive_datagram().is_none());
    assert_eq!(pair.client().paths()[0].in_flight, 0);
    assert_eq!(pair.client().open(Dir::Uni).map(|id| id.index()), Some(0), "ids start over");
    pair.transfer(500_000, SECOND);
}

#[test]
fn a_server_must_not_go_back_on_its_limits() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let transport = TransportConfig { max_concurrent_uni: 255, ..(*server.transport).clone() };
    let (mut pair, _) =
        early_pair(&client, &ServerConfig { transport: transport.into(), ..server }, b"question");
    pair.run(SECOND);
    let closed = |e: &Event| {
        matches!(
            e,
            Event::ConnectionLost(ConnectionError::TransportError(error))
                if error.code == TransportErrorCode::PROTOCOL_VIOLATION
        )
    };
    assert!(pair.client.events.iter().any(closed), "{:?}", pair.client.events);
}

/// A ticket is good for one connection: who sends the client's packets once more gets a handshake
/// that never ends, and nothing is read.
#[test]
fn replayed_early_data_are_refused() {
    let (client, server) = configs(true);
    visit(&client, &server);
    let (mut pair, id) = early_pair(&client, &server, b"pay ten coins");
    pair.flush(true);
    let recorded: Vec<_> = pair.wire.values().cloned().collect();
    assert!(zero_rtt_packets(&pair) > 0);
    pair.run(SECOND);
    assert_eq!(read(pair.server(), id).unwrap(), b"pay ten coins");
    let mut other = Endpoint::new(Some(Arc::new(server)), [3; 32]);
    let mut victim = None;
    for (_, path, mut data) in recorded {
        let datagram = Datagram { path, ecn: None, data: &mut data };
        match other.handle_datagram(Instant::ORIGIN, datagram, &mut Vec::new()) {
            Some(EndpointOutput::Incoming(incoming)) => {
                victim = Some(other.accept(Instant::ORIGIN, *incoming).unwrap().1);
            }
            Some(EndpointOutput::ToConnection(_)) => {
                let datagram = Datagram { path, ecn: None, data: &mut data };
                victim.as_mut().unwrap().handle_datagram(Instant::ORIGIN, datagram);
            }
            other => panic!("{other:?}"),
        }
    }
    let mut victim = victim.unwrap();
    assert!(victim.start_early_data(Instant::ORIGIN), "it may speak, but hears nothing");
    assert!(victim.accept(Dir::Bi).is_none());
    assert!(victim.is_handshaking());
}

#[test]
fn early_data_survive_loss_and_reordering() {
    let (client, server) = configs(true);
    for lost in 0..12 {
        visit(&client, &server);
        let data: Vec<u8> = (0..8_000_u32).map(|i| (i * 7) as u8).collect();
        let (mut pair, id) = early_pair(&client, &server, &data);
        pair.lose = Box::new(move |n, _| n == lost);
        // Overtaken by what it should introduce: early packets without a connection are dropped.
        pair.delay = Box::new(move |n, _| if lost == 0 && n == 1 { MS * 3 } else { MS });
        pair.client().finish(id).unwrap();
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.client().early_data_accepted(), Some(true), "packet {lost} lost");
        assert_eq!(pair.server().accept(Dir::Bi), Some(id));
        let mut received = Vec::new();
        loop {
            match read(pair.server(), id).unwrap() {
                chunk if chunk.is_empty() => break,
                chunk => received.extend(chunk),
            }
        }
        assert!(received == data, "packet {lost} lost");
    }
}

/// A server that answers early data with more than the amplification limit lets it send.
fn answered_early() -> (Pair, StreamId) {
    let (client, server) = configs(true);
    visit(&client, &server);
    // A token would show where the client is.
    let client = ClientConfig { tokens: Arc::default(), ..client };
    let (mut pair, id) = early_pair(&client, &server, b"question");
    pair.run(MS);
    let now = pair.now;
    assert!(pair.server().start_early_data(now));
    pair.server().accept(Dir::Bi).unwrap();
    pair.server().write(id, &[7; 100_000]).unwrap();
    pair.flush(false);
    (pair, id)
}

#[test]
fn an_early_answer_stays_within_the_amplification_limit() {
    let (mut pair, id) = answered_early();
    let stats = pair.server().stats();
    assert!(stats.bytes_sent <= 3 * stats.bytes_received, "{stats:?}");
    assert!(stats.bytes_sent > 2 * stats.bytes_received, "and uses it: {stats:?}");
    pair.run(SECOND);
    assert_eq!(read(pair.client(), id).unwrap().len(), 65_536);
}

/// Hands the server what is on its way to it.
fn deliver_to_server(pair: &mut Pair) {
    let to_server = pair.wire.iter().filter(|(_, (to_server, ..))| *to_server).map(|(at, _)| *at);
    let arrived: Vec<_> = to_server.collect();
    for at in arrived {
        let (_, path, mut data) = pair.wire.remove(&at).unwrap();
        let now = pair.now;
        pair.server().handle_datagram(now, Datagram { path, ecn: None, data: &mut data });
    }
}

/// What the amplification limit has left is less than a full datagram: an ACK is due, and nothing
/// but the client's next packet would have ended the wait.
#[test]
fn early_data_are_acknowledged_though_no_full_datagram_may_leave() {
    let (mut pair, id) = answered_early();
    for _ in 0..4 {
        pair.client().write(id, b"?").unwrap();
        pair.flush(true);
        deliver_to_server(&mut pair);
        pair.flush(false);
        let next = pair.server().poll_timeout();
        assert!(pair.server().is_handshaking());
        assert!(next.is_some_and(|next| next > pair.now), "it stays due: {next:?}");
    }
    let stats = pair.server().stats();
    assert!(stats.bytes_sent <= 3 * stats.bytes_received, "{stats:?}");
}
