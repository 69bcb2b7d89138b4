//! Credit: how it is kept, blocked on, and given back.

use super::*;

fn tiny(receive_window: u64, stream_receive_window: u64) -> StreamsConfig {
    let initial_stream_window = stream_receive_window;
    StreamsConfig { receive_window, stream_receive_window, initial_stream_window, ..config() }
}

#[test]
fn writes_stop_at_the_streams_limit_and_go_on_after_it_grows() {
    let (mut client, mut server) = pair(&config(), &tiny(1_000, 10));
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(id, &[1; 30]), Ok(10));
    assert_eq!(client.write(id, &[1; 20]), Err(WriteError::Blocked));
    assert_eq!(client.write(id, &[1; 20]), Err(WriteError::Blocked));
    let (payload, sent) = packet(&mut client, 100);
    assert_eq!(sent.control, [StreamControl::StreamDataBlocked { id, limit: 10 }]);
    receive(&mut server, &payload).unwrap();
    client.on_acked(&sent);
    assert_eq!(events(&mut client), []);
    assert_eq!(read_all(&mut server, id).0.len(), 10);
    transfer(&mut server, &mut client);
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    assert_eq!(client.write(id, &[1; 20]), Ok(10));
}

#[test]
fn writes_stop_at_the_connections_limit() {
    let (mut client, mut server) = pair(&config(), &tiny(10, 1_000));
    let (a, b) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(a, &[1; 6]), Ok(6));
    assert_eq!(client.write(b, &[1; 6]), Ok(4));
    assert_eq!(client.write(a, &[1; 6]), Err(WriteError::Blocked));
    assert_eq!(client.write(b, &[1; 6]), Err(WriteError::Blocked));
    let (payload, _) = packet(&mut client, 100);
    receive(&mut server, &payload).unwrap();
    assert_eq!(read_all(&mut server, a).0.len(), 6);
    transfer(&mut server, &mut client);
    assert_eq!(events(&mut client), [StreamEvent::Writable(a), StreamEvent::Writable(b)]);
    assert_eq!(client.write(b, &[1; 9]), Ok(6));
}

/// Else a request would wait for as long as an upload beside it has more to say than the connection may.
#[test]
fn who_has_nothing_under_way_is_first_to_have_credit_of_the_connection() {
    let (mut client, mut server) = pair(&config(), &tiny(10, 1_000));
    let (upload, request) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(upload, &[1; 30]), Ok(10));
    assert_eq!(client.write(upload, &[1; 20]), Err(WriteError::Blocked));
    assert_eq!(client.write(request, &[2; 4]), Err(WriteError::Blocked));
    let (payload, _) = packet(&mut client, 100);
    receive(&mut server, &payload).unwrap();
    assert_eq!(read_all(&mut server, upload).0.len(), 10);
    transfer(&mut server, &mut client);
    assert_eq!(events(&mut client), [StreamEvent::Writable(request), StreamEvent::Writable(upload)]);
}

/// Where what has left fills more than half of the send buffer, the next ACK told the upload alone of the credit.
#[test]
fn who_has_nothing_under_way_is_first_also_while_the_send_buffer_is_more_than_half_full() {
    let small = StreamsConfig { send_buffer: 80, ..config() };
    let (mut client, mut server) = pair(&small, &tiny(50, 1_000));
    let (upload, request) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(upload, &[1; 80]), Ok(50));
    assert_eq!(client.write(upload, &[1; 30]), Err(WriteError::Blocked));
    assert_eq!(client.write(request, &[2; 4]), Err(WriteError::Blocked));
    let (payload, sent) = packet(&mut client, 100);
    receive(&mut server, &payload).unwrap();
    assert_eq!(read_all(&mut server, upload).0.len(), 50);
    transfer(&mut server, &mut client);
    assert_eq!(events(&mut client), [StreamEvent::Writable(request)]);
    assert_eq!(client.write(request, &[2; 4]), Ok(4));
    client.on_acked(&sent);
    assert_eq!(events(&mut client), [StreamEvent::Writable(upload)]);
}

#[test]
fn a_reset_gives_back_the_credit_of_what_was_never_sent() {
    let (mut client, mut server) = pair(&config(), &tiny(10, 1_000));
    let (a, b) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    client.write(a, &[1; 10]).unwrap();
    assert_eq!(client.write(b, &[1; 10]), Err(WriteError::Blocked));
    client.reset(a, 0u8.into()).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Writable(b)]);
    assert_eq!(client.write(b, &[1; 10]), Ok(10));
    transfer(&mut client, &mut server);
    assert_eq!(server.stats().receive_buffered, 10);
}

/// Else an upload beside it has all of that with the next ACK, and of what the peer allows next, too.
#[test]
fn who_has_nothing_under_way_is_first_to_have_credit_that_a_reset_gives_back() {
    let small = StreamsConfig { send_buffer: 80, ..config() };
    let (mut client, _) = pair(&small, &tiny(50, 1_000));
    let [upload, given_up, request] = std::array::from_fn(|_| client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(upload, &[1; 40]), Ok(40));
    let (_, sent) = packet(&mut client, 100);
    assert_eq!(client.write(given_up, &[2; 20]), Ok(10));
    for id in [upload, request] {
        assert_eq!(client.write(id, &[3; 4]), Err(WriteError::Blocked));
    }
    client.reset(given_up, 0u8.into()).unwrap();
    assert_eq!(events(&mut client), [StreamEvent::Writable(request)]);
    assert_eq!(client.write(request, &[3; 4]), Ok(4));
    client.on_acked(&sent);
    assert_eq!(events(&mut client), [StreamEvent::Writable(upload)]);
}

/// Statistics tell what has left, not what an application has written.
#[test]
fn bytes_count_as_sent_when_they_leave_and_once() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 5_000]).unwrap();
    assert_eq!(client.first_sent_bytes(), 0);
    let (_, mut lost) = packet(&mut client, 1_200);
    let first = lost.data_len();
    assert!(first > 1_000);
    assert_eq!(client.first_sent_bytes(), first);
    client.on_lost(&mut lost);
    let (_, again) = packet(&mut client, 1_200);
    assert_eq!(again.ranges[0], lost.ranges[0]);
    client.reset(id, 0u8.into()).unwrap();
    let before = client.first_sent_bytes();
    assert!((first..first + 1_200).contains(&before), "the rest never leaves: {before}");
    let other = client.open(Dir::Uni).unwrap();
    client.write(other, &[1; 3_000]).unwrap();
    client.finish(other).unwrap();
    transfer(&mut client, &mut server);
    assert_eq!((client.first_sent_bytes(), client.stats().send_buffered), (before + 3_000, 0));
}

#[test]
fn the_send_buffer_is_shared_and_frees_up_by_acknowledgements() {
    let small = StreamsConfig { send_buffer: 80, ..config() };
    let (mut client, mut server) = pair(&small, &config());
    let (a, b) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    assert_eq!(client.write(a, &[1; 100]), Ok(80));
    assert_eq!(client.write(b, &[1; 100]), Err(WriteError::Blocked));
    let (payload, sent) = packet(&mut client, 1_000);
    receive(&mut server, &payload).unwrap();
    assert!(!client.has_pending(), "no BLOCKED frame: the limit is our own");
    assert_eq!(events(&mut client), []);
    client.on_acked(&sent);
    assert_eq!(events(&mut client), [StreamEvent::Writable(b)]);
}

#[test]
fn sparse_data_costs_no_more_than_the_window() {
    let (_, mut server) = pair(&config(), &tiny(10_000, 4_000));
    let mut granted = 10_000;
    for index in 0.. {
        let id = StreamId::new(Side::Client, Dir::Uni, index);
        let offset = 4_000u64.min(granted) - 1;
        server.on_stream(id, offset, &[1], false).unwrap();
        granted -= offset + 1;
        assert_eq!(server.stats().receive_buffered, 10_000 - granted);
        if granted == 0 {
            break;
        }
    }
    let stats = server.stats();
    assert_eq!((stats.receive_buffered_max, stats.gaps), (10_000, 3));
    assert!(!server.has_pending());
    // Stopping a stream frees its memory and its credit at once.
    server.stop(CLIENT_UNI, 0u8.into()).unwrap();
    assert_eq!(server.stats().receive_buffered, 6_000);
    let (_, sent) = packet(&mut server, 100);
    assert_eq!(sent.control, [StreamControl::StopSending(CLIENT_UNI), StreamControl::MaxData(14_000)]);
}

/// A server that may hold 100 bytes, has read half of the client's 100, and says so in the packet.
fn half_read() -> (Streams, Streams, StreamId, SentStreamFrames) {
    let (mut client, mut server) = pair(&config(), &tiny(100, 100));
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 100]).unwrap();
    transfer(&mut client, &mut server);
    server.read(id, &mut [0; 50]).unwrap();
    let (_, told) = packet(&mut server, 100);
    assert_eq!(told.control, [StreamControl::MaxData(150), StreamControl::MaxStreamData { id, limit: 150 }]);
    (client, server, id, told)
}

#[test]
fn lost_limits_are_repeated_with_current_values() {
    let (_, mut server, id, mut old) = half_read();
    server.read(id, &mut [0; 10]).unwrap();
    assert!(!server.has_pending(), "ten bytes are not worth a frame");
    server.on_lost(&mut old);
    let (_, mut new) = packet(&mut server, 100);
    assert_eq!(new.control, [StreamControl::MaxData(160), StreamControl::MaxStreamData { id, limit: 160 }]);
    assert!(!server.unacked_remaining(&old) && server.unacked_remaining(&new));
    server.on_acked(&new);
    server.on_lost(&mut new);
    assert!(!server.has_pending());
}

/// The copy of a request is worth little without the credit for the answer.
#[test]
fn a_copy_has_the_credit_that_the_peer_may_lack() {
    let (mut client, mut server, id, mut record) = half_read();
    let credit = record.control.clone();
    record.control.push(StreamControl::DataBlocked(0));
    let copy = |server: &mut Streams, limit| {
        let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
        server.write_credit_again(&record.control, &mut out, limit, &mut sent);
        (out, sent)
    };
    let (payload, sent) = copy(&mut server, 1_000);
    assert_eq!(sent.control, credit);
    assert_eq!(copy(&mut server, payload.len() - 1).1.control, credit[..1], "there is no room for more");
    receive(&mut client, &payload).unwrap();
    assert_eq!(client.write(id, &[1; 100]), Ok(50));
    server.on_acked(&sent);
    assert!(copy(&mut server, 1_000).0.is_empty(), "it has arrived");
    server.on_lost(&mut record);
    assert!(!server.has_pending());
}

#[test]
fn stream_credit_returns_when_both_directions_are_closed() {
    let few = StreamsConfig { max_concurrent_bidi: 1, ..config() };
    let (mut client, mut server) = pair(&config(), &few);
    for index in 0..5 {
        let id = client.open(Dir::Bi).unwrap();
        assert_eq!(id.index(), index);
        assert_eq!(client.open(Dir::Bi), None);
        client.finish(id).unwrap();
        transfer(&mut client, &mut server);
        assert_eq!(server.accept(Dir::Bi), Some(id));
        assert_eq!(read_all(&mut server, id), (vec![], Ok(Read::Finished)));
        assert!(!server.has_pending(), "our half is still open");
        server.finish(id).unwrap();
        transfer(&mut server, &mut client);
        transfer(&mut server, &mut client);
        assert!(events(&mut client).contains(&StreamEvent::Available { dir: Dir::Bi }));
        assert_eq!(read_all(&mut client, id), (vec![], Ok(Read::Finished)));
    }
}

#[test]
fn long_lived_streams_do_not_hold_back_the_credit_of_short_ones() {
    let (mut client, mut server) = pair(&config(), &StreamsConfig { max_concurrent_uni: 8, ..config() });
    for _ in 0..7 {
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"stays").unwrap();
    }
    for _ in 0..20 {
        let id = client.open(Dir::Uni).expect("one place is free");
        client.finish(id).unwrap();
        transfer(&mut client, &mut server);
        assert_eq!(read_all(&mut server, id).1, Ok(Read::Finished));
        transfer(&mut server, &mut client);
    }
}

#[test]
fn remembered_limits_grow_into_the_real_ones() {
    let mut client = Streams::new(Side::Client, &config());
    assert_eq!(client.open(Dir::Bi), None);
    client.set_peer_limits(&parameters(&tiny(100, 10)));
    assert_eq!(events(&mut client), [StreamEvent::Available { dir: Dir::Bi }]);
    let id = client.open(Dir::Bi).unwrap();
    assert_eq!(client.write(id, &[0; 50]), Ok(10));
    assert_eq!(client.write(id, &[0; 50]), Err(WriteError::Blocked));
    client.set_peer_limits(&parameters(&tiny(100, 30)));
    assert_eq!(events(&mut client), [StreamEvent::Writable(id)]);
    assert_eq!(client.write(id, &[0; 50]), Ok(20));
}

#[test]
fn raised_limits_reach_streams_old_and_new() {
    let begin = StreamsConfig { max_concurrent_bidi: 0, max_concurrent_uni: 1, ..tiny(10, 10) };
    let (mut client, mut server) = pair(&config(), &begin);
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!((client.write(id, &[1; 99]), client.write(id, &[1; 99])), (Ok(10), Err(WriteError::Blocked)));
    assert_eq!((client.open(Dir::Uni), client.open(Dir::Bi)), (None, None));
    transfer(&mut client, &mut server);
    let limits = ReceiveLimits {
        receive_window: 100,
        stream_receive_window: 60,
        max_concurrent_bidi: 1,
        max_concurrent_uni: 2,
    };
    server.raise_limits(&limits);
    // What would fall stays, and what has been said is not said again.
    transfer(&mut server, &mut client);
    server.raise_limits(&ReceiveLimits { receive_window: 5, max_concurrent_uni: 0, ..limits });
    assert!(!server.has_pending());
    assert_eq!(server.receive_limits(), limits);
    let available = |dir| StreamEvent::Available { dir };
    let news = [StreamEvent::Writable(id), available(Dir::Bi), available(Dir::Uni)];
    let told = events(&mut client);
    assert!(news.iter().all(|event| told.contains(event)), "{told:?}");
    assert_eq!(client.write(id, &[1; 99]), Ok(50));
    let later = client.open(Dir::Bi).unwrap();
    assert_eq!(client.write(later, &[1; 99]), Ok(10), "what the transport parameters gave");
    transfer(&mut client, &mut server);
    transfer(&mut server, &mut client);
    assert_eq!(client.write(later, &[1; 99]), Ok(30), "what is left of the connection");
    assert!(client.open(Dir::Uni).is_some());
}
