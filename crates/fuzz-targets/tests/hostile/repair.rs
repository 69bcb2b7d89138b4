//! Huge, bogus and useless repair blocks.

use std::ops::RangeInclusive;

use proto::{
    PathId, TransportErrorCode,
    wire::{CodeScheme, CombinationHeader, Frame, PacketKind, RepairHeader, encode_recovered},
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

/// Sends packets with a frame each; after every fourth the victim may answer.
fn one_per_packet(siege: &mut Siege, packets: u64, mut encode: impl FnMut(u64, &mut Vec<u8>)) {
    let mut payload = Vec::new();
    for number in 0..packets {
        payload.clear();
        encode(number, &mut payload);
        siege.send(&payload);
        if number % 4 == 3 {
            siege.hear();
        }
    }
}

/// Bytes that decoding may multiply and add for each byte of the peer's, and those that a
/// connection begins with: with the largest block that these tests announce, as docs/wire-format.md
/// says.
const WORK_PER_BYTE: u64 = 64;
const WORK_AT_FIRST: u64 = 32 << 20;

/// What decoding has cost is paid for by the bytes that came. Nobody has shown a token by now: the
/// handshake is all that these peers have done.
fn assert_work_is_paid_for(siege: &mut Siege, before: u64) {
    let work = siege.victim().stats().decoder_work - before;
    // What a block's last symbols cost to solve it is small beside what all of them cost.
    let limit = (WORK_PER_BYTE * siege.sent.bytes + WORK_AT_FIRST) / 4 * 5;
    assert!(work <= limit, "{work} bytes of work for {:?}", siege.sent);
}

/// Sends `count` packets of so many bytes that arrive, and returns their numbers.
fn sources(siege: &mut Siege, count: u64, len: usize) -> RangeInclusive<u64> {
    let first = siege.attacker().next_packet_number_for_fuzzing(PathId::ZERO);
    let mut last = first;
    while last - first < count {
        last = siege.attacker().next_packet_number_for_fuzzing(PathId::ZERO);
        let mut payload = frames([Frame::Ping]);
        payload.resize(len, 0);
        siege.send(&payload);
        siege.hear();
    }
    first..=last
}

/// Two symbols in one packet: no sender of ours makes such packets, PROTOCOL_VIOLATION.
#[test]
fn a_second_symbol_in_a_packet_ends_the_connection() {
    let mut siege = Siege::of_server(&config());
    let mut payload = Vec::new();
    repair(&mut payload, 1_000..=1_100, 0, &[7]);
    siege.send(&payload);
    siege.hear();
    siege.assert_open();
    repair(&mut payload, 2_000..=2_100, 0, &[7]);
    siege.send(&payload);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
}

/// Tiny REPAIRs that name a hundred packets each: blocks that are decoded at once, and blocks that
/// never will be.
#[test]
fn tiny_symbols_cost_what_their_bytes_pay_for() {
    for missing in [1, 2, 20] {
        let mut siege = Siege::of_server(&config());
        let known = sources(&mut siege, 100, 4);
        one_per_packet(&mut siege, 30_000, |n, out| {
            // A new block each time: all that arrived, and some that never will.
            let members = known.start() + 1 + n % 8..=known.end() + missing;
            repair(out, members, n % 30, &[n as u8; 6]);
        });
        siege.assert_open();
        let stats = siege.victim().stats();
        assert!(
            stats.repair_symbols_refused > 1_000,
            "{} of {}",
            stats.repair_symbols_refused,
            stats.repair_symbols_received
        );
        assert_work_is_paid_for(&mut siege, 0);
    }
}

/// Full-size symbols over the largest block, of which one packet is missing: each is a hundred
/// packets' worth of work.
#[test]
fn large_symbols_cost_what_their_bytes_pay_for() {
    let mut siege = Siege::of_server(&config());
    let known = sources(&mut siege, 120, 1_000);
    one_per_packet(&mut siege, 5_000, |n, out| {
        let lost = 1_000_000 + n;
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme: CodeScheme::ReedSolomon,
            repair_count: 32,
            symbol_id: 0,
            symbol_len: 1_100,
        };
        header.encode([known.clone(), lost..=lost].into_iter(), out);
        out.extend_from_slice(&[0; 1_100]);
    });
    assert_work_is_paid_for(&mut siege, 0);
    assert!(siege.victim().stats().repair_symbols_refused > 1_000);
}

/// The same with combinations: many blocks, whose packets stay in memory for them while ordinary
/// ones push in.
#[test]
fn combinations_cost_what_their_bytes_pay_for() {
    for (len, symbol_len) in [(4, 6), (900, 902), (900, 6)] {
        let config = config();
        let mut siege = Siege::of_server(&config);
        let known = sources(&mut siege, 120, len);
        let symbol = vec![5; symbol_len];
        one_per_packet(&mut siege, 10_000, |n, out| {
            // Sources that are kept, and two that never come; a block gets three combinations, that
            // is one too many.
            let members = [known.clone(), 1_000_000..=1_000_001];
            let header = CombinationHeader { block: n / 3, index: n as u32 % 3, symbol_len };
            header.encode([(PathId::ZERO, members.into_iter())].into_iter(), out);
            out.extend_from_slice(&symbol);
        });
        assert_work_is_paid_for(&mut siege, 0);
        let before = siege.victim().stats().decoder_work;
        let ordinary = siege.sent.bytes;
        sources(&mut siege, 2_000, 900);
        let (work, bytes) = (siege.victim().stats().decoder_work - before, siege.sent.bytes - ordinary);
        assert!(work <= WORK_PER_BYTE * bytes, "{work} bytes of work for {bytes} of ordinary packets");
        siege.assert_memory(config.repair.decoder_memory as usize * 2 + (256 << 10));
    }
}

/// Symbols over windows: full ones and tiny ones by turns, over packets that arrived and many that
/// never will, so that as many equations are held as may be; and then packets that solve some.
#[test]
fn windows_cost_what_their_bytes_pay_for() {
    for (len, symbol_len) in [(4, 6), (900, 902), (900, 6)] {
        let config = config();
        let mut siege = Siege::of_server(&config);
        let known = sources(&mut siege, 60, len);
        let mut sent = 0;
        one_per_packet(&mut siege, 10_000, |n, out| {
            let size = if n % 2 == 0 { symbol_len } else { 902 };
            let members = [known.start() + n % 8..=*known.end(), known.end() + 2..=known.end() + 60];
            let header = RepairHeader {
                path: PathId::ZERO,
                scheme: CodeScheme::Window,
                repair_count: 1,
                symbol_id: n,
                symbol_len: size,
            };
            header.encode(members.into_iter(), out);
            out.extend((0..size).map(|at| (at as u64 * n) as u8));
            sent += 1;
        });
        assert_work_is_paid_for(&mut siege, 0);
        assert!(sent == 10_000 && siege.victim().stats().repair_symbols_refused > 1_000);
        siege.assert_memory(config.repair.decoder_memory as usize * 2 + (256 << 10));
    }
}

/// RECOVERED frames of ten bytes that name 256 packets each: those that are looked at use up the credit,
/// so that none is left for a symbol.
#[test]
fn news_of_rebuilt_packets_costs_what_its_bytes_pay_for() {
    let mut siege = Siege::of_server(&config());
    // The victim has acknowledged as many.
    while siege.victim().next_packet_number_for_fuzzing(PathId::ZERO) < 256 {
        sources(&mut siege, 100, 4);
    }
    let mut claims = Vec::new();
    for _ in 0..100 {
        encode_recovered(PathId::ZERO, [0..=255].into_iter(), &mut claims);
    }
    for _ in 0..20 {
        siege.send(&claims);
        siege.hear();
    }
    let mut symbol = Vec::new();
    repair(&mut symbol, 1_000_000..=1_000_127, 0, &[7; 1_000]);
    siege.send(&symbol);
    siege.hear();
    siege.assert_open();
    assert_eq!(siege.victim().stats().repair_symbols_refused, 1);
}

/// A window of packets that lie too far apart, FRAME_ENCODING_ERROR; one of packets that were never
/// sent is an equation that nothing ever solves, of which few are held.
#[test]
fn windows_over_nothing_are_few() {
    let mut siege = Siege::of_server(&config());
    let window = |out: &mut Vec<u8>, members: RangeInclusive<u64>, n: u64| {
        let (path, scheme) = (PathId::ZERO, CodeScheme::Window);
        RepairHeader { path, scheme, repair_count: 1, symbol_id: n, symbol_len: 1_000 }
            .encode([members].into_iter(), out);
        out.extend([n as u8; 1_000]);
    };
    one_per_packet(&mut siege, 2_000, |n, out| window(out, 1_000 + n..=1_100 + n, n));
    siege.assert_open();
    let stats = siege.victim().stats();
    assert!(stats.decoder_memory_peak < 4 << 20 && stats.packets_rebuilt == 0, "{stats:?}");
    assert!(stats.repair_symbols_wasted + 32 >= stats.repair_symbols_received, "at most 32 wait");
    let mut payload = Vec::new();
    let header = RepairHeader {
        path: PathId::ZERO,
        scheme: CodeScheme::Window,
        repair_count: 1,
        symbol_id: 0,
        symbol_len: 4,
    };
    header.encode([5_000..=5_000, 5_192..=5_192].into_iter(), &mut payload);
    payload.extend([0; 4]);
    siege.send(&payload);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::FRAME_ENCODING_ERROR);
}

/// More members than we announced: PROTOCOL_VIOLATION; more than the code has:
/// FRAME_ENCODING_ERROR. A number claims no memory.
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

/// Symbols over packets that never come: 64 blocks and the decoder's memory; all of them are
/// wasted, and nothing is answered but ACKs.
#[test]
fn blocks_over_nothing_stay_within_the_decoders_memory() {
    let config = config();
    let budget = config.repair.decoder_memory;
    for len in [1, 100, 1_000] {
        let mut siege = Siege::of_server(&config);
        let symbol = vec![7; len];
        one_per_packet(&mut siege, 10_000, |n, out| {
            let first = 1_000_000 + n / 8 * 200;
            repair(out, first..=first + 127, n % 8, &symbol);
        });
        siege.assert_open();
        let stats = siege.victim().stats();
        assert!(stats.decoder_memory_peak <= budget, "{}", stats.decoder_memory_peak);
        assert!(stats.packets_rebuilt == 0 && stats.repair_symbols_used == 0);
        siege.assert_memory(budget as usize * 2 + (256 << 10));
        siege.assert_answers(1, 10);
    }
}

/// Tiny packets, each kept as a source symbol: the decoder's memory, with at most as much again for
/// lists.
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

/// A symbol that makes a lost packet into nonsense: the nonsense is judged like any packet of the
/// peer, FRAME_ENCODING_ERROR.
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
    assert_eq!((stats.repair_symbols_received, stats.packets_rebuilt), (1, 1));
}
