//! What is sent again, and what is not.

use super::*;

/// A client with `len` bytes written and the stream finished, which sent them in packets of 100
/// bytes.
fn sent_in_packets(len: usize) -> (Streams, StreamId, Vec<SentStreamFrames>) {
    let (mut client, _) = pair(&config(), &config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &vec![7; len]).unwrap();
    client.finish(id).unwrap();
    let mut records = Vec::new();
    while client.has_pending() {
        records.push(packet(&mut client, 100).1);
    }
    (client, id, records)
}

fn again(client: &mut Streams, record: &SentStreamFrames) -> Option<SentStreamFrames> {
    let (mut out, mut sent) = (Vec::new(), SentStreamFrames::default());
    let wrote = client.write_ranges(&record.ranges, &mut out, 1_000, &mut sent);
    (wrote != Again::Nothing).then_some(sent)
}

#[test]
fn a_loss_is_queued_once() {
    let (mut client, _, mut records) = sent_in_packets(500);
    let len = records[1].data_len();
    client.on_lost(&mut records[1]);
    client.on_lost(&mut records[1]);
    assert_eq!((client.sendable_bytes(), client.lost_bytes()), (len, len));
    let (_, resent) = packet(&mut client, 100);
    assert_eq!(resent.data_len(), len);
    // The first PTO and then the loss detector may both give up on a packet.
    client.on_lost(&mut records[1]);
    assert!(!client.has_pending());
    assert_eq!(client.stats().requeued, len);
}

#[test]
fn an_acknowledged_copy_saves_the_retransmission() {
    let (mut client, id, mut records) = sent_in_packets(500);
    let copy = again(&mut client, &records[0]).unwrap();
    assert!(copy.ranges.iter().all(|range| range.copy));
    client.on_acked(&copy);
    assert!(!client.unacked_remaining(&records[0]));
    assert_eq!(again(&mut client, &records[0]), None);
    client.on_lost(&mut records[0]);
    assert!(!client.has_pending(), "the copy arrived");

    // A copy that is acknowledged while the loss is queued takes it out of the queue.
    let copy = again(&mut client, &records[1]).unwrap();
    client.on_lost(&mut records[1]);
    assert!(client.sendable_bytes() > 0);
    client.on_acked(&copy);
    assert!(!client.has_pending());
    for record in &records {
        client.on_acked(record);
        client.on_acked(record);
    }
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
    assert_eq!((client.stats().open, client.stats().send_buffered), (0, 0));
}

#[test]
fn a_lost_copy_asks_for_nothing() {
    let (mut client, _, records) = sent_in_packets(500);
    let mut copy = again(&mut client, &records[0]).unwrap();
    client.on_lost(&mut copy);
    assert!(!client.has_pending());
    assert!(client.unacked_remaining(&records[0]));
}

#[test]
fn a_copy_of_queued_data_answers_for_it() {
    let (mut client, _, mut records) = sent_in_packets(500);
    client.on_lost(&mut records[0]);
    let mut copy = again(&mut client, &records[0]).unwrap();
    assert!(!client.has_pending(), "what was queued is under way now");
    assert!(!copy.ranges[0].copy);
    client.on_lost(&mut copy);
    assert_eq!(client.sendable_bytes(), records[0].data_len());
}

#[test]
fn a_late_acknowledgement_counts() {
    let (mut client, id, mut records) = sent_in_packets(300);
    for record in &mut records {
        client.on_lost(record);
    }
    assert_eq!(client.sendable_bytes(), 300);
    for record in &records {
        client.on_acked(record);
    }
    assert!(!client.has_pending());
    assert_eq!(events(&mut client), [StreamEvent::Finished(id)]);
}

#[test]
fn lost_data_goes_before_new_data_unless_priorities_say_otherwise() {
    let (mut client, mut server) = pair(&config(), &config());
    let (old, new) = (client.open(Dir::Uni).unwrap(), client.open(Dir::Uni).unwrap());
    client.write(old, &[1; 100]).unwrap();
    let (_, mut lost) = packet(&mut client, 1_000);
    client.write(new, &[2; 100]).unwrap();
    client.on_lost(&mut lost);
    let (payload, mut sent) = packet(&mut client, 1_000);
    let order = |sent: &SentStreamFrames| sent.ranges.iter().map(|range| range.id).collect::<Vec<_>>();
    assert_eq!(order(&sent), [old, new]);
    receive(&mut server, &payload).unwrap();
    client.set_priority(new, 5);
    client.on_lost(&mut sent);
    assert_eq!(order(&packet(&mut client, 1_000).1), [new, old]);
}

#[test]
fn a_lone_fin_is_pending_without_bytes() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"abc").unwrap();
    transfer(&mut client, &mut server);
    client.finish(id).unwrap();
    assert_eq!((client.sendable_bytes(), client.has_pending()), (0, true));
    let (_, mut fin) = packet(&mut client, 100);
    assert!(!client.has_pending());
    let copy = again(&mut client, &fin).unwrap();
    assert_eq!((copy.ranges[0].len, copy.ranges[0].fin), (0, true));
    client.on_lost(&mut fin);
    assert_eq!((client.sendable_bytes(), client.has_pending()), (0, true));
    transfer(&mut client, &mut server);
    assert_eq!(read_all(&mut server, id), (b"abc".to_vec(), Ok(Read::Finished)));
    assert_eq!(client.stats().open, 0);
}

/// What a program said before it broke off may be worth more than the news that it did.
#[test]
fn a_reset_can_wait_until_all_is_delivered() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"abcdef").unwrap();
    client.reset_when_delivered(id, 9u8.into()).unwrap();
    assert_eq!(client.write(id, b"g"), Err(WriteError::Closed));
    let (_, mut lost) = packet(&mut client, 100);
    assert_eq!((lost.ranges.len(), &lost.control[..]), (1, &[][..]));
    client.on_lost(&mut lost);
    let (payload, sent) = packet(&mut client, 100);
    receive(&mut server, &payload).unwrap();
    assert_eq!(server.accept(Dir::Uni), Some(id));
    assert!(!client.has_pending(), "the reset waits");
    client.on_acked(&sent);
    transfer(&mut client, &mut server);
    assert_eq!(read_all(&mut server, id), (b"abcdef".to_vec(), Err(ReadError::Reset(9u8.into()))));
    assert_eq!((client.stats().open, server.stats().receive_buffered), (0, 0));

    let finished = client.open(Dir::Uni).unwrap();
    client.write(finished, b"whole").unwrap();
    client.finish(finished).unwrap();
    assert_eq!(client.reset_when_delivered(finished, 9u8.into()), Err(CloseError::Closed));
    transfer(&mut client, &mut server);
    assert_eq!(read_all(&mut server, finished), (b"whole".to_vec(), Ok(Read::Finished)));

    let nothing_said = client.open(Dir::Uni).unwrap();
    client.reset_when_delivered(nothing_said, 9u8.into()).unwrap();
    assert!(client.has_pending(), "at once");
    assert_eq!(client.reset_when_delivered(nothing_said, 9u8.into()), Err(CloseError::Closed));
}

#[test]
fn lost_resets_and_stops_are_repeated_while_they_matter() {
    let (mut client, mut server) = pair(&config(), &config());
    let id = client.open(Dir::Bi).unwrap();
    client.write(id, b"abc").unwrap();
    transfer(&mut client, &mut server);
    client.reset(id, 9u8.into()).unwrap();
    assert_eq!(client.reset(id, 9u8.into()), Err(CloseError::Closed));
    client.stop(id, 8u8.into()).unwrap();
    let (_, mut first) = packet(&mut client, 100);
    let reset = StreamControl::ResetStream { id, reliable_size: 0 };
    assert_eq!(first.control, [reset, StreamControl::StopSending(id)]);
    assert!(client.unacked_remaining(&first));
    client.on_lost(&mut first);
    let (payload, mut second) = packet(&mut client, 100);
    assert_eq!(second.control, first.control);
    receive(&mut server, &payload).unwrap();
    assert_eq!(server.finish(id), Err(FinishError::Stopped(8u8.into())));
    assert_eq!(read_all(&mut server, id), (vec![], Err(ReadError::Reset(9u8.into()))));
    // Acknowledged late, through the packet that was given up.
    client.on_acked(&first);
    client.on_lost(&mut second);
    assert!(!client.has_pending());
    transfer(&mut server, &mut client);
    assert_eq!((client.stats().open, server.stats().open), (0, 0));
}
