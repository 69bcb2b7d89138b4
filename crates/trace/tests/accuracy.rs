//! The analysis against the truth that the model of TCP knows.

mod support;

use std::collections::BTreeMap;

use mendpath_trace::{Class, Half, Options, Report, Scale, Window};
use support::{
    analyse,
    tcp_model::{ACK, FIN, PSH, Plan, RST, SYN, Why, mix, ordinary},
    wire::{Capture, Packet},
};

fn report(packets: &[(Packet, Why)], options: Options) -> Report {
    let packets: Vec<Packet> = packets.iter().map(|(packet, _)| packet.clone()).collect();
    analyse(&Capture::of(&packets), options)
}

fn everything(scale: Option<Scale>) -> Options {
    Options { listed: usize::MAX, scale, ..Options::default() }
}

/// How many first retransmissions were put into the right group, and of how many.
fn right(packets: &[(Packet, Why)], report: &Report) -> (usize, usize) {
    let start = packets[0].0.at_ns;
    let truth: BTreeMap<(u64, String), Why> = packets
        .iter()
        .map(|(packet, why)| (((packet.at_ns - start) / 1_000, packet.from.to_string()), *why))
        .collect();
    let right = report.lost_packets.iter().filter(|lost| {
        let key = ((lost.at_ms * 1e3).round() as u64, lost.from.clone());
        let nearby = (key.0 - 1..=key.0 + 1).find_map(|at| truth.get(&(at, key.1.clone())));
        let why = *nearby.expect("every retransmission that was found had been sent");
        assert!(why != Why::Ack);
        lost.timeout == (why == Why::Timeout)
    });
    (right.count(), report.lost_packets.len())
}

#[test]
fn at_least_95_percent_of_ordinary_mixes_are_classified_as_they_were() {
    for (seed, loss) in [(1, 0.01), (2, 0.02), (3, 0.05)] {
        let packets = mix(&ordinary(400, loss, seed));
        let report = report(&packets, everything(None));
        assert_eq!(report.grouping.by, "clustering", "{:?}", report.grouping);
        let (right, all) = right(&packets, &report);
        println!("loss {loss}: {right} of {all} right; {:?}", report.grouping.splits[2]);
        assert!(all > 50 && right * 100 >= all * 95, "seed {seed}, loss {loss}: {right} of {all}");
    }
}

/// The paper's own feature, the interval in ms, is as good where round trips are much shorter than
/// timeouts.
#[test]
fn intervals_suffice_where_round_trips_are_short() {
    let plans: Vec<Plan> = ordinary(400, 0.02, 4)
        .into_iter()
        .map(|plan| Plan { rtt_ms: plan.rtt_ms.min(30.0), ..plan })
        .collect();
    let packets = mix(&plans);
    for scale in [Scale::Log10, Scale::RoundTrips] {
        let report = report(&packets, everything(Some(scale)));
        assert_eq!(report.grouping.by, "clustering", "{:?}", report.grouping);
        let (right, all) = right(&packets, &report);
        assert!(all > 50 && right * 100 >= all * 95, "{scale:?}: {right} of {all}");
    }
}

#[test]
fn every_retransmission_is_found() {
    let packets = mix(&ordinary(300, 0.03, 7));
    let report = report(&packets, Options::default());
    let sent_again = packets.iter().filter(|(_, why)| matches!(why, Why::Fast | Why::Timeout)).count() as u64;
    assert_eq!(report.retransmissions.seen_before, sent_again);
    assert_eq!(report.retransmissions.original_not_captured, 0);
    assert_eq!(report.connections.total, 300);
    assert_eq!(report.connections.paired, 300);
    assert_eq!(report.connections.from_the_start, 300);
    let lost = report.loss.rate.unwrap();
    assert!((lost - 0.03).abs() < 0.01, "{lost}");
}

#[test]
fn without_loss_there_is_nothing_to_report() {
    let report = report(&mix(&ordinary(50, 0.0, 3)), Options::default());
    assert_eq!(report.retransmissions.seen_before, 0);
    assert_eq!(report.loss.rate, Some(0.0));
    assert!(report.positions.is_empty() && report.verdicts.is_empty() && report.lost_packets.is_empty());
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

fn packet(at_ms: u64, to_server: bool, seq: u32, ack: u32, flags: u8, payload: u32) -> Packet {
    let (client, server) = ("10.0.0.1:4000".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
    let (from, to) = if to_server { (client, server) } else { (server, client) };
    Packet {
        at_ns: at_ms * 1_000_000,
        from,
        to,
        seq,
        ack,
        flags,
        window: 500,
        payload,
        ident: 0,
        options: Vec::new(),
    }
}

/// A connection that loses its SYN, the second of five packets of data, and the last of them.
fn conversation() -> Vec<Packet> {
    let (client, server) = (true, false);
    vec![
        packet(0, client, 100, 0, SYN, 0),
        packet(1_000, client, 100, 0, SYN, 0),
        packet(1_020, server, 500, 101, SYN | ACK, 0),
        packet(1_021, client, 101, 501, ACK, 0),
        packet(1_021, client, 101, 501, PSH | ACK, 50),
        packet(1_041, server, 501, 151, ACK, 1_000),
        packet(1_041, server, 1_501, 151, ACK, 1_000),
        packet(1_041, server, 2_501, 151, ACK, 1_000),
        packet(1_041, server, 3_501, 151, ACK, 1_000),
        packet(1_041, server, 4_501, 151, PSH | ACK, 500),
        packet(1_042, client, 151, 1_501, ACK, 0),
        packet(1_042, client, 151, 1_501, ACK, 0),
        packet(1_042, client, 151, 1_501, ACK, 0),
        packet(1_062, server, 1_501, 151, ACK, 1_000),
        packet(1_063, client, 151, 4_501, ACK, 0),
        packet(1_362, server, 4_501, 151, PSH | ACK, 500),
        packet(1_363, client, 151, 5_001, ACK, 0),
        packet(1_363, client, 151, 5_001, FIN | ACK, 0),
        packet(1_383, server, 5_001, 152, FIN | ACK, 0),
        packet(1_384, client, 152, 5_002, ACK, 0),
    ]
}

#[test]
fn positions_silences_and_verdicts_of_one_conversation() {
    let options = Options { timeout_at: Some(units::Duration::from_millis(150)), ..Options::default() };
    let report = analyse(&Capture::of(&conversation()), options);
    assert_eq!(report.retransmissions.seen_before, 3);
    assert_eq!((report.retransmissions.syn, report.retransmissions.syn_timeouts), (1, 1));
    let positions: Vec<String> = report
        .positions
        .iter()
        .flat_map(|series| {
            let name = format!("{:?} {:?}", series.heading, series.half);
            series.points.iter().map(move |point| format!("{name} {}: {}", point.index, point.timeouts))
        })
        .collect();
    // The server's seven packets: SYN/ACK, 1, 2, 3 | 4, 5, FIN.
    assert_eq!(
        positions,
        ["ClientToServer First 1: 1", "ServerToClient First 3: 0", "ServerToClient Second 2: 1"]
    );
    // The SYN cost a second, the last packet 300 ms since the retransmission before; the response
    // came 1.362 s after the start.
    let table = |i: usize| report.what_if[i].table.unwrap();
    assert_eq!((table(0).without_ms[2], table(0).with_ms[2]), (1_362.0, 362.0));
    assert_eq!((table(1).without_ms[2], table(1).with_ms[2]), (1_362.0, 1_062.0));
    assert_eq!((table(2).without_ms[2], table(2).with_ms[2]), (1_362.0, 1_062.0));
    // SYN + SYN/ACK; request + end of response; one at each end.
    assert_eq!([0, 1, 2].map(|i| report.what_if[i].duplicates), [2, 2, 2]);
    let verdicts: Vec<(String, bool)> =
        report.lost_packets.iter().map(|lost| (lost.flags.clone(), lost.duplicate)).collect();
    // 540 bytes with PSH: 2 % x 0.1 x 200 ms = 0.4 ms of gain, 0.42 ms of cost at 10 Mbit/s.
    assert_eq!(verdicts, [("SYN".into(), true), ("ACK".into(), false), ("PSH ACK".into(), false)]);
    let faster = Options { bandwidth: units::BitRate::from_mbps(11), ..options };
    let report = analyse(&Capture::of(&conversation()), faster);
    assert!(report.lost_packets[2].duplicate, "{:?}", report.lost_packets[2]);
}

/// Windows are scaled if both SYNs say so (RFC 7323 section 1.3): without one of them nobody knows.
#[test]
fn windows_are_scaled_if_both_syns_say_so() {
    let windows = |scaled: [bool; 2], skipped: usize| -> Vec<Window> {
        let mut packets = conversation();
        for packet in packets.iter_mut().filter(|packet| packet.flags & SYN != 0) {
            if scaled[usize::from(packet.flags & ACK != 0)] {
                packet.options = vec![1, 3, 3, 7];
            }
        }
        let report = analyse(&Capture::of(&packets[skipped..]), Options::default());
        let of_server = report.lost_packets.iter().filter(|lost| lost.from.ends_with(":80"));
        of_server.map(|lost| lost.window).collect()
    };
    // The client's window is 500, or 64,000.
    assert_eq!(windows([true, true], 0), [Window::Open; 2]);
    assert_eq!(windows([true, false], 0), [Window::Full; 2]);
    assert_eq!(windows([false, true], 0), [Window::Full; 2]);
    assert_eq!(windows([true, true], 2), [Window::Open; 2], "the client's SYN is not in the capture");
}

#[test]
fn wireshark_would_call_them_so() {
    let report = analyse(&Capture::of(&conversation()), Options::default());
    // 1,062 ms: 20 ms after the duplicate ACKs is no longer fast, and less than the handshake's 21
    // ms after the highest packet is needed for out of order.
    assert_eq!(report.wireshark.retransmission, 3);
    let mut packets = conversation();
    packets[13].at_ns -= 1_000_000;
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.wireshark.retransmission, report.wireshark.fast), (2, 1));
    // Without duplicate ACKs, and soon: out of order.
    packets.drain(10..13);
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.wireshark.retransmission, report.wireshark.out_of_order), (2, 1));
    // Acknowledged already: spurious, and needless.
    let mut packets = conversation();
    packets.insert(17, packet(1_363, false, 4_501, 151, PSH | ACK, 500));
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.wireshark.spurious, report.retransmissions.needless), (1, 1));
}

#[test]
fn one_direction_alone_still_has_retransmissions() {
    let packets: Vec<Packet> = conversation().into_iter().filter(|packet| packet.from.port() == 80).collect();
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.retransmissions.seen_before, report.connections.paired), (2, 0));
    assert_eq!(report.connections.from_the_start, 1, "the SYN/ACK says who is who");
    let packets: Vec<Packet> = packets.into_iter().skip(1).collect();
    let report = analyse(&Capture::of(&packets), Options::default());
    let known: Vec<String> =
        report.positions.iter().map(|s| format!("{:?} {:?}", s.heading, s.half)).collect();
    assert_eq!(known, ["Unknown Second"], "without the beginning there is only an end");
}

/// A duplicate would not have found anybody either, and nothing is known to have been lost.
#[test]
fn a_syn_that_nobody_answers_is_no_lost_one() {
    let alone = analyse(&Capture::of(&conversation()), Options::default());
    let scan = |mut packet: Packet| {
        let client = if packet.to.port() == 80 { &mut packet.from } else { &mut packet.to };
        client.set_port(4_001);
        packet
    };
    let tries = [0, 1_000, 3_000, 7_000].map(|at| scan(packet(at, true, 9, 0, SYN, 0)));
    let refused = |at| scan(packet(at, false, 0, 10, RST | ACK, 0));
    // Some systems try again after a reset.
    let [first, second, third, last] = tries.clone();
    let stubborn = vec![first, refused(1), second, refused(1_001), third, refused(3_001), last];
    for beside in [tries.to_vec(), [&tries[..], &[refused(7_001)]].concat(), stubborn] {
        let mut packets = [conversation(), beside].concat();
        packets.sort_by_key(|packet| packet.at_ns);
        let report = analyse(&Capture::of(&packets), Options::default());
        let connections = report.connections;
        assert_eq!((connections.total, connections.from_the_start, connections.unanswered), (2, 2, 1));
        assert_eq!((report.retransmissions.syn, report.loss), (4, alone.loss));
        assert_eq!((report.what_if[0].connections, report.what_if[0].share), (1, 1.0));
        assert_eq!(report.what_if[0].table, alone.what_if[0].table);
        assert_eq!(report.lost_packets, alone.lost_packets);
        assert_eq!(report.verdicts, alone.verdicts);
    }
    // Who acknowledges was answered, though that is not in the capture.
    let upstream = [0, 1, 3].map(|place| conversation()[place].clone());
    let report = analyse(&Capture::of(&upstream), Options::default());
    assert_eq!((report.connections.unanswered, report.loss.lost), (0, 1));
}

/// Where the capture stops in the midst of a connection, nobody knows which packet is its last.
#[test]
fn a_connection_that_may_go_on_has_no_end() {
    let ends = |packets: &[Packet]| {
        let report = analyse(&Capture::of(packets), Options::default());
        let second = report.positions.iter().filter(|series| series.half == Half::Second).count();
        (second, report.what_if[2].connections, report.what_if[2].duplicates)
    };
    let mut packets = conversation();
    assert_eq!(ends(&packets), (1, 1, 2));
    packets.truncate(17);
    assert_eq!(ends(&packets), (0, 0, 0));
    // While others go on it says nothing for ten seconds.
    let mut other = packet(12_000, true, 1, 0, SYN, 0);
    other.from.set_port(4_001);
    packets.push(other);
    assert_eq!(ends(&packets), (1, 1, 2));
}

#[test]
fn a_lost_original_that_was_not_captured_is_told_apart() {
    let mut packets = conversation();
    packets.remove(6);
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!(report.retransmissions.seen_before, 2);
    assert_eq!(report.retransmissions.original_not_captured, 1);
    assert_eq!(report.loss.lost, 3);
}

#[test]
fn keep_alives_and_window_probes_are_no_retransmissions() {
    let mut packets = conversation();
    packets.truncate(17);
    // The last byte again, and an empty one: keep-alives.
    packets.push(packet(5_000, false, 5_000, 151, ACK, 1));
    packets.push(packet(6_000, false, 5_000, 151, ACK, 0));
    // The client's window closes; the server probes with the next byte.
    packets.push(Packet { window: 0, ..packet(6_001, true, 151, 5_001, ACK, 0) });
    packets.push(packet(6_300, false, 5_001, 151, ACK, 1));
    packets.push(packet(6_900, false, 5_001, 151, ACK, 1));
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!(report.retransmissions.seen_before, 3);
    assert_eq!(report.retransmissions.probes, 4);
}

/// Programs that ask for one byte at a time, such as a remote terminal.
#[test]
fn a_single_byte_that_is_not_acknowledged_is_sent_again_and_no_keep_alive() {
    let (client, server) = (true, false);
    let packets = [
        packet(0, client, 100, 0, SYN, 0),
        packet(20, server, 500, 101, SYN | ACK, 0),
        packet(21, client, 101, 501, ACK, 0),
        packet(21, client, 101, 501, PSH | ACK, 1),
        packet(41, server, 501, 102, PSH | ACK, 1),
        packet(42, client, 102, 502, PSH | ACK, 1),
        packet(262, client, 102, 502, PSH | ACK, 1),
        packet(282, server, 502, 103, PSH | ACK, 1),
        packet(283, client, 103, 503, ACK, 0),
        // Everything is acknowledged: this is one.
        packet(60_000, client, 102, 503, ACK, 1),
    ];
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.retransmissions.seen_before, report.retransmissions.probes), (1, 1));
    assert_eq!((report.resent[0].class, report.resent[0].interval_ms), (Class::Timeout, Some(220.0)));
    assert_eq!(report.wireshark.retransmission, 0, "Wireshark takes it for a keep-alive");
}

/// TCP Fast Open (RFC 7413): where the server takes the SYN without its data, the data is sent again
/// and the SYN is not.
#[test]
fn the_data_of_a_syn_that_is_sent_again_is_no_syn() {
    let (client, server) = (true, false);
    let packets = [
        packet(0, client, 100, 0, SYN, 80),
        packet(20, server, 500, 101, SYN | ACK, 0),
        packet(21, client, 101, 501, PSH | ACK, 80),
        packet(41, server, 501, 181, ACK, 0),
    ];
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.retransmissions.seen_before, report.retransmissions.syn), (1, 0));
    assert_eq!(report.resent[0].flags, "PSH ACK");
}

#[test]
fn ports_used_again_are_another_connection() {
    let first = conversation();
    let mut second = conversation();
    for packet in &mut second {
        packet.at_ns += 2_000_000_000;
        packet.seq = packet.seq.wrapping_add(70_000);
        if packet.flags & ACK != 0 {
            packet.ack = packet.ack.wrapping_add(70_000);
        }
    }
    let report = analyse(&Capture::of(&[first, second].concat()), Options::default());
    assert_eq!((report.connections.total, report.retransmissions.seen_before), (2, 6));
}

/// Where the server's side alone was captured there is no SYN to tell.
#[test]
fn an_answer_to_another_syn_is_another_connection() {
    let first: Vec<Packet> = conversation().into_iter().filter(|packet| packet.from.port() == 80).collect();
    let mut second = first.clone();
    for packet in &mut second {
        packet.at_ns += 200_000_000_000;
        packet.seq = packet.seq.wrapping_sub(1 << 30);
        packet.ack = packet.ack.wrapping_add(70_000);
    }
    let once = analyse(&Capture::of(&first), Options::default());
    let twice = analyse(&Capture::of(&[first, second].concat()), Options::default());
    assert_eq!((once.connections.total, once.loss.lost), (1, 2));
    assert_eq!((twice.connections.total, twice.loss.lost), (2, 4));
}

/// A server that keeps no state before the handshake is complete (RFC 4987) may choose another number.
#[test]
fn another_answer_to_the_same_syn_opens_no_other_connection() {
    let mut packets = conversation();
    packets.insert(2, packet(1_010, false, 90_000, 101, SYN | ACK, 0));
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!(report.connections.total, 1);
}

/// A lost acknowledgement of the SYN/ACK makes the handshake last a second, but not the round trip.
#[test]
fn a_handshake_that_was_sent_again_still_has_a_round_trip() {
    let (client, server) = (true, false);
    let packets = [
        packet(0, client, 100, 0, SYN, 0),
        packet(1, server, 500, 101, SYN | ACK, 0),
        packet(1_001, server, 500, 101, SYN | ACK, 0),
        packet(1_021, client, 101, 501, ACK, 0),
        packet(1_022, client, 101, 501, PSH | ACK, 1_400),
        packet(1_522, client, 101, 501, PSH | ACK, 1_400),
    ];
    let report = analyse(&Capture::of(&packets), Options::default());
    // RTO is 200 ms, not the three seconds of three such handshakes.
    assert_eq!(report.lost_packets[1].gain_ms, 0.02 * 0.1 * 200.0);
    assert!(report.lost_packets.iter().all(|lost| lost.timeout));
}

#[test]
fn sequence_numbers_wrap() {
    let shift = u32::MAX - 2_600;
    let mut packets = conversation();
    for packet in &mut packets {
        let (seq, ack) = if packet.from.port() == 80 { (shift, 0) } else { (0, shift) };
        packet.seq = packet.seq.wrapping_add(seq);
        if packet.flags & ACK != 0 {
            packet.ack = packet.ack.wrapping_add(ack);
        }
    }
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.retransmissions.seen_before, report.retransmissions.original_not_captured), (3, 0));
    assert_eq!(report.wireshark.retransmission, 3);
}

#[test]
fn the_same_trace_gives_the_same_report() {
    let packets = mix(&[Plan { loss: 0.05, response: 400, ..Plan::default() }]);
    let once = report(&packets, Options::default());
    assert_eq!(once, report(&packets, Options::default()));
    assert!(once.retransmissions.seen_before > 5);
}

/// Where only SYNs and single requests are lost, everything waits for a timer: their two groups are
/// not what is looked for.
#[test]
fn timers_alone_are_not_split_in_two() {
    let packets = (0..40).flat_map(|i: u16| {
        let mut packets = conversation();
        packets.truncate(5);
        let request = packets[4].clone();
        packets.push(Packet { at_ns: request.at_ns + u64::from(225 + i) * 1_000_000, ..request });
        for packet in &mut packets {
            packet.at_ns += u64::from(i) * 3_000_000_000;
            let client = if packet.to.port() == 80 { &mut packet.from } else { &mut packet.to };
            client.set_port(4_000 + i);
        }
        packets
    });
    let report = analyse(&Capture::of(&packets.collect::<Vec<_>>()), Options::default());
    assert_eq!(report.grouping.by, "fixed", "{:?}", report.grouping);
    assert_eq!((report.retransmissions.analysed, report.retransmissions.timeouts), (80, 80));
}

/// With segmentation offload the capture holds what was sent in other pieces than what is sent
/// again.
#[test]
fn parts_and_several_at_once_have_the_intervals_of_their_bytes() {
    let mut packets = conversation();
    packets.truncate(5);
    packets.extend([
        packet(1_041, false, 501, 151, ACK, 3_000),
        packet(1_100, false, 1_501, 151, ACK, 1_000),
        packet(1_150, false, 501, 151, ACK, 1_000),
        packet(1_400, false, 501, 151, ACK, 3_000),
        packet(1_500, false, 2_501, 151, PSH | ACK, 2_000),
    ]);
    let report = analyse(&Capture::of(&packets), Options::default());
    let of_server = report.resent.iter().filter(|resent| resent.from.ends_with(":80"));
    let intervals: Vec<f64> = of_server.filter_map(|resent| resent.interval_ms).collect();
    assert_eq!(intervals, [59.0, 109.0, 250.0, 100.0]);
}

#[test]
fn what_is_sent_again_has_a_class() {
    let mut packets = conversation();
    packets.truncate(15);
    // The last packet again: first after a silence, then, that being lost too, once more; and the
    // one before right after the acknowledgement.
    packets.extend([
        packet(1_400, false, 4_501, 151, PSH | ACK, 500),
        packet(1_800, false, 4_501, 151, PSH | ACK, 500),
    ]);
    let report = analyse(&Capture::of(&packets), Options::default());
    let classes: Vec<Class> = report.resent.iter().map(|resent| resent.class).collect();
    assert_eq!(classes, [Class::Timeout, Class::Fast, Class::Timeout, Class::Timeout]);
    assert_eq!((report.capture_points.sender, report.capture_points.receiver), (1, 3), "{report:?}");
}

#[test]
fn a_connection_is_closed_when_both_fins_are_acknowledged_and_late_fins_are_part_of_it() {
    let mut packets = conversation();
    let last = packets.pop().unwrap();
    assert_eq!(analyse(&Capture::of(&packets), Options::default()).connections.closed, 0);
    packets.push(last.clone());
    // The last acknowledgement was lost: half a minute later the server still asks for it.
    packets.push(packet(31_000, false, 5_001, 152, FIN | ACK, 0));
    packets.push(Packet { at_ns: 31_001_000_000, ..last });
    let report = analyse(&Capture::of(&packets), Options::default());
    assert_eq!((report.connections.total, report.connections.closed), (1, 1));
}

/// A packet of data that is lost and sent again, and later a duplicate SACK of the client for `block`.
fn duplicate_reported(probe: Option<Packet>, block: [u32; 2]) -> Report {
    let (client, server) = (true, false);
    let options: Vec<u8> =
        [1, 1, 5, 10].into_iter().chain(block.into_iter().flat_map(u32::to_be_bytes)).collect();
    let packets = [
        packet(0, client, 100, 0, SYN, 0),
        packet(20, server, 500, 101, SYN | ACK, 0),
        packet(21, client, 101, 501, ACK, 0),
        packet(41, server, 501, 101, ACK, 1_000),
        packet(42, server, 501, 101, ACK, 1_000),
        packet(43, server, 1_501, 101, PSH | ACK, 1_000),
        packet(44, client, 101, 2_501, ACK, 0),
    ];
    let report = Packet { options, ..packet(50_001, client, 101, 2_501, ACK, 0) };
    let packets: Vec<Packet> = packets.into_iter().chain(probe).chain([report]).collect();
    analyse(&Capture::of(&packets), Options::default())
}

#[test]
fn a_duplicate_sack_tells_of_a_needless_retransmission_only_if_that_was_sent_again() {
    let lost = |report: Report| (report.retransmissions.needless, report.loss.lost);
    assert_eq!(lost(duplicate_reported(None, [501, 1_501])), (1, 0));
    // The network has duplicated it.
    assert_eq!(lost(duplicate_reported(None, [1_501, 2_501])), (0, 1));
    // Some systems put the latest byte into keep-alives.
    let probe = packet(50_000, false, 2_500, 101, ACK, 1);
    assert_eq!(lost(duplicate_reported(Some(probe), [2_500, 2_501])), (0, 1));
}

#[test]
fn a_syn_behind_its_answer_opens_no_other_connection() {
    let (client, server) = (true, false);
    let mut packets = [
        packet(0, server, 500, 101, SYN | ACK, 0),
        packet(1, client, 100, 0, SYN, 0),
        packet(2, client, 101, 501, PSH | ACK, 50),
        packet(3, server, 501, 151, ACK, 1_000),
    ];
    let connections = |packets: &[Packet]| {
        let connections = analyse(&Capture::of(packets), Options::default()).connections;
        (connections.total, connections.paired)
    };
    assert_eq!(connections(&packets), (1, 1));
    // This one answers no SYN of that number.
    packets[1].seq = 7_000;
    assert_eq!(connections(&packets), (2, 1));
}
