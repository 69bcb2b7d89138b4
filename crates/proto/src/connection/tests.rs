//! What only the inside of a connection can show: frames that no honest peer sends.

use std::sync::Arc;

use units::Instant;

use super::*;
use crate::{
    ClientConfig, RepairConfig,
    crypto::Level,
    wire::{CodeScheme, RepairHeader, Runs},
};
use receive::FrameContext;

/// A client that believes it has a peer that codes.
fn client() -> Connection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let config = ClientConfig { tls: Arc::new(tls), transport: TransportConfig::default() };
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let path = NetworkPath { local: address(1), remote: address(2) };
    let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
    let seed = Seed { rng: [0; 32], reset_key: hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]) };
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut client = Connection::client(Instant::ORIGIN, &config, name, path, cid(1), cid(2), seed).unwrap();
    client.peer.repair = Some(crate::wire::RepairParameters {
        schemes: crate::wire::CodeSchemes::ALL,
        max_block: 128,
        decoder_memory: 0,
    });
    client.max_path_id = Some(MaxPathIds { local: PathId(7), remote: PathId(7) });
    client
}

/// REPAIR for the one-packet block `number` of path 0, whose symbol is `payload`.
fn repair_of_one(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut symbol = vec![0; fec::symbol_len(&[payload])];
    fec::xor::encode(&[payload], &mut symbol).unwrap();
    let header = RepairHeader {
        path: PathId::ZERO,
        scheme: CodeScheme::ReedSolomon,
        repair_count: 1,
        symbol_id: 0,
        symbol_len: symbol.len(),
    };
    let mut out = Vec::new();
    header.encode(Runs::new([number].into_iter()), &mut out);
    out.extend_from_slice(&symbol);
    out
}

fn receive(client: &mut Connection, payload: &[u8]) -> Result<bool, TransportError> {
    let context = FrameContext { level: Level::OneRtt, path: PathId::ZERO, rebuilt: false };
    client.on_payload(Instant::ORIGIN, context, payload)
}

#[test]
fn a_rebuilt_packet_is_read_and_reported() {
    let mut client = client();
    client
        .streams
        .set_peer_limits(&TransportParameters { initial_max_streams_bidi: 1, ..Default::default() });
    let id = client.open(Dir::Bi).unwrap();
    let mut data = vec![0x0a, id.0 as u8, 3];
    data.extend_from_slice(b"abc");
    receive(&mut client, &repair_of_one(5, &data)).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(client.read(id, &mut buffer), Ok(Read::Data(3)));
    assert_eq!(client.control, [ControlFrame::Recovered { path: PathId::ZERO, packet: 5 }]);
    let received = &client.paths[&PathId::ZERO].space.received;
    assert!(received.contains_or_rebuilt(5) && !received.contains(5), "rebuilt is not acknowledged");
}

/// Each level of a nested REPAIR would cost a stack frame: 65,000 bytes nested 3,341 deep overflowed the stack once.
#[test]
fn repair_symbols_do_not_nest() {
    let mut payload = vec![1];
    for number in 0..3_000 {
        payload = repair_of_one(number, &payload);
    }
    let mut client = client();
    receive(&mut client, &payload).unwrap();
    assert_eq!(client.stats().packets_recovered, 1, "only the outermost is decoded");
}

#[test]
fn blocks_beyond_the_limit_close_and_unknown_paths_are_ignored() {
    let mut client = client();
    client.config.repair = RepairConfig { k_max: 4, ..RepairConfig::default() };
    let header = RepairHeader {
        path: PathId::ZERO,
        scheme: CodeScheme::ReedSolomon,
        repair_count: 1,
        symbol_id: 0,
        symbol_len: 4,
    };
    let mut frame = Vec::new();
    header.encode(Runs::new(0..5), &mut frame);
    frame.extend_from_slice(&[0; 4]);
    let error = receive(&mut client, &frame).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let mut frame = Vec::new();
    RepairHeader { path: PathId(3), ..header }.encode(Runs::new(0..4), &mut frame);
    frame.extend_from_slice(&[0; 4]);
    receive(&mut client, &frame).unwrap();
    assert_eq!(client.stats().repair_received, 0);
}

#[test]
fn the_decoder_stays_within_its_memory() {
    let mut client = client();
    client.repair = Repair::new(&RepairConfig { decoder_memory: 20_000, ..RepairConfig::default() });
    for number in 0..1_000 {
        client.on_source_packet(Instant::ORIGIN, PathId::ZERO, number, &[7; 1_000]).unwrap();
    }
    // Blocks whose other packets never come.
    for number in 0..1_000 {
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme: CodeScheme::ReedSolomon,
            repair_count: 3,
            symbol_id: 0,
            symbol_len: 1_000,
        };
        let mut frame = Vec::new();
        header.encode(Runs::new(10_000 + 10 * number..10_005 + 10 * number), &mut frame);
        frame.extend_from_slice(&[0; 1_000]);
        receive(&mut client, &frame).unwrap();
    }
    let stats = client.stats();
    assert!(stats.decoder_memory <= 20_000 && stats.decoder_memory_peak <= 21_100, "{stats:?}");
    assert!(stats.decoder_memory_peak > 18_000, "the limit was reached");
    assert_eq!(stats.repair_received, 1_000);
}

#[test]
fn a_peer_that_makes_us_owe_too_much_is_closed() {
    let mut client = client();
    for sequence in 0..MAX_PENDING_CONTROL as u64 {
        client.queue_control(ControlFrame::RetireConnectionId { path: PathId::ZERO, sequence }).unwrap();
    }
    let error = client.queue_control(ControlFrame::MaxPathId).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn a_connection_ends_before_its_keys_are_worn_out() {
    let mut client = client();
    client.sealed = 1 << 23; // AES-GCM's limit, RFC 9001 section 6.6
    let mut out = Vec::new();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    let lost = client.poll_event();
    let code = TransportErrorCode::AEAD_LIMIT_REACHED.0;
    assert!(
        matches!(lost, Some(Event::ConnectionLost(ConnectionError::TransportClosed { code: c, by_peer: false, .. })) if c == code),
        "{lost:?}"
    );
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some(), "the peer is told");
}

/// Plaintexts of a path that closed with packets in flight counted against the memory for source symbols for ever.
#[test]
fn a_closed_path_gives_its_source_memory_back() {
    let mut client = client();
    client.repair = Repair::new(&RepairConfig { source_memory: 2_000, ..RepairConfig::default() });
    let mut path = Path::new(PathId(1), client.paths[&PathId::ZERO].network, &client.config, Instant::ORIGIN);
    let payload = client.repair.keep(&[7; 1_500]).unwrap();
    let packet = crate::sent::SentPacket { payload, ..crate::sent::SentPacket::for_test(Instant::ORIGIN) };
    path.space.on_sent(0, Some(packet));
    client.paths.insert(PathId(1), path);
    assert!(client.repair.keep(&[7; 1_500]).is_none(), "the memory is used up");
    client.remove_closed_path(PathId(1));
    assert!(client.repair.keep(&[7; 1_500]).is_some());
}
