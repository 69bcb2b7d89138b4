//! Several paths are never worse than the best of them alone, and a path that is cut costs no more
//! than a moment.
//!
//! `mendpath-tools never-worse` has longer transfers, more pairs and more seeds.

use mendpath_testkit::{
    pairs::{Pair, Quality, compare, transfer},
    response::{Exchange, PathPlan, Response},
    world::World,
};
use netsim::{LinkConfig, Rng, Seed, network::Direction};
use proto::{PathState, RecoveryKind, TransportConfig};
use units::{Duration, Instant};

/// Longer than any response takes.
const NEVER: Duration = Duration::from_secs(600);

#[test]
fn two_paths_are_never_slower_than_the_better_one() {
    let transport = TransportConfig::default();
    for size in [60_000, 1_000_000, 4_000_000] {
        for pair in Pair::named() {
            let comparison = compare(Seed(1), pair, &transport, size).unwrap();
            assert!(
                comparison.to_best() >= 0.95,
                "{pair}, {size} bytes: {} {:?}",
                comparison.both.completion,
                comparison.alone
            );
        }
    }
}

/// A loss while jitter looks like a queue ends slow start. Those that follow show that it was chance, and it goes
/// on; else three of these would take five to six seconds.
#[test]
fn jitter_and_an_early_loss_hold_nobody_back_for_long() {
    let path = Quality { buffer: 1.8, ..Quality::new(190, 70).rough(6, 0.012) };
    let transport = TransportConfig::default();
    let took = |seed| transfer(Seed(seed), &[path], &transport, 4_000_000).unwrap().completion;
    let mut times: Vec<Duration> = (0..100).map(took).collect();
    times.sort_unstable();
    let (half, longest) = (times[50], times[99]);
    println!("{path}: half within {half}, the longest {longest}");
    assert!(longest <= Duration::from_secs(3), "{times:?}");
}

#[test]
fn equal_paths_give_nearly_their_sum() {
    let pair = Pair(Quality::new(50, 20), Quality::new(50, 20));
    let comparison = compare(Seed(2), pair, &TransportConfig::default(), 8 << 20).unwrap();
    assert!(comparison.to_sum() >= 0.9, "{} {:?}", comparison.both.completion, comparison.alone);
}

/// How long a response of three packets takes over a path of 4 ms that loses these of its packets, counted from the
/// request on, beside one of 450 ms.
fn with_the_end_lost(recovery: RecoveryKind, lost: &str) -> Duration {
    let plans = [Quality::new(68, 450), Quality::new(68, 4)].map(|quality| quality.plan());
    let transport = TransportConfig {
        recovery,
        initial_datagram_size: 1_452,
        max_datagram_size: 1_452,
        ..TransportConfig::default()
    };
    let mut exchange = Exchange::establish(Seed(1), &plans, &transport);
    let losing: LinkConfig = format!("drop={lost}").parse().unwrap();
    exchange.lose(1, Direction::Backward, Seed(1), &losing.loss);
    exchange.respond(2_990, |_, _| {}).unwrap().completion
}

/// A probe timeout moves the data to the slow path, where it takes 225 ms. The fast one has answered long before.
#[test]
fn what_was_moved_to_a_slow_path_goes_again_once_the_fast_one_answers() {
    let within = Duration::from_millis(80);
    // The last packet and its repair; the copy over the slow path is as late as what it repeats.
    let took = with_the_end_lost(RecoveryKind::Auto, "2/3");
    assert!(took <= within, "{took}");
    // The last two packets, and the copy of one of them.
    let took = with_the_end_lost(RecoveryKind::None, "1/2/4");
    assert!(took <= within, "{took}");
}

/// A response over two paths, of which one is cut from `cut` to `restored` after the request. Also
/// how many bytes were sent on that path within 2 s of its return.
fn respond_with_cut(
    pair: Pair,
    size: usize,
    victim: usize,
    (cut, restored): (Duration, Duration),
    transport: &TransportConfig,
) -> (Response, u64) {
    let plans: Vec<PathPlan> = [pair.0, pair.1].iter().map(Quality::plan).collect();
    let mut exchange = Exchange::establish(Seed(3), &plans, transport);
    let (start, link) = (exchange.world.now(), exchange.links[victim]);
    let mut sent = [0; 2];
    let response = exchange.request_observed(size, &plans, |world: &mut World, server| {
        let since = world.now() - start;
        let is_cut = world.network_mut().link(link, Direction::Forward).outage().is_some();
        let should = (cut..restored).contains(&since);
        if is_cut != should {
            world.network_mut().change_both(link, |l, now: Instant| {
                if should { l.cut(now, netsim::link::OutageKind::Drop) } else { l.restore(now) }
            });
        }
        let bytes = world.connection(server).paths()[victim].bytes_sent;
        if since < restored {
            sent = [bytes; 2];
        } else if since < restored + Duration::from_secs(2) {
            sent[1] = bytes;
        }
    });
    (response.unwrap(), sent[1] - sent[0])
}

#[test]
fn a_cut_path_stalls_nothing_for_a_second() {
    let mut rng = Rng::new(Seed(7));
    let pairs = Pair::named();
    for n in 0..24 {
        let pair = pairs[n % pairs.len()];
        let victim = (n / pairs.len()) % 2;
        let cut = Duration::from_micros(rng.below(700_000));
        let (response, _) =
            respond_with_cut(pair, 3_000_000, victim, (cut, NEVER), &TransportConfig::default());
        let stall = response.longest_stall;
        assert!(stall <= Duration::from_secs(1), "{pair}, path {victim} cut at {cut}: {stall}");
    }
}

#[test]
fn what_is_stuck_on_a_dead_path_goes_again_without_recovery() {
    let transport = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
    let pair = Pair(Quality::new(10, 20), Quality::new(10, 30));
    let (response, _) = respond_with_cut(pair, 60_000, 1, (Duration::from_millis(16), NEVER), &transport);
    assert!(response.stats.late_copies_sent > 0, "{:?}", response.stats);
    assert_eq!(response.stats.late_copies_sent, response.stats.copies_sent);
    assert!(response.completion < Duration::from_millis(200), "{}", response.completion);
}

/// A silence is one event: the probes that found out when it ended are no sign of how the path loses.
#[test]
fn a_long_cut_is_not_taken_for_chance() {
    let pair = Pair(Quality::new(10, 20), Quality::new(10, 40));
    let (cut, restored) = (Duration::from_secs(1), Duration::from_secs(61));
    let (response, sent) =
        respond_with_cut(pair, 90_000_000, 0, (cut, restored), &TransportConfig::default());
    let path = &response.paths[0];
    assert!(path.packets_lost > 50, "a probe a second, and more: {path:?}");
    assert!(path.chance_loss < 0.01, "{path:?}");
    // Half of what the path carries in a second.
    assert!(sent > 600_000, "{sent} bytes within 2 s of its return");
}

#[test]
fn a_path_is_used_again_soon_after_its_return() {
    for victim in [0, 1] {
        for out_ms in [700, 3_300] {
            let pair = Pair(Quality::new(10, 20), Quality::new(10, 40));
            let restored = Duration::from_millis(500 + out_ms);
            let (response, sent) = respond_with_cut(
                pair,
                12_000_000,
                victim,
                (Duration::from_millis(500), restored),
                &TransportConfig::default(),
            );
            assert!(response.completion > restored + Duration::from_secs(2), "{}", response.completion);
            assert_eq!(response.paths[victim].state, PathState::Active);
            // Half of what the path carries in a second.
            assert!(sent > 600_000, "path {victim} after {out_ms} ms: {sent} bytes within 2 s");
        }
    }
}
