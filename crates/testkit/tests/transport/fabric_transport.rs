//! The transport as one of the simulator's protocols.

use mendpath_testkit::fabric_host::{Carried, Mendpath, Mixed};
use netsim::{
    Seed,
    fabric::{
        Failure, Fault, Options,
        topology::{Dumbbell, ParallelPaths},
    },
};
use proto::{RecoveryKind, TransportConfig};
use tcpsim::{Profile, ProfileId, SchemeKind, Sim, Tcp, Totals};
use units::{BitRate, Duration, Instant, LossRate};

fn after(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

fn with(recovery: RecoveryKind, paths: usize) -> Mendpath {
    Mendpath {
        config: TransportConfig { recovery, ..TransportConfig::default() },
        paths,
        ..Mendpath::default()
    }
}

fn add(sim: &mut Sim, mendpath: Mendpath) -> ProfileId {
    sim.add_profile(Profile { tcp: Tcp::default(), scheme: SchemeKind::transport(mendpath) })
}

/// FUSO's testbed, whose first path loses this share of packets both ways.
fn parallel_paths(loss: f64) -> Sim {
    let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(LossRate::new(loss).unwrap()))];
    let options = Options { seed: Seed(1), faults, ..Options::default() };
    Sim::new(&ParallelPaths::fuso().build(), &options).unwrap()
}

#[test]
fn it_takes_as_long_as_beside_tcp() {
    let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(20), 100).build();
    // What the ends draw differs, and may make a packet a byte longer: with this seed it does not.
    let options = Options { seed: Seed(1), ..Options::default() };
    let mut mixed = Mixed::new(&topology, &options).unwrap();
    let flow = mixed.add_flow(&TransportConfig::default(), 1, (0, 1), 200_000, Instant::ORIGIN).unwrap();
    mixed.run_until_done(after(10)).unwrap();
    let beside = mixed.flow(flow).unwrap().clone();

    let mut sim = Sim::new(&topology, &options).unwrap();
    let mendpath = add(&mut sim, Mendpath::default());
    let flow = sim.add_flow(mendpath, 0, 1, 200_000, Instant::ORIGIN).unwrap();
    sim.run_until_done(after(10)).unwrap();
    let record = *sim.flow(flow).unwrap();
    assert_eq!(record.started, beside.started);
    assert_eq!(record.completion_time(), beside.completion_time());
    // 200,000 bytes at 10 Mbit/s, and half a round trip.
    assert!(record.completion_time().unwrap() > Duration::from_millis(170), "{record:?}");
    assert!(record.packets > 137 && record.retransmissions == 0, "{record:?}");
    assert_eq!(sim.totals().finished, 1);
    assert_eq!(sim.connection_memory().0, 0, "it ended with its flow");
}

#[test]
fn what_repair_costs_and_what_was_lost_is_in_the_books() {
    let totals = |recovery| {
        let mut sim = parallel_paths(0.05);
        let mendpath = add(&mut sim, with(recovery, 4));
        for n in 0..30 {
            let at = Instant::ORIGIN + Duration::from_millis(100) * u64::from(n);
            sim.add_flow(mendpath, 3 + n % 3, n / 3 % 3, 60_000, at).unwrap();
        }
        sim.run_until_done(after(100)).unwrap();
        assert_eq!(sim.totals().finished, 30);
        let packets: u64 = sim.flows().iter().map(|flow| u64::from(flow.packets)).sum();
        assert!(packets <= sim.totals().packets && packets * 10 > sim.totals().packets * 9, "{packets}");
        (sim.totals(), sim.fabric().trace_hash())
    };
    let (none, hash) = totals(RecoveryKind::None);
    assert_eq!(none.parities, 0);
    // What one path is late with goes again on another, whatever the scheme (decision 0012).
    assert!(none.extra_bytes * 100 < none.bytes, "{none:?}");
    assert!(none.retransmissions > 0 && none.bytes > 30 * 60_000, "{none:?}");
    assert_eq!(totals(RecoveryKind::None), (none, hash), "equal runs are equal");
    let (auto, _) = totals(RecoveryKind::Auto);
    assert!(auto.copies + auto.parities > 0 && auto.extra_bytes > 0, "{auto:?}");
    assert!((0.001..0.3).contains(&auto.extra_load()), "{}", auto.extra_load());
}

/// Runs of one plan have one configuration, and are made in any order.
#[test]
fn a_connection_knows_nothing_of_those_before_it() {
    let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(20), 100).build();
    let run = |seed, mendpath| {
        let lossy = Failure::random(LossRate::new(0.3).unwrap());
        let faults = vec![Fault::both(Dumbbell::BOTTLENECK, lossy)];
        let mut sim =
            Sim::new(&topology, &Options { seed: Seed(seed), faults, ..Options::default() }).unwrap();
        let mendpath = add(&mut sim, mendpath);
        sim.add_flow(mendpath, 0, 1, 60_000, Instant::ORIGIN).unwrap();
        sim.run_until_done(after(100)).unwrap();
        sim.fabric().trace_hash()
    };
    let shared = with(RecoveryKind::Auto, 1);
    for seed in 1..=8 {
        assert_eq!(run(seed, shared.clone()), run(seed, with(RecoveryKind::Auto, 1)), "{seed}");
    }
}

#[test]
fn a_long_lived_connection_says_what_it_has_delivered() {
    let topology = Dumbbell::new(1, BitRate::from_mbps(10), Duration::from_millis(20), 100).build();
    let mut sim = Sim::new(&topology, &Options::default()).unwrap();
    let mendpath = add(&mut sim, Mendpath::default());
    let connection = sim.connect(mendpath, 0, 1).unwrap();
    let first = sim.write(connection, 100_000, Instant::ORIGIN).unwrap();
    let second = sim.write(connection, 1 << 30, Instant::ORIGIN + Duration::from_millis(500)).unwrap();
    sim.run(after(1)).unwrap();
    assert!(sim.flow(first).unwrap().completion_time().is_some());
    assert!(sim.flow(second).unwrap().completion_time().is_none());
    // Half a second of 10 Mbit/s is 625 kB.
    let delivered = u64::from(sim.delivered(connection).unwrap()) * 1_460;
    assert!((500_000..725_000).contains(&delivered), "{delivered}");
    assert!(sim.window(connection).unwrap() >= 10);
    let carried: &Carried = sim.transport(connection).unwrap();
    assert_eq!(carried.displaced(), 0);
    assert_eq!(carried.stats().recovery, "auto");
}

/// 60 short connections over a short queue that others fill now and then: what the first half of them sent
/// and lost, and all of them.
fn beside_a_full_queue(mendpath: &Mendpath) -> [Totals; 2] {
    let topology = Dumbbell::new(2, BitRate::from_mbps(10), Duration::from_millis(40), 30).build();
    let mut sim = Sim::new(&topology, &Options { seed: Seed(3), ..Options::default() }).unwrap();
    let mendpath = add(&mut sim, mendpath.clone());
    for n in 0..60 {
        sim.add_flow(mendpath, 0, 2, 60_000, Instant::ORIGIN + Duration::from_millis(700 * n)).unwrap();
    }
    // Others come and go, so that the queue is sometimes empty.
    let other = sim.add_profile(Profile::tcp(Tcp::linux()));
    for n in 0..14 {
        let at = Instant::ORIGIN + Duration::from_millis(200 + 3_000 * n);
        sim.add_flow(other, 1, 3, 2_000_000, at).unwrap();
    }
    sim.run(after(21)).unwrap();
    let half = sim.totals();
    sim.run_until_done(after(200)).unwrap();
    [half, sim.totals()]
}

#[test]
fn connections_of_one_simulation_know_what_earlier_ones_have_found() {
    let repair = |[half, all]: [Totals; 2]| all.extra_bytes - half.extra_bytes;
    let known = Mendpath { known_paths: true, ..Mendpath::default() };
    let later = beside_a_full_queue(&known);
    assert!(later[1].retransmissions - later[0].retransmissions > 20, "the queue loses: {later:?}");
    let first = repair(beside_a_full_queue(&Mendpath::default()));
    println!(
        "bytes of repair in the second half: {first} by first connections, {} by later ones",
        repair(later)
    );
    assert!(repair(later) * 10 < first, "{} and {first}", repair(later));
    assert_eq!(beside_a_full_queue(&known), later, "a simulation has learnt from another");
}
