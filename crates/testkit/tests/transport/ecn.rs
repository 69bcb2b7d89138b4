//! Explicit congestion notification on simulated networks: marking queues, and networks that meddle
//! with marks.

use mendpath_testkit::{
    response::{Exchange, PathPlan, Response},
    scenario::EcnTreatment,
};
use netsim::{LinkConfig, Loss, Seed, link::QueueSize, network::Direction};
use proto::{ControllerKind, EcnState, RecoveryKind, TransportConfig};
use units::{BitRate, Duration, Instant};

/// 20 Mbit/s, 40 ms, a queue of 400 packets: twelve round trips' worth of standing queue for who
/// waits for a loss.
fn bottleneck(marks_above: Option<u64>) -> PathPlan {
    let link = LinkConfig::new()
        .rate(BitRate::from_mbps(20))
        .delay(Duration::from_millis(20))
        .queue(QueueSize::Packets(400));
    let link = match marks_above {
        Some(packets) => link.ecn_threshold(QueueSize::Packets(packets)),
        None => link,
    };
    PathPlan::symmetric(link, Loss::None)
}

fn transport(controller: ControllerKind) -> TransportConfig {
    TransportConfig { controller, recovery: RecoveryKind::None, ..TransportConfig::default() }
}

fn goodput(response: &Response, size: usize) -> f64 {
    size as f64 * 8.0 / response.completion.as_secs_f64()
}

#[test]
fn a_marking_bottleneck_loses_nothing_and_its_queue_stays_short() {
    const SIZE: usize = 20_000_000;
    for controller in ControllerKind::ALL {
        let paths = [bottleneck(Some(60))];
        let mut exchange = Exchange::establish(Seed(1), &paths, &transport(*controller));
        let link = exchange.links[0];
        let response = exchange.request(SIZE, &paths).unwrap();
        let stats = exchange.world.link_stats(link, Direction::Backward);
        let path = &response.paths[0];
        assert_eq!((path.packets_lost, stats.gone()), (0, 0), "{controller}: {path:?}");
        assert_eq!(path.ecn, EcnState::Capable, "{controller}");
        assert!(path.ecn_ce > 0 && path.ecn_ce <= stats.marked, "{controller}: {path:?} {stats:?}");
        // ctcp leaves slow start at the first delay and grows by a packet for each round trip: the
        // start takes it a second longer.
        let share = if *controller == ControllerKind::Ctcp { 0.8 } else { 0.9 };
        assert!(goodput(&response, SIZE) > share * 20e6, "{controller}: {}", response.completion);
        // Slow start may pass the threshold by a window before the first mark is heard of.
        assert!(stats.max_queue_packets < 250, "{controller}: {stats:?}");
    }
}

#[test]
fn without_marks_the_same_queue_fills_and_overflows() {
    let paths = [bottleneck(Some(60))];
    let transport = TransportConfig { ecn: false, ..transport(ControllerKind::Cubic) };
    let mut exchange = Exchange::establish(Seed(1), &paths, &transport);
    let link = exchange.links[0];
    let response = exchange.request(20_000_000, &paths).unwrap();
    assert_eq!(response.paths[0].ecn, EcnState::Disabled);
    assert_eq!(response.paths[0].ecn_ce, 0);
    assert_eq!(exchange.world.link_stats(link, Direction::Backward).max_queue_packets, 400);
}

#[test]
fn one_reduction_per_round_trip_however_many_marks() {
    let paths = [bottleneck(Some(60))];
    let mut exchange = Exchange::establish(Seed(2), &paths, &transport(ControllerKind::NewReno));
    let (mut reductions, mut window): (Vec<Instant>, u64) = (Vec::new(), 0);
    let response = exchange.request_observed(10_000_000, &paths, |world, server| {
        let now = world.connection(server).paths()[0].window;
        if now < window {
            reductions.push(world.now());
        }
        window = now;
    });
    let marks = response.unwrap().paths[0].ecn_ce;
    assert!(reductions.len() >= 2 && marks > 2 * reductions.len() as u64, "{reductions:?}, {marks} marks");
    let close = reductions.windows(2).find(|r| r[1] - r[0] < Duration::from_millis(40));
    assert_eq!(close, None);
}

#[test]
fn networks_that_meddle_with_marks_cost_no_data() {
    for treatment in [EcnTreatment::Bleach, EcnTreatment::Drop, EcnTreatment::MarkAll] {
        let paths = [bottleneck(None), bottleneck(None)];
        let meddle =
            |world: &mut mendpath_testkit::world::World, a, b| world.set_ecn_treatment(a, b, treatment);
        let transport = transport(ControllerKind::Cubic);
        let mut exchange = Exchange::establish_in(Seed(3), &paths, &transport, meddle);
        // A first exchange may have to find out.
        exchange.request(100_000, &paths).unwrap();
        for path in exchange.world.connection(exchange.server).paths() {
            assert_eq!(path.ecn, EcnState::Failed, "{treatment:?}: {path:?}");
        }
        // The client sends little, so that ten CE marks in a row may take it longer. If its only
        // marked packet was an Initial, the space is gone before the loss is noticed.
        for path in exchange.world.connection(exchange.client).paths() {
            let carries = path.ecn == EcnState::Capable;
            assert!(!carries || treatment == EcnTreatment::MarkAll, "{treatment:?}: {path:?}");
        }
        let settled = exchange.request(2_000_000, &paths).unwrap();
        let clean = Exchange::establish(Seed(3), &[bottleneck(None), bottleneck(None)], &transport)
            .request(2_000_000, &paths)
            .unwrap();
        // The losses of the test, or the marks until they were seen through, have taught the window
        // caution.
        let caution = if treatment == EcnTreatment::MarkAll { 3.0 } else { 1.5 };
        let bound = clean.completion.mul_f64(caution);
        assert!(settled.completion < bound, "{treatment:?}: {} > {bound}", settled.completion);
    }
}

#[test]
fn a_network_that_drops_marks_costs_the_handshake_one_timeout_per_side() {
    let paths = [bottleneck(None)];
    let meddle =
        |world: &mut mendpath_testkit::world::World, a, b| world.set_ecn_treatment(a, b, EcnTreatment::Drop);
    let exchange = Exchange::establish_in(Seed(4), &paths, &transport(ControllerKind::Cubic), meddle);
    // `establish` rests for a second at the end; the initial PTO is one second.
    let took = exchange.world.now() - Instant::ORIGIN;
    assert!(took < Duration::from_millis(4_000), "{took}");
}

#[test]
fn only_the_path_that_meddles_goes_without() {
    let paths = [bottleneck(None), bottleneck(None)];
    let second = "10.1.0.2".parse::<std::net::IpAddr>().unwrap();
    let meddle = |world: &mut mendpath_testkit::world::World, a: std::net::SocketAddr, b| {
        if a.ip() == second {
            world.set_ecn_treatment(a, b, EcnTreatment::Bleach);
        }
    };
    let mut exchange = Exchange::establish_in(Seed(5), &paths, &transport(ControllerKind::Cubic), meddle);
    let response = exchange.request(2_000_000, &paths).unwrap();
    let states: Vec<_> = response.paths.iter().map(|p| p.ecn).collect();
    assert_eq!(states, [EcnState::Capable, EcnState::Failed]);
}
