//! Version negotiation (RFC 9000 section 6).

use mendpath_proto::{AddressValidation, ConnectionError, ConnectionId, wire::encode_version_negotiation};
use units::Duration;

use super::net::{CLIENT, Net, SERVER, addr, server_addr};

/// Source and destination ids of a client's first packet.
fn ids(initial: &[u8]) -> (ConnectionId, ConnectionId) {
    let dcid_len = usize::from(initial[5]);
    let dcid = ConnectionId::new(&initial[6..6 + dcid_len]).unwrap();
    let scid_len = usize::from(initial[6 + dcid_len]);
    (dcid, ConnectionId::new(&initial[7 + dcid_len..7 + dcid_len + scid_len]).unwrap())
}

/// A client whose first Initial did not arrive, and what a server would answer that speaks
/// `versions` only.
fn unanswered(versions: &[u32]) -> (Net, mendpath_proto::ConnectionHandle, Vec<u8>) {
    let mut net = Net::new(AddressValidation::Never);
    let first = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let stash = first.clone();
    net.passes = Box::new(move |packet| {
        if packet.to == server_addr() {
            *stash.borrow_mut() = packet.data.clone();
            return false;
        }
        true
    });
    let client = net.connect();
    net.run(Duration::from_millis(2));
    let (dcid, scid) = ids(&first.borrow());
    let mut answer = Vec::new();
    encode_version_negotiation(0, &scid, &dcid, versions, &mut answer);
    (net, client, answer)
}

#[test]
fn no_common_version_ends_the_attempt_at_once() {
    let (mut net, client, answer) = unanswered(&[0x1a2a_3a4a, 2]);
    net.inject(server_addr(), addr(2, 1), answer);
    net.run(Duration::from_millis(2));
    assert_eq!(net.lost(CLIENT, client), Some(ConnectionError::VersionMismatch));
    assert!(!net.hosts[CLIENT].connections.contains_key(&client), "nothing more is sent");
}

#[test]
fn an_answer_that_lists_our_version_is_a_lie() {
    let (mut net, client, answer) = unanswered(&[2, 1]);
    net.inject(server_addr(), addr(2, 1), answer);
    net.passes = Box::new(|_| true);
    net.run(Duration::from_secs(3));
    assert!(!net.client(client).is_handshaking());
}

#[test]
fn an_answer_to_somebody_else_is_ignored() {
    let (mut net, client, mut answer) = unanswered(&[2]);
    let source_at = answer.len() - 4 - 8;
    answer[source_at] ^= 1;
    net.inject(server_addr(), addr(2, 1), answer);
    net.passes = Box::new(|_| true);
    net.run(Duration::from_secs(3));
    assert!(!net.client(client).is_handshaking());
}

#[test]
fn too_late_after_the_servers_first_packet() {
    let (mut net, client, answer) = unanswered(&[2]);
    // The server's first datagram arrives, the client's second does not.
    let mut to_server = 0;
    net.passes = Box::new(move |packet| {
        to_server += u32::from(packet.to == server_addr());
        packet.from == server_addr() || to_server < 2
    });
    net.run(Duration::from_millis(1_200));
    assert!(net.client(client).stats().packets_received > 0);
    net.inject(server_addr(), addr(2, 1), answer);
    net.run(Duration::from_millis(5));
    assert_eq!(net.lost(CLIENT, client), None);
}

#[test]
fn servers_answer_unknown_versions_with_less_than_they_got() {
    let mut net = Net::new(AddressValidation::Never);
    for (len, id_len, answered) in [(1_200, 8, true), (1_199, 8, false), (1_200, 255, true)] {
        let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, id_len];
        packet.extend(vec![1; usize::from(id_len)]);
        packet.push(id_len);
        packet.extend(vec![2; usize::from(id_len)]);
        packet.resize(len, 0);
        let before = net.server_sent;
        net.inject(addr(2, 1), server_addr(), packet);
        net.run(Duration::from_millis(5));
        let sent = net.server_sent - before;
        assert_eq!(sent > 0, answered);
        assert!(sent < len as u64 / 2);
    }
    assert_eq!(net.hosts[SERVER].endpoint.stats().version_negotiations_sent, 2);
}
