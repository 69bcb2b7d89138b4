//! Lies about what arrived: ACK and RECOVERED.

use std::ops::RangeInclusive;

use proto::{
    Dir, PathId, TransportErrorCode,
    wire::{Frame, encode_ack, encode_recovered},
};
use units::Duration;

use crate::siege::{Siege, config, frames};

fn ack(path: PathId, range: RangeInclusive<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    ack_into(&mut out, path, range);
    out
}

/// Appends a PATH_ACK.
pub fn ack_into(out: &mut Vec<u8>, path: PathId, range: RangeInclusive<u64>) {
    assert_eq!(encode_ack(Some(path), 0, None, [range].into_iter(), 1_000, out), 1);
}

/// Has the victim's application write so much that there always is more to send.
fn write_plenty(siege: &mut Siege) {
    let victim = siege.victim();
    let id = victim.open(Dir::Uni).expect("the peer allows streams");
    let written = victim.write(id, &vec![7; 1 << 20]).expect("there is room");
    assert!(written > 500_000);
}

/// Answer: PROTOCOL_VIOLATION, in both roles.
#[test]
fn an_ack_for_a_packet_never_sent_ends_the_connection() {
    for of in [Siege::of_server, Siege::of_client] {
        let mut siege = of(&config());
        siege.send(&ack(PathId::ZERO, 0..=1 << 40));
        siege.hear();
        siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

/// Answer: PROTOCOL_VIOLATION.
#[test]
fn an_ack_for_a_path_that_never_was_ends_the_connection() {
    let mut siege = Siege::of_server(&config());
    siege.send(&ack(PathId(3), 0..=0));
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// A client that acknowledges what it has not seen, to be sent more than the path carries, is found
/// out by a number that was left out: within 1,024 packets, PROTOCOL_VIOLATION.
#[test]
fn optimistic_acks_are_found_out() {
    const BOUND: u64 = 1_024;
    let mut siege = Siege::of_server(&config());
    let mut next = siege.victim().next_packet_number_for_fuzzing(PathId::ZERO);
    let from = next;
    write_plenty(&mut siege);
    while siege.end.is_none() {
        siege.pass(Duration::from_millis(10));
        let sent = siege.victim().next_packet_number_for_fuzzing(PathId::ZERO);
        assert!(sent - from <= BOUND, "{} packets after", sent - from);
        assert!(sent > next, "the server ran out of data");
        siege.send(&ack(PathId::ZERO, next..=sent - 1));
        siege.hear();
        next = sent;
    }
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// Repeating an ACK makes the victim send nothing and hold nothing.
#[test]
fn repeated_acks_cost_nothing() {
    const BOUND: usize = 16 << 10;
    let mut siege = Siege::of_server(&config());
    let last = siege.victim().next_packet_number_for_fuzzing(PathId::ZERO) - 1;
    let repeated = ack(PathId::ZERO, 0..=last);
    siege.flood(100_000, |_, out| out.extend_from_slice(&repeated));
    siege.assert_open();
    assert_eq!(siege.answered.datagrams, 0);
    siege.assert_memory_beside_decoder(BOUND);
}

/// A peer that acknowledges nothing while it makes us send ACKs: the records of what was sent stay
/// below 8 MiB, and there is no more than one answer for two packets.
#[test]
fn a_peer_that_never_acknowledges_does_not_fill_our_records() {
    const BOUND: usize = 8 << 20;
    const PINGS: u64 = 100_000;
    let mut siege = Siege::of_server(&config());
    write_plenty(&mut siege);
    siege.hear();
    let before = siege.answered.datagrams;
    let ping = frames([Frame::Ping]);
    for _ in 0..PINGS {
        siege.send(&ping);
        siege.hear();
    }
    siege.assert_open();
    assert!(siege.answered.datagrams - before <= PINGS / 2 + 100);
    siege.assert_memory_beside_decoder(BOUND);
}

/// Answer: PROTOCOL_VIOLATION.
#[test]
fn rebuilding_a_packet_never_sent_ends_the_connection() {
    let mut siege = Siege::of_server(&config());
    let mut claim = Vec::new();
    encode_recovered(PathId::ZERO, [1 << 40..=1 << 40].into_iter(), &mut claim);
    siege.send(&claim);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// What is said to be rebuilt again and again is dealt with once, and costs no memory.
#[test]
fn repeated_recovered_frames_count_once() {
    const BOUND: usize = 16 << 10;
    let mut siege = Siege::of_server(&config());
    write_plenty(&mut siege);
    siege.hear();
    siege.meter.reset();
    let last = siege.victim().next_packet_number_for_fuzzing(PathId::ZERO) - 1;
    let (in_flight, before) = (siege.victim().paths()[0].in_flight, siege.answered);
    assert!(in_flight > 0);
    let mut claim = Vec::new();
    encode_recovered(PathId::ZERO, [last - 3..=last].into_iter(), &mut claim);
    siege.flood(20_000, |_, out| out.extend_from_slice(&claim));
    siege.assert_open();
    assert!(
        siege.victim().stats().packets_rebuilt_by_peer <= 4,
        "{}",
        siege.victim().stats().packets_rebuilt_by_peer
    );
    // They stay un-acknowledged: a lie opens no window (docs/decisions/0003-recovered.md).
    assert_eq!(siege.victim().paths()[0].in_flight, in_flight);
    assert!(siege.answered.datagrams - before.datagrams <= siege.sent.datagrams);
    siege.assert_memory_beside_decoder(BOUND);
}
