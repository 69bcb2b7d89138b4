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
