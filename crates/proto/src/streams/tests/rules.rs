//! What a peer must not do, and what its frames mean (RFC 9000 sections 2 to 4 and 19).

use super::*;
use crate::wire::{MAX_VARINT, TransportErrorCode as Code};

fn code<T: std::fmt::Debug>(result: Result<T, TransportError>) -> Code {
    result.expect_err("the peer broke a rule").code
}

/// A server whose peer may send 100 bytes per stream, 150 in all, on 2 streams of each kind.
fn server() -> Streams {
    let tight = StreamsConfig {
        receive_window: 150,
        stream_receive_window: 100,
        initial_stream_window: 100,
        send_buffer: 1_000,
        max_concurrent_bidi: 2,
        max_concurrent_uni: 2,
    };
    pair(&config(), &tight).1
}

#[test]
fn flow_control_error() {
    let mut s = server();
    assert_eq!(code(s.on_stream(CLIENT_BI, 100, &[1], false)), Code::FLOW_CONTROL_ERROR);
    let mut s = server();
    s.on_stream(CLIENT_BI, 99, &[1], false).unwrap();
    assert_eq!(code(s.on_stream(CLIENT_UNI, 50, &[1], false)), Code::FLOW_CONTROL_ERROR);
    let mut s = server();
    assert_eq!(code(s.on_reset_stream(CLIENT_BI, 0u8.into(), 101)), Code::FLOW_CONTROL_ERROR);
    let mut s = server();
    assert_eq!(code(s.on_stream(CLIENT_BI, MAX_VARINT, &[1], false)), Code::FRAME_ENCODING_ERROR);
}

#[test]
fn final_size_error() {
    let ended = || {
        let mut s = server();
        s.on_stream(CLIENT_BI, 10, &[1; 10], true).unwrap();
        s
    };
    assert_eq!(code(ended().on_stream(CLIENT_BI, 20, &[1], false)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(ended().on_stream(CLIENT_BI, 0, &[1], true)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(ended().on_stream(CLIENT_BI, 21, &[], true)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(ended().on_reset_stream(CLIENT_BI, 0u8.into(), 19)), Code::FINAL_SIZE_ERROR);
    assert_eq!(ended().on_stream(CLIENT_BI, 20, &[], true), Ok(()));
    let mut s = server();
    s.on_stream(CLIENT_BI, 10, &[1; 10], false).unwrap();
    assert_eq!(code(s.on_stream(CLIENT_BI, 0, &[1], true)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(s.on_reset_stream(CLIENT_BI, 0u8.into(), 19)), Code::FINAL_SIZE_ERROR);
}

#[test]
fn stream_limit_error() {
    for dir in DIRS {
        let mut s = server();
        let third = StreamId::new(Side::Client, dir, 2);
        assert_eq!(code(s.on_stream(third, 0, &[], false)), Code::STREAM_LIMIT_ERROR);
        assert_eq!(code(s.on_reset_stream(third, 0u8.into(), 0)), Code::STREAM_LIMIT_ERROR);
        assert_eq!(code(s.on_stream_data_blocked(third, 0)), Code::STREAM_LIMIT_ERROR);
    }
    let far = StreamId::new(Side::Client, Dir::Bi, (1 << 60) - 1);
    assert_eq!(code(server().on_stop_sending(far, 0u8.into())), Code::STREAM_LIMIT_ERROR);
    assert_eq!(code(server().on_max_stream_data(far, 0)), Code::STREAM_LIMIT_ERROR);
    for dir in DIRS {
        assert_eq!(code(server().on_max_streams(dir, (1 << 60) + 1)), Code::FRAME_ENCODING_ERROR);
        assert_eq!(code(server().on_streams_blocked(dir, (1 << 60) + 1)), Code::FRAME_ENCODING_ERROR);
    }
}

#[test]
fn stream_state_error() {
    // Streams that only the server sends on, streams that only the client sends on, streams that do
    // not exist yet.
    let mut s = server();
    s.open(Dir::Uni).unwrap();
    assert_eq!(code(s.on_stream(SERVER_UNI, 0, &[1], false)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_reset_stream(SERVER_UNI, 0u8.into(), 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stream_data_blocked(SERVER_UNI, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stop_sending(CLIENT_UNI, 0u8.into())), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_max_stream_data(CLIENT_UNI, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stream(SERVER_BI, 0, &[1], false)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_max_stream_data(SERVER_BI, 9)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stop_sending(SERVER_BI, 9u8.into())), Code::STREAM_STATE_ERROR);
}

#[test]
fn a_higher_stream_opens_the_lower_ones() {
    let mut s = server();
    s.on_max_stream_data(StreamId::new(Side::Client, Dir::Bi, 1), 10).unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Opened { dir: Dir::Bi }]);
    assert_eq!(s.accept(Dir::Bi), Some(CLIENT_BI));
    assert_eq!(s.accept(Dir::Bi), Some(StreamId::new(Side::Client, Dir::Bi, 1)));
    assert_eq!(s.accept(Dir::Bi), None);
}

#[test]
fn a_reset_is_told_and_gives_credit_back() {
    let mut s = server();
    s.on_stream(CLIENT_UNI, 0, &[1; 50], false).unwrap();
    s.on_reset_stream(CLIENT_UNI, 7u8.into(), 100).unwrap();
    s.on_reset_stream(CLIENT_UNI, 8u8.into(), 100).unwrap();
    s.on_stream(CLIENT_UNI, 60, &[1; 10], false).unwrap();
    assert_eq!(s.stats().receive_buffered, 0);
    assert_eq!(read_all(&mut s, CLIENT_UNI), (vec![], Err(ReadError::Reset(7u8.into()))));
    assert_eq!(s.read(CLIENT_UNI, &mut []), Err(ReadError::Unknown));
    // 100 of 150 bytes are announced again, as well as the stream.
    let (_, sent) = packet(&mut s, 100);
    let streams = StreamControl::MaxStreams { dir: Dir::Uni, limit: 3 };
    assert_eq!(sent.control, [StreamControl::MaxData(250), streams]);
}

#[test]
fn a_reset_after_the_last_byte_does_not_take_the_data_away() {
    let mut s = server();
    s.on_stream(CLIENT_UNI, 0, b"all", true).unwrap();
    s.on_reset_stream(CLIENT_UNI, 7u8.into(), 3).unwrap();
    assert_eq!(read_all(&mut s, CLIENT_UNI), (b"all".to_vec(), Ok(Read::Finished)));
}

#[test]
fn a_reset_is_no_orderly_end_even_if_nothing_is_missing() {
    let mut s = server();
    s.on_stream(CLIENT_UNI, 0, b"some", false).unwrap();
    s.on_reset_stream(CLIENT_UNI, 7u8.into(), 4).unwrap();
    assert_eq!(read_all(&mut s, CLIENT_UNI), (vec![], Err(ReadError::Reset(7u8.into()))));
}

/// Nobody waits for those that are not accepted, and they are held for no more than their number.
#[test]
fn who_reads_a_stream_gets_what_came_before_its_reset() {
    let mut s = server();
    s.on_stream(CLIENT_UNI, 0, b"some", false).unwrap();
    assert_eq!(s.accept(Dir::Uni), Some(CLIENT_UNI));
    s.on_reset_stream(CLIENT_UNI, 7u8.into(), 4).unwrap();
    assert_eq!(s.receive_end(CLIENT_UNI), Ok(Some(ReceiveEnd::Reset(7u8.into()))));
    assert_eq!(read_all(&mut s, CLIENT_UNI), (b"some".to_vec(), Err(ReadError::Reset(7u8.into()))));
}

#[test]
fn stop_sending_is_answered_with_a_reset() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 5_000]).unwrap();
    let (payload, first) = packet(&mut client, 1_200);
    receive(&mut server, &payload).unwrap();
    server.stop(id, 42u8.into()).unwrap();
    assert_eq!(server.stop(id, 43u8.into()), Err(CloseError::Closed));
    assert_eq!(server.read(id, &mut [0; 9]), Err(ReadError::Closed));
    transfer(&mut server, &mut client);
    assert_eq!(events(&mut client), [StreamEvent::Stopped { id, code: 42u8.into() }]);
    assert_eq!((client.sendable_bytes(), client.stats().send_buffered), (0, 0));
    assert!(!client.unacked_remaining(&first), "nobody waits for the data of a reset stream");
    transfer(&mut client, &mut server);
    assert_eq!(server.stats().open, 0);
    // The application still learns why, once; then the stream is forgotten.
    assert_eq!((client.stop_code(id), client.stop_code(CLIENT_BI)), (Some(42u8.into()), None));
    assert_eq!(client.write(id, &[1]), Err(WriteError::Stopped(42u8.into())));
    assert_eq!(client.write(id, &[1]), Err(WriteError::Unknown));
    assert_eq!(client.stats().open, 0);
}

#[test]
fn frames_for_forgotten_streams_are_ignored() {
    let mut s = server();
    s.on_stream(CLIENT_UNI, 0, b"x", true).unwrap();
    assert_eq!(read_all(&mut s, CLIENT_UNI).1, Ok(Read::Finished));
    assert_eq!(s.stats().open, 0);
    events(&mut s);
    s.on_stream(CLIENT_UNI, 0, b"x", true).unwrap();
    s.on_stream(CLIENT_UNI, 5_000, b"whatever", false).unwrap();
    s.on_reset_stream(CLIENT_UNI, 1u8.into(), 1).unwrap();
    s.on_stream_data_blocked(CLIENT_UNI, 1).unwrap();
    assert_eq!((s.stats().open, events(&mut s)), (0, vec![]));
}

#[test]
fn every_gap_is_kept_until_there_are_too_many() {
    let wide = StreamsConfig {
        receive_window: 1 << 20,
        stream_receive_window: 1 << 20,
        initial_stream_window: 1 << 20,
        ..config()
    };
    let mut s = pair(&config(), &wide).1;
    let byte = |offset: u64| (offset * 7 % 251) as u8;
    for i in 0..20_000 {
        s.on_stream(CLIENT_UNI, 2 * i, &[byte(2 * i)], false).unwrap();
    }
    assert_eq!((s.stats().gaps, s.stats().receive_buffered), (19_999, 39_999));
    for i in (0..20_000).rev() {
        s.on_stream(CLIENT_UNI, 2 * i + 1, &[byte(2 * i + 1)], i == 19_999).unwrap();
    }
    assert_eq!((s.stats().gaps, s.stats().gaps_max), (0, 19_999));
    assert_eq!(read_all(&mut s, CLIENT_UNI), ((0..40_000).map(byte).collect(), Ok(Read::Finished)));

    let id = StreamId::new(Side::Client, Dir::Uni, 1);
    for i in 0..MAX_GAPS as u64 {
        s.on_stream(id, 2 * i + 1, &[0], false).unwrap();
    }
    let error = s.on_stream(id, 2 * MAX_GAPS as u64 + 1, &[0], false).unwrap_err();
    assert_eq!((error.code, &*error.reason), (Code::INTERNAL_ERROR, "too many gaps in stream data"));
}
