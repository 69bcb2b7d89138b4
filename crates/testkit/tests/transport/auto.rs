//! `auto` over whole connections: as good as the best of the schemes, at a price that a loss-free
//! path does not notice.

use mendpath_testkit::response::{Exchange, PathPlan, Response};
use netsim::{LinkConfig, Loss, Seed, network::Direction};
use proto::{RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

/// Responses per row of a distribution.
const COUNT: u64 = 100;

fn path(mbps: u64, rtt_ms: u64) -> PathPlan {
    let link = LinkConfig::new().rate(BitRate::from_mbps(mbps)).delay(Duration::from_millis(rtt_ms) / 2);
    PathPlan::symmetric(link, Loss::None)
}

fn losing(path: PathPlan, loss: f64) -> PathPlan {
    path.losing(Loss::Bernoulli(LossRate::new(loss).unwrap()))
}

fn transport(recovery: RecoveryKind) -> TransportConfig {
    TransportConfig {
        recovery,
        initial_datagram_size: 1_452,
        max_datagram_size: 1_452,
        ..TransportConfig::default()
    }
}

fn respond(seed: Seed, paths: &[PathPlan], recovery: RecoveryKind, size: usize) -> Response {
    Exchange::establish(seed, paths, &transport(recovery)).request(size, paths).unwrap()
}

/// Mean and 99th percentile of completion times of 60 kB; the n-th response of every row meets the
/// same losses.
fn times(paths: &[PathPlan], recovery: RecoveryKind) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..COUNT)
        .map(|n| respond(Seed(3).child("response", n), paths, recovery, 60_000).completion)
        .collect();
    times.sort_unstable();
    let sum = times.iter().fold(Duration::ZERO, |sum, t| sum + *t);
    (sum / COUNT, times[(COUNT * 99).div_ceil(100) as usize - 1])
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const OTHERS: [RecoveryKind; 4] =
    [RecoveryKind::None, RecoveryKind::Fuso, RecoveryKind::Cofuso, RecoveryKind::Slp];

/// What keeps the tail short here is above all that the controller takes no loss among the first
/// packets for congestion, and does not measure the route with half a window in the middle of a
/// response.
#[test]
fn on_one_lossy_path_no_scheme_is_faster_and_the_tail_is_short() {
    let lossy = [losing(path(100, 50), 0.02)];
    let (mean, p99) = times(&lossy, RecoveryKind::Auto);
    for other in OTHERS {
        let (other_mean, other_p99) = times(&lossy, other);
        assert!(mean <= other_mean.mul_f64(1.02), "{mean}, {other} {other_mean}");
        assert!(p99 <= other_p99.mul_f64(1.02), "{p99}, {other} {other_p99}");
    }
    let (_, clean) = times(&[path(100, 50)], RecoveryKind::Auto);
    assert!(p99 <= clean.mul_f64(1.15), "{p99} with loss, {clean} without");
}

#[test]
fn with_a_clean_path_beside_the_lossy_one_the_tail_is_nearly_gone() {
    let lossy = [path(100, 50), losing(path(100, 50), 0.02)];
    let (_, auto) = times(&lossy, RecoveryKind::Auto);
    for other in OTHERS {
        let (_, other_p99) = times(&lossy, other);
        assert!(auto <= other_p99.mul_f64(1.02), "{auto}, {other} {other_p99}");
    }
    let (_, clean) = times(&[path(100, 50), path(100, 50)], RecoveryKind::Auto);
    assert!(auto <= clean.mul_f64(1.1), "{auto}, without loss {clean}");
}

/// The last packet before a pause is acknowledged late, which is no queue: else one that is lost soon after ends slow
/// start, and the response takes three times as long.
#[test]
fn an_ack_that_was_held_back_before_a_pause_makes_no_loss_congestion() {
    for lost in 0..12 {
        let paths = [path(266, 40).losing(Loss::nth([lost])), path(16, 300)];
        let took = respond(Seed(3), &paths, RecoveryKind::None, 300_000).completion;
        assert!(took <= ms(300), "packet {lost} is lost: {took}");
    }
}

#[test]
fn a_lost_response_of_one_packet_costs_no_timeout() {
    let clean = respond(Seed(1), &[path(100, 50)], RecoveryKind::Auto, 1_000);
    for nth in [0, 1] {
        let lossy = [path(100, 50).losing(Loss::nth([nth]))];
        let auto = respond(Seed(1), &lossy, RecoveryKind::Auto, 1_000);
        assert_eq!(auto.link_lost, [1]);
        assert!(auto.completion <= clean.completion + ms(2), "{} {}", auto.completion, clean.completion);
    }
    assert!(clean.stats.reasons.single > 0, "{:?}", clean.stats.reasons);
}

/// Where a burst takes the end of a response, its repair, the probes after it and some more, two probes a timeout
/// would need one timeout after the other, each twice as long.
#[test]
fn a_burst_at_the_end_of_a_response_costs_one_timeout() {
    let clean = respond(Seed(1), &[path(100, 50)], RecoveryKind::Auto, 25_000);
    let burst = [path(100, 50).losing(Loss::nth(14..30))];
    let [auto, none] =
        [RecoveryKind::Auto, RecoveryKind::None].map(|kind| respond(Seed(1), &burst, kind, 25_000));
    let [later, without] = [&auto, &none].map(|response| response.completion - clean.completion);
    assert_eq!(auto.link_lost, [16]);
    assert!(auto.stats.reasons.after_silence > 0, "{:?}", auto.stats.reasons);
    assert!(later < ms(400) && without > ms(2_000), "{later}, probes alone {without}");
}

/// The same where it takes the beginning of a set-up: the first packet, its copy, both probes and four more.
#[test]
fn a_burst_at_the_beginning_of_a_set_up_costs_one_timeout() {
    let [auto, none] = [RecoveryKind::Auto, RecoveryKind::None].map(|kind| {
        let clean = path(100, 50);
        let burst = PathPlan { up: clean.up.clone().loss(Loss::nth(0..8)), ..clean };
        Exchange::fetch(Seed(1), &burst, &transport(kind), 10_000).unwrap().0
    });
    // The probe timeout is a second here.
    assert!(auto < ms(2_000) && none > ms(7_000), "{auto}, probes alone {none}");
}

#[test]
fn bulk_without_loss_costs_less_than_two_per_cent() {
    for paths in [vec![path(50, 20)], vec![path(50, 20), path(50, 20)], vec![path(50, 20), path(12, 40)]] {
        for size in [3_000_000, 20_000_000] {
            let none = respond(Seed(2), &paths, RecoveryKind::None, size);
            let auto = respond(Seed(2), &paths, RecoveryKind::Auto, size);
            let extra = auto.stats.recovery_bytes_sent as f64 / auto.bytes_sent as f64;
            assert!(extra < 0.02, "{} paths, {size} B: {extra}", paths.len());
            // Data packets leave some headroom, so that symbols fit.
            assert!(
                auto.completion <= none.completion.mul_f64(1.05),
                "{} {}",
                auto.completion,
                none.completion
            );
        }
    }
}

#[test]
fn every_copy_and_symbol_has_a_reason() {
    let paths = [losing(path(100, 50), 0.05), path(100, 50)];
    let transport = transport(RecoveryKind::Auto);
    let reasons = || {
        let mut exchange = Exchange::establish(Seed(4), &paths, &transport);
        for size in [500, 60_000, 3_000, 200_000] {
            let stats = exchange.request(size, &paths).unwrap().stats;
            let why = stats.reasons;
            assert_eq!(why.block, stats.repair_symbols_sent, "{why:?}");
            let copies = stats.copies_sent - stats.late_copies_sent;
            assert_eq!(why.handshake + why.single + why.uncoded + why.after_silence, copies, "{why:?}");
        }
        exchange.world.connection(exchange.server).stats().reasons
    };
    let first = reasons();
    assert!(first.handshake == 0 && first.single > 0 && first.block > 0, "{first:?}");
    // The first path is known to lose packets now.
    let next = reasons();
    assert!(next.handshake > 0 && next.single > 0 && next.block > 0, "{next:?}");
}

/// Copies and symbols mend what chance loses, as the connection counts it, and go on to be sent.
#[test]
fn repair_of_chance_losses_is_not_in_vain() {
    for accept in [true, false] {
        let mut transport = transport(RecoveryKind::Auto);
        transport.repair.accept = accept;
        let paths = [losing(path(100, 50), 0.1)];
        let mut exchange = Exchange::establish(Seed(8), &paths, &transport);
        for _ in 0..150 {
            exchange.request(10_000, &paths).unwrap();
        }
        let stats = exchange.world.connection(exchange.server).stats();
        assert!(stats.packets_mended > 30, "decodes: {accept}: {} mended", stats.packets_mended);
        assert_eq!(stats.reasons.in_vain, 0, "decodes: {accept}: {:?}", stats.reasons);
    }
}

#[test]
fn without_a_decoder_there_are_copies() {
    let mut transport = transport(RecoveryKind::Auto);
    transport.repair.accept = false;
    let paths = [losing(path(100, 50), 0.05), path(100, 50)];
    let response = Exchange::establish(Seed(5), &paths, &transport).request(60_000, &paths).unwrap();
    assert!(response.stats.recovery.contains("does not decode"), "{}", response.stats.recovery);
    assert_eq!((response.stats.repair_symbols_sent, response.stats.reasons.block), (0, 0));
    assert!(response.stats.reasons.uncoded > 0, "{:?}", response.stats.reasons);
}

#[test]
fn a_dead_path_s_data_moves_and_the_books_say_so() {
    let dead = losing(path(100, 50), 1.0);
    let response = respond(Seed(6), &[path(100, 50), dead], RecoveryKind::Auto, 60_000);
    assert!(response.completion < ms(400), "{}", response.completion);
    assert!(response.stats.reasons.moved > 0, "{:?}", response.stats.reasons);
}

/// A connection that knows from another how good its path is does not pay for protection of what
/// will arrive anyway.
#[test]
fn what_one_connection_learns_serves_the_next() {
    let paths = [path(100, 50)];
    let spent = |transport: &TransportConfig, size| {
        let mut exchange = Exchange::establish(Seed(9), &paths, transport);
        let response = exchange.request(size, &paths).unwrap();
        let later = exchange.world.now() + ms(1_000);
        exchange.world.run_until(later);
        response.stats.recovery_bytes_sent - response.stats.reasons.handshake * 1_200
    };
    let shared = transport(RecoveryKind::Auto);
    let first = spent(&shared, 60_000);
    assert!(first > 0, "nothing is known of the path");
    spent(&shared, 5_000_000);
    assert!(spent(&shared, 60_000) < first / 2);
    // Nothing was lost in some ten thousand packets: eight will arrive as they are.
    spent(&shared, 15_000_000);
    assert_eq!(spent(&shared, 10_000), 0);
    assert_eq!(spent(&transport(RecoveryKind::Auto), 60_000), first, "a store of its own");
}

/// Small responses between larger ones do not make a path forget that a whole response left no queue:
/// of two that are as fast, the one that loses nothing carries most.
#[test]
fn the_clean_one_of_two_paths_carries_most_of_short_responses() {
    for kind in [RecoveryKind::None, RecoveryKind::Auto] {
        let paths = [path(100, 50), path(100, 50)];
        let mut exchange = Exchange::establish(Seed(10), &paths, &transport(kind));
        exchange.lose(0, Direction::Backward, Seed(11), &losing(path(100, 50), 0.02).loss);
        let mut paths_of_the_server = Vec::new();
        for size in [60_000, 100].repeat(30) {
            paths_of_the_server = exchange.respond(size, |_, _| {}).unwrap().paths;
        }
        let sent: Vec<_> = paths_of_the_server.iter().map(|path| path.bytes_sent).collect();
        assert!(sent[0] * 4 < sent[1] * 3, "{kind}: {sent:?}");
    }
}
