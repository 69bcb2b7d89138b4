//! Key updates (RFC 9001 section 6) between two endpoints.

use mendpath_proto::{RecoveryKind, TransportConfig};
use units::Duration;

use crate::common::Pair;

/// Spreads `n` evenly over 0 to 255.
fn random_byte(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff
}

#[test]
fn a_forced_update_is_followed_by_the_peer() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    for update in 1..=3 {
        pair.client().force_key_update();
        pair.transfer(10_000, Duration::from_secs(1));
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.client().stats().key_updates, update);
        assert_eq!(pair.server().stats().key_updates, update);
    }
    pair.server().force_key_update();
    for _ in 0..3 {
        pair.transfer(10_000, Duration::from_secs(1));
        pair.run(Duration::from_secs(1));
    }
    assert_eq!((pair.client().stats().key_updates, pair.server().stats().key_updates), (4, 4));
}

/// What is given up at rest is there again when it is needed.
#[test]
fn an_update_after_a_rest_is_followed_by_the_peer() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    for update in 1..=3 {
        pair.run(Duration::from_secs(10));
        pair.client().force_key_update();
        pair.transfer(10_000, Duration::from_secs(1));
        pair.run(Duration::from_secs(1));
        assert_eq!((pair.client().stats().key_updates, pair.server().stats().key_updates), (update, update));
    }
    assert_eq!(pair.client().stats().malformed_packets, 0);
}

#[test]
fn updates_wait_until_the_last_one_is_settled() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.client().force_key_update();
    pair.connect();
    pair.transfer(1_000, Duration::from_secs(1));
    for _ in 0..20 {
        pair.client().force_key_update();
        pair.transfer(1_000, Duration::from_secs(1));
    }
    // 25 ms of ACK delay alone make three probe timeouts last longer than many of these transfers
    // together.
    let updates = pair.client().stats().key_updates;
    assert!((1..=3).contains(&updates), "{updates}");
}

/// Thousands of updates, begun by both sides whenever they may, while packets are lost and overtake
/// each other on two paths.
#[test]
fn a_connection_survives_thousands_of_updates() {
    for recovery in [RecoveryKind::None, RecoveryKind::Cofuso] {
        let config = TransportConfig { key_update_interval: 1, recovery, ..TransportConfig::default() };
        let mut pair = Pair::new(config);
        pair.connect();
        pair.open_path(2);
        pair.lose = Box::new(|n, _| random_byte(n) < 8);
        pair.delay = Box::new(|n, path| {
            let slow = path.local.port() == 2 || path.remote.port() == 2;
            let reordered = if random_byte(n * 31) < 20 { 3 } else { 0 };
            Duration::from_millis(if slow { 4 } else { 1 } + reordered)
        });
        for _ in 0..5_000 {
            pair.transfer(2_000, Duration::from_secs(20));
            pair.run(Duration::from_millis(100));
        }
        let (client, server) = (pair.client().stats(), pair.server().stats());
        assert!(client.key_updates > 2_000, "{recovery}: {client:?}");
        assert!(client.key_updates.abs_diff(server.key_updates) <= 1, "{client:?} {server:?}");
        assert!(client.packets_lost > 100, "{client:?}");
        // Where nothing of a phase has arrived on a path, the next phase can be mistaken for the
        // last.
        let misread = client.malformed_packets + server.malformed_packets;
        assert!(misread < client.packets_sent / 200, "{client:?} {server:?}");
    }
}

#[test]
fn a_dead_path_does_not_hold_up_updates() {
    let mut pair = Pair::new(TransportConfig { key_update_interval: 1, ..TransportConfig::default() });
    pair.connect();
    pair.open_path(2);
    pair.transfer(10_000, Duration::from_secs(1));
    pair.lose = Box::new(|_, path| path.local.port() == 2 || path.remote.port() == 2);
    let before = pair.client().stats().key_updates;
    for _ in 0..100 {
        pair.transfer(3_000, Duration::from_secs(5));
        pair.run(Duration::from_millis(100));
    }
    assert!(pair.client().stats().key_updates > before + 30, "{:?}", pair.client().stats());
    pair.lose = Box::new(|_, _| false);
    pair.run(Duration::from_secs(10));
    pair.transfer(500_000, Duration::from_secs(5));
    let suspect = |p: &mendpath_proto::PathStats| p.pto_count > 0;
    assert!(!pair.client().paths().iter().any(suspect), "the path that was gone for many phases is back");
}

/// Flipping any bit of the first byte, which holds the key phase under header protection, costs the
/// packet and nothing else.
#[test]
fn a_flipped_key_phase_bit_changes_nothing() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let id = pair.client().open(mendpath_proto::Dir::Uni).unwrap();
    for round in 0..20 {
        pair.client().write(id, &[round; 500]).unwrap();
        pair.flush(true);
        for (_, _, bytes) in pair.wire.values_mut() {
            bytes[0] ^= 0x04;
        }
        pair.run(Duration::from_secs(2));
    }
    assert!(pair.server().stats().malformed_packets >= 20);
    assert_eq!(pair.server().stats().key_updates, 0);
    pair.client().force_key_update();
    pair.transfer(100_000, Duration::from_secs(2));
    assert_eq!(pair.server().stats().key_updates, 1);
}
