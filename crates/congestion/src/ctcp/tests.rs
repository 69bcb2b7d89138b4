use super::*;
use crate::Rtt;

const SIZE: u64 = 1_000;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

/// An ACK that arrives at `now` for what was sent `rtt` ms before.
fn ack(ctcp: &mut Ctcp, now: u64, rtt: u64, bytes: u64) {
    let rtt = Rtt { latest: Duration::from_millis(rtt), ..Rtt::default() };
    ctcp.on_ack(
        &Ack { now: at(now), largest_sent_at: at(now) - rtt.latest, bytes, rtt, ..Ack::default() },
        &[],
    );
}

fn loss(ctcp: &mut Ctcp, now: u64, sent: u64) {
    ctcp.on_loss(
        &Loss { now: at(now), bytes: SIZE, packets: 1, largest_sent_at: at(sent), ..Loss::default() },
        &[],
    );
}

/// A controller that has seen RTT_min = 50 ms and then, for long, `rtt` ms; in congestion
/// avoidance, with a window near 100 packets.
fn settled(rtt: u64) -> Ctcp {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    for _ in 0..10 {
        ack(&mut ctcp, 60, 50, 9 * SIZE);
    }
    ctcp.window.leave_slow_start();
    for round in 0..6 {
        for n in 0..80 {
            ack(&mut ctcp, 200 + round * 110 + n, rtt, SIZE / 4);
        }
    }
    assert!(!ctcp.window.in_slow_start());
    ctcp
}

#[test]
fn backoff_is_rtt_min_over_rtt() {
    for (rtt, beta) in [(50, 1.0), (100, 0.5), (200, 0.25)] {
        let mut ctcp = settled(rtt);
        let before = ctcp.window.window();
        loss(&mut ctcp, 900, 860);
        let left = ctcp.window.window() / before;
        assert!((left - beta).abs() < 0.02, "{rtt}: {left}");
    }
}

#[test]
fn one_backoff_per_round_trip_but_growth_goes_on() {
    let mut ctcp = settled(100);
    loss(&mut ctcp, 900, 860);
    let reduced = ctcp.window.window();
    loss(&mut ctcp, 910, 870);
    loss(&mut ctcp, 920, 900);
    assert_eq!(ctcp.window.window(), reduced);
    ack(&mut ctcp, 930, 100, SIZE);
    assert!((ctcp.window.window() - reduced - 1e6 / reduced).abs() < 1e-6);
}

#[test]
fn slow_start_ignores_losses_without_a_queue_and_ends_with_one() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    for round in 1..5 {
        for n in 0..10 {
            ack(&mut ctcp, round * 60 + n, 50, SIZE << round);
        }
        loss(&mut ctcp, round * 60 + 10, round * 60 - 40);
    }
    assert_eq!(ctcp.state().phase, Phase::SlowStart);
    assert_eq!(ctcp.window(), (10 + 10 * (2 + 4 + 8 + 16)) * SIZE);
    for n in 0..60 {
        ack(&mut ctcp, 310 + n, 70, SIZE);
    }
    assert_eq!(ctcp.state().phase, Phase::CongestionAvoidance);
}

#[test]
fn slow_start_ends_when_deliveries_stop_growing() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    let mut round = 1;
    while ctcp.window.in_slow_start() {
        ack(&mut ctcp, round * 60, 50, 20 * SIZE); // a policer: no queue, never more than 20 packets per round trip
        round += 1;
        assert!(round < 8, "still in slow start");
    }
}

#[test]
fn more_lost_than_delivered_halves_without_any_delay() {
    let mut ctcp = settled(50);
    let before = ctcp.window.window();
    ack(&mut ctcp, 900, 50, SIZE);
    for n in 0..30 {
        loss(&mut ctcp, 901 + n, 850);
    }
    ack(&mut ctcp, 1_000, 50, 10 * SIZE);
    let left = ctcp.window.window() / before;
    assert!((0.45..0.55).contains(&left), "{left}");
}

#[test]
fn marks_and_losses_before_any_sample_halve() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    loss(&mut ctcp, 10, 5);
    assert_eq!(ctcp.window(), 5_000);
    let mut ctcp = settled(50);
    let before = ctcp.window.window();
    ctcp.on_ecn_ce(at(1_100), at(1_050));
    assert_eq!(ctcp.window.window(), before / 2.0);
}

#[test]
fn persistent_congestion_forgets_rtt_min() {
    let mut ctcp = settled(50);
    ctcp.on_persistent_congestion(at(1_100));
    assert_eq!((ctcp.window(), ctcp.base.min()), (2_000, None));
    ack(&mut ctcp, 1_300, 80, SIZE);
    assert_eq!(ctcp.base.min(), Some(Duration::from_millis(80)));
}

#[test]
fn a_probe_halves_what_may_be_in_flight_and_nothing_else() {
    let mut ctcp = settled(60);
    let mut now = 12_000;
    ack(&mut ctcp, now, 60, SIZE);
    let window = ctcp.window.window();
    assert_eq!(ctcp.window(), (window / 2.0) as u64);
    while ctcp.base.is_probing() {
        now += 10;
        ack(&mut ctcp, now, 60, SIZE);
        assert!(now < 12_200);
    }
    assert_eq!(ctcp.base.min(), Some(Duration::from_millis(60)));
    assert!(ctcp.window() >= window as u64);
}

#[test]
fn a_gap_does_not_confirm_the_end_of_slow_start() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    for n in 0..10 {
        ack(&mut ctcp, 60 + n, 50, 2 * SIZE);
    }
    // A burst of our own waits at the bottleneck, which ends slow start, and loses a packet by
    // chance.
    for n in 0..10 {
        ack(&mut ctcp, 110 + n, 70, SIZE);
    }
    assert!(!ctcp.window.in_slow_start());
    loss(&mut ctcp, 121, 60);
    // Two round trips without a queue: it goes on.
    for round in [180, 240, 300] {
        for n in 0..20 {
            ack(&mut ctcp, round + n, 50, SIZE / 4);
        }
    }
    assert!(ctcp.window.in_slow_start());
}

#[test]
fn a_few_packets_lost_of_a_few_halve_nothing() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    ack(&mut ctcp, 60, 50, 3 * SIZE);
    for n in 0..7 {
        loss(&mut ctcp, 61 + n, 5); // of the first ten packets
    }
    ack(&mut ctcp, 120, 50, SIZE);
    assert!(ctcp.window() >= 13 * SIZE && ctcp.window.in_slow_start());
}

#[test]
fn slow_start_is_not_probed() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    let mut bytes = SIZE;
    for now in (60..2_000).step_by(200) {
        ack(&mut ctcp, now, 50, bytes);
        bytes *= 2;
        assert!(ctcp.window.in_slow_start() && !ctcp.base.is_probing());
    }
}

#[test]
fn a_gap_that_the_first_ack_shows_is_no_queue() {
    let mut ctcp = Ctcp::new(&Config::with_max_datagram_size(SIZE));
    let rtt = Rtt { latest: Duration::from_millis(50), ..Rtt::default() };
    ctcp.on_loss(&Loss { now: at(50), bytes: SIZE, packets: 1, largest_sent_at: at(0), rtt }, &[]);
    ack(&mut ctcp, 50, 50, SIZE);
    assert_eq!((ctcp.window(), ctcp.state().phase), (11 * SIZE, Phase::SlowStart));
}
