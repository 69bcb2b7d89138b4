//! At most three bytes for one until an address is validated (RFC 9000 section 8.1).

use std::sync::Arc;

use mendpath_proto::{AddressValidation, RecoveryKind};
use units::{Duration, Instant};

use super::net::{DELAY, Net, SERVER, addr, server_addr};

/// A certificate that needs about ten packets.
const LARGE: usize = 140;

#[test]
fn a_large_certificate_stays_within_three_times_whatever_is_lost() {
    for lost in 0..=14u64 {
        let mut net = Net::with_certificate(AddressValidation::Never, LARGE);
        net.amplification_limit = Some(3);
        let mut count = 0;
        net.passes = Box::new(move |_| {
            count += 1;
            count != lost
        });
        let client = net.connect();
        net.run(Duration::from_secs(6));
        assert!(!net.client(client).is_handshaking(), "packet {lost} lost");
        assert!(net.server_sent > 9_000, "{}", net.server_sent);
    }
}

/// Everything that the server may send is lost: the client's probes must set it free, again and
/// again (RFC 9002 section 6.2.2.1).
#[test]
fn probes_of_the_client_free_a_server_that_is_out_of_budget() {
    let mut net = Net::with_certificate(AddressValidation::Never, LARGE);
    net.amplification_limit = Some(3);
    let mut from_server = 0;
    net.passes = Box::new(move |packet| {
        from_server += u32::from(packet.from == server_addr());
        packet.from != server_addr() || from_server > 7
    });
    let client = net.connect();
    net.run(Duration::from_secs(10));
    assert!(!net.client(client).is_handshaking());
}

/// A client that only ever sends one datagram costs the server three, probes and the close of the
/// idle timeout included.
#[test]
fn one_datagram_costs_three_forever() {
    let mut net = Net::with_certificate(AddressValidation::Never, LARGE);
    net.amplification_limit = Some(3);
    let mut to_server = 0;
    net.passes = Box::new(move |packet| {
        to_server += u32::from(packet.to == server_addr());
        packet.from == server_addr() || to_server == 1
    });
    net.connect();
    net.run(Duration::from_secs(60));
    assert!(net.server_sent <= 3 * 1_200 && net.server_sent > 1_200);
    assert_eq!(net.hosts[SERVER].endpoint.open_connections(), 0);
}

#[test]
fn a_token_lifts_the_limit() {
    let mut net = Net::with_certificate(AddressValidation::Always, LARGE);
    let mut to_server = 0;
    // The first Initial, the one that answers Retry, and then nothing more.
    net.passes = Box::new(move |packet| {
        to_server += u32::from(packet.to == server_addr());
        packet.from == server_addr() || to_server <= 2
    });
    net.connect();
    net.run(Duration::from_millis(5));
    assert!(net.server_received <= 2 * 1_200);
    assert!(net.server_sent > 3 * net.server_received, "{} for {}", net.server_sent, net.server_received);
}

/// A client that has shown its address, and then says nothing: the flight once, then two datagrams
/// per probe timeout (RFC 9002 section 6.2.4) until the handshake has taken too long. 90 kB were
/// sent before.
#[test]
fn a_validated_client_that_falls_silent_gets_the_flight_once_and_then_probes() {
    for recovery in [RecoveryKind::None, RecoveryKind::Auto] {
        let mut net = Net::with_certificate(AddressValidation::Always, LARGE);
        Arc::make_mut(&mut net.server.transport).recovery = recovery;
        net.restart_server();
        let times = std::rc::Rc::new(std::cell::RefCell::new(std::collections::BTreeMap::new()));
        let (seen, mut to_server) = (times.clone(), 0);
        net.passes = Box::new(move |packet| {
            if packet.from == server_addr() {
                *seen.borrow_mut().entry(packet.arrives).or_insert(0) += 1;
            }
            to_server += u32::from(packet.to == server_addr());
            packet.from == server_addr() || to_server <= 2
        });
        net.connect();
        net.run(Duration::from_secs(60));
        let sent: Vec<usize> = times.borrow().values().copied().collect();
        assert_eq!(sent[0], 1, "the Retry");
        assert!((7..=10).contains(&sent[1]), "the flight: {sent:?}");
        assert!(sent[2..].iter().all(|probes| (1..=2).contains(probes)), "{sent:?}");
        // After 1, 3 and 7 seconds and every 4 from then on, up to the handshake's thirty.
        assert_eq!(sent.len(), 2 + 8, "{sent:?}");
        assert!(net.server_sent <= 32_000, "{}", net.server_sent);
    }
}

/// All of a long flight is lost: the first probe timeout mends it, with a round trip for what
/// probes do not carry.
#[test]
fn a_flight_that_is_lost_whole_comes_back_after_one_probe_timeout() {
    let mut net = Net::with_certificate(AddressValidation::Always, LARGE);
    let mut from_server = 0;
    net.passes = Box::new(move |packet| {
        from_server += u32::from(packet.from == server_addr());
        packet.from != server_addr() || from_server == 1 || packet.arrives > Instant::ORIGIN + DELAY * 100
    });
    let client = net.connect();
    net.run(Duration::from_millis(1_100));
    assert!(!net.client(client).is_handshaking());
}

/// A burst that counts packets and takes the first ten: each probe timeout puts two of them behind us
/// (RFC 9002 section 6.2.4), also where a single datagram holds all there is to repeat.
#[test]
fn a_burst_of_ten_packets_does_not_outlast_the_handshake() {
    let mut net = Net::new(AddressValidation::Never);
    let mut count = 0;
    net.passes = Box::new(move |_| {
        count += 1;
        count > 10
    });
    let client = net.connect();
    // One at the start, two after 1, 3, 7 and 11 seconds, and the tenth after 15.
    net.run(Duration::from_millis(15_100));
    assert!(!net.client(client).is_handshaking());
}

/// Unreadable datagrams from the client's address count (section 8.1), those from elsewhere do not.
#[test]
fn what_is_sent_from_elsewhere_buys_nothing() {
    let mut net = Net::with_certificate(AddressValidation::Never, LARGE);
    let first = std::rc::Rc::new(std::cell::RefCell::new(None));
    let stash = first.clone();
    net.passes = Box::new(move |packet| {
        if packet.to == server_addr() && packet.from == addr(2, 1) {
            let mut first = stash.borrow_mut();
            let is_first = first.is_none();
            first.get_or_insert_with(|| packet.data.clone());
            return is_first;
        }
        true
    });
    net.connect();
    net.run(Duration::from_millis(5));
    let before = net.server_sent;
    let again = first.borrow().clone().unwrap();
    net.inject(addr(7, 7), server_addr(), again);
    net.run(Duration::from_millis(5));
    assert!(before <= 3 * 1_200);
    assert_eq!(net.server_sent, before);
}
