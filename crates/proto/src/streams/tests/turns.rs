//! Who may send first, and that nobody waits for ever.

use super::*;
use queue::{FIRST_BYTES, QUANTUM};

/// Limits that nothing here reaches.
fn ample() -> StreamsConfig {
    StreamsConfig {
        receive_window: 1 << 30,
        stream_receive_window: 1 << 30,
        initial_stream_window: 1 << 30,
        send_buffer: 1 << 30,
        max_concurrent_bidi: 10_000,
        max_concurrent_uni: 10_000,
    }
}

/// A client with so many streams that each wait to send so much.
fn senders(streams: usize, bytes: usize) -> (Streams, Vec<StreamId>) {
    let (mut client, _) = pair(&ample(), &ample());
    let ids: Vec<StreamId> = (0..streams).map(|_| client.open(Dir::Uni).unwrap()).collect();
    for &id in &ids {
        assert_eq!(client.write(id, &vec![0; bytes]), Ok(bytes));
    }
    (client, ids)
}

/// Bytes of each stream in so many packets of these sizes.
fn sent_by(client: &mut Streams, packets: usize, sizes: &[usize]) -> BTreeMap<StreamId, i64> {
    let mut sums = BTreeMap::new();
    for size in sizes.iter().cycle().take(packets) {
        for range in packet(client, *size).1.ranges {
            *sums.entry(range.id).or_default() += i64::from(range.len);
        }
    }
    sums
}

#[test]
fn equal_streams_share_by_bytes_whatever_the_packets() {
    const LARGEST: usize = 1_400;
    for sizes in [&[1_000][..], &[LARGEST], &[200, LARGEST], &[70, 900, 300, LARGEST]] {
        let (mut client, ids) = senders(7, 100_000);
        for _ in 0..5 {
            sent_by(&mut client, 50, sizes);
        }
        let sums: Vec<i64> = ids.iter().map(|id| 100_000 - client.send[id].unsent() as i64).collect();
        let (least, most) = (sums.iter().min().unwrap(), sums.iter().max().unwrap());
        assert!(most - least <= QUANTUM + LARGEST as i64, "{sizes:?}: {sums:?}");
    }
}

#[test]
fn an_answer_overtakes_five_hundred_downloads_and_they_the_rest_of_it() {
    let (mut client, _) = senders(500, 20_000);
    // Their first bytes are out.
    sent_by(&mut client, 600 * FIRST_BYTES as usize / 1_100, &[1_200]);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 300]).unwrap();
    assert_eq!(packet(&mut client, 1_200).1.ranges[0].id, id, "an answer goes first");
    client.write(id, &[1; 20_000]).unwrap();
    let sums = sent_by(&mut client, 100, &[1_200]);
    assert!(!sums.contains_key(&id), "what follows it has to wait for its turn");
    assert!(sent_by(&mut client, 600, &[1_200]).contains_key(&id));
}

#[test]
fn who_sends_little_by_little_takes_no_more_than_others() {
    let (mut client, ids) = senders(3, 200_000);
    sent_by(&mut client, 3 * FIRST_BYTES as usize / 1_100, &[1_200]);
    let chatty = client.open(Dir::Uni).unwrap();
    let mut sums: BTreeMap<StreamId, i64> = BTreeMap::new();
    for _ in 0..100 {
        if client.send[&chatty].unsent() == 0 {
            client.write(chatty, &[1; 1_000]).unwrap();
        }
        for (id, bytes) in sent_by(&mut client, 1, &[1_200]) {
            *sums.entry(id).or_default() += bytes;
        }
    }
    assert!(ids.iter().all(|id| sums[id] * 10 >= sums[&chatty] * 8), "{sums:?}");
}

#[test]
fn higher_priority_goes_first_and_lower_ones_do_not_starve() {
    let (mut client, ids) = senders(4, 400_000);
    client.set_priority(ids[3], 2);
    client.set_priority(ids[2], 1);
    sent_by(&mut client, 20, &[1_200]);
    let sums = sent_by(&mut client, 300, &[1_200]);
    let all: i64 = sums.values().sum();
    assert!(sums[&ids[3]] * 100 >= all * 90, "{sums:?}");
    assert!(ids[..3].iter().all(|id| sums[id] * 100 >= all), "{sums:?}");
    // A change of mind counts for what waits already.
    client.set_priority(ids[0], 3);
    assert_eq!(packet(&mut client, 1_200).1.ranges[0].id, ids[0]);
}

#[test]
fn a_stream_that_is_given_up_leaves_no_place_behind() {
    let (mut client, ids) = senders(3, 50_000);
    sent_by(&mut client, 20, &[1_200]);
    for &id in &ids {
        client.reset(id, 0u8.into()).unwrap();
    }
    let (_, sent) = packet(&mut client, 1_200);
    assert!(!client.has_data());
    client.on_acked(&sent);
    assert_eq!(client.queue.pop(), None);
    assert_eq!(client.stats().open, 0);
}
