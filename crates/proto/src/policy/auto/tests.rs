use std::collections::BTreeSet;

use recovery::{SourceRun, loss_history::LossHistory, slp_arbiter::Marks};

use super::*;
use crate::policy::LostPacket;

/// Un-ACKed packets of path 0, with the size of each; those in `protected` have a copy or are in a
/// block.
#[derive(Default)]
struct Packets {
    numbers: BTreeSet<PacketNumber>,
    protected: BTreeSet<PacketNumber>,
    bytes: u64,
}

impl Packets {
    fn new(count: u64, bytes: u64) -> Self {
        Self { numbers: (0..count).map(PacketNumber).collect(), protected: BTreeSet::new(), bytes }
    }

    fn open(&self) -> impl Iterator<Item = PacketNumber> + '_ {
        self.numbers.difference(&self.protected).copied()
    }
}

impl UnackedView for Packets {
    fn oldest_resendable(&self, _: PathId) -> Option<PacketNumber> {
        self.open().next()
    }
    fn source_run(&self, path: PathId, after: Option<PacketNumber>, limit: u32) -> Option<SourceRun> {
        let from = after.map_or(PacketNumber::ZERO, PacketNumber::next);
        let run: Vec<PacketNumber> =
            self.open().filter(|n| path == PathId::ZERO && *n >= from).take(limit as usize).collect();
        Some(SourceRun { first: *run.first()?, last: *run.last()?, packets: run.len() as u32 })
    }
    fn any_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> bool {
        self.next_unacked(path, first, last).is_some()
    }
    fn exposed(&self, path: PathId, limit: u32) -> Option<Exposed> {
        let run = self.source_run(path, None, limit)?;
        let bytes = u64::from(run.packets) * self.bytes;
        Some(Exposed {
            first: run.first,
            last: run.last,
            packets: run.packets,
            bytes,
            last_sent_at: Instant::ORIGIN,
        })
    }
    fn next_unacked(&self, path: PathId, first: PacketNumber, last: PacketNumber) -> Option<PacketNumber> {
        self.numbers.iter().copied().find(|n| path == PathId::ZERO && (first..=last).contains(n))
    }
}

fn path(id: u32) -> PathSnapshot {
    PathSnapshot { window: 100_000, ..PathSnapshot::new(PathId(id), Duration::from_millis(50), 1_200) }
}

fn auto(coding: Coding) -> Auto {
    Auto::new(&RepairConfig::default(), coding)
}

/// Does what the policy asks for until it asks for nothing; returns that.
fn drain(auto: &mut Auto, paths: &[PathSnapshot], packets: &mut Packets) -> Vec<RecoveryAction> {
    let mut done = Vec::new();
    for number in 0.. {
        let action = auto.on_opportunity(Instant::ORIGIN, paths, packets);
        match action {
            RecoveryAction::Reinject { packet, .. } => _ = packets.protected.insert(packet),
            RecoveryAction::Repair { block, .. } => {
                packets.protected.extend((block.first.0..=block.last.0).map(PacketNumber))
            }
            _ => break,
        }
        auto.on_done(&action, Some(Carried { number: PacketNumber(number), bytes: 1_200 }));
        done.push(action);
        assert!(done.len() < 100, "{done:?}");
    }
    done
}

/// A packet of path 0 was lost.
fn lost(number: PacketNumber, copied: bool) -> RecoveryEvent {
    RecoveryEvent::Lost(LostPacket {
        path: PathId(0),
        number,
        marks: Marks::default(),
        timed_out: false,
        copied,
        coded: false,
        in_flight: true,
        counts: true,
        rtt: Duration::from_micros(500),
    })
}

/// A path that has sent so many packets, every `every`-th of them lost.
fn known(id: u32, sent: u64, every: u64) -> PathSnapshot {
    let mut history = LossHistory::new();
    for number in 0..sent {
        history.on_sent();
        if number % every == every - 1 {
            history.on_lost(PacketNumber(number));
        }
    }
    PathSnapshot { history, ..path(id) }
}

#[test]
fn a_lone_packet_leaves_again_over_the_other_path() {
    let mut auto = auto(Coding::Unacked);
    let actions = drain(&mut auto, &[path(0), path(1)], &mut Packets::new(1, 1_200));
    assert_eq!(actions, [RecoveryAction::Reinject { packet: PacketNumber(0), of: PathId(0), on: PathId(1) }]);
    assert_eq!(auto.reasons(), RecoveryReasons { single: 1, ..RecoveryReasons::default() });
}

#[test]
fn copies_wait_for_an_answer_that_comes_soon() {
    let waits_with = |path: PathSnapshot, coding| {
        let mut auto = auto(coding);
        match auto.on_opportunity(Instant::ORIGIN, &[path], &Packets::new(1, 1_200)) {
            RecoveryAction::WaitUntil { at } => {
                let before = at - Duration::from_micros(1);
                let again = auto.on_opportunity(before, &[path], &Packets::new(1, 1_200));
                assert_eq!(again, RecoveryAction::WaitUntil { at });
                let late = auto.on_opportunity(at, &[path], &Packets::new(1, 1_200));
                assert!(matches!(late, RecoveryAction::Reinject { .. }), "{late:?}");
                at - Instant::ORIGIN
            }
            RecoveryAction::Reinject { .. } => Duration::ZERO,
            other => panic!("{other:?}"),
        }
    };
    let waits = |path| waits_with(path, Coding::Nothing);
    let us = Duration::from_micros;
    let near = PathSnapshot { min_rtt: us(800), rtt: us(900), expected_rtt: us(1_000), ..known(0, 1_000, 5) };
    assert_eq!(waits(near), us(1_250));
    assert_eq!(waits_with(near, Coding::Unacked), Duration::ZERO, "symbols are few");
    assert_eq!(waits(PathSnapshot { expected_rtt: us(90_000), ..near }), SOON, "a queue");
    assert_eq!(waits(PathSnapshot { min_rtt: us(1_601), ..near }), Duration::ZERO, "a round trip to save");
    assert_eq!(waits(PathSnapshot { measured: false, ..near }), Duration::ZERO, "which may be long");
}

#[test]
fn small_packets_are_copied_as_often_as_it_takes() {
    let mut auto = auto(Coding::Unacked);
    let actions = drain(&mut auto, &[known(0, 1_000, 5)], &mut Packets::new(2, 100));
    let numbers: Vec<u64> = actions
        .iter()
        .map(|a| if let RecoveryAction::Reinject { packet, .. } = a { packet.0 } else { 99 })
        .collect();
    assert_eq!(numbers[..4], [0, 1, 0, 1]);
    assert_eq!(numbers.len() % 2, 0);
}

#[test]
fn a_block_gets_symbols_and_a_peer_without_decoder_copies() {
    let paths = [known(0, 100, 99), path(1)];
    let mut coding = auto(Coding::Unacked);
    let actions = drain(&mut coding, &paths, &mut Packets::new(40, 1_200));
    assert!((3..8).contains(&actions.len()), "{actions:?}");
    assert!(actions.iter().all(|a| matches!(a, RecoveryAction::Repair { on: PathId(1), .. })));
    assert_eq!(coding.reasons().block, actions.len() as u64);
    let mut copying = auto(Coding::Nothing);
    let actions = drain(&mut copying, &paths, &mut Packets::new(40, 1_200));
    assert_eq!(actions.len(), 16, "the allowance");
    assert_eq!((copying.reasons().uncoded, copying.reasons().no_budget), (16, 0));
    assert!(drain(&mut copying, &paths[..1], &mut Packets::new(3, 1_200)).is_empty());
}

#[test]
fn copies_of_a_block_have_to_be_worth_it_each() {
    let mut copying = auto(Coding::Nothing);
    let quiet = [known(0, 600, u64::MAX), path(1)];
    assert!(drain(&mut copying, &quiet, &mut Packets::new(40, 1_200)).is_empty());
    let mut coding = auto(Coding::Unacked);
    assert_eq!(drain(&mut coding, &quiet, &mut Packets::new(40, 1_200)).len(), 1, "symbols are cheaper");
}

#[test]
fn what_is_lost_with_its_copies_is_copied_once_in_a_while() {
    let mut auto = auto(Coding::Unacked);
    let paths = [known(0, 1_000, 10)];
    let mut copied = Vec::new();
    for number in 0..400 {
        // As the connection has it: a packet of its own, that is lost whether it was copied or not.
        let number = PacketNumber(number);
        let mut packets = Packets { numbers: [number].into(), bytes: 1_200, ..Packets::default() };
        auto.budget.on_idle();
        let actions = drain(&mut auto, &paths, &mut packets);
        copied.push(!actions.is_empty());
        let now = Instant::ORIGIN + Duration::from_millis(number.0);
        auto.on_event(now, &lost(number, !actions.is_empty()));
    }
    assert!(copied[..20].iter().all(|copied| *copied), "nothing is known yet");
    let late = copied[100..].iter().filter(|copied| **copied).count();
    assert!((10..30).contains(&late), "{late} of 300");
    assert!(auto.reasons().in_vain > 250, "{:?}", auto.reasons());
    // Once copies mend again, they are sent again.
    for number in 0..70 {
        let now = Instant::ORIGIN + Duration::from_secs(10 + number);
        auto.on_event(now, &lost(PacketNumber(1_000 + number), true));
        auto.on_event(now, &RecoveryEvent::Mended { path: PathId(0) });
    }
    assert!(!drain(&mut auto, &paths, &mut Packets::new(1, 1_200)).is_empty());
}

/// Between two exchanges something may be in flight still: repair that was not needed, or what it has mended and
/// was sent again.
#[test]
fn an_answer_to_what_has_arrived_has_the_whole_allowance() {
    let packet = |number, fresh| SentData {
        path: PathId(0),
        number: PacketNumber(number),
        bytes: 1_200,
        marks: Marks::default(),
        fresh,
        source: None,
        rtt: Duration::from_millis(50),
    };
    let busy = [PathSnapshot { in_flight: 20_000, measured: true, ..path(0) }];
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    let credit = |last_again: Option<u64>, waits: bool, next: u64, fresh: bool| {
        let mut auto = auto(Coding::Unacked);
        auto.on_data(at(0), &packet(0, true), &busy);
        auto.budget.on_repair(auto.budget.credit());
        if !waits {
            auto.on_opportunity(at(1), &busy, &Packets::default());
        }
        if let Some(last) = last_again {
            auto.on_data(at(last), &packet(1, false), &busy);
        }
        auto.on_data(at(next), &packet(2, fresh), &busy);
        auto.budget.credit()
    };
    let whole = RepairBudget::default().credit();
    assert_eq!(credit(None, false, 50, true), whole);
    assert_eq!(credit(Some(45), false, 50, true), whole, "what was mended is sent again");
    assert!(credit(None, false, 49, true) < 100, "sooner than any answer");
    assert!(credit(None, true, 50, true) < 100, "more was waiting all the time");
    assert!(credit(None, false, 50, false) < 100, "a loss is no answer");
}

#[test]
fn flights_leave_again_at_once_on_lossy_paths_and_without_an_answer_on_others() {
    let mut auto = auto(Coding::Unacked);
    let flight = Flight { bytes: 1_200, timeout: Duration::from_millis(999), rtt: None, known_loss: 0.0 };
    assert_eq!(auto.on_flight(&flight), Some(UNANSWERED));
    let measured = Flight { rtt: Some(Duration::from_millis(80)), ..flight };
    assert_eq!(auto.on_flight(&measured), Some(Duration::from_millis(100)));
    let lossy = Flight { known_loss: 0.01, ..flight };
    assert_eq!(auto.on_flight(&lossy), Some(HANDSHAKE_GAP));
    let quick = Flight { timeout: Duration::from_millis(10), ..lossy };
    assert_eq!(auto.on_flight(&quick), None, "such a timeout costs less");
}

#[test]
fn a_path_that_loses_nothing_is_left_alone_and_counted_once() {
    let mut auto = auto(Coding::Unacked);
    let mut packets = Packets::new(1, 1_200);
    for _ in 0..5 {
        assert!(drain(&mut auto, &[known(0, 4_000, u64::MAX)], &mut packets).is_empty());
    }
    assert_eq!(auto.reasons(), RecoveryReasons { not_needed: 1, ..RecoveryReasons::default() });
}

#[test]
fn nothing_leaves_without_window_and_the_task_goes_on_when_there_is_some() {
    let mut auto = auto(Coding::Unacked);
    let full = PathSnapshot { in_flight: 100_000, ..path(0) };
    let mut packets = Packets::new(20, 1_200);
    assert!(drain(&mut auto, &[full], &mut packets).is_empty());
    assert_eq!(auto.reasons().no_window, 1);
    assert!(!drain(&mut auto, &[path(0)], &mut packets).is_empty());
}

#[test]
fn repair_does_not_take_a_path_that_is_too_slow() {
    let mut auto = auto(Coding::Unacked);
    let slow = PathSnapshot::new(PathId(1), Duration::from_millis(900), 1_200);
    let actions = drain(&mut auto, &[path(0), slow], &mut Packets::new(20, 1_200));
    assert!(!actions.is_empty());
    assert!(actions.iter().all(|a| matches!(a, RecoveryAction::Repair { on: PathId(0), .. })), "{actions:?}");
}

/// Else it leaves on the slow path a millisecond before the fast one has room, and arrives long after all the rest.
#[test]
fn repair_waits_for_the_ack_that_makes_room_on_a_much_faster_path() {
    let ms = Duration::from_millis;
    let packets = Packets::new(8, 1_200);
    let first = |other: PathSnapshot| {
        auto(Coding::Unacked).on_opportunity(Instant::ORIGIN, &[path(0), other], &packets)
    };
    let carrier = |other: PathSnapshot| match first(other) {
        RecoveryAction::Repair { on, .. } => on.0,
        action => panic!("{action:?}"),
    };
    let full = |rtt_ms: u64| PathSnapshot {
        in_flight: 12_000,
        next_ack: ms(1),
        ..PathSnapshot::new(PathId(1), ms(rtt_ms), 1_200)
    };
    let fast = full(20);
    let RecoveryAction::WaitUntil { at } = first(fast) else { panic!("it does not wait") };
    assert!(at > Instant::ORIGIN + ms(1) && at <= Instant::ORIGIN + ms(20), "{at}");
    assert_eq!(carrier(PathSnapshot { in_flight: 9_600, ..fast }), 1, "there is room");
    assert_eq!(carrier(PathSnapshot { next_ack: ms(20), ..fast }), 0, "not before 30 ms");
    assert_eq!(carrier(PathSnapshot { window: 8_000, ..fast }), 0, "several ACKs away from room");
    assert_eq!(carrier(PathSnapshot { usable: false, ..fast }), 0, "it may carry nothing new");
    assert_eq!(carrier(full(45)), 0, "hardly faster");
    assert_eq!(
        carrier(PathSnapshot { next_ack: ms(11), ..full(10) }),
        0,
        "overdue, as of a path that is dead"
    );
}

/// ACKs may come whose room others take, each time anew.
#[test]
fn repair_does_not_wait_for_longer_than_it_is_sooner_by() {
    let ms = Duration::from_millis;
    let fast =
        PathSnapshot { in_flight: 12_000, next_ack: ms(1), ..PathSnapshot::new(PathId(1), ms(20), 1_200) };
    let (mut auto, mut now) = (auto(Coding::Unacked), Instant::ORIGIN);
    let packets = Packets::new(8, 1_200);
    for _ in 0..2 {
        let begin = now;
        let action = loop {
            match auto.on_opportunity(now, &[path(0), fast], &packets) {
                RecoveryAction::WaitUntil { at } => {
                    assert!(at > now && at - begin < ms(25), "{} since {begin}", at - begin);
                    now = at;
                }
                action => break action,
            }
        };
        assert!(now > begin, "each symbol waits");
        assert!(matches!(action, RecoveryAction::Repair { on: PathId(0), .. }), "{action:?}");
        auto.on_done(&action, Some(Carried { number: PacketNumber(100), bytes: 1_200 }));
    }
}

#[test]
fn repair_that_cannot_leave_or_is_of_no_use_waits_for_nothing() {
    let ms = Duration::from_millis;
    let fast =
        PathSnapshot { in_flight: 12_000, next_ack: ms(1), ..PathSnapshot::new(PathId(1), ms(20), 1_200) };
    let paths = [known(0, 100, 99), fast];
    for coding in [Coding::Unacked, Coding::Nothing] {
        let waiting = || {
            let (mut auto, packets) = (auto(coding), Packets::new(8, 1_200));
            let action = auto.on_opportunity(Instant::ORIGIN, &paths, &packets);
            assert!(matches!(action, RecoveryAction::WaitUntil { .. }), "{action:?}");
            (auto, packets)
        };
        let (mut auto, packets) = waiting();
        auto.budget.on_repair(auto.budget.credit());
        let action = auto.on_opportunity(Instant::ORIGIN, &paths, &packets);
        assert_eq!(action, RecoveryAction::Nothing, "there is no budget");
        let (mut auto, _) = waiting();
        let action = auto.on_opportunity(Instant::ORIGIN, &paths, &Packets::default());
        assert_eq!(action, RecoveryAction::Nothing, "everything has arrived");
        assert!(!auto.is_busy(PathId::ZERO), "what leaves next is looked at");
    }
}

#[test]
fn an_exchange_after_a_silence_has_the_allowance_again() {
    let mut auto = auto(Coding::Nothing);
    drain(&mut auto, &[path(0)], &mut Packets::new(40, 1_200));
    assert!(!auto.budget.allows(1_200));
    let first = SentData {
        path: PathId(0),
        number: PacketNumber(50),
        bytes: 1_200,
        marks: Default::default(),
        fresh: true,
        source: None,
        rtt: Duration::from_millis(50),
    };
    auto.on_data(Instant::ORIGIN, &first, &[PathSnapshot { in_flight: 5_000, ..path(0) }]);
    assert!(!auto.budget.allows(1_200));
    auto.on_data(Instant::ORIGIN, &first, &[PathSnapshot { in_flight: 1_200, ..path(0) }]);
    assert!(auto.budget.allows(16 * 1_200));
}

/// What leaves after a probe timeout at `now`, one copy after the other, with the time since.
fn copies_after_timeout(
    auto: &mut Auto,
    mut now: Instant,
    path: PathSnapshot,
    moved: bool,
) -> Vec<(u64, Duration)> {
    let (timeout, packets) = (now, Packets::new(4, 1_200));
    auto.on_event(now, &RecoveryEvent::PathTimeout { path: path.id, moved });
    let mut copies = Vec::new();
    loop {
        let action = auto.on_opportunity(now, &[path], &packets);
        match action {
            RecoveryAction::WaitUntil { at } => now = at,
            RecoveryAction::Reinject { packet, of, on } => {
                assert_eq!((of, on), (path.id, path.id));
                auto.on_done(&action, Some(Carried { number: PacketNumber(100), bytes: 1_200 }));
                copies.push((packet.0, now - timeout));
            }
            _ => return copies,
        }
    }
}

/// An `auto` that has protected all four packets already.
fn with_all_protected(path: PathSnapshot) -> Auto {
    let mut auto = auto(Coding::Nothing);
    auto.budget.on_repair(u64::MAX / 2);
    assert_eq!(
        auto.on_opportunity(Instant::ORIGIN, &[path], &Packets::new(4, 1_200)),
        RecoveryAction::Nothing
    );
    auto
}

#[test]
fn copies_follow_the_probes_of_an_only_path() {
    let (path, now) = (path(0), Instant::ORIGIN + Duration::from_secs(1));
    let mut auto = with_all_protected(path);
    let gap = |n| path.rtt / COPIES_PER_ROUND_TRIP * n;
    let all = [(0, gap(1)), (1, gap(2)), (2, gap(3)), (3, gap(4)), (0, gap(5)), (1, gap(6))];
    for timeout in 1..=u64::from(SILENT_TIMEOUTS) {
        assert_eq!(copies_after_timeout(&mut auto, now, path, false), all);
        assert_eq!(auto.reasons().after_silence, timeout * 6);
    }
    assert_eq!(copies_after_timeout(&mut auto, now, path, false), [], "it may be gone");
    let acked =
        RecoveryEvent::Acked { path: path.id, number: PacketNumber(0), in_flight: true, rtt: path.rtt };
    auto.on_event(now, &acked);
    assert_eq!(copies_after_timeout(&mut auto, now, path, false), all, "another silence");
}

#[test]
fn copies_follow_the_probes_of_a_handshake() {
    let mut auto = auto(Coding::Nothing);
    let after: Vec<u8> = (1..=8).map(|nth| auto.on_flight_timeout(nth)).collect();
    assert_eq!(after, [6, 6, 6, 6, 6, 6, 0, 0]);
}

#[test]
fn no_copies_follow_where_they_would_do_harm_or_no_good() {
    let now = Instant::ORIGIN + Duration::from_secs(1);
    let queue = PathSnapshot { expected_rtt: path(0).min_rtt * 2, ..path(0) };
    let full = PathSnapshot { in_flight: path(0).window, ..path(0) };
    let paced = PathSnapshot { pacing_wait: Duration::from_millis(1), ..path(0) };
    for (path, moved) in [(queue, false), (full, false), (paced, false), (path(0), true)] {
        let mut auto = with_all_protected(path);
        assert_eq!(copies_after_timeout(&mut auto, now, path, moved), []);
    }
}

/// What was moved to them arrives long after copies here have been answered.
#[test]
fn copies_follow_the_probe_where_all_other_paths_are_far_slower() {
    let now = Instant::ORIGIN + Duration::from_secs(1);
    let silent = PathSnapshot { usable: false, silent: true, ..path(0) };
    let other = |rtt_ms| PathSnapshot::new(PathId(1), Duration::from_millis(rtt_ms), 1_200);
    let next = |of: PathSnapshot, other: PathSnapshot| {
        let mut auto = with_all_protected(path(0));
        auto.on_event(now, &RecoveryEvent::PathTimeout { path: of.id, moved: true });
        let packets = Packets::new(4, 1_200);
        match auto.on_opportunity(now, &[of, other], &packets) {
            RecoveryAction::WaitUntil { at } => auto.on_opportunity(at, &[of, other], &packets),
            action => action,
        }
    };
    let copy = RecoveryAction::Reinject { packet: PacketNumber(0), of: PathId(0), on: PathId(0) };
    assert_eq!(next(silent, other(250)), copy);
    assert_eq!(next(silent, other(150)), RecoveryAction::Nothing, "what was moved is there as soon");
    let held = PathSnapshot { silent: false, ..silent };
    assert_eq!(next(held, other(250)), RecoveryAction::Nothing, "it may carry no copies");
    let metered = PathSnapshot { usable: false, ..other(150) };
    assert_eq!(next(silent, metered), RecoveryAction::Nothing, "it carries what was moved");
    let idle = PathSnapshot { carries_data: false, ..metered };
    assert_eq!(next(silent, idle), copy, "nothing goes over a backup that waits");
    let paced = next(PathSnapshot { pacing_wait: Duration::from_millis(5), ..silent }, other(250));
    assert!(
        matches!(paced, RecoveryAction::WaitUntil { .. }),
        "other paths' repair waits for no pacer here: {paced:?}"
    );
    let full = PathSnapshot { in_flight: silent.window, ..silent };
    assert_eq!(next(full, other(250)), RecoveryAction::Nothing);
}

#[test]
fn copies_end_with_the_silence() {
    let (path, now) = (path(0), Instant::ORIGIN + Duration::from_secs(1));
    let mut auto = with_all_protected(path);
    auto.on_event(now, &RecoveryEvent::PathTimeout { path: path.id, moved: false });
    let packets = Packets::new(4, 1_200);
    assert!(matches!(auto.on_opportunity(now, &[path], &packets), RecoveryAction::WaitUntil { .. }));
    let acked =
        RecoveryEvent::Acked { path: path.id, number: PacketNumber(0), in_flight: true, rtt: path.rtt };
    auto.on_event(now, &acked);
    assert_eq!(auto.on_opportunity(now, &[path], &packets), RecoveryAction::Nothing);
}
