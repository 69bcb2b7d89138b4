//! Floods about paths and connection ids.

use proto::{
    ConnectionId, PathId, TransportErrorCode,
    wire::{
        Frame, MaxPathId, NewConnectionId, PathAbandon, PathChallenge, PathStatus, ResetToken,
        RetireConnectionId,
    },
};
use units::Duration;

use crate::siege::{Siege, config, frames};

fn new_connection_id(path: PathId, sequence: u64, retire_prior_to: u64) -> NewConnectionId {
    let bytes = (sequence + 1).to_be_bytes();
    let id = ConnectionId::new(&bytes).expect("eight bytes");
    let path = (path != PathId::ZERO).then_some(path);
    NewConnectionId { path, sequence, retire_prior_to, id, reset_token: ResetToken([sequence as u8; 16]) }
}

/// A client opens every path that it may from an address that is not its own. Each address gets at
/// most three bytes for each one that came from it; there never are more paths than allowed.
#[test]
fn paths_from_forged_addresses_amplify_threefold_at_most() {
    let config = config();
    let mut siege = Siege::of_server(&config);
    let stream = siege.victim().open(proto::Dir::Uni).expect("the peer allows streams");
    siege.victim().write(stream, &[7; 500_000]).expect("there is room");
    for n in 1..config.max_paths as u16 {
        let (now, port) = (siege.now(), 1_000 + n);
        let path =
            siege.attacker().open_path(now, fuzz_targets::pair::network(port, false)).expect("an id is left");
        // The server sees another address than the client has.
        siege.send_on(path, 2_000 + n, &frames([Frame::Ping]));
        siege.hear();
        siege.send_on(path, 2_000 + n, &frames([Frame::Ping]));
        siege.pass(Duration::from_millis(500));
    }
    siege.pass(Duration::from_secs(20));
    let paths = siege.victim().paths();
    assert!(paths.len() <= config.max_paths as usize);
    for path in paths.iter().filter(|p| p.id != PathId::ZERO) {
        assert!(path.bytes_sent > 0, "path {} was not even challenged", path.id);
        assert!(path.bytes_sent <= 3 * path.bytes_received, "{path:?}");
    }
    siege.assert_memory(2 << 20);
}

/// Abandoning paths that were never opened uses their ids up and makes the server provide new ones,
/// which count from when it has said so: PROTOCOL_VIOLATION for whoever does not wait for that.
#[test]
fn abandoning_path_after_path_ends_the_connection() {
    const BOUND: usize = 1 << 20;
    let mut siege = Siege::of_server(&config());
    siege.send(&frames([Frame::MaxPathId(MaxPathId { maximum: PathId(u32::MAX) })]));
    siege.flood(100_000, |n, out| {
        PathAbandon { path: PathId(n as u32 + 1), error_code: TransportErrorCode::NO_ERROR }.encode(out);
    });
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    siege.assert_memory(BOUND);
}

/// Abandoning a path beyond the limit: PROTOCOL_VIOLATION.
#[test]
fn a_path_id_beyond_the_limit_ends_the_connection() {
    let abandon = PathAbandon { path: PathId(4), error_code: TransportErrorCode::NO_ERROR };
    let mut ids = Vec::new();
    new_connection_id(PathId(4), 0, 0).encode(&mut ids);
    for payload in [frames([Frame::PathAbandon(abandon)]), ids] {
        let mut siege = Siege::of_server(&config());
        siege.send(&payload);
        siege.hear();
        siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

/// However many challenges arrive: at most one datagram leaves for each one that came, and nothing
/// piles up.
#[test]
fn a_flood_of_challenges_is_answered_one_to_one() {
    // Two bytes for each challenge: the records of the packets that carried them, and of what they
    // were answered with.
    const BOUND: usize = 200_000;
    let mut siege = Siege::of_server(&config());
    siege.flood(100_000, |n, out| PathChallenge(n.to_be_bytes()).encode(out));
    siege.assert_open();
    siege.assert_answers(1, 10);
    // The answers fill whole datagrams (RFC 9000 section 8.2.2), but no more than those that asked.
    assert!(siege.answered.bytes <= siege.sent.bytes * 3 / 2, "{:?} for {:?}", siege.answered, siege.sent);
    siege.assert_memory_beside_decoder(BOUND);
}

/// Challenges that arrive in bulk before anything can be sent: four are remembered.
#[test]
fn challenges_that_wait_are_few() {
    const BOUND: usize = 64 << 10;
    let mut siege = Siege::of_server(&config());
    for n in 0..50_000u64 {
        siege.send(&frames([Frame::PathChallenge(PathChallenge(n.to_be_bytes()))]));
    }
    siege.assert_memory_beside_decoder(BOUND);
    siege.hear();
    siege.assert_open();
    assert!(siege.answered.datagrams <= 2, "{:?}", siege.answered);
}

/// More connection ids than we said to take: CONNECTION_ID_LIMIT_ERROR.
#[test]
fn too_many_connection_ids_end_the_connection() {
    let mut siege = Siege::of_server(&config());
    siege.flood(20, |n, out| new_connection_id(PathId::ZERO, 10 + n, 0).encode(out));
    siege.assert_closed_with(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
}

/// Every new connection id retires all before it, and the peer acknowledges none of the answers:
/// 1,024 unanswered retirements and 1 MiB, then CONNECTION_ID_LIMIT_ERROR (RFC 9000 section 5.1.2).
#[test]
fn retiring_ids_without_end_ends_the_connection() {
    const BOUND: usize = 1 << 20;
    const FRAMES: u64 = 1_200;
    let mut siege = Siege::of_server(&config());
    siege.flood(FRAMES, |n, out| new_connection_id(PathId::ZERO, 10 + n, 10 + n).encode(out));
    siege.assert_closed_with(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
    siege.assert_memory(BOUND);
}

/// The same from a peer that acknowledges: it may go on, one answer for one packet.
#[test]
fn ids_that_replace_each_other_are_answered_one_to_one() {
    let mut siege = Siege::of_server(&config());
    for n in 10..5_010 {
        let mut payload = frames([Frame::Ping]);
        new_connection_id(PathId::ZERO, n, n).encode(&mut payload);
        let last = siege.victim().next_packet_number_for_fuzzing(PathId::ZERO) - 1;
        crate::acks::ack_into(&mut payload, PathId::ZERO, last..=last);
        siege.send(&payload);
        siege.hear();
        if siege.end.is_some() {
            break;
        }
    }
    // It may happen to acknowledge a number that was left out.
    if siege.end.is_some() {
        siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    }
    siege.assert_answers(2, 10);
}

/// Each id that the peer retires is replaced, and can be retired once it has left:
/// PROTOCOL_VIOLATION for whoever does not wait for that.
#[test]
fn consuming_our_ids_without_end_ends_the_connection() {
    const BOUND: usize = 1 << 20;
    let mut siege = Siege::of_server(&config());
    siege.flood(100_000, |n, out| RetireConnectionId { path: Some(PathId(1)), sequence: n }.encode(out));
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    siege.assert_memory(BOUND);
}

/// Answer: PROTOCOL_VIOLATION.
#[test]
fn retiring_an_id_never_issued_ends_the_connection() {
    let mut siege = Siege::of_server(&config());
    siege.send(&frames([Frame::RetireConnectionId(RetireConnectionId { path: None, sequence: 1_000 })]));
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// Frames that only change a number: no answer but ACKs, no memory.
#[test]
fn floods_of_statuses_and_limits_cost_nothing() {
    const BOUND: usize = 64 << 10;
    let mut siege = Siege::of_server(&config());
    let before = siege.answered;
    siege.flood(200_000, |n, out| {
        PathStatus { path: PathId::ZERO, sequence: n + 1, backup: n % 2 == 0 }.encode(out);
        MaxPathId { maximum: PathId(4 + n as u32) }.encode(out);
    });
    siege.assert_open();
    assert!(siege.answered.datagrams - before.datagrams <= siege.sent.datagrams);
    siege.assert_memory_beside_decoder(BOUND);
}
