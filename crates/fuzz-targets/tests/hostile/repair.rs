//! Huge, bogus and useless repair blocks.

use std::ops::RangeInclusive;

use proto::{
    PathId, TransportErrorCode,
    wire::{CodeScheme, Frame, PacketKind, RepairHeader},
};

use crate::siege::{Siege, config, frames};

/// Appends a REPAIR frame for packets of path 0.
fn repair(out: &mut Vec<u8>, members: RangeInclusive<u64>, index: u64, symbol: &[u8]) {
    let header = RepairHeader {
        path: PathId::ZERO,
        scheme: CodeScheme::ReedSolomon,
        repair_count: 32,
        symbol_id: index,
        symbol_len: symbol.len(),
    };
    header.encode([members].into_iter(), out);
    out.extend_from_slice(symbol);
}

/// More members than we announced: PROTOCOL_VIOLATION; more than the code has: FRAME_ENCODING_ERROR. A number claims no memory.
#[test]
fn a_huge_block_ends_the_connection() {
    let huge =
        [(129, TransportErrorCode::PROTOCOL_VIOLATION), (1 << 40, TransportErrorCode::FRAME_ENCODING_ERROR)];
    for (packets, code) in huge {
        let mut siege = Siege::of_server(&config());
        let mut payload = Vec::new();
        repair(&mut payload, 10_000..=9_999 + packets, 0, &[7; 100]);
        siege.send(&payload);
        siege.hear();
        siege.assert_closed_with(code);
        siege.assert_memory(32 << 10);
    }
}

/// Symbols over packets that never come: 64 blocks and the decoder's memory; all of them are wasted, and nothing is answered but ACKs.
#[test]
fn blocks_over_nothing_stay_within_the_decoders_memory() {
    let config = config();
    let budget = config.repair.decoder_memory;
    for len in [1, 100, 1_000] {
        let mut siege = Siege::of_server(&config);
        let symbol = vec![7; len];
        siege.flood(20_000, |n, out| {
            let first = 1_000_000 + n / 8 * 200;
            repair(out, first..=first + 127, n % 8, &symbol);
        });
        siege.assert_open();
        let stats = siege.victim().stats();
        assert!(stats.decoder_memory_peak <= budget, "{}", stats.decoder_memory_peak);
        assert!(stats.packets_recovered == 0 && stats.repair_used == 0);
        siege.assert_memory(budget as usize * 2 + (256 << 10));
        siege.assert_answers(1, 10);
    }
}

/// Tiny packets, each kept as a source symbol: the decoder's memory, with at most as much again for lists.
#[test]
fn tiny_source_symbols_stay_within_the_decoders_memory() {
    let config = config();
    let budget = config.repair.decoder_memory;
    let mut siege = Siege::of_server(&config);
    let ping = frames([Frame::Ping]);
    for n in 0..50_000 {
        siege.send(&ping);
        if n % 10 == 0 {
            siege.hear();
        }
    }
    siege.assert_open();
    assert!(siege.victim().stats().decoder_memory_peak <= budget);
    siege.assert_memory(budget as usize * 2 + (128 << 10));
}

/// A symbol that makes a lost packet into nonsense: the nonsense is judged like any packet of the peer, FRAME_ENCODING_ERROR.
#[test]
fn a_bogus_symbol_ends_the_connection() {
    let mut siege = Siege::of_server(&config());
    let now = siege.now();
    let lost = siege.attacker().next_packet_number_for_fuzzing(PathId::ZERO);
    let packet = siege.attacker().seal_for_fuzzing(now, PacketKind::OneRtt, PathId::ZERO, &[1; 60]);
    assert!(packet.is_some(), "a packet that never arrives");
    let mut payload = Vec::new();
    // A length of 60 bytes, and a frame type that nobody knows.
    let mut symbol = vec![0, 60];
    symbol.extend([0x2f; 60]);
    repair(&mut payload, lost..=lost, 0, &symbol);
    siege.send(&payload);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::FRAME_ENCODING_ERROR);
}

/// A REPAIR frame inside a rebuilt packet is not looked at: no recursion.
#[test]
fn repair_within_repair_is_ignored() {
    let mut siege = Siege::of_server(&config());
    let now = siege.now();
    let lost = siege.attacker().next_packet_number_for_fuzzing(PathId::ZERO);
    let packet = siege.attacker().seal_for_fuzzing(now, PacketKind::OneRtt, PathId::ZERO, &[1; 60]);
    assert!(packet.is_some(), "a packet that never arrives");
    let mut inner = Vec::new();
    repair(&mut inner, lost + 1_000..=lost + 1_000, 0, &[7; 30]);
    let mut symbol = (inner.len() as u16).to_be_bytes().to_vec();
    symbol.extend(&inner);
    let mut payload = Vec::new();
    repair(&mut payload, lost..=lost, 0, &symbol);
    siege.send(&payload);
    siege.hear();
    siege.assert_open();
    let stats = siege.victim().stats();
    assert_eq!((stats.repair_received, stats.packets_recovered), (1, 1));
}
