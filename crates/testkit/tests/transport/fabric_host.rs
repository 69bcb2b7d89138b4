//! The transport and TCP on one fabric: the same links, the same losses, the same clock.

use mendpath_testkit::fabric_host::Mixed;
use netsim::{
    Loss, Seed,
    fabric::{
        Direction, Failure, Fault, Options,
        topology::{Dumbbell, ParallelPaths},
    },
};
use proto::{RecoveryKind, TransportConfig};
use tcpsim::{Profile, Tcp};
use units::{BitRate, Duration, Instant, LossRate};

/// FUSO's testbed, whose first path loses this share of packets both ways.
fn parallel_paths(loss: f64, seed: u64) -> Mixed {
    let faults = vec![Fault::both(ParallelPaths::path(0), Failure::random(LossRate::new(loss).unwrap()))];
    let options = Options { seed: Seed(seed), faults, ..Options::default() };
    Mixed::new(&ParallelPaths::fuso().build(), &options).unwrap()
}

fn with(recovery: RecoveryKind) -> TransportConfig {
    TransportConfig {
        recovery,
        initial_datagram_size: 1_472,
        max_datagram_size: 1_472,
        ..TransportConfig::default()
    }
}

/// Twenty flows of each kind at the same times; the trace hash.
fn both(loss: f64, seed: u64) -> (Mixed, u64) {
    let mut network = parallel_paths(loss, seed);
    let tcp = network.tcp().add_profile(Profile::tcp(Tcp { handshake: true, ..Tcp::fuso() }));
    for n in 0..20 {
        let at = Instant::ORIGIN + Duration::from_millis(3) * u64::from(n);
        let (from, to) = (3 + n % 3, n / 3 % 3);
        network.tcp().add_flow(tcp, from, to, 40_000, at).unwrap();
        let config = with(RecoveryKind::ALL[n as usize % RecoveryKind::ALL.len()]);
        network.add_flow(&config, 4, (from, to), 40_000, at).unwrap();
    }
    network.run_until_done(Instant::ORIGIN + Duration::from_secs(60)).unwrap();
    let hash = network.tcp().fabric().trace_hash();
    (network, hash)
}

#[test]
fn a_transport_pair_and_a_tcp_pair_cross_the_same_lossy_fabric() {
    let (mut network, hash) = both(0.05, 1);
    assert_eq!(network.displaced(), 0);
    let lost = network.tcp().fabric().port_stats(ParallelPaths::path(0).forward()).unwrap().lost;
    assert!(lost > 0, "the path loses");
    let floor = Duration::from_micros(140); // half of the base round-trip time
    assert!(network.tcp().flows().iter().all(|flow| flow.completion_time().unwrap() > floor));
    assert!(network.flows().iter().all(|flow| flow.completion_time().unwrap() > floor));
    let stats = || network.flows().iter().map(|flow| &flow.stats);
    assert!(stats().any(|stats| stats.packets_lost > 0));
    assert!(stats().any(|stats| stats.copies_sent > 0) && stats().any(|stats| stats.repair_symbols_sent > 0));
    assert!(stats().filter(|stats| stats.recovery == "none").all(|stats| stats.recovery_bytes_sent == 0));
    // TLS draws other bytes in every run, and nothing else differs.
    assert_eq!(both(0.05, 1).1, hash);
    assert_ne!(both(0.05, 2).1, hash);
}

#[test]
fn without_loss_the_transport_takes_what_the_network_needs() {
    // 20,000 bytes in 14 packets on four paths with ten packets of window each: half a round trip
    // and the serialisation.
    let mut network = parallel_paths(0.0, 1);
    let config = TransportConfig { recovery: RecoveryKind::None, ..with(RecoveryKind::None) };
    let flow = network.add_flow(&config, 4, (3, 0), 20_000, Instant::ORIGIN).unwrap();
    network.run_until_done(Instant::ORIGIN + Duration::from_secs(1)).unwrap();
    let time = network.flow(flow).unwrap().completion_time().unwrap();
    assert!((Duration::from_micros(280)..Duration::from_micros(1_000)).contains(&time), "{time}");
}

#[test]
fn marks_reach_the_transport() {
    let mut dumbbell = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(10), 1_000);
    dumbbell.bottleneck.mark = Some(netsim::fabric::Mark::Packets(30));
    let mut network = Mixed::new(&dumbbell.build(), &Options::default()).unwrap();
    let flow = network.add_flow(&with(RecoveryKind::None), 1, (0, 1), 5_000_000, Instant::ORIGIN).unwrap();
    network.run_until_done(Instant::ORIGIN + Duration::from_secs(10)).unwrap();
    let port = network.tcp().fabric().port_stats(Dumbbell::BOTTLENECK.forward()).unwrap();
    assert!(port.marked > 0 && port.dropped == 0, "{port:?}");
    assert_eq!(network.flow(flow).unwrap().stats.packets_lost, 0);
}

#[test]
fn a_long_lived_connection_carries_one_flow_after_the_other_beside_a_tcp_connection() {
    let network = Dumbbell::new(2, BitRate::from_mbps(50), Duration::from_millis(20), 80);
    let failure = Failure::Loss { loss: Loss::nth([30, 60, 90]), data_only: true, before_rate: false };
    let faults = vec![Fault { link: Dumbbell::BOTTLENECK, direction: Direction::Forward, failure }];
    let mut network = Mixed::new(&network.build(), &Options { faults, ..Options::default() }).unwrap();
    let connection = network.connect(&with(RecoveryKind::Cofuso), 1, (0, 2), Instant::ORIGIN).unwrap();
    let tcp = network.tcp().add_profile(Profile::tcp(Tcp { handshake: true, ..Tcp::default() }));
    network.tcp().add_flow(tcp, 1, 3, 500_000, Instant::ORIGIN).unwrap();
    for n in 0..5 {
        network.write(connection, 100_000, Instant::ORIGIN + Duration::from_millis(200) * n).unwrap();
    }
    network.run_until_done(Instant::ORIGIN + Duration::from_secs(20)).unwrap();
    let times: Vec<_> = network.flows().iter().map(|flow| flow.completion_time().unwrap()).collect();
    assert!(times.iter().all(|time| *time > Duration::from_millis(26)), "{times:?}"); // 16 ms of sending, half a round trip
    let started: Vec<_> = network.flows().iter().map(|flow| flow.started).collect();
    assert!(started[0] >= Instant::ORIGIN + Duration::from_millis(20), "{}", started[0]); // after the handshake
    assert_eq!(started[3], Instant::ORIGIN + Duration::from_millis(600));
    assert!(network.tcp().flows()[0].completion_time().is_some());
}
