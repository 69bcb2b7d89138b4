use recovery::{Exposed, PacketNumber, SourceRun};

use super::*;

struct NoPackets;

impl UnackedView for NoPackets {
    fn oldest_resendable(&self, _: PathId) -> Option<PacketNumber> {
        None
    }
    fn source_run(&self, _: PathId, _: Option<PacketNumber>, _: u32) -> Option<SourceRun> {
        None
    }
    fn any_unacked(&self, _: PathId, _: PacketNumber, _: PacketNumber) -> bool {
        false
    }
    fn exposed(&self, _: PathId, _: u32) -> Option<Exposed> {
        None
    }
    fn next_unacked(&self, _: PathId, _: PacketNumber, _: PacketNumber) -> Option<PacketNumber> {
        None
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::ORIGIN + ms(n)
}

fn path(id: u32) -> PathSnapshot {
    PathSnapshot { slow_start: true, ..PathSnapshot::new(PathId(id), ms(50), 1_200) }
}

fn push(number: u64, bytes: u64) -> SentData {
    let marks = Marks { push: true, ..Marks::default() };
    SentData {
        path: PathId(0),
        number: PacketNumber(number),
        bytes,
        marks,
        fresh: true,
        source: None,
        rtt: ms(50),
    }
}

fn copy(of: u64, on: u32) -> RecoveryAction {
    RecoveryAction::Reinject { packet: PacketNumber(of), of: PathId(0), on: PathId(on) }
}

#[test]
fn a_small_last_packet_leaves_again_over_the_other_path_after_the_gap() {
    for paths in [vec![path(0)], vec![path(0), path(1)]] {
        let mut slp = Slp::default();
        slp.on_data(at(0), &push(3, 200), &paths);
        let on = paths.len() as u32 - 1;
        assert_eq!(slp.on_opportunity(at(4), &paths, &NoPackets), RecoveryAction::WaitUntil { at: at(5) });
        assert_eq!(slp.on_opportunity(at(5), &paths, &NoPackets), copy(3, on));
        slp.on_done(&copy(3, on), Some(Carried { number: PacketNumber(9), bytes: 200 }));
        assert_eq!(slp.on_opportunity(at(6), &paths, &NoPackets), RecoveryAction::Nothing);
        assert_eq!(slp.reasons().end_of_write, 1);
        slp.on_data(at(7), &push(4, 200), &paths);
        assert_eq!(slp.on_opportunity(at(20), &paths, &NoPackets), RecoveryAction::Nothing, "one at a time");
        let acked =
            RecoveryEvent::Acked { path: PathId(on), number: PacketNumber(9), in_flight: true, rtt: ms(50) };
        slp.on_event(at(20), &acked);
        slp.on_data(at(21), &push(5, 200), &paths);
        assert_eq!(slp.on_opportunity(at(26), &paths, &NoPackets), copy(5, on));
    }
}

#[test]
fn a_full_packet_is_worth_a_copy_once_timeouts_were_seen() {
    let paths = [path(0)];
    let mut slp = Slp::default();
    slp.on_data(at(0), &push(0, 1_200), &paths);
    assert_eq!(slp.on_opportunity(at(9), &paths, &NoPackets), RecoveryAction::Nothing);
    for number in 0..4 {
        slp.on_event(at(9), &RecoveryEvent::Sent { path: PathId(0) });
        let marks = push(number, 0).marks;
        let lost = RecoveryEvent::Lost(LostPacket {
            path: PathId(0),
            number: PacketNumber(number),
            marks,
            timed_out: true,
            copied: false,
            coded: false,
            in_flight: true,
            counts: true,
            rtt: ms(50),
        });
        slp.on_event(at(9), &lost);
    }
    slp.on_data(at(10), &push(7, 1_200), &paths);
    assert_eq!(slp.on_opportunity(at(15), &paths, &NoPackets), copy(7, 0));
}

#[test]
fn neither_without_window_nor_for_data_sent_again() {
    let full = PathSnapshot { in_flight: 12_000, ..path(1) };
    let mut slp = Slp::default();
    slp.on_data(at(0), &push(0, 200), &[path(0), full]);
    slp.on_data(at(0), &SentData { fresh: false, ..push(1, 200) }, &[path(0), path(1)]);
    assert_eq!(slp.on_opportunity(at(9), &[path(0), path(1)], &NoPackets), RecoveryAction::Nothing);
}

#[test]
fn flights_of_the_handshake_are_worth_it() {
    let mut slp = Slp::default();
    let flight = Flight { bytes: 1_200, timeout: ms(999), rtt: None, known_loss: 0.0 };
    assert_eq!(slp.on_flight(&flight), Some(HANDSHAKE_GAP));
    let quick = Flight { timeout: ms(10), ..flight };
    assert_eq!(slp.on_flight(&quick), None, "such a timeout costs less");
}

#[test]
fn a_closed_path_ends_its_duplicate() {
    let paths = [path(0), path(1)];
    let mut slp = Slp::default();
    slp.on_data(at(0), &push(3, 200), &paths);
    slp.on_event(at(1), &RecoveryEvent::PathClosed { path: PathId(0) });
    assert_eq!(slp.on_opportunity(at(9), &paths, &NoPackets), RecoveryAction::Nothing);
}
