//! Every limit is reached, and the answer is the stated one.

mod support;

use mendpath_trace::{Half, Limits, Options};
use support::{
    analyse,
    tcp_model::{ACK, RST, SYN, Why, mix, ordinary},
    wire::{Capture, Packet},
};

fn capture(connections: u32, loss: f64) -> (Vec<u8>, u64) {
    let packets = mix(&ordinary(connections, loss, 11));
    let sent_again = packets.iter().filter(|(_, why)| matches!(why, Why::Fast | Why::Timeout)).count();
    let packets: Vec<Packet> = packets.into_iter().map(|(packet, _)| packet).collect();
    (Capture::of(&packets), sent_again as u64)
}

/// `payload` bytes from `seq` on, of a client that is the only one that is captured.
fn data(seq: u32, payload: u32) -> Packet {
    Packet {
        at_ns: 0,
        from: "10.0.0.1:4000".parse().unwrap(),
        to: "192.0.2.1:80".parse().unwrap(),
        seq,
        ack: 1,
        flags: ACK,
        window: 500,
        payload,
        ident: 0,
        options: Vec::new(),
    }
}

fn limited(limits: Limits) -> Options {
    Options { limits, ..Options::default() }
}

#[test]
fn too_many_connections_evict_the_one_silent_longest() {
    let (capture, _) = capture(200, 0.02);
    let report = analyse(&capture, limited(Limits { connections: 2, ..Limits::default() }));
    assert!(report.connections.evicted > 100, "{:?}", report.connections);
    // What came after the cut is another connection.
    assert!(report.connections.total > 200);
    assert!(
        report.warnings.iter().any(|warning| warning.contains("cut because too many")),
        "{:?}",
        report.warnings
    );
    assert_eq!(analyse(&capture, Options::default()).connections.evicted, 0);
}

#[test]
fn closed_connections_make_room_first() {
    let (capture, sent_again) = capture(200, 0.02);
    let limits = Limits { connections: 100, ..Limits::default() };
    let report = analyse(&capture, limited(limits));
    assert_eq!(
        report.connections.evicted, 0,
        "at 20 ms from one to the next, fewer than 100 are open at a time"
    );
    assert!(report.retransmissions.seen_before + 5 >= sent_again);
}

#[test]
fn too_much_remembered_evicts_too() {
    let (capture, _) = capture(200, 0.02);
    let report = analyse(&capture, limited(Limits { packets: 50, ..Limits::default() }));
    assert!(report.connections.evicted > 10, "{:?}", report.connections);
    assert!(report.packets.tcp > 1_000);
}

#[test]
fn a_direction_forgets_its_oldest_packets() {
    let (capture, sent_again) = capture(100, 0.05);
    let report = analyse(&capture, limited(Limits { packets_per_direction: 3, ..Limits::default() }));
    let counts = report.retransmissions;
    assert!(counts.original_forgotten > 0);
    assert_eq!(counts.seen_before + counts.original_forgotten + counts.original_not_captured, sent_again);
}

/// A capture that is made to cost much: every packet sends again what came in thousands of others.
#[test]
fn what_costs_too_much_to_find_is_forgotten() {
    const BYTES: u32 = 16_384;
    let singly = (0..BYTES).map(|i| data(i, 1));
    let wide = (0..4_000).map(|_| data(0, BYTES));
    let report = analyse(&Capture::of(&singly.chain(wide).collect::<Vec<_>>()), Options::default());
    let counts = report.retransmissions;
    assert_eq!(counts.seen_before + counts.original_forgotten, 4_000);
    assert!(counts.seen_before > 1_000, "what packets before did not need is there: {counts:?}");
    assert!(counts.original_forgotten > 2_000, "{counts:?}");
}

/// Ordinary captures have enough, also where segmentation offload shows one packet for many that are sent
/// again one by one.
#[test]
fn parts_of_large_packets_are_found_however_many_they_are() {
    let large = (0..2_000).map(|i| data(i * 60_000, 60_000));
    let lost = (0..2_000).step_by(10).map(|i| i * 60_000);
    let parts = lost.flat_map(|seq| [data(seq + 1_000, 1_000), data(seq + 50_000, 1_000)]);
    let report = analyse(&Capture::of(&large.chain(parts).collect::<Vec<_>>()), Options::default());
    let counts = report.retransmissions;
    assert_eq!((counts.seen_before, counts.original_forgotten), (400, 0));
}

/// Where a large window was lost, more retransmissions wait for their position than there is room for; those
/// at the end have theirs all the same.
#[test]
fn many_retransmissions_at_a_time_take_the_position_of_no_later_ones() {
    let open = Packet { flags: SYN, ..data(0, 0) };
    let window = |_| (0..50).map(|i| data(1 + i * 1_000, 1_000));
    let rest = (50..400).map(|i| data(1 + i * 1_000, 1_000));
    let last = (0..10).map(|_| data(1 + 399 * 1_000, 1_000));
    let reset = Packet { flags: RST, ..data(1 + 400 * 1_000, 0) };
    let packets = std::iter::once(open).chain((0..30).flat_map(window)).chain(rest).chain(last);
    let packets = packets.chain([reset]);
    let report = analyse(&Capture::of(&packets.collect::<Vec<_>>()), Options::default());
    assert_eq!(report.retransmissions.seen_before, 29 * 50 + 10);
    let second = report.positions.iter().find(|series| series.half == Half::Second).expect("the last ones");
    assert_eq!((second.points[0].index, second.points[0].retransmissions), (1, 10));
    assert_eq!(report.what_if[2].connections, 1, "duplicates of the tail would have saved something");
}

#[test]
fn of_too_many_retransmissions_a_sample_is_kept() {
    let (capture, sent_again) = capture(300, 0.05);
    let limits = Limits { retransmissions: 100, mended_connections: 10, ..Limits::default() };
    let report = analyse(&capture, limited(limits));
    assert_eq!((report.retransmissions.seen_before, report.retransmissions.analysed), (sent_again, 100));
    assert!(
        report.warnings.iter().any(|warning| warning.contains("uniform sample of 100")),
        "{:?}",
        report.warnings
    );
    let all = analyse(&capture, Options::default());
    let (all, sample) =
        (all.retransmissions.timeout_share.unwrap(), report.retransmissions.timeout_share.unwrap());
    assert!((all - sample).abs() < 0.2, "{all} {sample}");
    assert!(report.what_if[1].connections > 10 && report.what_if[1].curve[0].len() <= 10);
}

#[test]
fn silent_connections_are_finished() {
    let (capture, _) = capture(100, 0.0);
    let idle = units::Duration::from_millis(1);
    let report = analyse(&capture, limited(Limits { idle, closed_idle: idle, ..Limits::default() }));
    assert!(report.connections.total > 100);
    assert_eq!(report.connections.evicted, 0);
}

#[test]
fn nonsensical_limits_do_no_harm() {
    let (capture, _) = capture(20, 0.05);
    let limits = Limits {
        connections: 0,
        packets: 0,
        packets_per_direction: 0,
        retransmissions: 0,
        mended_connections: 0,
        idle: units::Duration::ZERO,
        closed_idle: units::Duration::ZERO,
    };
    let report = analyse(&capture, Options { tail: 0, listed: 0, ..limited(limits) });
    assert!(report.packets.tcp > 100);
}
