//! What paths, windows and recovery do over time, on networks made for one question each.

use mendpath_testkit::response::{Exchange, PathPlan, Response};
use netsim::{LinkConfig, Loss, Seed};
use proto::{ControllerKind, RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

fn path(mbps: u64, rtt_ms: u64) -> PathPlan {
    let link = LinkConfig::new().rate(BitRate::from_mbps(mbps)).delay(Duration::from_millis(rtt_ms) / 2);
    PathPlan::symmetric(link, Loss::None)
}

fn transport(recovery: RecoveryKind) -> TransportConfig {
    TransportConfig {
        recovery,
        initial_datagram_size: 1_452,
        max_datagram_size: 1_452,
        ..TransportConfig::default()
    }
}

fn respond(seed: u64, paths: &[PathPlan], transport: &TransportConfig, size: usize) -> Response {
    Exchange::establish(Seed(seed), paths, transport).request(size, paths).unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn data_stuck_on_a_dead_path_moves_at_its_first_probe_timeout() {
    let dead = Loss::Bernoulli(LossRate::new(1.0).unwrap());
    // Too slow for a late copy to help.
    let paths = [path(100, 300), path(100, 50).losing(dead)];
    let mut exchange = Exchange::establish(Seed(1), &paths, &transport(RecoveryKind::None));
    let began = exchange.world.now();
    let (mut last_sent, mut suspected, mut before) = (None, None, None);
    let response = exchange.request_observed(60_000, &paths, |world, server| {
        let path = world.connection(server).paths()[1].clone();
        let in_flight = before.replace(path.in_flight).unwrap_or(path.in_flight);
        if path.pto_count > 0 {
            suspected.get_or_insert((
                world.now(),
                units::Duration::from(path.rtt),
                units::Duration::from(path.rtt_variance),
            ));
        } else if path.in_flight > in_flight {
            last_sent = Some(world.now());
        }
    });
    let completion = response.unwrap().completion;
    let (at, rtt, variance) = suspected.expect("the path fell silent");
    let silence = at - last_sent.expect("the path carried data");
    assert_eq!(silence, rtt + variance * 4 + ms(25), "RFC 9002 section 6.2.1");
    // Slow start brings the slow path as far in three of its round trips.
    let bound = (at - began) + ms(300) * 3;
    assert!(completion <= bound, "{completion} > {bound}");
}

/// Neither path has had more than one sample, and a probe timeout would come after more than three of their round trips.
#[test]
fn data_stuck_on_a_dead_path_goes_over_the_other_before_its_first_probe_timeout() {
    let dead = Loss::Bernoulli(LossRate::new(1.0).unwrap());
    let paths = [path(100, 50), path(100, 50).losing(dead)];
    let mut exchange = Exchange::establish(Seed(1), &paths, &transport(RecoveryKind::None));
    let began = exchange.world.now();
    let (mut last_sent, mut rtt, mut before) = (None, None, None);
    let response = exchange.request_observed(60_000, &paths, |world, server| {
        let path = world.connection(server).paths()[1].clone();
        let in_flight = before.replace(path.in_flight).unwrap_or(path.in_flight);
        if path.in_flight > in_flight {
            last_sent = Some(world.now());
        }
        assert_eq!(path.pto_count, 0, "it would be too late");
        rtt = Some(units::Duration::from(path.rtt));
    });
    let completion = response.unwrap().completion;
    let (last_sent, rtt) = (last_sent.expect("the path carried data"), rtt.unwrap());
    // A path that has shown no rate is expected to take up to half a round trip for a window.
    let patience = (rtt + rtt / 2) + (rtt / 2 + ms(25)) + rtt / 8;
    // The way of the copies, over which the pacer may spread them: a dozen packets, a
    // quarter of a window.
    let bound = (last_sent - began) + patience + ms(25) + rtt / 4;
    assert!(completion <= bound, "{completion} > {bound}");
}

#[test]
fn a_slower_path_never_delays_what_a_faster_one_delivers() {
    let fast = || path(50, 20);
    let mut worse: Vec<String> = Vec::new();
    for recovery in [RecoveryKind::None, RecoveryKind::Cofuso] {
        for slow in [path(50, 40), path(50, 100), path(10, 20), path(5, 60), path(2, 200), path(100, 300)] {
            for size in [3_000, 60_000, 300_000, 2_000_000] {
                let alone = respond(2, &[fast()], &transport(recovery), size);
                let both = respond(2, &[fast(), slow.clone()], &transport(recovery), size);
                if both.completion > alone.completion.mul_f64(1.05) {
                    let (rate, delay) = (slow.up.rate.unwrap(), slow.up.delay);
                    let (with, without) = (both.completion, alone.completion);
                    worse.push(format!(
                        "{recovery}, {size} B, with {rate} {delay} one way: {with}, alone {without}"
                    ));
                }
            }
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}

#[test]
fn two_equal_paths_give_nearly_the_sum() {
    for controller in [ControllerKind::Cubic, ControllerKind::NewReno] {
        let transport = TransportConfig { controller, ..transport(RecoveryKind::None) };
        let response = respond(3, &[path(20, 20), path(20, 20)], &transport, 20_000_000);
        let goodput = 20_000_000.0 * 8.0 / response.completion.as_secs_f64();
        assert!(goodput >= 0.9 * 40e6, "{controller}: {goodput:.0} bit/s");
    }
}

/// Two paths, the second loses 5 %.
fn lossy() -> [PathPlan; 2] {
    [path(100, 50), path(100, 50).losing(Loss::Bernoulli(LossRate::new(0.05).unwrap()))]
}

#[test]
fn without_negotiation_cofuso_is_fuso() {
    let without = |recovery| {
        let mut transport = transport(recovery);
        transport.repair.accept = false;
        transport
    };
    for seed in 0..5 {
        let cofuso = respond(seed, &lossy(), &without(RecoveryKind::Cofuso), 200_000);
        let fuso = respond(seed, &lossy(), &without(RecoveryKind::Fuso), 200_000);
        assert!(cofuso.stats.recovery.contains("as fuso"), "{}", cofuso.stats.recovery);
        assert_eq!(cofuso.stats.repair_symbols_sent, 0);
        assert!(cofuso.stats.copies_sent > 0);
        assert_eq!(cofuso.trace_hash, fuso.trace_hash, "packet by packet");
    }
}

#[test]
fn loss_that_was_mended_is_not_hidden_from_the_controller() {
    for recovery in [RecoveryKind::Fuso, RecoveryKind::Cofuso] {
        // The second path is the worse one, as its round-trip time tells. It loses the first packet
        // of the second flight.
        let clean = respond(4, &[path(100, 50), path(100, 52)], &transport(recovery), 60_000);
        let lossy = [path(100, 50), path(100, 52).losing(Loss::nth([10]))];
        let mended = respond(4, &lossy, &transport(recovery), 60_000);
        assert_eq!(mended.link_lost, [0, 1]);
        assert_eq!((mended.paths[1].packets_lost, mended.paths[0].packets_lost), (1, 0), "{recovery}");
        assert_eq!(mended.paths[1].packets_mended, 1, "{recovery}: {:?}", mended.stats);
        assert!(mended.paths[1].window < clean.paths[1].window, "{recovery}: the window was reduced");
        assert!(mended.paths[1].loss_estimate > 0.0, "{recovery}");
    }
}

/// CoFUSO Fig. 9(a): 29 packets in 30 slots of window, one of the first flight is lost. The third
/// path has the longest round-trip time, so that it is the worst one and carries the last packets
/// and the spare slot.
#[test]
fn one_spare_slot_mends_any_packet_with_cofuso_but_only_the_first_with_fuso() {
    let paths = |loss| [path(1_000, 50), path(1_000, 50), path(1_000, 52).losing(loss)];
    let size = 29 * 1_370;
    for recovery in [RecoveryKind::Fuso, RecoveryKind::Cofuso] {
        let clean = respond(5, &paths(Loss::None), &transport(recovery), size);
        assert!(clean.completion < ms(60), "one round trip: {}", clean.completion);
        for nth in 0..9 {
            let lossy = respond(5, &paths(Loss::nth([nth])), &transport(recovery), size);
            assert_eq!(lossy.link_lost, [0, 0, 1]);
            let in_time = lossy.completion <= clean.completion.mul_f64(1.1);
            let possible = recovery == RecoveryKind::Cofuso || nth == 0;
            let what = format!("{recovery}, packet {nth}: {} against {}", lossy.completion, clean.completion);
            assert_eq!(in_time, possible, "{what}; {:?}", lossy.stats);
            assert!(in_time || lossy.completion >= clean.completion.mul_f64(1.5), "{what}");
        }
    }
}
