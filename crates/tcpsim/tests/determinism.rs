//! The same seed gives the same trace: in every run, in every profile, on every platform. The
//! hashes are those of the first run that was looked at; a change to the model changes them, and
//! then they are replaced in the same commit, which says why.

use congestion::ControllerKind;
use mendpath_tcpsim::{
    CongestionKind, Profile, SchemeKind, Sim, Tcp,
    schemes::{Cofuso, Fuso, Mptcp},
};
use netsim::{
    Seed,
    fabric::{
        Balancing, Failure, Fault, Options, Topology,
        failure::lossy_links,
        topology::{Dumbbell, FatTree, LeafSpine, ParallelPaths, TenRouters, Wiring},
        workload::{FlowSpec, Pairs, Poisson, SizeTable},
    },
};
use units::{BitRate, Duration, Instant, LossRate};

/// The trace hash of a run until all flows are done.
fn trace(topology: &Topology, options: &Options, profile: Profile, flows: &[FlowSpec]) -> u64 {
    let mut sim = Sim::new(topology, options).unwrap();
    let profile = sim.add_profile(profile);
    sim.add_flows(profile, flows).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(10_000)).unwrap();
    assert!(sim.is_done());
    // What the flows' records say is part of it.
    for time in sim.flows().iter().filter_map(|flow| flow.completion_time()).collect::<Vec<_>>() {
        sim.fabric().record(time.as_nanos());
    }
    sim.fabric().trace_hash()
}

fn poisson(pairs: Pairs, capacity: BitRate, flows: usize, seed: u64) -> Vec<FlowSpec> {
    let sizes = SizeTable::named("websearch_dctcp").unwrap().at_most(300_000.0).unwrap();
    Poisson { load: 0.5, capacity, flows, sizes, pairs, start: Instant::ORIGIN }.flows(Seed(seed))
}

fn rate(mbps: u64) -> BitRate {
    BitRate::from_mbps(mbps)
}

fn lossy(link: netsim::fabric::LinkId, loss: f64) -> Vec<Fault> {
    vec![Fault::both(link, Failure::random(LossRate::new(loss).unwrap()))]
}

fn dumbbell() -> u64 {
    let network = Dumbbell::new(4, rate(100), Duration::from_millis(10), 50);
    let options = Options { seed: Seed(1), faults: lossy(Dumbbell::BOTTLENECK, 0.005), ..Options::default() };
    let cubic = Tcp { congestion: CongestionKind::Shared(ControllerKind::Cubic), ..Tcp::default() };
    trace(
        &network.build(),
        &options,
        Profile::tcp(cubic),
        &poisson(Pairs::Between(0..4, 4..8), rate(100), 100, 1),
    )
}

fn parallel_paths() -> u64 {
    let options =
        Options { seed: Seed(2), faults: lossy(ParallelPaths::path(0), 0.02), ..Options::default() };
    let fuso = Profile { tcp: Tcp::fuso(), scheme: SchemeKind::Fuso(Fuso::new(4)) };
    let flows = poisson(Pairs::Between(3..6, 0..3), rate(3_000), 100, 2);
    trace(&ParallelPaths::fuso().build(), &options, fuso, &flows)
}

fn ten_routers() -> u64 {
    let topology = TenRouters::cofuso(Wiring::Layers242).build();
    let faults = lossy(TenRouters::core_links(&topology)[0], 0.03);
    let options = Options { seed: Seed(3), faults, ..Options::default() };
    let cofuso = Profile { tcp: Tcp::cofuso(), scheme: SchemeKind::Cofuso(Cofuso::simulation(4)) };
    trace(&topology, &options, cofuso, &poisson(Pairs::Between(10..20, 0..10), rate(300), 60, 3))
}

fn leaf_spine() -> u64 {
    let mut network = LeafSpine::new(2, 4, 4, (rate(10_000), rate(10_000)), 250);
    network.fabric.mark = Some(netsim::fabric::Mark::Packets(65));
    let options = Options { seed: Seed(4), balancing: Balancing::Spray, ..Options::default() };
    let dctcp = Tcp { ecn: true, congestion: CongestionKind::Dctcp, ..Tcp::fuso() };
    trace(&network.build(), &options, Profile::tcp(dctcp), &poisson(Pairs::Any(0..8), rate(80_000), 200, 4))
}

fn fat_tree() -> u64 {
    let topology = FatTree::fuso().build();
    let rates = SizeTable::named("fuso_lossy_link_rate_loguniform").unwrap();
    let faults = lossy_links(&topology, 5, &[0.22, 0.24, 0.54], &rates, Seed(5));
    let options = Options { seed: Seed(5), faults, ..Options::default() };
    let olia = Tcp { congestion: CongestionKind::Shared(ControllerKind::Olia), ..Tcp::fuso() };
    let mptcp = Profile { tcp: olia, scheme: SchemeKind::Mptcp(Mptcp::new(8)) };
    trace(&topology, &options, mptcp, &poisson(Pairs::Any(0..64), rate(640_000), 200, 5))
}

#[test]
fn traces_are_those_that_were_committed() {
    let found = [
        ("dumbbell, cubic, loss", dumbbell()),
        ("parallel paths, fuso, loss", parallel_paths()),
        ("ten routers, cofuso, loss", ten_routers()),
        ("leaf-spine, dctcp, marks, spraying", leaf_spine()),
        ("fat-tree, mptcp with olia, lossy links", fat_tree()),
    ];
    let committed: [u64; 5] = [
        0xba82_4a97_9d56_4945,
        0xa287_0ce5_476b_466b,
        0xf257_519a_66b9_1ee1,
        0x4fc1_79a8_c031_db8c,
        0x59e2_8846_bec4_0485,
    ];
    let differ: Vec<_> = found
        .iter()
        .zip(committed)
        .filter(|((_, found), committed)| found != committed)
        .map(|((name, found), committed)| format!("{name}: {found:#018x}, committed {committed:#018x}"))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}
