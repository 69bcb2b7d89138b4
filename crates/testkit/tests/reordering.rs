//! Networks that delay packets unevenly: what comes late is not lost, and the window must not pay
//! for it.

use mendpath_testkit::response::{Exchange, PathPlan, Response};
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
    PathPlan { up: link.clone(), down: link, loss: Loss::None }
}

fn respond(path: PathPlan, controller: ControllerKind) -> Response {
    let transport =
        TransportConfig { controller, recovery: RecoveryKind::None, ..TransportConfig::default() };
    let paths = [path];
    Exchange::establish(Seed(6), &paths, &transport).request(SIZE, &paths).unwrap()
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
    let lossy =
        PathPlan { loss: Loss::Bernoulli(LossRate::new(0.01).unwrap()), ..path(Duration::from_millis(5)) };
    let response = respond(lossy, ControllerKind::Cubic);
    let p = &response.paths[0];
    assert!(p.packets_lost - p.spurious_losses >= response.link_lost[0] * 9 / 10, "{p:?}");
    assert!(p.loss_estimate > 0.005, "{p:?}");
}
