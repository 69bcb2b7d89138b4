//! Stateless reset (RFC 9000 section 10.3).

use std::sync::Arc;

use mendpath_proto::{AddressValidation, ConnectionError};
use units::Duration;

use super::net::{CLIENT, DELAY, Net, SERVER, addr, server_addr};

#[test]
fn the_clients_of_a_restarted_server_know_within_a_round_trip() {
    let mut net = Net::new(AddressValidation::default());
    let client = net.establish();
    net.restart_server();
    net.run(Duration::from_millis(100));
    assert_eq!(net.lost(CLIENT, client), None, "nobody has said anything");
    net.send(client);
    net.run(DELAY * 2);
    assert_eq!(net.lost(CLIENT, client), Some(ConnectionError::Reset));
    assert!(net.hosts[SERVER].endpoint.stats().resets_sent > 0);
    let sent = net.server_received;
    net.run(Duration::from_secs(10));
    assert_eq!(net.server_received, sent, "and say nothing any more");
    assert_eq!(net.hosts[CLIENT].endpoint.open_connections(), 0);
    net.establish();
}

/// The smallest packet that asks for an answer is large enough to get a reset.
#[test]
fn a_ping_is_enough() {
    let mut net = Net::new(AddressValidation::default());
    Arc::make_mut(&mut net.client.transport).keep_alive = Some(Duration::from_secs(1).into());
    let client = net.establish();
    net.run(Duration::from_secs(2));
    net.restart_server();
    net.run(Duration::from_millis(1_002));
    assert_eq!(net.lost(CLIENT, client), Some(ConnectionError::Reset));
}

#[test]
fn a_reset_on_any_path_ends_the_connection_on_all() {
    let mut net = Net::new(AddressValidation::default());
    let client = net.establish();
    net.open_second_path(client);
    net.run(Duration::from_millis(20));
    assert!(net.client(client).paths().iter().all(|path| path.state == mendpath_proto::PathState::Active));
    net.restart_server();
    // Path 0 is cut: the news comes over the other.
    net.passes = Box::new(|packet| packet.to != addr(2, 1));
    for _ in 0..20 {
        net.send(client);
    }
    net.run(Duration::from_secs(2));
    assert_eq!(net.lost(CLIENT, client), Some(ConnectionError::Reset));
}

#[test]
fn a_server_recognises_resets_of_its_clients() {
    let mut net = Net::new(AddressValidation::default());
    let client = net.establish();
    net.open_second_path(client);
    net.run(Duration::from_millis(20));
    // The process that ran the client is still there, but has forgotten the connection.
    let host = &mut net.hosts[CLIENT];
    host.connections.remove(&client);
    host.endpoint.forget(client);
    let server = *net.hosts[SERVER].connections.keys().next().unwrap();
    let stream =
        net.hosts[SERVER].connections.get_mut(&server).unwrap().open(mendpath_proto::Dir::Uni).unwrap();
    let data = vec![1; 20_000];
    net.hosts[SERVER].connections.get_mut(&server).unwrap().write(stream, &data).unwrap();
    net.run(Duration::from_secs(5));
    assert_eq!(net.lost(SERVER, server), Some(ConnectionError::Reset));
}

#[test]
fn a_wrong_token_is_nothing_and_a_right_one_is_known_whatever_it_stands_in() {
    let mut net = Net::new(AddressValidation::default());
    let client = net.establish();
    let stolen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let stash = stolen.clone();
    net.send(client);
    net.restart_server();
    net.passes = Box::new(move |packet| {
        if packet.from == server_addr() {
            *stash.borrow_mut() = packet.data.clone();
        }
        packet.from != server_addr()
    });
    net.run(DELAY);
    let reset = stolen.borrow().clone();
    assert!(reset.len() >= 42, "the server answered with a reset");
    let mut wrong = reset.clone();
    *wrong.last_mut().unwrap() ^= 1;
    net.passes = Box::new(|packet| packet.from == server_addr());
    net.inject(server_addr(), addr(2, 1), wrong);
    net.run(DELAY);
    assert_eq!(net.lost(CLIENT, client), None);
    // As the end of what looks like a packet of 21 bytes, shorter than any real one.
    let short = [&[0x55; 5][..], &reset[reset.len() - 16..]].concat();
    net.inject(server_addr(), addr(2, 1), short);
    net.run(DELAY);
    assert_eq!(net.lost(CLIENT, client), Some(ConnectionError::Reset));
}

#[test]
fn no_reset_for_small_packets_and_no_more_than_a_thousand_a_second() {
    let mut net = Net::new(AddressValidation::default());
    let packet = |len: usize| [&[0x40][..], &vec![3; len - 1]].concat();
    net.inject(addr(2, 1), server_addr(), packet(42));
    net.run(DELAY * 2);
    assert_eq!(net.server_sent, 0);
    for _ in 0..3_000 {
        net.inject(addr(2, 1), server_addr(), packet(43));
    }
    net.run(DELAY * 2);
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!(stats.resets_sent, 1_000);
    assert_eq!(net.server_sent, 42 * 1_000);
}

/// A path that one side has forgotten while the other still sends on it must not take the
/// connection along.
#[test]
fn packets_of_a_closed_path_do_not_reset() {
    let mut net = Net::new(AddressValidation::default());
    let client = net.establish();
    let late = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let stash = late.clone();
    net.passes = Box::new(move |packet| {
        if packet.from == addr(3, 1) {
            stash.borrow_mut().push(packet.data.clone());
        }
        true
    });
    let second = net.open_second_path(client);
    net.run(Duration::from_millis(100));
    let now = net.now;
    net.client(client).close_path(now, second, 0u8.into()).unwrap();
    net.run(Duration::from_secs(5));
    let late = late.borrow().clone();
    assert!(!late.is_empty());
    for data in late {
        net.inject(addr(3, 1), server_addr(), data);
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.lost(CLIENT, client), None);
    assert_eq!(net.hosts[SERVER].endpoint.stats().resets_sent, 0);
}
