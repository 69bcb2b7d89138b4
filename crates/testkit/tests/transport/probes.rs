//! Probes of a connection whose only path has fallen silent.

use mendpath_testkit::response::{Exchange, PathPlan};
use netsim::{LinkConfig, Loss, Seed, network::Direction};
use proto::{ConnectionStats, Dir, PathStats, Side, TransportConfig};
use units::{BitRate, Duration, LossRate};

/// What one side sends in 20 seconds in which nothing arrives, copies left out.
struct Silence {
    packets: u64,
    bytes: u64,
}

fn silence(of: Side) -> Silence {
    let link = LinkConfig::new().rate(BitRate::from_mbps(10)).delay(Duration::from_millis(20));
    let paths = [PathPlan::symmetric(link, Loss::None)];
    let mut exchange = Exchange::establish(Seed(1), &paths, &TransportConfig::default());
    let everything = Loss::Bernoulli(LossRate::new(1.0).expect("a rate"));
    for direction in [Direction::Forward, Direction::Backward] {
        exchange.lose(0, direction, Seed(2), &everything);
    }
    let id = if of == Side::Client { exchange.client } else { exchange.server };
    let stats = |exchange: &Exchange| -> (PathStats, ConnectionStats) {
        let connection = exchange.world.connection(id);
        (connection.paths().remove(0), connection.stats())
    };
    let (path_before, before) = stats(&exchange);
    exchange.world.with(id, |c, _| {
        let stream = c.open(Dir::Uni).expect("a stream may be opened");
        assert_eq!(c.write(stream, b"is anybody there?"), Ok(17));
    });
    let end = exchange.world.now() + Duration::from_secs(20);
    exchange.world.run_until(end);
    let (path, after) = stats(&exchange);
    let copies = after.copies_sent - before.copies_sent;
    let bytes_of_copies = after.recovery_bytes_sent - before.recovery_bytes_sent;
    Silence {
        packets: path.packets_sent - path_before.packets_sent - copies,
        bytes: path.bytes_sent - path_before.bytes_sent - bytes_of_copies,
    }
}

/// A server that followed the client to another address may owe an answer that it may not send
/// before more has come from there.
#[test]
fn a_clients_probes_pay_for_three_datagrams_each_after_a_while() {
    let Silence { packets, bytes } = silence(Side::Client);
    assert!(packets >= 10, "{packets}");
    assert!(bytes >= (packets - 4) * 1_200, "{bytes} bytes in {packets} packets");
}

/// A server's would pay for nothing.
#[test]
fn a_servers_probes_stay_small() {
    let Silence { packets, bytes } = silence(Side::Server);
    assert!(packets >= 10, "{packets}");
    assert!(bytes < packets * 200, "{bytes} bytes in {packets} packets");
}
