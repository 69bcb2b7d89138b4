//! CTCP's lab claims (sections 6.2 to 6.4) for the controller alone: every packet that arrives
//! counts, as if the code were perfect.

mod network;

use mendpath_congestion::ControllerKind::{Ctcp, Cubic, NewReno};
use network::{
    Link, Network, Path,
    lab::{goodput_on_another_route, goodput_with_jitter, lab, pair},
};
use units::Duration;

#[test]
fn goodput_hardly_depends_on_loss() {
    for (quarters, loss) in [(5, 0.0), (5, 0.01), (5, 0.05), (5, 0.1), (5, 0.2), (1, 0.01), (1, 0.2)] {
        let mut network = lab(quarters, 1);
        network.flow(Ctcp, &[Path::new(25).loss(loss)], Duration::ZERO);
        let rate = network.goodput(0, 30)[0][0];
        assert!(rate >= 25.0 * (1.0 - loss) * 0.93, "loss {loss}, buffer {quarters}/4: {rate}");
        assert!(rate >= 25.0 * 0.93, "lost before the bottleneck: {rate}");
    }
}

#[test]
fn reno_in_the_same_lab_follows_the_root_of_loss() {
    let mut network = lab(5, 1);
    network.flow(NewReno, &[Path::new(25).loss(0.01)], Duration::ZERO);
    let rate = network.goodput(5, 35)[0][0];
    assert!((3.0..7.0).contains(&rate), "{rate}"); // 1.22 / sqrt(0.01) packets per round trip: 4.7 Mbit/s
}

#[test]
fn short_transfers_hardly_depend_on_loss() {
    for loss in [0.0, 0.05, 0.2] {
        let mut network = Network::new(&[Link::new(25, 39_062)], 3);
        network.flow(Ctcp, &[Path::new(10).loss(loss)], Duration::ZERO);
        let mut ms = 0;
        while network.delivered(0, 0) < 1_000_000 {
            ms += 10;
            network.run_until(Duration::from_millis(ms));
        }
        assert!(ms <= 500, "1 MB at loss {loss}: {ms} ms"); // 320 ms at best
    }
}

#[test]
fn two_flows_share_equally() {
    for loss in [0.0, 0.01, 0.05, 0.2] {
        let [a, b] = pair([Ctcp, Ctcp], 5, loss, 2);
        let share = a / (a + b);
        assert!((0.45..=0.55).contains(&share), "loss {loss}: {a} and {b}");
        assert!(a + b >= 25.0 * 0.93, "loss {loss}: {a} and {b}");
    }
}

#[test]
fn shares_a_loss_free_link_with_tcp() {
    for other in [NewReno, Cubic] {
        for (first, second) in [(Ctcp, other), (other, Ctcp)] {
            let [a, b] = pair([first, second], 5, 0.0, 4);
            assert!(a.min(b) >= 0.4 * (a + b), "{first} {a}, {second} {b}");
        }
    }
}

#[test]
fn takes_hardly_anything_from_tcp_on_a_lossy_link() {
    for loss in [0.01, 0.05] {
        let mean = |first| (1..=18).map(|seed| pair([first, NewReno], 5, loss, seed)[1]).sum::<f64>() / 18.0;
        let (with_ctcp, with_tcp) = (mean(Ctcp), mean(NewReno));
        // The queue that CTCP keeps makes the round trip a tenth longer, and Reno's rate is
        // inversely proportional to that.
        assert!(with_ctcp >= 0.85 * with_tcp, "loss {loss}: {with_ctcp} instead of {with_tcp}");
    }
}

#[test]
fn jitter_does_not_starve() {
    for rtt in [10, 25, 100] {
        for reorder in [false, true] {
            for loss in [0.0, 0.01, 0.05] {
                let rate = goodput_with_jitter(Ctcp, rtt, loss, reorder);
                assert!(rate >= 0.9 * 25.0, "{rtt} ms, loss {loss}, reordering {reorder}: {rate}");
            }
        }
    }
}

#[test]
fn survives_a_change_of_route() {
    for (before, after) in [(25, 75), (25, 30), (75, 25)] {
        let rate = goodput_on_another_route(Ctcp, before, after);
        assert!(rate >= 0.93 * 25.0, "{before} to {after} ms: {rate}");
    }
}

#[test]
fn who_comes_to_a_full_queue_does_not_take_it_for_the_route() {
    for other in [NewReno, Cubic] {
        let mut network = Network::new(&[Link::new(10, 39_062)], 8);
        network.flow(other, &[Path::new(25)], Duration::ZERO);
        network.flow(Ctcp, &[Path::new(25)], Duration::from_millis(6_300));
        let rates = network.goodput(15, 75);
        let share = rates[1][0] / (rates[0][0] + rates[1][0]);
        assert!((0.4..=0.6).contains(&share), "{share} beside {other}");
    }
}
