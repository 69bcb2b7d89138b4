//! Retry (RFC 9000 sections 8.1.2 and 17.2.5).

use std::{net::SocketAddr, sync::Arc};

use mendpath_proto::{AddressValidation, Admission, ConnectionError, RecoveryKind, TransportErrorCode};
use units::Duration;

use super::net::{CLIENT, DELAY, Host, Net, SERVER, addr, server_addr};

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
    assert_eq!(server.read(stream, &mut buffer), Ok(mendpath_proto::Read::Data(100)));
    assert_eq!(net.client(client).stats().packets_lost, 0, "what Retry discarded is no loss");
}

/// Whoever copies the first flight is asked twice, answers once, and is one connection.
#[test]
fn a_copied_initial_is_asked_twice_and_accepted_once() {
    let mut net = Net::new(AddressValidation::Always);
    Arc::make_mut(&mut net.client.transport).recovery = RecoveryKind::Slp;
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

/// The room for strangers is full: whoever comes gets in, and the oldest hears why it has to go.
#[test]
fn half_open_connections_are_bounded_and_the_oldest_makes_room() {
    let mut net = Net::new(AddressValidation::Never);
    net.server.max_half_open = 4;
    net.restart_server();
    // From networks of their own, or one network's share would be the limit. None of them completes
    // its handshake.
    net.hosts[CLIENT].addresses.extend((4..8).map(|n| SocketAddr::from(([198, 51, n, 1], 1))));
    let lost = std::rc::Rc::new(std::cell::Cell::new(true));
    let lossy = lost.clone();
    net.passes = Box::new(move |packet| packet.from != server_addr() || !lossy.get());
    let waiting: Vec<_> = (4..8).map(|n| net.connect_from(SocketAddr::from(([198, 51, n, 1], 1)))).collect();
    net.run(Duration::from_millis(5));
    assert_eq!(net.hosts[SERVER].endpoint.stats().half_open, 4);
    lost.set(false);
    let newcomer = net.connect();
    net.run(Duration::from_millis(20));
    assert!(!net.client(newcomer).is_handshaking());
    let refused = TransportErrorCode::CONNECTION_REFUSED;
    let Some(ConnectionError::ConnectionClosed { code, reason }) = net.lost(CLIENT, waiting[0]) else {
        panic!("{:?}", net.lost(CLIENT, waiting[0]))
    };
    assert_eq!((code, reason.as_str()), (refused, "too many clients wait to be let in"));
    assert!(waiting[1..].iter().all(|other| net.lost(CLIENT, *other).is_none()));
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.evicted, stats.evicted_by_network, stats.refused), (1, 0, 0));
}

/// One host that completes handshakes and says nothing more: it displaces its own connections,
/// while others come and are let in.
#[test]
fn silent_connections_of_one_address_leave_room_for_others() {
    let mut net = Net::new(AddressValidation::WhenBusy { half_open: 4 });
    net.server.max_half_open = 16;
    net.server.admission = Some(Admission::default());
    net.restart_server();
    let come = |net: &mut Net| {
        net.client.tokens = std::sync::Arc::default();
        net.establish()
    };
    let silent: Vec<_> = (0..40).map(|_| come(&mut net)).collect();
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.half_open, stats.evicted, stats.evicted_by_network), (4, 36, 36));
    assert_eq!(stats.retries_sent, 36, "from a quarter of the room on");
    assert!(net.lost(CLIENT, silent[35]).is_some() && net.lost(CLIENT, silent[36]).is_none());
    let other = net.connect_from(addr(3, 1));
    net.run(Duration::from_millis(20));
    let Host { connections, endpoint, .. } = &mut net.hosts[SERVER];
    let (handle, let_in) = connections.iter_mut().next_back().unwrap();
    assert!(!let_in.is_admitted());
    let_in.admit();
    while let Some(event) = let_in.poll_endpoint_event() {
        endpoint.handle_event(*handle, event);
    }
    assert_eq!(endpoint.stats().half_open, 4, "who is let in waits no more");
    (0..40).for_each(|_| _ = come(&mut net));
    assert_eq!(net.lost(CLIENT, other), None, "and cannot be displaced");
}

#[test]
fn a_handshake_that_takes_too_long_is_given_up_without_a_word() {
    let mut net = Net::new(AddressValidation::Never);
    net.server.handshake_timeout = Duration::from_secs(2).into();
    net.restart_server();
    let mut to_server = 0;
    net.passes = Box::new(move |packet| {
        to_server += u32::from(packet.to == server_addr());
        packet.from == server_addr() || to_server == 1
    });
    net.connect();
    net.run(Duration::from_millis(1_900));
    assert_eq!(net.hosts[SERVER].endpoint.stats().half_open, 1);
    let sent = net.server_sent;
    net.run(Duration::from_millis(200));
    assert_eq!((net.hosts[SERVER].endpoint.stats().half_open, net.server_sent), (0, sent));
    assert_eq!(net.hosts[SERVER].endpoint.open_connections(), 0);
}

/// An application that turns somebody away during the handshake is heard (RFC 9000 section 10.2.3
/// hides what a close says).
#[test]
fn a_refusal_during_the_handshake_keeps_its_reason() {
    let mut net = Net::new(AddressValidation::Never);
    let client = net.connect();
    net.run(DELAY);
    net.refuse_all();
    net.run(Duration::from_millis(5));
    let refused = TransportErrorCode::CONNECTION_REFUSED;
    let reason = "no seat is free".to_owned();
    let expected = ConnectionError::ConnectionClosed { code: refused, reason };
    assert_eq!(net.lost(CLIENT, client), Some(expected));
    // With the handshake complete, the application's own code gets through.
    let client = net.establish();
    net.refuse_all();
    net.run(Duration::from_millis(5));
    let expected =
        ConnectionError::ApplicationClosed { code: 6u8.into(), reason: b"no seat is free".to_vec() };
    assert_eq!(net.lost(CLIENT, client), Some(expected));
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

/// RFC 9000 section 8.1.3: a token of ours that is not good any more cannot be answered with
/// another Retry.
#[test]
fn a_retry_token_from_elsewhere_closes_with_invalid_token() {
    let mut net = Net::new(AddressValidation::Always);
    // The client's second Initial comes from another port than its first, as if an attacker had
    // read the token.
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
    let invalid = TransportErrorCode::INVALID_TOKEN;
    let lost = net.lost(CLIENT, client);
    assert!(
        matches!(lost, Some(ConnectionError::ConnectionClosed { code, .. }) if code == invalid),
        "{lost:?}"
    );
}
