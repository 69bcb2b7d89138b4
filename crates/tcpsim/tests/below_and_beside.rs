//! What lies below TCP (coding layers) and beside it (CTCP), and SLP on it: times worked out by
//! hand, and every scheme on lossy networks.

#[path = "common/by_hand.rs"]
mod by_hand;

use by_hand::{MS, THERE, ack};
use mendpath_tcpsim::{
    Profile, SchemeKind, Sim, Tcp, Totals,
    ctcp::Ctcp,
    schemes::Slp,
    shims::{
        Caps, Htpc, PerWindow, ShimKind,
        coding_layer::{Common, Delivery},
    },
};
use netsim::{
    Loss, Seed,
    fabric::{
        Balancing, Direction, Failure, Fault, Line, LinkId, Options, Topology,
        topology::{LeafSpine, ParallelPaths},
    },
};
use recovery::htpc_state::Sampling;
use units::{BitRate, Duration, Instant, LossRate};

/// A handshake: 40 bytes take 26,667 ns on the slow link and 27 ns on each of the three fast ones.
const HANDSHAKE: u64 = 26_667 + 27 + 27 + 27 + 20 * MS;

/// The time of one flow of `segments` full segments from its start, handshake included, if the
/// packets with these indices are lost.
fn run(profile: Profile, segments: u64, lost: &[u64]) -> (u64, Totals) {
    let (flow, totals) = by_hand::run(profile, segments, lost);
    (flow.whole_time().expect("finished").as_nanos(), totals)
}

fn slp(tcp: Tcp, slp: Slp) -> Profile {
    Profile { tcp, scheme: SchemeKind::Slp(slp) }
}

fn below(shim: ShimKind) -> Profile {
    Profile { tcp: Tcp::default(), scheme: SchemeKind::Shim(shim) }
}

#[test]
fn a_lost_syn_costs_a_second_or_the_gap_of_its_duplicate() {
    let tcp = Tcp { handshake: true, ..Tcp::default() };
    assert_eq!(run(Profile::tcp(tcp.clone()), 1, &[]).0, HANDSHAKE + THERE);
    assert_eq!(run(Profile::tcp(tcp.clone()), 1, &[0]).0, 1_000 * MS + HANDSHAKE + THERE);
    assert_eq!(run(slp(tcp.clone(), Slp::default()), 1, &[0]).0, MS + HANDSHAKE + THERE);
    // Both lost: nothing is saved.
    assert_eq!(run(slp(tcp, Slp::default()), 1, &[0, 1]).0, 1_000 * MS + HANDSHAKE + THERE);
}

#[test]
fn a_lost_push_is_mended_where_the_corrected_thresholds_say_so() {
    // SLP-A1: 1,500 bytes with q = 0.1 and an RTO of 200 ms are worth it from 29.4 Mbit/s on.
    let tcp = Tcp { handshake: true, ..Tcp::default() };
    let with = |bandwidth| slp(tcp.clone(), Slp { bandwidth: BitRate(bandwidth), ..Slp::default() });
    // Packets: SYN, its duplicate, the segment.
    let (without, totals) = run(with(29_399_999), 1, &[2]);
    assert_eq!((without, totals.timeouts), (HANDSHAKE + 200 * MS + THERE, 1));
    let (time, totals) = run(with(29_400_000), 1, &[2]);
    // The gap is a tenth of the smoothed RTT, the handshake.
    assert_eq!((time, totals.timeouts), (HANDSHAKE + HANDSHAKE / 10 + THERE, 0));
    // Before there is a sample the RTO is 1 s and the threshold 5.88 Mbit/s.
    let early =
        |bandwidth| run(slp(Tcp::default(), Slp { bandwidth: BitRate(bandwidth), ..Slp::default() }), 1, &[]);
    assert_eq!(early(5_879_999).1.copies, 0);
    assert_eq!(early(5_880_000).1.copies, 1);
}

#[test]
fn a_duplicate_fits_into_the_window_or_is_not_sent() {
    let copies = |strict, segments| {
        let (_, totals) = run(slp(Tcp::default(), Slp { strict, ..Slp::default() }), segments, &[]);
        totals.copies
    };
    // Window 10: the last segment and its copy must end within it (SLP-A3).
    assert_eq!([8, 9, 10].map(|segments| copies(false, segments)), [1, 1, 0]);
    assert_eq!([8, 9, 10].map(|segments| copies(true, segments)), [1, 0, 0]);
}

#[test]
fn plain_packets_get_no_duplicates() {
    let (time, totals) = run(slp(Tcp::default(), Slp::default()), 9, &[]);
    assert_eq!((time, totals.copies), (8 * MS + THERE, 1));
    assert_eq!((totals.timeouts, totals.retransmissions), (0, 0));
}

#[test]
fn one_coded_packet_behind_the_window_mends_any_one_loss() {
    let corrective = below(ShimKind::Corrective(PerWindow::default()));
    for lost in 0..10 {
        assert_eq!(run(corrective.clone(), 10, &[lost]).0, 10 * MS + THERE, "{lost}");
    }
    let (time, totals) = run(corrective.clone(), 10, &[]);
    assert_eq!((time, totals.parities, totals.repaired), (9 * MS + THERE, 1, 0));
    // Two losses are too many for it: 3 and 4 are retransmitted at the SACKs of 7 and 8.
    assert_eq!(run(corrective, 10, &[3, 4]).1.repaired, 1);
}

#[test]
fn nobody_codes_as_long_as_nothing_is_blocked() {
    for shim in [ShimKind::Htpc(Htpc::default()), ShimKind::Caps(Caps::default())] {
        let (time, totals) = run(below(shim), 10, &[]);
        assert_eq!((time, totals.parities), (9 * MS + THERE, 0));
    }
}

fn htpc(common: Common) -> Profile {
    below(ShimKind::Htpc(Htpc { common, ..Htpc::default() }))
}

#[test]
fn a_first_window_is_protected_if_b_is_known_before() {
    let sampling = Sampling { at_first: 0.1, ..Sampling::default() };
    // k = 10: two coded packets, the first of which mends the loss.
    let (time, totals) = run(htpc(Common { sampling, ..Common::default() }), 10, &[3]);
    assert_eq!((time, totals.parities, totals.repaired), (10 * MS + THERE, 2, 1));
    assert_eq!(run(htpc(Common::default()), 10, &[3]).1.parities, 0);
}

#[test]
fn what_waits_behind_a_hole_goes_up_although_the_average_grew_meanwhile() {
    let common = Common { delivery: Delivery::InOrder, ..Common::default() };
    let profile = Profile { tcp: Tcp { initial_window: 2, ..Tcp::default() }, ..htpc(common) };
    // Windows of 2, 4, 8: the third is 6 to 13, of which 10 is lost. 11 arrives at 58 ms with an average
    // of 21.6 ms, 12 and 13, which end the window, with one of 21.8: the hole is not given up yet when the
    // timer of 58 ms runs out. When it is, at 79.8 ms, TCP sees three packets behind it and sends again,
    // long before a timeout.
    let (time, totals) = run(profile, 14, &[10]);
    assert_eq!((totals.timeouts, totals.parities), (0, 0));
    assert!((100 * MS..102 * MS).contains(&time), "{time}");
}

#[test]
fn what_one_flow_learns_protects_the_next_if_b_is_the_hosts() {
    // The packets of a window wait behind each other: nine of ten take longer than the average so
    // far.
    let sampling = Sampling { period: None, factor: 1, ..Sampling::default() };
    let parities = |host_wide| {
        let mut sim = Sim::new(&by_hand::network(), &Options::default()).unwrap();
        let id = sim.add_profile(htpc(Common { sampling, host_wide, ..Common::default() }));
        for start in [0, 1] {
            sim.add_flow(id, 0, 1, 14_600, Instant::ORIGIN + Duration::from_secs(start)).unwrap();
        }
        sim.run_until_done(Instant::ORIGIN + Duration::from_secs(30)).unwrap();
        sim.totals().parities
    };
    assert_eq!((parities(false), parities(true)), (0, 10)); // r is at most k
}

#[test]
fn units_that_wait_are_fewer() {
    let corrective = |units_wait| {
        let common = Common { units_wait, ..Common::default() };
        run(below(ShimKind::Corrective(PerWindow { common })), 400, &[]).1.parities
    };
    assert!(corrective(true) < corrective(false), "{} {}", corrective(true), corrective(false));
}

#[test]
fn ctcp_mends_at_the_first_gap() {
    let tcp = Tcp { initial_window: 10, ..Ctcp::tcp() };
    let ctcp = Profile { tcp, scheme: SchemeKind::transport(Ctcp::default()) };
    let (time, totals) = run(ctcp.clone(), 10, &[]);
    assert_eq!((time, totals.parities), (9 * MS + THERE, 0));
    // The acknowledgement of 4 shows that 3 is lost: p = 1/128, five are on the fly and six are
    // needed, so two go (CTCP-A19).
    let (time, totals) = run(ctcp.clone(), 10, &[3]);
    assert_eq!((time, totals.parities, totals.repaired, totals.timeouts), (ack(4) + THERE, 2, 1, 0));
    // Nothing behind the last one shows its loss: the timer does.
    let (time, totals) = run(ctcp, 10, &[9]);
    assert_eq!((time, totals.timeouts), (ack(8) + 200 * MS + THERE, 1));
}

#[test]
fn ctcp_fills_a_lossy_link_that_reno_cannot() {
    // CTCP section 6.1: 25 Mbit/s, 25 ms, one bandwidth-delay product of buffer, loss before the
    // rate limit.
    let delivered = |profile: Profile| {
        let line = Line::new(BitRate::from_mbps(25), Duration::from_micros(12_500), 52);
        let mut topology = Topology::new(2, 1);
        topology.attach(0, 0, line, Line::new(BitRate::from_mbps(1_000), Duration::ZERO, 1_000));
        topology.attach(
            1,
            0,
            Line { delay: Duration::from_micros(12_500), ..line },
            Line::new(BitRate::from_mbps(1_000), Duration::ZERO, 1_000),
        );
        let loss = Loss::Bernoulli(LossRate::new(0.05).unwrap());
        let failure = Failure::Loss { loss, data_only: true, before_rate: true };
        let faults = vec![Fault { link: LinkId(0), direction: Direction::Forward, failure }];
        let mut sim = Sim::new(&topology, &Options { seed: Seed(3), faults, ..Options::default() }).unwrap();
        let id = sim.add_profile(profile);
        let conn = sim.connect(id, 0, 1).unwrap();
        sim.write(conn, 1_000_000_000, Instant::ORIGIN).unwrap();
        sim.run(Instant::ORIGIN + Duration::from_secs(20)).unwrap();
        f64::from(sim.delivered(conn).unwrap()) * 1_500.0 * 8.0 / 20.0 / 25e6
    };
    let (ctcp, reno) = (delivered(Ctcp::default().profile()), delivered(Profile::tcp(Tcp::default())));
    assert!(ctcp > 0.85 && reno < 0.2, "{ctcp} {reno}");
}

fn schemes() -> Vec<(&'static str, Profile, Balancing)> {
    let tcp = Tcp { min_rto: Duration::from_millis(10), ..Tcp::default() };
    let shim = |name, shim: ShimKind| {
        (name, Profile { tcp: tcp.clone(), scheme: SchemeKind::Shim(shim) }, shim.balancing())
    };
    let in_order = Common { delivery: Delivery::InOrder, ..Common::default() };
    vec![
        ("ecmp", Profile::tcp(tcp.clone()), Balancing::FlowHash),
        ("rps", Profile::tcp(tcp.clone()), Balancing::Spray),
        shim("corrective", ShimKind::Corrective(PerWindow::default())),
        shim("caps", ShimKind::Caps(Caps::default())),
        shim("htpc", ShimKind::Htpc(Htpc::default())),
        shim("htpc in order", ShimKind::Htpc(Htpc { common: in_order, ..Htpc::default() })),
        (
            "slp",
            slp(Tcp { handshake: true, ..tcp.clone() }, Slp { learn: true, ..Slp::default() }),
            Balancing::FlowHash,
        ),
        ("ctcp", Profile { tcp, scheme: SchemeKind::transport(Ctcp::default()) }, Balancing::FlowHash),
    ]
}

/// 60 flows of 1 B to 200 KB between the racks of FUSO's testbed, with this loss on the first path.
fn lossy(profile: &Profile, balancing: Balancing, loss: f64, seed: u64) -> (Totals, u64) {
    let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(LossRate::new(loss).unwrap()))];
    let options = Options { seed: Seed(seed), faults, balancing, ..Options::default() };
    let mut sim = Sim::new(&ParallelPaths::fuso().build(), &options).unwrap();
    let id = sim.add_profile(profile.clone());
    for n in 0..60_u32 {
        let at = Instant::ORIGIN + Duration::from_millis(4) * u64::from(n);
        sim.add_flow(id, 3 + n % 3, n / 3 % 3, 1 + u64::from(n) * u64::from(n) * 57, at).unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100_000)).unwrap();
    (sim.totals(), sim.fabric().trace_hash())
}

#[test]
fn every_flow_ends_and_equal_runs_are_equal() {
    for (name, profile, balancing) in schemes() {
        for loss in [0.0, 0.01, 0.1, 0.4] {
            let (totals, hash) = lossy(&profile, balancing, loss, 1);
            assert_eq!(totals.finished, 60, "{name} {loss}");
            assert_eq!((totals, hash), lossy(&profile, balancing, loss, 1), "{name} {loss}");
            if loss == 0.1 {
                assert_ne!(hash, lossy(&profile, balancing, loss, 2).1, "{name}");
            }
        }
    }
}

/// 40 short flows and 4 long ones between four leaves with four ways: HTPC's "Basic performance".
fn crowded(profile: &Profile, balancing: Balancing) -> (Totals, u64) {
    let rate = BitRate::from_mbps(1_000);
    let network = LeafSpine::new(4, 4, 12, (rate, rate), 100);
    let mut sim = Sim::new(&network.build(), &Options { balancing, ..Options::default() }).unwrap();
    let id = sim.add_profile(profile.clone());
    for n in 0..44_u32 {
        let (bytes, at) =
            if n < 4 { (2_000_000, 0) } else { (20_000 + u64::from(n) * 1_000, u64::from(n) * 200) };
        sim.add_flow(id, n % 48, (n + 12 + n % 5) % 48, bytes, Instant::ORIGIN + Duration::from_micros(at))
            .unwrap();
    }
    sim.run_until_done(Instant::ORIGIN + Duration::from_secs(100)).unwrap();
    (sim.totals(), sim.fabric().stats().dropped)
}

#[test]
fn holding_packets_hides_reordering_from_tcp() {
    let all = schemes();
    let totals = |wanted: &str| {
        let (_, profile, balancing) = all.iter().find(|(name, ..)| *name == wanted).unwrap();
        crowded(profile, *balancing).0
    };
    let (ecmp, rps, htpc, in_order) =
        (totals("ecmp"), totals("rps"), totals("htpc"), totals("htpc in order"));
    // Spraying reorders, and TCP sends again what was not lost; so with HTPC as the paper describes
    // it.
    assert!(rps.duplicates > 10 * ecmp.duplicates, "{rps:?} {ecmp:?}");
    assert!(in_order.duplicates * 2 < htpc.duplicates, "{in_order:?} {htpc:?}");
    assert!(htpc.parities > 0 && in_order.parities > 0, "{htpc:?} {in_order:?}");
}
