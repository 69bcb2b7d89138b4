//! Resets that still deliver the beginning (draft-ietf-quic-reliable-stream-reset).

use super::*;
use crate::wire::{TransportErrorCode as Code, VarInt};

const CODE: VarInt = VarInt::from_u32(9);
const RESET: Result<Read, ReadError> = Err(ReadError::Reset(CODE));

fn code(result: Result<(), TransportError>) -> Code {
    result.expect_err("the peer broke a rule").code
}

/// A stream of which "head" is within the boundary and 500 bytes are beyond it, nothing sent yet.
fn with_a_head(client: &mut Streams) -> StreamId {
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"head").unwrap();
    client.set_reliable_boundary(id).unwrap();
    client.write(id, &[0; 500]).unwrap();
    id
}

/// Credit of the connection that is used up.
fn used(streams: &Streams) -> u64 {
    streams.credit.limit() - streams.credit.available()
}

fn reset_of(id: StreamId, reliable_size: u64) -> StreamControl {
    StreamControl::ResetStream { id, reliable_size }
}

#[test]
fn what_is_within_the_boundary_arrives_and_nothing_else_is_repeated() {
    let (mut client, mut server) = pair_with_resets_at();
    let id = with_a_head(&mut client);
    let (_, mut lost) = packet(&mut client, 300);
    client.reset(id, CODE).unwrap();
    assert_eq!(client.reset(id, CODE), Err(CloseError::Closed));
    assert_eq!(client.write(id, b"more"), Err(WriteError::Closed));
    assert_eq!(client.set_reliable_boundary(id), Err(CloseError::Closed));
    client.on_lost(&mut lost);
    assert_eq!((client.sendable_bytes(), client.stats().send_buffered), (4, 4));

    // The reset overtakes the data.
    let (payload, reset) = packet(&mut client, 9);
    assert_eq!((reset.ranges.len(), &reset.control[..]), (0, &[reset_of(id, 4)][..]));
    receive(&mut server, &payload).unwrap();
    assert_eq!(server.accept(Dir::Uni), Some(id));
    assert_eq!((server.receive_end(id), server.awaits_data()), (Ok(None), true));
    assert_eq!(server.read(id, &mut [0; 9]), Err(ReadError::Blocked));
    client.on_acked(&reset);
    assert_eq!(client.stats().open, 1, "the peer still lacks the data");

    events(&mut server);
    transfer(&mut client, &mut server);
    assert_eq!(events(&mut server), [StreamEvent::Readable(id)]);
    assert_eq!((server.receive_end(id), server.awaits_data()), (Ok(Some(ReceiveEnd::Reset(CODE))), false));
    assert_eq!(read_all(&mut server, id), (b"head".to_vec(), RESET));
    assert_eq!((client.stats().open, server.stats().open), (0, 0));
    // What had been sent counts for both.
    let sent = lost.data_len();
    assert_eq!((used(&client), server.window.received()), (sent, sent));
    assert_eq!(server.window.consumed(), sent);
}

/// The end of the stream is that of the head: no byte of the rest has been sent.
#[test]
fn a_reset_before_anything_was_sent_is_followed_by_the_head() {
    let (mut client, mut server) = pair_with_resets_at();
    let id = with_a_head(&mut client);
    client.reset(id, CODE).unwrap();
    let (payload, sent) = packet(&mut client, 300);
    assert_eq!((&sent.control[..], sent.data_len()), (&[reset_of(id, 4)][..], 4));
    receive(&mut server, &payload).unwrap();
    client.on_acked(&sent);
    assert_eq!(read_all(&mut server, id), (b"head".to_vec(), RESET));
    assert_eq!((used(&client), client.stats().open), (4, 0));
}

#[test]
fn a_peer_without_the_extension_is_told_once_it_has_the_head() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = with_a_head(&mut client);
    client.reset(id, CODE).unwrap();
    let (payload, mut sent) = packet(&mut client, 300);
    assert_eq!((sent.control.len(), sent.data_len()), (0, 4));
    client.on_lost(&mut sent);
    let (again, sent) = packet(&mut client, 300);
    assert_eq!(again, payload);
    receive(&mut server, &again).unwrap();
    assert!(!client.has_pending(), "the reset waits");
    assert_eq!((server.accept(Dir::Uni), server.read(id, &mut [0; 9])), (Some(id), Ok(Read::Data(4))));
    client.on_acked(&sent);
    transfer(&mut client, &mut server);
    assert_eq!(server.read(id, &mut [0; 9]), RESET);
    assert_eq!(client.stats().open, 0);
}

#[test]
fn all_that_was_written_is_told_to_be_delivered_at_once() {
    let (mut client, mut server) = pair_with_resets_at();
    let id = with_a_head(&mut client);
    client.reset_when_delivered(id, CODE).unwrap();
    assert_eq!(packet(&mut client, 9).1.control, [reset_of(id, 504)]);
    transfer(&mut client, &mut server);
    let (all, end) = read_all(&mut server, id);
    assert_eq!((all.len(), end), (504, Err(ReadError::Blocked)), "the reset is under way");
}

/// An acknowledgement of the older, larger promise says nothing of the smaller one.
#[test]
fn a_promise_can_be_made_smaller() {
    let (mut client, mut server) = pair_with_resets_at();
    let id = with_a_head(&mut client);
    client.reset_when_delivered(id, CODE).unwrap();
    let (payload, mut larger) = packet(&mut client, 9);
    receive(&mut server, &payload).unwrap();
    client.reset(id, 8u8.into()).unwrap();
    client.on_acked(&larger);
    assert_eq!(client.sendable_bytes(), 4);
    let (payload, smaller) = packet(&mut client, 300);
    assert_eq!((&smaller.control[..], smaller.data_len()), (&[reset_of(id, 4)][..], 4));
    receive(&mut server, &payload).unwrap();
    assert_eq!(read_all(&mut server, id), (b"head".to_vec(), RESET), "its code stays");
    client.on_lost(&mut larger);
    assert!(!client.has_pending(), "nobody needs the older one");
    client.on_acked(&smaller);
    assert_eq!((client.stats().open, server.stats().open), (0, 0));
}

#[test]
fn who_stops_a_stream_wants_no_head() {
    for (mut client, mut server) in [pair_with_resets_at(), pair(&config(), &config())] {
        let id = with_a_head(&mut client);
        let (payload, _) = packet(&mut client, 300);
        receive(&mut server, &payload).unwrap();
        client.reset(id, CODE).unwrap();
        server.stop(id, 3u8.into()).unwrap();
        transfer(&mut server, &mut client);
        let (payload, sent) = packet(&mut client, 300);
        assert_eq!((&sent.control[..], sent.data_len()), (&[reset_of(id, 0)][..], 0));
        receive(&mut server, &payload).unwrap();
        client.on_acked(&sent);
        assert_eq!((client.stats().open, client.stats().send_buffered, server.stats().open), (0, 0, 0));
    }
}

#[test]
fn promises_only_ever_shrink() {
    let (_, mut s) = pair(&config(), &config());
    s.on_reset_stream_at(CLIENT_UNI, CODE, 100, 4).unwrap();
    s.on_reset_stream_at(CLIENT_UNI, CODE, 100, 50).unwrap();
    s.on_stream(CLIENT_UNI, 2, b"ad", false).unwrap();
    assert_eq!(s.read(CLIENT_UNI, &mut [0; 9]), Err(ReadError::Blocked));
    s.on_reset_stream_at(CLIENT_UNI, CODE, 100, 0).unwrap();
    assert_eq!((s.stats().receive_buffered, s.stats().gaps), (0, 0));
    s.on_stream(CLIENT_UNI, 0, b"head", false).unwrap();
    assert_eq!(read_all(&mut s, CLIENT_UNI), (vec![], RESET));
    assert_eq!(s.window.consumed(), 100);

    let second = StreamId::new(Side::Client, Dir::Uni, 1);
    s.on_reset_stream_at(second, CODE, 100, 4).unwrap();
    s.on_reset_stream(second, CODE, 100).unwrap();
    assert_eq!(read_all(&mut s, second), (vec![], RESET));

    let third = StreamId::new(Side::Client, Dir::Uni, 2);
    for reliable_size in [4, 50] {
        s.on_reset_stream_at(third, CODE, 100, reliable_size).unwrap();
    }
    s.on_stream(third, 0, b"head", false).unwrap();
    assert_eq!(read_all(&mut s, third), (b"head".to_vec(), RESET));
}

/// More than was promised may be read, if it has come; what has not is not waited for.
#[test]
fn what_came_beyond_the_promise_is_read_too() {
    let (_, mut s) = pair(&config(), &config());
    s.on_stream(CLIENT_UNI, 0, b"head and", false).unwrap();
    s.on_stream(CLIENT_UNI, 90, b"tail", false).unwrap();
    s.on_reset_stream_at(CLIENT_UNI, CODE, 100, 4).unwrap();
    assert_eq!(s.stats().gaps, 1);
    assert_eq!(read_all(&mut s, CLIENT_UNI), (b"head and".to_vec(), RESET));
    let stats = s.stats();
    assert_eq!((s.window.consumed(), stats.receive_buffered, stats.gaps, stats.open), (100, 0, 0, 0));
}

#[test]
fn a_stream_of_which_all_has_come_is_not_taken_back() {
    let (_, mut s) = pair(&config(), &config());
    s.on_stream(CLIENT_UNI, 0, b"whole", true).unwrap();
    s.on_reset_stream_at(CLIENT_UNI, CODE, 5, 2).unwrap();
    assert_eq!(read_all(&mut s, CLIENT_UNI), (b"whole".to_vec(), Ok(Read::Finished)));
}

#[test]
fn frames_that_contradict_each_other() {
    let fresh = || pair(&config(), &config()).1;
    assert_eq!(code(fresh().on_reset_stream_at(CLIENT_UNI, CODE, 3, 4)), Code::FRAME_ENCODING_ERROR);
    assert_eq!(code(fresh().on_reset_stream_at(SERVER_UNI, CODE, 4, 4)), Code::STREAM_STATE_ERROR);
    let promised = || {
        let mut s = fresh();
        s.on_reset_stream_at(CLIENT_UNI, CODE, 10, 4).unwrap();
        s
    };
    assert_eq!(code(promised().on_reset_stream_at(CLIENT_UNI, 8u8.into(), 10, 2)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(promised().on_reset_stream(CLIENT_UNI, 8u8.into(), 10)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(promised().on_reset_stream_at(CLIENT_UNI, CODE, 11, 2)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(promised().on_stream(CLIENT_UNI, 9, b"ab", false)), Code::FINAL_SIZE_ERROR);
    assert_eq!(code(promised().on_stream(CLIENT_UNI, 0, b"ab", true)), Code::FINAL_SIZE_ERROR);
    let most = config().first_window() + 1;
    assert_eq!(code(fresh().on_reset_stream_at(CLIENT_UNI, CODE, most, 4)), Code::FLOW_CONTROL_ERROR);
}
