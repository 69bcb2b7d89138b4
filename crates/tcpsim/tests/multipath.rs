//! MPTCP on paths whose sharing can be worked out: coupled windows, the choice of sub-flows,
//! opportunistic retransmission.

use congestion::ControllerKind;
use mendpath_tcpsim::{
    CongestionKind, ConnectionId, Profile, SchemeKind, Sim, Tcp, Totals,
    schemes::{Fuso, Mptcp},
    timeline::What,
};
use netsim::{
    Loss, Seed,
    fabric::{
        Direction, Failure, Fault, Line, LinkId, Options, Topology,
        topology::{Dumbbell, ParallelPaths},
    },
};
use units::{BitRate, Duration, Instant, LossRate};

const COUPLED: [ControllerKind; 3] = [ControllerKind::Lia, ControllerKind::Olia, ControllerKind::Balia];

fn seconds(count: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(count)
}

fn mptcp(congestion: CongestionKind, subflows: usize) -> Profile {
    let tcp = Tcp { congestion, ..Tcp::default() };
    Profile { tcp, scheme: SchemeKind::Mptcp(Mptcp::new(subflows)) }
}

/// A connection that never runs out of data.
fn long(sim: &mut Sim, profile: &Profile, from: u32, to: u32) -> ConnectionId {
    let id = sim.add_profile(profile.clone());
    let connection = sim.connect(id, from, to).unwrap();
    sim.write(connection, 1 << 40, Instant::ORIGIN).unwrap();
    connection
}

/// Segments that each connection got through between these times.
fn progress(sim: &mut Sim, connections: &[ConnectionId], from: Instant, until: Instant) -> Vec<f64> {
    let acknowledged = |sim: &Sim| -> Vec<u64> {
        connections.iter().map(|id| sim.connection(*id).unwrap().acknowledged()).collect()
    };
    sim.run(from).unwrap();
    let before = acknowledged(sim);
    sim.run(until).unwrap();
    acknowledged(sim).iter().zip(before).map(|(after, before)| (after - before) as f64).collect()
}

/// TCP with a window that is counted like those of the coupled controllers.
const NEW_RENO: CongestionKind = CongestionKind::Shared(ControllerKind::NewReno);

/// What a connection with two sub-flows gets of a bottleneck, per segment that a TCP beside it
/// gets.
fn share_beside_tcp(congestion: CongestionKind) -> f64 {
    let network = Dumbbell::new(2, BitRate::from_mbps(20), Duration::from_millis(20), 40);
    let (mut ours, mut theirs) = (0.0, 0.0);
    for seed in 0..3 {
        // Drop-tail alone would lock the flows into patterns; a rare loss keeps them apart.
        let failure = Failure::Loss {
            loss: Loss::Bernoulli(LossRate::new(0.0002).unwrap()),
            data_only: true,
            before_rate: false,
        };
        let fault = Fault { link: Dumbbell::BOTTLENECK, direction: Direction::Forward, failure };
        let options = Options { seed: Seed(seed), faults: vec![fault], ..Options::default() };
        let mut sim = Sim::new(&network.build(), &options).unwrap();
        let several = long(&mut sim, &mptcp(congestion.clone(), 2), 0, 2);
        let one = long(&mut sim, &Profile::tcp(Tcp { congestion: NEW_RENO, ..Tcp::default() }), 1, 3);
        let found = progress(&mut sim, &[several, one], seconds(5), seconds(65));
        (ours, theirs) = (ours + found[0], theirs + found[1]);
    }
    ours / theirs
}

#[test]
fn coupled_sub_flows_share_a_bottleneck_like_one_tcp_and_uncoupled_ones_like_two() {
    let uncoupled = share_beside_tcp(NEW_RENO);
    assert!((1.6..2.4).contains(&uncoupled), "{uncoupled}");
    for kind in COUPLED {
        let share = share_beside_tcp(CongestionKind::Shared(kind));
        println!("{kind}: {share:.3} of a TCP, uncoupled {uncoupled:.3}");
        assert!((0.75..1.3).contains(&share), "{kind}: {share}");
    }
}

/// Hosts 0 and 1, joined by two paths that lose data at these rates; the goodput of `profile` in
/// segments per second. Seeds decide where ECMP sends a sub-flow: the first that separates two of
/// them is taken.
fn over_two_lossy_paths(profile: &Profile, losses: [f64; 2]) -> f64 {
    let line = Line::new(BitRate::from_mbps(100), Duration::from_millis(10), 1_000);
    let fault = |(path, loss): (u32, f64)| Fault {
        link: LinkId(path),
        direction: Direction::Forward,
        failure: Failure::Loss {
            loss: Loss::Bernoulli(LossRate::new(loss).unwrap()),
            data_only: true,
            before_rate: false,
        },
    };
    let faults: Vec<_> = (0..).zip(losses).map(fault).collect();
    for seed in 0..20 {
        let options = Options { seed: Seed(seed), faults: faults.clone(), ..Options::default() };
        let mut sim = Sim::new(&two_paths([line, line]), &options).unwrap();
        let connection = long(&mut sim, profile, 0, 1);
        let rate = progress(&mut sim, &[connection], seconds(5), seconds(65))[0] / 60.0;
        let sent = |sim: &mut Sim, path| sim.fabric().port_stats(LinkId(path).forward()).unwrap().sent;
        if sent(&mut sim, 0) > 1_000 && sent(&mut sim, 1) > 1_000 {
            return rate;
        }
    }
    panic!("no seed separates the sub-flows");
}

/// Two switches with a host each, joined by two lines.
fn two_paths(lines: [Line; 2]) -> Topology {
    let fast = Line::new(BitRate::from_mbps(10_000), Duration::from_micros(1), 10_000);
    let mut topology = Topology::new(2, 2);
    for line in lines {
        topology.join(0, 1, line, 1);
    }
    topology.attach(0, 0, fast, fast);
    topology.attach(1, 1, fast, fast);
    topology
}

#[test]
fn coupled_sub_flows_do_at_least_as_well_as_tcp_on_the_best_path() {
    // RFC 6356 section 1, goal 1. TCP alone on the path that loses 0.2 %: both paths lose that, so
    // that ECMP's choice does not count.
    let tcp = {
        let line = Line::new(BitRate::from_mbps(100), Duration::from_millis(10), 1_000);
        let failure = Failure::Loss {
            loss: Loss::Bernoulli(LossRate::new(0.002).unwrap()),
            data_only: true,
            before_rate: false,
        };
        let faults = (0..2).map(|path| Fault {
            link: LinkId(path),
            direction: Direction::Forward,
            failure: failure.clone(),
        });
        let options = Options { faults: faults.collect(), ..Options::default() };
        let mut sim = Sim::new(&two_paths([line, line]), &options).unwrap();
        let connection = long(&mut sim, &Profile::tcp(Tcp { congestion: NEW_RENO, ..Tcp::default() }), 0, 1);
        progress(&mut sim, &[connection], seconds(5), seconds(65))[0] / 60.0
    };
    let uncoupled = over_two_lossy_paths(&mptcp(NEW_RENO, 2), [0.002, 0.02]);
    for kind in COUPLED {
        let rate = over_two_lossy_paths(&mptcp(CongestionKind::Shared(kind), 2), [0.002, 0.02]);
        println!("{kind}: {rate:.0}/s; TCP on the better path {tcp:.0}, uncoupled {uncoupled:.0}");
        assert!(
            rate > 0.85 * tcp && rate < 1.05 * uncoupled,
            "{kind}: {rate}, TCP {tcp}, uncoupled {uncoupled}"
        );
    }
}

#[test]
fn a_message_that_fits_goes_over_the_path_with_the_smaller_round_trip_time() {
    let line = |ms| Line::new(BitRate::from_mbps(100), Duration::from_millis(ms), 1_000);
    let mut tried = 0;
    for (slow, lines) in [(1, [line(5), line(20)]), (0, [line(20), line(5)])] {
        for seed in 0..40 {
            let options = Options { seed: Seed(seed), ..Options::default() };
            let mut sim = Sim::new(&two_paths(lines), &options).unwrap();
            let tcp = Tcp { restart_after_idle: false, ..Tcp::default() };
            let profile = sim.add_profile(Profile { tcp, scheme: SchemeKind::Mptcp(Mptcp::new(2)) });
            let connection = sim.connect(profile, 0, 1).unwrap();
            sim.write(connection, 60 * 1_460, Instant::ORIGIN).unwrap();
            sim.run(seconds(1)).unwrap();
            // ECMP chooses the way back as well: unless one sub-flow has the fast path both ways,
            // nothing is to be chosen.
            let rtt = |sub| sim.connection(connection).unwrap().smoothed_rtt(sub);
            if rtt(0).abs_diff(rtt(1)) < Duration::from_millis(20) {
                continue;
            }
            let sent = |sim: &mut Sim, path| sim.fabric().port_stats(LinkId(path).forward()).unwrap().sent;
            let (before, other) = (sent(&mut sim, slow), sent(&mut sim, 1 - slow));
            sim.write(connection, 8 * 1_460, seconds(1)).unwrap();
            sim.run(seconds(2)).unwrap();
            assert_eq!((sent(&mut sim, slow), sent(&mut sim, 1 - slow)), (before, other + 8), "seed {seed}");
            tried += 1;
        }
    }
    assert!(tried >= 6, "{tried}");
}

#[test]
fn opportunistic_retransmission_frees_a_receive_window_that_a_dead_path_holds_up() {
    // Nothing gets through on path 0, and nothing is offered again after a timeout: only a full
    // receive window helps.
    let network = ParallelPaths { paths: 2, per_rack: 1, ..ParallelPaths::fuso() };
    let run = |seed, opportunistic| {
        let faults = vec![Fault {
            link: ParallelPaths::path(0),
            direction: Direction::Forward,
            failure: Failure::BlackHole,
        }];
        let options = Options { seed: Seed(seed), faults, ..Options::default() };
        let mut sim = Sim::new(&network.build(), &options).unwrap();
        let tcp = Tcp { initial_window: 4, receive_window: 8, ..Tcp::default() };
        let mptcp = Mptcp { opportunistic, reinject_on_timeout: false, ..Mptcp::new(2) };
        let profile = sim.add_profile(Profile { tcp, scheme: SchemeKind::Mptcp(mptcp) });
        let flow = sim.add_flow(profile, 0, 1, 40 * 1_460, Instant::ORIGIN).unwrap();
        sim.run(seconds(10)).unwrap();
        let sent =
            [0, 1].map(|path| sim.fabric().port_stats(ParallelPaths::path(path).forward()).unwrap().sent);
        (sim.flow(flow).unwrap().completion_time(), sent)
    };
    let separated = (0..50).filter(|seed| run(*seed, true).1.iter().all(|sent| *sent > 0));
    let mut tried = 0;
    for seed in separated.take(5) {
        let (time, _) = run(seed, true);
        assert!(time.is_some_and(|time| time < Duration::from_millis(20)), "{seed}: {time:?}");
        assert_eq!(run(seed, false).0, None, "{seed}");
        tried += 1;
    }
    assert_eq!(tried, 5);
}

#[test]
fn sub_flows_that_join_carry_data_one_round_trip_after_the_first() {
    let line = Line::new(BitRate::from_mbps(1_000), Duration::from_millis(5), 10_000);
    let network = ParallelPaths { paths: 2, per_rack: 1, up: line, down: line, between: line };
    // First data on each sub-flow, in ms, of a response of 15 segments: the first window has ten.
    let begins = |join_later| {
        let mut sim = Sim::new(&network.build(), &Options::default()).unwrap();
        let mptcp = Mptcp { join_later, ..Mptcp::new(2) };
        let profile = sim.add_profile(Profile { tcp: Tcp::cofuso(), scheme: SchemeKind::Mptcp(mptcp) });
        let flow = sim.add_flow(profile, 0, 1, 15 * 1_460, Instant::ORIGIN).unwrap();
        let timelines = sim.watch(&[flow]);
        sim.run_until_done(seconds(1)).unwrap();
        let events = timelines.of(flow).events;
        [0, 1].map(|sub| {
            let first =
                events.iter().find(|event| event.sub == sub && matches!(event.what, What::Sent { .. }));
            first.map(|event| (event.at - Instant::ORIGIN).as_millis())
        })
    };
    assert_eq!(begins(false), [Some(30), Some(30)]);
    assert_eq!(begins(true), [Some(30), Some(60)]);
}

/// FUSO over FUSO's testbed with loss on a path: what recovery has brought is sent again as a header.
#[test]
fn retransmissions_of_what_recovery_brought_cost_a_header() {
    let run = |hollow| {
        let rate = LossRate::new(0.1).unwrap();
        let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(rate))];
        let options = Options { seed: Seed(2), faults, ..Options::default() };
        let mut sim = Sim::new(&ParallelPaths::fuso().build(), &options).unwrap();
        let fuso = Fuso { mptcp: Mptcp { hollow, ..Fuso::new(4).mptcp }, ..Fuso::new(4) };
        let profile = sim.add_profile(Profile { tcp: Tcp::fuso(), scheme: SchemeKind::Fuso(fuso) });
        let connection = sim.connect(profile, 3, 0).unwrap();
        for n in 0..100 {
            sim.write(connection, 30_000, Instant::ORIGIN + Duration::from_millis(20) * n).unwrap();
        }
        sim.run_until_done(seconds(60)).unwrap();
        (sim.totals(), sim.flows().iter().map(|flow| flow.bytes).sum::<u64>())
    };
    let ((full, written), (hollow, _)) = (run(false), run(true));
    assert_eq!((full.finished, hollow.finished, written), (100, 100, 3_000_000));
    assert!(full.repaired > 10 && full.retransmissions > 10 && hollow.retransmissions > 10);
    let excess = |totals: Totals| totals.bytes - totals.extra_bytes - 40 * totals.packets;
    // What is neither a copy nor a header is what was written, and what was sent again in full.
    assert!(excess(hollow) < excess(full) && excess(hollow) >= written * 9 / 10, "{hollow:?} {full:?}");
}

/// One sub-flow has no other to offer its data to: what a timeout gives up is sent once more, not twice.
#[test]
fn a_single_sub_flow_sends_what_timed_out_once() {
    let network = ParallelPaths { paths: 1, per_rack: 1, ..ParallelPaths::fuso() };
    let failure = Failure::Loss { loss: Loss::nth(0..10), data_only: true, before_rate: false };
    let faults = vec![Fault { link: ParallelPaths::path(0), direction: Direction::Forward, failure }];
    let options = Options { faults, ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).unwrap();
    let profile = sim.add_profile(mptcp(CongestionKind::Reno, 1));
    let flow = sim.add_flow(profile, 0, 1, 40 * 1_460, Instant::ORIGIN).unwrap();
    sim.run_until_done(seconds(10)).unwrap();
    assert!(sim.flow(flow).unwrap().completion_time().is_some());
    let totals = sim.totals();
    assert_eq!((totals.timeouts, totals.retransmissions, totals.duplicates), (1, 10, 0), "{totals:?}");
    assert_eq!(totals.packets, 50);
}
