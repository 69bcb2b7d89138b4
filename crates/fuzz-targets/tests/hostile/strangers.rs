//! Clients that complete the handshake on a server which lets in only whom it knows, and show it
//! nothing: each holds little, whatever it sends.

use proto::{
    Dir, PathId, Side, StreamId, TransportConfig, TransportErrorCode,
    wire::{CodeScheme, Crypto, Datagram, Frame, RepairHeader, Stream},
};

use crate::siege::{Siege, frames};

/// Heap that one of them takes after its handshake, with everything at once. A proxy server has at
/// most 512 of them: 96 MiB.
const PER_STRANGER: usize = 192 << 10;

fn siege() -> Siege {
    Siege::of_door(&TransportConfig::default())
}

fn stream(number: u64, offset: u64, data: &[u8], out: &mut Vec<u8>) {
    let id = StreamId::new(Side::Client, Dir::Bi, number);
    Stream { id, offset, fin: false, data }.encode(out);
}

/// 64 KiB of stream data in pieces, datagrams, source and repair symbols, handshake bytes with
/// holes.
#[test]
fn everything_that_a_stranger_sends_takes_little() {
    let mut siege = siege();
    siege.flood(32, |n, out| stream(0, 2_000 * n + 100, &[7; 1_900], out));
    siege.flood(20, |n, out| Crypto { offset: 10 + 500 * n, data: &[7; 400] }.encode(out));
    siege.flood(2_000, |n, out| {
        Datagram { data: &[7; 1_000] }.encode(out);
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme: CodeScheme::ReedSolomon,
            repair_count: 32,
            symbol_id: n % 8,
            symbol_len: 1_000,
        };
        let first = 1_000_000 + n / 8 * 200;
        header.encode([first..=first + 127].into_iter(), out);
        out.extend_from_slice(&[7; 1_000]);
    });
    siege.assert_open();
    assert!(siege.victim().stats().decoder_memory_peak <= 16 << 10);
    siege.assert_memory(PER_STRANGER);
}

#[test]
fn one_stream_and_64_kib_are_all_that_a_stranger_has() {
    let cases: [(u64, u64, TransportErrorCode); 2] = [
        (1, 0, TransportErrorCode::STREAM_LIMIT_ERROR),
        (0, 64 << 10, TransportErrorCode::FLOW_CONTROL_ERROR),
    ];
    for (number, offset, code) in cases {
        let mut siege = siege();
        let mut payload = Vec::new();
        stream(number, offset, &[7], &mut payload);
        siege.send(&payload);
        siege.hear();
        siege.assert_closed_with(code);
    }
    let mut siege = siege();
    siege.flood(65, |n, out| stream(0, 2 * n + 1, &[7], out));
    siege.assert_closed_with(TransportErrorCode::INTERNAL_ERROR);
}

/// It knows connection ids for others, and what it sends to them is as if it had never come.
#[test]
fn a_stranger_has_one_path() {
    let mut siege = siege();
    let (now, ping) = (siege.now(), frames([Frame::Ping]));
    let second = fuzz_targets::pair::network(1_001, false);
    let path = siege.attacker().open_path(now, second).expect("an id is left");
    siege.send_on(path, 1_001, &ping);
    siege.hear();
    siege.assert_open();
    assert_eq!(siege.victim().paths().len(), 1);
    siege.victim().admit();
    siege.send_on(path, 1_001, &ping);
    siege.hear();
    assert_eq!(siege.victim().paths().len(), 2, "once it is let in");
}

/// Let in, the same client may do what the configuration allows, in spite of what its transport
/// parameters said.
#[test]
fn who_is_let_in_has_it_all() {
    let mut siege = siege();
    assert!(!siege.victim().is_admitted());
    siege.victim().admit();
    siege.victim().admit();
    siege.hear();
    assert!(siege.victim().is_admitted());
    for number in 0..100 {
        siege.flood(10, |n, out| stream(number, 1_000 * n, &[7; 1_000], out));
    }
    siege.flood(100, |n, out| stream(0, 10_000 + 2 * n, &[7], out));
    siege.flood(100, |_, out| Datagram { data: &[7; 1_000] }.encode(out));
    siege.assert_open();
    assert_eq!(siege.victim().stats().datagrams_dropped, 0);
    assert!(siege.victim().stream_stats().receive_buffered >= 1_000_000);
    let payload = frames([Frame::Ping]);
    siege.send(&payload);
    siege.assert_open();
}
