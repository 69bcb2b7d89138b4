//! Networks that delay packets unevenly: what comes late is not lost, and the window must not pay
//! for it.

use mendpath_testkit::{
    beside,
    response::{Exchange, PathPlan, Response},
};
use netsim::{LinkConfig, Loss, Seed, link::QueueSize};
use proto::{ControllerKind, RecoveryKind, TransportConfig};
use units::{BitRate, Duration, LossRate};

const SIZE: usize = 10_000_000;

/// 20 Mbit/s and 50 ms; packets may overtake each other by up to twice the jitter.
fn path(jitter: Duration) -> PathPlan {
    let link = LinkConfig::new()
        .rate(BitRate::from_mbps(20))
        .delay(Duration::from_millis(25))
        .queue(QueueSize::Packets(400));
    let link = if jitter.is_zero() { link } else { link.jitter(jitter).reordering(true) };
    PathPlan::symmetric(link, Loss::None)
}

fn respond(path: PathPlan, controller: ControllerKind) -> Response {
    respond_over(&[path], controller)
}

fn respond_over(paths: &[PathPlan], controller: ControllerKind) -> Response {
    let transport =
        TransportConfig { controller, recovery: RecoveryKind::None, ..TransportConfig::default() };
    Exchange::establish(Seed(6), paths, &transport).request(SIZE, paths).unwrap()
}

#[test]
fn reordering_costs_at_most_a_tenth_of_the_goodput() {
    for controller in ControllerKind::ALL {
        let in_order = respond(path(Duration::ZERO), *controller).completion;
        for jitter in [2, 5, 10] {
            let reordered = respond(path(Duration::from_millis(jitter)), *controller);
            let p = &reordered.paths[0];
            let what =
                format!("{controller}, {jitter} ms: {}, in order {in_order}; {p:?}", reordered.completion);
            assert!(reordered.completion.mul_f64(0.9) <= in_order, "{what}");
            assert!(p.spurious_losses > 0, "{what}");
            // What the queue dropped, and nothing else, is still taken for lost; but for the odd
            // packet that only carried an ACK (a receiver asks for one now and then), which nobody
            // misses.
            let (lost, dropped) = (p.packets_lost - p.spurious_losses, reordered.link_lost[0]);
            assert!((dropped.saturating_sub(4)..=dropped).contains(&lost), "{dropped} dropped: {what}");
            assert!(p.spurious_losses < 50, "the thresholds adapt: {what}");
        }
    }
}

#[test]
fn real_losses_beside_reordering_still_count() {
    let lossy = path(Duration::from_millis(5)).losing(Loss::Bernoulli(LossRate::new(0.01).unwrap()));
    let response = respond(lossy, ControllerKind::Cubic);
    let p = &response.paths[0];
    assert!(p.packets_lost - p.spurious_losses >= response.link_lost[0] * 9 / 10, "{p:?}");
    assert!(p.loss_estimate > 0.005, "{p:?}");
}

/// 20 Mbit/s with a mean delay of 16 ms each way, between none and 50.
fn jumping() -> LinkConfig {
    LinkConfig::new()
        .rate(BitRate::from_mbps(20))
        .delay(Duration::from_millis(10))
        .jitter(Duration::from_millis(40))
        .reordering(true)
        .queue(QueueSize::Packets(160))
}

#[test]
fn delays_that_jump_by_many_round_trips_leave_paths_full() {
    let path = PathPlan::symmetric(jumping(), Loss::None);
    let full = Duration::from_secs_f64(SIZE as f64 * 8.0 / 20e6);
    for controller in [ControllerKind::Auto, ControllerKind::Ctcp] {
        let alone = respond(path.clone(), controller);
        let p = &alone.paths[0];
        let what = format!("{controller}: {} of {full}; {p:?}", alone.completion);
        assert!(alone.completion.mul_f64(0.9) <= full, "{what}");
        assert!(p.packets_lost <= alone.link_lost[0] + 60, "the detector learns how late is late: {what}");
        assert!(p.rtt >= Duration::from_millis(20).into(), "round trips of what comes late count: {what}");
        let both = respond_over(&[path.clone(), path.clone()], controller);
        assert!(both.completion.mul_f64(0.85) <= full / 2, "{controller}: {} of {full}", both.completion);
    }
}

#[test]
fn delays_that_jump_leave_a_neighbour_its_share() {
    let transport = |controller| TransportConfig { controller, ..TransportConfig::default() };
    let transports = [ControllerKind::Auto, ControllerKind::Cubic].map(transport);
    let (warm_up, span) = (Duration::from_secs(3), Duration::from_secs(12));
    let shares = beside::run(Seed(6), &jumping(), &transports, warm_up, span);
    let rate = |n: usize| shares[n].delivered as f64 * 8e-6 / span.as_secs_f64();
    let (auto, cubic) = (rate(0), rate(1));
    assert!(auto + cubic >= 17.0, "the link is full: {auto}, {cubic}");
    assert!(cubic >= 0.35 * (auto + cubic), "{auto}, {cubic}");
}
