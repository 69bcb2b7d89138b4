//! Every failure that the random scenarios found, by name.

use netsim::{LinkConfig, Loss, link::OutageKind};
use proto::{RecoveryKind, Side, TransportConfig};
use testkit::{
    Outcome, Scenario,
    scenario::{Operation, PathPlan, StreamPlan},
};
use units::{BitRate, Duration, LossRate};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn link(mbps: u64, delay: u64) -> LinkConfig {
    LinkConfig::new().rate(BitRate::from_mbps(mbps)).delay(ms(delay))
}

fn percent(n: f64) -> Loss {
    Loss::Bernoulli(LossRate::new(n / 100.0).unwrap())
}

fn transport() -> TransportConfig {
    TransportConfig {
        max_datagram_size: 1_452,
        max_idle_timeout: Duration::from_secs(200),
        ..Default::default()
    }
}

fn scenario(paths: Vec<PathPlan>, operations: Vec<(Duration, Operation)>) -> Scenario {
    Scenario {
        seed: 1,
        paths,
        client: transport(),
        server: transport(),
        operations,
        reader_pause: [Duration::ZERO; 2],
    }
}

fn succeeds(scenario: &Scenario) -> Outcome {
    testkit::run(scenario).unwrap_or_else(|failure| panic!("{failure}\n{scenario:#?}"))
}

fn exchange(opener: Side, forward: u64, back: u64) -> Operation {
    Operation::Stream(StreamPlan::exchange(opener, forward, back))
}

/// ACKs and probes left on a path whose address had not shown that it receives, beyond three times what it had sent.
#[test]
fn acks_and_probes_count_against_the_amplification_limit() {
    // Of path 1 only the client's first challenge arrives, nothing gets back.
    let path =
        PathPlan { up: link(10, 20).loss(Loss::nth(1..1_000)), down: link(10, 20).loss(percent(100.0)) };
    let first = PathPlan::symmetric(&link(10, 20));
    let operations = vec![
        (ms(0), Operation::OpenPath(1)),
        (ms(0), exchange(Side::Client, 20_000, 200_000)),
        // Path 0 falls silent, so that the server looks for another.
        (ms(150), Operation::Cut { path: 0, kind: OutageKind::Drop }),
        (ms(3_000), Operation::Restore(0)),
        (ms(3_500), exchange(Side::Server, 20_000, 200_000)),
    ];
    succeeds(&scenario(vec![first, path], operations));
    for seed in [275, 598, 768, 17_421, 11_798] {
        succeeds(&Scenario::generate(seed));
    }
}

/// The server closed every path but one that the client was still validating; the client gave that up, too, and sat there without
/// any path.
#[test]
fn the_last_path_is_not_given_up() {
    succeeds(&Scenario::generate(4_254));
}

/// Symbols overtook their sources, which were not kept because the peer had not offered to decode; when enough symbols had come,
/// packets that had arrived meanwhile were rebuilt and their datagrams delivered again.
#[test]
fn a_packet_that_arrived_is_not_rebuilt() {
    let path = PathPlan::symmetric(&link(10, 50).jitter(ms(40), true).loss(percent(10.0)));
    for seed in 0..10 {
        let operations = vec![
            (ms(0), Operation::OpenPath(1)),
            (ms(400), Operation::Datagrams { side: Side::Server, count: 300, size: 500 }),
        ];
        let mut scenario = scenario(vec![path.clone(), path.clone()], operations);
        scenario.seed = seed;
        scenario.server.recovery = RecoveryKind::Cofuso;
        scenario.server.repair.accept = false;
        scenario.server.repair.m_max = 16;
        succeeds(&scenario);
    }
    for seed in [3_647, 10_808, 13_329] {
        succeeds(&Scenario::generate(seed));
    }
}

/// Limits that every packet runs into: the decoder and the pool of source symbols stay within them, and the transfer completes.
#[test]
fn memory_limits_are_reached_and_kept() {
    let path = PathPlan::symmetric(&link(20, 30).loss(percent(5.0)));
    let operations =
        vec![(ms(0), Operation::OpenPath(1)), (ms(300), exchange(Side::Client, 400_000, 400_000))];
    let mut scenario = scenario(vec![path.clone(), path], operations);
    for config in [&mut scenario.client, &mut scenario.server] {
        config.repair.decoder_memory = 6_000;
        config.repair.source_memory = 6_000;
    }
    let outcome = succeeds(&scenario);
    for side in 0..2 {
        let (stats, paths) = (&outcome.stats[side], &outcome.paths[side]);
        assert!(stats.decoder_memory_peak > 4_000 && stats.decoder_memory_peak <= 6_000, "{stats:?}");
        assert!(paths.iter().map(|p| p.packets_unprotected).sum::<u64>() > 0, "{paths:?}");
    }
}
