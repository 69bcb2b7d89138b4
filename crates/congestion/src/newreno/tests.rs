use units::{BitRate, Duration, Instant};

use super::*;
use crate::{Phase, Rtt, test_loop};

const SIZE: u64 = 1_000;

fn controller() -> NewReno {
    NewReno::new(&Config::with_max_datagram_size(SIZE))
}

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

fn ack(now: u64, sent: u64, bytes: u64) -> Ack {
    Ack { now: at(now), bytes, largest_sent_at: at(sent), ..Ack::default() }
}

fn loss(now: u64, sent: u64) -> Loss {
    Loss { now: at(now), bytes: SIZE, packets: 1, largest_sent_at: at(sent), rtt: Rtt::default() }
}

#[test]
fn hand_computed_trace() {
    let mut reno = controller();
    assert_eq!(reno.state(), State { phase: Phase::SlowStart, ssthresh: None, window: 10_000 });
    reno.on_ack(&ack(50, 0, 4_000), &[]);
    assert_eq!(reno.window(), 14_000);

    reno.on_loss(&loss(60, 10), &[]); // halved, once
    assert_eq!(reno.state(), State { phase: Phase::Recovery, ssthresh: Some(7_000), window: 7_000 });
    reno.on_loss(&loss(70, 60), &[]); // sent in the very moment of the reduction: same period
    reno.on_ack(&ack(80, 40, 3_000), &[]); // sent before the reduction: no growth
    assert_eq!(reno.window(), 7_000);

    reno.on_ack(&ack(111, 61, 3_500), &[]); // half a window: half a datagram
    let state = State { phase: Phase::CongestionAvoidance, ssthresh: Some(7_000), window: 7_500 };
    assert_eq!(reno.state(), state);
    reno.on_loss(&loss(120, 61), &[]); // a new period
    assert_eq!(reno.window(), 3_750);
}

#[test]
fn fractions_of_a_byte_add_up() {
    let mut reno = controller();
    reno.on_loss(&loss(10, 1), &[]);
    let mut acked = 0;
    while acked < 5_000 {
        reno.on_ack(&ack(60, 11, 1), &[]); // 0.2 bytes each
        acked += 1;
    }
    // Less than 1000, as the divisor grows meanwhile: w dw = 1000 db gives w = sqrt(5000^2 + 2 *
    // 1000 * 5000) = 5916.
    assert!((5_914..=5_917).contains(&reno.window()), "{}", reno.window());
}

#[test]
fn slow_start_stops_at_the_threshold() {
    let mut reno = controller();
    reno.on_loss(&loss(10, 1), &[]);
    reno.on_persistent_congestion(at(10));
    assert_eq!(reno.state(), State { phase: Phase::SlowStart, ssthresh: Some(5_000), window: 2_000 });
    reno.on_ack(&ack(60, 5, 8_000), &[]); // 3000 up to the threshold, then 5000 in congestion avoidance
    let state = State { phase: Phase::CongestionAvoidance, ssthresh: Some(5_000), window: 6_000 };
    assert_eq!(reno.state(), state);
}

#[test]
fn unused_window_does_not_grow() {
    let mut reno = controller();
    reno.on_ack(&Ack { app_limited: true, ..ack(50, 0, 4_000) }, &[]);
    assert_eq!(reno.window(), 10_000);
}

#[test]
fn persistent_congestion_collapses_the_window_and_ends_the_period() {
    let mut reno = controller();
    reno.on_loss(&loss(10, 9), &[]);
    reno.on_persistent_congestion(at(10));
    assert_eq!(reno.window(), 2_000);
    reno.on_loss(&loss(20, 5), &[]); // not covered any more
    assert_eq!(reno.state(), State { phase: Phase::Recovery, ssthresh: Some(1_000), window: 2_000 });
}

#[test]
fn ecn_counts_as_loss_once_per_period() {
    let mut reno = controller();
    reno.on_ecn_ce(at(10), at(1));
    reno.on_ecn_ce(at(11), at(2));
    reno.on_loss(&loss(12, 3), &[]);
    assert_eq!(reno.window(), 5_000);
}

#[test]
fn datagram_size_resizes_the_initial_window_until_a_loss() {
    let mut reno = controller();
    reno.on_mtu(1_400);
    assert_eq!(reno.window(), 14_000);
    reno.on_ack(&ack(5, 1, 1_000), &[]);
    reno.on_mtu(1_000);
    assert_eq!(reno.window(), 11_000, "what the ACK has added stays");
    reno.on_loss(&loss(10, 6), &[]);
    assert_eq!(reno.window(), 5_500);
    reno.on_mtu(1_400);
    assert_eq!(reno.window(), 5_500);
    reno.on_persistent_congestion(at(10));
    reno.on_mtu(1_500);
    assert_eq!(reno.window(), 3_000);
    reno.on_mtu(1_000);
    assert_eq!(reno.window(), 3_000);
}

#[test]
fn giant_datagrams_do_not_make_giant_initial_windows() {
    let mut reno = controller();
    reno.on_mtu(5_000);
    assert_eq!(reno.window(), 14_720);
    reno.on_mtu(9_000);
    assert_eq!(reno.window(), 18_000);
    reno.on_mtu(1_000);
    assert_eq!(reno.window(), 10_000);
}

#[test]
fn pacing_is_faster_than_the_window_and_twice_in_slow_start() {
    let mut reno = controller();
    let rtt = Rtt { smoothed: Duration::from_millis(100), ..Rtt::default() };
    assert_eq!(reno.pacing_rate(&Rtt::default()), BitRate(u64::MAX));
    assert_eq!(reno.pacing_rate(&rtt), BitRate(1_600_000)); // 2 * 10 kB per 100 ms
    reno.on_loss(&loss(10, 1), &[]);
    assert_eq!(reno.pacing_rate(&rtt), BitRate(500_000)); // 1.25 * 5 kB per 100 ms
}

#[test]
fn throughput_follows_the_inverse_square_root_law() {
    for period in [100, 1_000, 10_000] {
        let mut reno = NewReno::new(&Config::default());
        let outcome = test_loop::run(&mut reno, Duration::from_millis(50), period, 100 * period);
        // The law knows neither the round of the recovery period nor whole packets; both matter for
        // small windows.
        let law = 1.22 * (period as f64).sqrt();
        let ratio = outcome.mean_window / law;
        assert!((0.85..1.05).contains(&ratio), "period {period}: {} against {law}", outcome.mean_window);
        assert!((78..=81).contains(&outcome.reductions), "{}", outcome.reductions); // every loss of 80 periods
    }
}

#[test]
fn spurious_loss_is_undone_but_a_mark_is_not() {
    let mut reno = controller();
    let before = reno.state();
    reno.on_loss(&loss(60, 10), &[]);
    assert!(reno.window() < before.window);
    reno.on_spurious_loss(at(70));
    assert_eq!(reno.state(), before);
    reno.on_spurious_loss(at(71)); // there is nothing left to undo
    assert_eq!(reno.state(), before);

    reno.on_loss(&loss(80, 75), &[]);
    reno.on_ecn_ce(at(81), at(76)); // the same period, but a real signal
    reno.on_spurious_loss(at(82));
    assert!(reno.window() < before.window);
}
