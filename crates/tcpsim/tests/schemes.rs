//! Every scheme on lossy and clean networks: flows end, numbers add up, equal runs are equal.

use mendpath_tcpsim::{
    CongestionKind, FlowId, Profile, SchemeKind, Sim, Tcp, Totals,
    controllers::CONTROLLERS,
    schemes::{Cofuso, Corrective, Fuso, Mptcp, QuicFec, Released, Xlink, quic_fec::Code, reactive},
    shims::{ShimKind, reps},
};
use netsim::{
    Loss, Seed,
    fabric::{
        Direction, Failure, Fault, Options,
        topology::{Dumbbell, ParallelPaths},
    },
};
use units::{BitRate, Duration, Instant, LossRate};

fn schemes() -> Vec<(&'static str, Profile)> {
    let tcp = Tcp::fuso();
    let with = |scheme| Profile { tcp: tcp.clone(), scheme };
    let shared = |kind| Profile::tcp(Tcp { congestion: CongestionKind::Shared(kind), ..tcp.clone() });
    vec![
        ("tcp", Profile::tcp(tcp.clone())),
        (
            "delayed acks",
            Profile::tcp(Tcp { ack_every: 2, ack_delay: Duration::from_millis(1), ..tcp.clone() }),
        ),
        ("dctcp", Profile::tcp(Tcp { congestion: CongestionKind::Dctcp, ..tcp.clone() })),
        ("cubic", shared(congestion::ControllerKind::Cubic)),
        ("newreno", shared(congestion::ControllerKind::NewReno)),
        ("handshake", Profile::tcp(Tcp { handshake: true, ..tcp.clone() })),
        ("rack", Profile::tcp(Tcp { rack: true, ..tcp.clone() })),
        ("no sack", Profile::tcp(Tcp { sack: false, ..tcp.clone() })),
        ("reactive", Profile::tcp(reactive(tcp.clone()))),
        ("corrective", with(SchemeKind::Corrective(Corrective::fuso()))),
        ("proactive", with(SchemeKind::Proactive)),
        ("repflow", with(SchemeKind::RepFlow)),
        ("mptcp", with(SchemeKind::Mptcp(Mptcp::new(4)))),
        (
            "small window",
            Profile {
                tcp: Tcp { receive_window: 8, ..tcp.clone() },
                scheme: SchemeKind::Mptcp(Mptcp::new(4)),
            },
        ),
        ("fuso", with(SchemeKind::Fuso(Fuso::new(4)))),
        (
            "fuso as released",
            with(SchemeKind::Fuso(Fuso { released: Some(Released { missed: 0.3 }), ..Fuso::new(4) })),
        ),
        ("xlink", with(SchemeKind::Xlink(Xlink::new(4)))),
        ("fec blocks", with(SchemeKind::QuicFec(QuicFec::new(Code::Block { size: 10, repair: 2 })))),
        ("fec windows", with(SchemeKind::QuicFec(QuicFec::new(Code::Window { size: 50, every: 5 })))),
        (
            "cloudburst",
            with(SchemeKind::QuicFec(QuicFec {
                mptcp: Mptcp::new(4).with_early_delivery(),
                code: Code::Message { share: 0.2 },
            })),
        ),
        ("reps", Profile { tcp: reps::tcp(tcp.clone()), scheme: SchemeKind::Shim(ShimKind::Reps) }),
        (
            "bbr-like",
            Profile::tcp(Tcp { congestion: CongestionKind::Custom((CONTROLLERS[0].1)()), ..tcp.clone() }),
        ),
        ("fuso on one sub-flow", with(SchemeKind::Fuso(Fuso::new(1)))),
        ("cofuso", with(SchemeKind::Cofuso(Cofuso::simulation(4)))),
        (
            "cofuso testbed",
            Profile {
                tcp: Cofuso::tcp(Tcp { handshake: true, ..tcp.clone() }),
                scheme: SchemeKind::Cofuso(Cofuso::testbed(4)),
            },
        ),
    ]
}

/// 60 flows of 1 B to 200 KB between the racks of FUSO's testbed, with this loss on the first path.
fn run(profile: &Profile, loss: f64, seed: u64) -> (Totals, u64, Vec<Duration>) {
    let network = ParallelPaths::fuso();
    let rate = LossRate::new(loss).unwrap();
    let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(rate))];
    let options = Options { seed: Seed(seed), faults, ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).unwrap();
    let id = sim.add_profile(profile.clone());
    for n in 0..60_u32 {
        let at = Instant::ORIGIN + Duration::from_millis(4) * u64::from(n);
        let bytes = 1 + u64::from(n) * u64::from(n) * 57;
        sim.add_flow(id, 3 + n % 3, n / 3 % 3, bytes, at).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100_000)).unwrap();
    let time = |flow: &mendpath_tcpsim::FlowRecord| {
        flow.completion_time().unwrap_or_else(|| panic!("does not end: {flow:?}, {profile:?}"))
    };
    let times = sim.flows().iter().map(time).collect();
    let hash = sim.fabric().trace_hash();
    (sim.totals(), hash, times)
}

#[test]
fn every_flow_ends_and_equal_runs_are_equal() {
    for (name, profile) in schemes() {
        for loss in [0.0, 0.01, 0.1, 0.4] {
            let (totals, hash, times) = run(&profile, loss, 1);
            assert_eq!(
                (totals, hash),
                {
                    let (totals, hash, _) = run(&profile, loss, 1);
                    (totals, hash)
                },
                "{name} {loss}"
            );
            assert_eq!(totals.finished, 60, "{name} {loss}");
            assert!(times.iter().all(|time| *time > Duration::from_micros(140)), "{name} {loss}: {times:?}");
            if loss == 0.0 {
                assert_eq!(totals.timeouts, 0, "{name}");
            } else if loss < 0.4 {
                assert_ne!(run(&profile, loss, 2).1, hash, "{name} {loss}");
            }
        }
    }
}

#[test]
fn redundancy_is_what_the_schemes_say() {
    let totals = |name: &str, loss| {
        let (_, profile) = schemes().into_iter().find(|(known, _)| *known == name).unwrap();
        run(&profile, loss, 3).0
    };
    let tcp = totals("tcp", 0.0);
    assert_eq!((tcp.copies, tcp.parities, tcp.retransmissions), (0, 0, 0));
    let proactive = totals("proactive", 0.0);
    assert_eq!((proactive.packets, proactive.copies), (2 * tcp.packets, tcp.packets));
    let repflow = totals("repflow", 0.0);
    assert_eq!((repflow.packets, repflow.copies), (2 * tcp.packets, tcp.packets));
    assert_eq!(totals("mptcp", 0.0).packets, tcp.packets);
    let corrective = totals("corrective", 0.0);
    assert!(corrective.parities > 60 && corrective.parities < tcp.packets, "{corrective:?}");
    let (fuso, cofuso) = (totals("fuso", 0.0), totals("cofuso", 0.0));
    assert!(fuso.copies > 60 && fuso.parities == 0 && fuso.repaired == 0, "{fuso:?}");
    assert!(cofuso.parities > 60 && cofuso.repaired == 0, "{cofuso:?}");
    for name in ["corrective", "proactive", "fuso", "cofuso", "cofuso testbed"] {
        let lossy = totals(name, 0.05);
        let repaired = lossy.repaired > 0 || name == "proactive"; // its copies look like originals
        assert!(repaired && lossy.useful <= lossy.copies + lossy.parities, "{name}: {lossy:?}");
    }
}

/// One flow of 20 segments, a window, over a path that loses these of its data packets.
fn with_losses(tcp: Tcp, nth: &[u64]) -> (Totals, Duration) {
    let network = ParallelPaths { paths: 1, per_rack: 1, ..ParallelPaths::fuso() };
    let failure = Failure::Loss { loss: Loss::nth(nth.iter().copied()), data_only: true, before_rate: false };
    let fault = Fault { link: ParallelPaths::path(0), direction: Direction::Forward, failure };
    let options = Options { faults: vec![fault], ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).unwrap();
    let id = sim.add_profile(Profile::tcp(tcp));
    sim.add_flow(id, 0, 1, 20 * 1_460, Instant::ORIGIN).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100)).unwrap();
    (sim.totals(), sim.flows()[0].completion_time().unwrap())
}

/// Several losses of a window: with SACK all are sent again in one round trip, without it each waits
/// for the partial acknowledgement that the one before brings (RFC 6582 section 3.2). None needs the
/// timer, and nothing is sent twice in vain.
#[test]
fn without_sack_a_round_trip_repairs_one_loss() {
    let with = Tcp { initial_window: 20, early_retransmit: false, ..Tcp::default() };
    let without = Tcp { sack: false, ..with.clone() };
    let lost = [&[3][..], &[3, 8], &[3, 8, 12]];
    let times = |tcp: &Tcp| {
        lost.map(|lost| {
            let (totals, time) = with_losses(tcp.clone(), lost);
            // With SACK the end of the window is sent again once more, as a rescue (RFC 6675).
            let rescue = u64::from(tcp.sack);
            let found = (totals.retransmissions, totals.timeouts, totals.duplicates);
            assert_eq!(found, (lost.len() as u64 + rescue, 0, rescue), "{lost:?}, sack {}", tcp.sack);
            time.as_micros()
        })
    };
    let (with, plain) = (times(&with), times(&without));
    assert_eq!(with[0], plain[0]);
    // A round trip of the empty network is some 280 us.
    assert!(with[2] < with[0] + 150, "{with:?}");
    assert!(plain.windows(2).all(|pair| (200..400).contains(&(pair[1] - pair[0]))), "{plain:?}");
    // The last packet's loss shows to neither.
    assert_eq!(with_losses(without, &[19]).0.timeouts, 1);
}

/// The released code resends no less than the paper's rule asks for where nothing is lost, and
/// less if it misses attempts.
#[test]
fn fuso_as_released_resends_what_it_has_occasion_for() {
    let copies = |released| {
        let fuso = Fuso { released, ..Fuso::new(4) };
        run(&Profile { tcp: Tcp::fuso(), scheme: SchemeKind::Fuso(fuso) }, 0.0, 3).0.copies
    };
    let (paper, all) = (copies(None), copies(Some(Released { missed: 0.0 })));
    let half = copies(Some(Released { missed: 0.5 }));
    let none = copies(Some(Released { missed: 1.0 }));
    assert!(all > paper / 2 && half < all && none == 0, "{paper} {all} {half} {none}");
}

#[test]
fn opportunistic_retransmission_needs_a_full_receive_window() {
    let run = |opportunistic| {
        let mptcp = Mptcp { opportunistic, ..Mptcp::new(4) };
        let tcp = Tcp { receive_window: 8, ..Tcp::fuso() };
        run(&Profile { tcp, scheme: SchemeKind::Mptcp(mptcp) }, 0.05, 4).0
    };
    assert!(run(true).duplicates > run(false).duplicates);
}

/// A flow of 19 segments over two sub-flows of 10 on two paths, one each, with one slot to spare;
/// the data packet `lost` of the first path is lost. The completion time.
fn two_paths(scheme: SchemeKind, lost: u64) -> (Duration, Totals) {
    let network = ParallelPaths { paths: 2, per_rack: 1, ..ParallelPaths::fuso() };
    let failure = Failure::Loss { loss: Loss::nth([lost]), data_only: true, before_rate: false };
    let fault = Fault { link: ParallelPaths::path(0), direction: Direction::Forward, failure };
    // Seeds differ in how ECMP hashes the sub-flows: take the first that puts ten packets and their
    // like on each path.
    for seed in 0..50 {
        let options = Options { seed: Seed(seed), faults: vec![fault.clone()], ..Options::default() };
        let mut sim = Sim::new(&network.build(), &options).unwrap();
        let profile =
            sim.add_profile(Profile { tcp: Tcp { ecn: false, ..Tcp::default() }, scheme: scheme.clone() });
        let flow = sim.add_flow(profile, 0, 1, 19 * 1_460, Instant::ORIGIN).unwrap();
        sim.run(Instant::ORIGIN + Duration::from_micros(150)).unwrap();
        let mut sent = |path| sim.fabric().port_stats(ParallelPaths::path(path).forward()).unwrap().sent;
        let separate = sent(0) > 0 && sent(1) == 0; // sub-flow 0 goes first
        sim.run_until_done(Instant::ORIGIN + Duration::from_secs(10)).unwrap();
        let both = sim.fabric().port_stats(ParallelPaths::path(1).forward()).unwrap().sent >= 9;
        if separate && both {
            return (sim.flow(flow).unwrap().completion_time().unwrap(), sim.totals());
        }
    }
    panic!("no seed separates the sub-flows");
}

#[test]
fn cofuso_repairs_any_loss_with_the_one_spare_slot_and_fuso_only_the_first() {
    // CoFUSO Fig. 9(a): 19 of 20 slots are used. Nothing was lost before and no RTT is known: the
    // worst sub-flow is 0, the best the lowest with room, 1. FUSO copies packet 0; CoFUSO sends one
    // parity over all of sub-flow 0.
    let slot = 12_000; // 1,500 bytes at 1 Gbit/s
    let path = 3 * 46_666; // three links' delay
    let spare = Duration::from_nanos(20 * slot + 2 * slot + path); // the twentieth packet: two more serialisations behind
    for lost in 0..10 {
        let (fuso, _) = two_paths(SchemeKind::Fuso(Fuso::new(2)), lost);
        let (cofuso, totals) = two_paths(SchemeKind::Cofuso(Cofuso::simulation(2)), lost);
        assert_eq!(fuso == spare, lost == 0, "{lost}: {fuso}");
        // The parity is 20 bytes larger: 160 ns on each of three links.
        assert_eq!(cofuso, spare + Duration::from_nanos(3 * 160), "{lost}");
        assert_eq!(totals.repaired, 1, "{lost}");
    }
}

#[test]
fn idle_connections_are_small() {
    let topology = Dumbbell::new(1, BitRate::from_mbps(1_000), Duration::from_micros(100), 100).build();
    let mut sim = Sim::new(&topology, &Options::default()).unwrap();
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    for n in 0..100 {
        let conn = sim.connect(tcp, 0, 1).unwrap();
        sim.write(conn, 100_000, Instant::from_nanos(n)).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(5)).unwrap();
    sim.run(sim.now() + Duration::from_secs(5)).unwrap();
    let (count, bytes) = sim.connection_memory();
    assert_eq!(count, 100);
    assert!(bytes < 100 * 1_024, "{}", bytes / count);
}

#[test]
fn what_cannot_be_is_refused() {
    let topology = Dumbbell::new(1, BitRate::from_mbps(1), Duration::from_millis(1), 5).build();
    let mut sim = Sim::new(&topology, &Options::default()).unwrap();
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    assert!(sim.add_flow(tcp, 0, 0, 1, Instant::ORIGIN).is_err());
    assert!(sim.add_flow(tcp, 0, 7, 1, Instant::ORIGIN).is_err());
    assert!(sim.add_flow(tcp, 0, 1, u64::MAX, Instant::ORIGIN).is_err());
    let mut other = Sim::new(&topology, &Options::default()).unwrap();
    assert!(other.add_flow(tcp, 0, 1, 1, Instant::ORIGIN).is_err());
    let conn = sim.connect(tcp, 0, 1).unwrap();
    assert!(other.write(conn, 1, Instant::ORIGIN).is_err());
}

/// Ten long flows over 1 Gbit/s for half a second: the mean queue in packets, its longest, and the
/// bytes delivered.
fn bottleneck(tcp: Tcp, mark: Option<u32>) -> (f64, u32, u64) {
    let mut network = Dumbbell::new(10, BitRate::from_mbps(1_000), Duration::from_micros(100), 100);
    network.bottleneck.mark = mark.map(netsim::fabric::Mark::Packets);
    let mut sim = Sim::new(&network.build(), &Options::default()).unwrap();
    let profile = sim.add_profile(Profile::tcp(tcp.clone()));
    for pair in 0..10 {
        sim.add_flow(profile, pair, 10 + pair, 1 << 30, Instant::ORIGIN).unwrap();
    }
    let port = Dumbbell::BOTTLENECK.forward();
    sim.run(Instant::ORIGIN + Duration::from_millis(100)).unwrap();
    let (mut sum, mut longest, mut looks) = (0_u64, 0, 0_u64);
    let until = Instant::ORIGIN + Duration::from_millis(500);
    sim.run_watching(until, Duration::from_micros(37), |sim| {
        let (packets, _) = sim.fabric().waiting(port).unwrap();
        (sum, longest, looks) = (sum + u64::from(packets), longest.max(packets), looks + 1);
    })
    .unwrap();
    (sum as f64 / looks as f64, longest, sim.fabric().port_stats(port).unwrap().sent_bytes)
}

#[test]
fn dctcp_keeps_the_queue_at_its_threshold_and_the_link_busy() {
    let dctcp = Tcp { ecn: true, congestion: CongestionKind::Dctcp, ..Tcp::default() };
    let (mean, longest, bytes) = bottleneck(dctcp, Some(20));
    assert!((10.0..35.0).contains(&mean) && longest < 100, "{mean} {longest}");
    assert!(bytes > 59_000_000, "{bytes}"); // of 62.5 MB
    let (reno, longest, _) = bottleneck(Tcp::default(), None);
    assert!(reno > mean && longest == 100, "{reno} {longest}");
}

/// Requests and responses between a pair of hosts over `profile`'s long-lived connections, with
/// `loss` on every path.
fn exchanges(profile: &Profile, loss: f64) -> (Sim, Vec<(FlowId, FlowId)>) {
    some_exchanges(40, profile, loss)
}

fn some_exchanges(count: u64, profile: &Profile, loss: f64) -> (Sim, Vec<(FlowId, FlowId)>) {
    let network = ParallelPaths::fuso();
    let lossy = |path| Fault::both(ParallelPaths::path(path), Failure::random(LossRate::new(loss).unwrap()));
    let options = Options { seed: Seed(5), faults: (0..3).map(lossy).collect(), ..Options::default() };
    let mut sim = Sim::new(&network.build(), &options).unwrap();
    let id = sim.add_profile(profile.clone());
    let (there, back) = (sim.connect(id, 3, 0).unwrap(), sim.connect(id, 0, 3).unwrap());
    let exchange = |n| {
        let asked = sim.write(there, 100, Instant::ORIGIN + Duration::from_millis(20) * n).unwrap();
        (asked, sim.write_after(asked, back, 30_000).unwrap())
    };
    let pairs = (0..count).map(exchange).collect();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100)).unwrap();
    (sim, pairs)
}

#[test]
fn a_response_starts_when_its_request_has_arrived() {
    for (name, profile) in schemes() {
        let (sim, pairs) = exchanges(&profile, 0.02);
        for (asked, answered) in pairs {
            let (asked, answered) = (sim.flow(asked).unwrap(), sim.flow(answered).unwrap());
            assert_eq!((asked.to, asked.from), (answered.from, answered.to), "{name}");
            // What is written before a handshake is over starts with its end.
            assert!(
                profile.tcp.handshake || asked.finished == answered.started,
                "{name}: {asked:?} {answered:?}"
            );
            assert!(answered.completion_time().is_some(), "{name}");
        }
    }
}

/// Every response once left a timer behind that set another with every later write: as many as
/// exchanges, squared.
#[test]
fn timers_grow_with_exchanges_and_not_faster() {
    let timers = |count| {
        let (mut sim, _) = some_exchanges(count, &Profile::tcp(Tcp::fuso()), 0.0);
        sim.fabric().stats().timers
    };
    let (few, many) = (timers(50), timers(500));
    assert!(many <= 11 * few, "{few} timers for 50 exchanges, {many} for 500");
}

#[test]
fn repflow_has_two_long_lived_connections_and_the_quicker_counts() {
    let plain = Profile::tcp(Tcp::fuso());
    let twice = Profile { scheme: SchemeKind::RepFlow, ..plain.clone() };
    let packets = exchanges(&plain, 0.0).0.totals().packets;
    assert_eq!(exchanges(&twice, 0.0).0.totals().packets, 2 * packets);
    let timed_out =
        |profile| exchanges(profile, 0.05).0.flows().iter().filter(|flow| flow.timeouts > 0).count();
    assert!(timed_out(&plain) > 0);
    let slowest = |profile| {
        let (sim, pairs) = exchanges(profile, 0.05);
        pairs.iter().map(|(_, answered)| sim.flow(*answered).unwrap().completion_time().unwrap()).max()
    };
    assert!(slowest(&twice) < slowest(&plain));
}

#[test]
fn what_is_younger_than_the_papers_repairs_at_its_price() {
    let totals = |name: &str, loss| {
        let (_, profile) = schemes().into_iter().find(|(known, _)| *known == name).unwrap();
        run(&profile, loss, 3).0
    };
    for name in ["fec blocks", "fec windows", "cloudburst"] {
        let (clean, lossy) = (totals(name, 0.0), totals(name, 0.1));
        assert!(clean.parities > 0 && clean.copies == 0 && clean.useful == 0, "{name}: {clean:?}");
        assert!(lossy.useful > 0 && lossy.repaired >= lossy.useful, "{name}: {lossy:?}");
        assert!((0.05..0.35).contains(&clean.extra_load()), "{name}: {}", clean.extra_load());
    }
    let (clean, lossy) = (totals("xlink", 0.0), totals("xlink", 0.1));
    assert!(clean.copies > 0 && clean.parities == 0 && clean.repaired < lossy.repaired, "{lossy:?}");
}

/// One of three paths is a black hole. A flow by ECMP may never get out of it; entropies that do not
/// come back are not used again.
#[test]
fn entropies_that_fail_are_not_used_again() {
    let faults = vec![Fault::both(ParallelPaths::path(0), Failure::BlackHole)];
    let options = Options { seed: Seed(5), faults, ..Options::default() };
    let mut sim = Sim::new(&ParallelPaths::fuso().build(), &options).unwrap();
    let scheme = SchemeKind::Shim(ShimKind::Reps);
    let reps = sim.add_profile(Profile { tcp: reps::tcp(Tcp::fuso()), scheme });
    let flow = sim.add_flow(reps, 3, 0, 3_000_000, Instant::ORIGIN).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100)).unwrap();
    let record = sim.flow(flow).unwrap();
    // 24 ms at the rate of a host's link. A third of what is sprayed blindly would be lost.
    assert!(record.completion_time().unwrap() < Duration::from_secs(1), "{record:?}");
    let lost = sim.fabric().port_stats(ParallelPaths::path(0).forward()).unwrap().lost;
    assert!(lost > 0 && lost < 2_055 / 10, "{lost}");
}

/// All of a short flow is on the fastest sub-flow, which is no reason to leave it alone.
#[test]
fn xlink_sends_what_is_on_the_fastest_sub_flow_over_the_next() {
    let mut sim = Sim::new(&ParallelPaths::fuso().build(), &Options::default()).unwrap();
    let scheme = SchemeKind::Xlink(Xlink::new(2));
    let xlink = sim.add_profile(Profile { tcp: Tcp::cofuso(), scheme });
    sim.add_flow(xlink, 3, 0, 4 * 1_460, Instant::ORIGIN).unwrap();
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
    assert_eq!(sim.totals().copies, 4);
}
