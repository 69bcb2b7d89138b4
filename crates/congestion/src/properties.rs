//! Properties of every controller in the registry, over random histories.

use units::{BitRate, Duration, Instant};

use crate::{Ack, Carried, Config, Controller, ControllerKind, CubicRules, Loss, PathWindow, Phase, Rtt};

/// A small generator (xorshift64*), enough to vary histories from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    /// A number, often one of the largest or 0.
    fn any(&mut self) -> u64 {
        [0, u64::MAX, u64::MAX / 2, 1 << 62, 1_200, 30_000][self.below(6) as usize]
    }

    /// A time, often the longest or none.
    fn time(&mut self) -> Duration {
        let short = Duration::from_micros(self.below(300_000));
        [Duration::ZERO, Duration::MAX, short, short][self.below(4) as usize]
    }
}

/// Applies one random event.
fn step(controller: &mut dyn Controller, random: &mut Random, now: Instant) {
    let sent_at = now - Duration::from_micros(random.below(200_000));
    let sample = Duration::from_micros(1_000 + random.below(200_000));
    let rtt = Rtt { latest: sample, smoothed: sample, min: Duration::from_millis(1), variance: sample };
    let bytes = 1 + random.below(30_000);
    match random.below(20) {
        0 => controller.on_loss(&Loss { now, bytes, packets: 1, largest_sent_at: sent_at, rtt }, &[]),
        1 => controller.on_ecn_ce(now, sent_at),
        2 if random.below(10) == 0 => controller.on_persistent_congestion(now),
        3 => controller.on_spurious_loss(now),
        4 => controller.on_mtu(1_200 + random.below(300)),
        5..=7 => controller.on_sent(now, bytes, bytes + random.below(2) * 1_000),
        n => controller.on_ack(
            &Ack {
                now,
                bytes,
                largest_sent_at: sent_at,
                in_flight_before: bytes,
                app_limited: n == 8,
                ce_bytes: bytes * random.below(2),
                rtt,
                adjusted_rtt: sample,
            },
            &[],
        ),
    }
}

#[test]
fn window_stays_above_the_minimum_and_histories_repeat() {
    for kind in ControllerKind::ALL {
        for (hystart, cubic_rules) in
            [(false, CubicRules::Rfc9438), (true, CubicRules::Rfc9438), (false, CubicRules::Linux)]
        {
            let config = Config { hystart, cubic_rules, ..Config::default() };
            let run = |seed: u64| {
                let (mut controller, mut random) = (kind.build(&config), Random(seed));
                let mut now = Instant::ORIGIN + Duration::from_secs(1);
                for _ in 0..2_000 {
                    now += Duration::from_micros(random.below(20_000));
                    step(&mut *controller, &mut random, now);
                    let state = controller.state();
                    assert!(state.window >= config.minimum_window(), "{kind} seed {seed}: {state:?}");
                    assert_eq!(state.window, controller.window());
                }
                controller.state()
            };
            for seed in 1..=50 {
                assert_eq!(run(seed), run(seed), "{kind} seed {seed}");
            }
        }
    }
}

/// Nothing that a caller says is too large: what no network can do is odd, but no reason to panic.
#[test]
fn numbers_of_any_size_are_taken() {
    for (kind, seed) in ControllerKind::ALL.iter().flat_map(|kind| (1..=20).map(move |seed| (kind, seed))) {
        let mut random = Random(seed);
        let initial_window_packets = random.any();
        let config = Config { initial_window_packets, ..Config::default() };
        let mut controller = kind.build(&config);
        let mut now = Instant::ORIGIN + Duration::from_secs(1);
        for _ in 0..500 {
            now += Duration::from_micros(random.below(50_000));
            extreme_step(&mut *controller, &mut random, now);
            assert!(controller.window() >= config.minimum_window(), "{kind} seed {seed}");
        }
    }
}

/// Applies one random event whose numbers may be as large as there are.
fn extreme_step(controller: &mut dyn Controller, random: &mut Random, now: Instant) {
    let largest_sent_at = now - random.time();
    let [latest, smoothed, min, variance, adjusted_rtt] = std::array::from_fn(|_| random.time());
    let rtt = Rtt { latest, smoothed, min, variance };
    let group = [true, false, false].map(|is_self| PathWindow {
        window: random.any(),
        in_flight: random.any(),
        smoothed_rtt: random.time(),
        is_self,
        inter_loss: random.any(),
        shared: !is_self,
        congested_at: Some(now - random.time()),
        ..PathWindow::default()
    });
    let (bytes, in_flight_before, ce_bytes) = (random.any(), random.any(), random.any());
    match random.below(8) {
        0 => controller.on_loss(&Loss { now, bytes, packets: u32::MAX, largest_sent_at, rtt }, &group),
        1 => controller.on_ecn_ce(now, largest_sent_at),
        2 => controller.set_window(bytes, None),
        3 => {
            let pace = Some(BitRate(in_flight_before));
            controller.resume_from(Carried { window: bytes, min_rtt: min, pace, seen: now });
        }
        4 | 5 => controller.on_sent(now, bytes, in_flight_before),
        _ => controller.on_ack(
            &Ack {
                now,
                bytes,
                largest_sent_at,
                in_flight_before,
                app_limited: random.below(4) == 0,
                ce_bytes,
                rtt,
                adjusted_rtt,
            },
            &group,
        ),
    }
    controller.pacing_rate(&rtt);
}

/// A rate of nothing would hold the path's next packet back for ever, and with it the ACK that says
/// otherwise: a clock that went on while the machine slept makes such round-trip times.
#[test]
fn a_round_trip_of_days_leaves_a_rate() {
    for kind in ControllerKind::ALL {
        let mut controller = kind.build(&Config::default());
        controller.on_persistent_congestion(Instant::from_nanos(1));
        for smoothed in [Duration::from_secs(86_400 * 365), Duration::MAX] {
            assert_ne!(controller.pacing_rate(&Rtt { smoothed, ..Rtt::default() }), BitRate(0), "{kind}");
        }
    }
}

#[test]
fn one_reduction_per_recovery_period() {
    for kind in ControllerKind::ALL {
        let mut controller = kind.build(&Config::default());
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        let loss =
            |now, sent| Loss { now: at(now), largest_sent_at: at(sent), packets: 1, ..Loss::default() };
        controller.on_loss(&loss(100, 50), &[]);
        let reduced = controller.window();
        assert!(reduced < Config::default().initial_window(), "{kind}");
        assert_eq!(controller.state().phase, Phase::Recovery, "{kind}");
        for sent in 51..=100 {
            controller.on_loss(&loss(100 + sent, sent), &[]);
            controller.on_ecn_ce(at(100 + sent), at(sent));
            assert_eq!(controller.window(), reduced, "{kind}");
        }
        controller.on_loss(&loss(300, 201), &[]);
        assert!(controller.window() < reduced, "{kind}");
    }
}

/// It is no loss that might be chance, or spurious.
#[test]
fn a_mark_reduces_every_window_for_good() {
    for kind in ControllerKind::ALL {
        let mut controller = kind.build(&Config::default());
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        controller.on_ecn_ce(at(100), at(50));
        let reduced = controller.window();
        assert!(reduced < Config::default().initial_window(), "{kind}");
        controller.on_spurious_loss(at(120));
        assert_eq!(controller.window(), reduced, "{kind}");
    }
}

/// Slow start ends as a queue of 10 ms grows, and goes on when that is gone: it was jitter, unless the link has marked
/// a packet meanwhile. One leaves every millisecond.
#[test]
fn a_mark_leaves_no_doubt_about_the_end_of_slow_start() {
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    for kind in [ControllerKind::Auto, ControllerKind::Ctcp] {
        let goes_on = |is_marked: fn(u64) -> bool| {
            let mut controller = kind.build(&Config::default());
            for n in 0..200_u64 {
                let queue = n.saturating_sub(60).min(10).min(100_u64.saturating_sub(n));
                let (min, delay) = (Duration::from_millis(50), Duration::from_millis(50 + queue));
                let (now, largest_sent_at) = (at(n) + delay, at(n));
                let rtt = Rtt { latest: delay, smoothed: delay, min, ..Rtt::default() };
                controller.on_sent(largest_sent_at, 1_200, 60 * 1_200);
                if is_marked(n) {
                    controller.on_ecn_ce(now, largest_sent_at);
                }
                controller.on_ack(&Ack { now, bytes: 1_200, largest_sent_at, rtt, ..Ack::default() }, &[]);
            }
            controller.state().phase == Phase::SlowStart
        };
        assert!(goes_on(|_| false), "{kind}");
        assert!(!goes_on(|n| n == 85), "{kind}");
    }
}

#[test]
fn acks_never_lower_the_window_and_more_bytes_never_give_less() {
    for kind in ControllerKind::ALL {
        let mut small = kind.build(&Config::default());
        let mut large = kind.build(&Config::default());
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        for controller in [&mut small, &mut large] {
            controller.on_loss(&Loss { now: at(1), ..Loss::default() }, &[]);
        }
        for round in 1..=200 {
            let rtt = Rtt { smoothed: Duration::from_millis(30), ..Rtt::default() };
            let ack =
                Ack { now: at(round * 30), largest_sent_at: at(round * 30 - 28), rtt, ..Ack::default() };
            let before = (small.window(), large.window());
            small.on_ack(&Ack { bytes: 2_400, ..ack }, &[]);
            large.on_ack(&Ack { bytes: 4_800, ..ack }, &[]);
            assert!(small.window() >= before.0 && large.window() >= before.1, "{kind} round {round}");
            assert!(large.window() >= small.window(), "{kind} round {round}");
        }
    }
}
