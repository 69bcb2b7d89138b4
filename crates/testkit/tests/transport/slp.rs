//! SLP over whole connections: what a duplicate saves, what it costs, and that it never stands in
//! the way.

use mendpath_testkit::response::{Exchange, PathPlan, Response};
use netsim::{LinkConfig, Loss, Seed};
use proto::{RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

fn path(mbps: u64, rtt_ms: u64) -> PathPlan {
    let link = LinkConfig::new().rate(BitRate::from_mbps(mbps)).delay(Duration::from_millis(rtt_ms) / 2);
    PathPlan::symmetric(link, Loss::None)
}

fn transport(recovery: RecoveryKind) -> TransportConfig {
    TransportConfig { recovery, ..TransportConfig::default() }
}

fn respond(paths: &[PathPlan], recovery: RecoveryKind, size: usize) -> Response {
    Exchange::establish(Seed(1), paths, &transport(recovery)).request(size, paths).unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_lost_response_of_one_packet_costs_no_timeout() {
    let clean = respond(&[path(100, 50)], RecoveryKind::Slp, 200);
    assert_eq!(clean.link_lost, [0]);
    let lossy = [path(100, 50).losing(Loss::nth([0]))];
    let none = respond(&lossy, RecoveryKind::None, 200);
    assert!(none.completion > clean.completion + ms(50), "{}", none.completion);
    let slp = respond(&lossy, RecoveryKind::Slp, 200);
    assert_eq!(slp.link_lost, [1]);
    // The copy leaves a packet's share of the round trip later: an eighth, since the window of ten
    // small packets holds eight large ones.
    assert!(slp.completion <= clean.completion + ms(7), "{} after {}", slp.completion, clean.completion);
    assert_eq!((slp.stats.reasons.end_of_write, slp.paths[0].pto_count), (1, 0));
}

#[test]
fn with_two_paths_the_copy_takes_the_other() {
    let dead = Loss::Bernoulli(LossRate::new(1.0).unwrap());
    // The first path delivers earlier, so that it carries the response.
    let paths = [path(100, 50).losing(dead), path(100, 60)];
    let slp = respond(&paths, RecoveryKind::Slp, 200);
    assert_eq!(slp.paths[1].copies_sent, 1, "{:?}", slp.stats);
    assert!(slp.completion < ms(75), "{}", slp.completion);
}

#[test]
fn a_lost_flight_of_the_handshake_costs_no_timeout() {
    let total = |recovery, up: Loss, down: Loss| {
        let mut path = path(100, 20);
        (path.up.loss, path.down.loss) = (up, down);
        Exchange::fetch(Seed(1), &path, &transport(recovery), 200).unwrap().0
    };
    // `auto` waits for an answer where nothing is known of the path.
    for (recovery, most) in [(RecoveryKind::Slp, ms(25)), (RecoveryKind::Auto, ms(105))] {
        let clean = total(recovery, Loss::None, Loss::None);
        assert!(clean < ms(45), "{clean}");
        for lost in [(Loss::nth([0]), Loss::None), (Loss::None, Loss::nth([0]))] {
            let with = total(recovery, lost.0.clone(), lost.1.clone());
            assert!(with <= clean + most, "{recovery}: {with} after {clean}");
            let without = total(RecoveryKind::None, lost.0, lost.1);
            assert!(without >= ms(200), "none: {without}");
        }
    }
}

/// They are none of what the response cost, whose bytes are counted from the request on.
#[test]
fn copies_of_the_handshake_are_not_those_of_the_response() {
    let paths = [path(100, 50)];
    let mut exchange = Exchange::establish(Seed(1), &paths, &transport(RecoveryKind::Slp));
    let before = exchange.world.connection(exchange.server).stats().recovery_bytes_sent;
    assert!(before > 0, "the server's flight left twice");
    let response = exchange.request(200, &paths).unwrap();
    assert_eq!(response.recovery_bytes_sent, response.stats.recovery_bytes_sent - before);
}

#[test]
fn a_lost_flight_waits_for_the_round_trip_time_that_the_last_connection_had() {
    let transport = transport(RecoveryKind::None);
    let total = |up: Loss| {
        let mut path = path(100, 20);
        path.up.loss = up;
        Exchange::fetch(Seed(1), &path, &transport, 200).unwrap().0
    };
    let anew = total(Loss::nth([0]));
    assert!(anew > ms(999), "three times 333 ms: {anew}");
    let clean = total(Loss::None);
    let known = total(Loss::nth([0]));
    assert!(known < clean + ms(151), "three times 50 ms: {known} after {clean}");
}

/// SLP section III, figure 7: a new connection for each file, and the client's packets are lost
/// (SLP-A15: 20 ms, 100 Mbit/s).
#[test]
fn the_long_tail_of_fetches_disappears() {
    let slow = |recovery| {
        let fetch = |n: u64| {
            let mut path = path(100, 20);
            path.up.loss = Loss::Bernoulli(LossRate::new(0.02).unwrap());
            Exchange::fetch(Seed(7).child("fetch", n), &path, &transport(recovery), 34_000).unwrap().0
        };
        (0..150).filter(|n| fetch(*n) > ms(500)).count()
    };
    let (none, slp, auto) = (slow(RecoveryKind::None), slow(RecoveryKind::Slp), slow(RecoveryKind::Auto));
    // One in fifty loses its first packet, one in 2,500 both copies of it.
    assert!(none >= 1, "{none}");
    assert_eq!((slp, auto), (0, 0));
}

#[test]
fn bulk_is_neither_delayed_nor_made_much_larger() {
    let paths = [path(50, 40)];
    // A header may be some bytes longer after a handshake with a copy, or shorter: a microsecond's worth on
    // average. No packet may stand before the data, which would be 237.
    let (headers, packet, seeds) = (Duration::from_micros(2), Duration::from_micros(237), 10);
    for size in [300_000, 1_000_000, 5_000_000] {
        let [mut all_none, mut all_slp] = [Duration::ZERO; 2];
        for seed in 1..=seeds {
            let [none, slp] = [RecoveryKind::None, RecoveryKind::Slp].map(|recovery| {
                Exchange::establish(Seed(seed), &paths, &transport(recovery)).request(size, &paths).unwrap()
            });
            assert!(slp.completion < none.completion + packet / 4, "{} {}", slp.completion, none.completion);
            assert!(slp.stats.recovery_bytes_sent < 20_000, "{:?}", slp.stats);
            (all_none, all_slp) = (all_none + none.completion, all_slp + slp.completion);
        }
        assert!(all_slp <= all_none + headers * seeds, "{size} bytes: {all_slp} {all_none}");
    }
}
