//! What only the inside of a connection can show: frames that no honest peer sends.

mod keys;
mod paths;
mod repair;

use std::sync::Arc;

use units::{Duration, Instant};

use super::*;
use crate::{
    ClientConfig, DatagramOptions, PathLimits, PathUse, RepairConfig,
    crypto::{Level, NewKeys, TlsSession},
    keys::{KeyPhase, OneRttKeys},
    policy::{Built, RecoveryAction, RecoveryKind, RecoveryPolicy, Scheme, UnackedView},
    streams::Read,
    wire::{CodeScheme, Dir, RepairHeader, Runs, TransportParameters},
};
use frames::FrameContext;

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
    let context = FrameContext::new(Level::OneRtt, PathId::ZERO);
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
pub(super) fn connected_client() -> (Connection, OneRttKeys) {
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
        let context = FrameContext::new(Level::ZeroRtt, PathId::ZERO);
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
    use crate::wire::{Frame, ResetStreamAt, Side, StreamId};
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let frame =
        Frame::ResetStreamAt(ResetStreamAt { id, error_code: 7u8.into(), final_size: 4, reliable_size: 2 });
    let frame = encoded(frame);
    let error = receive(&mut client(), &frame).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
    let takes = TransportConfig { reset_stream_at: true, ..TransportConfig::default() };
    receive(&mut client_with(takes), &frame).unwrap();
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

/// RFC 9000 section 10.2, whoever closes.
#[test]
fn what_comes_late_meets_a_closed_connection_for_three_whole_probe_timeouts() {
    for by_peer in [false, true] {
        let (mut client, _) = connected_client();
        client.handshake.confirm_for_test();
        client.peer.max_ack_delay = Duration::from_secs(16);
        let pto = client.path_zero().rtt().pto_base() + Duration::from_secs(16);
        if by_peer {
            let close = crate::wire::ConnectionClose::Application { error_code: 7u8.into(), reason: b"" };
            client.on_connection_close(Instant::ORIGIN, &close);
        } else {
            client.close(Instant::ORIGIN, 7u8.into(), b"");
        }
        assert_eq!(client.poll_timeout(), Some(Instant::ORIGIN + pto * 3), "by the peer: {by_peer}");
    }
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
