use proptest::prelude::*;

use super::*;

fn write(datagrams: &mut Datagrams, out: &mut Vec<u8>) -> bool {
    datagrams.write(PathId(0), out, 1_200, true, &mut Vec::new()).any
}

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + units::Duration::from_millis(ms)
}

#[test]
fn higher_priority_leaves_first_and_equal_ones_in_order() {
    let mut datagrams = Datagrams::new(1_000, 0);
    for (byte, priority) in [(0, 0), (1, 5), (2, 0), (3, 5), (4, -1), (5, 9)] {
        assert!(datagrams.send(Bytes::from(vec![byte]), None, DatagramOptions::new().priority(priority)));
    }
    let mut out = Vec::new();
    assert!(write(&mut datagrams, &mut out));
    let order: Vec<u8> = out.chunks(3).map(|frame| frame[2]).collect();
    assert_eq!(order, [5, 1, 3, 0, 2, 4]);
}

#[test]
fn what_cannot_arrive_in_time_is_dropped_and_leaves_its_room() {
    let mut datagrams = Datagrams::new(100, 0);
    for ms in [150, 100, 200] {
        assert!(datagrams.send(Bytes::from(vec![0; 30]), Some(at(ms)), DatagramOptions::new()));
    }
    assert!(!datagrams.send(Bytes::from(vec![0; 30]), None, DatagramOptions::new()));
    datagrams.expire(at(100));
    assert_eq!(datagrams.expired(), 0, "to arrive then is in time");
    datagrams.expire(at(160));
    assert_eq!((datagrams.expired(), datagrams.pending_bytes()), (2, 30));
    assert!(datagrams.send(Bytes::from(vec![0; 60]), None, DatagramOptions::new()));
    let mut timed = Vec::new();
    let written = datagrams.write(PathId(0), &mut Vec::new(), 1_200, true, &mut timed);
    assert!(written.any && written.untimed);
    assert_eq!(timed.iter().map(|t| t.deadline).collect::<Vec<_>>(), [at(200)]);
    datagrams.expire(at(1_000));
    assert_eq!(datagrams.expired(), 2, "what has left does not expire");
    assert!(!datagrams.has_deadlines());
}

#[test]
fn what_may_be_missed_goes_with_the_datagram() {
    let mut datagrams = Datagrams::new(1_000, 0);
    for one_late_in in [None, Some(1_000), Some(0)] {
        let options = DatagramOptions { one_late_in, ..DatagramOptions::new() };
        assert!(datagrams.send(Bytes::from_static(b"frame"), Some(at(100)), options));
    }
    let mut timed = Vec::new();
    assert!(datagrams.write(PathId(0), &mut Vec::new(), 1_200, true, &mut timed).any);
    assert_eq!(timed.iter().map(|t| t.may_miss(0.002)).collect::<Vec<_>>(), [0.002, 0.001, 0.5]);
}

#[test]
fn what_is_apart_shares_no_packet_with_what_was_before_it() {
    let mut datagrams = Datagrams::new(1_000, 0);
    for (byte, apart) in [(0, false), (1, true), (2, false), (3, true), (4, true)] {
        let options = DatagramOptions { apart, ..DatagramOptions::new() };
        assert!(datagrams.send(Bytes::from(vec![byte]), None, options));
    }
    let mut packet = |path| {
        let (avoided, mut out) = (datagrams.avoided_path(), Vec::new());
        let any = datagrams.write(PathId(path), &mut out, 1_200, true, &mut Vec::new()).any;
        any.then(|| (avoided, out.chunks(3).map(|frame| frame[2]).collect::<Vec<u8>>()))
    };
    assert_eq!(packet(5), Some((None, vec![0])));
    assert_eq!(packet(6), Some((Some(PathId(5)), vec![1, 2])));
    assert_eq!(packet(7), Some((Some(PathId(6)), vec![3])));
    assert_eq!(packet(7), Some((Some(PathId(7)), vec![4])));
    assert_eq!(packet(7), None);
}

#[test]
fn queues_are_bounded_even_for_empty_datagrams() {
    let mut datagrams = Datagrams::new(10, 10 * (OVERHEAD + 1));
    assert_eq!(
        (0..20)
            .map(|_| usize::from(datagrams.send(Bytes::new(), None, DatagramOptions::new())))
            .sum::<usize>(),
        10
    );
    for n in 0..20 {
        datagrams.on_received(&[n]);
    }
    assert_eq!(datagrams.receive().as_deref(), Some(&[10][..]), "the oldest were dropped");
    assert_eq!(datagrams.dropped(), 10);
    assert!(!datagrams.on_received(&[0; 600]));
    assert!(!datagrams.take_unblocked());
    let mut out = Vec::new();
    assert!(write(&mut datagrams, &mut out));
    assert!(datagrams.take_unblocked());
}

#[test]
fn who_was_refused_is_told_once_there_is_room_for_that_and_not_before() {
    let mut datagrams = Datagrams::new(2_000, 0);
    assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new()));
    assert!(!datagrams.send(Bytes::from(vec![0; 1_200]), None, DatagramOptions::new()));
    assert!(!datagrams.take_unblocked(), "half of the queue is free, and that is too little");
    let mut out = Vec::new();
    assert!(write(&mut datagrams, &mut out));
    assert!(datagrams.take_unblocked());
    assert!(!datagrams.take_unblocked(), "once");
    assert!(datagrams.send(Bytes::from(vec![0; 1_200]), None, DatagramOptions::new()));
}

#[test]
fn a_datagram_larger_than_the_queue_waits_until_that_is_empty() {
    let mut datagrams = Datagrams::new(100, 0);
    assert!(datagrams.send(Bytes::from(vec![0; 50]), None, DatagramOptions::new()));
    assert!(!datagrams.send(Bytes::from(vec![0; 200]), None, DatagramOptions::new()));
    assert!(!datagrams.take_unblocked());
    assert!(write(&mut datagrams, &mut Vec::new()));
    assert!(datagrams.take_unblocked());
    assert!(datagrams.send(Bytes::from(vec![0; 200]), None, DatagramOptions::new()));
    assert!(!datagrams.send(Bytes::from(vec![0; 1]), None, DatagramOptions::new()), "one, and no more");
}

#[test]
fn who_wants_a_short_queue_is_refused_and_told_by_its_own_measure() {
    let mut datagrams = Datagrams::new(100_000, 0);
    assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
    assert!(datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
    assert!(!datagrams.send(Bytes::from(vec![0; 900]), None, DatagramOptions::new().room(2_000)));
    assert!(!datagrams.take_unblocked(), "nothing has left");
    assert!(write(&mut datagrams, &mut Vec::new()));
    assert!(datagrams.take_unblocked());
    assert!(
        datagrams.send(Bytes::from(vec![0; 50_000]), None, DatagramOptions::new()),
        "others have all of it"
    );
}

/// Who waits for the send buffer does not wait for somebody else's short queue to be empty.
#[test]
fn of_several_that_were_refused_the_first_that_has_room_is_told() {
    let (all, few) = (DatagramOptions::new(), DatagramOptions::new().room(2_000));
    for refused in [[all, few], [few, all]] {
        let mut datagrams = Datagrams::new(10_000, 0);
        (0..10).for_each(|_| assert!(datagrams.send(Bytes::from(vec![0; 1_000]), None, all)));
        for options in refused {
            assert!(!datagrams.send(Bytes::from(vec![0; 1_000]), None, options));
        }
        for left in (5..10).rev() {
            assert!(!datagrams.take_unblocked());
            assert!(write(&mut datagrams, &mut Vec::new()));
            assert_eq!(datagrams.pending_bytes(), left * 1_000);
        }
        assert!(datagrams.take_unblocked(), "half of the send buffer is free");
        // Who is refused then is told by their own measure.
        assert!(!datagrams.send(Bytes::from(vec![0; 1_000]), None, few));
        (0..3).for_each(|_| assert!(write(&mut datagrams, &mut Vec::new())));
        assert!(!datagrams.take_unblocked());
        assert!(write(&mut datagrams, &mut Vec::new()));
        assert!(datagrams.take_unblocked());
    }
}

#[test]
fn what_fits_no_packet_is_dropped_not_stuck() {
    let mut datagrams = Datagrams::new(10_000, 10_000);
    assert!(datagrams.send(Bytes::from(vec![0; 2_000]), None, DatagramOptions::new()));
    assert!(datagrams.send(Bytes::from(vec![1; 100]), None, DatagramOptions::new()));
    let mut out = Vec::new();
    assert!(write(&mut datagrams, &mut out));
    assert_eq!(out.len(), 103);
    assert_eq!(datagrams.dropped(), 1);
}

/// A flow's datagram of so many bytes, all of which are the flow's number.
fn of_flow(datagrams: &mut Datagrams, flow: u8, bytes: usize) -> bool {
    let options = DatagramOptions::new().flow(flow.into());
    datagrams.send(Bytes::from(vec![flow; bytes]), None, options)
}

/// The flow and the bytes of the next datagram, of which no packet carries two.
fn leaves(datagrams: &mut Datagrams) -> Option<(u8, usize)> {
    let mut out = Vec::new();
    write(datagrams, &mut out).then(|| (out[3], out.len() - 3))
}

/// As a call beside a download, each through an association of its own.
#[test]
fn a_flow_that_sends_little_does_not_wait_for_one_that_fills_the_buffer() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    for _ in 0..50 {
        while of_flow(&mut datagrams, 1, 1_100) {}
        assert!(datagrams.pending_bytes() > 1_000_000);
        assert!(of_flow(&mut datagrams, 2, 100));
        let next = [leaves(&mut datagrams), leaves(&mut datagrams)];
        assert!(next.contains(&Some((2, 100))), "{next:?}");
    }
}

/// As the first call of a connection that has carried other datagrams until then.
#[test]
fn the_first_flow_does_not_wait_for_all_that_know_none_either() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    let urgent = DatagramOptions::new().priority(1);
    for n in 0..100 {
        let data = Bytes::from(vec![0; 1_000 + n]);
        assert!(datagrams.send(data.clone(), None, DatagramOptions::new()));
        assert!(datagrams.send(data, None, urgent));
    }
    (0..3).for_each(|_| assert!(of_flow(&mut datagrams, 2, 700)));
    assert!(datagrams.send(Bytes::from(vec![0; 1_100]), None, DatagramOptions::new()));
    let order: Vec<_> = std::iter::from_fn(|| leaves(&mut datagrams)).collect();
    assert_eq!(order[100..105], [(0, 1_000), (2, 700), (2, 700), (0, 1_001), (2, 700)]);
    let others = order.iter().filter(|(flow, _)| *flow == 0).map(|(_, bytes)| *bytes);
    assert!(
        others.eq((1_000..1_100).chain(1_000..=1_100)),
        "those of higher priority first, and all as they came"
    );
}

#[test]
fn flows_that_send_much_share_by_bytes() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    (0..200).for_each(|_| assert!(of_flow(&mut datagrams, 1, 1_100)));
    (0..300).for_each(|_| assert!(of_flow(&mut datagrams, 2, 700)));
    let mut sent = [0; 2];
    for _ in 0..400 {
        let (flow, bytes) = leaves(&mut datagrams).unwrap();
        sent[usize::from(flow) - 1] += bytes;
        assert!(sent[0].abs_diff(sent[1]) <= 1_100, "{sent:?}");
    }
}

/// As a program that waits for an answer before it sends more.
#[test]
fn who_has_one_waiting_at_a_time_gets_no_more_than_others() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    (0..100).for_each(|_| assert!(of_flow(&mut datagrams, 1, 1_000)));
    assert!(of_flow(&mut datagrams, 2, 1_000));
    let mut sent = [0; 2];
    for _ in 0..100 {
        let (flow, _) = leaves(&mut datagrams).unwrap();
        sent[usize::from(flow) - 1] += 1;
        if flow == 2 {
            assert!(of_flow(&mut datagrams, 2, 1_000));
        }
    }
    assert_eq!(sent, [50, 50]);
}

/// As of a picture that is more than its half of what the paths carry, beside a download.
#[test]
fn what_expires_costs_its_flow_no_turn() {
    let (mut datagrams, mut sent) = (Datagrams::new(1 << 20, 0), [0; 2]);
    let picture = DatagramOptions::new().flow(2);
    for ms in 0..1_000 {
        datagrams.expire(at(ms));
        while datagrams.pending_bytes() < 100_000 {
            assert!(of_flow(&mut datagrams, 1, 1_000));
        }
        assert!(datagrams.send(Bytes::from(vec![2; 1_000]), Some(at(ms + 20)), picture));
        let (flow, _) = leaves(&mut datagrams).unwrap();
        sent[usize::from(flow) - 1] += 1;
    }
    assert_eq!(sent, [500, 500]);
    assert!(datagrams.expired() > 400, "it was more than its half");
}

/// Those that are left keep their order, whatever their deadlines are.
#[test]
fn the_next_of_a_flow_leaves_in_the_turn_of_one_that_expires() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    for n in 0..4 {
        assert!(of_flow(&mut datagrams, 1, 1_000));
        let deadline = if n == 0 || n == 2 { at(10) } else { at(100) };
        let options = DatagramOptions::new().flow(2);
        assert!(datagrams.send(Bytes::from(vec![2; 1_000 + n]), Some(deadline), options));
    }
    datagrams.expire(at(20));
    assert_eq!(datagrams.expired(), 2);
    assert!(of_flow(&mut datagrams, 2, 1_010), "it begins where those that are left end");
    let order: Vec<_> = std::iter::from_fn(|| leaves(&mut datagrams)).collect();
    assert_eq!(order, [(1, 1_000), (2, 1_001), (1, 1_000), (2, 1_003), (1, 1_000), (2, 1_010), (1, 1_000)]);
}

#[test]
fn where_there_is_no_room_what_would_leave_last_makes_some() {
    let mut datagrams = Datagrams::new(10_000, 0);
    (0..10).for_each(|_| assert!(of_flow(&mut datagrams, 1, 1_000)));
    assert!(!of_flow(&mut datagrams, 1, 1_000), "it would be the last itself");
    (0..5).for_each(|_| assert!(of_flow(&mut datagrams, 2, 1_000)));
    assert!(!of_flow(&mut datagrams, 2, 1_000), "it has as many as the other");
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (5, 10_000));
    assert_eq!(leaves(&mut datagrams), Some((1, 1_000)));
    assert!(of_flow(&mut datagrams, 1, 1_000), "what was dropped took no turn");
    let order: Vec<u8> = std::iter::from_fn(|| leaves(&mut datagrams)).map(|(flow, _)| flow).collect();
    assert_eq!(order, [2, 1, 2, 1, 2, 1, 2, 1, 2, 1]);
}

#[test]
fn nothing_is_dropped_for_a_short_queue_or_of_those_that_know_no_flows() {
    let (mut datagrams, data) = (Datagrams::new(3_000, 0), Bytes::from(vec![0; 1_000]));
    let (no_flow, flow) = (DatagramOptions::new(), DatagramOptions::new().flow(1));
    (0..3).for_each(|_| assert!(datagrams.send(data.clone(), None, no_flow)));
    assert!(!datagrams.send(data.clone(), None, flow));
    assert!(!datagrams.send(data.clone(), None, flow.priority(1)));
    while leaves(&mut datagrams).is_some() {}
    (0..3).for_each(|_| assert!(datagrams.send(data.clone(), None, flow)));
    let another = DatagramOptions::new().flow(2);
    assert!(!datagrams.send(data.clone(), None, another.room(2_000)));
    assert!(!datagrams.send(data.clone(), None, no_flow));
    assert_eq!(datagrams.dropped(), 0);
    assert!(datagrams.send(data, None, another));
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (1, 3_000));
}

#[test]
fn nothing_is_dropped_where_that_would_not_be_room_enough() {
    let mut datagrams = Datagrams::new(3_000, 0);
    assert!(of_flow(&mut datagrams, 1, 2_500));
    assert!(of_flow(&mut datagrams, 1, 100));
    assert!(!of_flow(&mut datagrams, 2, 1_000), "the first leaves before it, and takes too much");
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (0, 2_600));
    assert!(of_flow(&mut datagrams, 2, 500));
    assert_eq!((datagrams.dropped(), datagrams.pending_bytes()), (1, 3_000));
}

#[test]
fn datagrams_of_flows_are_bounded_in_number_too() {
    let mut datagrams = Datagrams::new(1 << 20, 0);
    let took = (0..5_000).filter(|_| of_flow(&mut datagrams, 1, 1)).count();
    assert_eq!(took, MOST_IN_TURNS);
    assert!(!datagrams.take_unblocked(), "who was refused waits until half of them have left");
    assert!(of_flow(&mut datagrams, 2, 1));
    assert_eq!((datagrams.dropped(), datagrams.outgoing.len()), (1, MOST_IN_TURNS));
    while !datagrams.take_unblocked() {
        assert!(write(&mut datagrams, &mut Vec::new()));
    }
    assert!(datagrams.outgoing.len() <= MOST_IN_TURNS / 2);
    assert!(of_flow(&mut datagrams, 1, 1));
}

/// The numbers of a packet's datagrams, each of which has from 64 bytes to 16 kB.
fn numbers(mut packet: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some((header, rest)) = packet.split_at_checked(3) {
        let (data, rest) = rest.split_at(usize::from(u16::from_be_bytes([header[1] & 0x3f, header[2]])));
        numbers.push(u32::from_be_bytes(*data.first_chunk().unwrap()));
        packet = rest;
    }
    numbers
}

proptest! {
    /// Each datagram leaves, waits, or was counted, and those of a flow leave in order, whatever the others do.
    #[test]
    fn every_datagram_of_a_flow_is_accounted_for_and_in_order(
        steps in proptest::collection::vec((0u32..4, 0i32..2, 64usize..900, 0usize..3, 0u64..40), 1..300)
    ) {
        let (mut datagrams, mut queued, mut left) = (Datagrams::new(6_000, 0), Vec::new(), Vec::new());
        for (now, (flow, priority, bytes, packets, within)) in (0..).zip(steps) {
            datagrams.expire(at(now));
            // Half of them have deadlines.
            let deadline = (within < 20).then(|| at(now + within));
            let (number, mut data) = (queued.len() as u32, vec![0; bytes]);
            data[..4].copy_from_slice(&number.to_be_bytes());
            let options = DatagramOptions { flow: flow.checked_sub(1), priority, ..DatagramOptions::new() };
            if datagrams.send(Bytes::from(data), deadline, options) {
                queued.push((flow, priority));
            }
            prop_assert!(datagrams.pending_bytes() <= 6_000);
            for _ in 1..packets {
                let mut out = Vec::new();
                write(&mut datagrams, &mut out);
                left.extend(numbers(&out));
            }
        }
        let mut out = Vec::new();
        while write(&mut datagrams, &mut out) {
            left.extend(numbers(&std::mem::take(&mut out)));
        }
        let lost = datagrams.dropped() + datagrams.expired();
        prop_assert_eq!(left.len() as u64 + lost, queued.len() as u64);
        prop_assert_eq!(datagrams.pending_bytes(), 0);
        for of in &queued {
            prop_assert!(left.iter().filter(|number| queued[**number as usize] == *of).is_sorted());
        }
    }
}
