//! Floods: what strangers can make an endpoint spend. Each test states its bound.

use std::net::SocketAddr;

use super::*;
use crate::{
    AddressValidation, CID_LEN, TransportConfig,
    crypto::{self, TAG_LEN},
    wire::{Frame, LongHeader, PacketKind, PathId, Side},
};

const FLOOD: u64 = 10_000;

fn server(configure: impl FnOnce(&mut ServerConfig)) -> Endpoint {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let mut config = ServerConfig::new(Arc::new(tls), TransportConfig::default());
    configure(&mut config);
    Endpoint::new(Some(Arc::new(config)), [1; 32])
}

fn path(host: u64) -> NetworkPath {
    let [.., a, b, c] = host.to_be_bytes();
    let address = |last: [u8; 4], port| SocketAddr::from((last, port));
    NetworkPath { local: address([192, 0, 2, 1], 443), remote: address([10, c, b, a], 1_000) }
}

fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

/// An Initial packet that authenticates and holds PING.
fn initial(dcid: ConnectionId, token: &[u8]) -> Vec<u8> {
    initial_of(dcid, token, 0, MIN_INITIAL_DATAGRAM)
}

/// The same with this number, in so many bytes.
fn initial_of(dcid: ConnectionId, token: &[u8], number: u64, len: usize) -> Vec<u8> {
    let keys = crypto::initial_keys(&dcid, Side::Client);
    let mut packet = Vec::new();
    let header = LongHeader { kind: PacketKind::Initial, token, dcid, scid: cid(u64::MAX) };
    let at = header.encode(number, 2, &mut packet);
    Frame::Ping.encode(&mut packet);
    packet.resize(len - TAG_LEN, 0);
    crypto::seal((&*keys.local.packet, &*keys.local.header), PathId::ZERO, number, &mut packet, &at).unwrap();
    packet
}

/// Bytes of the answer, which is left in `out`.
fn knock(endpoint: &mut Endpoint, now: Instant, data: &mut [u8], out: &mut Vec<u8>) -> usize {
    knock_from(endpoint, 0, now, data, out)
}

/// The same from one of many hosts; neighbours in number are of different networks.
fn knock_from(endpoint: &mut Endpoint, host: u64, now: Instant, data: &mut [u8], out: &mut Vec<u8>) -> usize {
    match endpoint.handle_datagram(now, Datagram { path: path(host), ecn: None, data }, out) {
        Some(EndpointOutput::Reply(transmit)) => transmit.size,
        Some(EndpointOutput::Incoming(incoming)) => {
            endpoint.accept(now, *incoming).unwrap();
            0
        }
        _ => 0,
    }
}

#[test]
fn ten_thousand_initials_without_retry_cost_the_half_open_limit() {
    let mut endpoint = server(|config| {
        config.address_validation = AddressValidation::Never;
        config.max_half_open = 100;
    });
    let mut out = Vec::new();
    for n in 0..FLOOD {
        let size = knock_from(&mut endpoint, n, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
        assert_eq!(size, 0, "the endpoint itself says nothing");
        assert_eq!(endpoint.poll_evicted(), n.checked_sub(100).map(|n| ConnectionHandle(n as usize)));
    }
    let stats = endpoint.stats();
    assert_eq!((endpoint.open_connections(), stats.half_open, stats.accepted), (100, 100, FLOOD));
    assert_eq!((stats.refused, stats.evicted, stats.evicted_by_network), (0, FLOOD - 100, 0));
}

/// The same from one address: it has its share, and keeps nobody else out.
#[test]
fn a_flood_from_one_address_displaces_its_own() {
    let mut endpoint = server(|config| {
        config.address_validation = AddressValidation::Never;
        config.max_half_open = 100;
    });
    let mut out = Vec::new();
    knock_from(&mut endpoint, 1, Instant::ORIGIN, &mut initial(cid(FLOOD), &[]), &mut out);
    for n in 0..FLOOD {
        knock(&mut endpoint, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
        assert_ne!(endpoint.poll_evicted(), Some(ConnectionHandle(0)), "the neighbour stays");
    }
    let stats = endpoint.stats();
    assert_eq!((endpoint.open_connections(), stats.half_open), (26, 26));
    assert_eq!((stats.evicted, stats.evicted_by_network), (FLOOD - 25, FLOOD - 25));
}

#[test]
fn beyond_all_connections_few_are_told_that_they_are_refused() {
    let mut endpoint = server(|config| {
        config.address_validation = AddressValidation::Never;
        config.max_connections = 10;
    });
    let (mut out, mut answered) = (Vec::new(), 0);
    for n in 0..FLOOD {
        let size = knock_from(&mut endpoint, n, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
        assert!(size < 100, "a refusal of {size} bytes for 1,200");
        answered += u64::from(size > 0);
    }
    let stats = endpoint.stats();
    assert_eq!((endpoint.open_connections(), stats.accepted, stats.refused), (10, 10, FLOOD - 10));
    assert_eq!(answered, u64::from(REFUSALS_PER_SECOND));
}

/// Whoever has answered a Retry displaces those who have not, however old it is itself.
#[test]
fn forged_addresses_make_room_for_validated_ones() {
    let mut endpoint = server(|config| {
        config.address_validation = AddressValidation::WhenBusy { half_open: 4 };
        config.max_half_open = 4;
    });
    let mut out = Vec::new();
    for n in 0..4 {
        knock_from(&mut endpoint, n, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
    }
    for n in 4..9 {
        assert!(knock_from(&mut endpoint, n, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out) > 0);
        assert_eq!(endpoint.poll_evicted(), None, "a Retry displaces nobody");
        let header = ProtectedHeader::decode(&out, CID_LEN).unwrap();
        let HeaderKind::Retry { token, .. } = header.kind else { panic!("not a Retry") };
        let mut answer = initial(header.scid, token);
        knock_from(&mut endpoint, n, Instant::ORIGIN, &mut answer, &mut Vec::new());
        assert_eq!(endpoint.poll_evicted(), Some(ConnectionHandle(n as usize - 4)), "in order of age");
    }
    assert_eq!(endpoint.stats().half_open, 4);
}

fn readable(server_id: u8) -> QuicLb {
    QuicLb::new(2, &[0, server_id], 9).unwrap().with_key(&[7; 16])
}

#[test]
fn balancers_can_read_the_id_in_a_retry() {
    let always = |config: &mut ServerConfig| config.address_validation = AddressValidation::Always;
    let mut endpoint = server(always).with_quic_lb(readable(1));
    let mut out = Vec::new();
    assert!(knock(&mut endpoint, Instant::ORIGIN, &mut initial(cid(1), &[]), &mut out) > 0);
    let header = ProtectedHeader::decode(&out, CID_LEN).unwrap();
    let HeaderKind::Retry { token, .. } = header.kind else { panic!("not a Retry") };
    assert!(readable(1).is_ours(&header.scid) && !readable(2).is_ours(&header.scid));
    // A client may send the longer id back.
    knock(&mut endpoint, Instant::ORIGIN, &mut initial(header.scid, token), &mut Vec::new());
    assert_eq!(endpoint.stats().accepted, 1);
}

/// With the reset key that all have, a packet on the wrong way would end its connection.
#[test]
fn packets_for_other_servers_are_not_reset() {
    let mut endpoint = server(|_| {}).with_quic_lb(readable(1));
    let mut out = Vec::new();
    for (server, resets) in [(2, 0), (1, 1)] {
        let mut packet = vec![0x40; 100];
        packet[1..13].copy_from_slice(&readable(server).encode(&[server; 9], 0));
        let size = knock(&mut endpoint, Instant::ORIGIN, &mut packet, &mut out);
        assert_eq!((endpoint.stats().resets_sent, size > 0), (resets, resets > 0));
    }
    assert_eq!(endpoint.stats().dropped, 1);
}

#[test]
fn ten_thousand_initials_with_retry_cost_nothing_but_answers() {
    let mut endpoint =
        server(|config| config.address_validation = AddressValidation::WhenBusy { half_open: 50 });
    let mut out = Vec::new();
    for n in 0..FLOOD {
        let size = knock(&mut endpoint, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
        assert!(size <= 100, "a Retry of {size} bytes for 1,200");
    }
    let stats = endpoint.stats();
    assert_eq!((endpoint.open_connections(), stats.half_open), (50, 50));
    assert_eq!(stats.retries_sent, FLOOD - 50);
    // A client that receives gets in all the same: by its answer to Retry.
    let first = cid(FLOOD);
    assert!(knock(&mut endpoint, Instant::ORIGIN, &mut initial(first, &[]), &mut out) > 0);
    let header = ProtectedHeader::decode(&out, CID_LEN).unwrap();
    let HeaderKind::Retry { token, .. } = header.kind else { panic!("not a Retry") };
    let (mut answer, before) = (initial(header.scid, token), stats.accepted);
    knock(&mut endpoint, Instant::ORIGIN, &mut answer, &mut Vec::new());
    assert_eq!(endpoint.stats().accepted, before + 1);
}

#[test]
fn connections_that_are_forgotten_make_room() {
    let mut endpoint = server(|config| config.max_connections = 2);
    let mut out = Vec::new();
    for n in 0..3 {
        knock(&mut endpoint, Instant::ORIGIN, &mut initial(cid(n), &[]), &mut out);
    }
    assert_eq!((endpoint.open_connections(), endpoint.stats().refused), (2, 1));
    endpoint.forget(ConnectionHandle(0));
    endpoint.forget(ConnectionHandle(0));
    assert_eq!((endpoint.open_connections(), endpoint.stats().half_open), (1, 1));
    knock(&mut endpoint, Instant::ORIGIN, &mut initial(cid(9), &[]), &mut out);
    assert_eq!(endpoint.open_connections(), 2);
}

#[test]
fn what_cannot_be_a_first_packet_is_dropped_without_an_answer() {
    let mut endpoint = server(|_| {});
    let good = initial(cid(1), &[]);
    let mut small = good.clone();
    small.truncate(MIN_INITIAL_DATAGRAM - 1);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let short_id = initial(ConnectionId::new(&[1; 7]).unwrap(), &[]);
    let mut handshake = good.clone();
    handshake[0] = 0xe0;
    let mut no_fixed_bit = good.clone();
    no_fixed_bit[0] &= !0x40;
    let cases = [vec![], vec![0xff], vec![0; 1_200], small, forged, short_id, handshake, no_fixed_bit];
    let count = cases.len() as u64;
    for mut data in cases {
        assert_eq!(knock(&mut endpoint, Instant::ORIGIN, &mut data, &mut Vec::new()), 0, "{data:x?}");
    }
    assert_eq!((endpoint.stats().dropped, endpoint.open_connections()), (count, 0));
    endpoint.set_server_config(None);
    assert_eq!(knock(&mut endpoint, Instant::ORIGIN, &mut good.clone(), &mut Vec::new()), 0);
    assert_eq!(endpoint.open_connections(), 0);
}

/// The client that asks with this datagram.
fn incoming(endpoint: &mut Endpoint, host: u64, data: &mut [u8]) -> Incoming {
    let datagram = Datagram { path: path(host), ecn: None, data };
    match endpoint.handle_datagram(Instant::ORIGIN, datagram, &mut Vec::new()) {
        Some(EndpointOutput::Incoming(incoming)) => *incoming,
        other => panic!("{other:?}"),
    }
}

/// RFC 9000 section 14.1: also of a client that there is a connection for. It is the datagram that has
/// to be large, whatever of it is the packet.
#[test]
fn a_connection_reads_no_initial_of_a_short_datagram_either() {
    let mut endpoint = server(|config| config.address_validation = AddressValidation::Never);
    let first = incoming(&mut endpoint, 1, &mut initial(cid(1), &[]));
    let (_, mut connection) = endpoint.accept(Instant::ORIGIN, first).unwrap();
    let before = connection.stats().packets_received;
    let mut padded = initial_of(cid(1), &[], 3, 300);
    padded.resize(MIN_INITIAL_DATAGRAM, 0);
    let cases = [
        (initial_of(cid(1), &[], 1, MIN_INITIAL_DATAGRAM - 1), 0),
        (initial_of(cid(1), &[], 1, 300), 0),
        (initial_of(cid(1), &[], 2, MIN_INITIAL_DATAGRAM), 1),
        (padded, 2),
    ];
    for (mut data, read) in cases {
        let len = data.len();
        let datagram = Datagram { path: path(1), ecn: None, data: &mut data };
        connection.handle_datagram(Instant::ORIGIN, datagram);
        assert_eq!(connection.stats().packets_received - before, read, "{len} bytes");
    }
}

/// RFC 9000 section 9: addresses do not change before the handshake is confirmed. Else packets from
/// anywhere would pay for what goes to where the first one said it came from.
#[test]
fn a_connection_reads_no_initial_from_elsewhere() {
    let mut endpoint = server(|config| config.address_validation = AddressValidation::Never);
    let first = incoming(&mut endpoint, 1, &mut initial(cid(1), &[]));
    let (_, mut connection) = endpoint.accept(Instant::ORIGIN, first).unwrap();
    let before = connection.stats().packets_received;
    for (host, read) in [(2, 0), (1, 1)] {
        let mut data = initial_of(cid(1), &[], 1, MIN_INITIAL_DATAGRAM);
        let datagram = Datagram { path: path(host), ecn: None, data: &mut data };
        connection.handle_datagram(Instant::ORIGIN, datagram);
        assert_eq!(connection.stats().packets_received - before, read, "from host {host}");
    }
}

#[test]
fn who_waits_for_a_decision_holds_a_place_and_may_lose_it() {
    let mut endpoint = server(|config| {
        config.address_validation = AddressValidation::Never;
        config.max_half_open = 2;
    });
    let first = incoming(&mut endpoint, 1, &mut initial(cid(1), &[]));
    assert!(!first.remote_address_validated() && first.may_retry());
    assert_eq!((first.path(), endpoint.stats().half_open, endpoint.stats().accepted), (path(1), 1, 0));
    let mut again = initial(cid(1), &[]);
    let datagram = Datagram { path: path(1), ecn: None, data: &mut again };
    let output = endpoint.handle_datagram(Instant::ORIGIN, datagram, &mut Vec::new());
    assert!(
        matches!(output, Some(EndpointOutput::ToConnection(handle)) if handle == first.handle()),
        "what follows is for it: {output:?}"
    );
    let second = incoming(&mut endpoint, 2, &mut initial(cid(2), &[]));
    let third = incoming(&mut endpoint, 3, &mut initial(cid(3), &[]));
    assert_eq!(endpoint.poll_evicted(), Some(first.handle()));
    assert_eq!(endpoint.accept(Instant::ORIGIN, first).unwrap_err(), AcceptError::Evicted);
    let (handle, connection) = endpoint.accept(Instant::ORIGIN, second).unwrap();
    assert!(handle == ConnectionHandle(1) && connection.is_handshaking());
    endpoint.ignore(third);
    assert_eq!((endpoint.open_connections(), endpoint.stats().half_open), (1, 1));
    assert_eq!((endpoint.stats().accepted, endpoint.stats().dropped), (1, 1));
}

#[test]
fn the_application_refuses_and_asks_for_proof() {
    let mut endpoint = server(|config| config.address_validation = AddressValidation::Never);
    let mut out = Vec::new();
    let client = incoming(&mut endpoint, 1, &mut initial(cid(1), &[]));
    let transmit = endpoint.refuse(Instant::ORIGIN, client, &"no ".repeat(1_000), &mut out).unwrap();
    assert_eq!((transmit.path, transmit.size), (path(1), out.len()));
    assert!(out.len() < 400, "words for people are cut: {} bytes", out.len());
    let client = incoming(&mut endpoint, 1, &mut initial(cid(2), &[]));
    endpoint.retry(Instant::ORIGIN, client, &mut out).unwrap();
    assert_eq!((endpoint.open_connections(), endpoint.stats().half_open), (0, 0), "nothing is kept");
    let header = ProtectedHeader::decode(&out, CID_LEN).unwrap();
    let HeaderKind::Retry { token, .. } = header.kind else { panic!("not a Retry") };
    let client = incoming(&mut endpoint, 1, &mut initial(header.scid, token));
    assert!(client.remote_address_validated() && !client.may_retry());
    let client = endpoint.retry(Instant::ORIGIN, client, &mut Vec::new()).unwrap_err();
    endpoint.accept(Instant::ORIGIN, *client).unwrap();
    let stats = endpoint.stats();
    assert_eq!((stats.refused, stats.retries_sent, stats.accepted), (1, 1, 1));
}

fn workers(configure: impl FnOnce(&mut ServerConfig), n: usize) -> (crate::Steering, Vec<Endpoint>) {
    let mut endpoint = server(configure);
    let steering = endpoint.steering(n);
    (steering, endpoint.into_workers(steering))
}

/// What an address hands to a worker, whichever it is: the worker that took it in the end.
fn knock_at(
    workers: &mut [Endpoint],
    at: usize,
    host: u64,
    data: &mut [u8],
) -> (usize, Option<EndpointOutput>) {
    let mut out = Vec::new();
    let datagram = Datagram { path: path(host), ecn: None, data: &mut *data };
    match workers[at].handle_datagram(Instant::ORIGIN, datagram, &mut out) {
        Some(EndpointOutput::Misdirected(worker)) => {
            let datagram = Datagram { path: path(host), ecn: None, data };
            let output = workers[worker].handle_datagram(Instant::ORIGIN, datagram, &mut out);
            assert!(!matches!(output, Some(EndpointOutput::Misdirected(_))), "handed on once");
            (worker, output)
        }
        output => (at, output),
    }
}

/// Whichever worker gets it, and from whatever address: an Initial packet ends at the same one, and
/// so does what bears the connection ids that this one issues.
#[test]
fn every_packet_of_a_connection_finds_its_worker() {
    for balanced in [false, true] {
        let mut endpoint = server(|config| config.address_validation = AddressValidation::Never);
        if balanced {
            endpoint = endpoint.with_quic_lb(QuicLb::new(0, b"me", 4).unwrap());
        }
        let steering = endpoint.steering(4);
        let mut workers = endpoint.into_workers(steering);
        let mut taken = [0; 4];
        for n in 0..200 {
            let dcid = cid(n * 0x9e37_79b9);
            let home = steering.worker_of(&dcid);
            let (worker, output) = knock_at(&mut workers, n as usize % 4, n, &mut initial(dcid, &[]));
            let Some(EndpointOutput::Incoming(incoming)) = output else { panic!("{output:?}") };
            assert_eq!(worker, home);
            let (handle, _connection) = workers[worker].accept(Instant::ORIGIN, *incoming).unwrap();
            taken[worker] += 1;
            let issued = workers[worker].new_cid();
            assert_eq!((steering.worker_of(&issued), issued.len()), (home, workers[0].cid_len()));
            workers[worker].handle_event(handle, EndpointEvent(EndpointEventKind::NewCid(issued)));
            let mut short = [&[0x40][..], &issued, &[0; 40]].concat();
            for at in 0..4 {
                let (worker, output) = knock_at(&mut workers, at, 1_000 + n, &mut short);
                assert_eq!(worker, home);
                assert!(
                    matches!(output, Some(EndpointOutput::ToConnection(to)) if to == handle),
                    "{output:?}"
                );
            }
        }
        assert!(taken.iter().all(|n| *n > 20), "{taken:?}");
        let misdirected: u64 = workers.iter().map(|worker| worker.stats().misdirected).sum();
        assert!(misdirected >= 600, "{misdirected}");
    }
}

/// Its connection id is random, so that any worker may get it.
#[test]
fn a_reset_finds_its_worker() {
    let (_, mut workers) = workers(|config| config.address_validation = AddressValidation::Never, 4);
    let token = crate::wire::ResetToken([7; 16]);
    let (_, output) = knock_at(&mut workers, 0, 1, &mut initial(cid(77), &[]));
    let Some(EndpointOutput::Incoming(incoming)) = output else { panic!("{output:?}") };
    let handle = incoming.handle();
    let home = (0..4).find(|at| workers[*at].open_connections() == 1).unwrap();
    workers[home].handle_event(handle, EndpointEvent(EndpointEventKind::ResetTokens(vec![token])));
    for n in 0..64_u64 {
        let mut reset =
            [&[0x40][..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[0; 20], &[7; 16]].concat();
        let (worker, output) = knock_at(&mut workers, n as usize % 4, 1, &mut reset);
        assert_eq!(worker, home);
        assert!(matches!(output, Some(EndpointOutput::ToConnection(to)) if to == handle), "{output:?}");
    }
    workers[home].forget(handle);
    let mut late = [&[0x40; 29][..], &[7; 16]].concat();
    let (_, output) = knock_at(&mut workers, 0, 1, &mut late);
    assert!(!matches!(output, Some(EndpointOutput::ToConnection(_))), "{output:?}");
}

/// The limit on connections is that of all workers together, a token is good once with any.
#[test]
fn workers_share_limits_and_tokens() {
    let (steering, mut workers) = workers(
        |config| {
            config.address_validation = AddressValidation::Never;
            config.max_connections = 10;
        },
        4,
    );
    let mut taken = 0;
    for n in 0..40 {
        let dcid = cid(n * 0x9e37_79b9);
        let (worker, output) = knock_at(&mut workers, steering.worker_of(&dcid), n, &mut initial(dcid, &[]));
        if let Some(EndpointOutput::Incoming(incoming)) = output {
            workers[worker].accept(Instant::ORIGIN, *incoming).unwrap();
            taken += 1;
        }
    }
    let mut stats = EndpointStats::default();
    workers.iter().for_each(|worker| stats.add(&worker.stats()));
    assert_eq!((taken, stats.accepted, stats.refused), (10, 10, 30));
    let nonce: crate::token::TokenNonce = [5; 12];
    workers[1].used_tokens.lock().unwrap().insert(Instant::ORIGIN, &nonce);
    assert!(workers[2].used_tokens.lock().unwrap().contains(&nonce));
}
