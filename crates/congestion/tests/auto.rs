//! What `auto` promises: CTCP's goodput on lossy paths, CUBIC's manners on others
//! (docs/decisions/0011-auto-congestion.md).

mod network;

use std::ops::Range;

use mendpath_congestion::ControllerKind::{Auto, Cubic, NewReno};
use mendpath_congestion::{Ack, Config, Controller, Loss, Phase, Precedents, Rtt};
use network::{
    Chain, Link, Network, Path,
    lab::{goodput_on_another_route, goodput_with_jitter, lab, pair},
};
use units::{Duration, Instant};

#[test]
fn goodput_hardly_depends_on_loss() {
    for seed in 1..=2 {
        for (quarters, loss) in [(5, 0.01), (5, 0.05), (5, 0.1), (5, 0.2), (1, 0.01), (1, 0.2)] {
            let mut network = lab(quarters, seed);
            network.flow(Auto, &[Path::new(25).loss(loss)], Duration::ZERO);
            let rate = network.goodput(0, 30)[0][0];
            assert!(rate >= 25.0 * 0.95, "loss {loss}, buffer {quarters}/4, seed {seed}: {rate}");
        }
    }
}

/// Goodput as a share of 50 Mbit/s in the first 15 s at 40 ms, with a buffer of `quarters` quarters
/// of a bandwidth-delay product.
fn bursty(chain: Chain, quarters: u64, seed: u64) -> f64 {
    let mut network = Network::new(&[Link::new(50, 250_000 * quarters / 4)], seed);
    network.flow(Auto, &[Path::new(40).chain(chain)], Duration::ZERO);
    network.goodput(0, 15)[0][0] / 50.0
}

/// Bursts of 2 to 20 packets on average, in slow start as well; docs/decisions/0014-bursty-loss.md
/// has more of them.
#[test]
fn bursts_by_chance_are_no_congestion() {
    for (chain, least) in [
        (Chain::new(0.005, 0.3, 0.5), 0.96),
        (Chain::new(0.01, 0.2, 1.0), 0.92),
        (Chain::new(0.002, 0.1, 1.0), 0.93),
        (Chain::new(0.025, 0.5, 1.0), 0.91),
        (Chain::new(0.0002, 0.05, 1.0), 0.95),
        (Chain::new(0.0025, 0.05, 1.0), 0.895),
    ] {
        let mean = (21..=32).map(|seed| bursty(chain, 4, seed)).sum::<f64>() / 12.0;
        assert!(mean >= least, "{chain:?}: {mean}");
    }
}

/// Rare bursts cut the window one by one, each before it is known to be chance; what that has taken comes
/// back, and does not have to grow (docs/decisions/0036-reductions-taken-back.md).
#[test]
fn what_bursts_have_taken_comes_back() {
    for seed in 1..=6 {
        let mut network = Network::new(&[Link::new(50, 250_000)], seed);
        network.flow(Auto, &[Path::new(40).chain(Chain::new(0.002, 0.1, 1.0))], Duration::ZERO);
        let early = network.goodput(1, 6)[0][0];
        assert!(early >= 0.88 * 50.0, "seed {seed}: {early}");
    }
}

/// Beside a flow that does not give way to bursts, CUBIC has what the bursts leave it.
#[test]
fn takes_hardly_anything_from_tcp_where_losses_come_in_bursts() {
    let chain = Chain::new(0.002, 0.1, 1.0);
    let second = |first| {
        let one = |seed| {
            let mut network = lab(5, seed);
            network.flow(first, &[Path::new(25).chain(chain)], Duration::ZERO);
            network.flow(Cubic, &[Path::new(25).chain(chain)], Duration::from_secs(5));
            network.goodput(15, 45)[1][0]
        };
        (31..=34).map(one).sum::<f64>() / 4.0
    };
    let (with_auto, with_cubic) = (second(Auto), second(Cubic));
    assert!(with_auto >= 0.75 * with_cubic, "{with_auto} instead of {with_cubic}");
}

/// What overflows goes on overflowing: no burst that could have been chance.
#[test]
fn a_burst_that_goes_on_is_congestion() {
    // A policer that begins: a sixth of the rate, and next to no buffer.
    let mut network = Network::new(&[Link::new(50, 250_000)], 41);
    network.flow(Auto, &[Path::new(40).chain(Chain::new(0.002, 0.1, 1.0))], Duration::ZERO);
    network.run_until(Duration::from_secs(10));
    network.links[0].rate = units::BitRate::from_mbps(8);
    network.links[0].buffer = 8 * network::SIZE;
    network.run_until(Duration::from_secs(13));
    let before = network.links[0].overflows;
    let rate = network.goodput(13, 28)[0][0];
    let share =
        (network.links[0].overflows - before) as f64 * network::SIZE as f64 / (rate * 15.0 * 125_000.0);
    assert!(share < 0.05 && rate >= 0.6 * 8.0, "{share} of {rate} Mbit/s");
}

#[test]
fn jitter_does_not_starve() {
    for rtt in [10, 25, 100] {
        for loss in [0.0, 0.01, 0.05] {
            let rate = goodput_with_jitter(Auto, rtt, loss, false);
            assert!(rate >= 0.85 * 25.0, "{rtt} ms, loss {loss}: {rate}");
        }
    }
}

/// On fast paths that reorder, a loss is known of long after what was sent next has arrived.
#[test]
fn losses_where_packets_overtake_each_other_are_no_load_s() {
    for (rate, rtt, jitter) in [(50, 40, 6), (50, 40, 12), (190, 70, 2), (190, 70, 12)] {
        let mut network = Network::new(&[Link::new(rate, rate * 125 * rtt)], 1);
        network.flow(Auto, &[Path::new(rtt).loss(0.01).jitter(jitter, true)], Duration::ZERO);
        let share = network.goodput(2, 12)[0][0] / rate as f64;
        assert!(share >= 0.95, "{rate} Mbit/s, {rtt} ms, jitter {jitter} ms: {share}");
    }
}

/// A sender on a busy machine sends in bursts, and the queue that overflows is empty in between: no
/// round trip shows it.
#[test]
fn a_queue_that_bursts_hide_is_found_out() {
    for (rtt, quarters) in [(10, 4), (25, 1)] {
        let mut network = Network::new(&[Link::new(25, 25 * 125 * rtt * quarters / 4)], 1);
        let nap = if rtt == 10 { 3 } else { 2 };
        network.flow(Auto, &[Path::new(rtt).nap(nap)], Duration::ZERO);
        network.goodput(0, 3);
        let before = network.links[0].overflows;
        let rate = network.goodput(3, 23)[0][0];
        let overflows = (network.links[0].overflows - before) as f64 * network::SIZE as f64;
        let share = overflows / (rate * 20.0 * 125_000.0);
        assert!(share < 0.03, "{rtt} ms: {share}");
        assert!(rate >= 0.9 * 25.0, "{rtt} ms: {rate}");
    }
}

/// Jitter hides a quarter of a bandwidth-delay product from whoever looks at delays alone; that losses
/// come when they are longest it does not hide.
#[test]
fn a_queue_that_jitter_hides_hardly_overflows() {
    for jitter in [5, 8] {
        let share = (1..=3).map(|seed| {
            let mut network = lab(1, seed);
            network.flow(Auto, &[Path::new(25).jitter(jitter, false)], Duration::ZERO);
            let delivered = network.goodput(0, 30)[0][0] * 30.0 * 125_000.0 / network::SIZE as f64;
            network.links[0].overflows as f64 / delivered
        });
        let share = share.sum::<f64>() / 3.0;
        assert!(share < 0.004, "{jitter} ms: {share}");
    }
}

#[test]
fn jitter_does_not_end_slow_start() {
    for (rate, rtt, jitter) in [(100, 50, 2), (100, 50, 5), (300, 8, 2)] {
        for seed in 1..=3 {
            let mut network = Network::new(&[Link::new(rate, rate * 125 * rtt)], seed);
            network.flow(Auto, &[Path::new(rtt).jitter(jitter, false)], Duration::ZERO);
            let mbps = network.goodput(0, 2)[0][0];
            assert!(
                mbps >= 0.8 * rate as f64,
                "{rate} Mbit/s, {rtt} ms, jitter {jitter}, seed {seed}: {mbps}"
            );
        }
    }
}

#[test]
fn shares_a_loss_free_link_with_others_and_itself() {
    for quarters in [1, 2, 4] {
        for other in [Auto, Cubic, NewReno] {
            for kinds in [[Auto, other], [other, Auto]] {
                let [a, b] = pair(kinds, quarters, 0.0, 4);
                let share = a.min(b) / (a + b);
                assert!(share >= 0.4, "{kinds:?}, buffer {quarters}/4: {a} and {b}");
                assert!(a + b >= 0.9 * 25.0, "{kinds:?}, buffer {quarters}/4: {a} and {b}");
            }
        }
    }
}

/// Where jitter hides the queue, each of two flows takes the other's overflow for chance, unless it
/// asks again (docs/decisions/0017-late-flows.md).
#[test]
fn shares_a_queue_that_nobody_sees_with_itself() {
    let larger = |seed| {
        let mut network = lab(1, seed);
        let path = Path::new(25).jitter(5, false);
        network.flow(Auto, &[path], Duration::ZERO);
        network.flow(Auto, &[path], Duration::from_secs(5));
        let rates = network.goodput(15, 45);
        let (a, b) = (rates[0][0], rates[1][0]);
        a.max(b) / (a + b)
    };
    let mean = (1..=8).map(larger).sum::<f64>() / 8.0;
    assert!(mean <= 0.58, "{mean}");
}

#[test]
fn takes_hardly_anything_from_tcp_on_a_lossy_link() {
    for loss in [0.01, 0.05] {
        let mean = |first| (1..=4).map(|seed| pair([first, NewReno], 5, loss, seed)[1]).sum::<f64>() / 4.0;
        let (with_auto, with_tcp) = (mean(Auto), mean(NewReno));
        assert!(with_auto >= 0.85 * with_tcp, "loss {loss}: {with_auto} instead of {with_tcp}");
    }
}

#[test]
fn two_flows_share_a_lossy_link() {
    for loss in [0.01, 0.05] {
        let [a, b] = pair([Auto, Auto], 5, loss, 2);
        let share = a / (a + b);
        assert!((0.35..=0.65).contains(&share), "loss {loss}: {a} and {b}");
        assert!(a + b >= 25.0 * 0.93, "loss {loss}: {a} and {b}");
    }
}

#[test]
fn survives_a_change_of_route() {
    for (before, after) in [(25, 75), (75, 25)] {
        let rate = goodput_on_another_route(Auto, before, after);
        assert!(rate >= 0.85 * 25.0, "{before} to {after} ms: {rate}");
    }
}

#[test]
fn a_rate_that_falls_is_followed() {
    // To a tenth, with 2 % of loss besides: what is lost by the full queue must not be taken for
    // chance.
    let mut network = Network::new(&[Link::new(50, 156_250)], 9);
    network.flow(Auto, &[Path::new(25).loss(0.02)], Duration::ZERO);
    network.run_until(Duration::from_secs(10));
    network.links[0].rate = units::BitRate::from_mbps(5);
    network.run_until(Duration::from_secs(15));
    let (before, lost) = (network.links[0].overflows, network.delivered(0, 0));
    let rate = network.goodput(15, 25)[0][0];
    assert!(rate >= 0.9 * 5.0, "{rate}");
    let delivered = (network.delivered(0, 0) - lost) / network::SIZE;
    assert!(network.links[0].overflows - before < delivered / 20, "{}", network.links[0].overflows - before);
}

/// A packet a millisecond, answered after 50 ms and what `queue` says in hundreds of microseconds;
/// each of `lost` is told of three packets later. Returns whether the path is in slow start after each.
///
/// Where it is `app_limited`, nothing but losses ends slow start.
fn drive(
    app_limited: impl Fn(u64) -> bool,
    lost: &[u64],
    queue: impl Fn(u64) -> u64,
    packets: u64,
) -> Vec<bool> {
    const SIZE: u64 = 1_200;
    let mut auto: Box<dyn Controller> = Auto.build(&Config::default());
    let at = |n: u64| Instant::ORIGIN + Duration::from_millis(n);
    let in_slow_start = |n| {
        let delay = Duration::from_millis(50) + Duration::from_micros(100) * queue(n);
        let rtt = Rtt { latest: delay, smoothed: delay, min: Duration::from_millis(50), ..Rtt::default() };
        let now = at(n) + delay;
        auto.on_sent(at(n), SIZE, 50 * SIZE);
        if !lost.contains(&n) {
            let largest_sent_at = at(n);
            let ack = Ack {
                now,
                bytes: SIZE,
                largest_sent_at,
                app_limited: app_limited(n),
                rtt,
                adjusted_rtt: delay,
                ..Ack::default()
            };
            auto.on_ack(&ack, &[]);
        }
        if let Some(told) = n.checked_sub(3).filter(|n| lost.contains(n)) {
            let loss = Loss { now, bytes: SIZE, packets: 1, largest_sent_at: at(told), rtt };
            auto.on_loss(&loss, &[]);
        }
        auto.state().phase == Phase::SlowStart
    };
    (0..packets).map(in_slow_start).collect()
}

#[test]
fn slow_start_that_delays_have_ended_goes_on_once_losses_are_chance() {
    // A queue of up to 2 ms whose fullest moment loses a packet; later there is none.
    let queue = |n| if n < 40 { n / 2 } else { 0 };
    let after = |lost: &[u64]| drive(|_| true, lost, queue, 900);
    let ended = after(&[37]);
    assert!(ended[39] && !ended[40] && !ended[899], "nothing has spoken against it");
    assert!(!after(&[37, 200, 300])[899], "two losses without delay may be");
    let resumed = after(&[37, 200, 300, 400, 500]);
    assert!(!resumed[499] && resumed[899], "four are chance");
}

#[test]
fn a_queue_that_was_given_up_was_no_jitter() {
    // One packet of twenty is lost; for 80 ms there is a queue of 20.
    let lost: Vec<u64> = (10..400).step_by(20).collect();
    let queue = |n| if (100..180).contains(&n) { 200 } else { 0 };
    let given_up = drive(|_| false, &lost, queue, 900);
    assert!(given_up[99] && !given_up[107..].contains(&true), "a loss has reduced the window since");
    let by_itself = drive(|_| false, &lost[..3], queue, 900);
    assert!(!by_itself[107] && by_itself[250], "the delay went, and the window had stayed");
}

#[test]
fn a_delay_behind_few_packets_that_was_given_up_may_have_been_jitter() {
    // The same with a window of 18 packets, which is not filled before or after slow start ends.
    let lost: Vec<u64> = (10..400).step_by(20).collect();
    let queue = |n| if (100..180).contains(&n) { 200 } else { 0 };
    let after = |lost: &[u64]| drive(|n| !(100..110).contains(&n), lost, queue, 900);
    let resumed = after(&lost);
    assert!(resumed[106] && !resumed[107..200].contains(&true), "the delay ends it");
    assert!(resumed[899], "losses without it are chance");
    assert!(!after(&lost[..6])[899], "nothing has spoken against it since the loss within it");
}

#[test]
fn a_delay_that_explained_losses_may_have_been_jitter_if_they_go_on_without_it() {
    // Every seventh packet is lost, the first of them within 20 ms of a short or a longer delay.
    let delayed = |delay| move |n| if (20..40).contains(&n) { delay } else { 0 };
    let lost: Vec<u64> = (20..400).step_by(7).collect();
    let after = |lost: &[u64]| drive(|_| true, lost, delayed(10), 900);
    assert!(after(&lost)[899] && !after(&lost[..3])[899], "losses with a short queue ended it");
    let lost: Vec<u64> = (10..400).step_by(7).collect();
    let after = |lost: &[u64]| drive(|_| false, lost, delayed(100), 900)[100..].contains(&true);
    assert!(after(&lost) && !after(&lost[..5]), "it was in doubt when losses looked like the load's");
}

#[test]
fn a_long_path_is_not_probed_for_what_slow_start_has_shown() {
    // 100 Mbit/s and 600 ms, buffer of one bandwidth-delay product. The first probe would come when slow start is over.
    let mut network = Network::new(&[Link::new(100, 7_500_000)], 3);
    network.flow(Auto, &[Path::new(600).loss(0.01)], Duration::ZERO);
    let each: Vec<f64> = (14..20).map(|s| network.goodput(s, s + 1)[0][0]).collect();
    assert!(each.iter().all(|rate| *rate >= 95.0), "{each:?}");
}

/// After which packets the window is smaller: one leaves every millisecond of `sent`, none is lost, and `rtt` says in ms
/// after what time it is answered, and which is the smallest that the transport knows of.
fn shrinks(auto: &mut dyn Controller, sent: Range<u64>, rtt: impl Fn(u64) -> [u64; 2]) -> Vec<u64> {
    const SIZE: u64 = 1_200;
    let at = |n: u64| Instant::ORIGIN + Duration::from_millis(n);
    let mut is_smaller_after = |n: u64| {
        let before = auto.window();
        let [delay, min] = rtt(n).map(Duration::from_millis);
        let rtt = Rtt { latest: delay, smoothed: delay, min, ..Rtt::default() };
        auto.on_sent(at(n), SIZE, 75 * SIZE);
        let (now, largest_sent_at) = (at(n) + delay, at(n));
        let ack = Ack { now, bytes: SIZE, largest_sent_at, rtt, adjusted_rtt: delay, ..Ack::default() };
        auto.on_ack(&ack, &[]);
        auto.window() < before
    };
    sent.filter(|n| is_smaller_after(*n)).collect()
}

/// One that earlier connections have told of a round trip of so many ms.
fn auto_that_knows(ms: u64) -> Box<dyn Controller> {
    let mut auto = Auto.build(&Config::default());
    let mut precedents = Precedents::default();
    precedents.begin(Instant::ORIGIN, Duration::from_millis(ms));
    auto.recall(&precedents);
    auto
}

/// Behind the address of a host that was 40 ms away is another one, 75 ms away.
#[test]
fn a_round_trip_that_only_earlier_connections_had_is_measured_again() {
    let mut auto = auto_that_knows(40);
    let smaller = shrinks(&mut *auto, 1_000..30_000, |_| [75, 75]);
    // Ten seconds after the first sample, once: then it is known.
    assert!(matches!(smaller[..], [11_000..=11_100]), "{smaller:?}");
}

/// The same behind a satellite: 20 round trips of 550 ms are more than ten seconds.
#[test]
fn a_long_route_is_measured_no_later_than_a_short_one() {
    let mut auto = auto_that_knows(550);
    let smaller = shrinks(&mut *auto, 1_000..30_000, |_| [600, 600]);
    assert!(matches!(smaller[..], [11_000..=11_100]), "{smaller:?}");
}

/// The route of a path that loses nothing gets longer after 5 s, and after 20 s the transport has forgotten what it was.
#[test]
fn a_route_that_got_longer_is_measured_once_its_old_round_trip_is_forgotten() {
    let mut auto = Auto.build(&Config::default());
    let rtt = |n: u64| [5_000, 20_000].map(|until| if n < until { 40 } else { 75 });
    let smaller = shrinks(&mut *auto, 0..40_000, rtt);
    assert_eq!(smaller, [20_000]);
}
