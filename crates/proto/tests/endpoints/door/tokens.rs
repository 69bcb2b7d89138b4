//! Tokens of NEW_TOKEN (RFC 9000 section 8.1.3).

use std::sync::Arc;

use mendpath_proto::AddressValidation;
use units::Duration;

use super::net::{Net, SERVER, addr};

#[test]
fn a_returning_client_is_spared_the_retry_once_per_token() {
    let mut net = Net::new(AddressValidation::Always);
    net.establish();
    assert_eq!(net.client.tokens.len(), 1);
    let retries = |net: &Net| net.hosts[SERVER].endpoint.stats().retries_sent;
    assert_eq!(retries(&net), 1);
    net.establish();
    assert_eq!(retries(&net), 1, "the token was good");
    assert_eq!(net.client.tokens.len(), 1, "and was replaced by a new one");
    net.client.tokens = Arc::default();
    net.establish();
    assert_eq!(retries(&net), 2, "no token, no mercy");
}

/// Two clients with one token: the second gets a Retry like anybody, and connects.
#[test]
fn a_token_shown_twice_is_worth_nothing_and_does_no_harm() {
    let mut net = Net::new(AddressValidation::Always);
    let first_initial = std::rc::Rc::new(std::cell::RefCell::new(None));
    net.establish();
    let stash = first_initial.clone();
    net.passes = Box::new(move |packet| {
        stash.borrow_mut().get_or_insert_with(|| packet.data.clone());
        true
    });
    net.establish();
    assert_eq!(net.hosts[SERVER].endpoint.stats().retries_sent, 1);
    let replayed = first_initial.borrow_mut().take().unwrap();
    // To other ids, or the packet would go to the connection that exists; ids are covered by no
    // token.
    net.run(Duration::from_secs(40));
    assert_eq!(net.hosts[SERVER].endpoint.open_connections(), 0, "idle by now");
    net.inject(addr(2, 1), super::net::server_addr(), replayed);
    net.run(Duration::from_millis(5));
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.retries_sent, stats.accepted), (2, 2));
}

#[test]
fn a_token_is_not_good_from_another_address_or_after_a_day() {
    for (elsewhere, later) in [(true, Duration::ZERO), (false, Duration::from_secs(24 * 3_600 + 1))] {
        let mut net = Net::new(AddressValidation::Always);
        net.establish();
        net.now += later;
        let path = mendpath_proto::NetworkPath {
            local: addr(if elsewhere { 3 } else { 2 }, 1),
            remote: super::net::server_addr(),
        };
        let host = &mut net.hosts[super::net::CLIENT];
        host.connections.clear();
        let (handle, connection) = host.endpoint.connect(net.now, &net.client, path, "localhost").unwrap();
        host.connections.insert(handle, connection);
        net.run(Duration::from_millis(50));
        assert!(!net.client(handle).is_handshaking());
        assert_eq!(net.hosts[SERVER].endpoint.stats().retries_sent, 2);
    }
}

#[test]
fn a_restarted_server_takes_old_tokens_for_none() {
    let mut net = Net::new(AddressValidation::Always);
    net.establish();
    net.restart_server();
    net.establish();
    let stats = net.hosts[SERVER].endpoint.stats();
    assert_eq!((stats.retries_sent, stats.refused), (1, 0));
}

#[test]
fn a_server_that_never_asks_gives_no_tokens() {
    let mut net = Net::new(AddressValidation::Never);
    net.establish();
    assert!(net.client.tokens.is_empty());
}
