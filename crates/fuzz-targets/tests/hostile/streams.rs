//! Tiny chunks, gaps, streams without end, and peers that do not read.

use proto::{
    Dir, MAX_GAPS, Read, StreamId, TransportErrorCode, WriteError,
    wire::{Crypto, Frame, MaxStreamData, ResetStream, StopSending, Stream},
};
use units::Duration;

use crate::siege::{Siege, config, frames};

/// The client's n-th bidirectional stream.
fn stream_id(n: u64) -> StreamId {
    StreamId(4 * n)
}

fn byte(out: &mut Vec<u8>, id: StreamId, offset: u64) {
    Stream { id, offset, fin: false, data: &[offset as u8] }.encode(out);
}

/// 65,536 gaps at once are borne, with at most the window and 64 bytes for each gap, two packets of
/// work for each of the peer's at most; and when the gaps are filled, every byte is there.
#[test]
fn sixty_five_thousand_gaps_hold_and_heal() {
    let config = config();
    let bound = config.receive_window as usize + 64 * MAX_GAPS + (256 << 10);
    let mut siege = Siege::of_server(&config);
    let id = stream_id(0);
    siege.flood(MAX_GAPS as u64, |n, out| byte(out, id, 2 * n + 1));
    siege.assert_open();
    assert_eq!(siege.victim().stream_stats().gaps, MAX_GAPS);
    siege.assert_memory(bound);
    siege.assert_answers(1, 10);
    siege.flood(MAX_GAPS as u64, |n, out| byte(out, id, 2 * n));
    siege.assert_open();
    assert_eq!(siege.victim().stream_stats().gaps, 0);
    let mut read = vec![0; 2 * MAX_GAPS + 1];
    assert_eq!(siege.victim().read(id, &mut read), Ok(Read::Data(2 * MAX_GAPS)));
    assert!(read[..2 * MAX_GAPS].iter().enumerate().all(|(at, byte)| *byte == at as u8));
}

/// One gap more, over all streams together: INTERNAL_ERROR.
#[test]
fn more_gaps_end_the_connection() {
    let mut siege = Siege::of_server(&config());
    siege.flood(2 * MAX_GAPS as u64, |n, out| byte(out, stream_id(n % 50), 2 * (n / 50) + 1));
    siege.assert_closed_with(TransportErrorCode::INTERNAL_ERROR);
    assert_eq!(siege.victim().stream_stats().gaps_max, MAX_GAPS + 1);
}

/// One byte in each piece of memory that the window spans takes no more than the window, the
/// pieces' list, and 40 bytes for each gap.
#[test]
fn sparse_bytes_take_no_more_than_the_window() {
    const BYTES: u64 = 60_000;
    let config = config();
    let bound = config.receive_window as usize * 5 / 4 + (256 << 10) + 40 * BYTES as usize;
    let mut siege = Siege::of_server(&config);
    let window = config.receive_window;
    siege.flood(BYTES, |n, out| byte(out, stream_id(n % 100), (n / 100 * 1_021) % (window / 100)));
    siege.assert_open();
    siege.assert_memory(bound);
}

/// The same byte a hundred thousand times: 64 KiB, and no answer beyond ACKs.
#[test]
fn repeated_bytes_cost_nothing() {
    const BOUND: usize = 128 << 10;
    let mut siege = Siege::of_server(&config());
    siege.flood(100_000, |_, out| byte(out, stream_id(0), 9));
    siege.assert_open();
    siege.assert_answers(1, 10);
    assert_eq!(siege.victim().stream_stats().gaps, 1);
    siege.assert_memory_beside_decoder(BOUND);
}

/// One frame opens every stream that it may: at most 1 KiB for each.
#[test]
fn opening_the_last_stream_first_is_cheap() {
    let config = config();
    let mut siege = Siege::of_server(&config);
    let mut payload = Vec::new();
    byte(&mut payload, stream_id(config.max_concurrent_bidi - 1), 0);
    siege.send(&payload);
    siege.hear();
    siege.assert_open();
    assert_eq!(siege.victim().stream_stats().open as u64, config.max_concurrent_bidi);
    siege.assert_memory(config.max_concurrent_bidi as usize * 1_024 + (32 << 10));
    let mut beyond = Vec::new();
    byte(&mut beyond, stream_id(config.max_concurrent_bidi), 0);
    siege.send(&beyond);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::STREAM_LIMIT_ERROR);
}

/// Opening and resetting streams at once (rapid reset), while the application takes none: the limit
/// of concurrent streams holds, STREAM_LIMIT_ERROR; 1 KiB for each.
#[test]
fn rapid_resets_that_nobody_accepts_hit_the_limit() {
    let config = config();
    let mut siege = Siege::of_server(&config);
    siege.flood(100_000, |n, out| rapid_reset(out, n));
    siege.assert_closed_with(TransportErrorCode::STREAM_LIMIT_ERROR);
    siege.assert_memory(config.max_concurrent_bidi as usize * 1_024 + (64 << 10));
}

fn rapid_reset(out: &mut Vec<u8>, n: u64) {
    let id = stream_id(n);
    byte(out, id, 0);
    Frame::ResetStream(ResetStream { id, error_code: 0u8.into(), final_size: 1 }).encode(out);
    Frame::StopSending(StopSending { id, error_code: 0u8.into() }).encode(out);
}

/// The same with an application that takes and drops each: the peer must acknowledge resets before
/// it may open more, so 100 streams are held at most, whatever it sends.
#[test]
fn rapid_resets_are_held_back_by_unacknowledged_resets() {
    let config = config();
    let mut siege = Siege::of_server(&config);
    let mut accepted = 0;
    for n in 0..10_000 {
        let mut payload = Vec::new();
        rapid_reset(&mut payload, n);
        siege.send(&payload);
        let victim = siege.victim();
        while let Some(id) = victim.accept(Dir::Bi) {
            accepted += 1;
            let _ = victim.read(id, &mut [0; 10]);
            let _ = victim.read(id, &mut [0; 10]);
            let _ = victim.reset(id, 0u8.into());
            let _ = victim.write(id, &[0]);
        }
        siege.hear();
        if siege.end.is_some() {
            break;
        }
    }
    siege.assert_closed_with(TransportErrorCode::STREAM_LIMIT_ERROR);
    assert!(accepted <= config.max_concurrent_bidi, "{accepted}");
    siege.assert_memory(config.max_concurrent_bidi as usize * 1_024 + (64 << 10));
}

/// A peer that neither reads nor acknowledges: the application's writes wait at the send buffer, at
/// most the initial window leaves, and the idle timeout ends it.
#[test]
fn a_peer_that_never_reads_holds_one_send_buffer() {
    let config = config();
    let bound = config.send_buffer as usize + config.repair.source_memory as usize + (512 << 10);
    let mut siege = Siege::of_server(&config);
    let chunk = vec![7; 64 << 10];
    let mut written = 0;
    for _ in 0..20 {
        let Some(id) = siege.victim().open(Dir::Uni) else { break };
        loop {
            match siege.victim().write(id, &chunk) {
                Ok(taken) => written += taken,
                Err(error) => break assert_eq!(error, WriteError::Blocked),
            }
            siege.hear();
        }
    }
    assert!(written as u64 <= config.send_buffer);
    siege.assert_memory(bound);
    // Ten packets of the initial window, and what probes for an answer.
    assert!(siege.answered.datagrams <= 40, "{:?}", siege.answered);
    siege.pass(Duration::from_secs(60));
    assert!(siege.victim().is_drained());
    assert!(siege.answered.datagrams <= 80, "{:?}", siege.answered);
}

/// The same, kept alive by PINGs: memory stays, and what leaves is a few probes a second.
#[test]
fn a_slow_reader_that_pings_stays_bounded() {
    let config = config();
    let bound = config.send_buffer as usize + config.repair.source_memory as usize + (1 << 20);
    let mut siege = Siege::of_server(&config);
    let id = siege.victim().open(Dir::Uni).expect("the peer allows streams");
    while siege.victim().write(id, &[7; 4_096]).is_ok() {}
    const SECONDS: u64 = 600;
    for _ in 0..SECONDS {
        siege.send(&frames([Frame::Ping]));
        siege.pass(Duration::from_secs(1));
    }
    siege.assert_open();
    siege.assert_memory(bound);
    siege.assert_answers(1, 100 + 2 * SECONDS);
}

/// Credit of one byte at a time buys at most one packet for each of the peer's.
#[test]
fn a_silly_window_costs_a_packet_for_a_packet() {
    let mut small = config();
    small.stream_receive_window = 10;
    small.initial_stream_window = Some(10);
    let mut siege = Siege::of_server(&small);
    let id = siege.victim().open(Dir::Uni).expect("the peer allows streams");
    while siege.victim().write(id, &[7; 4_096]).is_ok() {}
    siege.hear();
    for n in 0..2_000 {
        let mut payload = frames([Frame::MaxStreamData(MaxStreamData { id, maximum: 11 + n })]);
        let last = siege.victim().next_packet_number_for_fuzzing(proto::PathId::ZERO) - 1;
        crate::acks::ack_into(&mut payload, proto::PathId::ZERO, last..=last);
        siege.send(&payload);
        let _ = siege.victim().write(id, &[7]);
        siege.hear();
        if siege.end.is_some() {
            // It may happen to acknowledge a number that was left out.
            return siege.assert_closed_with(TransportErrorCode::PROTOCOL_VIOLATION);
        }
    }
    siege.assert_answers(3, 20);
}

/// More data than was granted: FLOW_CONTROL_ERROR.
#[test]
fn data_beyond_the_window_ends_the_connection() {
    let config = config();
    let mut siege = Siege::of_server(&config);
    let mut payload = Vec::new();
    byte(&mut payload, stream_id(0), config.stream_receive_window);
    siege.send(&payload);
    siege.hear();
    siege.assert_closed_with(TransportErrorCode::FLOW_CONTROL_ERROR);
}

/// Handshake bytes that leave holes, after the handshake: what is too far ahead is dropped (RFC
/// 9000 section 7.5), 64 KiB are kept, in 64 pieces at most.
#[test]
fn crypto_data_with_a_hole_is_kept_up_to_a_limit() {
    const BOUND: usize = 512 << 10;
    let mut siege = Siege::of_server(&config());
    siege.flood(100_000, |n, out| Crypto { offset: 1_000_000 + 100 * n, data: &[7; 99] }.encode(out));
    siege.assert_open();
    siege.assert_memory_beside_decoder(BOUND);
    drop(siege);
    let mut siege = Siege::of_server(&config());
    siege.flood(25_000, |n, out| Crypto { offset: 10_000 + 2 * n, data: &[7] }.encode(out));
    siege.assert_closed_with(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
    siege.assert_memory_beside_decoder(BOUND);
}
