//! What only the inside of a connection shows of TLS and of packet protection.

use super::*;

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
