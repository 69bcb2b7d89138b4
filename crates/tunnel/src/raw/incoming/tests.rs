use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

fn body(flow: u64, sequence: u64, packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Body::Sequenced { flow, sequence, is_source: false, packet }.encode(&mut out);
    out
}

fn handle(incoming: &mut Incoming, ms: u64, flow: u64, sequence: u64) -> Vec<u8> {
    let mut out = Vec::new();
    incoming.handle(&body(flow, sequence, &[sequence as u8]), at(ms), &mut |packet| out.extend(packet));
    out
}

#[test]
fn what_was_late_once_is_waited_for_the_next_time() {
    let mut incoming = Incoming::default();
    assert_eq!(handle(&mut incoming, 0, 7, 1), [1], "nothing was ever late");
    assert_eq!(handle(&mut incoming, 8, 7, 0), [0]);
    assert!(handle(&mut incoming, 9, 7, 3).is_empty(), "now it is waited for");
    assert_eq!(incoming.deadline(), Some(at(20)));
    assert_eq!(handle(&mut incoming, 10, 7, 2), [2, 3]);
    assert!(handle(&mut incoming, 11, 7, 5).is_empty());
    let mut out = Vec::new();
    incoming.on_timer(at(21), &mut |packet| out.extend(packet));
    assert!(out.is_empty(), "not yet");
    incoming.on_timer(at(22), &mut |packet| out.extend(packet));
    assert_eq!((out, incoming.deadline()), (vec![5], None));
    let counters = incoming.counters();
    assert_eq!((counters.held, counters.late, counters.held_bytes, counters.packets), (2, 1, 0, 5));
    assert_eq!(counters.given_up, 2);
}

/// Each packet's own time counts, also where holes before it were filled meanwhile.
#[test]
fn a_packet_behind_several_holes_waits_no_longer_than_one_behind_one() {
    let mut incoming = Incoming::default();
    incoming.set_path_spread(Duration::from_millis(20));
    for (ms, sequence) in [(0, 0), (1, 7), (20, 4), (24, 2)] {
        handle(&mut incoming, ms, 9, sequence);
    }
    assert_eq!(handle(&mut incoming, 25, 9, 1), [1, 2]);
    assert_eq!(incoming.deadline(), Some(at(1 + 31)), "7 has waited since 1; 1 was late by 24");
    assert!(handle(&mut incoming, 26, 9, 9).is_empty());
    let mut out = Vec::new();
    incoming.on_timer(at(32), &mut |packet| out.extend(packet));
    assert_eq!((out, incoming.counters().given_up), (vec![4, 7], 2));
    assert_eq!(incoming.deadline(), Some(at(26 + 31)), "nobody has waited for 8 for as long");
    assert_eq!(handle(&mut incoming, 40, 9, 8), [8, 9]);
}

#[test]
fn only_what_may_have_been_part_of_a_unit_is_waited_for() {
    let mut incoming = Incoming::default();
    incoming.set_rtt(Duration::from_millis(40));
    let mut come = |sequence: u64, is_source| {
        let (mut datagram, mut out) = (Vec::new(), Vec::new());
        let packet = [sequence as u8];
        Body::Sequenced { flow: 1, sequence, is_source, packet: &packet }.encode(&mut datagram);
        incoming.handle(&datagram, at(sequence), &mut |packet| out.push(packet[0]));
        out
    };
    assert_eq!(come(0, true), [0]);
    assert!(come(2, false).is_empty(), "1 may have been the last of the unit");
    assert_eq!(come(1, false), [1, 2]);
    assert_eq!(come(4, false), [4], "between packets of no unit nothing comes back");
    assert!(come(6, true).is_empty(), "5 may have been the first");
}

fn source(incoming: &mut Incoming, ms: u64, flow: u64, sequence: u64) -> Vec<u8> {
    let (mut datagram, mut out) = (Vec::new(), Vec::new());
    let packet = [sequence as u8];
    Body::Sequenced { flow, sequence, is_source: true, packet: &packet }.encode(&mut datagram);
    incoming.handle(&datagram, at(ms), &mut |packet| out.extend(packet));
    out
}

/// It was lost, which says nothing about how late others are.
#[test]
fn what_combinations_bring_back_makes_no_other_flow_wait() {
    let mut incoming = Incoming::default();
    incoming.set_rtt(Duration::from_millis(100));
    assert_eq!(source(&mut incoming, 0, 1, 0), [0]);
    assert!(source(&mut incoming, 1, 1, 2).is_empty());
    let (sources, mut datagram, mut out) = ([&[0][..], &[1], &[2]], Vec::new(), Vec::new());
    let mut symbol = vec![0; fec::symbol_len(&sources)];
    fec::random_linear::encode(&sources, 0, 0, &mut symbol).unwrap();
    Body::Coded { flow: 1, first: 0, count: 3, index: 0, symbol: &symbol }.encode(&mut datagram);
    incoming.handle(&datagram, at(31), &mut |packet| out.extend(packet));
    assert_eq!((out, incoming.counters().rebuilt), (vec![1, 2], 1));
    assert_eq!(handle(&mut incoming, 32, 2, 0), [0]);
    assert_eq!(handle(&mut incoming, 33, 2, 2), [2], "nothing was late");
    assert!(incoming.mended.hold() > Duration::from_millis(30), "but those of its kind will be");
}

#[test]
fn only_flows_with_combinations_wait_as_long_as_these_take() {
    let mut incoming = Incoming::default();
    incoming.set_rtt(Duration::from_millis(40));
    incoming.set_path_spread(Duration::from_millis(4));
    assert!(source(&mut incoming, 0, 1, 1).is_empty(), "0 may have been the first of the unit");
    assert_eq!(incoming.deadline(), Some(at(31)));
    handle(&mut incoming, 10, 2, 0);
    assert!(handle(&mut incoming, 10, 2, 2).is_empty());
    assert_eq!(incoming.deadline(), Some(at(16)), "as long as the paths lie apart");
    let mut out = Vec::new();
    incoming.on_timer(at(16), &mut |packet| out.extend(packet));
    assert_eq!((out, incoming.deadline()), (vec![2], Some(at(31))));
    assert_eq!(source(&mut incoming, 20, 1, 0), [0, 1]);
}

#[test]
fn the_first_packet_of_a_flow_may_come_as_a_combination() {
    let mut incoming = Incoming::default();
    incoming.set_rtt(Duration::from_millis(40));
    assert!(source(&mut incoming, 0, 1, 1).is_empty());
    assert_eq!((incoming.deadline(), incoming.counters().given_up), (Some(at(31)), 0));
}

/// What was kept for combinations is forgotten before the holes are given up.
#[test]
fn what_is_due_is_done_also_where_no_combination_comes_any_more() {
    let mut incoming = Incoming::default();
    assert!(source(&mut incoming, 0, 1, 1).is_empty() && source(&mut incoming, 1, 1, 3).is_empty());
    incoming.expire(at(600));
    let mut out = Vec::new();
    incoming.on_timer(at(600), &mut |packet| out.extend(packet));
    assert_eq!((out, incoming.deadline(), incoming.counters().given_up), (vec![1, 3], None, 2));
}

/// Each look is at thousands of flows, and a client decides how many datagrams come meanwhile.
#[test]
fn where_no_more_is_kept_not_every_datagram_has_all_flows_looked_at() {
    let config = IncomingConfig { most_kept: 100, ..IncomingConfig::default() };
    let mut incoming = Incoming::new(config);
    source(&mut incoming, 0, 1, 0);
    // From 500 ms on nobody waits for what is kept of the first flow.
    for (sequence, ms, unkept) in [(0, 499, 1), (1, 500, 2), (2, 548, 3), (3, 549, 3)] {
        source(&mut incoming, ms, 2, sequence);
        assert_eq!((incoming.counters().unkept, incoming.counters().kept_bytes), (unkept, 65), "{ms} ms");
    }
}

#[test]
fn doubles_never_go_on() {
    let mut incoming = Incoming::default();
    for _ in 0..3 {
        handle(&mut incoming, 0, 1, 0);
    }
    assert_eq!((incoming.counters().packets, incoming.counters().doubles), (1, 2));
    let as_it_comes = IncomingConfig { delivery: Delivery::AsItComes, ..IncomingConfig::default() };
    let mut incoming = Incoming::new(as_it_comes);
    incoming.set_path_spread(Duration::from_millis(20));
    assert_eq!(handle(&mut incoming, 0, 1, 1), [1]);
    assert_eq!(handle(&mut incoming, 1, 1, 0), [0]);
    assert!(handle(&mut incoming, 2, 1, 1).is_empty());
}

#[test]
fn flows_and_what_waits_are_bounded() {
    let most_held = 16 * (1 + OVERHEAD);
    let config = IncomingConfig { most_flows: 16, most_held, ..IncomingConfig::default() };
    let mut incoming = Incoming::new(config);
    incoming.set_path_spread(Duration::from_millis(20));
    for n in 0..2_000 {
        handle(&mut incoming, n, n, 1);
        let counters = incoming.counters();
        assert!(counters.flows <= 16 && counters.held_bytes <= 100);
        assert_eq!(incoming.waiting.each_ref().map(BTreeSet::len), [incoming.flows.len(), 0]);
    }
    assert!(incoming.counters().forgotten > 1_900);
    for n in 0..200 {
        let packet = body(5_000, 1 + n, &[1; 10]);
        incoming.handle(&packet, at(2_000), &mut |_| {});
        assert!(incoming.counters().held_bytes <= 100);
    }
    incoming.on_timer(at(3_000), &mut |_| {});
    incoming.expire(at(200_000));
    assert_eq!((incoming.counters().flows, incoming.counters().held_bytes), (0, 0));
}

/// Empty ones take up memory, too.
#[test]
fn packets_that_wait_are_bounded_however_short_they_are() {
    let config = IncomingConfig { most_held: 100 * OVERHEAD, ..IncomingConfig::default() };
    let mut incoming = Incoming::new(config);
    incoming.set_path_spread(Duration::from_millis(20));
    for flow in 0..20 {
        for sequence in 1..60 {
            incoming.handle(&body(flow, sequence, &[]), at(0), &mut |_| {});
            assert!(incoming.held_packets <= 100);
        }
    }
    assert!(incoming.held_packets > 0);
    incoming.on_timer(at(100), &mut |_| {});
    assert_eq!((incoming.held_packets, incoming.counters().packets), (0, 20 * 59));
}

#[test]
fn one_flow_holds_no_more_than_it_may() {
    let mut incoming = Incoming::default();
    incoming.set_path_spread(Duration::from_millis(20));
    for n in 1..=(MOST_HELD_OF_FLOW as u64 + 1) {
        handle(&mut incoming, 0, 1, n);
        assert!(incoming.counters().held_bytes <= MOST_HELD_OF_FLOW);
    }
    assert_eq!(incoming.counters().packets, MOST_HELD_OF_FLOW as u64 + 1);
}

proptest! {
    #[test]
    fn any_datagrams(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..60),
        spread in 0u64..80,
    ) {
        let most_held = 3 * OVERHEAD;
        let config = IncomingConfig { most_flows: 4, most_held, ..IncomingConfig::default() };
        let mut incoming = Incoming::new(config);
        incoming.set_path_spread(Duration::from_millis(spread));
        for (n, datagram) in (0..).zip(&datagrams) {
            incoming.handle(datagram, at(n), &mut |_| {});
            incoming.on_timer(at(n), &mut |_| {});
            let counters = incoming.counters();
            prop_assert!(counters.flows <= 4 && counters.held_bytes <= 64 + 40);
        }
    }
}
