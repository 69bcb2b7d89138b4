//! What Careful Resume gains, and what it costs the neighbours, in bulk transfers through shared
//! bottlenecks of 100 Mbit/s and 50 ms (docs/decisions/0018-careful-resume.md).

mod network;

use mendpath_congestion::{Ack, Careful, Carried, Config, Controller, ControllerKind, Loss, Precedents, Rtt};
use network::{Link, Network, Path, SIZE};
use units::{Duration, Instant};

/// 100 Mbit/s, 50 ms, a buffer of `quarters` quarters of a bandwidth-delay product.
fn lab(quarters: u64) -> Network {
    Network::new(&[Link::new(100, BDP * quarters / 4)], 1)
}

const BDP: u64 = 625_000;
const START: Duration = Duration::from_secs(10);
const PATH: Path = Path {
    link: 0,
    rtt: Duration::from_millis(50),
    loss: 0.0,
    chain: None,
    jitter: network::Jitter { span: Duration::ZERO, reorder: false },
    nap: Duration::ZERO,
};

/// A flow that knows that the path carried `window` bytes, or nothing, from second 10 on.
fn join(network: &mut Network, kind: ControllerKind, window: Option<u64>) -> usize {
    let seen = Instant::ORIGIN + START;
    let known = window.map(|window| Carried { window, min_rtt: PATH.rtt, pace: None, seen });
    let controller = || -> Box<dyn Controller> {
        let mut careful = Careful::new(kind, &Config::with_max_datagram_size(SIZE));
        if let Some(known) = known {
            careful.resume_from(known);
        }
        Box::new(careful)
    };
    network.flow_of(controller, &[PATH], START)
}

/// What a flow delivers in its first `ms` alone, in bytes; also how often it jumped and
/// retreated, and what the link dropped.
fn alone(kind: ControllerKind, window: Option<u64>, ms: u64) -> (u64, (u64, u64), u64) {
    let mut network = lab(4);
    let flow = join(&mut network, kind, window);
    network.run_until(START + Duration::from_millis(ms));
    let resumption = network.controller(flow, 0).resumption();
    (network.delivered(flow, 0), (resumption.jumps, resumption.retreats), network.links[0].overflows)
}

#[test]
fn the_first_round_trips_carry_what_the_path_can() {
    for &kind in ControllerKind::ALL {
        let (resumed, did, _) = alone(kind, Some(BDP), 250);
        let (anew, ..) = alone(kind, None, 250);
        println!("{kind}: {anew} bytes in five round trips, resumed {resumed}");
        assert_eq!(did, (1, 0), "{kind}");
        assert!(resumed >= anew * 3, "{kind}: {resumed} {anew}");
    }
}

/// The memory is of four and more times what the path carries now.
#[test]
fn too_much_is_taken_back_at_once() {
    for &kind in ControllerKind::ALL {
        for times in [4, 16, 64] {
            let jump = BDP * times / 2;
            let (resumed, did, dropped) = alone(kind, Some(BDP * times), 5_000);
            let (anew, _, without) = alone(kind, None, 5_000);
            // Two bandwidth-delay products are what link and buffer hold.
            assert_eq!(did, (1, u64::from(times > 4)), "{kind} {times}");
            assert!(resumed * 20 >= anew * 19, "{kind} {times}: {resumed} {anew}");
            // One round trip of the jump, once.
            assert!(dropped <= without + jump / SIZE, "{kind} {times}: {dropped} {without}");
        }
    }
}

/// CUBIC has had the link for ten seconds.
#[test]
fn a_neighbour_loses_no_more_than_to_a_slow_start() {
    for quarters in [1, 2, 4, 8] {
        let neighbour = |window| {
            let mut network = lab(quarters);
            network.flow(ControllerKind::Cubic, &[PATH], Duration::ZERO);
            let flow = join(&mut network, ControllerKind::Auto, window);
            let early = network.goodput(10, 12)[0][0];
            let jumps = network.controller(flow, 0).resumption().jumps;
            (early, network.goodput(12, 30)[0][0], jumps)
        };
        let (resumed, anew) = (neighbour(Some(BDP)), neighbour(None));
        println!("buffer {quarters}/4: resumed {resumed:?}, anew {anew:?}");
        assert!(resumed.0 >= anew.0 * 0.9, "buffer {quarters}/4: {resumed:?} {anew:?}");
        assert!(resumed.1 >= anew.1 * 0.9, "buffer {quarters}/4: {resumed:?} {anew:?}");
        // Its queue was seen, where there was one.
        assert!(quarters == 1 || resumed.2 == 0, "buffer {quarters}/4: {resumed:?}");
    }
}

/// A young connection over a path of 40 ms, in whose queue of 35 ms it stands from its first packet to its
/// last, has lost a packet. Whether that has cost it window, and what it says of the load.
fn loses_in_a_queue(precedents: Option<&Precedents>) -> (bool, f32) {
    let mut controller = Careful::new(ControllerKind::Auto, &Config::with_max_datagram_size(SIZE));
    if let Some(precedents) = precedents {
        controller.recall(precedents);
    }
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    for n in 0..20 {
        controller.on_sent(at(10 * n), SIZE, SIZE);
    }
    for n in (0..20).filter(|n| *n != 10) {
        let latest = Duration::from_millis(75);
        let rtt = Rtt { latest, smoothed: latest, min: latest, variance: Duration::ZERO };
        let ack =
            Ack { now: at(10 * n) + latest, largest_sent_at: at(10 * n), bytes: SIZE, rtt, ..Ack::default() };
        controller.on_ack(&ack, &[]);
    }
    let window = controller.window();
    let rtt = Rtt { latest: Duration::from_millis(75), ..Rtt::default() };
    let loss = Loss { now: at(266), bytes: SIZE, packets: 1, largest_sent_at: at(100), rtt };
    controller.on_loss(&loss, &[]);
    (controller.window() < window, controller.load_evidence())
}

#[test]
fn a_queue_that_stood_before_is_known_by_what_earlier_connections_have_found() {
    let mut precedents = Precedents::default();
    (0..16).for_each(|n| precedents.begin(Instant::ORIGIN, Duration::from_micros(40_000 + n * 2_000)));
    let (reduced, evidence) = loses_in_a_queue(None);
    assert!(!reduced && evidence < 0.0, "taken for chance: {evidence}");
    let (reduced, evidence) = loses_in_a_queue(Some(&precedents));
    assert!(reduced && evidence > 0.0, "taken for the load's: {evidence}");
    // Few are too few to rank among, but show how long the route is.
    let mut few = Precedents::default();
    (0..3).for_each(|_| few.begin(Instant::ORIGIN, Duration::from_millis(40)));
    let (reduced, evidence) = loses_in_a_queue(Some(&few));
    assert!(reduced && evidence < 0.0, "there is a queue: {evidence}");
    let (_, evidence) = loses_in_a_queue(Some(&precedents.with_evidence(3.0)));
    assert!(evidence > 3.0, "what was found before counts: {evidence}");
}
