//! What only the inside of a connection can show: frames that no honest peer sends.

use std::sync::Arc;

use units::{Duration, Instant};

use super::*;
use crate::{
    ClientConfig, DatagramOptions, PathLimits, PathUse, RepairConfig,
    crypto::{Level, NewKeys, TlsSession},
    keys::{KeyPhase, OneRttKeys},
    policy::{Built, RecoveryAction, RecoveryKind, RecoveryPolicy, Scheme, UnackedView},
    wire::{CodeScheme, RepairHeader, Runs, TransportParameters},
};
use receive::FrameContext;

/// A client that believes it has a peer that codes.
pub(super) fn client() -> Connection {
    client_with(TransportConfig::default())
}

fn client_with(transport: TransportConfig) -> Connection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let config = ClientConfig::new(Arc::new(tls), transport);
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let path = NetworkPath { local: address(1), remote: address(2) };
    let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
    let secrets = Secrets {
        rng: [0; 32],
        reset_key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &[0; 32])),
        cids: crate::cids::CidMaker::RANDOM,
        token_key: Arc::new(TokenKey::new(&[0; 16])),
    };
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut client =
        Connection::client(Instant::ORIGIN, &config, name, path, cid(1), cid(2), secrets).unwrap();
    client.peer.repair = true;
    client.path_ids.limits = Some(super::multipath::MaxPathIds { local: PathId(7), remote: PathId(7) });
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

pub(super) fn receive(client: &mut Connection, payload: &[u8]) -> Result<bool, TransportError> {
    receive_at(client, Instant::ORIGIN, payload)
}

fn receive_at(client: &mut Connection, now: Instant, payload: &[u8]) -> Result<bool, TransportError> {
    let phase = KeyPhase::Current;
    let context =
        FrameContext { level: Level::OneRtt, path: PathId::ZERO, phase, rebuilt: false, elsewhere: None };
    client.on_payload(now, context, payload).map(|contents| contents.ack_eliciting)
}

#[test]
fn the_shortest_idle_timeout_waits_for_an_answer_and_is_none_of_zero() {
    let with = |max_idle_timeout| TransportConfig { max_idle_timeout, ..TransportConfig::default() };
    let told = |timeout| handshake::told_idle_timeout(&with(timeout));
    let mut client = client_with(with(std::time::Duration::from_nanos(1)));
    client.handle_timeout(Instant::ORIGIN + Duration::from_millis(1));
    assert!(!client.is_closed(), "nothing was sent yet");
    assert_eq!(told(std::time::Duration::from_nanos(1)), Duration::from_millis(1));
    assert_eq!(told(std::time::Duration::ZERO), Duration::ZERO);
    assert_eq!(told(std::time::Duration::from_secs(3)), Duration::from_secs(3));
}

#[test]
fn the_peer_bounds_every_size_of_datagrams() {
    let mut client = client();
    client.clamp_mtu(65_527);
    let sizes = |c: &Connection| {
        let TransportConfig { initial_datagram_size, max_datagram_size, jumbo_datagram_size, .. } = *c.config;
        (initial_datagram_size, max_datagram_size, jumbo_datagram_size)
    };
    assert_eq!(sizes(&client), (1_200, 1_452, 32_752));
    client.clamp_mtu(9_000);
    assert_eq!(sizes(&client), (1_200, 1_452, 9_000));
    client.clamp_mtu(1_000);
    assert_eq!(sizes(&client), (1_200, 1_200, 1_200));
}

#[test]
fn a_rebuilt_packet_is_read_and_reported() {
    let mut client = client();
    client
        .streams
        .set_peer_limits(&TransportParameters { initial_max_streams_bidi: 1u8.into(), ..Default::default() });
    let id = client.open(Dir::Bi).unwrap();
    let mut data = vec![0x0a, id.0 as u8, 3];
    data.extend_from_slice(b"abc");
    receive(&mut client, &repair_of_one(5, &data)).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(client.read(id, &mut buffer), Ok(Read::Data(3)));
    assert_eq!(client.control, [ControlFrame::Recovered { path: PathId::ZERO }]);
    let received = client.paths[&PathId::ZERO].received();
    assert!(received.is_settled(5) && !received.contains(5), "rebuilt is not acknowledged");
}

#[test]
fn what_was_rebuilt_since_the_last_packet_is_reported_in_one_frame() {
    let mut client = client();
    for number in [7, 5, 6, 9] {
        receive(&mut client, &repair_of_one(number, &[0x01])).unwrap();
    }
    assert_eq!(client.control, [ControlFrame::Recovered { path: PathId::ZERO }]);
    let path = client.path_zero();
    assert_eq!(path.next_report().collect::<Vec<_>>(), [5, 6, 7, 9]);
    assert!(!path.on_reported() && path.next_report().next().is_none());
    (0..200).for_each(|number| path.report_rebuilt(2 * number));
    assert_eq!(path.next_report().count(), 64, "no frame is longer than what fits a packet");
    assert!(path.on_reported());
    assert_eq!(path.next_report().next(), Some(128));
}

/// Each level of a nested REPAIR would cost a stack frame: 65,000 bytes nested 3,341 deep
/// overflowed the stack once.
#[test]
fn repair_symbols_do_not_nest() {
    let mut payload = vec![1];
    for number in 0..3_000 {
        payload = repair_of_one(number, &payload);
    }
    let mut client = client();
    receive(&mut client, &payload).unwrap();
    assert_eq!(client.stats().packets_rebuilt, 1, "only the outermost is decoded");
}

#[test]
fn blocks_beyond_the_limit_close_and_unknown_paths_are_ignored() {
    let mut client = client();
    Arc::make_mut(&mut client.config).repair = RepairConfig { k_max: 4, ..RepairConfig::default() };
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
    assert_eq!(client.stats().repair_symbols_received, 0);
}

#[test]
fn the_decoder_stays_within_its_memory() {
    let mut client = client();
    let limits = RepairConfig { decoder_memory: 20_000, ..RepairConfig::default() };
    client.repair = Repair::new(&limits, client.config.recovery);
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
    assert_eq!(stats.repair_symbols_received, 1_000);
}

#[test]
fn a_peer_that_makes_us_owe_too_much_is_closed() {
    let mut client = client();
    for path in 0..MAX_PENDING_CONTROL as u32 {
        client.queue_control(ControlFrame::PathAbandon { path: PathId(path) }).unwrap();
    }
    let error = client.queue_control(ControlFrame::MaxPathId).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// A client and a server that have yet to shake hands.
fn tls_strangers() -> [TlsSession; 2] {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = certified.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let client = rustls::ClientConfig::builder_with_provider(provider.clone());
    let client = client.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let server = rustls::ServerConfig::builder_with_provider(provider);
    let server = server.with_protocol_versions(versions).unwrap().with_no_client_auth();
    let server = Arc::new(server.with_single_cert(vec![cert], key.into()).unwrap());
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let parameters = TransportParameters::default().encode();
    let client = Arc::new(client.with_no_client_auth());
    let client = TlsSession::client(client, name, parameters.clone()).unwrap();
    [client, TlsSession::server(server, parameters).unwrap()]
}

/// The same when they have, and their 1-RTT keys.
fn tls_peers() -> ([TlsSession; 2], OneRttKeys, OneRttKeys) {
    let mut peers = tls_strangers();
    let mut keys = [None, None];
    while keys.iter().any(Option::is_none) {
        for from in [0, 1] {
            let mut out = Vec::new();
            if let Some(NewKeys::OneRtt(new)) = peers[from].write(&mut out) {
                keys[from] = Some(*new);
            }
            peers[1 - from].read(Level::Handshake, &out).unwrap();
        }
    }
    let [client, server] = keys;
    (peers, client.unwrap(), server.unwrap())
}

/// A client after the handshake, and its server's keys.
fn connected_client() -> (Connection, OneRttKeys) {
    connected_with(TransportConfig::default())
}

fn connected_with(transport: TransportConfig) -> (Connection, OneRttKeys) {
    let (_, keys, server) = tls_peers();
    let mut client = client_with(transport);
    client.handshake.one_rtt = Some(Box::new(keys));
    client.handshake.complete_for_test();
    (client, server)
}

/// A packet of the server on path 0 with one PING or the given frames, sealed in the current phase
/// of `keys`.
fn packet(client: &Connection, keys: &OneRttKeys, number: u64, frames: &[u8]) -> Vec<u8> {
    let dcid = client.cids.local(PathId::ZERO, 0).unwrap().cid;
    let mut out = Vec::new();
    let header = crate::wire::ShortHeader { dcid, spin: false, key_phase: keys.bit() };
    let at = header.encode(number, 2, &mut out);
    out.extend_from_slice(frames);
    out.resize(out.len() + 8, 0);
    crate::crypto::seal(keys.local(), PathId::ZERO, number, &mut out, &at).unwrap();
    out
}

/// An Initial packet of the server with one PING.
fn initial(dcid: u8, token: &[u8], number: u64) -> Vec<u8> {
    let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
    let keys = crate::crypto::initial_keys(&cid(2), Side::Server);
    let kind = crate::wire::PacketKind::Initial;
    let header = crate::wire::LongHeader { kind, token, dcid: cid(dcid), scid: cid(5) };
    let mut out = Vec::new();
    let at = header.encode(number, 2, &mut out);
    out.extend_from_slice(PING);
    out.resize(out.len() + 8, 0);
    let keys = (&*keys.local.packet, &*keys.local.header);
    crate::crypto::seal(keys, PathId::ZERO, number, &mut out, &at).unwrap();
    out
}

fn deliver(client: &mut Connection, mut data: Vec<u8>) {
    let path = client.paths[&PathId::ZERO].network();
    client.handle_datagram(Instant::ORIGIN, crate::Datagram { path, ecn: None, data: &mut data });
}

fn close_code(client: &mut Connection) -> Option<TransportErrorCode> {
    while let Some(event) = client.poll_event() {
        if let Event::ConnectionLost(ConnectionError::TransportError(error)) = event {
            return Some(error.code);
        }
    }
    None
}

const PING: &[u8] = &[1];

/// An ACK of one packet of path 0.
fn ack_of(number: u64) -> Vec<u8> {
    let mut ack = Vec::new();
    crate::wire::encode_ack(None, 0, None, core::iter::once(number..=number), 100, &mut ack);
    ack
}

/// Lets everything leave that waits.
fn send_all(client: &mut Connection) {
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {
        out.clear();
    }
    assert!(client.control.is_empty());
}

/// The server takes datagrams, and a stream of the client's.
fn allow_data(client: &mut Connection) {
    client.peer.max_datagram_frame_size = 1_200u16.into();
    client.streams.set_peer_limits(&TransportParameters {
        initial_max_data: 1_000_000u32.into(),
        initial_max_stream_data_uni: 1_000_000u32.into(),
        initial_max_streams_uni: 1u8.into(),
        ..Default::default()
    });
}

#[test]
fn who_asks_for_a_probe_has_one_on_every_path_at_once() {
    let (mut client, _) = connected_client();
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    let before = client.stats().packets_sent;
    client.probe();
    client.probe();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    assert_eq!(client.stats().packets_sent - before, 1, "asking twice is asking once");
}

/// Frames that have become moot, or datagrams that fit no packet any more, were all that waited, and the
/// policy was not asked.
#[test]
fn news_that_is_moot_does_not_keep_recovery_back() {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static ASKED: AtomicBool = AtomicBool::new(false);
    #[derive(Debug)]
    struct Notes;
    impl RecoveryPolicy for Notes {
        fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
            ASKED.store(true, Relaxed);
            RecoveryAction::Nothing
        }
    }
    let scheme = Scheme { name: "notes", build: |_| Built::new(Notes) };
    let (mut client, _) = connected_client();
    client.repair = Repair::new(&RepairConfig::default(), RecoveryKind::Custom(scheme));
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    ASKED.store(false, Relaxed);
    client.queue_control(ControlFrame::PathStatus { path: PathId(5) }).unwrap();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    assert!(client.control.is_empty() && ASKED.swap(false, Relaxed));
    // The path was wider when the application was told how large a datagram may be.
    assert!(client.datagrams.send(vec![7; 2_000].into(), None, DatagramOptions::new()));
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    assert!(!client.datagrams.has_pending() && ASKED.load(Relaxed));
}

#[test]
fn a_connection_ends_before_its_keys_are_worn_out() {
    let (mut client, _) = connected_client();
    client.handshake.one_rtt.as_mut().unwrap().sealed = 1 << 23; // AES-GCM's limit, RFC 9001 section 6.6
    client.path_zero().ask_for_probe();
    let mut out = Vec::new();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::AEAD_LIMIT_REACHED));
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some(), "the peer is told");
}

/// Whoever only acknowledges never gets an ACK of its own: it asks for one when it needs new keys.
#[test]
fn a_receiver_asks_for_an_ack_when_its_keys_grow_old() {
    let (mut client, _) = connected_client();
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    client.path_zero().forget_space_for_test();
    client.handshake.one_rtt.as_mut().unwrap().sealed = 1 << 22;
    client.handshake.confirm_for_test();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    assert!(client.path_zero().space().has_ack_eliciting_in_flight());
    client.on_ack_in_phase(Instant::ORIGIN, PathId::ZERO, 0, KeyPhase::Current).unwrap();
    client.update_keys_if_due();
    assert_eq!(client.stats().key_updates, 0, "not at once");
    let settled = client.key_deadline().unwrap();
    client.key_timeout(settled);
    client.update_keys_if_due();
    assert_eq!(client.stats().key_updates, 1);
}

#[test]
fn forgeries_are_counted_up_to_the_limit_of_the_aead() {
    let (mut client, server) = connected_client();
    let mut forged = packet(&client, &server, 0, PING);
    *forged.last_mut().unwrap() ^= 1;
    deliver(&mut client, forged.clone());
    let keys = client.handshake.one_rtt.as_mut().unwrap();
    assert_eq!(keys.failed, 1);
    keys.failed = (1 << 52) - 2; // AES-GCM's limit, RFC 9001 section 6.6
    deliver(&mut client, forged.clone());
    assert_eq!(close_code(&mut client), None);
    deliver(&mut client, forged);
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::AEAD_LIMIT_REACHED));
}

/// RFC 9000 section 17.3.1: which is known once the packet has authenticated, and not before.
#[test]
fn reserved_bits_that_are_set_end_the_connection() {
    let (mut client, server) = connected_client();
    let dcid = client.cids.local(PathId::ZERO, 0).unwrap().cid;
    let mut data = Vec::new();
    let header = crate::wire::ShortHeader { dcid, spin: false, key_phase: server.bit() };
    let at = header.encode(0, 2, &mut data);
    data[0] |= 0x18;
    data.extend_from_slice(PING);
    data.resize(data.len() + 8, 0);
    crate::crypto::seal(server.local(), PathId::ZERO, 0, &mut data, &at).unwrap();
    let mut forged = data.clone();
    *forged.last_mut().unwrap() ^= 1;
    deliver(&mut client, forged);
    assert_eq!(close_code(&mut client), None, "anybody may have set them");
    deliver(&mut client, data);
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

#[test]
fn two_updates_without_an_ack_between_them_close() {
    let (mut client, mut server) = connected_client();
    server.update();
    let first = packet(&client, &server, 0, PING);
    deliver(&mut client, first);
    assert_eq!((client.stats().key_updates, close_code(&mut client)), (1, None));
    server.update();
    let second = packet(&client, &server, 1, PING);
    deliver(&mut client, second);
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::KEY_UPDATE_ERROR));
}

#[test]
fn late_packets_of_the_previous_phase_are_read() {
    let (mut client, mut server) = connected_client();
    let late = packet(&client, &server, 0, PING);
    server.update();
    let new = packet(&client, &server, 1, PING);
    deliver(&mut client, new);
    deliver(&mut client, late);
    assert!(client.path_zero().received().contains(0));
    // Not so once they have had their time.
    let (mut client, mut server) = connected_client();
    let late = packet(&client, &server, 0, PING);
    server.update();
    let new = packet(&client, &server, 1, PING);
    deliver(&mut client, new);
    let until = client.key_deadline().unwrap();
    client.key_timeout(until);
    deliver(&mut client, late);
    assert!(!client.path_zero().received().contains(0));
    assert_eq!(close_code(&mut client), None);
}

#[test]
fn packet_numbers_must_not_go_backwards_across_phases() {
    // New keys for a number below one that old keys protected.
    let (mut client, mut server) = connected_client();
    let old = packet(&client, &server, 7, PING);
    deliver(&mut client, old);
    server.update();
    let new = packet(&client, &server, 6, PING);
    deliver(&mut client, new);
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::KEY_UPDATE_ERROR));
    // The same while the phase is under way.
    let (mut client, mut server) = connected_client();
    let old = packet(&client, &server, 7, PING);
    deliver(&mut client, old);
    server.update();
    for number in [8, 5] {
        let new = packet(&client, &server, number, PING);
        deliver(&mut client, new);
    }
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::KEY_UPDATE_ERROR));
}

#[test]
fn new_packets_must_not_be_acknowledged_under_old_keys() {
    let (mut client, server) = connected_client();
    let before = packet(&client, &server, 0, PING);
    deliver(&mut client, before);
    client.next_key_phase();
    client.path_zero().ask_for_probe();
    let mut out = Vec::new();
    client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
    let number = client.path_zero().space().next_number() - 1;
    assert!(number >= client.path_zero().phase().first_sent);
    let mut ack = Vec::new();
    crate::wire::encode_ack(None, 0, None, core::iter::once(number..=number), 100, &mut ack);
    let under_old_keys = packet(&client, &server, 1, &ack);
    deliver(&mut client, under_old_keys);
    assert_eq!(close_code(&mut client), Some(TransportErrorCode::KEY_UPDATE_ERROR));
}

/// Plaintexts of a path that closed with packets in flight counted against the memory for source
/// symbols for ever.
#[test]
fn a_closed_path_gives_its_source_memory_back() {
    let mut client = client();
    let limits = RepairConfig { source_memory: 2_000, ..RepairConfig::default() };
    client.repair = Repair::new(&limits, client.config.recovery);
    let mut path =
        Path::new(PathId(1), client.paths[&PathId::ZERO].network(), &client.config, Instant::ORIGIN);
    let payload = client.repair.keep(&[7; 1_500]).unwrap();
    let mut packet = crate::path::sent::SentPacket::for_test(Instant::ORIGIN);
    packet.source = crate::path::source::Source::Plaintext(payload);
    path.record_for_test(0, packet);
    client.paths.insert(PathId(1), path);
    assert!(client.repair.keep(&[7; 1_500]).is_none(), "the memory is used up");
    client.remove_closed_path(PathId(1));
    assert!(client.repair.keep(&[7; 1_500]).is_some());
}

/// What a path carries is lent to one connection at a time: with a path that closed while it was busy it
/// was gone.
#[test]
fn what_was_learnt_of_a_path_is_kept_when_that_is_closed() {
    let (mut client, _) = connected_client();
    client.handshake.confirm_for_test();
    let local = std::net::SocketAddr::from(([127, 0, 0, 3], 1));
    let network = NetworkPath { local, ..client.paths[&PathId::ZERO].network() };
    let mut path = Path::new(PathId(1), network, &client.config, Instant::ORIGIN);
    path.open();
    for number in 0..2 {
        let packet = crate::path::sending::NewPacket {
            number,
            level: Level::OneRtt,
            size: 1_200,
            purpose: crate::PacketPurpose::Data,
            ack_eliciting: true,
            frames: crate::path::sent::SentFrames::default(),
            source: crate::path::source::Source::Nothing,
        };
        path.on_packet_sent(Instant::ORIGIN, crate::path::space::Space::Data, packet);
    }
    client.paths.insert(PathId(1), path);
    let (later, mut ack) = (Instant::ORIGIN + Duration::from_millis(20), Vec::new());
    crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(0..=0), 100, &mut ack);
    receive_at(&mut client, later, &ack).unwrap();
    let known = |client: &Connection| client.config.path_store.recall(&network).rtt;
    assert_eq!(known(&client), None, "something is under way");
    client.close_path(later, PathId(1), 0u8.into()).unwrap();
    assert_eq!(known(&client), Some(Duration::from_millis(20)));
}

/// RFC 9001 section 6: TLS's own KeyUpdate has no place in QUIC.
#[test]
fn a_tls_key_update_is_an_unexpected_message() {
    let ([mut client, mut server], ..) = tls_peers();
    for peer in [&mut client, &mut server] {
        let error = peer.read(Level::OneRtt, &[24, 0, 0, 1, 0]).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::crypto(10));
    }
}

/// RFC 8446 section 4.6.1: a client may ignore tickets, but nothing else may come.
#[test]
fn a_client_that_has_a_ticket_is_done_with_tls_once_it_rests() {
    let ticket = [4, 0, 0, 2, 7, 7];
    let ([mut client, mut server], ..) = tls_peers();
    assert!(server.write(&mut Vec::new()).is_none(), "the tickets have left");
    client.read(Level::OneRtt, &ticket[..3]).unwrap();
    client.rest();
    assert!(client.peer_parameters().is_some(), "half of another is there");
    let ([mut client, _], ..) = tls_peers();
    client.rest();
    assert!(client.peer_parameters().is_none() && client.peer_certificates().is_some());
    client.read(Level::OneRtt, &ticket).unwrap();
    let error = client.read(Level::OneRtt, &[24, 0, 0, 1, 0]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::crypto(10));
}

#[test]
fn tickets_without_end_are_not_read() {
    let mut client = client();
    let mut read = 0;
    for chunk in 0..200 {
        client.on_crypto(Instant::ORIGIN, Level::OneRtt, chunk * 1_000 + 1, &[0; 1_000]).unwrap();
        read = client.handshake.crypto(Level::OneRtt).buffered();
    }
    assert!((60_000..=65_536).contains(&read), "{read}");
}

/// RFC 9001 section 4.1.3.
#[test]
fn a_level_that_tls_is_done_with_brings_nothing_new() {
    let mut client = client();
    let hello = [2, 0, 0, 90]; // a ServerHello begins
    let bring = |client: &mut Connection, level, offset: usize, len| {
        client.on_crypto(Instant::ORIGIN, level, offset as u64, &hello[offset..offset + len])
    };
    bring(&mut client, Level::Initial, 0, 2).unwrap();
    client.handshake.move_on_for_test();
    bring(&mut client, Level::Initial, 0, 2).unwrap();
    bring(&mut client, Level::Initial, 1, 1).unwrap();
    let error = bring(&mut client, Level::Initial, 1, 2).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    // What is sent again after its keys have gone is of no interest.
    client.handshake.complete_for_test();
    bring(&mut client, Level::Initial, 1, 2).unwrap();
}

/// RFC 9001 section 4.1.3.
#[test]
fn tls_leaves_nothing_behind_when_it_goes_on_to_other_keys() {
    let arrives = |left: &[u8]| {
        let ([tls, mut server], mut client) = (tls_strangers(), client());
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        client.handshake.tls = tls;
        assert!(client.handshake.tls.write(&mut hello).is_none());
        server.read(Level::Initial, &hello).unwrap();
        assert!(matches!(server.write(&mut answer), Some(NewKeys::Handshake(_))));
        let behind = answer.len() as u64 + 1;
        client.on_crypto(Instant::ORIGIN, Level::Initial, behind, left).unwrap();
        client.on_crypto(Instant::ORIGIN, Level::Initial, 0, &answer).map_err(|error| error.code)
    };
    assert_eq!(arrives(b""), Ok(()));
    assert_eq!(arrives(b"left"), Err(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// RFC 9000 section 12.5.
#[test]
fn frames_that_need_a_handshake_are_refused_in_early_data() {
    let mut ack = Vec::new();
    crate::wire::encode_ack(None, 0, None, core::iter::once(0..=0), 100, &mut ack);
    let forbidden: [&[u8]; 7] = [
        &ack,
        &[0x06, 0, 1, 0],                // CRYPTO
        &[0x07, 1, 0],                   // NEW_TOKEN
        &[0x1b, 0, 1, 2, 3, 4, 5, 6, 7], // PATH_RESPONSE
        &[0x19, 0],                      // RETIRE_CONNECTION_ID
        &[0x1e],                         // HANDSHAKE_DONE
        &repair_of_one(5, &[1]),
    ];
    for frame in forbidden {
        let mut client = client();
        let phase = KeyPhase::Current;
        let context = FrameContext {
            level: Level::ZeroRtt,
            path: PathId::ZERO,
            phase,
            rebuilt: false,
            elsewhere: None,
        };
        let error = client.on_payload(Instant::ORIGIN, context, frame).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION, "{frame:?}");
        client.on_payload(Instant::ORIGIN, context, PING).unwrap();
    }
}

/// Frames about paths, encoded.
fn encoded(frame: crate::wire::Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

#[test]
fn resets_that_promise_something_need_a_side_that_takes_them() {
    use crate::wire::{Dir, Frame, ResetStreamAt, Side, StreamId};
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let frame =
        Frame::ResetStreamAt(ResetStreamAt { id, error_code: 7u8.into(), final_size: 4, reliable_size: 2 });
    let frame = encoded(frame);
    let error = receive(&mut client(), &frame).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
    let takes = TransportConfig { reset_stream_at: true, ..TransportConfig::default() };
    receive(&mut client_with(takes), &frame).unwrap();
}

#[test]
fn multipath_frames_need_multipath_and_a_path_id_that_we_allow() {
    use crate::wire::{Frame, PathCidsBlocked, PathStatus, PathsBlocked, RetireConnectionId};
    let frames = |path| {
        [
            Frame::PathStatus(PathStatus { path, sequence: 1, backup: false }),
            Frame::PathsBlocked(PathsBlocked { maximum: path }),
            Frame::PathCidsBlocked(PathCidsBlocked { path, next_sequence: 0 }),
            Frame::RetireConnectionId(RetireConnectionId { path: Some(path), sequence: 0 }),
        ]
    };
    for frame in frames(PathId(8)) {
        let error = receive(&mut client(), &encoded(frame)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
    for frame in frames(PathId(7)) {
        let mut single = client();
        single.path_ids.limits = None;
        let error = receive(&mut single, &encoded(frame)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
    }
    for frame in &frames(PathId(7))[..3] {
        receive(&mut client(), &encoded(frame.clone())).unwrap();
    }
    let beyond = Frame::PathCidsBlocked(PathCidsBlocked { path: PathId(7), next_sequence: 1 });
    let error = receive(&mut client(), &encoded(beyond)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// RFC 9000 section 18.2.
#[test]
fn a_preferred_address_needs_connection_ids() {
    use crate::wire::{PreferredAddress, ResetToken};
    let (connection_id, reset_token) = (ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16]));
    let preferred = PreferredAddress { ipv4: None, ipv6: None, connection_id, reset_token };
    let parameters = TransportParameters { preferred_address: Some(preferred), ..Default::default() };
    client().adopt_server_cids(&parameters).unwrap();
    let mut client = client();
    client.cids.set_initial_remote(ConnectionId::EMPTY);
    let error = client.adopt_server_cids(&parameters).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
}

#[test]
fn several_paths_need_connection_ids() {
    let parameters = |cid, initial_max_path_id| TransportParameters {
        initial_source_connection_id: Some(cid),
        initial_max_path_id,
        ..TransportParameters::default()
    };
    let (empty, some) = (ConnectionId::EMPTY, ConnectionId::new(&[7; 8]).unwrap());
    let client = client();
    client.check_multipath(&parameters(some, Some(PathId(1)))).unwrap();
    client.check_multipath(&parameters(empty, None)).unwrap();
    let error = client.check_multipath(&parameters(empty, Some(PathId::ZERO))).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let single = client_with(TransportConfig { max_paths: 1, ..TransportConfig::default() });
    single.check_multipath(&parameters(empty, Some(PathId(1)))).unwrap();
}

/// draft-ietf-quic-multipath-21 section 4: MAX_PATH_ID only ever raises the limit.
#[test]
fn no_fewer_paths_are_allowed_than_at_first() {
    use crate::wire::{Frame, MaxPathId};
    let mut client = client();
    client.peer.initial_max_path_id = Some(PathId(7));
    let allowed = |maximum| encoded(Frame::MaxPathId(MaxPathId { maximum: PathId(maximum) }));
    receive(&mut client, &allowed(7)).unwrap();
    let error = receive(&mut client, &allowed(6)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// draft-ietf-quic-multipath-21 section 4: what counts is what has been announced. Each path that is given up
/// makes room for another, and hundreds of such frames fit a packet.
#[test]
fn a_path_id_is_allowed_once_that_was_said() {
    use crate::wire::{Frame, PathAbandon};
    let abandon = |client: &mut Connection, path| {
        let abandon = PathAbandon { path: PathId(path), error_code: TransportErrorCode::NO_ERROR };
        receive(client, &encoded(Frame::PathAbandon(abandon)))
    };
    let (mut client, _) = connected_client();
    abandon(&mut client, 7).unwrap();
    let error = abandon(&mut client, 8).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let (mut client, _) = connected_client();
    abandon(&mut client, 7).unwrap();
    send_all(&mut client);
    abandon(&mut client, 8).unwrap();
    abandon(&mut client, 9).unwrap_err();
}

/// Hundreds of such frames fit a packet: what they ask for was issued when there was a reason.
#[test]
fn who_asks_for_connection_ids_has_nothing_made_for_him() {
    use crate::wire::{Frame, MaxPathId, PathCidsBlocked};
    let mut client = client();
    for _ in 0..3 {
        let blocked = PathCidsBlocked { path: PathId(7), next_sequence: 0 };
        receive(&mut client, &encoded(Frame::PathCidsBlocked(blocked))).unwrap();
    }
    let allowed = |maximum| encoded(Frame::MaxPathId(MaxPathId { maximum: PathId(maximum) }));
    for maximum in 8..100 {
        receive(&mut client, &allowed(maximum)).unwrap();
    }
    assert!(client.control.is_empty(), "{:?}", client.control);
    // A path more that both allow is one.
    client.path_ids.limits = Some(super::multipath::MaxPathIds { local: PathId(8), remote: PathId(7) });
    receive(&mut client, &allowed(8)).unwrap();
    assert!(!client.control.is_empty());
}

/// RFC 9000 section 19.16. Its number is easily guessed.
#[test]
fn a_connection_id_that_never_left_cannot_be_retired() {
    use crate::wire::{Frame, RetireConnectionId};
    let (mut client, _) = connected_client();
    let retire = |client: &mut Connection, sequence| {
        let path = Some(PathId(1));
        receive(client, &encoded(Frame::RetireConnectionId(RetireConnectionId { path, sequence })))
    };
    client.issue_cids().unwrap();
    send_all(&mut client);
    retire(&mut client, 0).unwrap();
    send_all(&mut client);
    // The packet is taken for lost, and had only been late.
    client.move_data_off(PathId::ZERO);
    assert!(!client.control.is_empty());
    retire(&mut client, 1).unwrap();
    let error = retire(&mut client, 2).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// RFC 9221 section 3.
#[test]
fn datagrams_that_are_longer_than_declared_end_the_connection() {
    use crate::wire::{Datagram, Frame};
    let take = |buffer, length: usize| {
        let transport = TransportConfig { datagram_receive_buffer: buffer, ..TransportConfig::default() };
        let frame = encoded(Frame::Datagram(Datagram { data: &vec![7; length] }));
        receive(&mut client_with(transport), &frame).map_err(|error| error.code)
    };
    for buffer in [0, 64] {
        assert_eq!(take(buffer, 0), Err(TransportErrorCode::PROTOCOL_VIOLATION), "none is taken");
    }
    // 936 bytes are kept, with three for type and length; a frame without a length has one for the type.
    assert_eq!(take(1_000, 936), Ok(true));
    assert_eq!(take(1_000, 939), Err(TransportErrorCode::PROTOCOL_VIOLATION));
}

/// A peer that was asked for others meanwhile closed the connection with FRAME_ENCODING_ERROR.
#[test]
fn a_connection_id_that_leaves_again_has_none_above_it_retired() {
    use crate::wire::{Frame, Frames};
    let (mut client, _) = connected_client();
    client.issue_cids().unwrap();
    send_all(&mut client);
    client.handshake.confirm_for_test();
    assert!(client.rotate_cids(PathId(1)));
    client.move_data_off(PathId::ZERO);
    let mut payload = Vec::new();
    client.control.iter().for_each(|frame| client.encode_control(frame, &mut payload));
    let frames: Vec<_> = Frames::new(&payload).collect::<Result<_, _>>().unwrap();
    let of_path = frames.iter().filter_map(|frame| match frame {
        Frame::NewConnectionId(f) if f.path == Some(PathId(1)) => Some((f.sequence, f.retire_prior_to)),
        _ => None,
    });
    assert_eq!(of_path.collect::<Vec<_>>(), [(0, 0), (1, 1)]);
}

/// Whoever waits for what becomes of a stream is not told of the close instead.
#[test]
fn what_came_before_a_close_is_told_before_it() {
    let (mut client, keys) = connected_client();
    allow_data(&mut client);
    let id = client.open(Dir::Uni).unwrap();
    // STOP_SENDING with code 7, and behind it CONNECTION_CLOSE of the application with code 1.
    let closes = packet(&client, &keys, 0, &[0x05, id.0 as u8, 7, 0x1d, 1, 0]);
    deliver(&mut client, closes);
    let news: Vec<_> = core::iter::from_fn(|| client.poll_event()).collect();
    let is_stop = |event: &_| matches!(event, Event::Stream(crate::StreamEvent::Stopped { .. }));
    let stopped = news.iter().position(is_stop);
    let lost = news.iter().position(|event| matches!(event, Event::ConnectionLost(_)));
    assert!(stopped.is_some() && stopped < lost, "{news:?}");
}

#[test]
fn datagrams_without_end_are_one_piece_of_news() {
    let mut client = client();
    let mut payload = Vec::new();
    for _ in 0..500 {
        // DATAGRAM of length 0.
        payload.extend_from_slice(&[0x31, 0x00]);
    }
    for _ in 0..100 {
        receive(&mut client, &payload).unwrap();
    }
    let news: Vec<_> = core::iter::from_fn(|| client.events.pop_front()).collect();
    assert!(matches!(news[..], [Event::DatagramReceived]), "{} events", news.len());
    receive(&mut client, &payload).unwrap();
    assert_eq!(client.events.len(), 1, "more has come since");
}

#[test]
fn a_path_that_may_send_nothing_does_not_keep_the_close_of_others_back() {
    let mut client = client();
    client.close(Instant::ORIGIN, 7u8.into(), b"");
    let close::State::Closing(closing) = &mut client.state else { panic!("it closes") };
    closing.pending = vec![PathId::ZERO, PathId(9)];
    let mut out = Vec::new();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some());
    assert!(!out.is_empty());
}

#[test]
fn packets_of_the_handshake_are_from_whom_the_first_was() {
    let mut client = client();
    let cid = |n: u8| ConnectionId::new(&[n; 8]).unwrap();
    assert!(!client.handshake.is_other_peer_cid(cid(5)), "nothing is known");
    assert!(client.handshake.set_peer_cid(cid(5)));
    assert!(!client.handshake.is_other_peer_cid(cid(5)) && client.handshake.is_other_peer_cid(cid(6)));
}

#[test]
fn packets_that_come_together_are_for_one_connection_id() {
    let mut client = client();
    deliver(&mut client, [initial(1, b"", 0), initial(7, b"", 1), initial(1, b"", 2)].concat());
    assert_eq!(client.stats().packets_received, 2);
}

/// RFC 9000 section 17.2.2.
#[test]
fn an_initial_packet_with_a_token_is_from_no_server() {
    let mut client = client();
    deliver(&mut client, initial(1, b"token", 0));
    assert_eq!(client.stats().packets_received, 0);
    deliver(&mut client, initial(1, b"", 0));
    assert_eq!(client.stats().packets_received, 1);
}

#[test]
fn a_connection_id_that_waits_to_be_retired_is_counted_once() {
    let mut client = client();
    for _ in 0..1_000 {
        client.owe_retirement(PathId(1), 3).unwrap();
    }
    assert_eq!(client.control.len(), 1);
}

#[test]
fn a_path_id_that_the_peer_gave_up_is_left_out() {
    use crate::wire::{Frame, PathAbandon};
    let mut client = client();
    for path in [PathId(1), PathId(2)] {
        let abandon = PathAbandon { path, error_code: TransportErrorCode::NO_ERROR };
        receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    }
    assert_eq!(client.next_path_id(PathId(7)), PathId(3));
    assert_eq!(client.next_path_id(PathId(7)), PathId(3), "it is still there");
}

/// draft-ietf-quic-multipath-21 section 3.4: who never hears it keeps what it knows of the path, or gives the
/// connection up.
#[test]
fn who_abandons_a_path_that_was_never_here_hears_the_same_from_us() {
    use crate::wire::{Frame, PathAbandon};
    let mut client = client();
    let answer = ControlFrame::PathAbandon { path: PathId(2) };
    let abandon = PathAbandon { path: PathId(2), error_code: TransportErrorCode::PATH_UNSTABLE_OR_POOR };
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    assert!(client.control.contains(&answer), "{:?}", client.control);
    client.control.clear();
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    assert!(client.control.is_empty(), "once is enough");
}

/// Section 3.3 of draft-ietf-quic-multipath-21: the frame may come over a faster path than the one that it
/// is about, and older news counts for nothing.
#[test]
fn what_is_said_of_a_path_before_it_is_there_counts_once_it_is() {
    use crate::wire::{Frame, PathAbandon, PathStatus, ResetToken};
    let mut client = client();
    let say = |client: &mut Connection, path, sequence, backup| {
        let status = PathStatus { path: PathId(path), sequence, backup };
        receive(client, &encoded(Frame::PathStatus(status))).unwrap();
    };
    say(&mut client, 1, 3, true);
    say(&mut client, 1, 2, false);
    client.cids.on_new(PathId(1), 0, 0, ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16])).unwrap();
    client.handshake.complete_for_test();
    let here = client.paths[&PathId::ZERO].network();
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 3));
    let id = client.open_path(Instant::ORIGIN, NetworkPath { local, ..here }).unwrap();
    assert!(id == PathId(1) && client.paths[&id].is_backup());
    say(&mut client, 1, 3, false);
    assert!(client.paths[&id].is_backup(), "it has been heard");
    say(&mut client, 1, 4, false);
    assert!(!client.paths[&id].is_backup());
    // Nothing is kept of what will not come.
    say(&mut client, 2, 0, true);
    let abandon = PathAbandon { path: PathId(2), error_code: TransportErrorCode::NO_ERROR };
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    say(&mut client, 2, 1, true);
    assert!(client.path_ids.keeps_nothing());
}

/// draft-ietf-quic-multipath-21 section 3.4.2: late packets of ours may meet somebody who has forgotten the
/// path, and not the connection.
#[test]
fn a_reset_about_an_abandoned_path_is_none_of_the_connection() {
    use crate::wire::ResetToken;
    let mut client = client();
    client.handshake.complete_for_test();
    client.cids.on_new(PathId(1), 0, 0, ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16])).unwrap();
    let here = client.paths[&PathId::ZERO].network();
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 3));
    let id = client.open_path(Instant::ORIGIN, NetworkPath { local, ..here }).unwrap();
    assert!(client.cids.is_reset(&[9; 16]));
    client.cids.changed_reset_tokens();
    client.close_path(Instant::ORIGIN, id, 0u8.into()).unwrap();
    assert!(!client.cids.is_reset(&[9; 16]));
    assert_eq!(client.cids.changed_reset_tokens(), Some(Vec::new()), "the endpoint hears of it");
    assert!(client.cids.remote(id).is_some(), "a last word may still leave there");
}

#[test]
fn a_flood_of_retire_prior_to_ends_the_connection() {
    use crate::wire::{Frame, NewConnectionId, ResetToken};
    let mut client = client();
    let mut error = None;
    for n in 1..1_000u64 {
        let id = ConnectionId::new(&n.to_be_bytes()).unwrap();
        let frame = NewConnectionId {
            path: None,
            sequence: n,
            retire_prior_to: n,
            id,
            reset_token: ResetToken([n as u8; 16]),
        };
        if let Err(e) = receive(&mut client, &encoded(Frame::NewConnectionId(frame))) {
            error = Some((n, e.code));
            break;
        }
    }
    assert_eq!(
        error,
        Some((65, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR)),
        "eight for each of eight paths"
    );
    assert!(client.control.len() <= 64);
}

/// RFC 9000 section 8.1, also of a connection that only says goodbye any more.
#[test]
fn what_arrives_while_a_connection_closes_pays_for_the_answer() {
    let (mut client, server) = connected_client();
    client.handshake.confirm_for_test();
    client.path_zero().distrust_address();
    client.close(Instant::ORIGIN, 7u8.into(), &[b'x'; 1_000]);
    let mut out = Vec::new();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none(), "nobody has paid");
    let here = client.paths[&PathId::ZERO].network();
    let elsewhere = NetworkPath { remote: std::net::SocketAddr::from(([127, 0, 0, 1], 9)), ..here };
    let mut stranger = packet(&client, &server, 0, &[0; 100]);
    let datagram = crate::Datagram { path: elsewhere, ecn: None, data: &mut stranger };
    client.handle_datagram(Instant::ORIGIN, datagram);
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none(), "nobody has paid here");
    // The second answer is to two packets.
    let mut paid = 0;
    for number in 1..=2 {
        let data = packet(&client, &server, number, &[0; 100]);
        paid += data.len();
        deliver(&mut client, data);
    }
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some());
    assert!(paid < out.len() && out.len() <= 3 * paid, "{} bytes for {paid}", out.len());
}

/// RFC 9000 section 8.1: ACKs take little, but may be owed again and again.
#[test]
fn acks_alone_stay_within_the_amplification_limit() {
    let (mut client, server) = connected_client();
    client.path_zero().distrust_address();
    let ping = packet(&client, &server, 0, PING);
    let limit = 3 * ping.len();
    deliver(&mut client, ping);
    let (mut out, mut sent) = (Vec::new(), 0);
    for _ in 0..10 {
        client.path_zero().received_mut().owe_again(Instant::ORIGIN);
        while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {
            sent += out.len();
            out.clear();
        }
    }
    assert!((1..=limit).contains(&sent), "{sent} bytes, and {limit} may be sent");
}

/// RFC 9221 section 3: the peer's limit is of whole frames, and closes who sends larger ones.
#[test]
fn no_datagram_frame_is_larger_than_the_peer_takes() {
    let (mut client, _) =
        connected_with(TransportConfig { initial_datagram_size: 32_752, ..TransportConfig::default() });
    for (limit, largest) in [(20_000u16, 19_995), (1_200, 1_197)] {
        client.peer.max_datagram_frame_size = limit.into();
        assert_eq!(client.max_datagram_size(), Some(largest));
        client.send_datagram(vec![7; largest].into()).unwrap();
        let mut frame = Vec::new();
        client.datagrams.write(PathId::ZERO, &mut frame, 32_000, true, &mut Vec::new());
        assert_eq!(frame.len(), usize::from(limit));
    }
}

/// The second probe of a silence is smaller than the path's packets, which may be why nobody answers.
#[test]
fn datagrams_that_do_not_fit_a_probe_wait_for_a_packet() {
    let (recovery, initial_datagram_size) = (RecoveryKind::None, 1_452);
    let (mut client, _) =
        connected_with(TransportConfig { recovery, initial_datagram_size, ..TransportConfig::default() });
    allow_data(&mut client);
    client.peer.max_datagram_frame_size = 1_400u16.into();
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"stream data").unwrap();
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    (0..2).for_each(|_| client.on_probe_timeout(Instant::ORIGIN, PathId::ZERO));
    (0..2).for_each(|_| client.send_datagram(vec![7; 1_300].into()).unwrap());
    let mut transmit = || {
        out.clear();
        client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
        (out.len() > 1_300, client.datagrams_waiting(), client.stats().datagrams_dropped)
    };
    let probe = (false, 2_600, 0);
    assert_eq!([transmit(), transmit()], [probe, probe]);
    assert_eq!([transmit(), transmit()], [(true, 1_300, 0), (true, 0, 0)]);
    let sent = client.paths[&PathId::ZERO].sent();
    let with_stream_data = sent.iter().filter(|(_, packet)| !packet.frames.streams.ranges.is_empty());
    assert_eq!(with_stream_data.count(), 3, "each probe has what is un-ACKed");
}

#[test]
fn a_copy_of_stream_data_settles_no_datagram_beside_it() {
    let (mut client, _) =
        connected_with(TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() });
    allow_data(&mut client);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"stream data").unwrap();
    let call = DatagramOptions::new().within(std::time::Duration::from_millis(150));
    client.send_datagram_with(Instant::ORIGIN, b"datagram".to_vec().into(), call).unwrap();
    let mut out = Vec::new();
    client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
    let (original, packet) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
    assert!(packet.frames.timed && !packet.frames.streams.ranges.is_empty(), "one packet has both");
    out.clear();
    let copy = client.send_copy(Instant::ORIGIN, PathId::ZERO, original, PathId::ZERO, &mut out).unwrap();
    let later = Instant::ORIGIN + Duration::from_millis(20);
    let settled = |client: &Connection| {
        let timed = client.stats().timed;
        (timed.sent, timed.in_time, timed.mended, timed.late)
    };
    receive_at(&mut client, later, &ack_of(copy.number)).unwrap();
    assert_eq!(settled(&client), (1, 0, 0, 0), "the copy had the stream's bytes alone");
    receive_at(&mut client, later, &ack_of(original)).unwrap();
    assert_eq!(settled(&client), (1, 1, 0, 0));
}

/// What the copy had no room for is as lost as before.
#[test]
fn a_copy_on_a_path_that_carries_less_mends_nothing() {
    for (size, mended) in [(1_452, 1), (1_200, 0)] {
        let (recovery, initial_datagram_size) = (RecoveryKind::None, 1_452);
        let (mut client, _) =
            connected_with(TransportConfig { recovery, initial_datagram_size, ..TransportConfig::default() });
        allow_data(&mut client);
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, &[7; 1_400]).unwrap();
        let mut out = Vec::new();
        client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
        let (original, _) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
        let config = TransportConfig { initial_datagram_size: size, ..TransportConfig::default() };
        let network = client.paths[&PathId::ZERO].network();
        let mut path = Path::new(PathId(1), network, &config, Instant::ORIGIN);
        path.open();
        client.paths.insert(PathId(1), path);
        let (cid, token) = (ConnectionId::new(&[9; 8]).unwrap(), crate::wire::ResetToken([9; 16]));
        client.cids.on_new(PathId(1), 0, 0, cid, token).unwrap();
        out.clear();
        client.send_copy(Instant::ORIGIN, PathId::ZERO, original, PathId(1), &mut out).unwrap();
        let (later, mut ack) = (Instant::ORIGIN + Duration::from_millis(20), Vec::new());
        crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(0..=0), 100, &mut ack);
        receive_at(&mut client, later, &ack).unwrap();
        client.give_up_packet(later, PathId::ZERO, original);
        assert_eq!(client.stats().packets_mended, mended, "{size} bytes");
        assert_eq!(client.streams.sendable_bytes() > 0, mended == 0);
    }
}

/// What it carries costs money, whichever scheme it is that wants to send it twice.
#[test]
fn no_copies_leave_over_a_metered_path() {
    for (carries, copies) in [(PathUse::Regular, 1), (PathUse::Metered, 0)] {
        let recovery = RecoveryKind::Proactive;
        let (mut client, _) = connected_with(TransportConfig { recovery, ..TransportConfig::default() });
        allow_data(&mut client);
        client.set_path_limits(PathId::ZERO, PathLimits { carries, ..PathLimits::default() }).unwrap();
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"stream data").unwrap();
        let mut out = Vec::new();
        while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
        assert_eq!(client.stats().copies_sent, copies, "{carries}");
    }
}

/// docs/decisions/0003-recovered.md: what the peer has rebuilt is not sent again, and its path has
/// lost it all the same.
#[test]
fn a_packet_that_the_peer_has_rebuilt_is_a_loss_to_its_path() {
    let (recovery, controller) = (RecoveryKind::None, congestion::ControllerKind::NewReno);
    let (mut client, _) =
        connected_with(TransportConfig { recovery, controller, ..TransportConfig::default() });
    allow_data(&mut client);
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(id, &[7; 4_000]), Ok(4_000));
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {
        out.clear();
    }
    let sent: Vec<u64> = client.paths[&PathId::ZERO].sent().iter().map(|(number, _)| number).collect();
    let [first, .., last] = sent[..] else { panic!("{sent:?}") };
    let overtaken: Vec<u64> = sent.iter().copied().filter(|number| last - number >= 3).collect();
    assert_eq!(overtaken, [first]);
    let before = client.paths()[0].clone();
    let mut recovered = Vec::new();
    crate::wire::encode_recovered(PathId::ZERO, Runs::new([first].into_iter()), &mut recovered);
    receive(&mut client, &recovered).unwrap();
    assert_eq!(client.stats().packets_rebuilt_by_peer, 1);
    assert_eq!(client.paths()[0].in_flight, before.in_flight, "only its path's ACK takes it out of flight");
    receive_at(&mut client, Instant::ORIGIN + Duration::from_millis(20), &ack_of(last)).unwrap();
    let after = client.paths()[0].clone();
    assert_eq!((after.packets_lost, client.stats().packets_mended), (1, 1));
    assert!(after.window < before.window, "{} was {}", after.window, before.window);
    assert_eq!(client.streams.sendable_bytes(), 0, "its data has arrived");
}

/// It left some time ago, for a path that has lost it: what it says of paths is old news.
#[test]
fn a_rebuilt_packet_acknowledges_nothing_and_asks_nothing() {
    let (mut client, _) = connected_client();
    client.path_zero().ask_for_probe();
    client.poll_transmit(Instant::ORIGIN, 1, &mut Vec::new()).unwrap();
    let (number, _) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
    let mut payload = ack_of(number);
    payload.push(0x1a); // PATH_CHALLENGE
    payload.extend_from_slice(&[7; 8]);
    receive(&mut client, &repair_of_one(5, &payload)).unwrap();
    assert_eq!(client.stats().packets_rebuilt, 1);
    assert!(client.paths.sent_packet(PathId::ZERO, number).is_some(), "it is not acknowledged");
    assert!(!client.path_zero().owes_validation());
    // In a packet that has arrived it counts.
    receive(&mut client, &payload).unwrap();
    assert!(client.paths.sent_packet(PathId::ZERO, number).is_none());
    assert!(client.path_zero().owes_validation());
}
