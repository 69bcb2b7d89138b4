//! Paths with much under way: windows and buffers follow them, within their bounds. The full size
//! is `mendpath-tools long-paths`.

use mendpath_testkit::response::{Exchange, PathPlan};
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::TransportConfig;
use units::{BitRate, Bytes, Duration};

const MBPS: u64 = 20;

fn path(rtt_ms: u64) -> PathPlan {
    let product = MBPS * 125 * rtt_ms;
    let link = LinkConfig::new()
        .rate(BitRate::from_mbps(MBPS))
        .delay(Duration::from_millis(rtt_ms / 2))
        .queue(QueueSize::Bytes(Bytes(product.max(20_000))));
    PathPlan::symmetric(link, Loss::None)
}

#[test]
fn a_satellite_beside_a_short_path_is_used_within_bounded_memory() {
    let transport = TransportConfig::default();
    let paths = [path(600), path(20)];
    let mut exchange = Exchange::establish(Seed(1), &paths, &transport);
    let (client, start) = (exchange.client, exchange.world.now());
    // Ten round trips, and ten seconds that count.
    let (from, span) = (start + Duration::from_secs(6), Duration::from_secs(10));
    exchange.limit = Duration::from_secs(16);
    let (mut before, mut after, mut held) = (0, 0, 0);
    let ended = exchange.request_observed(100_000_000, &paths, |world, server| {
        after = world.connection(client).stats().stream_bytes_received;
        if world.now() < from {
            before = after;
        }
        held = held.max(world.connection(server).stream_stats().send_buffered);
    });
    assert!(ended.is_err(), "there is more to send than the limit leaves time for");
    let share = (after - before) as f64 * 8e-6 / (2 * MBPS) as f64 / span.as_secs_f64();
    assert!(share >= 0.9, "{share}");
    let receiver = exchange.world.connection(client).stream_stats();
    assert!(held <= transport.send_buffer, "{held}");
    assert!(receiver.receive_buffered_max <= transport.receive_window, "{receiver:?}");
    // What is under way and as much again: no more than the path has use for.
    let product = MBPS * 125 * 600 * 2;
    assert!(held <= 8 * product && receiver.receive_buffered_max <= 4 * product, "{held}, {receiver:?}");
}
