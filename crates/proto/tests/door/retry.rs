//! Retry (RFC 9000 sections 8.1.2 and 17.2.5).

use proto::{AddressValidation, ConnectionError, RecoveryKind, TransportErrorCode};
use units::Duration;

use crate::net::{CLIENT, Net, SERVER, addr, server_addr};

/// A long header of version 1 with this type.
fn is_long(data: &[u8], kind: u8) -> bool {
    data[0] & 0xb0 == 0x80 | kind << 4
}

#[test]
fn a_client_answers_retry_and_connects() {
    let mut net = Net::new(AddressValidation::Always);
    let client = net.establish();
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.retries_sent, stats.accepted, stats.half_open), (1, 1, 0));
    // The answers to a small certificate fit one flight; the handshake took one round trip more.
    let stream = net.send(client);
    net.run(Duration::from_millis(10));
    let server = net.hosts[SERVER].connections.values_mut().next().unwrap();
    let mut buffer = [0; 200];
    assert_eq!(server.read(stream, &mut buffer), Ok(proto::Read::Data(100)));
    assert_eq!(net.client(client).stats().packets_lost, 0, "what Retry discarded is no loss");
}

/// Whoever copies the first flight is asked twice, answers once, and is one connection.
#[test]
fn a_copied_initial_is_asked_twice_and_accepted_once() {
    let mut net = Net::new(AddressValidation::Always);
    net.client.transport.recovery = RecoveryKind::Auto;
    let client = net.establish();
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.retries_sent, stats.accepted, stats.half_open), (2, 1, 0));
    assert!(net.client(client).stats().reasons.handshake > 0);
    assert_eq!(net.client(client).stats().packets_lost, 0);
}

#[test]
fn retry_comes_once_too_many_handshakes_are_under_way() {
    let mut net = Net::new(AddressValidation::WhenBusy { half_open: 3 });
    net.passes = Box::new(|packet| packet.from != server_addr());
    for _ in 0..3 {
        net.connect();
    }
    net.run(Duration::from_millis(10));
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.half_open, stats.retries_sent), (3, 0));
    net.passes = Box::new(|_| true);
    let last = net.connect();
    net.run(Duration::from_millis(20));
    assert!(!net.client(last).is_handshaking());
    assert_eq!(net.hosts[SERVER].endpoint.stats().retries_sent, 1);
    // The others get through too; then nobody is asked.
    net.run(Duration::from_secs(5));
    assert_eq!(net.hosts[SERVER].endpoint.stats().half_open, 0);
    net.establish();
    assert_eq!(net.hosts[SERVER].endpoint.stats().retries_sent, 1);
}

#[test]
fn half_open_connections_are_bounded_and_the_next_is_refused() {
    let mut net = Net::new(AddressValidation::Never);
    net.server.max_half_open = 2;
    net.restart_server();
    net.passes = Box::new(|packet| packet.from != server_addr());
    net.connect();
    net.connect();
    net.run(Duration::from_millis(5));
    net.passes = Box::new(|_| true);
    let third = net.connect();
    net.run(Duration::from_millis(5));
    let refused = TransportErrorCode::CONNECTION_REFUSED.0;
    assert!(
        matches!(net.lost(CLIENT, third), Some(ConnectionError::TransportClosed { code, by_peer: true, .. }) if code == refused)
    );
    assert_eq!(net.hosts[SERVER].endpoint.stats().refused, 1);
}

/// Every packet around Retry may be lost; probes repeat the Initial, and the server asks again.
#[test]
fn every_packet_around_retry_may_be_lost() {
    for lost in 1..=6 {
        let mut net = Net::new(AddressValidation::Always);
        let mut count = 0;
        net.passes = Box::new(move |_| {
            count += 1;
            count != lost
        });
        let client = net.connect();
        net.run(Duration::from_secs(4));
        assert!(!net.client(client).is_handshaking(), "packet {lost} lost");
    }
}

#[test]
fn a_client_answers_one_retry_only_and_none_that_was_changed() {
    let mut net = Net::new(AddressValidation::Always);
    let client = net.connect();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let copies = seen.clone();
    net.passes = Box::new(move |packet| {
        if is_long(&packet.data, 3) && packet.from == server_addr() {
            copies.borrow_mut().push(packet.data.clone());
            return false;
        }
        true
    });
    net.run(Duration::from_secs(2));
    net.passes = Box::new(|_| true);
    let retry = seen.borrow()[0].clone();
    let mut forged = retry.clone();
    forged[40] ^= 1;
    let malformed = net.client(client).stats().malformed_packets;
    // Before the genuine Retry comes one with another token, behind it the same again.
    for data in [forged, retry.clone(), retry] {
        net.inject(server_addr(), addr(2, 1), data);
    }
    net.run(Duration::from_millis(20));
    assert!(!net.client(client).is_handshaking());
    assert_eq!(net.client(client).stats().malformed_packets - malformed, 2);
}

/// RFC 9000 section 8.1.3: a token of ours that is not good any more cannot be answered with another Retry.
#[test]
fn a_retry_token_from_elsewhere_closes_with_invalid_token() {
    let mut net = Net::new(AddressValidation::Always);
    // The client's second Initial comes from another port than its first, as if an attacker had read the token.
    let moved = std::rc::Rc::new(std::cell::RefCell::new(None));
    let stash = moved.clone();
    let mut initials = 0;
    net.passes = Box::new(move |packet| {
        if packet.to != server_addr() {
            return true;
        }
        initials += 1;
        if initials == 2 {
            *stash.borrow_mut() = Some(packet.data.clone());
        }
        initials < 2
    });

    let client = net.connect();
    net.run(Duration::from_millis(10));
    let stolen = moved.borrow_mut().take().expect("the client answered Retry");
    net.inject(addr(2, 9), server_addr(), stolen.clone());
    net.run(Duration::from_millis(5));
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.accepted, stats.refused, stats.retries_sent), (0, 1, 1));
    // Too late from the right address: the client is told.
    net.run(Duration::from_secs(16));
    net.inject(addr(2, 1), server_addr(), stolen);
    net.run(Duration::from_millis(5));
    let invalid = TransportErrorCode::INVALID_TOKEN.0;
    let lost = net.lost(CLIENT, client);
    assert!(
        matches!(lost, Some(ConnectionError::TransportClosed { code, by_peer: true, .. }) if code == invalid),
        "{lost:?}"
    );
}
