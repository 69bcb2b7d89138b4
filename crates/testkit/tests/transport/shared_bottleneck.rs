//! Several paths of a connection through one bottleneck and through several, over the shipping
//! transport. `mendpath-tools shared-bottleneck` prints more of it.

use mendpath_testkit::meeting::{Bottleneck, Flow, Meeting, Route};
use netsim::Seed;
use proto::{ControllerKind, PathId, TransportConfig};
use units::Duration;

fn meeting(links: &[Bottleneck], flows: &[Flow]) -> Meeting {
    seeded(1, links, flows)
}

fn seeded(seed: u64, links: &[Bottleneck], flows: &[Flow]) -> Meeting {
    Meeting::new(Seed(seed), links, flows, &TransportConfig::default())
}

fn auto(routes: &[Route]) -> Flow {
    Flow::new(ControllerKind::Auto, routes)
}

const LINK: (u64, u64, f64) = (10, 30, 1.0);

fn link() -> Bottleneck {
    Bottleneck::new(LINK.0, LINK.1, LINK.2)
}

fn over_one_link(seed: u64) -> Meeting {
    seeded(seed, &[link()], &[auto(&[Route::new(0, 30), Route::new(0, 30)])])
}

/// The second in which a run's paths are found to be a group, in so many.
fn found_within(run: &mut Meeting, seconds: u64) -> Option<u64> {
    (1..=seconds).find(|second| {
        run.run_until(Duration::from_secs(*second));
        run.is_one_group(0)
    })
}

#[test]
fn that_paths_share_a_link_is_found_out_within_seconds() {
    let found: Vec<_> = (1..=16).map(|seed| found_within(&mut over_one_link(seed), 10)).collect();
    let within = |limit| found.iter().flatten().filter(|second| **second <= limit).count();
    assert!(within(4) >= 12 && within(10) == 16, "{found:?}");
}

#[test]
fn paths_over_one_link_are_a_group_that_fills_it_and_part_when_one_moves() {
    let mut run = over_one_link(2);
    let found = found_within(&mut run, 40).expect("one queue is found out");
    assert!(run.paths(0).iter().all(|path| path.bottleneck == Some(PathId(0))));
    assert!(run.probes(0) >= 3, "no single experiment decides");
    let before = run.received(0);
    run.run_until(Duration::from_secs(found + 5));
    let goodput = (run.received(0) - before) as f64 * 8e-6 / 5.0;
    assert!(goodput > 9.2, "{goodput} of 10 Mbit/s, headers not counted");
    run.reroute(0, 1, &link());
    let parted = (1..=40).find(|second| {
        run.run_until(Duration::from_secs(found + 5 + second));
        !run.is_one_group(0)
    });
    assert!(parted.is_some(), "two queues are found out");
}

#[test]
fn paths_over_two_equal_links_fill_both_in_lockstep_and_are_no_group() {
    let mut run = meeting(&[link(), link()], &[auto(&[Route::new(0, 30), Route::new(1, 30)])]);
    for second in 1..=10 {
        run.run_until(Duration::from_secs(second));
        assert!(run.paths(0).iter().all(|path| path.bottleneck.is_none()), "second {second}");
    }
    assert!(run.probes(0) > 0, "they have been asked");
    let goodput = run.received(0) as f64 * 8e-6 / 10.0;
    assert!(goodput > 17.5, "{goodput} of 20 Mbit/s, set-up included");
}

#[test]
fn who_has_little_to_send_or_another_controller_is_not_held() {
    let both = [Route::new(0, 30), Route::new(0, 30)];
    let little = Flow { limit: Some(100_000), ..auto(&both) };
    let cubic = Flow::new(ControllerKind::Cubic, &both);
    let mut run = meeting(&[link()], &[little, cubic]);
    run.run_until(Duration::from_secs(5));
    assert_eq!((run.probes(0), run.probes(1)), (0, 0));
    assert!(run.received(0) > 350_000, "{}", run.received(0));
}
