use units::{Duration, Instant};

use super::*;
use crate::{NewReno, Phase, Rtt, test_loop};

const SIZE: u64 = 1_000;

fn config() -> Config {
    Config::with_max_datagram_size(SIZE)
}

/// A controller whose window is 100 packets.
fn hundred_packets() -> Cubic {
    let mut cubic = Cubic::new(&config());
    cubic.on_ack(&ack(0, 0, 90 * SIZE), &[]);
    assert_eq!(cubic.window(), 100 * SIZE);
    cubic
}

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(ms)
}

fn rtt(ms: u64) -> Rtt {
    let sample = Duration::from_millis(ms);
    Rtt { latest: sample, smoothed: sample, min: sample, variance: Duration::ZERO }
}

fn ack(now: u64, sent: u64, bytes: u64) -> Ack {
    Ack { now: at(now), bytes, largest_sent_at: at(sent), rtt: rtt(100), ..Ack::default() }
}

fn loss(now: u64, sent: u64) -> Loss {
    Loss { now: at(now), bytes: SIZE, packets: 1, largest_sent_at: at(sent), rtt: rtt(100) }
}

#[test]
fn cube_root_is_exact_enough() {
    for (x, root) in [(0.0, 0.0), (27.0, 3.0), (1e-9, 1e-3), (1e15, 1e5), (75.0, 4.217163326508746)] {
        assert!((cube_root(x) - root).abs() <= root * 1e-14, "{x}");
    }
}

#[test]
fn k_and_w_cubic_are_the_formulae() {
    // W_max = 100 segments and a window of 70: K = cbrt(30 / 0.4).
    let epoch = Epoch::new(at(0), 70_000.0, Some(100_000.0), SIZE as f64);
    assert!((epoch.k - 4.217163).abs() < 1e-6);
    let w = |seconds: f64| epoch.w_cubic(Duration::from_secs_f64(seconds), SIZE as f64);
    assert!((w(0.0) - 70_000.0).abs() < 1e-6);
    assert!((w(epoch.k) - 100_000.0).abs() < 1e-3);
    assert!((w(epoch.k + 1.0) - 100_400.0).abs() < 1e-3); // C segments after one second
    assert!((w(1.0) - 86_676.0).abs() < 5.0); // 100 - 0.4 * 3.217163^3 = 86.681
}

#[test]
fn loss_multiplies_by_seven_tenths_once_per_period() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 5), &[]);
    assert_eq!(cubic.state(), State { phase: Phase::Recovery, ssthresh: Some(70_000), window: 70_000 });
    cubic.on_loss(&loss(11, 10), &[]);
    cubic.on_ack(&ack(12, 10, SIZE), &[]);
    assert_eq!(cubic.window(), 70_000);
    assert_eq!(cubic.curve.w_max, Some(100_000.0));
}

#[test]
fn fast_convergence_gives_room_to_new_flows() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 5), &[]);
    cubic.on_loss(&loss(200, 100), &[]); // again, below the old W_max
    assert_eq!(cubic.window(), 49_000);
    assert_eq!(cubic.curve.w_max, Some(70_000.0 * 0.85));
}

/// Acknowledges one window per RTT of 100 ms from `from` to `to`.
fn run_rounds(cubic: &mut Cubic, from: u64, to: u64) {
    for now in (from..=to).step_by(100) {
        for _ in 0..10 {
            cubic.on_ack(&ack(now, now - 100, cubic.window() / 10), &[]);
        }
    }
}

#[test]
fn window_returns_to_w_max_at_k_and_then_probes() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 5), &[]);
    run_rounds(&mut cubic, 200, 200 + 2_000);
    let concave = cubic.window();
    assert!((95_000..=97_600).contains(&concave), "{concave}"); // W_cubic(2.1 s) = 96.2
    run_rounds(&mut cubic, 2_300, 200 + 4_200);
    assert!((99_000..=100_500).contains(&cubic.window()), "{}", cubic.window());
    run_rounds(&mut cubic, 4_500, 200 + 9_200);
    // W_cubic(9.3 s) = 100 + 0.4 * 5.08^3 = 152.5; the window lags behind by less than a round.
    assert!((143_000..=153_000).contains(&cubic.window()), "{}", cubic.window());
}

#[test]
fn growth_per_window_is_capped_at_half() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 5), &[]);
    cubic.on_ack(&ack(200, 150, SIZE), &[]);
    let before = cubic.window();
    cubic.on_ack(&ack(60_000, 59_900, before), &[]); // the formula says 70 thousand packets
    let after = cubic.window();
    assert!(after > before * 4 / 3 && after <= before * 3 / 2 + 1, "{before} to {after}");
}

#[test]
fn time_stands_still_while_the_application_is_slow() {
    let mut busy = hundred_packets();
    busy.on_loss(&loss(10, 5), &[]);
    run_rounds(&mut busy, 200, 500);
    let mut limited = busy.clone();
    let mut idle = busy.clone();

    limited.on_ack(&Ack { app_limited: true, ..ack(600, 500, SIZE) }, &[]);
    limited.on_ack(&Ack { app_limited: true, ..ack(50_000, 49_900, SIZE) }, &[]);
    limited.on_ack(&ack(50_600, 50_500, 50_000), &[]);
    idle.on_sent(at(50_500), SIZE, SIZE);
    idle.on_ack(&ack(50_600, 50_500, 50_000), &[]);
    busy.on_ack(&ack(600, 500, 50_000), &[]);

    assert_eq!(limited.window(), busy.window());
    assert_eq!(idle.window(), busy.window());
}

#[test]
fn spurious_loss_is_undone() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 5), &[]);
    run_rounds(&mut cubic, 200, 600);
    let before = cubic.state();
    let k = cubic.curve.epoch.unwrap().k;
    cubic.on_loss(&loss(650, 600), &[]);
    assert!(cubic.window() < before.window);
    cubic.on_spurious_loss(at(660));
    assert_eq!(cubic.state(), before);
    assert_eq!(cubic.curve.epoch.unwrap().k, k);
    cubic.on_spurious_loss(at(670)); // there is nothing left to undo
    assert_eq!(cubic.state(), before);

    cubic.on_loss(&loss(700, 650), &[]);
    cubic.on_ecn_ce(at(701), at(660)); // a real signal in the same period
    cubic.on_spurious_loss(at(702));
    assert!(cubic.window() < before.window);
}

#[test]
fn persistent_congestion_starts_over_with_a_plateau_at_the_threshold() {
    let mut cubic = hundred_packets();
    cubic.on_loss(&loss(10, 9), &[]);
    cubic.on_persistent_congestion(at(10));
    assert_eq!(cubic.state(), State { phase: Phase::SlowStart, ssthresh: Some(70_000), window: 2_000 });
    cubic.on_ack(&ack(300, 200, 69_000), &[]);
    let epoch = cubic.curve.epoch.unwrap();
    assert_eq!((epoch.k, epoch.w_max), (0.0, 70_000.0));
}

#[test]
fn hystart_leaves_slow_start_without_loss() {
    let mut cubic = Cubic::new(&Config { hystart: true, ..config() });
    for round in 1..=20_u64 {
        let sample = rtt(if round < 4 { 50 } else { 70 });
        let now = round * 100;
        for _ in 0..10 {
            cubic.on_ack(&Ack { rtt: sample, ..ack(now, now - 100, cubic.window() / 20) }, &[]);
        }
    }
    let state = cubic.state();
    assert_eq!(state.phase, Phase::CongestionAvoidance);
    assert!(state.ssthresh.is_some_and(|ssthresh| ssthresh <= state.window));
}

#[test]
fn friendly_estimate_by_specification_and_kernel() {
    // 100 segments reduced to 70 with an RTT of 1 ms, so that W_cubic stands still; 0.529 per round
    // trip up to 100 in both.
    let rounds = |rules, from: u64, to: u64| {
        let mut cubic = Cubic::new(&Config { cubic_rules: rules, ..config() });
        cubic.on_ack(&ack(0, 0, 90 * SIZE), &[]);
        cubic.on_loss(&loss(10, 5), &[]);
        let mut windows = Vec::new();
        for round in 1..=to {
            for _ in 0..10 {
                let rtt = rtt(1);
                cubic.on_ack(&Ack { rtt, ..ack(10 + round, 9 + round + 1, cubic.window() / 10) }, &[]);
            }
            windows.push(cubic.window() as f64 / SIZE as f64);
        }
        (windows[to as usize - 1] - windows[from as usize - 1]) / (to - from) as f64
    };
    for (rules, from, to, per_round) in [
        (CubicRules::Rfc9438, 10, 50, ALPHA),
        (CubicRules::Linux, 10, 50, ALPHA),
        (CubicRules::Rfc9438, 60, 120, 1.0), // 30 / 0.529 = 56.7 rounds
        (CubicRules::Linux, 60, 120, ALPHA),
    ] {
        let found = rounds(rules, from, to);
        assert!((found / per_round - 1.0).abs() < 0.03, "{rules:?} {from}-{to}: {found}");
    }
}

#[test]
fn kernels_reductions_are_in_whole_segments() {
    let mut cubic = Cubic::new(&Config { cubic_rules: CubicRules::Linux, ..config() });
    cubic.on_ack(&ack(0, 0, 2 * SIZE + 900), &[]);
    cubic.on_loss(&loss(10, 5), &[]); // 12.9 segments are 12, and seven tenths of that 8
    assert_eq!(cubic.state(), State { phase: Phase::Recovery, ssthresh: Some(8 * SIZE), window: 8 * SIZE });
    for now in [20, 30, 40, 50, 60] {
        cubic.on_loss(&loss(now, now - 5), &[]);
    }
    assert_eq!(cubic.window(), 2 * SIZE);
}

#[test]
fn kernels_window_grows_by_a_twentieth_until_the_first_reduction() {
    let mut cubic = Cubic::new(&Config { cubic_rules: CubicRules::Linux, ..config() });
    cubic.on_ack(&ack(100, 0, 10 * SIZE), &[]);
    // Acknowledgements within 2 ms for more than half of 101 ms: the original HyStart.
    (0..60).for_each(|ms| cubic.on_ack(&ack(200 + ms, 50, SIZE), &[]));
    let left = cubic.state().ssthresh.expect("slow start was left");
    assert_eq!(left, (20 + 51) * SIZE);
    let before = cubic.window();
    cubic.on_ack(&ack(300, 250, before), &[]);
    assert!((cubic.window() as f64 / before as f64 - 1.05).abs() < 1e-3, "{before} {}", cubic.window());
    cubic.on_loss(&loss(310, 305), &[]);
    let reduced = cubic.window();
    cubic.on_ack(&ack(400, 320, reduced), &[]);
    assert!(cubic.window() < reduced + 6 * SIZE / 5, "{reduced} {}", cubic.window());
}

#[test]
fn is_reno_where_reno_is_fast_and_cubic_where_it_is_slow() {
    // Short RTT: section 4.3's Reno-friendly region.
    let short = Duration::from_millis(5);
    let mut reno = NewReno::new(&Config::default());
    let mut cubic = Cubic::new(&Config::default());
    let as_reno = test_loop::run(&mut reno, short, 500, 50_000).mean_window;
    let friendly = test_loop::run(&mut cubic, short, 500, 50_000).mean_window;
    assert!((0.9..1.25).contains(&(friendly / as_reno)), "{friendly} against {as_reno}");

    // Long RTT and rare loss: section 5.1's average window, 1.054 (RTT / p)^(3/4).
    let mut cubic = Cubic::new(&Config::default());
    let outcome = test_loop::run(&mut cubic, Duration::from_millis(100), 20_000, 1_200_000);
    let law = 1.054 * (0.1_f64 * 20_000.0).powf(0.75);
    let ratio = outcome.mean_window / law;
    assert!((0.9..1.1).contains(&ratio), "{} against {law}", outcome.mean_window);
}
