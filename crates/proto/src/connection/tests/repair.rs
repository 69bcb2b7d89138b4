//! What only the inside of a connection shows of recovery: copies, rebuilt packets, blocks.

use super::*;

#[test]
fn a_rebuilt_packet_is_read_and_reported() {
    let mut client = client();
    client
        .streams
        .set_peer_limits(&TransportParameters { initial_max_streams_bidi: 1u8.into(), ..Default::default() });
    let id = client.open(Dir::Bi).unwrap();
    let mut data = vec![0x0a, id.0 as u8, 3];
    data.extend_from_slice(b"abc");
    receive(&mut client, &repair_of_one(5, &data)).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(client.read(id, &mut buffer), Ok(Read::Data(3)));
    assert_eq!(client.control, [ControlFrame::Recovered { path: PathId::ZERO }]);
    let received = client.paths[&PathId::ZERO].received();
    assert!(received.is_settled(5) && !received.contains(5), "rebuilt is not acknowledged");
}

#[test]
fn what_was_rebuilt_since_the_last_packet_is_reported_in_one_frame() {
    let mut client = client();
    for number in [7, 5, 6, 9] {
        receive(&mut client, &repair_of_one(number, &[0x01])).unwrap();
    }
    assert_eq!(client.control, [ControlFrame::Recovered { path: PathId::ZERO }]);
    let path = client.path_zero();
    assert_eq!(path.next_report().collect::<Vec<_>>(), [5, 6, 7, 9]);
    assert!(!path.on_reported() && path.next_report().next().is_none());
    (0..200).for_each(|number| path.report_rebuilt(2 * number));
    assert_eq!(path.next_report().count(), 64, "no frame is longer than what fits a packet");
    assert!(path.on_reported());
    assert_eq!(path.next_report().next(), Some(128));
}

/// Each level of a nested REPAIR would cost a stack frame: 65,000 bytes nested 3,341 deep
/// overflowed the stack once.
#[test]
fn repair_symbols_do_not_nest() {
    let mut payload = vec![1];
    for number in 0..3_000 {
        payload = repair_of_one(number, &payload);
    }
    let mut client = client();
    receive(&mut client, &payload).unwrap();
    assert_eq!(client.stats().packets_rebuilt, 1, "only the outermost is decoded");
}

#[test]
fn blocks_beyond_the_limit_close_and_unknown_paths_are_ignored() {
    let mut client = client();
    Arc::make_mut(&mut client.config).repair = RepairConfig { k_max: 4, ..RepairConfig::default() };
    let header = RepairHeader {
        path: PathId::ZERO,
        scheme: CodeScheme::ReedSolomon,
        repair_count: 1,
        symbol_id: 0,
        symbol_len: 4,
    };
    let mut frame = Vec::new();
    header.encode(Runs::new(0..5), &mut frame);
    frame.extend_from_slice(&[0; 4]);
    let error = receive(&mut client, &frame).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let mut frame = Vec::new();
    RepairHeader { path: PathId(3), ..header }.encode(Runs::new(0..4), &mut frame);
    frame.extend_from_slice(&[0; 4]);
    receive(&mut client, &frame).unwrap();
    assert_eq!(client.stats().repair_symbols_received, 0);
}

#[test]
fn the_decoder_stays_within_its_memory() {
    let mut client = client();
    let limits = RepairConfig { decoder_memory: 20_000, ..RepairConfig::default() };
    client.repair = Repair::new(&limits, client.config.recovery);
    for number in 0..1_000 {
        client.on_source_packet(Instant::ORIGIN, PathId::ZERO, number, &[7; 1_000]).unwrap();
    }
    // Blocks whose other packets never come.
    for number in 0..1_000 {
        let header = RepairHeader {
            path: PathId::ZERO,
            scheme: CodeScheme::ReedSolomon,
            repair_count: 3,
            symbol_id: 0,
            symbol_len: 1_000,
        };
        let mut frame = Vec::new();
        header.encode(Runs::new(10_000 + 10 * number..10_005 + 10 * number), &mut frame);
        frame.extend_from_slice(&[0; 1_000]);
        receive(&mut client, &frame).unwrap();
    }
    let stats = client.stats();
    assert!(stats.decoder_memory <= 20_000 && stats.decoder_memory_peak <= 21_100, "{stats:?}");
    assert!(stats.decoder_memory_peak > 18_000, "the limit was reached");
    assert_eq!(stats.repair_symbols_received, 1_000);
}

#[test]
fn a_peer_that_makes_us_owe_too_much_is_closed() {
    let mut client = client();
    for path in 0..MAX_PENDING_CONTROL as u32 {
        client.queue_control(ControlFrame::PathAbandon { path: PathId(path) }).unwrap();
    }
    let error = client.queue_control(ControlFrame::MaxPathId).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// Frames that have become moot, or datagrams that fit no packet any more, were all that waited, and the
/// policy was not asked.
#[test]
fn news_that_is_moot_does_not_keep_recovery_back() {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static ASKED: AtomicBool = AtomicBool::new(false);
    #[derive(Debug)]
    struct Notes;
    impl RecoveryPolicy for Notes {
        fn on_opportunity(&mut self, _: Instant, _: &[PathSnapshot], _: &dyn UnackedView) -> RecoveryAction {
            ASKED.store(true, Relaxed);
            RecoveryAction::Nothing
        }
    }
    let scheme = Scheme { name: "notes", build: |_| Built::new(Notes) };
    let (mut client, _) = connected_client();
    client.repair = Repair::new(&RepairConfig::default(), RecoveryKind::Custom(scheme));
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
    ASKED.store(false, Relaxed);
    client.queue_control(ControlFrame::PathStatus { path: PathId(5) }).unwrap();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    assert!(client.control.is_empty() && ASKED.swap(false, Relaxed));
    // The path was wider when the application was told how large a datagram may be.
    assert!(client.datagrams.send(vec![7; 2_000].into(), None, DatagramOptions::new()));
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_none());
    assert!(!client.datagrams.has_pending() && ASKED.load(Relaxed));
}

/// Plaintexts of a path that closed with packets in flight counted against the memory for source
/// symbols for ever.
#[test]
fn a_closed_path_gives_its_source_memory_back() {
    let mut client = client();
    let limits = RepairConfig { source_memory: 2_000, ..RepairConfig::default() };
    client.repair = Repair::new(&limits, client.config.recovery);
    let mut path =
        Path::new(PathId(1), client.paths[&PathId::ZERO].network(), &client.config, Instant::ORIGIN);
    let payload = client.repair.keep(&[7; 1_500]).unwrap();
    let mut packet = crate::path::sent::SentPacket::for_test(Instant::ORIGIN);
    packet.source = crate::path::source::Source::Plaintext(payload);
    path.record_for_test(0, packet);
    client.paths.insert(PathId(1), path);
    assert!(client.repair.keep(&[7; 1_500]).is_none(), "the memory is used up");
    client.remove_closed_path(PathId(1));
    assert!(client.repair.keep(&[7; 1_500]).is_some());
}

#[test]
fn a_copy_of_stream_data_settles_no_datagram_beside_it() {
    let (mut client, _) =
        connected_with(TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() });
    allow_data(&mut client);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"stream data").unwrap();
    let call = DatagramOptions::new().within(std::time::Duration::from_millis(150));
    client.send_datagram_with(Instant::ORIGIN, b"datagram".to_vec().into(), call).unwrap();
    let mut out = Vec::new();
    client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
    let (original, packet) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
    assert!(packet.frames.timed && !packet.frames.streams.ranges.is_empty(), "one packet has both");
    out.clear();
    let copy = client.send_copy(Instant::ORIGIN, PathId::ZERO, original, PathId::ZERO, &mut out).unwrap();
    let later = Instant::ORIGIN + Duration::from_millis(20);
    let settled = |client: &Connection| {
        let timed = client.stats().timed;
        (timed.sent, timed.in_time, timed.mended, timed.late)
    };
    receive_at(&mut client, later, &ack_of(copy.number)).unwrap();
    assert_eq!(settled(&client), (1, 0, 0, 0), "the copy had the stream's bytes alone");
    receive_at(&mut client, later, &ack_of(original)).unwrap();
    assert_eq!(settled(&client), (1, 1, 0, 0));
}

/// Opens path 1 where path 0 is.
fn open_second(client: &mut Connection, config: &TransportConfig) {
    open_another(client, PathId(1), config);
}

/// Opens a path where path 0 is.
fn open_another(client: &mut Connection, id: PathId, config: &TransportConfig) {
    let network = client.paths[&PathId::ZERO].network();
    let mut path = Path::new(id, network, config, Instant::ORIGIN);
    path.open();
    client.paths.insert(id, path);
    let byte = 8 + id.0 as u8;
    let (cid, token) = (ConnectionId::new(&[byte; 8]).unwrap(), crate::wire::ResetToken([byte; 16]));
    client.cids.on_new(id, 0, 0, cid, token).unwrap();
}

/// Sends data of a stream over the first path, and returns the number of its packet.
fn send_stream_data(client: &mut Connection) -> u64 {
    allow_data(client);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"stream data").unwrap();
    let mut out = Vec::new();
    client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
    client.paths[&PathId::ZERO].sent().iter().next().unwrap().0
}

/// A packet may have both, and copies of each. Those of datagrams have none of the stream's bytes.
#[test]
fn a_lost_copy_of_datagrams_takes_no_stream_data_from_another_path() {
    use crate::path::{sending::NewPacket, sent::SentFrames, source::Source, space::Space};
    let recovery = RecoveryKind::None;
    let (mut client, _) = connected_with(TransportConfig { recovery, ..TransportConfig::default() });
    let original = send_stream_data(&mut client);
    open_second(&mut client, &TransportConfig::default());
    let mut out = Vec::new();
    let copy = client.send_copy(Instant::ORIGIN, PathId::ZERO, original, PathId(1), &mut out).unwrap();
    let data = client.paths[&PathId::ZERO].sent().get(original).unwrap().frames.clone();
    let copy_of = Some((PathId::ZERO, original));
    // The second copy has the datagrams alone, the third the data once more.
    for (number, frames) in [(1, SentFrames::default()), (2, data)] {
        let packet = NewPacket {
            number: copy.number + number,
            level: Level::OneRtt,
            size: 1_200,
            purpose: crate::PacketPurpose::Copy,
            ack_eliciting: true,
            frames: SentFrames { copy_of, ..frames },
            source: Source::Nothing,
        };
        client.paths.get_mut(&PathId(1)).unwrap().on_packet_sent(Instant::ORIGIN, Space::Data, packet);
    }
    let later = Instant::ORIGIN + Duration::from_millis(20);
    let is_stuck = |client: &Connection| client.paths.sent_packet(PathId::ZERO, original).unwrap().is_stuck();
    client.give_up_packet(later, PathId(1), copy.number + 1);
    assert!(!is_stuck(&client), "the stream's bytes are under way on path 1");
    client.give_up_packet(later, PathId(1), copy.number + 2);
    assert!(is_stuck(&client));
}

/// The packet may be lost all the same, and with it what the copy did not have.
#[test]
fn a_copy_of_datagrams_brings_no_stream_data() {
    use crate::path::{sending::NewPacket, sent::SentFrames, source::Source, space::Space};
    let config = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
    let (mut client, _) = connected_with(config.clone());
    let original = send_stream_data(&mut client);
    open_second(&mut client, &config);
    let packet = NewPacket {
        number: 0,
        level: Level::OneRtt,
        size: 1_200,
        purpose: crate::PacketPurpose::Copy,
        ack_eliciting: true,
        frames: SentFrames { copy_of: Some((PathId::ZERO, original)), ..SentFrames::default() },
        source: Source::Nothing,
    };
    client.paths.get_mut(&PathId(1)).unwrap().on_packet_sent(Instant::ORIGIN, Space::Data, packet);
    let (later, mut ack) = (Instant::ORIGIN + Duration::from_millis(20), Vec::new());
    crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(0..=0), 100, &mut ack);
    receive_at(&mut client, later, &ack).unwrap();
    let is_stuck = client.paths.sent_packet(PathId::ZERO, original).unwrap().is_stuck();
    assert!(is_stuck, "it may go again over another path");
    client.give_up_packet(later, PathId::ZERO, original);
    assert_eq!((client.stats().packets_lost, client.stats().packets_mended), (1, 0));
}

/// Over three paths: the first is late, the second has the copy and stops answering. The third is asked no later than
/// if there had been no copy.
#[test]
fn a_copy_on_a_path_that_has_stopped_answering_keeps_no_other_back() {
    let recovery = RecoveryKind::None;
    let config = TransportConfig { recovery, ..TransportConfig::default() };
    let (mut client, _) = connected_with(config.clone());
    let original = send_stream_data(&mut client);
    open_another(&mut client, PathId(1), &config);
    open_another(&mut client, PathId(2), &config);
    let copy = |client: &mut Connection, on| {
        client.send_copy(Instant::ORIGIN, PathId::ZERO, original, on, &mut Vec::new()).unwrap().number
    };
    let is_stuck = |client: &Connection| client.paths.sent_packet(PathId::ZERO, original).unwrap().is_stuck();
    let first = copy(&mut client, PathId(1));
    assert!(!is_stuck(&client));
    client.move_data_off(PathId(1));
    assert!(is_stuck(&client), "nothing that works brings it");
    assert_eq!(client.streams.sendable_bytes(), 0, "and the first path may still do so");
    copy(&mut client, PathId(2));
    client.move_data_off(PathId(1));
    client.give_up_packet(Instant::ORIGIN + Duration::from_millis(20), PathId(1), first);
    assert!(!is_stuck(&client), "the first copy is old news, the second is under way");
}

/// A quick path falls silent, what it had goes over a slow one, and a copy that had left there before is lost. The
/// connection woke at each round trip of the quick path from then on, for as long as that answered nothing.
#[test]
fn a_lost_copy_of_what_was_moved_wakes_nobody() {
    let recovery = RecoveryKind::None;
    let (mut client, _) = connected_with(TransportConfig { recovery, ..TransportConfig::default() });
    allow_data(&mut client);
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    let send = |client: &mut Connection, now: Instant| {
        let mut out = Vec::new();
        while client.poll_transmit(now, 1, &mut out).is_some() {
            out.clear();
        }
    };
    let newest = |client: &Connection, id: PathId| {
        let data = client.paths[&id].sent().iter().filter(|(_, p)| !p.frames.streams.ranges.is_empty());
        data.map(|(number, _)| number).last().unwrap()
    };
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, b"stream data").unwrap();
    send(&mut client, at(0));
    let first = newest(&client, PathId::ZERO);
    receive_at(&mut client, at(4), &ack_of(first)).unwrap();
    client.write(id, b"of which this is lost").unwrap();
    send(&mut client, at(4));
    let original = newest(&client, PathId::ZERO);
    open_second(&mut client, &TransportConfig::default());
    client.paths.get_mut(&PathId(1)).unwrap().trust_address();
    let copy = client.send_copy(at(5), PathId::ZERO, original, PathId(1), &mut Vec::new()).unwrap();
    client.on_probe_timeout(at(50), PathId::ZERO);
    send(&mut client, at(50));
    let moved = newest(&client, PathId(1));
    assert_ne!(moved, copy.number);
    client.give_up_packet(at(60), PathId(1), copy.number);
    let mut ack = Vec::new();
    crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(moved..=moved), 100, &mut ack);
    receive_at(&mut client, at(300), &ack).unwrap();
    send(&mut client, at(300));
    assert!(client.paths.sent_packet(PathId::ZERO, original).is_some(), "nobody knows what became of it");
    assert_eq!(client.repair.deadline(), None);
}

/// What the copy had no room for is as lost as before.
#[test]
fn a_copy_on_a_path_that_carries_less_mends_nothing() {
    for (size, mended) in [(1_452, 1), (1_200, 0)] {
        let (recovery, initial_datagram_size) = (RecoveryKind::None, 1_452);
        let (mut client, _) =
            connected_with(TransportConfig { recovery, initial_datagram_size, ..TransportConfig::default() });
        allow_data(&mut client);
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, &[7; 1_400]).unwrap();
        let mut out = Vec::new();
        client.poll_transmit(Instant::ORIGIN, 1, &mut out).unwrap();
        let (original, _) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
        let config = TransportConfig { initial_datagram_size: size, ..TransportConfig::default() };
        open_second(&mut client, &config);
        out.clear();
        client.send_copy(Instant::ORIGIN, PathId::ZERO, original, PathId(1), &mut out).unwrap();
        let (later, mut ack) = (Instant::ORIGIN + Duration::from_millis(20), Vec::new());
        crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(0..=0), 100, &mut ack);
        receive_at(&mut client, later, &ack).unwrap();
        client.give_up_packet(later, PathId::ZERO, original);
        assert_eq!(client.stats().packets_mended, mended, "{size} bytes");
        assert_eq!(client.streams.sendable_bytes() > 0, mended == 0);
    }
}

/// What it carries costs money, whichever scheme it is that wants to send it twice.
#[test]
fn no_copies_leave_over_a_metered_path() {
    for (carries, copies) in [(PathUse::Regular, 1), (PathUse::Metered, 0)] {
        let recovery = RecoveryKind::Proactive;
        let (mut client, _) = connected_with(TransportConfig { recovery, ..TransportConfig::default() });
        allow_data(&mut client);
        client.set_path_limits(PathId::ZERO, PathLimits { carries, ..PathLimits::default() }).unwrap();
        let id = client.open(Dir::Uni).unwrap();
        client.write(id, b"stream data").unwrap();
        let mut out = Vec::new();
        while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {}
        assert_eq!(client.stats().copies_sent, copies, "{carries}");
    }
}

/// docs/decisions/0003-recovered.md: what the peer has rebuilt is not sent again, and its path has
/// lost it all the same.
#[test]
fn a_packet_that_the_peer_has_rebuilt_is_a_loss_to_its_path() {
    let (recovery, controller) = (RecoveryKind::None, congestion::ControllerKind::NewReno);
    let (mut client, _) =
        connected_with(TransportConfig { recovery, controller, ..TransportConfig::default() });
    allow_data(&mut client);
    let id = client.open(Dir::Uni).unwrap();
    assert_eq!(client.write(id, &[7; 4_000]), Ok(4_000));
    let mut out = Vec::new();
    while client.poll_transmit(Instant::ORIGIN, 1, &mut out).is_some() {
        out.clear();
    }
    let sent: Vec<u64> = client.paths[&PathId::ZERO].sent().iter().map(|(number, _)| number).collect();
    let [first, .., last] = sent[..] else { panic!("{sent:?}") };
    let overtaken: Vec<u64> = sent.iter().copied().filter(|number| last - number >= 3).collect();
    assert_eq!(overtaken, [first]);
    let before = client.paths()[0].clone();
    let mut recovered = Vec::new();
    crate::wire::encode_recovered(PathId::ZERO, Runs::new([first].into_iter()), &mut recovered);
    receive(&mut client, &recovered).unwrap();
    assert_eq!(client.stats().packets_rebuilt_by_peer, 1);
    assert_eq!(client.paths()[0].in_flight, before.in_flight, "only its path's ACK takes it out of flight");
    receive_at(&mut client, Instant::ORIGIN + Duration::from_millis(20), &ack_of(last)).unwrap();
    let after = client.paths()[0].clone();
    assert_eq!((after.packets_lost, client.stats().packets_mended), (1, 1));
    assert!(after.window < before.window, "{} was {}", after.window, before.window);
    assert_eq!(client.streams.sendable_bytes(), 0, "its data has arrived");
}

/// It left some time ago, for a path that has lost it: what it says of paths is old news.
#[test]
fn a_rebuilt_packet_acknowledges_nothing_and_asks_nothing() {
    let (mut client, _) = connected_client();
    client.path_zero().ask_for_probe();
    client.poll_transmit(Instant::ORIGIN, 1, &mut Vec::new()).unwrap();
    let (number, _) = client.paths[&PathId::ZERO].sent().iter().next().unwrap();
    let mut payload = ack_of(number);
    payload.push(0x1a); // PATH_CHALLENGE
    payload.extend_from_slice(&[7; 8]);
    receive(&mut client, &repair_of_one(5, &payload)).unwrap();
    assert_eq!(client.stats().packets_rebuilt, 1);
    assert!(client.paths.sent_packet(PathId::ZERO, number).is_some(), "it is not acknowledged");
    assert!(!client.path_zero().owes_validation());
    // In a packet that has arrived it counts.
    receive(&mut client, &payload).unwrap();
    assert!(client.paths.sent_packet(PathId::ZERO, number).is_none());
    assert!(client.path_zero().owes_validation());
}
