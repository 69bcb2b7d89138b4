//! Two endpoints in memory: handshake, streams, paths, close. Loss and random scenarios are in
//! `testkit`.

use std::sync::{Arc, Mutex};

use mendpath_proto::{
    ClientConfig, ConnectionError, ConnectionId, DatagramOptions, Dir, Event, NetworkPath, Observe, Observed,
    Observer, PathEvent, PathId, PathState, PathStatus, RecoveryKind, RepairConfig, ServerConfig, Side,
    StreamEvent, TransportConfig, WriteError,
    wire::{Frame, Frames},
};
use units::{Duration, Instant};

use crate::common::{Pair, SERVER, addr, tls};

#[test]
fn handshake_and_a_stream() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    assert!(pair.client().multipath_negotiated() && pair.client().repair_negotiated());
    pair.transfer(1_000_000, Duration::from_secs(10));
    assert_eq!(pair.client().stats().packets_lost, 0);
}

#[test]
fn every_early_packet_may_be_lost() {
    for lost in 1..=12 {
        let mut pair = Pair::new(TransportConfig::default());
        pair.lose = Box::new(move |n, _| n == lost);
        pair.run(Duration::from_secs(3));
        assert!(!pair.client().is_handshaking(), "packet {lost} lost");
        pair.transfer(10_000, Duration::from_secs(5));
    }
}

#[test]
fn two_paths_share_a_transfer_and_one_can_go() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let second = pair.open_path(2);
    pair.transfer(2_000_000, Duration::from_secs(10));
    let paths = pair.client().paths();
    assert!(paths.iter().all(|p| p.packets_sent > 100), "{paths:?}");
    let now = pair.now;
    pair.client().close_path(now, second, 0u8.into()).unwrap();
    pair.transfer(1_000_000, Duration::from_secs(10));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.client().paths().len(), 1);
    assert_eq!(pair.server().paths().len(), 1);
    // Path ids are never used again, but another path may be opened.
    let third = pair.open_path(3);
    assert!(third > second);
    pair.transfer(1_000_000, Duration::from_secs(10));
}

#[test]
fn what_a_path_has_lost_counts_once_it_is_gone() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let second = pair.open_path(2);
    pair.lose = Box::new(|n, path| path.local.port() == 2 && n % 7 == 0);
    pair.transfer(1_000_000, Duration::from_secs(10));
    pair.lose = Box::new(|_, _| false);
    pair.run(Duration::from_secs(1));
    let by_path: u64 = pair.client().paths().iter().map(|path| path.bytes_lost).sum();
    let lost = |pair: &mut Pair| (pair.client().stats().packets_lost, pair.client().stats().bytes_lost);
    let before = lost(&mut pair);
    assert!(before.0 > 0 && before.1 == by_path, "{before:?}, {by_path} bytes by path");
    let now = pair.now;
    pair.client().close_path(now, second, 0u8.into()).unwrap();
    pair.run(Duration::from_secs(2));
    assert_eq!((pair.client().paths().len(), lost(&mut pair)), (1, before));
}

#[test]
fn many_paths_may_come_and_go() {
    let mut pair = Pair::new(TransportConfig { max_paths: 3, ..TransportConfig::default() });
    pair.connect();
    for port in 2..40 {
        let id = pair.open_path(port);
        let now = pair.now;
        pair.client().close_path(now, id, 0u8.into()).unwrap();
        pair.run(Duration::from_secs(2));
    }
    pair.transfer(10_000, Duration::from_secs(5));
}

/// Opens a path of 50 ms each way, with the wish that it be a backup, and lets a second pass.
fn slow_backup(pair: &mut Pair) -> PathId {
    pair.delay = Box::new(|_, path| {
        let slow = path.local.port() == 2 || path.remote.port() == 2;
        Duration::from_millis(if slow { 50 } else { 1 })
    });
    let (now, path) = (pair.now, NetworkPath { local: addr(2), remote: addr(SERVER) });
    let id = pair.client().open_path(now, path).unwrap();
    pair.client().set_path_status(id, PathStatus::Backup).unwrap();
    pair.run(Duration::from_secs(1));
    id
}

/// The wish, which leaves at once, comes before the first packet of the path that it is about.
#[test]
fn a_slow_path_is_a_backup_from_the_start() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let id = slow_backup(&mut pair);
    let state = |paths: Vec<mendpath_proto::PathStats>| paths.iter().find(|p| p.id == id).unwrap().state;
    assert_eq!(state(pair.client().paths()), PathState::Backup);
    assert_eq!(state(pair.server().paths()), PathState::Backup);
}

/// When something is said about a path, of which, under which sequence number, and whether it is a backup.
type Wish = (Instant, PathId, u64, bool);

/// What the client says about paths.
#[derive(Clone, Debug, Default)]
struct Wishes(Arc<Mutex<Vec<Wish>>>);

impl Observe for Wishes {
    fn connection(&self, _: Instant, side: Side, _: &ConnectionId) -> Option<Box<dyn Observer>> {
        (side == Side::Client).then(|| Box::new(self.clone()) as Box<dyn Observer>)
    }
}

impl Observer for Wishes {
    fn on_event(&mut self, now: Instant, event: &Observed<'_>) {
        let Observed::PacketSent { payload, .. } = event else { return };
        for frame in Frames::new(payload).map_while(Result::ok) {
            if let Frame::PathStatus(wish) = frame {
                self.0.lock().unwrap().push((now, wish.path, wish.sequence, wish.backup));
            }
        }
    }
}

/// For peers that keep nothing of a path that is not there yet.
#[test]
fn what_was_wished_for_a_path_is_said_again_once_it_answers() {
    let wishes = Wishes::default();
    let observe: Arc<dyn Observe> = Arc::new(wishes.clone());
    let mut pair = Pair::new(TransportConfig { observe: Some(observe), ..TransportConfig::default() });
    pair.connect();
    let start = pair.now;
    let id = slow_backup(&mut pair);
    let said = std::mem::take(&mut *wishes.0.lock().unwrap());
    println!("since {start}: {said:?}");
    assert!(said.iter().all(|&(_, of, sequence, backup)| (of, sequence, backup) == (id, 1, true)));
    let answered = start + Duration::from_millis(100);
    assert!(said.iter().any(|&(at, ..)| at < answered), "at once");
    // Whatever was said before was acknowledged by then.
    assert!(said.iter().any(|&(at, ..)| at >= answered), "once the path is there");
    let (now, path) = (pair.now, NetworkPath { local: addr(3), remote: addr(SERVER) });
    pair.client().open_path(now, path).unwrap();
    pair.run(Duration::from_secs(1));
    assert!(wishes.0.lock().unwrap().is_empty(), "nothing was wished");
}

#[test]
fn data_moves_off_a_dead_path() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.open_path(2);
    pair.transfer(100_000, Duration::from_secs(10));
    pair.lose = Box::new(|_, path| path.local.port() == 2 || path.remote.port() == 2);
    pair.transfer(1_000_000, Duration::from_secs(3));
    pair.lose = Box::new(|_, path| path.local.port() == 1 || path.remote.port() == 1);
    pair.run(Duration::from_secs(3));
    pair.transfer(1_000_000, Duration::from_secs(3));
}

/// What a path has lost is known to be lost once the path is closed, and still of use.
#[test]
fn datagrams_in_time_move_off_a_path_that_is_closed() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let second = pair.open_path(2);
    pair.transfer(100_000, Duration::from_secs(10));
    pair.client().set_path_status(PathId(0), PathStatus::Backup).unwrap();
    pair.run(Duration::from_millis(100));
    let sent = pair.client().paths().iter().find(|p| p.id == second).map(|p| p.packets_sent);
    pair.lose = Box::new(|_, path| path.local.port() == 2);
    let call = DatagramOptions::new().within(std::time::Duration::from_millis(150));
    for frame in 0..5 {
        let now = pair.now;
        pair.client().send_datagram_with(now, vec![frame; 1_000].into(), call).unwrap();
    }
    pair.run(Duration::from_millis(5));
    let sent_now = pair.client().paths().iter().find(|p| p.id == second).map(|p| p.packets_sent);
    assert!(sent_now >= sent.map(|sent| sent + 5), "they left on the second path");
    let now = pair.now;
    pair.client().close_path(now, second, 0u8.into()).unwrap();
    pair.run(Duration::from_millis(50));
    let mut frames: Vec<u8> = std::iter::from_fn(|| pair.server().receive_datagram()).map(|d| d[0]).collect();
    frames.sort_unstable();
    assert_eq!(frames, [0, 1, 2, 3, 4]);
}

/// As of laptops whose clocks go on while they sleep, with an answer under way: what was lost next waited for hours.
#[test]
fn a_lost_packet_is_sent_again_soon_after_a_long_sleep() {
    let for_ever =
        TransportConfig { max_idle_timeout: std::time::Duration::ZERO, ..TransportConfig::default() };
    let mut pair = Pair::new(for_ever);
    pair.connect();
    pair.delay = Box::new(|_, path| Duration::from_millis(if path.local.port() == SERVER { 500 } else { 1 }));
    pair.transfer(1_000, Duration::from_secs(10));
    pair.run(Duration::from_secs(10));
    let id = pair.client().open(Dir::Uni).unwrap();
    pair.client().write(id, &[7]).unwrap();
    pair.run(Duration::from_millis(300));
    assert!(!pair.wire.is_empty(), "the answer is under way");
    pair.now += Duration::from_secs(3 * 3_600);
    pair.run(Duration::from_secs(10));
    let rtt = pair.client().paths()[0].rtt;
    assert!(rtt < std::time::Duration::from_secs(1), "{rtt:?}");
    // The packet, and the first of its probes.
    let last_lost = pair.sent + 2;
    pair.lose = Box::new(move |n, _| n <= last_lost);
    pair.transfer(1_000, Duration::from_secs(10));
}

#[test]
fn random_loss_with_every_scheme() {
    for recovery in RecoveryKind::ALL {
        let mut pair = Pair::new(TransportConfig { recovery: *recovery, ..TransportConfig::default() });
        pair.connect();
        pair.open_path(2);
        pair.lose = Box::new(|n, _| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 13);
        for _ in 0..10 {
            pair.transfer(100_000, Duration::from_secs(20));
        }
        pair.run(Duration::from_secs(1));
        let stats = pair.client().stats();
        assert!(stats.packets_lost > 10, "{recovery}: {stats:?}");
        match recovery {
            // The scheduler alone sends what is overdue on one path again on the other.
            RecoveryKind::None => assert!(stats.packets_mended <= stats.late_copies_sent, "{stats:?}"),
            // It duplicates few packets; tests of its own see to it.
            RecoveryKind::Slp => assert!(stats.copies_sent > 0, "{stats:?}"),
            _ => assert!(stats.packets_mended > 0, "{recovery}: {stats:?}"),
        }
        let coded = matches!(recovery, RecoveryKind::Cofuso | RecoveryKind::Ctcp | RecoveryKind::Auto);
        assert_eq!(pair.server().stats().packets_rebuilt > 0, coded, "{recovery}");
    }
}

#[test]
fn closing_tells_the_peer_and_drains() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let now = pair.now;
    pair.client().close(now, 7u8.into(), b"done");
    pair.run(Duration::from_secs(5));
    let told = |e: &Event| matches!(e, Event::ConnectionLost(ConnectionError::ApplicationClosed { code, reason }) if code.into_inner() == 7 && reason == b"done");
    assert!(pair.server.events.iter().any(told), "{:?}", pair.server.events);
    assert!(pair.client().is_drained() && pair.server().is_drained());
    assert_eq!(pair.server.endpoint.open_connections(), 0);
}

#[test]
fn silence_times_out() {
    let mut pair = Pair::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(3).into(),
        ..TransportConfig::default()
    });
    pair.connect();
    pair.lose = Box::new(|_, _| true);
    pair.run(Duration::from_secs(10));
    for peer in [&pair.client, &pair.server] {
        assert!(peer.events.iter().any(|e| matches!(e, Event::ConnectionLost(ConnectionError::TimedOut))));
    }
}

/// RFC 9000 section 10.1: what we send ourselves into a silence, again and again, is no sign of life.
#[test]
fn probes_that_nobody_answers_do_not_put_the_end_off() {
    let mut pair = Pair::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(3).into(),
        ..TransportConfig::default()
    });
    pair.connect();
    pair.lose = Box::new(|_, _| true);
    let before = pair.client().stats().packets_sent;
    let id = pair.client().open(Dir::Uni).unwrap();
    pair.client().write(id, b"question").unwrap();
    pair.run(Duration::from_millis(2_500));
    assert!(!pair.client().is_closed());
    let sent = pair.client().stats().packets_sent - before;
    assert!(sent > 5, "it asks again and again: {sent} packets");
    pair.run(Duration::from_millis(700));
    let lost = |e: &Event| matches!(e, Event::ConnectionLost(ConnectionError::TimedOut));
    assert!(pair.client.events.iter().any(lost), "{:?}", pair.client.events);
}

/// RFC 9000 section 10.1: whoever has declared it; zero is none.
#[test]
fn the_shorter_idle_timeout_counts_for_both() {
    for seconds in [[3, 30], [30, 3], [0, 3], [3, 0]] {
        let [client, server] = seconds.map(|seconds| TransportConfig {
            max_idle_timeout: Duration::from_secs(seconds).into(),
            ..TransportConfig::default()
        });
        let (client_tls, server_tls) = tls();
        let client = ClientConfig::new(Arc::new(client_tls), client);
        let server = ServerConfig { max_connections: 1, ..ServerConfig::new(Arc::new(server_tls), server) };
        let mut pair = Pair::with(&client, server);
        pair.connect();
        pair.run(Duration::from_millis(2_500));
        assert!(!pair.client().is_closed() && !pair.server().is_closed(), "{seconds:?}");
        pair.run(Duration::from_millis(1_500));
        assert!(pair.client().is_closed() && pair.server().is_closed(), "{seconds:?}");
    }
}

#[test]
fn keep_alive_keeps_an_idle_connection() {
    let mut pair = Pair::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(3).into(),
        keep_alive: Some(Duration::from_secs(1).into()),
        ..TransportConfig::default()
    });
    pair.connect();
    pair.run(Duration::from_secs(30));
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
}

#[test]
fn a_keep_alive_of_zero_is_none() {
    let mut pair = Pair::new(TransportConfig {
        max_idle_timeout: Duration::from_secs(3).into(),
        keep_alive: Some(Duration::ZERO.into()),
        ..TransportConfig::default()
    });
    pair.connect();
    pair.run(Duration::from_secs(10));
    assert!(pair.client().is_closed() && pair.server().is_closed());
}

#[test]
fn datagrams_arrive() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    let max = pair.client().max_datagram_size().unwrap();
    pair.client().send_datagram(vec![1; max].into()).unwrap();
    assert!(pair.client().send_datagram(vec![1; max + 1].into()).is_err());
    pair.client().send_datagram(vec![2; 10].into()).unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server().receive_datagram().unwrap().len(), max);
    assert_eq!(pair.server().receive_datagram().as_deref(), Some(&[2; 10][..]));
    assert!(pair.server().receive_datagram().is_none());
}

#[test]
fn the_peer_hears_of_a_buffer_that_is_too_small_for_long_datagrams() {
    for (buffer, max) in [(0, None), (64, None), (164, Some(100)), (1_000, Some(936))] {
        let config = TransportConfig { datagram_receive_buffer: buffer, ..TransportConfig::default() };
        let mut pair = Pair::new(config);
        pair.connect();
        assert_eq!(pair.client().max_datagram_size(), max, "buffer of {buffer}");
        let Some(max) = max else { continue };
        pair.client().send_datagram(vec![1; max].into()).unwrap();
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.server().receive_datagram().unwrap().len(), max);
    }
}

#[test]
fn an_initial_window_without_bound_transfers() {
    let mut pair =
        Pair::new(TransportConfig { initial_window_packets: u64::MAX, ..TransportConfig::default() });
    pair.connect();
    pair.transfer(1_000_000, Duration::from_secs(5));
}

#[test]
fn a_send_buffer_without_room_holds_some_all_the_same() {
    let mut pair = Pair::new(TransportConfig { send_buffer: 0, ..TransportConfig::default() });
    pair.connect();
    pair.transfer(100_000, Duration::from_secs(60));
}

/// What is nearly as long as it may be leaves in batches, as full packets do.
#[test]
fn datagrams_that_nearly_fill_a_packet_leave_together() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.transfer(100_000, Duration::from_secs(5));
    let max = pair.client().max_datagram_size().unwrap();
    for (length, together) in [(max, 6), (max - 20, 6), (max - 40, 1)] {
        for n in 0..6 {
            pair.client().send_datagram(vec![n; length].into()).unwrap();
        }
        let (now, mut bytes) = (pair.now, Vec::new());
        let transmit = pair.client().poll_transmit(now, 8, &mut bytes).unwrap();
        let packets = transmit.size.div_ceil(transmit.segment_size.unwrap_or(transmit.size));
        assert_eq!(packets, together, "of {length} bytes");
        pair.run(Duration::from_secs(1));
    }
}

/// Of full packets, as far as the peer decodes nothing, for which packets leave room.
#[test]
fn copies_leave_together() {
    let repair = RepairConfig { accept: false, ..RepairConfig::default() };
    let recovery = RecoveryKind::Fuso;
    let mut pair = Pair::new(TransportConfig { recovery, repair, ..TransportConfig::default() });
    pair.connect();
    pair.transfer(100_000, Duration::from_secs(5));
    let before = pair.client().stats().copies_sent;
    let stream = pair.client().open(Dir::Bi).unwrap();
    assert_eq!(pair.client().write(stream, &[1; 8_000]), Ok(8_000));
    let (now, mut batches) = (pair.now, Vec::new());
    loop {
        let mut bytes = Vec::new();
        let Some(transmit) = pair.client().poll_transmit(now, 44, &mut bytes) else { break };
        batches.push(transmit.size.div_ceil(transmit.segment_size.unwrap_or(transmit.size)));
    }
    // The first packet has the credit for the answer besides, and so has its copy.
    assert_eq!((batches, pair.client().stats().copies_sent - before), (vec![6, 6], 6));
}

/// Then there is more data, and only our own memory keeps it from being handed over: no window is
/// spare.
#[test]
fn nothing_is_repeated_while_a_writer_waits_for_room() {
    for waits in [false, true] {
        let repair = RepairConfig { accept: false, ..RepairConfig::default() };
        let (recovery, send_buffer) = (RecoveryKind::Fuso, 8_000);
        let mut pair =
            Pair::new(TransportConfig { recovery, repair, send_buffer, ..TransportConfig::default() });
        pair.connect();
        pair.transfer(100_000, Duration::from_secs(5));
        pair.run(Duration::from_secs(1));
        let before = pair.client().stats();
        let stream = pair.client().open(Dir::Bi).unwrap();
        assert_eq!(pair.client().write(stream, &[1; 8_000]), Ok(8_000));
        if waits {
            assert_eq!(pair.client().write(stream, b"more"), Err(WriteError::Blocked));
        }
        let now = pair.now;
        while pair.client().poll_transmit(now, 1, &mut Vec::new()).is_some() {}
        let after = pair.client().stats();
        assert!(after.packets_sent - before.packets_sent >= 6, "what was written has left");
        assert_eq!(after.copies_sent > before.copies_sent, !waits, "{} copies", after.copies_sent);
    }
}

#[test]
fn server_events_say_that_a_stream_was_opened() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.transfer(10, Duration::from_secs(1));
    let opened = |e: &Event| matches!(e, Event::Stream(StreamEvent::Opened { dir: Dir::Bi }));
    assert!(pair.server.events.iter().any(opened));
}

#[test]
fn every_path_finds_its_size() {
    let mut pair = Pair::new(TransportConfig { max_datagram_size: 1_400, ..TransportConfig::default() });
    pair.connect();
    pair.open_path(2);
    for stats in pair.client().paths().into_iter().chain(pair.server().paths()) {
        assert_eq!(stats.mtu, 1_400, "{stats:?}");
    }
    let lost = pair.client().stats().packets_lost + pair.server().stats().packets_lost;
    assert_eq!(lost, 0);
}

#[test]
fn a_narrow_path_works_at_the_base_size() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.largest = 1_200;
    pair.connect();
    let id = pair
        .client()
        .open_path(Instant::ORIGIN, NetworkPath { local: addr(2), remote: addr(SERVER) })
        .unwrap();
    pair.run(Duration::from_secs(2));
    assert!(pair.client.events.iter().any(|e| matches!(e, Event::Path(PathEvent::Validated(p)) if *p == id)));
    pair.transfer(500_000, Duration::from_secs(5));
    assert!(
        pair.client().paths().iter().all(|p| p.mtu == 1_200 && p.bytes_lost == 0),
        "{:?}",
        pair.client().paths()
    );
}

/// The numbers that the sender leaves out on purpose included.
#[test]
fn a_long_upload_without_loss_is_bulk_until_the_receiver_speaks() {
    let mut pair = Pair::new(TransportConfig::default());
    pair.connect();
    pair.transfer(3_000_000, Duration::from_secs(10));
    assert!(pair.server().bulk_interval().is_some());
    assert_eq!(pair.client().bulk_interval(), None);
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.server().bulk_interval(), None, "it has finished its stream");
    pair.lose = Box::new(|n, _| n % 50 == 0);
    pair.transfer(3_000_000, Duration::from_secs(10));
    assert_eq!(pair.server().bulk_interval(), None, "losses are told at once");
}
