//! Datagrams that are `steady` leave out a path that loses packets, as long as there is another.

use mendpath_testkit::{
    response::{Exchange, PathPlan},
    world::Step,
};
use netsim::{LinkConfig, Loss, Seed, network::Direction};
use proto::{DatagramOptions, PathStats, RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

const EVERY: Duration = Duration::from_millis(1);
const SIZE: usize = 1_000;
/// What waits at most, as in a tunnel.
const ROOM: usize = 32 << 10;

/// Less than what is sent.
const RATE: BitRate = BitRate::from_mbps(7);

fn path(loss: f64) -> PathPlan {
    let link = LinkConfig::new().rate(RATE).delay(Duration::from_millis(25));
    PathPlan::symmetric(link, losses(loss))
}

fn losses(loss: f64) -> Loss {
    if loss == 0.0 { Loss::None } else { Loss::Bernoulli(LossRate::new(loss).unwrap()) }
}

fn connect(paths: &[PathPlan]) -> Exchange {
    let transport = TransportConfig { recovery: RecoveryKind::None, ..TransportConfig::default() };
    let mut exchange = Exchange::establish(Seed(5), paths, &transport);
    for (number, path) in paths.iter().enumerate() {
        let seed = Seed(6).child("loss", number as u64);
        exchange.lose(number, Direction::Backward, seed, &path.loss);
    }
    exchange
}

fn paths(exchange: &Exchange) -> Vec<PathStats> {
    exchange.world.connection(exchange.server).paths()
}

/// The server sends 8 Mbit/s for a time, or as much as the connection takes. The packets that each
/// path carried, and how many the second one lost, but for ACKs, which answer the client's questions
/// into the silence of a path that is left out.
fn send(exchange: &mut Exchange, time: Duration) -> ([u64; 2], u64) {
    let before = paths(exchange);
    let (client, server, end) = (exchange.client, exchange.server, exchange.world.now() + time);
    while exchange.world.now() < end {
        let options = DatagramOptions::new().steady().room(ROOM);
        exchange.world.with(server, |c, now| _ = c.send_datagram_with(now, vec![7; SIZE].into(), options));
        let until = exchange.world.now() + EVERY;
        while exchange.world.step(until) != Step::Limit {
            while exchange.world.poll_event(server).is_some() {}
            while exchange.world.poll_event(client).is_some() {}
            exchange.world.with(client, |c, _| while c.receive_datagram().is_some() {});
        }
    }
    let after = paths(exchange);
    let carried = [0, 1].map(|i| after[i].packets_sent - before[i].packets_sent);
    (carried, after[1].packets_lost - before[1].packets_lost)
}

const SECONDS: Duration = Duration::from_secs(1);

#[test]
fn a_path_that_loses_packets_is_left_out_and_tried_again() {
    let mut exchange = connect(&[path(0.0), path(0.02)]);
    let (_, lost) = send(&mut exchange, SECONDS * 2);
    assert!((2..10).contains(&lost), "{lost} until it was known");
    let (carried, lost) = send(&mut exchange, SECONDS * 25);
    assert!(carried[0] > 19_000 && carried[1] < 50 && lost == 0, "{carried:?}, {lost} lost");
    // Tried at 30 s, 60 s, 120 s and 240 s later each.
    let (carried, lost) = send(&mut exchange, SECONDS * 500);
    assert!((4..30).contains(&lost), "{carried:?}, {lost} lost");

    exchange.lose(1, Direction::Backward, Seed(1), &Loss::None);
    send(&mut exchange, SECONDS * 500);
    let (carried, lost) = send(&mut exchange, SECONDS * 5);
    assert!(carried[1] > 500 && lost == 0, "{carried:?}, {lost} lost");
}

#[test]
fn where_all_paths_lose_packets_all_are_used() {
    let mut exchange = connect(&[path(0.02), path(0.02)]);
    send(&mut exchange, SECONDS * 2);
    let (carried, _) = send(&mut exchange, SECONDS * 10);
    assert!(carried[0].min(carried[1]) > 1_000, "{carried:?}");
}

#[test]
fn a_path_that_carries_less_than_the_loss_leaves_is_not_enough() {
    let mut narrow = path(0.0);
    narrow.down = narrow.down.rate(BitRate(500_000));
    let mut exchange = connect(&[narrow, path(0.02)]);
    send(&mut exchange, SECONDS * 5);
    let (carried, _) = send(&mut exchange, SECONDS * 10);
    assert!(carried[1] > 5_000, "{carried:?}");
}

/// A copy that takes the lossy path takes nobody with it.
#[test]
fn what_goes_apart_over_the_lossy_path_goes_alone() {
    let mut exchange = connect(&[path(0.0), path(0.02)]);
    send(&mut exchange, SECONDS * 5);
    let (client, server) = (exchange.client, exchange.server);
    let (mut arrived, mut copies) = (0, 0);
    let lost = exchange.world.link_stats(exchange.links[1], Direction::Backward).lost;
    for _ in 0..2_000 {
        exchange.world.with(server, |c, now| {
            let apart = DatagramOptions::new().apart();
            c.send_datagram_with(now, vec![1; 100].into(), apart).unwrap();
            c.send_datagram_with(now, vec![0; 100].into(), DatagramOptions::new().steady()).unwrap();
        });
        let until = exchange.world.now() + EVERY * 5;
        while exchange.world.step(until) != Step::Limit {
            while exchange.world.poll_event(server).is_some() {}
            while exchange.world.poll_event(client).is_some() {}
            exchange.world.with(client, |c, _| {
                while let Some(data) = c.receive_datagram() {
                    arrived += u32::from(data[0] == 0 && data.len() == 100);
                    copies += u32::from(data[0] == 1);
                }
            });
        }
    }
    let lost = exchange.world.link_stats(exchange.links[1], Direction::Backward).lost - lost;
    assert!(lost > 10 && copies < 2_000, "{lost} lost, {copies} copies arrived");
    assert!(arrived > 1_980, "{arrived} of 2,000, of which a few are still on their way");
}

#[test]
fn a_stream_beside_them_uses_both_and_does_not_wait_for_them() {
    let mut exchange = connect(&[path(0.0), path(0.02)]);
    send(&mut exchange, SECONDS * 3);
    let before = paths(&exchange);
    let (client, mut next) = (exchange.client, exchange.world.now());
    let response = exchange.respond(4_000_000, |world, server| {
        if world.now() >= next {
            next = world.now() + EVERY * 4;
            let options = DatagramOptions::new().steady();
            world.with(server, |c, now| _ = c.send_datagram_with(now, vec![7; SIZE].into(), options));
        }
        world.with(client, |c, _| while c.receive_datagram().is_some() {});
    });
    let alone = SECONDS * 4 * 8 / 7;
    let completion = response.unwrap().completion;
    assert!(completion < alone, "{completion}, {alone} over the better path alone");
    let after = paths(&exchange);
    let bytes = [0, 1].map(|i| after[i].bytes_sent - before[i].bytes_sent);
    assert!(bytes[1] > 1_000_000, "{bytes:?}");
}
