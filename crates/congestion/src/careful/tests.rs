use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: u64 = 50;
const PACKET: u64 = 1_200;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + MS * ms
}

fn known(window: u64) -> Carried {
    Carried { window, min_rtt: MS * RTT, pace: None, seen: at(0) }
}

fn rtt(ms: u64) -> Rtt {
    Rtt { latest: MS * ms, smoothed: MS * ms, min: MS * ms, variance: Duration::ZERO }
}

/// An answer at `now` to `packets` that left up to `sent`, after `rtt_ms`.
fn ack(now: u64, sent: u64, packets: u64, in_flight: u64, rtt_ms: u64) -> Ack {
    Ack {
        now: at(now),
        bytes: packets * PACKET,
        largest_sent_at: at(sent),
        in_flight_before: in_flight * PACKET,
        rtt: rtt(rtt_ms),
        adjusted_rtt: MS * rtt_ms,
        ..Ack::default()
    }
}

fn loss(now: u64, sent: u64, packets: u32) -> Loss {
    let bytes = u64::from(packets) * PACKET;
    Loss { now: at(now), bytes, packets, largest_sent_at: at(sent), rtt: rtt(RTT) }
}

/// `packets` leave at `now` from a path with `in_flight` packets.
fn send(careful: &mut Careful, now: u64, packets: u64, in_flight: u64) {
    for n in 1..=packets {
        careful.on_sent(at(now), PACKET, (in_flight + n) * PACKET);
    }
}

/// A connection that knows of 240 packets per round trip, and whose handshake took `rtt_ms` from
/// `start` on.
fn greeted(kind: ControllerKind, start: u64, rtt_ms: u64) -> Careful {
    let mut careful = Careful::new(kind, &Config::default());
    careful.resume_from(known(240 * PACKET));
    send(&mut careful, start, 2, 0);
    careful.on_ack(&ack(start + rtt_ms, start, 2, 2, rtt_ms), &[]);
    careful
}

/// The same, and it has sent 120 packets from 60 ms on, 20 of which were answered.
fn under_way(kind: ControllerKind) -> Careful {
    let mut careful = greeted(kind, 0, RTT);
    send(&mut careful, 60, 60, 0);
    send(&mut careful, 80, 60, 60);
    assert_eq!((careful.window(), careful.resumption().jumps), (120 * PACKET, 1), "{kind}");
    careful.on_ack(&ack(110, 60, 20, 120, RTT), &[]);
    careful
}

#[test]
fn half_of_what_was_known_is_tried_once_the_path_has_answered() {
    for &kind in ControllerKind::ALL {
        let mut careful = greeted(kind, 0, RTT);
        assert_eq!(careful.window(), 12 * PACKET, "{kind}");
        send(&mut careful, 60, 1, 0);
        assert_eq!(careful.window(), 120 * PACKET, "{kind}");
        let even = careful.pacing_rate(&rtt(RTT)).bytes_in(MS * RTT);
        assert!(even.abs_diff(120 * PACKET) <= 1, "{kind}: a window per round trip, not {even}");
    }
}

#[test]
fn what_was_used_of_it_remains_once_it_has_arrived() {
    for &kind in ControllerKind::ALL {
        let mut careful = under_way(kind);
        assert_eq!(careful.window(), 120 * PACKET, "{kind}");
        careful.on_ack(&ack(130, 80, 100, 100, RTT), &[]);
        assert_eq!(careful.window(), 120 * PACKET, "{kind}");
        send(&mut careful, 131, 120, 0);
        careful.on_ack(&ack(181, 131, 120, 120, RTT), &[]);
        assert!(careful.window() > 120 * PACKET, "{kind} goes on");
        assert_eq!(careful.resumption().retreats, 0, "{kind}");
    }
}

#[test]
fn what_was_not_used_of_it_is_given_back() {
    let mut careful = greeted(ControllerKind::Cubic, 0, RTT);
    send(&mut careful, 60, 30, 0);
    careful.on_ack(&ack(110, 60, 30, 30, RTT), &[]);
    assert_eq!(careful.window(), 30 * PACKET);
}

#[test]
fn another_path_an_old_memory_and_a_standing_queue_are_no_reason_to_jump() {
    let initial = 12 * PACKET;
    let tried = |start, rtt_ms| {
        let mut careful = greeted(ControllerKind::Cubic, start, rtt_ms);
        send(&mut careful, start + rtt_ms + 10, 1, 0);
        careful.window()
    };
    assert_eq!(tried(0, 62), 120 * PACKET);
    assert_eq!(tried(0, 25), initial, "half the round trip: another path");
    assert_eq!(tried(0, 63), initial, "somebody's queue, or another path");
    assert_eq!(tried(599_000, RTT), 120 * PACKET);
    assert_eq!(tried(600_000, RTT), initial, "too long ago");
}

#[test]
fn congestion_leaves_half_of_what_had_arrived_and_the_memory_is_gone() {
    for &kind in ControllerKind::ALL {
        let mut careful = under_way(kind);
        careful.on_ecn_ce(at(112), at(60));
        assert_eq!((careful.window(), careful.resumption().retreats), (10 * PACKET, 1), "{kind}");
        assert_eq!(careful.resumption().carried, None, "{kind}");
        // 40 more arrive, and the last is lost: slow start may go up to 0.7 of what arrived.
        careful.on_ack(&ack(120, 70, 40, 80, RTT), &[]);
        careful.on_loss(&loss(131, 80, 1), &[]);
        let state = careful.state();
        assert!(
            state.ssthresh.is_some_and(|s| (41 * PACKET..=42 * PACKET).contains(&s)),
            "{kind}: {state:?}"
        );
        assert!(state.window < state.ssthresh.unwrap(), "{kind}: {state:?}");
    }
}

#[test]
fn loss_is_congestion_to_those_who_take_it_for_that() {
    let mut careful = under_way(ControllerKind::Cubic);
    careful.on_loss(&loss(112, 60, 3), &[]);
    assert_eq!((careful.window(), careful.resumption().retreats), (10 * PACKET, 1));
}

/// A connection that has sent 120 packets from 60 to 100 ms, of which 30 were answered, the last ten of those from 70
/// ms on 2 ms later than all before. Nothing has been lost so far.
fn late_once(kind: ControllerKind) -> Careful {
    let mut careful = greeted(kind, 0, RTT);
    send(&mut careful, 60, 40, 0);
    (0..4).for_each(|n| send(&mut careful, 70 + 10 * n, 20, 40 + 20 * n));
    careful.on_ack(&ack(110, 60, 20, 120, RTT), &[]);
    careful.on_ack(&ack(122, 70, 10, 100, 52), &[]);
    assert_eq!((careful.window(), careful.resumption().jumps), (120 * PACKET, 1), "{kind}");
    careful
}

/// What follows the first loss came late, so that it speaks for the load, as one of chance does in one case of three
/// where delays vary. It left 15 packets, and nothing was known of the path any more.
#[test]
fn a_loss_that_may_be_chance_is_answered_and_no_retreat() {
    let mut careful = late_once(ControllerKind::Auto);
    careful.on_loss(&loss(123, 70, 1), &[]);
    assert!(careful.load_evidence() > 0.0);
    assert_eq!((careful.window(), careful.resumption().retreats), (84 * PACKET, 0));
    careful.on_ack(&ack(134, 80, 10, 80, RTT), &[]);
    careful.on_loss(&loss(135, 80, 1), &[]);
    assert_eq!((careful.window(), careful.resumption().retreats), (84 * PACKET, 0), "it was chance");
    assert_eq!(careful.resumption().carried.map(|carried| carried.window), Some(240 * PACKET));
}

#[test]
fn losses_that_go_on_coming_with_delay_are_a_retreat() {
    let mut careful = late_once(ControllerKind::Auto);
    careful.on_loss(&loss(123, 70, 1), &[]);
    careful.on_ack(&ack(134, 80, 10, 80, 54), &[]);
    careful.on_loss(&loss(135, 80, 1), &[]);
    assert_eq!(careful.resumption().retreats, 0);
    careful.on_ack(&ack(146, 90, 5, 60, 56), &[]);
    careful.on_loss(&loss(147, 90, 1), &[]);
    assert!(careful.blames_load(), "{}", careful.load_evidence());
    assert_eq!((careful.window(), careful.resumption().retreats), (45 * PACKET / 2, 1));
    assert_eq!(careful.resumption().carried, None);
}

#[test]
fn a_loss_is_a_retreat_where_a_queue_is_seen_or_the_controller_is_sure() {
    let mut careful = late_once(ControllerKind::Auto);
    careful.on_loss(&Loss { rtt: rtt(63), ..loss(123, 70, 1) }, &[]);
    assert_eq!((careful.window(), careful.resumption().retreats), (15 * PACKET, 1));
    let mut careful = late_once(ControllerKind::Cubic);
    careful.on_loss(&loss(123, 70, 1), &[]);
    assert_eq!((careful.window(), careful.resumption().retreats), (15 * PACKET, 1));
}

/// 120 packets leave in 30 ms, the second third takes `rtt_ms`, and the last is lost; a probe finds that, 150 ms after
/// the last packet had left. Returns window and retreats.
fn ends_in_silence(rtt_ms: u64) -> (u64, u64) {
    let mut careful = greeted(ControllerKind::Auto, 0, RTT);
    for (now, before) in [(60, 0), (70, 40), (90, 80)] {
        send(&mut careful, now, 40, before);
    }
    careful.on_ack(&ack(110, 60, 40, 120, RTT), &[]);
    careful.on_ack(&ack(70 + rtt_ms, 70, 40, 80, rtt_ms), &[]);
    send(&mut careful, 240, 1, 40);
    careful.on_loss(&loss(290, 90, 40), &[]);
    (careful.window(), careful.resumption().retreats)
}

#[test]
fn an_overflow_that_a_probe_finds_is_a_retreat() {
    assert_eq!(ends_in_silence(70), (40 * PACKET, 1));
    assert_eq!(ends_in_silence(RTT), (120 * PACKET, 0), "without a queue it may have been chance");
}

#[test]
fn a_window_is_kept_for_five_minutes_and_then_halved() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    let mut now = 0;
    for packets in [10, 20, 40] {
        send(&mut careful, now, packets, 0);
        careful.on_ack(&ack(now + RTT, now, packets, packets, RTT), &[]);
        now += RTT;
    }
    assert_eq!(careful.window(), 80 * PACKET);
    let mut rest = |seconds: u64| {
        now += seconds * 1_000;
        send(&mut careful, now, 1, 0);
        let window = careful.window() / PACKET;
        careful.on_ack(&Ack { app_limited: true, ..ack(now + RTT, now, 1, 1, RTT) }, &[]);
        window
    };
    assert_eq!((rest(299), rest(300), rest(601)), (80, 40, 10));
    assert_eq!(rest(3_600), 10, "the initial window remains");
}

#[test]
fn packets_that_keep_a_connection_alive_do_not_keep_its_window() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    for (now, packets) in [(0, 10), (50, 20), (100, 40)] {
        send(&mut careful, now, packets, 0);
        careful.on_ack(&ack(now + RTT, now, packets, packets, RTT), &[]);
    }
    let mut windows = Vec::new();
    for now in (10_000..=910_000).step_by(10_000) {
        send(&mut careful, now, 1, 0);
        windows.push(careful.window() / PACKET);
        careful.on_ack(&Ack { app_limited: true, ..ack(now + RTT, now, 1, 1, RTT) }, &[]);
    }
    // At 10 and 300 s, and then at the first one after each five minutes.
    assert_eq!([0, 29, 30, 60, 90].map(|n| windows[n]), [80, 80, 40, 20, 10]);
}

/// Three packets are always under way, so that the path is never at rest.
#[test]
fn nor_does_a_call_keep_a_window_that_it_does_not_use() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    careful.set_window(80 * PACKET, Some(80 * PACKET));
    let mut windows = Vec::new();
    for now in (1_000..=910_000).step_by(1_000) {
        careful.on_sent(at(now), PACKET, 3 * PACKET);
        windows.push(careful.window() / PACKET);
        careful.on_ack(&Ack { app_limited: true, ..ack(now + RTT, now, 1, 3, RTT) }, &[]);
    }
    assert_eq!([299, 300, 600, 900].map(|n| windows[n]), [80, 40, 20, 10]);
}

#[test]
fn a_window_that_is_used_now_and_then_is_kept() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    careful.set_window(80 * PACKET, Some(80 * PACKET));
    for now in (10_000..=2_000_000).step_by(10_000) {
        let packets = if now % 250_000 == 0 { 40 } else { 1 };
        send(&mut careful, now, packets, 0);
        careful.on_ack(&Ack { app_limited: true, ..ack(now + RTT, now, packets, packets, RTT) }, &[]);
    }
    assert_eq!(careful.window(), 80 * PACKET);
}

#[test]
fn an_old_window_of_which_little_arrives_is_cut_to_that() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    careful.set_window(100 * PACKET, None);
    send(&mut careful, 10_000, 50, 0);
    send(&mut careful, 10_010, 50, 50);
    careful.on_ack(&ack(10_060, 10_000, 20, 100, RTT), &[]);
    careful.on_loss(&loss(10_061, 10_000, 20), &[]);
    assert_eq!(careful.window(), 84 * PACKET, "the controller's answer: 0.7 of 100 and the 20 that came");
    careful.on_ack(&ack(10_065, 10_005, 20, 60, RTT), &[]);
    careful.on_loss(&loss(10_070, 10_010, 40), &[]);
    assert_eq!(
        (careful.window(), careful.resumption().retreats),
        (28 * PACKET, 1),
        "0.7 of the 40 that arrived"
    );
}

/// 60 packets, ten at once and the others at the controller's rate; all arrive, the last after
/// `queue_ms` more. Returns the rate at which they left.
fn exchange(careful: &mut Careful, start: u64, queue_ms: u64) -> BitRate {
    let begun = at(start);
    careful.on_sent(begun, PACKET, PACKET);
    let rate = careful.pacing_rate(&rtt(RTT));
    let mut last = begun;
    for n in 2..=60 {
        if n > 10 {
            last += rate.time_to_send(PACKET);
        }
        careful.on_sent(last, PACKET, n * PACKET);
    }
    let all = Ack {
        now: last + MS * (RTT + queue_ms),
        largest_sent_at: last,
        app_limited: true,
        adjusted_rtt: MS * (RTT + queue_ms),
        ..ack(0, 0, 60, 60, RTT)
    };
    careful.on_ack(&all, &[]);
    rate
}

#[test]
fn spurts_get_faster_until_they_meet_a_queue() {
    let mut careful = Careful::new(ControllerKind::Cubic, &Config::default());
    careful.set_window(60 * PACKET, None);
    careful.on_sent(at(0), PACKET, PACKET);
    careful.on_ack(&Ack { app_limited: true, ..ack(RTT, 0, 1, 1, RTT) }, &[]);
    let mbps = |rate: BitRate| rate.bits_per_second() / 1_000_000;
    let first = exchange(&mut careful, 1_000, 0);
    assert_eq!(mbps(first), 23, "two windows per round trip");
    assert_eq!(mbps(exchange(&mut careful, 2_000, 0)), 46);
    // 50 packets in 10.4 ms, and 9.6 ms late: the path takes them in 20 ms.
    let third = mbps(exchange(&mut careful, 3_000, 4));
    assert!((90..=93).contains(&third), "{third}");
    let fourth = mbps(exchange(&mut careful, 4_000, 0));
    assert!((50..=55).contains(&fourth), "480 kbit in 5.2 + 4 ms, not at {fourth}");
}
