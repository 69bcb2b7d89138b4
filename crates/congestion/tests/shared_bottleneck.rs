//! `auto` with several paths: one flow's share where they meet in one bottleneck, and all that is
//! to be had where they do not. Bounds are generous; `mendpath-tools shared-bottleneck` prints what
//! the shipping transport does, docs/decisions/0021 has its tables.

mod network;

use mendpath_congestion::ControllerKind::{self, Auto, Cubic};
use network::{Chain, Link, Network, Path};
use units::Duration;

fn link(mbps: u64, rtt_ms: u64, buffer: f64) -> Link {
    Link::new(mbps, ((mbps * 125 * rtt_ms) as f64 * buffer) as u64)
}

/// Flows' shares that `auto` with so many paths takes beside one flow with one, from second 20 to
/// 50, and the share of the link that both take.
fn beside(other: ControllerKind, paths: usize, seed: u64, experiments: bool) -> (f64, f64) {
    let mut network = Network::new(&[link(25, 25, 1.0)], seed);
    network.experiments = experiments;
    let flow = network.flow(Auto, &vec![Path::new(25); paths], Duration::from_millis(13 * seed));
    network.flow(other, &[Path::new(25)], Duration::ZERO);
    let rates = network.goodput(20, 50);
    let both = rates[flow].iter().sum::<f64>();
    (both * 2.0 / (both + rates[1][0]), (both + rates[1][0]) / 25.0)
}

#[test]
fn paths_through_one_bottleneck_take_one_flow_s_share() {
    // Three may not be found before the measurement begins: uncoupled they would take 1.5.
    for (other, paths, most) in [(Cubic, 2, 1.2), (Auto, 2, 1.2), (Cubic, 3, 1.35)] {
        let shares = [1, 2, 3, 4, 5, 6].map(|seed| beside(other, paths, seed, true));
        let mean = shares.iter().map(|(share, _)| share).sum::<f64>() / shares.len() as f64;
        assert!((0.75..most).contains(&mean), "{paths} paths beside {other}: {shares:?}");
        assert!(shares.iter().all(|(_, link)| *link > 0.99), "{shares:?}");
    }
    let (uncoupled, _) = beside(Cubic, 2, 1, false);
    assert!(uncoupled > 1.2, "without experiments two flows' shares of three: {uncoupled}");
}

#[test]
fn alone_they_fill_the_link() {
    let mut network = Network::new(&[link(25, 25, 1.0)], 1);
    let flow = network.flow(Auto, &[Path::new(25), Path::new(25)], Duration::ZERO);
    let rates = network.goodput(5, 20);
    assert!(network.bottlenecks(flow).share(0, 1));
    assert!(rates[flow].iter().sum::<f64>() > 24.7, "{rates:?}");
}

/// What two paths over two links deliver in 30 s with experiments, relative to without; and whether
/// they were ever found to share.
fn separate(links: [Link; 2], paths: [Path; 2], others: usize, seed: u64) -> (f64, bool) {
    let mut delivered = [0.0; 2];
    let mut ever = false;
    for experiments in [false, true] {
        let mut network = Network::new(&links, seed);
        network.experiments = experiments;
        let flow = network.flow(Auto, &[paths[0], paths[1].over(1)], Duration::ZERO);
        for (at, path) in paths.into_iter().enumerate().take(others) {
            network.flow(Cubic, &[Path { loss: 0.0, ..path }.over(at)], Duration::from_millis(50));
        }
        for second in 1..=30 {
            network.run_until(Duration::from_secs(second));
            ever |= network.bottlenecks(flow).share(0, 1);
        }
        delivered[usize::from(experiments)] =
            (network.delivered(flow, 0) + network.delivered(flow, 1)) as f64;
    }
    (delivered[1] / delivered[0], ever)
}

#[test]
fn separate_bottlenecks_lose_nothing_by_being_asked() {
    let equal = [link(25, 25, 1.0); 2];
    let path = Path::new(25);
    let bursts = Chain::new(0.01, 0.2, 1.0);
    for (links, paths, others) in [
        // In lockstep: nothing but a hold tells them apart.
        (equal, [path, path], 0),
        ([link(25, 25, 0.5), link(10, 60, 2.0)], [path, Path::new(60)], 0),
        (equal, [path.jitter(5, false), path.jitter(5, false)], 0),
        (equal, [path.chain(bursts), path.loss(0.01)], 0),
        (equal, [path.chain(bursts), path.chain(bursts)], 0),
        (equal, [path, path], 1),
    ] {
        let (ratio, ever) = separate(links, paths, others, 1);
        assert!(!ever, "{paths:?}");
        assert!(ratio > 0.97, "{ratio} of what it was with {paths:?}");
    }
}

#[test]
fn a_change_of_route_is_found_out_both_ways() {
    let mut network = Network::new(&[link(25, 25, 1.0); 2], 1);
    let flow = network.flow(Auto, &[Path::new(25), Path::new(25)], Duration::ZERO);
    let wait = |network: &mut Network, wanted: bool, limit: u64| {
        let until = (1..).find(|s| {
            network.run_until(Duration::from_secs(*s));
            network.bottlenecks(flow).share(0, 1) == wanted || *s == limit
        });
        assert_eq!(network.bottlenecks(flow).share(0, 1), wanted, "after {until:?} s");
    };
    wait(&mut network, true, 10);
    network.path_mut(flow, 1).link = 1;
    wait(&mut network, false, 60);
    network.path_mut(flow, 1).link = 0;
    wait(&mut network, true, 120);
}

#[test]
fn a_path_that_is_cut_leaves_the_other_one_whole() {
    let mut network = Network::new(&[link(25, 25, 1.0)], 1);
    let flow = network.flow(Auto, &[Path::new(25), Path::new(25)], Duration::ZERO);
    network.run_until(Duration::from_secs(10));
    network.path_mut(flow, 1).loss = 1.0;
    let rates = network.goodput(15, 25);
    assert!(rates[flow][0] > 24.5, "{rates:?}");
}
