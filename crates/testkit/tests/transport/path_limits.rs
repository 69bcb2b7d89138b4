//! What an application lets a path carry: no faster than its cap, no copies where it is metered, and
//! nothing where it is paused, while the other path goes on as if it were alone.

use mendpath_testkit::response::{Exchange, PathPlan, Response};
use netsim::{
    LinkConfig, Loss, Seed,
    link::{OutageKind, QueueSize},
    network::Direction,
};
use proto::{PathId, PathLimits, PathUse, RecoveryKind, TransportConfig};
use units::{BitRate, Bytes, Duration, LossRate};

const SIZE: usize = 10_000_000;

/// 20 Mbit/s and 40 ms, with a queue of one bandwidth-delay product.
fn path(loss: f64) -> PathPlan {
    let (rate, rtt) = (BitRate::from_mbps(20), Duration::from_millis(40));
    let queue = QueueSize::Bytes(Bytes(rate.bytes_in(rtt)));
    let link = LinkConfig::new().rate(rate).delay(rtt / 2).queue(queue);
    let loss = if loss > 0.0 { Loss::Bernoulli(LossRate::new(loss).expect("a rate")) } else { Loss::None };
    PathPlan::symmetric(link, loss)
}

fn establish(paths: &[PathPlan]) -> Exchange {
    establish_with(Seed(1), paths)
}

fn establish_with(seed: Seed, paths: &[PathPlan]) -> Exchange {
    Exchange::establish(seed, paths, &TransportConfig::default())
}

fn metered() -> PathLimits {
    PathLimits { carries: PathUse::Metered, ..PathLimits::default() }
}

/// The server, which sends the responses, limits its second path.
fn limit(exchange: &mut Exchange, limits: PathLimits) {
    let limited = exchange.world.with(exchange.server, |c, _| c.set_path_limits(PathId(1), limits));
    limited.expect("both paths are there");
}

fn sent_on(exchange: &Exchange, path: usize) -> u64 {
    exchange.world.connection(exchange.server).paths()[path].bytes_sent
}

/// Asks for a response; also what the second path sent for it.
fn respond(exchange: &mut Exchange, paths: &[PathPlan]) -> (Response, u64) {
    let before = sent_on(exchange, 1);
    let response = exchange.request(SIZE, paths).expect("it completes");
    (response, sent_on(exchange, 1) - before)
}

fn alone() -> Duration {
    let paths = [path(0.0)];
    establish(&paths).request(SIZE, &paths).expect("it completes").completion
}

#[test]
fn a_capped_path_carries_its_cap_and_holds_nobody_up() {
    let paths = [path(0.0), path(0.0)];
    let mut exchange = establish(&paths);
    let cap = BitRate::from_mbps(2);
    limit(&mut exchange, PathLimits { rate: Some(cap), ..PathLimits::default() });
    let (response, carried) = respond(&mut exchange, &paths);
    let allowed = cap.bytes_in(response.completion);
    assert!(carried <= allowed + allowed / 10, "{carried} bytes where {allowed} are allowed");
    assert!(carried >= allowed / 2, "{carried} of {allowed} bytes: it helps as much as it may");
    assert!(response.completion <= alone(), "{} beside {}", response.completion, alone());
}

#[test]
fn a_paused_path_carries_no_data_until_it_is_resumed() {
    let paths = [path(0.0), path(0.0)];
    let mut exchange = establish(&paths);
    limit(&mut exchange, PathLimits { carries: PathUse::Paused, ..PathLimits::default() });
    let (response, carried) = respond(&mut exchange, &paths);
    assert!(carried < 20_000, "{carried} bytes of probes and ACKs");
    let alone = alone();
    assert!(response.completion <= alone + alone / 50, "{} beside {alone}", response.completion);
    limit(&mut exchange, PathLimits::default());
    let (_, carried) = respond(&mut exchange, &paths);
    assert!(carried > SIZE as u64 / 4, "{carried} bytes after it was resumed");
}

#[test]
fn a_metered_path_carries_data_and_no_recovery() {
    let paths = [path(0.02), path(0.0)];
    // Only the end of a response has time for recovery, and not each has lost something there.
    let recovery_on_second = |limits: PathLimits| -> u64 {
        let of_one = |seed| {
            let mut exchange = establish_with(Seed(seed), &paths);
            limit(&mut exchange, limits);
            let (response, carried) = respond(&mut exchange, &paths);
            assert!(carried > SIZE as u64 / 4, "{carried} bytes");
            response.paths[1].copies_sent + response.paths[1].repair_symbols_sent
        };
        (1..=6).map(of_one).sum()
    };
    assert!(recovery_on_second(PathLimits::default()) > 0, "else this shows nothing");
    assert_eq!(recovery_on_second(metered()), 0);
}

/// The scheduler's copies cost as much as recovery's.
#[test]
fn a_metered_path_carries_no_copies_of_what_is_late_on_another() {
    let paths = [path(0.0), path(0.0)];
    let transport = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
    let copies_from_a_dead_path = |limits| {
        let mut exchange = Exchange::establish(Seed(1), &paths, &transport);
        limit(&mut exchange, limits);
        let dies = exchange.links[0];
        exchange
            .world
            .network_mut()
            .change(dies, Direction::Backward, |link, now| link.cut(now, OutageKind::Drop));
        exchange.request(20_000, &paths).expect("it completes").stats.late_copies_sent
    };
    assert!(copies_from_a_dead_path(PathLimits::default()) > 0, "else this shows nothing");
    assert_eq!(copies_from_a_dead_path(metered()), 0);
}
